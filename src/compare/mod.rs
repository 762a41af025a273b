//! From two snapshots to what changed between them, or from one to its groups. Pure functions:
//! everything that a report shows is in the value they return.

mod captures;
mod cgroup_keys;
mod delta;
mod digest;
mod exited_work;
mod gaps;
mod gate;
mod gate_metric;
mod gate_outcome;
mod globs;
mod group;
mod headline;
mod host;
mod judge;
mod measurement;
mod merge;
mod notes;
mod options;
mod overview;
mod overview_columns;
mod pipeline;
mod quantity;
mod rank;
mod reason;
mod reasons;
mod records;
mod rows;
mod runs;
mod scope;
mod select;
mod sides;
mod slowdown;
mod smaps;
mod trend;
mod until;
mod why;

use std::collections::BTreeSet;

use crate::diagnose::{Finding, findings_of};
use crate::model::{CtprofSnapshot, MetricId, Section};
use crate::statistics::Design;

use self::group::{Groups, Naming};
use self::overview::Times;
pub(crate) use self::overview::word;
use self::reasons::{GroupedReasons, ReasonRows, Wanted};
use self::smaps::ProcessMemory;
pub use self::smaps::collect_smaps_rollup;
pub use self::{
    cgroup_keys::*, delta::*, digest::*, gate::*, gate_outcome::*, globs::*, host::*, judge::*, options::*,
    overview_columns::*, pipeline::*, quantity::*, reason::*, rows::*, runs::*, scope::*, select::*, sides::*,
    trend::*, until::*,
};
use self::{gate_metric::*, merge::*, notes::*, slowdown::*};
pub(crate) use self::{measurement::*, why::*};

/// The groups of one side, or of two with what changed between them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The sides, host differences and warnings; `None` if the section was not selected.
    pub header: Option<Header>,
    /// What the only side could not read; empty in a report of two sides, which has notes.
    pub gaps: Vec<Finding>,
    /// How threads are grouped.
    pub group_by: GroupBy,
    /// The threads that are looked at.
    pub scope: Scope,
    /// What values of the overview are divided by, of two sides all rises of counters.
    pub per: Per,
    /// Number of runs of each side.
    pub runs: Sides<usize>,
    /// How the runs of both sides belong together.
    pub design: Design,
    /// What intervals are compared with; `None` without several runs.
    pub threshold: Option<Threshold>,
    /// The sections, in order.
    pub sections: Vec<ReportSection>,
    /// Why the time of groups of the overview passes, in their order.
    pub(crate) why: Vec<Why>,
    /// Renamed cgroups; empty unless threads are grouped by cgroup.
    pub renamed: Vec<Renamed>,
    /// Selections of groups that match none.
    pub unmatched: Vec<NoSuchGroup>,
    /// Why the sections are not complete, if they are not.
    pub too_large: Option<TooManyRows>,
    /// The results of the gates, in their order.
    pub gates: Vec<GateResult>,
    /// The cgroups, processes and threads below the groups, if the options have them.
    pub tree: Option<Box<Report>>,
    /// How columns changed in the course of a series; none of anything else.
    pub trends: Vec<Trend>,
}

impl Report {
    pub(crate) fn is_comparison(&self) -> bool {
        self.runs.candidate.is_some()
    }

    /// Whether a side has several runs, so that rows have the values of each.
    pub fn is_repeated(&self) -> bool {
        self.runs.into_iter().any(|runs| runs > 1)
    }

    /// How long the commands took, of a comparison of recorded commands.
    pub fn elapsed(&self) -> Option<&Row> {
        self.rows().map(|(_, row)| row).find(|row| row.section == Section::Overview && row.name == ELAPSED)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Group, &Row)> + Clone {
        self.sections.iter().flat_map(|section| section.rows.iter().map(|row| (&section.groups[row.group], row)))
    }

    pub(crate) fn euids(&self) -> BTreeSet<u32> {
        let groups = self.sections.iter().flat_map(|section| &section.groups);
        groups.flat_map(|group| group.of_members(|members| members.euid).into_iter().flatten()).collect()
    }

    pub(crate) fn has_verdicts(&self) -> bool {
        self.is_repeated() && self.rows().any(|(_, row)| row.verdict().is_some())
    }
}

/// Compares two snapshots.
#[must_use]
pub fn compare(baseline: &CtprofSnapshot, candidate: &CtprofSnapshot, options: &CompareOptions) -> Report {
    let options = &options.clone().for_captures([&baseline.head, &candidate.head].into_iter());
    let sides = Sides::two(baseline, candidate).par_map(|snapshot| Digest::of_snapshot(snapshot, options));
    report(sides.map(Runs::from), options, &[])
}

/// Groups one snapshot. Groups with the most CPU time come first, unless `options` has another order.
#[must_use]
pub fn show(snapshot: &CtprofSnapshot, options: &CompareOptions) -> Report {
    report(Sides::one(Digest::of_snapshot(snapshot, options).into()), options, &[])
}

/// The report on one side, or on two, of one or more runs each, made with these options. Of several runs, each value is
/// the median, with the values of all runs in its row; the host is that of the first. Gates need two sides.
///
/// # Panics
/// If a side is empty.
#[must_use]
pub fn report(sides: Sides<Runs>, options: &CompareOptions, gates: &[Gate]) -> Report {
    let Some(tree) = options.tree() else { return groups(sides, options, gates) };
    let narrowed = sides.as_ref().par_map(|side| side.narrowed(options.group_by));
    let (report, tree) = rayon::join(|| groups(narrowed, options, gates), || groups(sides, &tree, &[]));
    let too_large = report.too_large.or(tree.too_large);
    Report { tree: Some(Box::new(tree)), too_large, ..report }
}

fn groups(mut sides: Sides<Runs>, options: &CompareOptions, gates: &[Gate]) -> Report {
    let design = runs::pair(&mut sides);
    let counts = sides.as_ref().map(Runs::count);
    let per = options.per.unwrap_or_else(|| overview::usual_per(&sides));
    let mut sorted = options.clone();
    if sides.candidate.is_none() && sorted.sort_by.is_empty() {
        let by = Quantity::Metric(MetricId::run_time_ns.metric());
        sorted.sort_by.push(SortKey { by, order: Order::Desc });
    }
    let captures = &Captures::new(sides.map(|side| side.digests), design, &sorted);
    let digests = captures.sides.as_ref().map(|side| &side.digests);
    let first = digests.map(|digests| digests.first().expect("a side has a capture"));
    let findings = first.map(|digest| findings_of(&digest.head, &digest.threads.census));
    let judged = if captures.are_repeated() { Judged::Yes } else { Judged::No };
    let mut sections = captures.sections(per, &sorted, judged);
    for section in &mut sections {
        finish(section, first, findings.as_ref(), (per, options));
    }
    let is_of = |section: Section| move |table: &&ReportSection| table.section == section;
    let overview = sections.iter().find(is_of(Section::Overview));
    let is_complete = overview.is_none() || sections.iter().any(|table| table.section == Section::Reasons);
    let only_reasons = || CompareOptions { sections: vec![Section::Reasons], ..sorted.clone() };
    let others = if is_complete { Vec::new() } else { captures.sections(per, &only_reasons(), judged) };
    let reasons = sections.iter().chain(&others).find(is_of(Section::Reasons));
    let why = overview.zip(reasons).map(|(overview, reasons)| why::lines(overview, reasons)).unwrap_or_default();
    Noted { digests: first, findings: findings.as_ref(), options }.finish(&mut sections);
    let is_comparison = first.candidate.is_some();
    Report {
        header: options.wants(Section::Host).then(|| Header::new(digests.map(|side| &side[..]), counts, options)),
        group_by: options.group_by,
        scope: options.scope.clone().unwrap_or_default(),
        per,
        runs: digests.map(Vec::len),
        design: captures.design,
        threshold: counts.into_iter().any(|count| count.is_some()).then_some(options.threshold),
        sections,
        why,
        renamed: captures.renamed(options),
        unmatched: captures.unmatched(options),
        gates: if is_comparison { gate_results(captures, gates, per, options) } else { Vec::new() },
        too_large: captures.too_large.get().copied(),
        gaps: findings.baseline.into_iter().filter(|finding| !is_comparison && finding.is_gap()).collect(),
        tree: None,
        trends: Vec::new(),
    }
}

/// Sorts an overview, and adds notes.
fn finish(
    section: &mut ReportSection,
    first: Sides<&Digest>,
    findings: Sides<&Vec<Finding>>,
    (per, options): (Per, &CompareOptions),
) {
    let snapshots = first.map(|digest| &digest.head);
    match section.section {
        Section::Overview => {
            let note = headline::rank(section, snapshots, per, options);
            section.notes.extend(note);
            // The command's time is the first fact of a comparison, whatever is selected.
            section.rows.retain(|row| row.name == ELAPSED || options.wants_column(&row.name));
            section.notes.extend(overview::unnamed_children(&section.groups, snapshots));
        }
        Section::Reasons => section.notes.extend(reasons::notes(snapshots)),
        Section::SchedExt => section.notes.extend(records::reloads(snapshots)),
        Section::Capture => section.notes.extend(captures::missing(findings)),
        _ => {}
    }
}

/// The results of the gates. The rows that they look at need not be among those that are reported.
fn gate_results(captures: &Captures, gates: &[Gate], per: Per, options: &CompareOptions) -> Vec<GateResult> {
    let minor = minor_groups(captures, gates, options);
    let judge = GateJudge { design: captures.design, tests: tests_of(gates), minor };
    gate_outcome::judge(gates, &judge, |gate| {
        let sections = gate.metrics.iter().map(|metric| metric.section).collect();
        let metrics = gate.metrics.iter().filter_map(|metric| metric.quantity).collect();
        let reason_sums = gate.metrics.iter().filter_map(|metric| metric.reason.clone()).collect();
        let selected = CompareOptions { sections, metrics, reason_sums, sort_by: Vec::new(), ..options.clone() };
        captures.sections(gate.per.unwrap_or(per), &selected, Judged::Yes)
    })
}

/// The groups that gates on several groups leave out, by key.
fn minor_groups(captures: &Captures, gates: &[Gate], options: &CompareOptions) -> BTreeSet<Vec<String>> {
    if options.min_time == 0.0 || gates.iter().all(|gate| gate.group.is_none()) {
        return BTreeSet::new();
    }
    let selected = CompareOptions { sections: vec![Section::Overview], sort_by: Vec::new(), ..options.clone() };
    let sections = captures.sections(Per::Run, &selected, Judged::Yes);
    sections.iter().flat_map(|section| headline::minor_groups(section, options.min_time)).cloned().collect()
}
