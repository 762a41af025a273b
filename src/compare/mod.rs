//! From two snapshots to what moved between them, or from one to its groups. Pure functions:
//! everything that a report shows is in the value they return.

mod captures;
mod cgroup_keys;
mod delta;
mod digest;
mod entry;
mod group;
mod host;
mod pipeline;
mod quantity;
mod rank;
mod records;
mod rows;
mod select;
mod smaps;

use std::collections::BTreeMap;

use crate::diagnose::{Finding, Note, gaps};
use crate::model::{CtprofSnapshot, Section};

pub use self::cgroup_keys::{Flatten, Renamed};
pub use self::delta::{Change, Delta};
pub use self::digest::{ByName, ByProcess, Digest, MemoryKey, ThreadTotals};
pub use self::entry::Population;
pub use self::group::GroupBy;
pub use self::host::{Difference, Header, Side};
pub use self::quantity::Quantity;
pub use self::rows::{ComparisonTable, Group, Row, Table, ViewRow, ViewTable};
pub use self::select::{Order, SelectError, SortKey, parse_metric, parse_section, parse_sort_key};
pub use self::smaps::collect_smaps_rollup;

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

    /// The sides, borrowed to be changed.
    pub fn as_mut(&mut self) -> Sides<&mut T> {
        Sides { baseline: &mut self.baseline, candidate: &mut self.candidate }
    }
}

impl<T> From<(T, T)> for Sides<T> {
    fn from((baseline, candidate): (T, T)) -> Self {
        Self { baseline, candidate }
    }
}

impl<T> IntoIterator for Sides<T> {
    type Item = T;
    type IntoIter = std::array::IntoIter<T, 2>;

    fn into_iter(self) -> Self::IntoIter {
        [self.baseline, self.candidate].into_iter()
    }
}

/// Both sides of each key.
fn joined<K: Ord, V>(maps: Sides<BTreeMap<K, V>>) -> BTreeMap<K, Sides<Option<V>>> {
    let mut joined: BTreeMap<K, Sides<Option<V>>> = BTreeMap::new();
    let empty = || Sides { baseline: None, candidate: None };
    for (key, value) in maps.baseline {
        joined.entry(key).or_insert_with(empty).baseline = Some(value);
    }
    for (key, value) in maps.candidate {
        joined.entry(key).or_insert_with(empty).candidate = Some(value);
    }
    joined
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
    fn wants(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }

    /// The number of threads is a column of every row, and a row of its own only where asked for.
    fn wants_quantity(&self, quantity: Quantity) -> bool {
        let named = self.metrics.iter().any(|metric| metric.name() == quantity.name());
        named || (self.metrics.is_empty() && !matches!(quantity, Quantity::ThreadCount))
    }
}

/// Two sides, compared.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// What is compared, and what makes that doubtful; `None` if the section was not asked for.
    pub header: Option<Header>,
    /// What threads are grouped by.
    pub group_by: GroupBy,
    /// The sections, in order.
    pub tables: Vec<ComparisonTable>,
    /// Cgroups that were started again under another name, if that matters to the groups.
    pub renamed: Vec<Renamed>,
}

/// One snapshot, grouped.
#[derive(Debug)]
#[non_exhaustive]
pub struct View {
    /// What is shown; `None` if the section was not asked for.
    pub side: Option<Side>,
    /// Facts of the host, by name; empty where it has none.
    pub host: Vec<(String, String)>,
    /// What could not be read.
    pub gaps: Vec<Finding>,
    /// What threads are grouped by.
    pub group_by: GroupBy,
    /// The sections, in order.
    pub tables: Vec<ViewTable>,
}

/// Compares two snapshots.
#[must_use]
pub fn compare(baseline: &CtprofSnapshot, candidate: &CtprofSnapshot, options: &Options) -> Comparison {
    let sides = rayon::join(|| vec![digest(baseline, options)], || vec![digest(candidate, options)]);
    compare_digests(sides.into(), options)
}

/// Groups one snapshot. The groups with the most CPU time come first unless another order is asked for.
#[must_use]
pub fn show(snapshot: &CtprofSnapshot, options: &Options) -> View {
    show_digest(digest(snapshot, options), options)
}

fn digest(snapshot: &CtprofSnapshot, options: &Options) -> Digest {
    match options.names {
        Names::Patterns => Digest::of::<ByName>(snapshot),
        Names::Literal => Digest::of::<ByProcess>(snapshot),
    }
}

/// Compares two sides of one or more captures each. Of several, each value is the middle one; what is
/// said of the host is said of the first.
///
/// # Panics
/// If a side has no capture.
#[must_use]
pub fn compare_digests(sides: Sides<Vec<Digest>>, options: &Options) -> Comparison {
    let grouped = pipeline::reduce(sides, options);
    let first = grouped.digests.as_ref().map(|digests| digests.first().expect("a side has a capture"));
    let snapshots = first.map(|digest| &digest.snapshot);
    let sides = grouped.sections.map(pipeline::middle);
    let tables = joined(sides).into_iter().map(|(section, sides)| {
        let keys = if section.is_of_threads() { &options.sort_by[..] } else { &[] };
        rows::comparison_table(section, sides.map(Option::unwrap_or_default), keys)
    });
    let mut tables: Vec<_> = tables.collect();
    let gaps = first.map(|digest| gaps(&digest.snapshot, &digest.census));
    let gaps = gaps.as_ref().map(Vec::as_slice);
    for table in &mut tables {
        match table.section {
            Section::SchedExt => table.notes.extend(records::reloads(snapshots)),
            Section::Capture => table.notes.extend(captures::hints(gaps)),
            _ => {}
        }
    }
    pipeline::finish(&mut tables, gaps, options);
    Comparison {
        header: options.wants(Section::Host).then(|| host::header(first, &options.labels)),
        group_by: options.group_by,
        tables,
        renamed: if options.group_by.is_by_cgroup() { grouped.renamed } else { Vec::new() },
    }
}

/// Groups one capture.
#[must_use]
pub fn show_digest(digest: Digest, options: &Options) -> View {
    let mut options = options.clone();
    if options.sort_by.is_empty() {
        options.sort_by = vec![SortKey { by: Quantity::named("run_time_ns").unwrap(), order: Order::Desc }];
    }
    let grouped = pipeline::reduce(Sides { baseline: vec![digest], candidate: Vec::new() }, &options);
    let [digest] = grouped.digests.baseline.as_slice() else { unreachable!("one digest was given") };
    let (snapshot, census) = (&digest.snapshot, &digest.census);
    let tables = pipeline::middle(grouped.sections.baseline).into_iter().map(|(section, side)| {
        let keys = if section.is_of_threads() { &options.sort_by[..] } else { &[] };
        rows::view_table(section, side, keys)
    });
    let mut tables: Vec<_> = tables.collect();
    let gaps = gaps(snapshot, census);
    for table in tables.iter_mut().filter(|table| table.section == Section::Capture) {
        table.notes.extend(gaps.iter().map(|gap| Note::Gap(None, gap.clone())));
    }
    pipeline::finish(&mut tables, Sides { baseline: &gaps, candidate: &[] }, &options);
    let host = options.wants(Section::Host);
    View {
        side: host.then(|| host::side(digest, &options.labels.baseline)),
        host: snapshot.host.as_ref().filter(|_| host).map(host::facts).unwrap_or_default(),
        group_by: options.group_by,
        tables,
        gaps,
    }
}
