//! Pressure files: `/proc/pressure/*`, and `*.pressure` of a cgroup.

use std::fs;
use std::path::Path;

use super::super::procfs::text::unsigned;
use crate::model::{Psi, PsiHalf, PsiResource};

/// Reads the host's pressure; `None` where no resource has any.
pub(in crate::capture) fn host(procfs: &Path) -> Option<Psi> {
    let psi = read(|resource| fs::read(procfs.join("pressure").join(resource)).ok());
    (psi != Psi::default()).then_some(psi)
}

/// Reads the pressure of each resource whose file can be had. Where pressure accounting is switched
/// off, the files are there but refuse.
pub(in crate::capture) fn read(file: impl Fn(&str) -> Option<Vec<u8>>) -> Psi {
    let of = |resource| file(resource).and_then(|text| parse(&text));
    Psi { cpu: of("cpu"), memory: of("memory"), io: of("io"), irq: of("irq") }
}

fn parse(text: &[u8]) -> Option<PsiResource> {
    let half = |name: &[u8]| text.split(|&b| b == b'\n').find_map(|line| parse_half(line.strip_prefix(name)?));
    let resource = PsiResource { some: half(b"some "), full: half(b"full ") };
    (resource != PsiResource::default()).then_some(resource)
}

/// `avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn parse_half(line: &[u8]) -> Option<PsiHalf> {
    let value = |key: &[u8]| line.split(|&b| b == b' ').find_map(|pair| pair.strip_prefix(key));
    Some(PsiHalf {
        avg10: hundredths(value(b"avg10=")?)?,
        avg60: hundredths(value(b"avg60=")?)?,
        avg300: hundredths(value(b"avg300=")?)?,
        total_usec: unsigned(value(b"total=")?)?,
    })
}

/// `12.34` as 1234.
fn hundredths(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = text.split_at_checked(memchr::memchr(b'.', text)?)?;
    let [b'.', tens, ones] = fraction else { return None };
    u16::try_from(unsigned(whole)?.checked_mul(100)? + unsigned(&[*tens, *ones])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_hundredths_of_a_percent() {
        // Linux 7.2.
        let text =
            b"some avg10=5.09 avg60=0.99 avg300=100.21 total=707667\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        let cpu = parse(text).unwrap();
        let some = cpu.some.unwrap();
        assert_eq!((some.avg10, some.avg60, some.avg300, some.total_usec), (509, 99, 10_021, 707_667));
        assert_eq!(cpu.full, Some(PsiHalf::default()));
        assert!((some.avg10_percent() - 5.09).abs() < 1e-9);
    }

    #[test]
    fn interrupts_have_no_half_called_some() {
        let irq = parse(b"full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n").unwrap();
        assert_eq!((irq.some, irq.full.unwrap().total_usec), (None, 17));
    }

    #[test]
    fn what_is_no_pressure_is_absent() {
        for text in [
            &b""[..],
            b"some avg10=x avg60=0.00 avg300=0.00 total=0",
            b"some avg10=0.00 total=0",
            b"some avg10=0.0 avg60=0.00 avg300=0.00 total=0",
        ] {
            assert_eq!(parse(text), None, "{}", text.escape_ascii());
        }
        assert_eq!(host(Path::new("/nonexistent")), None);
    }
}
