//! Why a section of a report has no data.

use std::collections::BTreeSet;

use super::{Coverage, DataSource, Finding};
use crate::model::sorted::CollectSorted;
use crate::model::{
    Built, CgroupLayout, CgroupStats, DERIVED, Derived, Formula, METRICS, Metric, MetricId, Section, SnapshotHead,
    SourceFile, TaskstatsFamily, WindowRule,
};

const NOT_RECORDED: &str = "no data: the snapshot has none";
const NOT_SELECTED: &str = "no metric of this section is selected by --metrics";
const NOT_REACHED: &str = "no data: no thread reached a new maximum or minimum in the window, threads that did have exited (only BPF \
                           reads them then), or the kernel has no such fields";
const NO_IRQ_TIME: &str =
    "no data: kernel lacks CONFIG_IRQ_TIME_ACCOUNTING, its configuration cannot be read, or delay accounting is off";
const NO_FIELDS: &str = "no data: the kernel has no such fields";
const NO_FIELDS_IN_THE_END: &str = "no data: the kernel has no such fields, or threads that have them had exited";
const NOTHING_TO_AVERAGE: &str = "no data: nothing was counted that these metrics average";

/// Why a section has no data, as a sentence, if `selects` says which metrics were selected.
pub(crate) fn why_empty(
    section: Section,
    head: &SnapshotHead,
    findings: &[Finding],
    selects: impl Fn(&str) -> bool,
) -> String {
    let missing = |source: &DataSource| {
        let lacks_values = |finding: &&Finding| finding.cause.is_some() && finding.coverage != Coverage::Complete;
        let finding = findings.iter().filter(lacks_values).find(|finding| finding.source == *source);
        finding.map(|finding| format!("no data: {finding}"))
    };
    let because = |source: DataSource| missing(&source).unwrap_or_else(|| NOT_RECORDED.to_owned());
    match section {
        Section::Primary | Section::TaskstatsDelay | Section::Derived => {
            let metrics = metrics(section, selects);
            let is_of_interrupts = |metric: &&Metric| metric.taskstats_family() == Some(TaskstatsFamily::Irq);
            if !metrics.is_empty() && metrics.iter().all(is_of_interrupts) && lacks_irq_time(head) {
                return "no data: kernel lacks CONFIG_IRQ_TIME_ACCOUNTING".to_owned();
            }
            let sources: BTreeSet<DataSource> = metrics.iter().map(|metric| DataSource::of_metric(metric)).into_set();
            sources.iter().find_map(missing).unwrap_or_else(|| no_values(section, &metrics, head))
        }
        Section::Reasons if head.window.is_none() => {
            "no data: only windows that `record` wrote have reasons".to_owned()
        }
        Section::Reasons => "no data: the threads of this window were not sampled".to_owned(),
        Section::Pressure if missing(&DataSource::Pressure).is_some() => because(DataSource::Pressure),
        Section::HostPressure => because(DataSource::Pressure),
        Section::SchedExt => because(DataSource::SchedExt),
        Section::SmapsRollup => because(DataSource::File(SourceFile::SmapsRollup)),
        section if section.is_of_cgroups() => {
            let is_read = |stats: &CgroupStats| *stats != CgroupStats::default();
            if head.cgroups().any(|(_, stats)| is_read(stats)) {
                return no_file(section, head);
            }
            missing(&DataSource::Cgroups).unwrap_or_else(|| "no data: no thread has a cgroup".to_owned())
        }
        _ => NOT_RECORDED.to_owned(),
    }
}

/// Whether the kernel was built without the time of interrupts, which no setting changes.
fn lacks_irq_time(head: &SnapshotHead) -> bool {
    head.host.as_ref().is_some_and(|host| host.config_irq_time_accounting == Some(Built::Off))
}

/// A section's selected metrics, and the inputs of its selected derived metrics.
fn metrics(section: Section, selects: impl Fn(&str) -> bool) -> Vec<&'static Metric> {
    let selected = METRICS.iter().filter(|metric| metric.section == section && selects(metric.name));
    let derived = DERIVED.iter().filter(|derived| derived.section == section && selects(derived.name));
    // Of a value with several sources, the first is the best.
    let inputs = |derived: &'static Derived| match derived.formula {
        Formula::LongestWait(_) => derived.formula.inputs().take(1).collect::<Vec<_>>(),
        _ => derived.formula.inputs().collect(),
    };
    selected.chain(derived.flat_map(inputs).map(MetricId::metric)).collect()
}

/// Why metrics have no values although their sources were read.
fn no_values(section: Section, metrics: &[&Metric], head: &SnapshotHead) -> String {
    let version = head.taskstats_version();
    let is_newer = |metric: &&Metric| metric.taskstats_since() > version;
    match version {
        _ if metrics.is_empty() => NOT_SELECTED,
        Some(version) if metrics.iter().all(is_newer) => {
            return format!("no data: the kernel's taskstats version is {version}, too old");
        }
        _ if metrics.iter().all(|metric| metric.taskstats_family() == Some(TaskstatsFamily::Irq)) => NO_IRQ_TIME,
        _ if head.window.is_some() && metrics.iter().all(|metric| metric.window == WindowRule::IfChanged) => {
            NOT_REACHED
        }
        _ if section == Section::Derived => NOTHING_TO_AVERAGE,
        _ if head.capture.as_ref().is_some_and(|capture| capture.bpf.is_some()) => {
            if head.window.is_some() {
                NO_FIELDS_IN_THE_END
            } else {
                NO_FIELDS
            }
        }
        _ => NOT_RECORDED,
    }
    .to_owned()
}

/// Why no cgroup has the files of a section.
fn no_file(section: Section, head: &SnapshotHead) -> String {
    let layout = head.host.as_ref().and_then(|host| host.cgroup_layout);
    let is_v1 = matches!(layout, Some(CgroupLayout::Legacy | CgroupLayout::Hybrid));
    let has = |what: fn(&CgroupStats) -> bool| head.cgroups().any(|(_, stats)| what(stats));
    match section {
        Section::IoStat if is_v1 && has(|stats| stats.io.stat.is_some()) => {
            "the cgroup v1 blkio controller counted no I/O of these cgroups".to_owned()
        }
        Section::IoStat if has(|stats| stats.io.stat.is_some()) => "these cgroups did no I/O".to_owned(),
        Section::IoStat if is_v1 => "no data from the cgroup v1 blkio controller".to_owned(),
        Section::MemoryEvents if is_v1 => "no data: cgroup v1 has no memory.events".to_owned(),
        Section::Pressure if is_v1 => "no data: cgroup v1 has no pressure files".to_owned(),
        Section::IoStat => controller_off("io"),
        Section::MemoryStat | Section::MemoryEvents => controller_off("memory"),
        Section::Pressure => "no data: pressure is disabled for these cgroups (cgroup.pressure)".to_owned(),
        _ => NOT_RECORDED.to_owned(),
    }
}

fn controller_off(name: &str) -> String {
    format!("no data: the {name} controller is not enabled for these cgroups (cgroup.subtree_control)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::findings;
    use crate::model::{
        CaptureInfo, CaptureOptions, CgroupIoStats, CtprofSnapshot, HostContext, Switch, TaskstatsSummary, ThreadState,
    };

    fn why(snapshot: &CtprofSnapshot, section: Section) -> String {
        why_empty(section, &snapshot.head, &findings(snapshot), |_| true)
    }

    fn on_host(host: HostContext) -> CtprofSnapshot {
        let mut thread = ThreadState::default();
        thread.metrics.nr_migrations = Some(1.into());
        CtprofSnapshot { head: SnapshotHead { host: Some(host), ..SnapshotHead::default() }, threads: vec![thread] }
    }

    fn with_cgroup(layout: CgroupLayout, stats: CgroupStats) -> CtprofSnapshot {
        let host = HostContext { cgroup_layout: Some(layout), ..HostContext::default() };
        let mut snapshot = on_host(host);
        snapshot.head.cgroup_stats = [("/a".to_owned(), stats)].into();
        snapshot
    }

    fn running() -> CgroupStats {
        let mut stats = CgroupStats::default();
        stats.cpu.usage_usec = Some(1.into());
        stats
    }

    #[test]
    fn an_empty_section_names_the_source_that_is_missing() {
        let options = CaptureOptions { smaps: "never".to_owned(), no_taskstats: true, ..CaptureOptions::default() };
        let mut snapshot = on_host(HostContext { psi: Some(Switch::RuntimeOff), ..HostContext::default() });
        snapshot.head.capture = Some(CaptureInfo { options, ..CaptureInfo::default() });
        assert_eq!(why(&snapshot, Section::SmapsRollup), "no data: smaps_rollup: disabled by --smaps never");
        assert_eq!(why(&snapshot, Section::TaskstatsDelay), "no data: taskstats: disabled by --no-taskstats");
        assert_eq!(
            why(&snapshot, Section::SchedExt),
            "no data: sched_ext: kernel lacks CONFIG_SCHED_CLASS_EXT, or /sys is not visible here"
        );
        let pressure = why(&snapshot, Section::HostPressure);
        assert_eq!(pressure, "no data: pressure: disabled at boot, or kernel lacks CONFIG_PSI. Fix: boot with `psi=1`");
    }

    #[test]
    fn an_average_without_its_inputs_names_their_source() {
        let host = HostContext { sched_schedstats: Some(Switch::ConfigOff), ..HostContext::default() };
        let snapshot = on_host(host);
        let why = |name: &'static str| {
            why_empty(Section::Derived, &snapshot.head, &findings(&snapshot), |selected| selected == name)
        };
        let waits = why("avg_wait_ns");
        assert!(waits.starts_with("no data: schedstats: ") && waits.contains("CONFIG_SCHEDSTATS"), "{waits}");
        assert_eq!(why("avg_slice_ns"), NOTHING_TO_AVERAGE);
        assert_eq!(why("run_time_ns"), NOT_SELECTED);
    }

    #[test]
    fn metrics_that_an_old_kernel_does_not_have_are_not_called_unrecorded() {
        let mut snapshot = on_host(HostContext { task_delayacct: Some(Switch::On), ..HostContext::default() });
        snapshot.threads[0].metrics.cpu_delay_count = Some(1.into());
        snapshot.threads[0].metrics.blkio_delay_count = Some(1.into());
        let summary = TaskstatsSummary { struct_version: Some(10), ok_count: 1, ..TaskstatsSummary::default() };
        snapshot.head.taskstats_summary = Some(summary);
        let why = |prefix: &str| {
            let selects = |name: &str| name.starts_with(prefix);
            why_empty(Section::TaskstatsDelay, &snapshot.head, &findings(&snapshot), selects)
        };
        assert_eq!(why("irq_delay"), "no data: the kernel's taskstats version is 10, too old");
        assert_eq!(why("none"), NOT_SELECTED);
    }

    #[test]
    fn no_setting_is_said_to_turn_on_the_time_of_interrupts_that_the_kernel_lacks() {
        let why = |built: Built| {
            let (task_delayacct, config_irq_time_accounting) = (Some(Switch::RuntimeOff), Some(built));
            let host = HostContext { task_delayacct, config_irq_time_accounting, ..HostContext::default() };
            let snapshot = on_host(host);
            let selects = |name: &str| name.starts_with("irq_delay");
            why_empty(Section::TaskstatsDelay, &snapshot.head, &findings(&snapshot), selects)
        };
        assert_eq!(why(Built::Off), "no data: kernel lacks CONFIG_IRQ_TIME_ACCOUNTING");
        assert!(why(Built::On).contains("kernel.task_delayacct"), "{}", why(Built::On));
    }

    #[test]
    fn a_window_without_a_new_maximum_is_not_said_to_lack_the_field() {
        let mut snapshot = on_host(HostContext::default());
        let selects = |name: &str| name == "wait_max";
        let why = |snapshot: &CtprofSnapshot| why_empty(Section::Primary, &snapshot.head, &[], selects);
        assert_eq!(why(&snapshot), NOT_RECORDED);
        snapshot.head.window = Some(crate::model::WindowInfo::default());
        assert_eq!(why(&snapshot), NOT_REACHED);
    }

    #[test]
    fn one_removed_cgroup_does_not_explain_a_file_that_none_has() {
        let mut v1 = with_cgroup(CgroupLayout::Legacy, running());
        v1.head.cgroup_stats.insert("/removed".to_owned(), CgroupStats::default());
        assert_eq!(why(&v1, Section::IoStat), "no data from the cgroup v1 blkio controller");
    }

    #[test]
    fn cgroups_of_version_1_are_said_to_have_no_io_stat() {
        let v1 = with_cgroup(CgroupLayout::Legacy, running());
        assert_eq!(why(&v1, Section::IoStat), "no data from the cgroup v1 blkio controller");
        assert_eq!(why(&v1, Section::MemoryEvents), "no data: cgroup v1 has no memory.events");
        let v2 = with_cgroup(CgroupLayout::Unified, running());
        assert!(why(&v2, Section::IoStat).contains("io controller is not enabled"), "{}", why(&v2, Section::IoStat));
        let idle = CgroupStats { io: CgroupIoStats { stat: Some([].into()) }, ..running() };
        assert_eq!(why(&with_cgroup(CgroupLayout::Unified, idle), Section::IoStat), "these cgroups did no I/O");
        let none = on_host(HostContext::default());
        assert_eq!(why(&none, Section::CgroupStats), "no data: no thread has a cgroup");
    }
}
