//! Reports from the runs of one side or two: groups, their order, why they waited, gates and notes.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    CompareOptions, DifferentHosts, Digest, ELAPSED, EndedEarly, Gate, GateJudge, GateMetric, GateOutcome, GateResult,
    Group, GroupBy, Grouped, Header, NoSuchGroup, NoteWriter, Order, Per, Quantity, Query, Renamed, ReportSection, Row,
    RunCount, Runs, Scope, Sides, SortKey, Threshold, TooManyRows, Trend, Why, WindowSide, captures, gate_cause,
    gate_cause::CauseSections, gate_outcome, headline, host, overview, reason_tree, reasons, records, runs, tests_of,
    why,
};
use crate::diagnose::{Finding, Side, findings_of};
use crate::model::sorted::CollectSorted;
use crate::model::{BpfObstacle, CtprofSnapshot, MetricId, Section, SnapshotHead};
use crate::statistics::{Design, Verdict};

/// The groups of one side, or of two with what changed between them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The sides, host differences and warnings; `None` if the section was not selected.
    pub header: Option<Header>,
    /// Findings of the only side: what it could not read. Empty in a report of two sides, which has notes.
    pub gaps: Vec<Finding>,
    /// How threads are grouped.
    pub group_by: GroupBy,
    /// The threads that are looked at.
    pub scope: Scope,
    /// Divisor of the overview's values; with two sides, of all increases.
    pub per: Per,
    /// Number of runs of each side.
    pub runs: Sides<usize>,
    /// How the runs of both sides belong together.
    pub design: Design,
    /// Threshold for intervals; `None` without several runs.
    pub threshold: Option<Threshold>,
    /// How often an end of an interval may miss the true change.
    pub tail: f64,
    /// Event that ended the runs, if fewer were made than planned.
    pub ended_early: Option<EndedEarly>,
    /// The sections, in order.
    pub sections: Vec<ReportSection>,
    /// Why the time of groups of the overview passes, in their order.
    pub(crate) why: Vec<Why>,
    /// Renamed cgroups; empty unless threads are grouped by cgroup.
    pub renamed: Vec<Renamed>,
    /// Selections of groups that match none.
    pub unmatched: Vec<NoSuchGroup>,
    /// Whether it is about groups or processes that were named (`--only`, `--pid`), whatever they did.
    pub names_its_groups: bool,
    /// Why the sections are not complete, if they are not.
    pub too_large: Option<TooManyRows>,
    /// The results of the gates, in their order.
    pub gates: Vec<GateResult>,
    /// The cgroups, processes and threads below the groups, if the options have them.
    pub tree: Option<Box<Report>>,
    /// How columns changed over the parts of a series; empty for reports of anything else.
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
        self.section(Section::Overview)?.rows.iter().find(|row| row.name == ELAPSED)
    }

    /// Whether more runs would change neither the outcome of a gate nor the verdict on the time of the commands.
    pub(crate) fn is_decided(&self) -> bool {
        let is_clear = |result: &GateResult| matches!(result.outcome, GateOutcome::Passed | GateOutcome::Failed);
        let elapsed = self.elapsed().and_then(Row::verdict);
        self.gates.iter().all(is_clear) && elapsed.is_some_and(|verdict| verdict != Verdict::Unclear)
    }

    /// A section, if the report has it.
    pub fn section(&self, section: Section) -> Option<&ReportSection> {
        self.sections.iter().find(|table| table.section == section)
    }

    /// The window of the baseline, or of the only side, if it is one.
    pub(crate) fn window(&self) -> Option<&WindowSide> {
        self.header.as_ref()?.sides.baseline.window.as_ref()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Group, &Row)> + Clone {
        self.sections.iter().flat_map(|section| section.rows.iter().map(|row| (&section.groups[row.group], row)))
    }

    pub(crate) fn euids(&self) -> BTreeSet<u32> {
        self.rows().flat_map(|(group, _)| group.of_members(|members| members.euid).into_iter().flatten()).into_set()
    }

    pub(crate) fn has_verdicts(&self) -> bool {
        self.is_repeated() && self.rows().any(|(_, row)| row.verdict().is_some())
    }
}

/// Compares two snapshots of any kind.
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

/// Returns the report on one side, or on two, of one or more runs each. With several runs, each value is the median, its row has
/// the values of all runs, and the host is the host of the first run. Gates need two sides.
///
/// # Panics
/// If a side is empty.
#[must_use]
pub fn report(sides: Sides<Runs>, options: &CompareOptions, gates: &[Gate]) -> Report {
    let Some(tree) = options.tree() else { return groups(sides, options, gates) };
    let narrowed = sides.as_ref().par_map(|side| side.narrowed(options.grouping.axis));
    let (report, tree) = rayon::join(|| groups(narrowed, options, gates), || groups(sides, &tree, &[]));
    let too_large = report.too_large.or(tree.too_large);
    Report { tree: Some(Box::new(tree)), too_large, ..report }
}

fn groups(mut sides: Sides<Runs>, options: &CompareOptions, gates: &[Gate]) -> Report {
    let design = runs::pair(&mut sides);
    let counts = sides.as_ref().map(RunCount::new);
    let per = options.grouping.per.unwrap_or_else(|| overview::usual_per(&sides));
    let grouped = &Grouped::new(sides.map(|side| side.digests), design, options);
    let digests = grouped.sides.as_ref().map(|side| &side.digests[..]);
    let first = digests.map(|digests| digests.first().expect("a side has a capture"));
    let findings = first.map(|digest| findings_of(&digest.head, &digest.threads.census));
    let is_comparison = first.candidate.is_some();
    let mut sections = selected_sections(grouped, per, options);
    for section in &mut sections {
        finish(section, digests, findings.as_ref(), (per, options));
    }
    let why = why_lines(grouped, &sections, per, options);
    for section in &mut sections {
        section.select(&options.selection);
        if options.has_reason_trees
            && section.rows.iter().any(|row| row.reason.as_ref().is_some_and(|reason| reason.stack.is_some()))
        {
            section.rows = reason_tree::rows(&section.rows);
        }
        if section.section == Section::Overview {
            let sides = first.map(|digest| &digest.head).zip(findings.as_ref());
            section.notes.extend(overview::unnamed_children(section, sides));
            section.notes.extend(overview::waits_in_progress(first));
        }
    }
    let (grouping, selection) = (&options.grouping, &options.selection);
    NoteWriter { digests: first, findings: findings.as_ref(), grouping, selection }.finish(&mut sections);
    Report {
        header: selection.wants(Section::Host).then(|| Header::new(digests, counts, &options.labels)),
        group_by: options.grouping.axis,
        scope: options.grouping.scope.clone().unwrap_or_default(),
        per,
        runs: digests.map(<[Digest]>::len),
        design: grouped.judge.design,
        threshold: counts.into_iter().any(|count| count.is_some()).then_some(options.threshold),
        tail: options.tail,
        ended_early: options.ended_early,
        sections,
        why,
        renamed: grouped.renamed(&selection.only),
        unmatched: grouped.unmatched(&selection.only),
        names_its_groups: !selection.only.is_empty() || first.iter().any(|digest| is_of_selected(&digest.head)),
        gates: if is_comparison { gate_results(grouped, gates, per, options) } else { Vec::new() },
        too_large: grouped.too_large.get().copied(),
        gaps: findings.baseline.into_iter().filter(|finding| !is_comparison && finding.is_gap()).collect(),
        tree: None,
        trends: Vec::new(),
    }
}

/// Whether a capture is of processes that were selected by id.
fn is_of_selected(head: &SnapshotHead) -> bool {
    let no_bpf = head.capture.as_ref().and_then(|capture| capture.no_bpf.as_ref());
    no_bpf.is_some_and(|no_bpf| no_bpf.cause == BpfObstacle::SelectedProcesses)
}

/// The sections that the options select. Groups of one side are in the order of their run time, unless there are keys.
fn selected_sections(grouped: &Grouped, per: Per, options: &CompareOptions) -> Vec<ReportSection> {
    let run_time = [SortKey { by: Quantity::Metric(MetricId::run_time_ns.metric()), order: Order::Desc }];
    let is_view = grouped.sides.candidate.is_none();
    let sort_by =
        if is_view && options.selection.sort_by.is_empty() { &run_time[..] } else { &options.selection.sort_by };
    let selected = Section::ALL.iter().copied().filter(|section| options.selection.wants(*section));
    let query = |section| Query {
        quantities: &options.selection.metrics,
        only: &options.selection.only,
        sort_by,
        ..Query::all(section, per)
    };
    grouped.sections(selected.map(query)).into_iter().flatten().collect()
}

/// Why the time of the selected groups passes: decided by all values of all groups, whatever is selected.
fn why_lines(grouped: &Grouped, sections: &[ReportSection], per: Per, options: &CompareOptions) -> Vec<Why> {
    let section = |section: Section| sections.iter().find(|table| table.section == section);
    let Some(overview) = section(Section::Overview) else { return Vec::new() };
    let of_reasons = section(Section::Reasons);
    let not_selected = if of_reasons.is_none() { grouped.section(Query::all(Section::Reasons, per)) } else { None };
    let Some(reasons) = of_reasons.or(not_selected.as_ref()) else { return Vec::new() };
    let mut why = why::lines(overview, reasons);
    why.retain(|why| {
        options.selection.wants_group(&overview.groups[why.group].key) && options.selection.wants_column(why.column)
    });
    why
}

/// Ranks the groups of an overview, and adds notes.
fn finish(
    section: &mut ReportSection,
    digests: Sides<&[Digest]>,
    findings: Sides<&Vec<Finding>>,
    (per, options): (Per, &CompareOptions),
) {
    let snapshots = digests.map(|runs| &runs[0].head);
    match section.section {
        Section::Overview => {
            let note = headline::rank(section, digests, per, options);
            section.notes.extend(note);
        }
        Section::Reasons => section.notes.extend(reasons::notes(snapshots)),
        Section::SchedExt => section.notes.extend(records::reloads(snapshots)),
        Section::Capture => section.notes.extend(captures::missing(findings)),
        _ => {}
    }
}

/// Why no gate can be judged: a side is one file, and its command failed. Runs of directories whose command failed were left out
/// before.
fn failed_command(digests: Sides<&[Digest]>) -> Option<String> {
    let mut sides = Side::ALL.iter().zip(digests);
    let (side, _) = sides.find(|(_, runs)| runs.iter().any(Digest::has_failed))?;
    Some(format!("the command of the {} failed, or a signal ended it", side.name()))
}

/// Returns the results of the gates, which may check rows that are not reported.
fn gate_results(grouped: &Grouped, gates: &[Gate], per: Per, options: &CompareOptions) -> Vec<GateResult> {
    let digests = grouped.sides.as_ref().map(|side| &side.digests[..]);
    if let Some(fault) = failed_command(digests) {
        let error = |(place, gate)| GateResult::error(place, gate, fault.clone());
        return gates.iter().enumerate().map(error).collect();
    }
    let minor = minor_groups(grouped, gates, options);
    let other_host =
        if options.different_hosts == DifferentHosts::Allow { None } else { host::other_processor(digests) };
    let (design, tests, new_groups) = (grouped.judge.design, tests_of(gates), options.new_groups);
    let ended_early = options.ended_early.is_some();
    let tail = options.tail;
    let judge = GateJudge { design, tests, tail, minor, per, new_groups, other_host, ended_early };
    let tables = gate_tables(grouped, gates, per);
    let mut results = gate_outcome::judge(gates, &judge, |gate| {
        let places: BTreeSet<_> = gate.metrics.iter().map(|metric| (metric.section, gate.per_of(per))).into_set();
        places.iter().filter_map(|place| tables.get(place)).collect()
    });
    find_causes(&mut results, gates, &tables, (grouped, per));
    results
}

/// Finds what contributes most to each failure, whatever is selected.
fn find_causes(
    results: &mut [GateResult],
    gates: &[Gate],
    tables: &BTreeMap<(Section, Per), ReportSection>,
    (grouped, per): (&Grouped, Per),
) {
    if results.iter().all(|result| result.outcome != GateOutcome::Failed) {
        return;
    }
    let runs = grouped.sides.as_ref().map(|side| &side.digests[..]);
    let mut overview = grouped.section(Query::all(Section::Overview, Per::Run));
    if let Some(section) = &mut overview {
        headline::rank(section, runs, Per::Run, &CompareOptions::default());
    }
    let reasons = grouped.section(Query::all(Section::Reasons, per));
    for result in results.iter_mut().filter(|result| result.outcome == GateOutcome::Failed) {
        let gate = &gates[result.gate];
        let metric = gate.metrics.iter().find(|metric| metric.name == result.metric);
        let table = metric.and_then(|metric| tables.get(&(metric.section, gate.per_of(per))));
        let sections =
            table.map(|gated| CauseSections { gated, overview: overview.as_ref(), reasons: reasons.as_ref() });
        let of_value = (&result.group[..], &*result.metric);
        result.cause = sections.and_then(|sections| gate_cause::of_failed(of_value, gate.limit.beyond, sections));
    }
}

/// The sections that gates look at, each once, by what its values are divided by.
fn gate_tables(grouped: &Grouped, gates: &[Gate], per: Per) -> BTreeMap<(Section, Per), ReportSection> {
    let mut wanted: BTreeMap<(Section, Per), Vec<&GateMetric>> = BTreeMap::new();
    for gate in gates {
        for metric in &gate.metrics {
            wanted.entry((metric.section, gate.per_of(per))).or_default().push(metric);
        }
    }
    let of_metrics = |(place, metrics): (&(Section, Per), &Vec<&GateMetric>)| {
        let quantities: Vec<_> = metrics.iter().filter_map(|metric| metric.quantity).collect();
        let reasons: BTreeSet<_> = metrics.iter().filter_map(|metric| metric.reason.clone()).into_set();
        (*place, quantities, Vec::from_iter(reasons))
    };
    let wanted: Vec<_> = wanted.iter().map(of_metrics).collect();
    let queries = wanted.iter().map(|((section, per), quantities, reason_sums)| Query {
        quantities,
        reason_sums,
        ..Query::all(*section, *per)
    });
    let places = wanted.iter().map(|(place, ..)| *place);
    places.zip(grouped.sections(queries)).filter_map(|(place, table)| Some((place, table?))).into_map()
}

/// The groups that gates on several groups leave out, by key.
fn minor_groups(grouped: &Grouped, gates: &[Gate], options: &CompareOptions) -> BTreeSet<Vec<String>> {
    if options.min_time == 0.0 || gates.iter().all(|gate| gate.group.is_none()) {
        return BTreeSet::new();
    }
    let overview = grouped.section(Query::all(Section::Overview, Per::Run));
    overview.iter().flat_map(|section| headline::minor_groups(section, options.min_time)).cloned().collect()
}
