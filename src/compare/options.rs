//! How threads are grouped, and what is reported.

use serde::Serialize;

use super::flatten::Flatten;
use super::quantity::Quantity;
use super::select::SortKey;
use super::sides::Sides;
use crate::model::Section;

/// How threads are grouped. Never by process or thread id, because ids differ between captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GroupBy {
    /// By process name.
    #[default]
    Pcomm,
    /// By thread name: a pool, across programs.
    Comm,
    /// By exact thread name.
    CommExact,
    /// By cgroup path.
    Cgroup,
    /// By cgroup, process and thread, as a tree.
    All,
}

impl GroupBy {
    /// Whether this grouping includes the sections about cgroups.
    #[must_use]
    pub fn is_by_cgroup(self) -> bool {
        matches!(self, Self::Cgroup | Self::All)
    }
}

/// Whether names are replaced by patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Names that differ only in instance numbers are one group.
    #[default]
    Patterns,
    /// Every name is its own group.
    Literal,
}

/// How to group threads, and what to report.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// How threads are grouped.
    pub group_by: GroupBy,
    /// Whether thread and process names are replaced by patterns.
    pub names: Names,
    /// Whether cgroup paths are replaced by patterns.
    pub cgroups: Names,
    /// Globs that merge cgroups. They apply before patterns.
    pub flatten: Vec<Flatten>,
    /// Whether renamed cgroups are matched with their old names.
    pub renamed_cgroups: Names,
    /// Sections to report; empty for all with data.
    pub sections: Vec<Section>,
    /// Metrics, derived metrics and the number of threads to report; empty for all metrics.
    pub metrics: Vec<Quantity>,
    /// Order of the groups; empty for the largest change first, or the most CPU time first in a view.
    pub sort_by: Vec<SortKey>,
    /// Labels of the snapshots: their paths.
    pub labels: Sides<String>,
}

impl Options {
    pub(super) fn wants(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }

    /// The number of threads is a column of every row, and a row of its own only if selected.
    pub(super) fn wants_quantity(&self, quantity: Quantity) -> bool {
        let named = self.metrics.iter().any(|metric| metric.name() == quantity.name());
        named || (self.metrics.is_empty() && !matches!(quantity, Quantity::ThreadCount))
    }
}
