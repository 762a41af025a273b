//! From two snapshots to what moved between them, or from one to its groups. Pure functions:
//! everything that a report shows is in the value they return.

mod delta;
mod group;
mod host;
mod pattern;
mod rank;
mod rows;
mod select;
mod show;

use crate::model::CtprofSnapshot;

pub use self::delta::{Change, Delta};
pub use self::group::{Group, GroupBy};
pub use self::host::{Difference, Header, Side};
pub use self::pattern::pattern_key;
pub use self::rows::{Comparison, Row, Rows};
pub use self::select::{Order, SelectError, SortBy, SortKey, metric, parse_metrics, parse_sort};
pub use self::show::{View, ViewRow, show};

use crate::model::Metric;

/// A value of each side of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Sides<T> {
    /// Of the first snapshot.
    pub baseline: T,
    /// Of the second.
    pub candidate: T,
}

impl<T> Sides<T> {
    /// Applies `f` to both.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Sides<U> {
        Sides { baseline: f(self.baseline), candidate: f(self.candidate) }
    }

    /// The sides, borrowed.
    pub fn as_ref(&self) -> Sides<&T> {
        Sides { baseline: &self.baseline, candidate: &self.candidate }
    }
}

/// Whether thread and process names are made into patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Names that differ in numbers only are one group.
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
    /// Whether names are made into patterns.
    pub names: Names,
    /// Metrics to report; empty for all.
    pub metrics: Vec<&'static Metric>,
    /// Order of the groups; empty for the order by how much a row moved.
    pub sort_by: Vec<SortKey>,
    /// What the snapshots are called: their paths.
    pub labels: Sides<String>,
}

/// Compares two snapshots.
#[must_use]
pub fn compare(baseline: &CtprofSnapshot, candidate: &CtprofSnapshot, options: &Options) -> Comparison {
    let sides = Sides { baseline, candidate };
    let groups = group::pair(sides, options);
    Comparison {
        header: host::header(sides, &options.labels),
        group_by: options.group_by,
        rows: rows::rows(groups, options),
    }
}

impl Options {
    fn wants(&self, metric: &Metric) -> bool {
        self.metrics.is_empty() || self.metrics.iter().any(|wanted| wanted.name == metric.name)
    }
}
