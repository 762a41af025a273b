//! A part of a series by its times: `12s..20s`, `12:03:05..`, `..2026-11-23T12:03:05Z`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

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
    /// Date and time, in the time zone of this host.
    Local(DateTime),
    At(Timestamp),
    /// Time since the start, as a date: at the start, clocks showed dates that go on like this.
    Dated(Timestamp),
}

/// Where a part begins or ends, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartEnd {
    /// Time since the start of the series.
    Since(u64),
    /// Time since 1970, as the clock showed it: that may have been set since the start.
    Shown(u64),
}

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
        let has_only = |marks: &[u8]| text.bytes().all(|byte| byte.is_ascii_digit() || marks.contains(&byte));
        // Each of these parsers passes over a date, an offset or a zone that it has no place for. Ids of exported parts end at a slash,
        // which the name of a zone can have.
        let clock = || text.parse().ok().filter(|_| has_only(b":.")).map(Self::Clock);
        let at = || text.parse().ok().filter(|_| !text.contains('[')).map(Self::At);
        let local = || text.parse().ok().filter(|_| has_only(b"-:. Tt")).map(Self::Local);
        // A clock time is also how long a duration can be written.
        let time = seconds().map(Self::Since).or_else(clock).or_else(at).or_else(local);
        time.or_else(|| friendly().map(Self::Since))
    }

    /// Whether it is what the clock showed, which may have been set since the start.
    fn is_shown(self) -> bool {
        matches!(self, Self::Clock(_) | Self::Local(_) | Self::At(_))
    }

    /// Returns the time in nanoseconds since 1970. Of the days on which there is a time of day, it is the first one `after` a time,
    /// else the last one of the series; outside of it, the day on which it is nearest.
    fn unix_ns(self, [start, end]: [u64; 2], after: Option<u64>, zone: &TimeZone) -> u64 {
        match self {
            Self::Since(time) => start.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            Self::At(time) | Self::Dated(time) => nanoseconds(time),
            // `None` is out of the range of times.
            Self::Local(time) => zone.to_ambiguous_timestamp(time).compatible().map_or(u64::MAX, nanoseconds),
            Self::Clock(time) => {
                let near = after.unwrap_or(end);
                let times = on_days_around(time, near, zone);
                let first_later = times.iter().copied().find(|time| *time > near).unwrap_or(u64::MAX);
                let last_earlier = times.into_iter().rfind(|time| *time <= near).unwrap_or(0);
                let is_earlier = match after {
                    None => last_earlier >= start || start - last_earlier <= first_later.saturating_sub(end),
                    // An end that is nearer to the time before it than to the series is written in the wrong place.
                    Some(after) => {
                        first_later > end && last_earlier >= start && first_later - end > after - last_earlier
                    }
                };
                if is_earlier { last_earlier } else { first_later }
            }
        }
    }
}

/// The moments at which local clocks show a time of day, on the days around a moment.
fn on_days_around(time: Time, unix_ns: u64, zone: &TimeZone) -> Vec<u64> {
    let day = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or(Timestamp::MAX).to_zoned(zone.clone()).date();
    let days = (-1..=1).filter_map(|days| day.checked_add(days.days()).ok());
    // Where clocks are put back, they show a time twice.
    let moments = days.flat_map(|day| {
        let shown = zone.to_ambiguous_timestamp(day.to_datetime(time));
        [shown.earlier(), shown.later()]
    });
    let moments: BTreeSet<_> = moments.flatten().map(nanoseconds).collect();
    moments.into_iter().collect()
}

fn nanoseconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or(0)
}

impl fmt::Display for SeriesRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl SeriesRange {
    /// Whether the end of the series decides where the part is.
    #[must_use]
    pub fn has_time_of_day(&self) -> bool {
        [self.from, self.to].into_iter().flatten().any(|time| matches!(time, SeriesTime::Clock(_)))
    }

    /// The same part by dates: also where the ends of the series, in nanoseconds since 1970, are no longer known.
    #[must_use]
    pub fn dated(&self, ends: [u64; 2]) -> Self {
        let [from_ns, to_ns] = self.unix_ns(ends, &local_zone());
        let dated = |time: Option<SeriesTime>, unix_ns: Option<u64>| {
            let date = Timestamp::from_nanosecond(unix_ns?.into()).unwrap_or(Timestamp::MAX);
            Some(if time?.is_shown() { SeriesTime::At(date) } else { SeriesTime::Dated(date) })
        };
        Self { text: self.text.clone(), from: dated(self.from, from_ns), to: dated(self.to, to_ns) }
    }

    /// Where the part of a series begins and ends, whose `ends` are in nanoseconds since 1970.
    #[must_use]
    pub fn ends(&self, ends: [u64; 2]) -> [PartEnd; 2] {
        let (times, since, unix) = ([self.from, self.to], self.since(ends), self.unix_ns(ends, &local_zone()));
        std::array::from_fn(|end| match unix[end] {
            Some(unix_ns) if times[end].is_some_and(SeriesTime::is_shown) => PartEnd::Shown(unix_ns),
            _ => PartEnd::Since(since[end]),
        })
    }

    /// Returns both ends in nanoseconds since the start of the series, if its clock was never set, whose `ends` are in nanoseconds since 1970.
    #[must_use]
    pub fn since(&self, ends: [u64; 2]) -> [u64; 2] {
        self.since_in(ends, &local_zone())
    }

    /// Whether it ends before it begins, or then, in such a series.
    #[must_use]
    pub fn is_backwards(&self, ends: [u64; 2]) -> bool {
        matches!(self.unix_ns(ends, &local_zone()), [Some(from), Some(to)] if from >= to)
    }

    fn since_in(&self, ends: [u64; 2], zone: &TimeZone) -> [u64; 2] {
        let [from, to] = self.unix_ns(ends, zone).map(|end| end.map(|end| end.saturating_sub(ends[0])));
        [from.unwrap_or(0), to.unwrap_or(u64::MAX)]
    }

    fn unix_ns(&self, ends: [u64; 2], zone: &TimeZone) -> [Option<u64>; 2] {
        let from = self.from.map(|from| from.unix_ns(ends, None, zone));
        [from, self.to.map(|to| to.unix_ns(ends, from, zone))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3_600 * SECOND;
    const DAY: u64 = 24 * HOUR;
    /// 2024-10-04T12:00:00.5Z
    const START: u64 = 20_000 * DAY + 12 * HOUR + SECOND / 2;

    /// The ends of a part of a series of some hours, after its start.
    fn since_of(range: &str, hours: u64) -> Option<[u64; 2]> {
        Some(range.parse::<SeriesRange>().ok()?.since_in([START, START + hours * HOUR], &TimeZone::UTC))
    }

    fn since(range: &str) -> Option<[u64; 2]> {
        since_of(range, 1)
    }

    #[test]
    fn times_of_a_part_are_offsets_times_of_the_day_or_dates() {
        assert_eq!(since("12s..20s"), Some([12 * SECOND, 20 * SECOND]));
        assert_eq!(since("1.5..1m30s"), Some([SECOND * 3 / 2, 90 * SECOND]));
        assert_eq!(since(".."), Some([0, u64::MAX]));
        assert_eq!(since("12:00:02..12:01"), Some([SECOND * 3 / 2, SECOND * 119 / 2]));
        assert_eq!(since("12:00:00.."), Some([0, u64::MAX]), "half a second before the start");
        assert_eq!(since("11:00:00..").unwrap()[0], 0, "before the start");
        assert_eq!(since("13:30:00..").unwrap()[0], 3 * HOUR / 2 - SECOND / 2, "after the end");
        assert_eq!(since("10s..12:01").unwrap(), [10 * SECOND, SECOND * 119 / 2]);
        assert_eq!(since("2024-10-04T12:00:01Z.."), Some([SECOND / 2, u64::MAX]));
        for wrong in ["12s", "a..b", "5..-3", "12s...13s"] {
            assert_eq!(since(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_date_or_an_offset_of_a_time_counts_or_is_refused() {
        let second = Some([SECOND / 2, u64::MAX]);
        for right in ["2024-10-04T14:00:01+02:00..", "20241004T120001..", "2024-10-04 12:00:01..", "12:00:01.."] {
            assert_eq!(since(right), second, "{right}");
        }
        assert_eq!(since("2024-10-05T12:00:01..").unwrap()[0], 24 * HOUR + SECOND / 2, "the day after");
        assert_eq!(since("2024-10-04T11:00:01-05:00..").unwrap()[0], 4 * HOUR + SECOND / 2);
        let berlin = "2024-10-04T14:00:01..".parse::<SeriesRange>().unwrap();
        assert_eq!(berlin.since_in([START, START + HOUR], &TimeZone::get("Europe/Berlin").unwrap())[0], SECOND / 2);
        for wrong in [
            "12:00:01+05:00..",
            "12:00:01Z..",
            "2024-10-04-05:00..",
            "2024-10-04T12:00:01Z[Europe/London]..",
            "12:00:01[UTC]..",
        ] {
            assert_eq!(since(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_time_of_day_is_the_last_one_of_a_series_of_days() {
        let half = SECOND / 2;
        let of_days = |range: &str| since_of(range, 48).unwrap();
        assert_eq!(of_days("11:30..11:35"), [47 * HOUR + HOUR / 2 - half, 47 * HOUR + 7 * HOUR / 12 - half]);
        assert_eq!(
            of_days("23:50..00:10"),
            [36 * HOUR - HOUR / 6 - half, 36 * HOUR + HOUR / 6 - half],
            "over midnight"
        );
        assert_eq!(of_days("..00:10"), [0, 36 * HOUR + HOUR / 6 - half]);
        assert_eq!(of_days("0s..12:30")[1], HOUR / 2 - half, "the first one after a time");
        assert_eq!(
            since_of("19:00..08:00", 18).unwrap(),
            [7 * HOUR - half, 20 * HOUR - half],
            "over a night that ends later"
        );
        assert_eq!(since("08:00..23:00"), Some([0, 11 * HOUR - half]), "longer than the series on both sides");
        let swapped = since_of("14:00..12:30", 4).unwrap();
        assert!(swapped[1] < swapped[0], "{swapped:?}");
        assert_eq!(of_days("12:00:00..12:05")[0], 48 * HOUR - half, "half a second before its end");
    }

    #[test]
    fn times_of_the_day_are_those_of_the_local_clock_also_after_it_was_put_back() {
        let since = |zone: &str, day: u64, range: &str| {
            let start = day * DAY + 12 * HOUR;
            let zone = TimeZone::get(zone).unwrap();
            range.parse::<SeriesRange>().unwrap().since_in([start, start + 20 * HOUR], &zone)[0]
        };
        assert_eq!(since("Europe/Berlin", 20_000, "14:00:10.."), 10 * SECOND, "two hours east");
        assert_eq!(since("America/Sao_Paulo", 20_000, "14:00:10.."), 5 * HOUR + 10 * SECOND, "three hours west");
        assert_eq!(since("Europe/Berlin", 20_022, "05:00:00.."), 16 * HOUR, "in the night to 2024-10-27");
        assert_eq!(since("Europe/Berlin", 20_022, "02:30:00.."), 13 * HOUR + HOUR / 2, "the second one of this night");
    }

    #[test]
    fn a_part_by_dates_is_the_same_of_a_series_that_has_lost_its_start() {
        let start = 20_000 * DAY;
        for (range, later) in [
            ("12s..20s", [2 * SECOND, 10 * SECOND]),
            ("2024-10-04T00:00:11Z..", [SECOND, u64::MAX]),
            ("..2024-10-04T00:00:12Z", [0, 2 * SECOND]),
        ] {
            let ends = [start, start + HOUR];
            let dated = range.parse::<SeriesRange>().unwrap().dated(ends);
            assert_eq!(dated.since([start + 10 * SECOND, start + HOUR]), later);
            assert_eq!(dated.to_string(), range);
        }
    }
}
