//! Gates: bounds on how much values may change, written as `[GROUP:]METRIC>BOUND`.

use std::iter;
use std::str::FromStr;

use super::{
    ELAPSED, GateMetric, Group, GroupBy, GroupGlob, NoMetric, OVERVIEW, OverviewColumn, Per, Quantity, ReasonName,
    ReportSection, is_typo, unknown_metric,
};
use crate::model::{Direction, Section, Unit, bytes_written, record_rows, time_written};
use crate::statistics::{Beyond, Bound, Scale};

/// The name of all columns of the overview that get worse as they grow.
pub(super) const WORSE: &str = "worse";

/// A bound on the change of a value, or of several: of all groups together, or of each group that a glob matches.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The gate as it was written.
    pub text: String,
    /// The bound as it was written: `>10%`.
    pub(super) bound: String,
    /// The groups that it looks at, each for itself; `None` for all together.
    pub(super) group: Option<GroupGlob>,
    /// Values that the gate checks: one, or the columns that `worse` stands for.
    pub(super) metrics: Vec<GateMetric>,
    /// The bound; of times in nanoseconds.
    pub(super) limit: Bound,
    /// Divisor of the overview's values; `None` for the divisor of the comparison.
    pub(super) per: Option<Per>,
}

/// Why a text is not a gate, or does not fit the groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GateError(pub(super) String);

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        Self::parse(text, BoundAmount::limit)
    }
}

impl Gate {
    /// Returns true if the gate allows no change at all. Runs of equal programs never decide such a gate, however many there are.
    pub fn allows_no_change(&self) -> bool {
        self.limit.scale == Scale::Ratio && self.limit.limit == 1.0
    }

    /// Parses a gate; `limit` makes the bound from the amount, the values and the text of the bound.
    pub(super) fn parse(
        text: &str,
        limit: fn(BoundAmount, &[GateMetric], &str) -> Result<Bound, GateError>,
    ) -> Result<Self, GateError> {
        let text = text.trim();
        let split = text.rfind(['>', '<']).map(|at| text.split_at(at));
        let (left, bound) = split.filter(|(_, bound)| !bound[1..].trim().is_empty()).ok_or_else(|| {
            let examples = "`run>10%`, `run_time_ns>2s` or `make:read_bytes>64MiB`";
            GateError(format!("no bound; write METRIC>BOUND, such as {examples}"))
        })?;
        let (glob, mut metrics) = glob_and_metrics(left.trim(), &bound[..1])?;
        let amount = BoundAmount::parse(bound[1..].trim())?;
        let limit = limit(amount, &metrics, bound)?;
        let compiled = |glob| GroupGlob::new(glob).map_err(|error| GateError(format!("bad glob `{glob}`: {error}")));
        let group = glob.map(compiled).transpose()?;
        metrics.iter_mut().try_for_each(|metric| fit(metric, group.as_ref()))?;
        Ok(Self { text: text.to_owned(), bound: bound.replace(' ', ""), group, metrics, limit, per: amount.unit.per() })
    }
}

/// Names of values of threads that gates can look at.
pub fn gate_metrics() -> impl Iterator<Item = &'static str> {
    let of_groups = Quantity::all().map(Quantity::name).filter(|name| GateMetric::named(name).is_ok());
    [ELAPSED, WORSE].into_iter().chain(of_groups)
}

/// How many values gates look at, not counting groups: so many tests are corrected for.
pub(crate) fn tests_of(gates: &[Gate]) -> usize {
    gates.iter().map(|gate| gate.metrics.len()).sum()
}

/// Makes a metric fit the group. Both cgroups and the host have pressure: without a group, the host's is meant. Other values of
/// the host have no groups.
fn fit(metric: &mut GateMetric, group: Option<&GroupGlob>) -> Result<(), GateError> {
    match (metric.section, group) {
        (Section::Pressure, None) => metric.section = Section::HostPressure,
        (Section::SchedExt, Some(_)) => return Err(of_no_group(&metric.name, "the host")),
        (Section::Overview, Some(_)) if metric.name == ELAPSED => return Err(of_no_group(ELAPSED, "the command")),
        _ => {}
    }
    Ok(())
}

fn of_no_group(name: &str, whole: &str) -> GateError {
    GateError(format!("`{name}` is a value of {whole}, not of groups; remove the group"))
}

impl Gate {
    /// Returns the groups of a section that the gate checks: groups that its glob matches, or all together. Sections about the
    /// host have one group.
    pub(super) fn selected(&self, section: &ReportSection) -> impl Iterator<Item = usize> {
        let has_total = section.section.has_named_groups();
        let is_selected = move |group: &Group| match &self.group {
            Some(glob) => is_gated(group) && glob.matches(&group.key),
            None => !has_total || group.is_all(),
        };
        section.groups.iter().enumerate().filter(move |(_, group)| is_selected(group)).map(|(place, _)| place)
    }

    /// Returns the bound in the unit of a row: per unit of work, ticks and microseconds are nanoseconds.
    pub(super) fn limit_in(&self, unit: Unit) -> Bound {
        let unit_ns = unit.nanoseconds().filter(|_| self.limit.scale == Scale::Difference);
        Bound { limit: self.limit.limit / unit_ns.unwrap_or(1.0), ..self.limit }
    }

    /// Returns the divisor of the gate's values in a comparison whose values are divided by `per`. Amounts per unit of work stay
    /// so.
    pub(super) fn per_of(&self, per: Per) -> Per {
        match self.per {
            Some(Per::Run) if per == Per::Unit => Per::Unit,
            own => own.unwrap_or(per),
        }
    }

    /// Checks that groups of threads by `group_by` have the value: other groups than cgroups have no values of cgroups.
    pub fn check(&self, group_by: GroupBy) -> Result<(), GateError> {
        let missing = self.metrics.iter().find(|metric| metric.section.is_of_cgroups() && !group_by.is_by_cgroup());
        let error = |name| GateError(format!("`{name}` is a value of cgroups; group by cgroup (--group-by cgroup)"));
        missing.map_or(Ok(()), |metric| Err(error(&metric.name)))
    }
}

/// Whether gates on groups look at a group: neither at all together, nor at exited work.
pub(super) fn is_gated(group: &Group) -> bool {
    !group.is_all() && group.exited_work().is_none()
}

/// The glob of groups and the values of `[GROUP:]METRIC`. Names of groups may contain colons, and so do names of
/// block devices: the shortest end that is a name of a value is one. Functions can have such names, too: `in:` comes first.
fn glob_and_metrics<'t>(text: &'t str, sign: &str) -> Result<(Option<&'t str>, Vec<GateMetric>), GateError> {
    if let Some(of_function) = of_reasons(text, ReasonName::is_of_function) {
        return Ok(of_function);
    }
    let splits = text.rmatch_indices(':').map(|(at, _)| (Some(text[..at].trim_end()), &text[at + 1..]));
    let mut first_unknown = None;
    for (glob, name) in splits.chain([(None, text)]) {
        let name = name.trim();
        match GateMetric::named(name) {
            _ if name.is_empty() => return Err(GateError(format!("no metric before `{sign}`"))),
            _ if name == WORSE => return Ok((glob, worse(glob))),
            Ok(metric) => return Ok((glob, vec![metric])),
            Err(NoMetric::NotANumber) => return Err(GateError(format!("`{name}` is not a single number"))),
            Err(NoMetric::Unknown) => drop(first_unknown.get_or_insert(name)),
        }
    }
    // A thread can be called `in:imuxsock`.
    let of_others = |name: &str| !name.starts_with("in:") && ReasonName::parse(name).is_some();
    let of_any = || of_reasons(text, |name| ReasonName::parse(name).is_some());
    if let Some(of_reasons) = of_reasons(text, of_others).or_else(of_any) {
        return Ok(of_reasons);
    }
    let name = first_unknown.unwrap_or(text);
    let names: Vec<String> = record_rows().map(|row| row.name).collect();
    let others = [ELAPSED].into_iter().chain(names.iter().map(String::as_str));
    let is_like_column = OVERVIEW.iter().any(|column| is_typo(name, column.name));
    let hint = if is_like_column { " For the system call, write block/ or sleep/ before it" } else { "" };
    Err(GateError(unknown_metric(name, others) + hint))
}

/// The glob of groups and the time of reasons, for the longest end of `[GROUP:]REASON` that is such a name of reasons.
fn of_reasons(text: &str, is_name: fn(&str) -> bool) -> Option<(Option<&str>, Vec<GateMetric>)> {
    let ends = text.match_indices(':').map(|(at, _)| (Some(text[..at].trim_end()), text[at + 1..].trim_start()));
    let (glob, name) = iter::once((None, text)).chain(ends).find(|(_, name)| is_name(name))?;
    Some((glob, vec![GateMetric::of_reasons(name)?]))
}

/// Returns the columns of the overview that get worse as they grow; with a glob of groups, only columns that groups have.
fn worse(glob: Option<&str>) -> Vec<GateMetric> {
    let has = |column: &&OverviewColumn| glob.is_none() || column.is_of_groups();
    let worse = OVERVIEW.iter().filter(|column| column.direction == Direction::MoreIsWorse).filter(has);
    worse.map(GateMetric::of_column).collect()
}

/// The way in which the text of a bound, which begins with its sign, is exceeded.
pub(super) fn beyond(text: &str) -> Beyond {
    if text.starts_with('>') { Beyond::Above } else { Beyond::Below }
}

/// The number of a bound, with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BoundAmount {
    number: f64,
    unit: BoundUnit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BoundUnit {
    /// Percent of the baseline.
    Percent,
    Points,
    Nanoseconds,
    Bytes,
    Count,
}

/// Units of bounds, without units of times and sizes.
const SHARES: [(&str, BoundUnit); 3] = [("", BoundUnit::Count), ("%", BoundUnit::Percent), ("pp", BoundUnit::Points)];

impl BoundUnit {
    /// Returns the divisor of the overview's values that this unit needs.
    fn per(self) -> Option<Per> {
        match self {
            Self::Percent => None,
            Self::Points => Some(Per::Second),
            Self::Nanoseconds | Self::Bytes | Self::Count => Some(Per::Run),
        }
    }
}

impl BoundAmount {
    pub(super) fn parse(text: &str) -> Result<Self, GateError> {
        let bad =
            || GateError(format!("bad bound `{text}`: expected a number with a unit, such as 10%, 2s, 64MiB or 1000"));
        let plain = text.strip_prefix(['-', '+', '\u{2212}']).unwrap_or(text);
        let (number, unit) =
            plain.split_at(plain.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(plain.len()));
        let share = || SHARES.iter().find(|(name, _)| *name == unit.trim_start()).map(|(_, unit)| *unit);
        let (number, unit) = match (number.parse(), share(), time_written(plain), bytes_written(plain)) {
            (Ok(number), Some(unit), ..) => (number, unit),
            (_, _, Some(time), _) => (time.as_nanos() as f64, BoundUnit::Nanoseconds),
            (.., Some(bytes)) => (bytes, BoundUnit::Bytes),
            (Ok(_), ..) => {
                let units = "%, pp, times such as 2s, 500ms or 1m 30s, sizes such as 64MiB or 64MB, or none for counts";
                return Err(GateError(format!("unknown unit `{}` ({units})", unit.trim_start())));
            }
            _ => return Err(bad()),
        };
        if plain.len() < text.len() {
            let meaning = "`<10%` is a fall by more than 10 %, `>10%` a rise";
            return Err(GateError(format!("negative bound `{text}`: {meaning}")));
        }
        if f64::is_finite(number) { Ok(Self { number, unit }) } else { Err(bad()) }
    }

    /// Converts to the unit in which a column shows rates: percent of a CPU, bytes or events per second.
    pub(super) fn rate(self, column: Unit) -> Option<f64> {
        match (self.unit, column) {
            (BoundUnit::Percent, Unit::Ns)
            | (BoundUnit::Count, Unit::Count | Unit::Bytes)
            | (BoundUnit::Bytes, Unit::Bytes) => Some(self.number),
            _ => None,
        }
    }

    /// The bound for these values, of times in nanoseconds; `text` is the bound as it was written.
    fn limit(self, metrics: &[GateMetric], text: &str) -> Result<Bound, GateError> {
        let (scale, amount) = match metrics {
            [metric] => self.of_metric(metric, text)?,
            _ if self.unit == BoundUnit::Percent => (Scale::Ratio, self.number / 100.0),
            _ => return Err(GateError("`worse` needs a bound in percent, such as `worse>10%`".to_owned())),
        };
        let beyond = beyond(text);
        let way = if beyond == Beyond::Above { 1.0 } else { -1.0 };
        let no_change = if scale == Scale::Ratio { 1.0 } else { 0.0 };
        if scale == Scale::Ratio && beyond == Beyond::Below && self.number >= 100.0 {
            return Err(GateError(format!("no value can fall by more than 100 %: `{text}`")));
        }
        Ok(Bound { scale, beyond, limit: no_change + way * amount })
    }

    /// How much a value may change, without the direction.
    fn of_metric(self, metric: &GateMetric, text: &str) -> Result<(Scale, f64), GateError> {
        let is_share = metric.reason.is_some() || (metric.section == Section::Overview && metric.name != ELAPSED);
        let is_time = metric.unit.nanoseconds().is_some();
        let amount = match (self.unit, metric.unit, is_time) {
            (BoundUnit::Percent, _, true) | (BoundUnit::Percent, Unit::Bytes | Unit::Count, _) => {
                return Ok((Scale::Ratio, self.number / 100.0));
            }
            (BoundUnit::Points, Unit::Ratio, _) => self.number / 100.0,
            (BoundUnit::Points, Unit::Hundredths, _) => self.number * 1e4 / 100.0,
            (BoundUnit::Points, _, true) if is_share => self.number,
            (BoundUnit::Nanoseconds, _, true) => self.number,
            (BoundUnit::Bytes, Unit::Bytes, _) => self.number,
            (BoundUnit::Count, Unit::Count, _) => self.number,
            (_, unit, _) => {
                let (noun, examples) = match unit {
                    Unit::Bytes => ("a number of bytes", "`>10%` or `>64MiB`"),
                    Unit::Count => ("a count", "`>10%` or `>1000`"),
                    _ if is_time => ("a time", "`>10%` or `>2s`"),
                    _ => ("a share", "`>5pp` (percentage points)"),
                };
                let unfit = format!("`{}` is {noun}, which `{text}` does not fit", metric.name);
                return Err(GateError(format!("{unfit}; write a bound such as {examples}")));
            }
        };
        Ok((Scale::Difference, amount))
    }
}

#[cfg(test)]
mod tests {
    use super::Scale::{Difference, Ratio};
    use super::*;

    fn above(scale: Scale, limit: f64) -> Bound {
        Bound { scale, beyond: Beyond::Above, limit }
    }

    fn below(scale: Scale, limit: f64) -> Bound {
        Bound { scale, beyond: Beyond::Below, limit }
    }

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
    fn names_of_reasons_can_have_colons_and_functions_the_names_of_columns() {
        let split = |text: &str| {
            let (group, metric, _) = gate(text);
            (group.unwrap_or_default(), metric)
        };
        let named = |group: &str, metric: &str| (group.to_owned(), metric.to_owned());
        assert_eq!(split("in:cache_get>20%"), named("", "in:cache_get"));
        assert_eq!(split("app:in:std::run>20%"), named("app", "in:std::run"));
        assert_eq!(split("a:b: sleep/in:wait>20%"), named("a:b", "sleep/in:wait"));
        assert_eq!(split("in:imuxsock:run>20%"), named("in:imuxsock", "run"), "a thread of rsyslogd");
        assert_eq!(split("in:imuxsock:futex>20%"), named("in:imuxsock", "futex"));
        assert_eq!(split("python3:wait/shop/api:server>1s"), named("python3", "wait/shop/api:server"));
        assert_eq!(split("wait/kworker/{N}:{N}>1s"), named("", "wait/kworker/{N}:{N}"));
        assert_eq!(split("kworker/0:1:futex>1s"), named("kworker/0:1", "futex"));
        assert!(gate_metrics().all(|name| GateMetric::named(name).is_ok() || name == WORSE));
    }

    #[test]
    fn bounds_are_in_the_units_of_the_values_and_of_times_in_nanoseconds() {
        let limit = |text: &str| gate(text).2;
        assert_eq!(limit("run>10%"), above(Ratio, 1.1));
        assert_eq!(limit("run<10%"), below(Ratio, 0.9));
        assert_eq!(limit("run_time_ns>2s"), above(Difference, 2e9));
        assert_eq!(limit("utime_clock_ticks>50ms"), above(Difference, 50e6));
        assert_eq!(limit("cpu.some.total_usec>1.5ms"), above(Difference, 1.5e6));
        assert_eq!(limit("read<64MiB"), below(Difference, -67_108_864.0));
        assert_eq!(limit("allocated_bytes>1KB"), above(Difference, 1e3));
        assert_eq!(limit("read>64M"), above(Difference, 67_108_864.0));
        assert_eq!(limit("run_time_ns>1m 30s"), above(Difference, 90e9));
        assert_eq!(limit("majflt>0"), above(Difference, 0.0));
        assert_eq!(limit("cpu_efficiency<5pp"), below(Difference, -0.05));
        assert_eq!(limit("cpu.some.avg10>5pp"), above(Difference, 500.0));
        assert_eq!(limit("run>5pp"), above(Difference, 5.0));
        assert_eq!(limit("worse>5%"), above(Ratio, 1.05));
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
        assert!(error("threads>0").contains("unknown metric `threads`"), "it is no reason: {}", error("threads>0"));
        let message = "unknown metric `rnu`; did you mean `run`? For the system call, write block/ or sleep/ before it";
        assert_eq!(error("rnu>5%"), message);
        assert_eq!(gate("flock>5%").1, "flock", "a system call that is no typo of `block`");
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
        let units = "%, pp, times such as 2s, 500ms or 1m 30s, sizes such as 64MiB or 64MB, or none for counts";
        assert_eq!(error("run>10parsecs"), format!("unknown unit `parsecs` ({units})"));
        assert_eq!(
            error("run_time_ns>64MiB"),
            "`run_time_ns` is a time, which `>64MiB` does not fit; write a bound such as `>10%` or `>2s`"
        );
        for text in ["cpu_efficiency>10%", "majflt>1s", "read>1000", "run_time_ns>5pp", "cpu_efficiency>1"] {
            assert!(error(text).contains(" does not fit; "), "{text}");
        }
        assert_eq!(error("worse>2s"), "`worse` needs a bound in percent, such as `worse>10%`");
        assert_eq!(error("x:nr_rejected>1"), "`nr_rejected` is a value of the host, not of groups; remove the group");
    }

    #[test]
    fn values_of_cgroups_need_cgroups() {
        let check = |text: &str, group_by| text.parse::<Gate>().unwrap().check(group_by);
        assert!(check("cpu.usage_usec>1s", GroupBy::Cgroup).is_ok());
        let error = check("cpu.usage_usec>1s", GroupBy::Pcomm).unwrap_err().to_string();
        assert_eq!(error, "`cpu.usage_usec` is a value of cgroups; group by cgroup (--group-by cgroup)");
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
