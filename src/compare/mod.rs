//! From two snapshots to what changed between them, or from one to its groups. Pure functions:
//! everything that a report shows is in the value they return.

mod captures;
mod cgroup_keys;
mod delta;
mod digest;
mod entry;
mod flatten;
mod gate;
mod gate_metric;
mod gate_outcome;
mod gate_values;
mod group;
mod host;
mod judge;
mod merge;
mod notes;
mod only;
mod options;
mod overview;
mod pipeline;
mod quantity;
mod rank;
mod records;
mod rows;
mod runs;
mod select;
mod sides;
mod similar;
mod smaps;
mod word;

use crate::diagnose::{Finding, findings_of};
use crate::model::{CtprofSnapshot, MetricId, Section};
use crate::statistics::Design;

pub use self::cgroup_keys::renamed::Renamed;
pub use self::delta::{Change, Delta};
pub use self::digest::{Digest, ThreadTotals, Turnover};
pub use self::entry::Population;
pub use self::flatten::Flatten;
pub use self::gate::{Gate, GateError, WORSE};
pub use self::gate_outcome::{GateChange, GateFault, GateOutcome, GateResult};
pub use self::host::{CommandTotals, Difference, Header, Side, WindowSide};
use self::judge::Judge;
pub use self::judge::{RowRuns, RunsNeeded};
pub use self::only::{GroupGlob, NoSuchGroup};
pub use self::options::{Form, GroupBy, Names, Options, Per, Scope, Threshold};
pub use self::overview::{OVERVIEW, OverviewColumn};
pub use self::quantity::Quantity;
pub use self::rows::{ComparisonTable, Group, Row, Table, ViewRow, ViewTable};
pub use self::runs::{Elapsed, RunCount, Runs, RunsError};
pub use self::select::{Order, SelectError, SortKey, parse_metric, parse_section, parse_sort_key};
pub use self::sides::Sides;
use self::sides::joined;
pub use self::smaps::collect_smaps_rollup;
pub use self::word::{direction, word};

/// The comparison of two sides.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// The snapshots, host differences and warnings; `None` if the section was not selected.
    pub header: Option<Header>,
    /// How threads are grouped.
    pub group_by: GroupBy,
    /// What values of the overview are divided by.
    pub per: Per,
    /// Number of runs of each side.
    pub runs: Sides<usize>,
    /// How the runs of both sides belong together.
    pub design: Design,
    /// What intervals are compared with; `None` for two single captures.
    pub threshold: Option<Threshold>,
    /// The sections, in order.
    pub tables: Vec<ComparisonTable>,
    /// Renamed cgroups; empty unless threads are grouped by cgroup.
    pub renamed: Vec<Renamed>,
    /// Selections of groups that match none.
    pub unmatched: Vec<NoSuchGroup>,
    /// The results of the gates, in their order.
    pub gates: Vec<GateResult>,
}

impl Comparison {
    /// Whether a side has several runs, so that rows have the values of each.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.runs.into_iter().any(|runs| runs > 1)
    }
}

/// The groups of one snapshot.
#[derive(Debug)]
#[non_exhaustive]
pub struct View {
    /// The snapshot; `None` if the section was not selected.
    pub side: Option<Side>,
    /// The host's settings by name; empty if the section was not selected.
    pub host: Vec<(String, String)>,
    /// What could not be read.
    pub gaps: Vec<Finding>,
    /// How threads are grouped.
    pub group_by: GroupBy,
    /// What values of the overview are divided by.
    pub per: Per,
    /// The sections, in order.
    pub tables: Vec<ViewTable>,
    /// Selections of groups that match none.
    pub unmatched: Vec<NoSuchGroup>,
}

/// Compares two snapshots.
#[must_use]
pub fn compare(baseline: &CtprofSnapshot, candidate: &CtprofSnapshot, options: &Options) -> Comparison {
    let digest = |snapshot| Digest::of_snapshot(snapshot, options);
    let sides = Sides::from(rayon::join(|| digest(baseline), || digest(candidate)));
    compare_digests(sides.map(Runs::from), options)
}

/// Groups one snapshot. Groups with the most CPU time come first, unless `options` has another order.
#[must_use]
pub fn show(snapshot: &CtprofSnapshot, options: &Options) -> View {
    show_digest(Digest::of_snapshot(snapshot, options), options)
}

/// Compares two sides of one or more runs each, made with these options. Of several runs, each value is the
/// median, with the values of all runs in its row; the host is that of the first.
///
/// # Panics
/// If a side is empty.
#[must_use]
pub fn compare_digests(sides: Sides<Runs>, options: &Options) -> Comparison {
    compare_with_gates(sides, options, &[])
}

/// Compares two sides as [`compare_digests`] does, and judges gates.
///
/// # Panics
/// If a side is empty.
#[must_use]
pub fn compare_with_gates(sides: Sides<Runs>, options: &Options, gates: &[Gate]) -> Comparison {
    let counts = sides.as_ref().map(Runs::count);
    let sides = sides.map(|side| side.digests);
    let all = sides.baseline.iter().chain(&sides.candidate);
    let per = options.per.unwrap_or_else(|| overview::per_of_comparison(all));
    let grouped = pipeline::reduce(sides, per, options, gates);
    let first = grouped.digests.as_ref().map(|digests| digests.first().expect("a side has a capture"));
    let snapshots = first.map(|digest| &digest.head);
    let tables = joined(grouped.sections).into_iter().map(|(section, sides)| {
        let keys = if pipeline::is_sorted(section) { &options.sort_by[..] } else { &[] };
        let Sides { baseline: (before, known_before), candidate: (after, known_after) } =
            sides.map(Option::unwrap_or_default);
        let known = Sides { baseline: known_before, candidate: known_after };
        let judge =
            grouped.is_repeated.then_some(Judge { known, design: grouped.design, threshold: options.threshold });
        rows::comparison_table(section, Sides { baseline: before, candidate: after }, keys, judge.as_ref())
    });
    let mut tables: Vec<_> = tables.collect();
    let findings = first.map(|digest| findings_of(&digest.head, &digest.census));
    let sides = first.map(Some);
    for table in &mut tables {
        match table.section {
            Section::Overview => {
                overview::rank(table, host::size(snapshots, per), &options.sort_by);
                let populations = table.groups.iter().flat_map(|group| group.population.as_ref()).flatten();
                table.notes.extend(overview::unnamed_children(populations, snapshots.into_iter()));
            }
            Section::SchedExt => table.notes.extend(records::reloads(snapshots)),
            Section::Capture => table.notes.extend(captures::missing(findings.as_ref(), sides)),
            _ => {}
        }
    }
    notes::finish(&mut tables, sides, findings.as_ref(), options);
    Comparison {
        header: options.wants(Section::Host).then(|| host::header(first, counts, options)),
        group_by: options.group_by,
        per,
        runs: grouped.digests.as_ref().map(Vec::len),
        design: grouped.design,
        threshold: counts.into_iter().any(|count| count.is_some()).then_some(options.threshold),
        tables,
        renamed: if options.group_by.is_by_cgroup() { grouped.renamed } else { Vec::new() },
        unmatched: grouped.unmatched,
        gates: grouped.gates,
    }
}

/// Groups one capture, made with these options.
#[must_use]
pub fn show_digest(digest: Digest, options: &Options) -> View {
    let is_usual_order = options.sort_by.is_empty();
    let mut options = options.clone();
    if options.sort_by.is_empty() {
        options.sort_by = vec![SortKey { by: Quantity::Metric(MetricId::run_time_ns.metric()), order: Order::Desc }];
    }
    let per = options.per.unwrap_or_else(|| overview::per_of_view(&digest));
    let grouped = pipeline::reduce(Sides { baseline: vec![digest], candidate: Vec::new() }, per, &options, &[]);
    let [digest] = grouped.digests.baseline.as_slice() else { unreachable!("one digest was given") };
    let (snapshot, census) = (&digest.head, &digest.census);
    let tables = grouped.sections.baseline.into_iter().map(|(section, (side, _))| {
        let keys = if pipeline::is_sorted(section) { &options.sort_by[..] } else { &[] };
        rows::view_table(section, side, keys)
    });
    let mut tables: Vec<_> = tables.collect();
    let findings = Sides { baseline: findings_of(snapshot, census), candidate: Vec::new() };
    let sides = Sides { baseline: Some(digest), candidate: None };
    for table in &mut tables {
        match table.section {
            Section::Overview => {
                if is_usual_order {
                    overview::rank_view(table);
                }
                let populations = table.groups.iter().map(|group| &group.population);
                table.notes.extend(overview::unnamed_children(populations, [snapshot].into_iter()));
            }
            Section::Capture => table.notes.extend(captures::missing(findings.as_ref(), sides)),
            _ => {}
        }
    }
    notes::finish(&mut tables, sides, findings.as_ref(), &options);
    let host = options.wants(Section::Host);
    View {
        side: host.then(|| host::side(digest, &options.labels.baseline)),
        host: snapshot.host.as_ref().filter(|_| host).map(host::facts).unwrap_or_default(),
        group_by: options.group_by,
        per,
        tables,
        unmatched: grouped.unmatched,
        gaps: findings.baseline.into_iter().filter(Finding::is_gap).collect(),
    }
}
