//! A part of a series by its times: `12s..20s`, `12:03:05..`, `..2026-11-23T12:03:05Z`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Time;

use crate::model::{local_zone, time_written};

/// Range of a series, between two times. A missing time is the start or the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesRange {
    /// Text of the range, as the user wrote it.
    text: String,
    from: Option<SeriesTime>,
    to: Option<SeriesTime>,
}

/// A time of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeriesTime {
    /// Time since the start of the series.
    Since(Duration),
    /// Time of the day, in the time zone of this host.
    Clock(Time),
    At(Timestamp),
}

const NS_PER_DAY: u64 = 86_400 * 1_000_000_000;
/// A time of the day that is further from the start of a series is before it.
const LONGEST_NS: u64 = 23 * 3_600 * 1_000_000_000;

impl FromStr for SeriesRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected a part such as 10s..20s or 12:03:05.., found `{text}`");
        let (from, to) = text.split_once("..").ok_or_else(expected)?;
        let time = |text: &str| match text {
            "" => Ok(None),
            text => SeriesTime::parse(text).map(Some).ok_or_else(expected),
        };
        Ok(Self { text: text.to_owned(), from: time(from)?, to: time(to)? })
    }
}

impl SeriesTime {
    fn parse(text: &str) -> Option<Self> {
        let seconds = || Duration::try_from_secs_f64(text.parse().ok()?).ok();
        let friendly = || time_written(text);
        let clock = || text.parse().ok().map(Self::Clock);
        let at = || text.parse().ok().map(Self::At);
        // A clock time is also how long a duration can be written.
        seconds().map(Self::Since).or_else(clock).or_else(at).or_else(|| friendly().map(Self::Since))
    }

    /// Returns the nanoseconds since the start of the series, at which a clock in UTC shows this time of day.
    fn since(self, start: u64, clock_ns: u64) -> u64 {
        match self {
            Self::Since(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Self::Clock(time) => {
                let clock = time.duration_since(Time::midnight()).as_nanos();
                let clock = u64::try_from(clock).unwrap_or(0) + NS_PER_DAY;
                let since = (clock - clock_ns % NS_PER_DAY) % NS_PER_DAY;
                if since > LONGEST_NS { 0 } else { since }
            }
            Self::At(time) => u64::try_from(time.as_nanosecond()).unwrap_or(0).saturating_sub(start),
        }
    }
}

impl fmt::Display for SeriesRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl SeriesRange {
    /// The same part by dates: also where the start of the series, in nanoseconds since 1970, is no longer known.
    #[must_use]
    pub fn dated(&self, start: u64) -> Self {
        let dated = |time: SeriesTime| {
            let unix_ns = start.saturating_add(time.since(start, local_ns(start)));
            SeriesTime::At(Timestamp::from_nanosecond(unix_ns.into()).unwrap_or(Timestamp::MAX))
        };
        Self { text: self.text.clone(), from: self.from.map(dated), to: self.to.map(dated) }
    }

    /// Returns both ends in nanoseconds since the start of the series. `start` is in nanoseconds since 1970.
    #[must_use]
    pub fn since(&self, start: u64) -> [u64; 2] {
        self.since_clock(start, local_ns(start))
    }

    fn since_clock(&self, start: u64, clock_ns: u64) -> [u64; 2] {
        let since = |time: Option<SeriesTime>, missing| time.map_or(missing, |time| time.since(start, clock_ns));
        [since(self.from, 0), since(self.to, u64::MAX)]
    }
}

/// Returns the time that a clock in UTC would have to show, to show the same time of day as a local clock.
fn local_ns(unix_ns: u64) -> u64 {
    let time = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or_default();
    let offset = local_zone().to_offset(time).seconds();
    unix_ns.saturating_add_signed(i64::from(offset) * 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(range: &str) -> Option<[u64; 2]> {
        // 12:00:00.5
        let start = 20_000 * NS_PER_DAY + 43_200_500_000_000;
        Some(range.parse::<SeriesRange>().ok()?.since_clock(start, start))
    }

    #[test]
    fn times_of_a_part_are_offsets_times_of_the_day_or_dates() {
        let second = 1_000_000_000;
        assert_eq!(since("12s..20s"), Some([12 * second, 20 * second]));
        assert_eq!(since("1.5..1m30s"), Some([second * 3 / 2, 90 * second]));
        assert_eq!(since(".."), Some([0, u64::MAX]));
        assert_eq!(since("12:00:02..12:01"), Some([second * 3 / 2, second * 119 / 2]));
        assert_eq!(since("12:00:00.."), Some([0, u64::MAX]), "half a second before the start");
        assert_eq!(since("11:00:00..").unwrap()[0], 23 * 3600 * second - second / 2, "the next day");
        assert_eq!(since("11:00:00.5..").unwrap()[0], 23 * 3600 * second, "and the last time of it");
        assert_eq!(since("11:00:00.6..").unwrap()[0], 0, "within the hour before the start");
        assert_eq!(since("2024-10-04T12:00:01Z.."), Some([second / 2, u64::MAX]));
        for wrong in ["12s", "a..b", "5..-3", "12s...13s"] {
            assert_eq!(since(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_of_the_day_are_those_of_the_local_clock() {
        let (start, hour) = (20_000 * NS_PER_DAY + 43_200_000_000_000, 3_600_000_000_000);
        let range: SeriesRange = "14:00:10..".parse().unwrap();
        assert_eq!(range.since_clock(start, start + 2 * hour)[0], 10_000_000_000, "two hours east");
        assert_eq!(range.since_clock(start, start - 3 * hour)[0], 5 * hour + 10_000_000_000, "three hours west");
    }

    #[test]
    fn a_part_by_dates_is_the_same_of_a_series_that_has_lost_its_start() {
        let (second, start) = (1_000_000_000, 20_000 * NS_PER_DAY);
        for (range, later) in [
            ("12s..20s", [2 * second, 10 * second]),
            ("00:00:11..", [second, u64::MAX]),
            ("..2024-10-04T00:00:12Z", [0, 2 * second]),
        ] {
            let dated = range.parse::<SeriesRange>().unwrap().dated(start);
            assert_eq!((dated.since(start + 10 * second), dated.to_string()), (later, range.to_owned()));
        }
    }
}
