//! The values that gates can look at, by name.

use super::overview::{OVERVIEW, OverviewColumn};
use super::quantity::Quantity;
use super::similar::similar;
use crate::model::{NS_PER_TICK, RecordRow, Reduction, Section, Unit, record_rows};

/// A value that gates can look at.
#[derive(Clone, Debug)]
pub(super) struct GateMetric {
    /// Its name, as the gate has it.
    pub(super) name: String,
    pub(super) source: MetricSource,
    /// What its numbers measure.
    pub(super) measure: Measure,
}

/// Where its values come from.
#[derive(Clone, Debug)]
pub(super) enum MetricSource {
    /// A column of the overview.
    Overview(&'static OverviewColumn),
    /// A quantity of a group of threads.
    Quantity(Quantity),
    /// A value of cgroups, of the host or of sched_ext, by its name in the section.
    Record(Section, String),
}

impl MetricSource {
    /// The section of its rows.
    pub(super) fn section(&self) -> Section {
        match self {
            Self::Overview(_) => Section::Overview,
            Self::Quantity(quantity) => quantity.section(),
            Self::Record(section, _) => *section,
        }
    }

    /// The quantity, if it is one of groups of threads.
    pub(super) fn quantity(&self) -> Option<Quantity> {
        if let Self::Quantity(quantity) = self { Some(*quantity) } else { None }
    }

    /// The name of its rows.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Overview(column) => column.name,
            Self::Quantity(quantity) => quantity.name(),
            Self::Record(_, name) => name,
        }
    }
}

/// What numbers measure, which decides the bounds that they can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Time; the number is how many nanoseconds one is.
    Time(u64),
    Bytes,
    Count,
    /// A share; the number is how many one percentage point is, in hundredths.
    Share(u32),
}

impl Measure {
    fn new(unit: Unit) -> Option<Self> {
        match unit {
            Unit::Ns => Some(Self::Time(1)),
            Unit::Us => Some(Self::Time(1_000)),
            Unit::Ticks => Some(Self::Time(NS_PER_TICK)),
            Unit::Bytes => Some(Self::Bytes),
            Unit::Count => Some(Self::Count),
            Unit::Ratio => Some(Self::Share(1)),
            Unit::Hundredths => Some(Self::Share(10_000)),
            _ => None,
        }
    }

    /// What one is called in messages.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Time(_) => "a time",
            Self::Bytes => "a number of bytes",
            Self::Count => "a count",
            Self::Share(_) => "a share",
        }
    }

    /// Examples of bounds.
    pub(super) fn examples(self) -> &'static str {
        match self {
            Self::Time(_) => "`>10%` or `>2s`",
            Self::Bytes => "`>10%` or `>64MiB`",
            Self::Count => "`>10%` or `>1000`",
            Self::Share(_) => "`>5pp` (percentage points)",
        }
    }
}

/// Why a name is not one of a value that gates can look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoMetric {
    Unknown {
        nearest: Option<String>,
    },
    /// It is a category, a range or a set of CPUs.
    NotANumber,
}

impl GateMetric {
    /// The value of that name.
    pub(super) fn named(name: &str) -> Result<Self, NoMetric> {
        let column = OVERVIEW.iter().find(|column| column.name == name).map(Self::of_column);
        let quantity = || Quantity::named(name).map(Self::of_quantity);
        let record = || record_rows().find_map(|row| Some(Self::of_record(name, row_name(&row, name)?, &row)));
        match column.map(Ok).or_else(quantity).or_else(record) {
            Some(metric) => metric,
            None => {
                let records: Vec<_> = record_rows().map(|row| row.name).collect();
                let columns = OVERVIEW.iter().map(|column| column.name);
                let mut names: Vec<&str> = columns.chain(Quantity::all().map(Quantity::name)).collect();
                names.extend(records.iter().map(String::as_str));
                let nearest = similar(name, names, 1).first().map(|name| (*name).to_owned());
                Err(NoMetric::Unknown { nearest })
            }
        }
    }

    /// A column of the overview.
    pub(super) fn of_column(column: &'static OverviewColumn) -> Self {
        let measure = Measure::new(column.unit_of_amounts()).expect("columns are times, events or bytes");
        Self { name: column.name.to_owned(), source: MetricSource::Overview(column), measure }
    }

    fn of_quantity(quantity: Quantity) -> Result<Self, NoMetric> {
        let is_number = !matches!(quantity, Quantity::Metric(metric) if !is_number(metric.reduction));
        let source = MetricSource::Quantity(quantity);
        let metric = Self::new(quantity.name(), source, quantity.unit());
        metric.filter(|_| is_number).ok_or(NoMetric::NotANumber)
    }

    fn of_record(name: &str, row_name: String, row: &RecordRow) -> Result<Self, NoMetric> {
        let value_type = row.value_type;
        let source = MetricSource::Record(row.section, row_name);
        let metric = Self::new(name, source, value_type.unit);
        metric.filter(|_| is_number(value_type.reduction)).ok_or(NoMetric::NotANumber)
    }

    fn new(name: &str, source: MetricSource, unit: Unit) -> Option<Self> {
        Some(Self { name: name.to_owned(), source, measure: Measure::new(unit)? })
    }

    /// Whether it is a value of cgroups, which other groups don't have.
    pub(super) fn is_of_cgroups(&self) -> bool {
        matches!(&self.source, MetricSource::Record(section, _) if section.is_of_cgroups())
    }
}

fn is_number(reduction: Reduction) -> bool {
    matches!(reduction, Reduction::Sum | Reduction::Max | Reduction::Min)
}

/// The name that a row has in its section, if `name` means the row. Keys of memory.stat and memory.events can be any
/// word, so that their names begin with the file's.
fn row_name(row: &RecordRow, name: &str) -> Option<String> {
    let key = |file: &str| name.strip_prefix(file).filter(|key| !key.is_empty());
    let front = |pattern: &str| pattern.trim_end_matches('*').to_owned();
    match row.section {
        Section::MemoryStat => key("memory.stat.").filter(|key| key.starts_with(&front(&row.name))).map(str::to_owned),
        Section::MemoryEvents => key("memory.events.").map(str::to_owned),
        Section::IoStat => {
            let (device, field) = name.split_once(' ')?;
            let (major, minor) = device.split_once(':')?;
            let is_number = |text: &str| text.parse::<u32>().is_ok();
            let is_row = row.name.strip_prefix("MAJOR:MINOR ") == Some(field);
            (is_row && is_number(major) && is_number(minor)).then(|| name.to_owned())
        }
        Section::Pressure | Section::HostPressure => {
            let (resource, rest) = name.split_once('.')?;
            let (half, field) = rest.split_once('.')?;
            let is_row = row.name.strip_prefix("RESOURCE.HALF.") == Some(field);
            let is_known = ["cpu", "memory", "io", "irq"].contains(&resource) && ["some", "full"].contains(&half);
            (is_row && is_known).then(|| name.to_owned())
        }
        _ => (row.name == name).then(|| name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_section_have_names() {
        let section = |name: &str| GateMetric::named(name).unwrap().source.section();
        assert_eq!(section("run"), Section::Overview);
        assert_eq!(section("avg_wait_ns"), Section::Derived);
        assert_eq!(section("cpu.usage_usec"), Section::CgroupStats);
        assert_eq!(section("memory.stat.anon"), Section::MemoryStat);
        assert_eq!(section("memory.events.oom_kill"), Section::MemoryEvents);
        assert_eq!(section("8:0 rbytes"), Section::IoStat);
        assert_eq!(section("memory.full.total_usec"), Section::Pressure);
        assert_eq!(section("nr_rejected"), Section::SchedExt);
    }

    #[test]
    fn other_names_are_refused() {
        let error = |name: &str| GateMetric::named(name).unwrap_err();
        assert_eq!(error("run_tme_ns"), NoMetric::Unknown { nearest: Some("run_time_ns".to_owned()) });
        assert_eq!(error("zzz"), NoMetric::Unknown { nearest: None });
        for name in ["policy", "nice", "cpu_affinity", "state"] {
            assert_eq!(error(name), NoMetric::NotANumber, "{name}");
        }
        assert_eq!(error("ops"), NoMetric::NotANumber, "a word of sched_ext");
        for name in [
            "cpu.most.avg10",
            "disk.some.avg10",
            "cpu.some.avg11",
            "8:0 bytes",
            "8:x rbytes",
            "x:0 rbytes",
            "8 rbytes",
            "memory.stat.",
            "memory.events.",
        ] {
            assert!(matches!(error(name), NoMetric::Unknown { .. }), "{name}");
        }
    }
}
