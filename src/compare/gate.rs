//! Gates: bounds on how much values may change, written as `[GROUP:]METRIC>BOUND`.

use std::str::FromStr;

use glob::PatternError;

use super::gate_metric::{GateMetric, Measure, MetricSource, NoMetric};
use super::group_glob::GroupGlob;
use super::options::{GroupBy, Per};
use super::overview::OVERVIEW;
use crate::model::{Direction, Section};
use crate::statistics::Bound;

/// The name of all columns of the overview that get worse as they grow.
pub const WORSE: &str = "worse";

/// A bound on the change of a value, or of several: of all groups together, or of each group that a glob matches.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The gate as it was written.
    pub text: String,
    /// The bound as it was written: `>10%`.
    pub bound: String,
    /// The groups that it looks at, each for itself; `None` for all together.
    pub(super) group: Option<GroupGlob>,
    /// One value, or the columns that `worse` stands for.
    pub(super) metrics: Vec<GateMetric>,
    /// The bound, in the units of the values.
    pub(super) limit: Bound,
    /// What values of the overview are divided by; `None` for what the comparison divides them by.
    pub(super) per: Option<Per>,
}

/// Why a text is not a gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// There is no `>` or `<`, or nothing behind it.
    #[error("no bound; write METRIC>BOUND, such as `run>10%`, `run_time_ns>2s` or `make:read_bytes>64MiB`")]
    NoBound,
    /// There is no value.
    #[error("no metric before `{0}`")]
    NoMetric(char),
    /// The value is unknown.
    #[error("unknown metric `{name}`{}", nearest.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    UnknownMetric {
        /// The name given.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// The value is a category, a range or a set.
    #[error("`{0}` is not a single number")]
    NotANumber(String),
    /// The glob of the groups is invalid.
    #[error("bad glob `{glob}`: {message}")]
    BadGlob {
        /// The glob.
        glob: String,
        /// What is wrong.
        message: &'static str,
    },
    /// The bound has no number.
    #[error("bad bound `{0}`: expected a number with a unit, such as 10%, 2s, 64MiB or 1000")]
    BadNumber(String),
    /// The bound is negative.
    #[error("negative bound `{0}`: `<10%` is a fall by more than 10 %, `>10%` a rise")]
    Negative(String),
    /// No value can fall that much.
    #[error("no value can fall by more than 100 %: `{0}`")]
    FallsTooFar(String),
    /// The unit is unknown.
    #[error("unknown unit `{0}` ({units}, or none for counts)", units = unit_names())]
    UnknownUnit(String),
    /// The value has another unit than the bound.
    #[error("`{metric}` is {is}, which `{bound}` does not fit; write a bound such as {examples}")]
    WrongUnit {
        /// The value.
        metric: String,
        /// What it is.
        is: &'static str,
        /// The bound as it was written.
        bound: String,
        /// Bounds that fit.
        examples: &'static str,
    },
    /// `worse` means values of different units.
    #[error("`worse` needs a bound in percent, such as `worse>10%`")]
    WorseNeedsPercent,
    /// Only cgroups have the value.
    #[error("`{0}` is a value of cgroups; group by cgroup (--group-by cgroup)")]
    NeedsCgroups(String),
    /// The value is not one of groups.
    #[error("`{0}` is a value of the host, not of groups; remove the group")]
    HasNoGroups(String),
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let text = text.trim();
        let at = text.rfind(['>', '<']).ok_or(GateError::NoBound)?;
        let (left, bound) = text.split_at(at);
        let way = if bound.starts_with('>') { Way::Rises } else { Way::Falls };
        let amount = bound[1..].trim();
        if amount.is_empty() {
            return Err(GateError::NoBound);
        }
        let (glob, mut metrics) = value(left.trim(), way)?;
        let amount = Amount::parse(amount)?;
        let limit = amount.limit(way, &metrics, bound)?;
        let group = glob.map(|glob| GroupGlob::new(glob).map_err(|error| bad_glob(glob, &error))).transpose()?;
        for metric in &mut metrics {
            fit(metric, group.as_ref())?;
        }
        Ok(Self { text: text.to_owned(), bound: bound.replace(' ', ""), group, metrics, limit, per: amount.unit.per() })
    }
}

fn bad_glob(glob: &str, error: &PatternError) -> GateError {
    GateError::BadGlob { glob: glob.to_owned(), message: error.msg }
}

/// Both cgroups and the host have pressure: that of the host is meant without a group. Other values of the host have
/// no groups.
fn fit(metric: &mut GateMetric, group: Option<&GroupGlob>) -> Result<(), GateError> {
    let MetricSource::Record(section, _) = &mut metric.source else { return Ok(()) };
    match (*section, group) {
        (Section::Pressure, None) => *section = Section::HostPressure,
        (Section::SchedExt, Some(_)) => return Err(GateError::HasNoGroups(metric.name.clone())),
        _ => {}
    }
    Ok(())
}

impl Gate {
    /// What the overview's values are divided by for this gate.
    pub(super) fn per(&self, usual: Per) -> Per {
        self.per.unwrap_or(usual)
    }

    /// Checks that groups of threads by `group_by` have the value.
    ///
    /// # Errors
    /// [`GateError::NeedsCgroups`] for values of cgroups in another grouping.
    pub fn check(&self, group_by: GroupBy) -> Result<(), GateError> {
        let missing = self.metrics.iter().find(|metric| metric.is_of_cgroups() && !group_by.is_by_cgroup());
        missing.map_or(Ok(()), |metric| Err(GateError::NeedsCgroups(metric.name.clone())))
    }
}

/// The glob of groups and the values of `[GROUP:]METRIC`. Names of groups may contain colons, and so do names of
/// block devices: the shortest end that is a name of a value is one.
fn value(text: &str, way: Way) -> Result<(Option<&str>, Vec<GateMetric>), GateError> {
    let splits = text.rmatch_indices(':').map(|(at, _)| (Some(text[..at].trim_end()), &text[at + 1..]));
    let mut first_error = None;
    for (glob, name) in splits.chain([(None, text)]) {
        let name = name.trim();
        match GateMetric::named(name) {
            _ if name.is_empty() => return Err(GateError::NoMetric(way.sign())),
            _ if name == WORSE => return Ok((glob, worse())),
            Ok(metric) => return Ok((glob, vec![metric])),
            Err(NoMetric::NotANumber) => return Err(GateError::NotANumber(name.to_owned())),
            Err(NoMetric::Unknown { nearest }) => {
                first_error.get_or_insert(GateError::UnknownMetric { name: name.to_owned(), nearest });
            }
        }
    }
    Err(first_error.unwrap_or(GateError::NoBound))
}

/// The columns of the overview that get worse as they grow.
fn worse() -> Vec<GateMetric> {
    let worse = OVERVIEW.iter().filter(|column| column.direction == Direction::MoreIsWorse);
    worse.map(GateMetric::of_column).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Rises,
    Falls,
}

impl Way {
    fn sign(self) -> char {
        match self {
            Self::Rises => '>',
            Self::Falls => '<',
        }
    }
}

/// The number and the unit of a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Amount {
    number: f64,
    unit: BoundUnit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BoundUnit {
    /// Percent of the baseline.
    Percent,
    /// Percentage points.
    Points,
    /// So many nanoseconds.
    Time(f64),
    /// So many bytes.
    Bytes(f64),
    Count,
}

/// The units of bounds.
const UNITS: [(&str, BoundUnit); 18] = [
    ("", BoundUnit::Count),
    ("%", BoundUnit::Percent),
    ("pp", BoundUnit::Points),
    ("ns", BoundUnit::Time(1.0)),
    ("us", BoundUnit::Time(1e3)),
    // The micro sign and the Greek letter.
    ("\u{b5}s", BoundUnit::Time(1e3)),
    ("\u{3bc}s", BoundUnit::Time(1e3)),
    ("ms", BoundUnit::Time(1e6)),
    ("s", BoundUnit::Time(1e9)),
    ("B", BoundUnit::Bytes(1.0)),
    ("KiB", BoundUnit::Bytes(1024.0)),
    ("MiB", BoundUnit::Bytes(1_048_576.0)),
    ("GiB", BoundUnit::Bytes(1_073_741_824.0)),
    ("TiB", BoundUnit::Bytes(1_099_511_627_776.0)),
    ("KB", BoundUnit::Bytes(1e3)),
    ("MB", BoundUnit::Bytes(1e6)),
    ("GB", BoundUnit::Bytes(1e9)),
    ("TB", BoundUnit::Bytes(1e12)),
];

/// The names of the units, without the Greek letter, which looks like the micro sign.
fn unit_names() -> String {
    let is_shown = |name: &&str| !name.is_empty() && !name.starts_with('\u{3bc}');
    UNITS.iter().map(|(name, _)| *name).filter(is_shown).collect::<Vec<_>>().join(", ")
}

impl BoundUnit {
    /// What values of the overview are divided by, for bounds of this unit.
    fn per(self) -> Option<Per> {
        match self {
            Self::Percent => None,
            Self::Points => Some(Per::Second),
            Self::Time(_) | Self::Bytes(_) | Self::Count => Some(Per::Run),
        }
    }
}

impl Amount {
    fn parse(text: &str) -> Result<Self, GateError> {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let digits = text.strip_prefix(['-', '+', '\u{2212}']).unwrap_or(text);
        let (number, unit) = digits.split_at(digits.find(|c| !is_digit(c)).unwrap_or(digits.len()));
        let number: f64 = number.parse().map_err(|_| GateError::BadNumber(text.to_owned()))?;
        if digits.len() < text.len() {
            return Err(GateError::Negative(text.to_owned()));
        }
        let unit = unit.trim_start();
        let known = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, unit)| *unit);
        let unit = known.ok_or_else(|| GateError::UnknownUnit(unit.to_owned()))?;
        if number.is_finite() { Ok(Self { number, unit }) } else { Err(GateError::BadNumber(text.to_owned())) }
    }

    /// The bound in the units of these values.
    fn limit(self, way: Way, metrics: &[GateMetric], text: &str) -> Result<Bound, GateError> {
        let [metric] = metrics else {
            let is_percent = self.unit == BoundUnit::Percent;
            return if is_percent { self.ratio(way, text) } else { Err(GateError::WorseNeedsPercent) };
        };
        let is_column = matches!(metric.source, MetricSource::Overview(_));
        let amount = match (self.unit, metric.measure) {
            (BoundUnit::Percent, Measure::Time(_) | Measure::Bytes | Measure::Count) => return self.ratio(way, text),
            (BoundUnit::Points, Measure::Share(hundredths)) => self.number * f64::from(hundredths) / 100.0,
            (BoundUnit::Points, Measure::Time(_)) if is_column => self.number,
            (BoundUnit::Time(ns), Measure::Time(unit_ns)) => self.number * ns / unit_ns as f64,
            (BoundUnit::Bytes(bytes), Measure::Bytes) => self.number * bytes,
            (BoundUnit::Count, Measure::Count) => self.number,
            _ => {
                let (is, examples) = (metric.measure.noun(), metric.measure.examples());
                let (metric, bound) = (metric.name.clone(), text.to_owned());
                return Err(GateError::WrongUnit { metric, is, bound, examples });
            }
        };
        Ok(match way {
            Way::Rises => Bound::DifferenceAbove(amount),
            Way::Falls => Bound::DifferenceBelow(-amount),
        })
    }

    fn ratio(self, way: Way, text: &str) -> Result<Bound, GateError> {
        match way {
            Way::Rises => Ok(Bound::RatioAbove(1.0 + self.number / 100.0)),
            Way::Falls if self.number < 100.0 => Ok(Bound::RatioBelow(1.0 - self.number / 100.0)),
            Way::Falls => Err(GateError::FallsTooFar(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(text: &str) -> (Option<String>, String, Bound) {
        let gate: Gate = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        (gate.group.map(|glob| glob.to_string()), gate.metrics[0].name.clone(), gate.limit)
    }

    fn error(text: &str) -> String {
        text.parse::<Gate>().unwrap_err().to_string()
    }

    #[test]
    fn a_gate_has_a_metric_a_bound_and_perhaps_a_group() {
        let named = |group: Option<&str>, metric: &str| (group.map(str::to_owned), metric.to_owned());
        let split = |text: &str| {
            let (group, metric, _) = gate(text);
            (group, metric)
        };
        assert_eq!(split("run>10%"), named(None, "run"));
        assert_eq!(split(" make* : run_time_ns > 10 % "), named(Some("make*"), "run_time_ns"));
        assert_eq!(split("kworker/0:1:wait>2s"), named(Some("kworker/0:1"), "wait"));
        assert_eq!(split("8:0 rbytes>1GB"), named(None, "8:0 rbytes"));
        assert_eq!(split("/app:8:0 rbytes>1GB"), named(Some("/app"), "8:0 rbytes"));
        assert_eq!(split("a>b:run<10%"), named(Some("a>b"), "run"));
    }

    #[test]
    fn bounds_are_in_the_units_of_the_values() {
        let limit = |text: &str| gate(text).2;
        assert_eq!(limit("run>10%"), Bound::RatioAbove(1.1));
        assert_eq!(limit("run<10%"), Bound::RatioBelow(0.9));
        assert_eq!(limit("run_time_ns>2s"), Bound::DifferenceAbove(2e9));
        assert_eq!(limit("utime_clock_ticks>50ms"), Bound::DifferenceAbove(5.0));
        assert_eq!(limit("cpu.some.total_usec>1.5ms"), Bound::DifferenceAbove(1500.0));
        assert_eq!(limit("read<64MiB"), Bound::DifferenceBelow(-67_108_864.0));
        assert_eq!(limit("allocated_bytes>1KB"), Bound::DifferenceAbove(1e3));
        assert_eq!(limit("majflt>0"), Bound::DifferenceAbove(0.0));
        assert_eq!(limit("cpu_efficiency<5pp"), Bound::DifferenceBelow(-0.05));
        assert_eq!(limit("cpu.some.avg10>5pp"), Bound::DifferenceAbove(500.0));
        assert_eq!(limit("run>5pp"), Bound::DifferenceAbove(5.0));
        assert_eq!(limit("worse>5%"), Bound::RatioAbove(1.05));
    }

    #[test]
    fn worse_means_the_columns_that_get_worse_as_they_grow() {
        let names: Vec<_> =
            "x:worse>5%".parse::<Gate>().unwrap().metrics.into_iter().map(|metric| metric.name).collect();
        assert_eq!(names, ["run", "wait", "block", "faults", "read", "write", "alloc"]);
    }

    #[test]
    fn what_is_no_gate_is_refused_with_the_reason() {
        for text in ["run", "run>", "run > ", ""] {
            assert!(error(text).starts_with("no bound; write METRIC>BOUND"), "{text}");
        }
        assert_eq!(error(">10%"), "no metric before `>`");
        assert_eq!(error("make:<10%"), "no metric before `<`");
        assert_eq!(error("make:run_tme_ns>10%"), "unknown metric `run_tme_ns`; did you mean `run_time_ns`?");
        assert_eq!(error("policy>1"), "`policy` is not a single number");
        assert!(error("[:run>1s").starts_with("bad glob `[`: "));
        for text in ["run>x", "run>NaN%", "run>inf", "run>.", "run>=10%"] {
            assert!(error(text).starts_with("bad bound "), "{text}: {}", error(text));
        }
        assert!(error(&format!("majflt>{}", "9".repeat(400))).starts_with("bad bound "));
        for text in ["run<-10%", "run>-5%", "run>-2s", "run>+2s"] {
            assert!(error(text).starts_with("negative bound "), "{text}");
        }
        assert_eq!(error("run<100%"), "no value can fall by more than 100 %: `<100%`");
        let units = "%, pp, ns, us, \u{b5}s, ms, s, B, KiB, MiB, GiB, TiB, KB, MB, GB, TB";
        assert_eq!(error("run>10parsecs"), format!("unknown unit `parsecs` ({units}, or none for counts)"));
        assert_eq!(
            error("run_time_ns>64MiB"),
            "`run_time_ns` is a time, which `>64MiB` does not fit; write a bound such as `>10%` or `>2s`"
        );
        for text in ["cpu_efficiency>10%", "majflt>1s", "read>1000", "run_time_ns>5pp", "cpu_efficiency>1"] {
            assert!(error(text).contains(" does not fit; "), "{text}");
        }
        assert_eq!(error("worse>2s"), GateError::WorseNeedsPercent.to_string());
        assert_eq!(error("x:nr_rejected>1"), "`nr_rejected` is a value of the host, not of groups; remove the group");
    }

    #[test]
    fn values_of_cgroups_need_cgroups() {
        let check = |text: &str, group_by| text.parse::<Gate>().unwrap().check(group_by);
        assert!(check("cpu.usage_usec>1s", GroupBy::Cgroup).is_ok());
        assert_eq!(
            check("cpu.usage_usec>1s", GroupBy::Pcomm),
            Err(GateError::NeedsCgroups("cpu.usage_usec".to_owned()))
        );
        assert!(check("cpu.some.total_usec>1s", GroupBy::Pcomm).is_ok(), "that of the host");
        assert!(check("/a:cpu.some.total_usec>1s", GroupBy::Pcomm).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_gate_or_an_error(text in r"[\PC:<>]{0,12}[a-z_:*8 ]{0,8}[<>]{0,2}-?[0-9.]{0,4}[\PC%spMiB]{0,3}") {
            if let Ok(gate) = text.parse::<Gate>() {
                proptest::prop_assert_eq!(gate.text.parse::<Gate>().map(|again| again.limit), Ok(gate.limit));
            }
        }
    }
}
