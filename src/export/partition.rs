//! The partition of a capture: the day, and the host. Names of hosts come from files, and can be anything.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::CaptureFile;

/// Directory names of a partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Partition {
    /// `date=2026-11-22`, in UTC.
    pub(super) date: String,
    /// `host=NAME`.
    pub(super) host: String,
}

/// The value in the name of a directory that engines show as NULL.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Maximum number of bytes of a host in the name of a directory: with a hash after it, less than the 255 of a file
/// name.
const LONGEST_HOST: usize = 160;

impl Partition {
    fn new(capture: &CaptureFile) -> Self {
        let day = |ns: u64| {
            let captured = Timestamp::from_nanosecond(ns.into()).expect("64 bits of nanoseconds end in the year 2554");
            captured.strftime("%Y-%m-%d").to_string()
        };
        let date = capture.identity.captured_at_unix_ns.map(day);
        let host = capture.identity.host.as_deref().filter(|host| !host.is_empty());
        Self {
            date: format!("date={}", date.as_deref().unwrap_or(NULL)),
            host: format!("host={}", host.map_or(NULL.to_owned(), directory_name)),
        }
    }
}

/// The captures of each partition, in their order.
pub(super) fn partitions(captures: Vec<CaptureFile>) -> BTreeMap<Partition, Vec<CaptureFile>> {
    let mut partitions = BTreeMap::<_, Vec<_>>::new();
    for capture in captures {
        partitions.entry(Partition::new(&capture)).or_default().push(capture);
    }
    partitions
}

/// A host's name as a part of a directory name: percent-encoded, so that nothing in it has a meaning; with a hash
/// in place of its end if it is long.
fn directory_name(host: &str) -> String {
    let mut name = String::new();
    for byte in host.bytes() {
        let encoded = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        if name.len() + encoded.len() > LONGEST_HOST {
            return format!("{name}~{}", &blake3::hash(host.as_bytes()).to_hex()[..32]);
        }
        name += &encoded;
    }
    name
}

/// Divides the captures of a partition into those of each existing file, given its captures, and the others. A file whose
/// captures are all here is written again; those of the other files are left out, so that no capture is in two files.
pub(super) fn parts(captures: Vec<CaptureFile>, existing: &[Vec<String>]) -> (Vec<Vec<CaptureFile>>, Vec<CaptureFile>) {
    let here: BTreeSet<String> = captures.iter().map(|capture| capture.identity.capture_id.clone()).collect();
    let (mut again, mut new) = (vec![Vec::new(); existing.len()], Vec::new());
    for capture in captures {
        match existing.iter().position(|file| file.contains(&capture.identity.capture_id)) {
            Some(file) if existing[file].iter().all(|id| here.contains(id)) => again[file].push(capture),
            Some(_) => {}
            None => new.push(capture),
        }
    }
    again.retain(|captures| !captures.is_empty());
    (again, new)
}

#[cfg(test)]
mod tests {
    use super::super::identity::Identity;
    use super::*;
    use crate::store::PartPath;

    fn capture(id: &str, host: Option<&str>) -> CaptureFile {
        let host = host.map(str::to_owned);
        let identity = Identity {
            capture_id: id.to_owned(),
            host,
            captured_at_unix_ns: Some(1_700_000_000_000_000_000),
            window_ns: None,
            step: None,
        };
        CaptureFile { part: PartPath { file: id.into(), range: None }, identity }
    }

    #[test]
    fn a_hosts_name_is_one_segment_of_a_path_whatever_is_in_it() {
        for (host, directory) in [
            (Some("web-01.example"), "host=web-01.example"),
            (Some("../x"), "host=..%2Fx"),
            (Some(".."), "host=.."),
            (Some("a b=c%"), "host=a%20b%3Dc%25"),
            (Some("größe"), "host=gr%C3%B6%C3%9Fe"),
            (Some("a\0\n"), "host=a%00%0A"),
            (Some(""), "host=__HIVE_DEFAULT_PARTITION__"),
            (None, "host=__HIVE_DEFAULT_PARTITION__"),
        ] {
            assert_eq!(Partition::new(&capture("1", host)).host, directory);
        }
        assert_eq!(Partition::new(&capture("1", None)).date, "date=2023-11-14");
    }

    #[test]
    fn long_names_of_hosts_are_cut_and_stay_different() {
        let names = ["x".repeat(300), "x".repeat(301), "ß".repeat(300)].map(|host| directory_name(&host));
        assert!(names.iter().all(|name| name.len() <= 255 - "host=".len()), "{names:?}");
        assert_ne!(names[0], names[1]);
        assert!(!names[2].split('~').next().unwrap().ends_with("%C"), "no encoded byte is cut");
    }

    #[test]
    fn no_capture_is_in_two_files() {
        let ids = |file: Vec<CaptureFile>| -> Vec<String> {
            file.into_iter().map(|capture| capture.identity.capture_id).collect()
        };
        let captures = || ["a", "b", "c"].map(|id| capture(id, None)).to_vec();
        let parts = |existing: &[&[&str]]| {
            let existing: Vec<Vec<String>> =
                existing.iter().map(|file| file.iter().map(|id| (*id).to_owned()).collect()).collect();
            let (again, new) = super::parts(captures(), &existing);
            (again.into_iter().map(ids).collect::<Vec<_>>().concat().join(" "), ids(new).join(" "))
        };
        let is = |again: &str, new: &str| (again.to_owned(), new.to_owned());
        assert_eq!(parts(&[]), is("", "a b c"));
        assert_eq!(parts(&[&["a", "b", "c"]]), is("a b c", ""), "the same again");
        assert_eq!(parts(&[&["b"]]), is("b", "a c"), "one more");
        assert_eq!(parts(&[&["b", "x"]]), is("", "a c"), "that file stays as it is");
        assert_eq!(parts(&[&["a", "x"], &["b", "c", "y"]]), is("", ""));
    }
}
