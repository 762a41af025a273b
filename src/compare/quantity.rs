//! Values of groups of threads that have a name: columns of the overview, number of threads, metrics, derived metrics.

use super::{OVERVIEW, OverviewColumn};
use crate::model::{
    DERIVED, Derived, Direction, Formula, METRICS, Metric, MetricId, Reduction, Section, Unit, WindowRule,
};

/// A value of a group of threads.
#[derive(Clone, Copy, Debug)]
pub enum Quantity {
    /// A column of the overview.
    Column(&'static OverviewColumn),
    /// The number of threads.
    ThreadCount,
    /// The total of a metric.
    Metric(&'static Metric),
    /// The value of a derived metric.
    Derived(&'static Derived),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct AboutQuantity {
    name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) unit: Unit,
    pub(crate) direction: Direction,
    pub(crate) section: Section,
}

/// Kernel options that many distributions leave out.
const OPTIONAL: &[&str] = &["SCHEDSTATS", "SCHED_CORE", "SCHED_CLASS_EXT", "TASK_DELAY_ACCT"];

impl Quantity {
    /// Every quantity that can be selected, in the order of listings.
    pub fn all() -> impl Iterator<Item = Self> {
        let columns = OverviewColumn::of_groups().map(Self::Column);
        let metrics = METRICS.iter().map(Self::Metric);
        columns.chain([Self::ThreadCount]).chain(metrics).chain(DERIVED.iter().map(Self::Derived))
    }

    /// The quantity of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|quantity| quantity.name() == name)
    }

    /// Returns the public name.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    pub(crate) fn section(self) -> Section {
        self.about().section
    }

    /// Returns the entry of the quantity in the tables of columns and metrics.
    pub(crate) fn about(self) -> AboutQuantity {
        match self {
            Self::Column(&OverviewColumn { name, doc, unit, direction, .. }) => {
                AboutQuantity { name, doc, unit, direction, section: Section::Overview }
            }
            Self::ThreadCount => AboutQuantity {
                name: "thread_count",
                doc: "Number of threads.",
                unit: Unit::Count,
                direction: Direction::Neither,
                section: Section::Primary,
            },
            Self::Metric(&Metric { name, doc, unit, direction, section, .. })
            | Self::Derived(&Derived { name, doc, unit, direction, section, .. }) => {
                AboutQuantity { name, doc, unit, direction, section }
            }
        }
    }

    /// The metrics that it shows, or is derived from.
    pub(super) fn inputs(self) -> Vec<&'static Metric> {
        match self {
            Self::Column(column) => column.inputs().collect(),
            Self::ThreadCount => Vec::new(),
            Self::Metric(metric) => vec![metric],
            Self::Derived(derived) => derived.formula.inputs().map(MetricId::metric).collect(),
        }
    }

    /// Whether kernels have it whatever their configuration is.
    pub(super) fn is_usual(self) -> bool {
        let is_optional = |metric: &&Metric| metric.tags().any(|tag| OPTIONAL.contains(&tag));
        matches!(self, Self::Column(_)) || !self.inputs().iter().any(is_optional)
    }

    /// Whether it is the time in a state that few threads are in.
    pub(super) fn is_rare_state(self) -> bool {
        matches!(self, Self::Column(column) if column.is_rare())
    }

    /// Whether each group has a value, not only all together.
    pub(super) fn is_of_groups(self) -> bool {
        !matches!(self, Self::Column(column) if !column.is_of_groups())
    }

    /// Whether the value of a group is a total of its threads, so that it is 0 without any.
    pub(super) fn is_total(self) -> bool {
        match self {
            Self::Column(_) | Self::ThreadCount => true,
            Self::Metric(metric) => metric.reduction == Reduction::Sum,
            Self::Derived(derived) => matches!(derived.formula, Formula::Difference(..) | Formula::SumOfLargest(_)),
        }
    }

    /// Whether it is made of counters, so that in a window it is how much they rose. Columns are divided by time already.
    pub(super) fn is_increase(self) -> bool {
        let is_counter = |id: MetricId| id.metric().window == WindowRule::Increase;
        match self {
            Self::Metric(metric) => metric.reduction == Reduction::Sum && metric.window == WindowRule::Increase,
            Self::Derived(derived) => match derived.formula {
                Formula::Difference(..) | Formula::SumOfLargest(_) => derived.formula.inputs().all(is_counter),
                _ => false,
            },
            Self::Column(_) | Self::ThreadCount => false,
        }
    }

    /// Kernel options and scheduling class that it depends on.
    pub(crate) fn tags(self) -> Vec<&'static str> {
        if let Self::Metric(metric) = self { metric.tags().collect() } else { Vec::new() }
    }

    /// Whether groups can be sorted by it. Categories have no order.
    pub(crate) fn has_order(self) -> bool {
        !matches!(self, Self::Metric(metric) if metric.reduction == Reduction::Mode)
    }

    /// Whether it is, or shows, the value of that name.
    pub(super) fn includes(self, name: &str) -> bool {
        let shows = |column: &OverviewColumn| column.inputs().any(|metric| metric.name == name);
        self.name() == name || matches!(self, Self::Column(column) if shows(column))
    }

    /// Returns the column of the overview that shows this quantity alone, if there is one; else the quantity.
    pub(super) fn in_overview(self) -> Self {
        let shows = |column: &&OverviewColumn| column.inputs().map(|metric| metric.name).eq([self.name()]);
        OVERVIEW.iter().find(shows).map_or(self, Self::Column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_found_by_its_name_and_categories_have_no_order() {
        for quantity in Quantity::all() {
            assert_eq!(Quantity::named(quantity.name()).map(Quantity::name), Some(quantity.name()));
        }
        assert!(!Quantity::named("policy").unwrap().has_order() && Quantity::named("nice").unwrap().has_order());
        assert!(Quantity::named("no_such_metric").is_none());
    }

    #[test]
    fn a_quantity_has_the_meaning_and_the_tags_of_its_metric() {
        for metric in METRICS {
            let quantity = Quantity::Metric(metric);
            assert_eq!(
                (quantity.about().doc, quantity.tags()),
                (metric.doc, metric.tags().collect()),
                "{}",
                metric.name
            );
        }
        for derived in DERIVED {
            let quantity = Quantity::Derived(derived);
            assert_eq!((quantity.about().doc, quantity.tags()), (derived.doc, Vec::new()), "{}", derived.name);
        }
        let named = |name| Quantity::named(name).unwrap();
        assert_eq!(named("thread_count").about().doc, "Number of threads.");
        assert_eq!(named("nr_wakeups").tags(), ["SCHEDSTATS"]);
    }

    #[test]
    fn only_what_is_made_of_counters_rises_in_a_window() {
        let is_increase = |name: &str| Quantity::named(name).unwrap().is_increase();
        let counters = ["run_time_ns", "nr_wakeups", "minflt"];
        let others = ["nr_threads", "nice", "policy", "wait_max", "thread_count", "run", "threads"];
        assert_eq!(counters.map(is_increase), [true; 3]);
        for name in others {
            assert!(Quantity::named(name).is_none_or(|quantity| !quantity.is_increase()), "{name}");
        }
        for derived in DERIVED {
            let is_of_counters = match derived.formula {
                Formula::Difference(a, b) => [a, b].iter().all(|id| is_increase(id.metric().name)),
                Formula::SumOfLargest(sets) => sets.iter().copied().flatten().all(|id| is_increase(id.metric().name)),
                _ => false,
            };
            assert_eq!(Quantity::Derived(derived).is_increase(), is_of_counters, "{}", derived.name);
        }
    }
}
