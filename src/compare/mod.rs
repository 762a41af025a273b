//! From two snapshots to what moved between them, or from one to its groups. Pure functions:
//! everything that a report shows is in the value they return.

mod captures;
mod cgroup_keys;
mod delta;
mod group;
mod host;
mod namesakes;
mod rank;
mod records;
mod rows;
mod select;
mod smaps;

use std::collections::BTreeMap;

use crate::diagnose::{self, Finding, Note, findings_of, why_empty};
use crate::model::{Census, Context, CtprofSnapshot, MetricId, Section};

use self::cgroup_keys::CgroupKeys;
pub use self::cgroup_keys::{Flatten, Renamed};
pub use self::delta::{Change, Delta};
pub use self::group::{Group, GroupBy};
pub use self::host::{Difference, Header, Side};
use self::namesakes::Namesakes;
pub use self::rows::{Row, Table};
pub use self::select::{
    Order, SelectError, SortBy, SortKey, metric, nearest, parse_metrics, parse_sections, parse_sort,
};

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

impl From<bool> for Names {
    /// The answer to "take names as they are?".
    fn from(literal: bool) -> Self {
        if literal { Self::Literal } else { Self::Patterns }
    }
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
    /// Names of metrics to report, derived ones among them; empty for all.
    pub metrics: Vec<&'static str>,
    /// Order of the groups; empty for the order by how much a row moved.
    pub sort_by: Vec<SortKey>,
    /// What the snapshots are called: their paths.
    pub labels: Sides<String>,
}

impl Options {
    fn wants(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }

    fn wants_metric(&self, name: &str) -> bool {
        self.metrics.is_empty() || self.metrics.contains(&name)
    }
}

/// Two snapshots, compared.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// What is compared, and what makes that doubtful; `None` if the section was not asked for.
    pub header: Option<Header>,
    /// What made the groups of threads.
    pub group_by: GroupBy,
    /// The sections, in order.
    pub tables: Vec<Table>,
    /// Cgroups that came back under another name, if that matters to the groups.
    pub renamed: Vec<Renamed>,
}

/// One snapshot, grouped: tables whose candidate side is empty.
#[derive(Debug)]
#[non_exhaustive]
pub struct View {
    /// What is shown; `None` if the section was not asked for.
    pub side: Option<Side>,
    /// Facts of the host, by name; empty where it has none.
    pub host: Vec<(String, String)>,
    /// What could not be read.
    pub gaps: Vec<Finding>,
    /// What made the groups of threads.
    pub group_by: GroupBy,
    /// The sections, in order.
    pub tables: Vec<Table>,
}

/// Compares two snapshots.
#[must_use]
pub fn compare(baseline: &CtprofSnapshot, candidate: &CtprofSnapshot, options: &Options) -> Comparison {
    let sides = Sides { baseline, candidate };
    let snapshots = sides.map(Some);
    let threads = namesakes::of_both(snapshots);
    let cgroups = cgroup_keys(snapshots, threads.as_ref(), options);
    let paired = group::pair(snapshots, threads.as_ref(), &cgroups, options);
    let contexts = sides.map(context);
    let order = rows::group_order(&paired, &options.sort_by, contexts);
    let mut tables = rows::metric_tables(&paired, options, contexts, |rows| rows::by_movement(rows, &order));
    tables.extend(records::tables(snapshots, &cgroups, options));
    let census = Sides::from(rayon::join(|| Census::of(&baseline.threads), || Census::of(&candidate.threads)));
    let findings = Sides {
        baseline: findings_of(baseline, &census.baseline),
        candidate: findings_of(candidate, &census.candidate),
    };
    let header = options.wants(Section::Host).then(|| host::header(sides, census.as_ref(), &options.labels));
    let renamed = if options.group_by.is_by_cgroup() { cgroups.list } else { Vec::new() };
    Comparison {
        header,
        group_by: options.group_by,
        tables: finished(tables, snapshots, findings.as_ref(), options),
        renamed,
    }
}

/// Groups one snapshot. The groups with the most CPU time come first unless another order is
/// asked for.
#[must_use]
pub fn show(snapshot: &CtprofSnapshot, options: &Options) -> View {
    let snapshots = Sides { baseline: Some(snapshot), candidate: None };
    let threads = namesakes::of_both(snapshots);
    let cgroups = cgroup_keys(snapshots, threads.as_ref(), options);
    let paired = group::pair(snapshots, threads.as_ref(), &cgroups, options);
    let run_time = SortKey { by: SortBy::Metric(MetricId::run_time_ns.metric()), order: Order::Desc };
    let keys = if options.sort_by.is_empty() { vec![run_time] } else { options.sort_by.clone() };
    let contexts = Sides { baseline: context(snapshot), candidate: Context::default() };
    let order = rows::group_order(&paired, &keys, contexts);
    let mut tables = rows::metric_tables(&paired, options, contexts, |rows| rows.sort_by_key(|row| order[row.group]));
    tables.extend(records::tables(snapshots, &cgroups, options));
    let host = options.wants(Section::Host);
    let findings = Sides { baseline: findings_of(snapshot, &Census::of(&snapshot.threads)), candidate: Vec::new() };
    View {
        side: host.then(|| host::side(snapshot, &options.labels.baseline)),
        host: snapshot.host.as_ref().filter(|_| host).map(host::facts).unwrap_or_default(),
        group_by: options.group_by,
        tables: finished(tables, snapshots, findings.as_ref(), options),
        gaps: findings.baseline.into_iter().filter(Finding::is_gap).collect(),
    }
}

fn cgroup_keys<'s>(
    snapshots: Sides<Option<&'s CtprofSnapshot>>,
    threads: Sides<&Vec<Namesakes<'s>>>,
    options: &Options,
) -> CgroupKeys<'s> {
    let names = |n: &Namesakes<'s>| (&**n.process, &**n.thread, n.cgroup.map(|name| &**name));
    let recorded = snapshots.map(|s| s.into_iter().flat_map(|s| s.cgroup_stats.keys().map(String::as_str)));
    CgroupKeys::learn(threads.map(|threads| threads.iter().map(names)), recorded, options)
}

/// What the formulas of derived metrics have to know of a snapshot.
fn context(snapshot: &CtprofSnapshot) -> Context {
    let summary = snapshot.taskstats_summary.as_ref();
    Context { taskstats_version: summary.and_then(|summary| summary.struct_version) }
}

/// Adds the section on the captures themselves, drops sections without a word to say, and says why
/// where one was asked for by name.
fn finished(
    mut tables: Vec<Table>,
    snapshots: Sides<Option<&CtprofSnapshot>>,
    findings: Sides<&Vec<Finding>>,
    options: &Options,
) -> Vec<Table> {
    if options.wants(Section::Capture) {
        tables.push(captures::table(snapshots, findings));
    }
    let silent = |table: &Table| table.rows.iter().all(|row| row.change == Change::Absent) && table.notes.is_empty();
    if options.sections.is_empty() {
        tables.retain(|table| !silent(table));
    } else {
        for table in &mut tables {
            if silent(table) {
                table.notes = no_data(table.section, snapshots, findings, options);
            } else if table.rows.iter().all(|row| row.change >= Change::Unchanged) && table.notes.is_empty() {
                table.notes.push(Note::NothingChanged);
            }
        }
        let missing = options.sections.iter().filter(|section| section.is_of_cgroups());
        let missing: Vec<_> =
            missing.filter(|section| !tables.iter().any(|table| table.section == **section)).collect();
        let note = || vec![Note::NeedsCgroupGrouping];
        tables.extend(missing.into_iter().map(|&section| Table {
            section,
            groups: vec![],
            rows: vec![],
            notes: note(),
        }));
    }
    tables.sort_by_key(|table| table.section);
    tables
}

/// Why a section that was asked for has no data: one note, or one per side if the causes differ.
fn no_data(
    section: Section,
    snapshots: Sides<Option<&CtprofSnapshot>>,
    findings: Sides<&Vec<Finding>>,
    options: &Options,
) -> Vec<Note> {
    let why = |snapshot, findings| why_empty(section, snapshot, findings, |name| options.wants_metric(name));
    let Sides { baseline, candidate } = snapshots;
    let baseline = baseline.map(|snapshot| why(snapshot, findings.baseline));
    let candidate = candidate.map(|snapshot| why(snapshot, findings.candidate));
    let note = |side, why| Note::NoData { side, why };
    match (baseline, candidate) {
        (Some(a), Some(b)) if a != b => {
            vec![note(Some(diagnose::Side::Baseline), a), note(Some(diagnose::Side::Candidate), b)]
        }
        (a, b) => a.or(b).map(|why| note(None, why)).into_iter().collect(),
    }
}
