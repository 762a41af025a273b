//! Notes on the sections of a report.

use std::fmt;

use super::{Empty, Finding, Side};

coded! {
    /// A note on a section of a report.
    pub enum Note {
        /// Something is missing: of one side, or of every snapshot shown.
        Missing {
            /// The side; `None` for every snapshot shown.
            side: Option<Side>,
            /// What is missing.
            finding: Finding,
        } = "missing",
        /// The section has no data: on one side, or in any snapshot shown.
        NoData {
            /// The side; `None` for every snapshot shown.
            side: Option<Side>,
            /// The reason.
            why: Empty,
        } = "no-data",
        /// A selected metric has no data: on one side, or in any snapshot shown.
        MetricWithoutData {
            /// The metric.
            metric: String,
            /// The side; `None` for every snapshot shown.
            side: Option<Side>,
            /// The reason.
            why: Empty,
        } = "metric-without-data",
        /// Without exit records, exited processes are shown with the process that waited for them.
        ExitedChildrenUnnamed = "exited-children-unnamed",
        /// No value changed.
        NothingChanged = "nothing-changed",
        /// The section is about cgroups, and threads are not grouped by cgroup.
        NeedsCgroupGrouping = "needs-cgroup-grouping",
        /// A `sched_ext` scheduler was loaded between the captures.
        SchedulerLoaded = "scheduler-loaded",
        /// CPUs were added or removed between the captures.
        CpusHotplugged = "cpus-hotplugged",
    }
}

serialize_coded!(Note);

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Missing { side: Some(side), .. }
        | Self::NoData { side: Some(side), .. }
        | Self::MetricWithoutData { side: Some(side), .. } = self
        {
            write!(f, "{side}: ")?;
        }
        match self {
            Self::MetricWithoutData { metric, why, .. } => write!(f, "{metric}: {why}"),
            Self::ExitedChildrenUnnamed => f.write_str(
                "exited children are shown with the process that waited for them; \
                 `ctprof record` names them with the BPF engine: as root, or with cap_bpf and cap_perfmon",
            ),
            Self::Missing { finding, .. } => finding.fmt(f),
            Self::NoData { why, .. } => why.fmt(f),
            Self::NothingChanged => f.write_str("nothing changed"),
            Self::NeedsCgroupGrouping => f.write_str("shown with --group-by cgroup"),
            Self::SchedulerLoaded => {
                f.write_str("enable_seq changed: a scheduler was loaded in between, which reset nr_rejected")
            }
            Self::CpusHotplugged => f.write_str("hotplug_seq changed: CPUs were added or removed in between"),
        }
    }
}
