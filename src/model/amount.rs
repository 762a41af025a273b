//! Sizes and times as people write them: one grammar for options and gates, and one time zone for what is read and shown.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use std::{env, fs};

use jiff::SignedDuration;
use jiff::tz::TimeZone;

/// Units of sizes, in bytes. Units of one letter are powers of 1024, like units with `i`.
const SIZES: [(&str, f64); 13] = [
    ("B", 1.0),
    ("K", KIB),
    ("M", KIB * KIB),
    ("G", KIB * KIB * KIB),
    ("T", KIB * KIB * KIB * KIB),
    ("KiB", KIB),
    ("MiB", KIB * KIB),
    ("GiB", KIB * KIB * KIB),
    ("TiB", KIB * KIB * KIB * KIB),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
];
const KIB: f64 = 1024.0;

/// The bytes of a size with a unit, such as `64MB`, `1.5 GiB` or `512M`; `None` for anything else. Units of one letter are capitals:
/// `m` are minutes.
pub(crate) fn bytes_written(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let unit = unit.trim_start();
    let is_named = |name: &str| name == unit || (name.len() > 1 && name.eq_ignore_ascii_case(unit));
    let (_, size) = SIZES.iter().find(|(name, _)| is_named(name))?;
    number.parse::<f64>().ok().map(|number| number * size)
}

/// A time with units, such as `10s`, `1m 30s` or `500 ms`; `None` for anything else.
pub(crate) fn time_written(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()
}

/// More than any file of a time zone has.
const LARGEST_ZONE: u64 = 1 << 20;

/// The time zone of this host, as `TZ` or `/etc/localtime` has it; UTC without one. `TZ` can name a file, which is read whole:
/// of a FIFO or a device, that would take forever.
pub(crate) fn local_zone() -> TimeZone {
    let is_no_zone = |path: &OsStr| fs::metadata(path).is_ok_and(|file| !file.is_file() || file.len() > LARGEST_ZONE);
    let name = env::var_os("TZ").unwrap_or_default();
    let path = OsStr::from_bytes(name.as_bytes().strip_prefix(b":").unwrap_or(name.as_bytes()));
    // A directory that has the name of a zone is none.
    let is_named = || path.to_str().is_some_and(|name| jiff::tz::db().get(name).is_ok());
    if is_no_zone(path) && !is_named() { TimeZone::UTC } else { TimeZone::try_system().unwrap_or(TimeZone::UTC) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_of_powers_of_1000_if_its_unit_ends_with_b_and_has_no_i() {
        let all = ["64MB", "64MiB", "64M", "64 mib", "1.5kb", "7B"].map(bytes_written);
        assert_eq!(all, [64e6, 67_108_864.0, 67_108_864.0, 67_108_864.0, 1500.0, 7.0].map(Some));
        assert_eq!(["64", "64m", "64X", "-1M", "M", "", "1.2.3M", "64Mi"].map(bytes_written), [None; 8]);
    }

    #[test]
    fn a_time_can_have_several_units() {
        let all = ["500ms", "1.5s", "1m 30s", "2 h", "7us", "7\u{b5}s"].map(time_written);
        let micros = [500_000, 1_500_000, 90_000_000, 7_200_000_000, 7, 7];
        assert_eq!(all, micros.map(|micros| Some(Duration::from_micros(micros))));
        assert_eq!(["5", "-1s", "1M", "s", ""].map(time_written), [None; 5]);
    }
}
