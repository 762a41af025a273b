//! How threads are grouped, and what is reported.

use serde::Serialize;

use super::flatten::Flatten;
use super::quantity::Quantity;
use super::select::SortKey;
use super::sides::Sides;
use crate::model::Section;

/// What threads are grouped by. Process and thread ids never are: they do not survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GroupBy {
    /// The process's name.
    #[default]
    Pcomm,
    /// The thread's name: a pool, across programs.
    Comm,
    /// The thread's name exactly.
    CommExact,
    /// The cgroup's path.
    Cgroup,
    /// Cgroup, process and thread: a tree.
    All,
}

impl GroupBy {
    /// Whether the sections about cgroups come with it.
    #[must_use]
    pub fn is_by_cgroup(self) -> bool {
        matches!(self, Self::Cgroup | Self::All)
    }
}

/// Whether names are made into patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Names that differ in instance numbers only are one group.
    #[default]
    Patterns,
    /// Every name is a group.
    Literal,
}

/// How to group and what to report.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// What makes a group.
    pub group_by: GroupBy,
    /// Whether thread and process names are made into patterns.
    pub names: Names,
    /// Whether cgroup paths are made into patterns.
    pub cgroups: Names,
    /// Globs that cgroup paths are flattened by, before anything else.
    pub flatten: Vec<Flatten>,
    /// Whether cgroups that came back under another name are paired with what they were.
    pub renamed_cgroups: Names,
    /// Sections to report; empty for all that have something to say.
    pub sections: Vec<Section>,
    /// Metrics to report, derived ones and the number of threads among them; empty for all metrics.
    pub metrics: Vec<Quantity>,
    /// Order of the groups; empty for the order by how much a row changed, or in a view by CPU time.
    pub sort_by: Vec<SortKey>,
    /// What the snapshots are called: their paths.
    pub labels: Sides<String>,
}

impl Options {
    pub(super) fn wants(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }

    /// The number of threads is a column of every row, and a row of its own only where asked for.
    pub(super) fn wants_quantity(&self, quantity: Quantity) -> bool {
        let named = self.metrics.iter().any(|metric| metric.name() == quantity.name());
        named || (self.metrics.is_empty() && !matches!(quantity, Quantity::ThreadCount))
    }
}
