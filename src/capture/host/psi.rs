//! Pressure files: `/proc/pressure/*`, and `*.pressure` of a cgroup.

use super::super::procfs::text::{lines, unsigned, words};
use super::files::HostFiles;
use crate::model::{PSI_HALF, Psi, PsiHalf, PsiResource, Value};

/// Reads the host's pressure; `None` if no resource has any.
pub(crate) fn host(files: &HostFiles<'_>) -> Option<Psi> {
    let psi = read(|resource| files.read(&files.roots.procfs.join("pressure").join(resource)).ok());
    (psi != Psi::default()).then_some(psi)
}

/// Reads the pressure of each resource with a readable file. If pressure accounting is disabled, the
/// files exist but opening them fails.
pub(crate) fn read(mut file: impl FnMut(&str) -> Option<Vec<u8>>) -> Psi {
    let mut parsed = |resource| file(resource).and_then(|text| parse(&text));
    Psi { cpu: parsed("cpu"), memory: parsed("memory"), io: parsed("io"), irq: parsed("irq") }
}

fn parse(text: &[u8]) -> Option<PsiResource> {
    let half = |name: &[u8]| lines(text).find_map(|line| parse_half(line.strip_prefix(name)?));
    let resource = PsiResource { some: half(b"some "), full: half(b"full ") };
    (resource != PsiResource::default()).then_some(resource)
}

/// `avg10=0.00 avg60=0.00 avg300=0.00 total=0`: all values or none.
fn parse_half(line: &[u8]) -> Option<PsiHalf> {
    let mut half = PsiHalf::default();
    for field in PSI_HALF {
        let value = |pair: &'_ [u8]| number(pair.strip_prefix(field.source.as_bytes())?.strip_prefix(b"=")?);
        let number = words(line).find_map(value)?;
        field.set(&mut half, Value::Unsigned(number)).ok()?;
    }
    Some(half)
}

/// A whole number, or a percentage such as `12.34` as 1234.
fn number(text: &[u8]) -> Option<u64> {
    let Some(point) = memchr::memchr(b'.', text) else { return unsigned(text) };
    let (whole, fraction) = text.split_at(point);
    let [b'.', tens, ones] = fraction else { return None };
    unsigned(whole)?.checked_mul(100)?.checked_add(unsigned(&[*tens, *ones])?)
}

#[cfg(test)]
mod tests {
    use super::super::super::options::Roots;
    use super::*;

    #[test]
    fn averages_are_hundredths_of_a_percent() {
        // Linux 7.2.
        let text =
            b"some avg10=5.09 avg60=0.99 avg300=100.21 total=707667\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        let cpu = parse(text).unwrap();
        let some = cpu.some.unwrap();
        let averages = [some.avg10, some.avg60, some.avg300].map(|average| average.unwrap().number());
        assert_eq!((averages, some.total_usec.unwrap().number()), ([509, 99, 10_021], 707_667));
        assert_eq!(cpu.full.unwrap().avg10.unwrap().number(), 0);
        assert!((some.avg10.unwrap().percent() - 5.09).abs() < 1e-9);
    }

    #[test]
    fn interrupts_have_only_full_pressure() {
        let irq = parse(b"full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n").unwrap();
        assert_eq!((irq.some, irq.full.unwrap().total_usec.unwrap().number()), (None, 17));
    }

    #[test]
    fn malformed_pressure_is_absent() {
        for text in [
            &b""[..],
            b"some avg10=x avg60=0.00 avg300=0.00 total=0",
            b"some avg10=700.00 avg60=0.00 avg300=0.00 total=x",
            b"some avg10=70000.00 avg60=0.00 avg300=0.00 total=0",
            b"some avg10=0.00 total=0",
            b"some avg10=0.0 avg60=0.00 avg300=0.00 total=0",
        ] {
            assert_eq!(parse(text), None, "{}", text.escape_ascii());
        }
        let roots = Roots { procfs: "/nonexistent".into(), ..Roots::default() };
        assert_eq!(host(&HostFiles::new(&roots)), None);
    }
}
