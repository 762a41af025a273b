//! Parsers of kernel text: bytes in, values out. Nothing here opens a file.

use std::borrow::Cow;
use std::collections::HashMap;

use memchr::{memchr, memchr_iter, memrchr};

use crate::model::{Metric, Shape, Unit, Value};

/// The largest valid CPU number: no kernel is built for more (`NR_CPUS`).
const MAX_CPU: u32 = 65_535;
const MAX_CPUS: usize = 65_536;

pub(in crate::capture) fn unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(())?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Hexadecimal digits without a prefix.
pub(in crate::capture) fn hexadecimal(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// An integer with or without sign.
pub(in crate::capture) fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(unsigned(digits)?),
        None => i64::try_from(unsigned(text)?).ok(),
    }
}

/// A time that the kernel prints as `milliseconds.nanoseconds`, in nanoseconds: six digits after
/// the point, padded or cut.
pub(in crate::capture) fn dotted_ms(text: &[u8]) -> Option<u64> {
    let point = memchr(b'.', text)?;
    let fraction = &text[point + 1..];
    let six = &fraction[..fraction.len().min(6)];
    let padding = 10u64.pow(u32::try_from(6 - six.len()).ok()?);
    fraction.iter().all(u8::is_ascii_digit).then_some(())?;
    let ms = unsigned(&text[..point])?.checked_mul(1_000_000)?;
    ms.checked_add(unsigned(six)?.checked_mul(padding)?)
}

pub(in crate::capture) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\n')
}

pub(in crate::capture) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&b| b == b' ').filter(|word| !word.is_empty())
}

/// A number of bytes, or one of KiB, which the kernel prints as `1024 kB`.
fn bytes(text: &[u8]) -> Option<u64> {
    match text.strip_suffix(b" kB") {
        Some(kib) => unsigned(kib)?.checked_mul(1024),
        None => unsigned(text),
    }
}

/// The id of a thread in the PID namespace that its process is in, by its `status`.
pub(in crate::capture) fn innermost_id(status: &[u8]) -> Option<u32> {
    let ids = lines(status).find_map(|line| line.strip_prefix(b"NSpid:"))?;
    let last = ids.rsplit(u8::is_ascii_whitespace).next().and_then(unsigned);
    last.and_then(|id| u32::try_from(id).ok())
}

/// A list of ranges such as `0-3,8`.
pub(in crate::capture) fn cpu_list(text: &[u8]) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.trim_ascii().split(|&b| b == b',').filter(|range| !range.is_empty()) {
        let (first, last) = match memchr(b'-', range) {
            Some(at) => (&range[..at], &range[at + 1..]),
            None => (range, range),
        };
        let end = |text| unsigned(text).and_then(|n| u32::try_from(n).ok()).filter(|&n| n <= MAX_CPU);
        cpus.extend(end(first)?..=end(last)?);
        (cpus.len() <= MAX_CPUS).then_some(())?;
    }
    Some(cpus)
}

/// A field of `stat` with its number in proc_pid_stat(5).
type NumberedField<'t> = (u8, &'t [u8]);

/// Splits a text of `stat` into the name and the fields from field 3 on. The name ends at the last `)`,
/// because it may contain `)` itself.
pub(in crate::capture) fn stat(text: &[u8]) -> Option<(&[u8], impl Iterator<Item = NumberedField<'_>>)> {
    let name = memchr(b'(', text)? + 1;
    let end = memrchr(b')', text).filter(|&end| end >= name)?;
    let fields = text[end + 1..].trim_ascii().split(|&byte| byte == b' ');
    Some((&text[name..end], (3..=u8::MAX).zip(fields.take_while(|field| !field.is_empty()))))
}

/// Fields of `stat` that are no metrics; `None` if they are absent or do not parse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::capture) struct StatFields {
    /// The letter of the state.
    pub(in crate::capture) state: Option<u8>,
    /// The id of the parent process.
    pub(in crate::capture) ppid: Option<u32>,
    /// The `PF_` flags of `include/linux/sched.h`.
    pub(in crate::capture) flags: Option<u64>,
    /// In `USER_HZ` ticks since boot.
    pub(in crate::capture) start: Option<u64>,
    /// Resident pages of the process.
    pub(in crate::capture) rss_pages: Option<u64>,
}

impl StatFields {
    /// Parses a text of `stat` into the name and these fields, and passes all others to `each`.
    pub(in crate::capture) fn parse(text: &[u8], mut each: impl FnMut(NumberedField<'_>)) -> Option<(&[u8], Self)> {
        let (name, fields) = stat(text)?;
        let mut stat = Self::default();
        for (number, field) in fields {
            match number {
                3 => stat.state = field.first().copied(),
                4 => stat.ppid = unsigned(field).and_then(|id| u32::try_from(id).ok()),
                9 => stat.flags = unsigned(field),
                22 => stat.start = unsigned(field),
                24 => stat.rss_pages = unsigned(field),
                _ => each((number, field)),
            }
        }
        Some((name, stat))
    }

    /// The fields of a text of `stat`.
    pub(in crate::capture) fn from_text(text: &[u8]) -> Option<Self> {
        Self::parse(text, |_| {}).map(|(_, fields)| fields)
    }
}

/// The value of a metric in kernel text, by the metric's shape. A time with a point is a
/// [`dotted_ms`].
pub(in crate::capture) fn value(metric: &Metric, text: &[u8]) -> Option<Value<'static>> {
    match metric.shape {
        Shape::Unsigned if metric.unit == Unit::Ns && memchr(b'.', text).is_some() => {
            dotted_ms(text).map(Value::Unsigned)
        }
        Shape::Unsigned if metric.unit == Unit::Bytes => bytes(text).map(Value::Unsigned),
        Shape::Unsigned => unsigned(text).map(Value::Unsigned),
        Shape::Signed => signed(text).map(Value::Signed),
        Shape::Letter => text.first().map(|&letter| Value::Letter(letter.into())),
        Shape::Flag => unsigned(text).map(|flag| Value::Flag(flag != 0)),
        Shape::Cpus => cpu_list(text).map(|cpus| Value::Cpus(Cow::Owned(cpus))),
        _ => None,
    }
}

/// Reads `key: value` files and remembers the metric of each line: the kernel prints the files of all
/// threads alike, so most lines need one comparison.
pub(in crate::capture) struct Keyed {
    metrics_by_key: HashMap<&'static [u8], &'static Metric>,
    /// Lines that were seen, by their index; `None` for lines that are not remembered.
    seen: Vec<Option<SeenLine>>,
}

struct SeenLine {
    key: Box<[u8]>,
    metric: Option<&'static Metric>,
}

impl Keyed {
    /// A reader for the given keys. In files, keys may have a prefix that ends with a point.
    pub(in crate::capture) fn new(metrics_by_key: impl IntoIterator<Item = (&'static str, &'static Metric)>) -> Self {
        let metrics_by_key = metrics_by_key.into_iter().map(|(key, metric)| (key.as_bytes(), metric)).collect();
        Self { metrics_by_key, seen: Vec::new() }
    }

    /// Calls `found` for each line of `text` with a known key.
    pub(in crate::capture) fn each(&mut self, text: &[u8], mut found: impl FnMut(&'static Metric, &[u8])) {
        let mut start = 0;
        for (number, end) in memchr_iter(b'\n', text).chain([text.len()]).enumerate() {
            let line = &text[start..end];
            start = (end + 1).min(text.len());
            if let Some((metric, value)) = self.line(number, line) {
                found(metric, value.trim_ascii());
            }
        }
    }

    fn line<'t>(&mut self, number: usize, line: &'t [u8]) -> Option<(&'static Metric, &'t [u8])> {
        if let Some(Some(seen)) = self.seen.get(number)
            && let Some(rest) = line.strip_prefix(&*seen.key)
            && let [b' ' | b':', ..] = rest
        {
            let metric = seen.metric?;
            return Some((metric, &rest[memchr(b':', rest)? + 1..]));
        }
        let colon = memchr(b':', line)?;
        let key = line[..colon].trim_ascii_end();
        let metric = self.find(key);
        self.remember(number, key, metric);
        Some((metric?, &line[colon + 1..]))
    }

    fn find(&self, key: &[u8]) -> Option<&'static Metric> {
        let last = memrchr(b'.', key).map_or(key, |point| &key[point + 1..]);
        self.metrics_by_key.get(key).or_else(|| self.metrics_by_key.get(last)).copied()
    }

    /// More lines, and longer keys, than any kernel prints are not remembered.
    fn remember(&mut self, number: usize, key: &[u8], metric: Option<&'static Metric>) {
        if number < 256 && key.len() <= 64 {
            self.seen.resize_with(self.seen.len().max(number + 1), || None);
            self.seen[number] = Some(SeenLine { key: key.into(), metric });
        }
    }
}

/// The part of a text of `sched` after its heading. The heading starts with the thread's name, which may
/// contain newlines and so imitate any line. The rule below it is longer than any name.
pub(in crate::capture) fn after_heading(text: &[u8]) -> &[u8] {
    const RULE: &[u8] = b"\n--------------------------------";
    match memchr::memmem::find(text, RULE) {
        Some(at) => memchr(b'\n', &text[at + 1..]).map_or(&[], |end| &text[at + end + 2..]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::METRICS;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"18446744073709551616", b"-1", b"1 ", b"0x1", b"1.5", b"1:", b"1/"] {
            assert_eq!(unsigned(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(signed(b"-100"), Some(-100));
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775808"), None);
    }

    #[test]
    fn dotted_times_are_padded_or_cut_to_nanoseconds() {
        for (text, ns) in [
            (&b"867.284409"[..], 867_284_409),
            (b"0.000000", 0),
            (b"1.5", 1_500_000),
            (b"2.1234567", 2_123_456),
            (b"18446744073709.551615", u64::MAX),
        ] {
            assert_eq!(dotted_ms(text), Some(ns), "{}", text.escape_ascii());
        }
        for bad in [&b"18446744073709.551616"[..], b"-1.000000", b"1.", b".5", b"1.2x", b"12", b"1.0000000x"] {
            assert_eq!(dotted_ms(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn bytes_are_printed_as_such_or_in_kib() {
        // Linux 6.12, `status` and `io`.
        for (name, text, bytes) in [("rss_anon_bytes", &b"1632 kB"[..], 1632 << 10), ("rchar", b"2012", 2012)] {
            assert_eq!(value(metric(name), text), Some(Value::Unsigned(bytes)), "{name}");
        }
        for bad in [&b"kB"[..], b" kB", b"1 MB", b"18446744073709551615 kB"] {
            assert_eq!(value(metric("swap_bytes"), bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn cpu_lists_are_expanded_within_reason() {
        assert_eq!(cpu_list(b"0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list(b"\n"), Some(vec![]));
        for bad in [&b"0-4294967295"[..], b"x", b"1-", b"65536"] {
            assert_eq!(cpu_list(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(cpu_list(&b"0-65535,".repeat(9)), None);
    }

    #[test]
    fn a_name_with_parentheses_blanks_and_newlines_does_not_shift_the_fields() {
        let (name, mut fields) = stat(b"7 (a) S 1 (b\n) R 0 0\n").unwrap();
        assert_eq!(name, b"a) S 1 (b\n");
        assert_eq!(fields.next(), Some((3, &b"R"[..])));
        for bad in [&b""[..], b"7 name S", b"7 )(", b"7 ("] {
            assert!(stat(bad).is_none(), "{}", bad.escape_ascii());
        }
    }

    fn metric(name: &str) -> &'static Metric {
        METRICS.iter().find(|metric| metric.name == name).unwrap()
    }

    fn all(keyed: &mut Keyed, text: &str) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        keyed.each(text.as_bytes(), |m, value| found.push((m.name, String::from_utf8_lossy(value).into_owned())));
        found
    }

    #[test]
    fn keys_are_found_by_their_last_part_wherever_the_kernel_puts_them() {
        let mut keyed = Keyed::new([("wait_max", metric("wait_max")), ("ext.enabled", metric("ext_enabled"))]);
        let wait = |value: &str| ("wait_max", value.to_owned());
        // Linux 5.10, then 6.1 and later, then a thread whose lines differ.
        assert_eq!(all(&mut keyed, "se.statistics.wait_max    :   0.009879\nx : 1\n"), [wait("0.009879")]);
        assert_eq!(all(&mut keyed, "wait_max         :   4.497269\n"), [wait("4.497269")]);
        assert_eq!(all(&mut keyed, "y : 2\nwait_max:3\nprev_wait_max : 4"), [wait("3")]);
        assert_eq!(all(&mut keyed, "wait_max_x : 1\n"), []);
        assert_eq!(all(&mut keyed, "ext.enabled : 1\nse.enabled : 0\n"), [("ext_enabled", "1".to_owned())]);
    }

    #[test]
    fn a_line_remembered_under_one_key_is_not_read_as_another() {
        let mut keyed = Keyed::new([("a", metric("minflt")), ("ab", metric("majflt"))]);
        assert_eq!(all(&mut keyed, "a: 1"), [("minflt", "1".to_owned())]);
        assert_eq!(all(&mut keyed, "ab: 2"), [("majflt", "2".to_owned())]);
        assert_eq!(all(&mut keyed, "a : 3"), [("minflt", "3".to_owned())]);
    }

    #[test]
    fn a_thread_name_cannot_forge_a_line_of_sched() {
        let text = b"x\nwait_max:9.9 (7, #threads: 1)\n-------------------------------------------------------------------\nnr_switches : 1\n";
        assert_eq!(after_heading(text), b"nr_switches : 1\n");
        assert_eq!(after_heading(b"no heading : 1\n"), b"no heading : 1\n");
        assert_eq!(after_heading(b"x\n----------------------------------"), b"");
    }

    #[test]
    fn lines_are_remembered_in_bounded_memory() {
        let mut keyed = Keyed::new([("a", metric("minflt"))]);
        let (longest, too_long) = ("k".repeat(64), "k".repeat(65));
        let text = format!("a: 1\n{longest}: 1\n{too_long}: 1\n{}", "a: 2\n".repeat(1000));
        assert_eq!(all(&mut keyed, &text).len(), 1001, "all lines are read");
        let remembered: Vec<_> = keyed.seen.iter().map(|line| line.as_ref().map(|line| line.key.len())).collect();
        assert_eq!((remembered.len(), &remembered[..3]), (256, &[Some(1), Some(64), None][..]));
        assert_eq!(all(&mut keyed, &text).len(), 1001, "whether remembered or not");
    }

    #[test]
    fn lines_are_read_the_same_way_in_every_file() {
        let mut keyed = Keyed::new([("a", metric("minflt"))]);
        let text = format!(" {}.a: 1\na: 2\n", "k".repeat(65));
        let first = all(&mut keyed, &text);
        assert_eq!((first.len(), all(&mut keyed, &text)), (2, first));
    }

    #[test]
    fn a_unit_belongs_to_bytes_only() {
        assert_eq!(value(metric("minflt"), b"7"), Some(Value::Unsigned(7)));
        assert_eq!(value(metric("minflt"), b"7 kB"), None);
    }
}
