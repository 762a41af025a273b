//! Notes on the sections of a report.

use super::{Finding, Side};

coded! {
    /// A note on a section of a report. Without a side, it is about every snapshot shown.
    pub enum Note {
        /// Something is missing: of one side, or of every snapshot shown.
        Missing { side: Option<Side>, finding: Finding } = "missing", ("{}{finding}", prefix(*side));
        /// The section has no data: on one side, or in any snapshot shown.
        NoData { side: Option<Side>, why: String } = "no-data", ("{}{why}", prefix(*side));
        /// A selected metric has no data: on one side, or in any snapshot shown.
        MetricWithoutData { metric: String, side: Option<Side>, why: String } = "metric-without-data",
            ("{}{metric}: {why}", prefix(*side));
        /// Without exit records, exited processes are shown with the process that waited for them.
        ExitedChildrenUnnamed = "exited-children-unnamed",
            ("exited children are shown with the process that waited for them; \
              `ctprof record` names them with the BPF engine: as root, or with cap_bpf and cap_perfmon");
        /// The groups take less than `--min-time` of the CPU time, so they have no verdict.
        BelowMinTime { groups: Vec<String>, percent: String } = "below-min-time",
            ("no verdict below {percent}% of the CPU time (--min-time): {}", named(groups));
        /// No value changed.
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

impl Note {
    pub(crate) fn below_min_time(groups: Vec<String>, min_time: f64) -> Option<Self> {
        let percent = (min_time * 100.0).to_string();
        (!groups.is_empty()).then_some(Self::BelowMinTime { groups, percent })
    }
}

pub(super) fn prefix(side: Option<Side>) -> String {
    side.map(|side| format!("{side}: ")).unwrap_or_default()
}
