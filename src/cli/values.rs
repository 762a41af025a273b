//! Parsers of the values of options.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, Resettable, TypedValueParser};

use super::Format;
use crate::capture::Smaps;
use crate::compare::{
    Names, OverviewColumn, Quantity, SelectError, SortKey, Threshold, Units, parse_metric_or, parse_section,
    parse_sort_key,
};
use crate::model::sorted::CollectSorted;
use crate::model::{Section, bytes_written, time_written};
use crate::report::Column;
use crate::store::Keep;

/// Returns a parser of some variants of an enum. The help of the option gives their meaning, in one sentence.
pub(super) fn one_of_variants<T: ValueEnum + Send + Sync + 'static>(
    variants: &[T],
) -> impl TypedValueParser<Value = T> + use<T> {
    let values = variants.iter().filter_map(T::to_possible_value);
    let values = values.map(|value| value.help(Resettable::Reset));
    PossibleValuesParser::new(values).map(|name| T::from_str(&name, false).expect("the parser knows the names"))
}

/// When to read `smaps_rollup`; another option has the limit of `auto`.
pub(super) fn smaps() -> impl TypedValueParser<Value = Smaps> {
    let all = [Smaps::default(), Smaps::Always, Smaps::Never];
    let named = move |name: String| all.into_iter().find(|smaps| smaps.name() == name);
    PossibleValuesParser::new(all.map(Smaps::name)).map(move |name| named(name).expect("the parser knows the names"))
}

/// A column of the overview that groups have.
pub(super) fn overview_column() -> impl TypedValueParser<Value = &'static OverviewColumn> {
    let names = OverviewColumn::of_groups().map(|column| column.name);
    PossibleValuesParser::new(names).map(|name| OverviewColumn::named(&name).expect("the parser knows the names"))
}

/// Parses values with names, which shells complete and help lists.
#[derive(Clone)]
pub(super) struct NamedParser<T> {
    names: fn() -> Vec<&'static str>,
    parse: fn(&str) -> Result<T, SelectError>,
}

pub(super) const METRICS: NamedParser<MetricChoice> =
    NamedParser { names: || Quantity::all().map(Quantity::name).chain(table_columns()).collect(), parse: parse_choice };
pub(super) const SORT_KEYS: NamedParser<SortKey> = NamedParser {
    names: || Quantity::all().filter(|value| value.has_order()).map(Quantity::name).collect(),
    parse: parse_sort_key,
};
pub(super) const SECTIONS: NamedParser<Section> =
    NamedParser { names: || Section::ALL.iter().copied().map(Section::name).collect(), parse: parse_section };

/// Name in `--metrics`: a value of groups, or a column of tables with a row per value.
#[derive(Clone, Copy, Debug)]
pub(super) enum MetricChoice {
    OfGroups(Quantity),
    OfTable(Column),
}

fn table_columns() -> impl Iterator<Item = &'static str> {
    Column::ALL.iter().copied().map(Column::name)
}

fn parse_choice(name: &str) -> Result<MetricChoice, SelectError> {
    let of_table = Column::named(name).map(MetricChoice::OfTable);
    let of_groups = || parse_metric_or(name, table_columns()).map(MetricChoice::OfGroups);
    of_table.map_or_else(of_groups, Ok)
}

/// Whether names are shown as they are.
pub(super) fn names() -> impl TypedValueParser<Value = Names> {
    PossibleValuesParser::new(["merged", "exact"])
        .map(|name| if name == "exact" { Names::Literal } else { Names::Patterns })
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for NamedParser<T> {
    type Value = T;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&clap::Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let parse = self.parse;
        TypedValueParser::parse_ref(&move |name: &str| parse(name.trim()), command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

pub(super) fn pid(text: &str) -> Result<u32, String> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| {
        "expected process ids such as 1234 or 1234,1240; `pgrep -d, NAME` prints those of a name".to_owned()
    })
}

/// A path of what is read or written by its name.
pub(super) fn named_path(path: PathBuf) -> Result<PathBuf, &'static str> {
    let is_named = path != Path::new("-");
    is_named.then_some(path).ok_or("expected a path; standard input and output are none (`./-` is a file of that name)")
}

/// How many captures of a fleet one stands for.
pub(super) fn weight(text: &str) -> Result<f64, String> {
    let weight = text.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight > 0.0);
    weight.ok_or_else(|| "expected a number above 0, such as 100 for one host or window in 100".to_owned())
}

/// A time such as `10s`, `1m 30s` or `500ms`; a number alone is in seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time such as 10s, 500ms or 2m".to_owned();
    let seconds = text.parse::<f64>().ok().map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_| expected()));
    match seconds.unwrap_or_else(|| time_written(text).ok_or_else(expected))? {
        Duration::ZERO => Err("expected a time longer than 0".to_owned()),
        time if u64::try_from(time.as_nanos()).is_err() => Err("expected a time below 584 years".to_owned()),
        time => Ok(time),
    }
}

/// A time after a slash, such as `/10s`.
pub(super) fn multiple(text: &str) -> Result<Duration, String> {
    let period = text.strip_prefix('/').and_then(|period| duration(period).ok());
    period.ok_or_else(|| "expected a slash and a time, such as /10s for the next multiple of ten seconds".to_owned())
}

const EXPECTED_SIZE: &str = "expected a size such as 512M, 512MiB or 512MB";

/// A percentage such as `5%`, up to 1000%.
pub(super) fn threshold(text: &str) -> Result<Threshold, String> {
    percentage(text, 1000.0).map(Threshold)
}

/// Parses an argument of `--export`: a format and a file, such as `html=report.html`.
pub(super) fn exported_file(text: &str) -> Result<(Format, PathBuf), String> {
    let (format, file) = text.split_once('=').filter(|(_, file)| !file.is_empty()).ok_or(EXPECTED_EXPORT)?;
    let formats = || Format::value_variants().iter().filter(|format| **format != Format::Perfetto);
    let format = formats().find(|listed| listed.to_possible_value().is_some_and(|value| value.matches(format, false)));
    format.map(|format| (*format, file.into())).ok_or_else(|| {
        let names = formats().filter_map(|format| Some(format.to_possible_value()?.get_name().to_owned()));
        format!("expected one of these formats: {}", names.collect::<Vec<_>>().join(", "))
    })
}

const EXPECTED_EXPORT: &str = "expected a format and a file such as html=report.html";

/// Numbers of units of work: one of both sides, or one of each.
pub(super) fn units(text: &str) -> Result<Units, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    let (baseline, candidate) = text.split_once(',').unwrap_or((text, text));
    let units = number(baseline).zip(number(candidate)).map(|(baseline, candidate)| Units { baseline, candidate });
    units.ok_or_else(|| "expected a number of units above 0 such as 12000, or one of each side: 12000,11800".to_owned())
}

/// A share such as `1%`.
pub(super) fn share(text: &str) -> Result<f64, String> {
    percentage(text, 100.0)
}

fn percentage(text: &str, most: f64) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=most).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "expected a percentage such as 5%".to_owned())
}

/// A number of bytes, or a size with a unit.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let written =
        || Some(text.parse::<u64>().ok().map_or_else(|| bytes_written(text), |number| Some(number as f64))?.round());
    // Beyond 2^53, no number of bytes is a file's.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    match written() {
        None => Err(EXPECTED_SIZE.to_owned()),
        Some(bytes) if bytes < 9e15 => Ok(bytes as u64),
        Some(_) => Err("too large".to_owned()),
    }
}

/// How much of a series is kept: a time, or a size with a unit.
pub(super) fn keep(text: &str) -> Result<Keep, String> {
    let size = bytes_written(text).and_then(|_| size(text).ok()).filter(|bytes| *bytes > 0).map(Keep::Bytes);
    size.or_else(|| duration(text).ok().map(Keep::Time))
        .ok_or_else(|| "expected a time or a size such as 1h or 200MiB".to_owned())
}

/// Numbers of CPUs, in ascending order.
pub(super) type CpuList = std::sync::Arc<[u32]>;

/// A list of CPU numbers and ranges such as `0,2-3`.
pub(super) fn cpu_list(text: &str) -> Result<CpuList, String> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let range = first.parse::<u32>().ok()?..=last.parse().ok()?;
        (!range.is_empty() && *range.end() < MOST_CPUS).then_some(range)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    let expected = || "expected CPU numbers such as 0,2-3".to_owned();
    Ok(ranges.ok_or_else(expected)?.into_iter().flatten().into_set().into_iter().collect())
}

/// Kernels have at most 8,192 CPUs (`NR_CPUS`).
const MOST_CPUS: u32 = 8192;

/// The size of a ring buffer: at most 1 GiB, because the kernel doubles what is no power of two.
pub(super) fn ring_size(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(size(text)?).ok().filter(|bytes| *bytes <= 1 << 30);
    bytes.ok_or_else(|| "too large: at most 1G".to_owned())
}

/// Samples per second: 1 to 1000.
pub(super) fn why_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1.0..=1000.0).contains(rate));
    rate.ok_or_else(|| "expected a number from 1 to 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_made_once_to_a_thousand_times_a_second() {
        assert_eq!((why_rate("1"), why_rate("99.5")), (Ok(1.0), Ok(99.5)));
        assert!(["0.9", "1001", "nan", "inf", "-5", "fast", ""].into_iter().all(|rate| why_rate(rate).is_err()));
    }

    #[test]
    fn a_ring_has_at_most_1_gib() {
        assert_eq!((ring_size("1G"), ring_size("0")), (Ok(1 << 30), Ok(0)));
        assert!(ring_size("1025M").is_err() && ring_size("9G").is_err());
    }

    #[test]
    fn cpus_are_numbers_and_ranges_in_any_order() {
        let parsed = |text| cpu_list(text).map(|cpus| cpus.to_vec());
        assert_eq!(parsed("8,0-2,1"), Ok(vec![0, 1, 2, 8]));
        for bad in ["", ",", "1,", "a", "3-1", "-1", "0-8192", "0 1"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_is_one_that_clocks_can_add() {
        assert_eq!(
            [duration("1e9"), duration("500ms")],
            [Ok(Duration::from_secs(1_000_000_000)), Ok(Duration::from_millis(500))]
        );
        assert!(["1e19", "1e30", "nan", "0", "-1"].into_iter().all(|time| duration(time).is_err()));
    }

    #[test]
    fn a_multiple_has_a_slash() {
        assert_eq!(multiple("/10s"), Ok(Duration::from_secs(10)));
        assert!(["10s", "/", "/0", "//1s", ""].into_iter().all(|text| multiple(text).is_err()));
    }

    #[test]
    fn a_threshold_is_a_percentage() {
        assert_eq!(threshold("5%"), Ok(Threshold::default()));
        assert_eq!(threshold("2.5 %"), Ok(Threshold(0.025)));
        for bad in ["5", "0.05", "-1%", "%", "NaN%", "1001%"] {
            assert!(threshold(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_the_usual_suffixes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("32G"), Ok(32 << 30));
        assert_eq!((size("1kib"), size("1.5 KB")), (Ok(1024), Ok(1500)));
        assert_eq!([size("64MB"), size("64MiB"), size("64M")], [Ok(64_000_000), Ok(64 << 20), Ok(64 << 20)]);
        for bad in ["", "G", "1X", "-1", "1.5", "64m", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(
            ["1m", "2", "64MB", "1h 5m"].map(keep),
            [
                Ok(Keep::Time(Duration::from_secs(60))),
                Ok(Keep::Time(Duration::from_secs(2))),
                Ok(Keep::Bytes(64_000_000)),
                Ok(Keep::Time(Duration::from_secs(3900))),
            ]
        );
        assert!(["0M", "0s", "1X", ""].into_iter().all(|text| keep(text).is_err()));
    }
}
