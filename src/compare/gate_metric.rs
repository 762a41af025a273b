//! The values that gates can look at, by name.

use super::{ELAPSED, OverviewColumn, Quantity, ReasonName, name_similarity};
use crate::model::{RecordRow, Reduction, Section, Unit, WITH_DESCENDANTS, record_rows};

/// A value that gates can look at: a column of the overview, a quantity of a group of threads, or a value of cgroups, of
/// the host or of sched_ext.
#[derive(Clone, Debug)]
pub(super) struct GateMetric {
    /// Name of the metric, as the gate has it.
    pub(super) name: String,
    pub(super) section: Section,
    /// The name of its rows.
    pub(super) row: String,
    /// The quantity, if it is one of groups of threads.
    pub(super) quantity: Option<Quantity>,
    /// The reasons that it is the sum of, if it is one of reasons.
    pub(super) reason: Option<ReasonName>,
    pub(super) unit: Unit,
}

/// Why a name is not one of a value that gates can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMetric {
    Unknown,
    /// It is a category, a range or a set of CPUs.
    NotANumber,
}

/// Returns true if a name is so similar to the name of another value that it is not taken for a reason, which can have any name.
pub(super) fn is_typo(name: &str, other: &str) -> bool {
    name_similarity(name, other) > 0.9
}

impl GateMetric {
    pub(super) fn named(name: &str) -> Result<Self, NoMetric> {
        if let Some(column) = OverviewColumn::named(name) {
            return Ok(Self::of_column(column));
        }
        let is_number = |reduction| !matches!(reduction, Reduction::Mode | Reduction::Cpus);
        let quantity = Quantity::named(name);
        let (section, row, unit, is_number) = if let Some(quantity) = quantity {
            let is_number = !matches!(quantity, Quantity::Metric(metric) if !is_number(metric.reduction));
            (quantity.section(), name.to_owned(), quantity.about().unit, is_number)
        } else {
            let found = record_rows().find_map(|row| Some((row_name(&row, name)?, row)));
            let (row_name, row) = found.ok_or(NoMetric::Unknown)?;
            (row.section, row_name, row.value_type.unit, is_number(row.value_type.reduction))
        };
        let is_scaled = is_number && unit != Unit::None;
        let new = || Self { name: name.to_owned(), section, row, quantity, reason: None, unit };
        is_scaled.then(new).ok_or(NoMetric::NotANumber)
    }

    pub(super) fn of_column(column: &'static OverviewColumn) -> Self {
        let (name, quantity) = (column.name.to_owned(), Some(Quantity::Column(column)));
        Self { row: name.clone(), name, section: Section::Overview, quantity, reason: None, unit: column.unit }
    }

    /// Returns the metric for the time of the reasons with that name; `None` if no reason can have the name, or if it is nearly
    /// the name of another value.
    pub(super) fn of_reasons(name: &str) -> Option<Self> {
        let reason = ReasonName::parse(name)?;
        let valid_names = Quantity::all().map(Quantity::name).chain([ELAPSED, "threads"]).map(str::to_owned);
        let mut valid_names = valid_names.chain(record_rows().map(|row| row.name));
        let is_typo = !name.contains(['/', ':']) && valid_names.any(|valid_name| is_typo(name, &valid_name));
        let (name, row) = (name.to_owned(), reason.to_string());
        let (section, unit) = (Section::Reasons, Unit::Ns);
        (!is_typo).then_some(Self { name, section, row, quantity: None, reason: Some(reason), unit })
    }
}

/// The name that a row has in its section, if `name` means the row. Keys of memory.stat and memory.events can be any
/// word, so that their names begin with the file's.
fn row_name(row: &RecordRow, name: &str) -> Option<String> {
    let key = |file: &str| name.strip_prefix(file).filter(|key| !key.is_empty());
    let front = |pattern: &str| pattern.trim_end_matches('*').to_owned();
    match row.section {
        Section::MemoryStat => {
            let is_it = |key: &&str| key.strip_prefix(WITH_DESCENDANTS).unwrap_or(key).starts_with(&front(&row.name));
            key("memory.stat.").filter(is_it).map(str::to_owned)
        }
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
        let section = |name: &str| GateMetric::named(name).unwrap().section;
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
    fn values_of_cgroups_of_version_1_have_the_units_of_version_2() {
        let unit = |name: &str| GateMetric::named(name).unwrap().unit;
        assert_eq!(unit("memory.stat.total_pgfault"), Unit::Count);
        assert_eq!(unit("memory.stat.total_cache"), Unit::Bytes);
    }

    #[test]
    fn other_names_are_refused() {
        let error = |name: &str| GateMetric::named(name).unwrap_err();
        assert_eq!(error("run_tme_ns"), NoMetric::Unknown);
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
            assert_eq!(error(name), NoMetric::Unknown, "{name}");
        }
    }
}
