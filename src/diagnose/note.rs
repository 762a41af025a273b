//! Notes on the sections of a report.

use super::{Finding, Side, counted};
use crate::model::Sampling;

coded! {
    /// A note on a section of a report. Without a side, it is about every snapshot shown.
    pub enum Note {
        /// Values are missing on one side, or in every snapshot shown.
        Missing { side: Option<Side>, finding: Finding } = "missing", ("{}{finding}", prefix(*side));
        /// The section has no data: on one side, or in any snapshot shown.
        NoData { side: Option<Side>, why: String } = "no-data", ("{}{why}", prefix(*side));
        /// A selected metric has no data: on one side, or in any snapshot shown.
        MetricWithoutData { metric: String, side: Option<Side>, why: String } = "metric-without-data",
            ("{}{metric}: {why}", prefix(*side));
        /// How the reasons why threads waited were sampled.
        Sampled { side: Option<Side>, sampling: Sampling, duration_ns: u64 } = "sampled",
            ("{}{}", prefix(*side), sampled(sampling, *duration_ns));
        /// Reasons have no functions of the kernel.
        NoFunctions { side: Option<Side>, why: String } = "no-functions", ("{}no kernel functions: {why}", prefix(*side));
        /// Exited processes are shown with the process that waited for them, because there are no exit records.
        ExitedChildrenUnnamed { no_bpf: Option<Finding> } = "exited-children-unnamed",
            ("exited children are shown with the process that waited for them; {}", naming(no_bpf.as_ref()));
        /// Many threads wait for a CPU at the end of the window. Without BPF, no counter has waits that have not ended.
        WaitsInProgress { side: Option<Side>, threads: u64, cpus: u64 } = "waits-in-progress",
            ("{}at the end, {threads} threads were ready to run on {}: without BPF, a wait for a CPU counts as sleep until it ends", prefix(*side), counted(*cpus, "CPU"));
        /// These groups took less than `--min-time` of the CPU time, so they have no verdict.
        BelowMinTime { groups: Vec<String>, percent: String } = "below-min-time",
            ("no verdict below {percent}% of the CPU time (--min-time): {}", named(groups));
        /// None of the values changed.
        NothingChanged = "nothing-changed", ("nothing changed");
        /// The section is about cgroups, and threads are not grouped by cgroup.
        NeedsCgroupGrouping = "needs-cgroup-grouping", ("shown with --group-by cgroup");
        /// A `sched_ext` scheduler was loaded between the captures.
        SchedulerLoaded = "scheduler-loaded",
            ("enable_seq changed: a scheduler was loaded in between, which reset nr_rejected");
        /// CPUs were added or removed between the captures.
        CpusHotplugged = "cpus-hotplugged", ("hotplug_seq changed: CPUs were added or removed in between");
    }
}

/// Names in a message; there can be hundreds.
const MOST_NAMES: usize = 5;

fn named(groups: &[String]) -> String {
    let named = groups.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    if groups.len() > MOST_NAMES { format!("{named} and {} more", groups.len() - MOST_NAMES) } else { named }
}

/// `3,250 samples at 50 Hz by bpf, 12 lost, for 0.3% of a CPU; shares of fewer than 5 samples are not shown`.
fn sampled(sampling: &Sampling, duration_ns: u64) -> String {
    let Sampling { source, passes, samples, lost, merged, cost_ns, .. } = sampling;
    let count = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let seconds = duration_ns as f64 / 1e9;
    let rate = (duration_ns > 0).then(|| format!("at {:.0} Hz", *passes as f64 / seconds));
    let cost = (duration_ns > 0).then(|| format!("cost {:.2}% of a CPU", *cost_ns as f64 / 1e7 / seconds));
    let taken = [Some(counted(*samples, "sample")), rate, Some(format!("by {source}"))];
    let taken = taken.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let rest = [count(*lost, "lost"), count(*merged, "merged because there were too many reasons"), cost];
    [Some(taken)].into_iter().chain(rest).flatten().collect::<Vec<_>>().join(", ")
}

/// Text of the note: which command names exited children, and why it did not. The reason is a lack of capabilities if the file does
/// not say.
fn naming(no_bpf: Option<&Finding>) -> String {
    let named = "`ctprof record` names them with the BPF engine";
    let Some(reason) = no_bpf.and_then(Finding::reason) else {
        return format!("{named}: as root, or with cap_bpf and cap_perfmon");
    };
    let fix = no_bpf.and_then(|finding| finding.fix.as_ref()).map(|fix| format!(". Fix: {fix}"));
    format!("{named}, which was not used: {reason}{}", fix.unwrap_or_default())
}

impl Note {
    pub(crate) fn below_min_time(groups: Vec<String>, min_time: f64) -> Option<Self> {
        let percent = rounded(min_time * 100.0).to_string();
        (!groups.is_empty()).then_some(Self::BelowMinTime { groups, percent })
    }
}

/// Rounds a percentage, so that it has no digits from its binary fraction.
pub(crate) fn rounded(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

pub(super) fn prefix(side: Option<Side>) -> String {
    side.map(|side| format!("{}: ", side.name())).unwrap_or_default()
}
