//! Quantities of a group of threads: its number of threads, metrics, derived metrics.

use crate::model::{DERIVED, Derived, Direction, Formula, METRICS, Metric, Reduction, Section, Unit};

/// A quantity of a group of threads.
#[derive(Clone, Copy, Debug)]
pub enum Quantity {
    /// The number of threads.
    ThreadCount,
    /// The total of a metric.
    Metric(&'static Metric),
    /// The value of a derived metric.
    Derived(&'static Derived),
}

impl Quantity {
    /// Every quantity, in the order of listings.
    pub fn all() -> impl Iterator<Item = Self> {
        let metrics = METRICS.iter().map(Self::Metric);
        [Self::ThreadCount].into_iter().chain(metrics).chain(DERIVED.iter().map(Self::Derived))
    }

    /// The quantity of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|quantity| quantity.name() == name)
    }

    /// Public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ThreadCount => "thread_count",
            Self::Metric(metric) => metric.name,
            Self::Derived(derived) => derived.name,
        }
    }

    pub(crate) fn doc(self) -> &'static str {
        match self {
            Self::ThreadCount => "Number of threads.",
            Self::Metric(metric) => metric.doc,
            Self::Derived(derived) => derived.doc,
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::ThreadCount => Unit::Count,
            Self::Metric(metric) => metric.unit,
            Self::Derived(derived) => derived.unit,
        }
    }

    pub(crate) fn direction(self) -> Direction {
        match self {
            Self::ThreadCount => Direction::Neither,
            Self::Metric(metric) => metric.direction,
            Self::Derived(derived) => derived.direction,
        }
    }

    /// Whether the value of a group is a total of its threads, so that it is 0 without any.
    pub(super) fn is_total(self) -> bool {
        match self {
            Self::ThreadCount => true,
            Self::Metric(metric) => metric.reduction == Reduction::Sum,
            Self::Derived(derived) => matches!(derived.formula, Formula::Difference(..) | Formula::SumOfLargest(_)),
        }
    }

    pub(crate) fn section(self) -> Section {
        match self {
            Self::ThreadCount => Section::Primary,
            Self::Metric(metric) => metric.section,
            Self::Derived(derived) => derived.section,
        }
    }

    /// Kernel options and scheduling class that it depends on.
    pub(crate) fn tags(self) -> Vec<&'static str> {
        match self {
            Self::Metric(metric) => metric.tags().collect(),
            Self::ThreadCount | Self::Derived(_) => Vec::new(),
        }
    }

    /// Whether groups can be sorted by it. Categories have no order.
    pub(crate) fn has_order(self) -> bool {
        !matches!(self, Self::Metric(metric) if metric.reduction == Reduction::Mode)
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
            assert_eq!((quantity.doc(), quantity.tags()), (metric.doc, metric.tags().collect()), "{}", metric.name);
        }
        for derived in DERIVED {
            let quantity = Quantity::Derived(derived);
            assert_eq!((quantity.doc(), quantity.tags()), (derived.doc, Vec::new()), "{}", derived.name);
        }
        let named = |name| Quantity::named(name).unwrap();
        assert_eq!(named("thread_count").doc(), "Number of threads.");
        assert_eq!(named("nr_wakeups").tags(), ["SCHEDSTATS"]);
    }
}
