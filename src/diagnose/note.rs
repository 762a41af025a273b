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

pub(super) fn prefix(side: Option<Side>) -> String {
    side.map(|side| format!("{side}: ")).unwrap_or_default()
}
