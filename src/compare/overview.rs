//! The overview: one line per group, with what matters most: where its time went, its switches, faults and I/O.

use std::collections::BTreeSet;

use super::exited_work::matters;
use super::group::cpu_time;
use super::measure::GroupContext;
use super::{
    Digest, GroupFacts, GroupTotals, Groups, Measurement, OVERVIEW, OverviewColumn, Per, Quantity, ReportSection, Row,
    Runs, SideGroup, SideSection, Sides, group,
};
use crate::diagnose::{Finding, Note, Side};
use crate::model::{Direction, ExitedWork, Metric, PROCESS, SnapshotHead, Totals, WindowInfo};
use crate::statistics::Verdict;

/// Returns the divisor where the options don't give one. Windows are divided by their length. Commands that are compared with each
/// other or repeated have totals, as equal work has equal totals however long the command waits. A snapshot is divided by the time that
/// its threads have existed, and compared snapshots have totals.
pub(super) fn usual_per(sides: &Sides<Runs>) -> Per {
    let only = Some(&sides.baseline).filter(|side| sides.candidate.is_none() && side.is_single);
    if let Some([digest]) = only.map(|side| &side.digests[..]) {
        let lived = |members: &GroupTotals| members.lifetimes.lived(&digest.head).is_some();
        let is_known = digest.head.window.is_some() || digest.threads.by_names.values().any(lived);
        return if is_known { Per::Second } else { Per::Run };
    }
    let digests = sides.iter().flat_map(|side| &side.digests);
    let windows: Option<Vec<_>> = digests.map(|digest| digest.head.window.as_ref()).collect();
    let is_any_of_a_host = |windows: Vec<&WindowInfo>| windows.iter().any(|window| window.command.is_none());
    if windows.is_some_and(is_any_of_a_host) { Per::Second } else { Per::Run }
}

/// The overview of one capture: its groups, and below them the work of exited threads where it matters.
pub(super) fn section(head: &SnapshotHead, groups: &Groups, per: Per) -> SideSection {
    let has_command = head.window.as_ref().is_some_and(|window| window.command.is_some());
    let columns = OVERVIEW.iter().filter(|column| has_command || column.is_of_groups());
    let columns: Vec<_> = columns.map(Quantity::Column).collect();
    let mut section = group::section(head, groups, per, &columns);
    let cpu_time = cpu_time(groups);
    for (key, members) in groups.iter().filter(|(key, _)| !key.is_empty()) {
        let of = GroupContext::new(head, members, per, cpu_time);
        section.extend(members.exited_work.iter().map(|(kind, totals)| exited(key, (*kind, totals), members, of)));
    }
    section
}

/// The seconds that rises of counters are divided by; `None` if they are not.
pub(super) fn seconds(snapshot: &SnapshotHead, groups: &Groups, per: Per) -> Option<f64> {
    let seconds = match per {
        Per::Run | Per::Unit => None,
        Per::Second => snapshot.window.as_ref().map(|window| window.duration_ns as f64 / 1e9),
        Per::CpuSecond => Some(cpu_time(groups) as f64 / 1e9),
    };
    seconds.filter(|seconds| *seconds > 0.0)
}

/// A note on windows without exit records, if a line of exited children is shown.
pub(super) fn unnamed_children(overview: &ReportSection, sides: Sides<(&SnapshotHead, &Vec<Finding>)>) -> Option<Note> {
    let lacks_records =
        |(head, _): &(&SnapshotHead, _)| head.window.as_ref().is_none_or(|window| window.exit_records.is_none());
    let mut shown = overview.rows.iter().map(|row| &overview.groups[row.group]);
    let has_children = shown.any(|group| group.exited_work() == Some(ExitedWork::Children));
    let (_, findings) = sides.into_iter().find(lacks_records).filter(|_| has_children)?;
    Some(Note::ExitedChildrenUnnamed { no_bpf: findings.iter().find(|finding| finding.is_other_obstacle()).cloned() })
}

/// Notes on windows at whose end many threads wait for a CPU, where nothing counts such a wait before it has ended. Threads are
/// read one after the other, so that a few more than there are CPUs can have run when they were read.
pub(super) fn waits_in_progress<'d>(digests: Sides<&'d Digest>) -> impl Iterator<Item = Note> + 'd {
    let is_comparison = digests.candidate.is_some();
    let note = move |(side, digest): (&Side, &Digest)| {
        digest.head.window.as_ref()?;
        let cpus = digest.head.host.as_ref()?.online_cpus?;
        let threads = digest.threads.census.runnable;
        let is_uncounted = threads > cpus.saturating_mul(2) && digest.head.capture.as_ref()?.engine != "bpf";
        is_uncounted.then_some(Note::WaitsInProgress { side: is_comparison.then_some(*side), threads, cpus })
    };
    Side::ALL.iter().zip(digests).filter_map(note)
}

/// Removes the lines of exited work that matter in no run of either side.
pub(super) fn remove_minor_exits(sides: Sides<&mut SideSection>) {
    let matter = |groups: &&mut SideSection| {
        let matters = |group: &SideGroup| group.group_facts.exited_work.is_some() && !group.group_facts.is_minor;
        groups.iter().filter(|(_, group)| matters(group)).map(|(path, _)| path.clone()).collect::<BTreeSet<_>>()
    };
    let kept: BTreeSet<_> = sides.iter().flat_map(matter).collect();
    let is_kept = |path: &Vec<String>, group: &SideGroup| !group.group_facts.is_minor || kept.contains(path);
    sides.map(|groups| groups.retain(|path, group| is_kept(path, group)));
}

/// The line of exited work below a group. With the parentheses, its key is longer than any name of a thread.
fn exited<'g>(
    path: &[String],
    (kind, totals): (ExitedWork, &'g Totals),
    members: &GroupTotals,
    of: GroupContext<'g>,
) -> (Vec<String>, SideGroup) {
    let of = of.of_exited_work(totals);
    let measure = |column: &'static OverviewColumn| {
        let mut measurement = Quantity::Column(column).measure(&of);
        // A process counts the I/O of both kinds together.
        if members.exited_work.len() > 1 && column.inputs().any(is_io) {
            measurement.cell = None;
        }
        measurement
    };
    let measurements = OverviewColumn::of_groups().map(measure);
    let measurements = measurements.filter(Measurement::is_shown).collect();
    let group_facts = GroupFacts {
        own: members.are_own(),
        exited_work: Some(kind),
        is_minor: !matters(members, totals),
        ..GroupFacts::default()
    };
    ([path, &[format!("({})", kind.name())]].concat(), SideGroup { group_facts, measurements, ..SideGroup::default() })
}

fn is_io(metric: &Metric) -> bool {
    PROCESS.iter().any(|field| field.source.metric == metric.id && field.source.is_io())
}

impl Row {
    /// Whether a larger value is worse.
    pub(crate) fn direction(&self) -> Direction {
        let column = self.reason.as_ref().and_then(|reason| OverviewColumn::named(reason.column()?));
        let quantity = column.map(Quantity::Column).or(self.quantity);
        quantity.map(|quantity| quantity.about().direction).unwrap_or_default()
    }
}

/// The word for a verdict: `worse` or `better` where the value has a direction, else the verdict's name.
pub(crate) fn word(verdict: Verdict, direction: Direction) -> &'static str {
    match (verdict, direction) {
        (Verdict::More, Direction::MoreIsWorse) | (Verdict::Less, Direction::LessIsWorse) => "worse",
        (Verdict::More, Direction::LessIsWorse) | (Verdict::Less, Direction::MoreIsWorse) => "better",
        _ => verdict.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, show};
    use crate::model::{CaptureInfo, Cell, CtprofSnapshot, HostContext, Section, ThreadState, WindowInfo};

    #[test]
    fn more_time_is_worse_and_more_sleep_is_more() {
        let words = |name: &str| {
            let direction = Quantity::named(name).unwrap().about().direction;
            [Verdict::More, Verdict::Less, Verdict::Same, Verdict::Unclear].map(|verdict| word(verdict, direction))
        };
        assert_eq!(words("run"), ["worse", "better", "same", "unclear"]);
        assert_eq!(words("sleep"), ["more", "less", "same", "unclear"]);
        assert_eq!(words("cpu_efficiency"), ["better", "worse", "same", "unclear"]);
        assert_eq!(words("voluntary_csw")[0], "more");
    }

    #[test]
    fn exited_work_without_cpu_time_has_no_line_even_below_a_group_without_any() {
        let thread = |tid, exited_work| {
            let mut thread = ThreadState { tid, tgid: 1, exited_work, ..ThreadState::default() };
            thread.metrics.run_time_ns = Some(0.into());
            thread
        };
        let threads = vec![thread(0, Some(ExitedWork::Children)), thread(1, None)];
        let report = show(&CtprofSnapshot { threads, ..CtprofSnapshot::default() }, &CompareOptions::default());
        let overview = report.section(Section::Overview).unwrap();
        assert!(overview.groups.len() == 2 && overview.groups.iter().all(|group| group.exited_work().is_none()));
    }

    #[test]
    fn io_of_exited_threads_and_children_which_the_kernel_does_not_separate_is_only_in_the_total_of_the_group() {
        let work = |(kind, written): (Option<ExitedWork>, u64)| {
            let mut work = ThreadState { tgid: 1, tid: 1, exited_work: kind, ..ThreadState::default() };
            (work.metrics.run_time_ns, work.metrics.write_bytes) = (Some(5.into()), Some(written.into()));
            work
        };
        let written = |all: &[(Option<ExitedWork>, u64)]| {
            let threads = all.iter().copied().map(work).collect();
            let report = show(&CtprofSnapshot { threads, ..CtprofSnapshot::default() }, &CompareOptions::default());
            let overview = report.section(Section::Overview).unwrap();
            let of = |row: &&Row| row.name == "write" && !overview.groups[row.group].is_all();
            let rows = overview.rows.iter().filter(of);
            rows.map(|row| (overview.groups[row.group].exited_work(), row.values.baseline.clone())).collect::<Vec<_>>()
        };
        let (threads, children) = (Some(ExitedWork::Threads), Some(ExitedWork::Children));
        let number = |number| Some(Cell::Number(number));
        assert_eq!(written(&[(None, 1), (children, 4)]), [(None, number(5)), (children, number(4))]);
        assert_eq!(
            written(&[(None, 1), (threads, 0), (children, 4)]),
            [(None, number(5)), (children, None), (threads, None)]
        );
    }

    #[test]
    fn a_window_without_bpf_says_that_many_threads_wait_for_a_cpu_at_its_end() {
        let threads = |states: &str| {
            let thread = |(tid, state)| {
                let mut thread = ThreadState { tid, tgid: tid, ..ThreadState::default() };
                thread.metrics.state = Some(state);
                thread.metrics.run_time_ns = Some(0.into());
                thread
            };
            (1..).zip(states.chars()).map(thread).collect()
        };
        let notes = |engine: &str, states| {
            let mut window = CtprofSnapshot { threads: threads(states), ..CtprofSnapshot::default() };
            window.head.window = Some(WindowInfo { duration_ns: 1_000_000_000, ..WindowInfo::default() });
            window.head.host = Some(HostContext { online_cpus: Some(2), ..HostContext::default() });
            window.head.capture = Some(CaptureInfo { engine: engine.to_owned(), ..CaptureInfo::default() });
            let report = show(&window, &CompareOptions::default());
            report.section(Section::Overview).unwrap().notes.iter().map(Note::to_string).collect::<Vec<_>>()
        };
        let waits = "at the end, 5 threads were ready to run on 2 CPUs: without BPF, a wait for a CPU counts as sleep until it ends";
        assert_eq!(notes("procfs", "RRRRRS"), [waits]);
        assert!(notes("procfs", "RRRRSS").is_empty() && notes("bpf", "RRRRRS").is_empty());
    }
}
