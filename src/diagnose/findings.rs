//! Findings: what of each source a snapshot has, what it lacks and why, and what cures that.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::model::{
    Built, Census, CgroupLayout, CgroupStats, CtprofSnapshot, HostContext, METRICS, MetricId, Switch, TaskstatsFamily,
    ThreadState,
};

/// How much of a source a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Coverage {
    /// All of it.
    Complete,
    /// Not of every thread or process.
    Partial,
    /// Nothing: switched off or refused.
    Missing,
    /// Nothing: this kernel has no such source.
    Unavailable,
    /// It was not asked.
    NotAsked,
}

impl Coverage {
    /// The coverage as a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "ok",
            Self::Partial => "partial",
            Self::Missing => "missing",
            Self::Unavailable => "unavailable",
            Self::NotAsked => "not asked",
        }
    }
}

/// What of one source there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The file or facility.
    pub source: &'static str,
    /// How much of it there is.
    pub coverage: Coverage,
    /// What is missing and why; empty where nothing is to be said.
    pub reason: String,
    /// What cures it; empty where nothing does.
    pub remedy: String,
}

impl Finding {
    fn new(source: &'static str, coverage: Coverage, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { source, coverage, reason: reason.into(), remedy: remedy.into() }
    }

    fn complete(source: &'static str) -> Self {
        Self::new(source, Coverage::Complete, "", "")
    }
}

/// One finding for each source.
#[must_use]
pub fn findings(snapshot: &CtprofSnapshot) -> Vec<Finding> {
    findings_by(snapshot, &Census::of(&snapshot.threads))
}

fn findings_by(snapshot: &CtprofSnapshot, census: &Census) -> Vec<Finding> {
    let mut findings = vec![processes(snapshot)];
    findings
        .extend(["stat", "status", "sched", "schedstat", "io", "cgroup", "smaps_rollup"].map(|f| file(snapshot, f)));
    findings.push(schedstats(snapshot, census));
    findings.extend(smaps_skipped(snapshot));
    findings.push(taskstats(snapshot, census));
    findings.extend(snapshot.host.as_ref().map(|host| delay_accounting(census, host)));
    findings.extend(snapshot.host.as_ref().and_then(watermarks));
    findings.push(jemalloc(snapshot));
    findings.push(cgroups(snapshot));
    findings.push(pressure(snapshot));
    findings.push(sched_ext(snapshot));
    findings
}

/// The findings that have something to say about what is missing.
#[must_use]
pub(crate) fn gaps(snapshot: &CtprofSnapshot, census: &Census) -> Vec<Finding> {
    let telling = |finding: &Finding| !finding.reason.is_empty() && finding.coverage != Coverage::NotAsked;
    findings_by(snapshot, census).into_iter().filter(telling).filter(|finding| finding.source != "sched_ext").collect()
}

/// Reads any process, unless something else than privileges stands in the way.
const CAP_SYS_PTRACE: &str = "cap_sys_ptrace";
const CAP_NET_ADMIN: &str = "cap_net_admin";

fn holds(snapshot: &CtprofSnapshot, capability: &str) -> bool {
    snapshot.capture.iter().any(|capture| capture.capabilities.iter().any(|held| held == capability))
}

fn privileges(capabilities: &str) -> String {
    format!("run as root, or once: sudo setcap {capabilities}+ep $(command -v ctprof)")
}

fn processes(snapshot: &CtprofSnapshot) -> Finding {
    let host = snapshot.host.as_ref();
    if host.and_then(|host| host.pid_namespace_initial) == Some(false) {
        let reason = "only those of this container: it has a pid namespace of its own";
        return Finding::new(
            "processes",
            Coverage::Partial,
            reason,
            "run ctprof on the host, or the container with the host's pid namespace",
        );
    }
    // Members of the group that the mount exempts see all the same: kernel threads, for instance.
    let sees_others = || holds(snapshot, CAP_SYS_PTRACE) || snapshot.threads.iter().any(|thread| thread.kernel_thread);
    match host.and_then(|host| host.proc_hidepid.as_deref()) {
        Some(hidepid) if hidepid != "0" && hidepid != "off" && !sees_others() => {
            let reason = format!("other users' are hidden: procfs is mounted with hidepid={hidepid}");
            Finding::new("processes", Coverage::Partial, reason, privileges(CAP_SYS_PTRACE))
        }
        _ => Finding::complete("processes"),
    }
}

/// A file of each thread, or of each process.
fn file(snapshot: &CtprofSnapshot, file: &'static str) -> Finding {
    let errnos = snapshot.parse_summary.as_ref().and_then(|summary| summary.read_failures_by_errno.get(file));
    let Some((errno, _)) = errnos.and_then(|errnos| errnos.iter().max_by_key(|(_, count)| **count)) else {
        return match (file, snapshot.capture.as_ref().map(|capture| capture.options.smaps.as_str())) {
            ("smaps_rollup", Some("never")) => Finding::new(file, Coverage::NotAsked, "left out by --smaps never", ""),
            _ => Finding::complete(file),
        };
    };
    let failed: u64 = errnos.into_iter().flatten().map(|(_, count)| count).sum();
    let (all, what) = match file {
        "smaps_rollup" => (snapshot.threads.iter().filter(|t| t.is_leader() && !t.kernel_thread).count(), "processes"),
        _ => (snapshot.threads.len(), "threads"),
    };
    let (why, remedy) = cause(snapshot, file, errno);
    // Threads of which nothing could be read are not among the snapshot's.
    let all = all.max(usize::try_from(failed).unwrap_or(usize::MAX));
    let coverage = match usize::try_from(failed) {
        _ if errno == "ENOENT" => Coverage::Unavailable,
        Ok(failed) if failed < all => Coverage::Partial,
        _ => Coverage::Missing,
    };
    let whose = whose(snapshot, file);
    Finding::new(file, coverage, format!("not read of {failed} of {all} {what}{whose}: {why}"), remedy)
}

/// Some processes of which a file was not read, by name.
fn whose(snapshot: &CtprofSnapshot, file: &str) -> String {
    let lacks = |thread: &&ThreadState| match file {
        "smaps_rollup" => thread.is_leader() && !thread.kernel_thread && thread.smaps_rollup_kib.is_none(),
        _ => METRICS.iter().all(|m| m.file() != file || m.get(&thread.metrics).is_none()),
    };
    let names: BTreeSet<_> = snapshot.threads.iter().filter(lacks).map(|thread| &*thread.pcomm).collect();
    let some: Vec<_> = names.iter().take(3).copied().collect();
    match (some.len(), names.len()) {
        (0, _) => String::new(),
        (shown, all) if shown < all => format!(" ({} …)", some.join(", ")),
        _ => format!(" ({})", some.join(", ")),
    }
}

fn cause(snapshot: &CtprofSnapshot, file: &str, errno: &str) -> (String, String) {
    match errno {
        "EACCES" | "EPERM" if holds(snapshot, CAP_SYS_PTRACE) => (
            format!("refused ({errno}) in spite of {CAP_SYS_PTRACE}: by a security module or another user namespace"),
            String::new(),
        ),
        "EACCES" | "EPERM" => {
            (format!("permission denied ({errno})"), privileges("cap_sys_ptrace,cap_dac_read_search"))
        }
        "EMFILE" => ("too many open files (EMFILE)".to_owned(), "raise the limit: ulimit -n 1024".to_owned()),
        "ENOENT" => {
            let option = match file {
                "smaps_rollup" => Some("PROC_PAGE_MONITOR"),
                "cgroup" => Some("CGROUPS"),
                "sched" => Some("SCHED_DEBUG"),
                _ => METRICS.iter().find(|m| m.file() == file).and_then(|m| m.gates.first()).copied(),
            };
            let option = option.map_or_else(String::new, |option| format!(", built without CONFIG_{option}"));
            (format!("this kernel has no such file{option}"), String::new())
        }
        _ => (errno.to_owned(), String::new()),
    }
}

fn schedstats(snapshot: &CtprofSnapshot, census: &Census) -> Finding {
    const WHAT: &str = "wake-ups, waits, sleeps and blocks are not counted";
    let read = census.has(|metric| matches!(metric.id, MetricId::wait_max | MetricId::nr_wakeups));
    let sched_read = census.has(|metric| metric.id == MetricId::nr_migrations);
    let switch = snapshot.host.as_ref().and_then(|host| host.sched_schedstats);
    match switch {
        _ if read || !sched_read => Finding::complete("schedstats"),
        Some(Switch::RuntimeOff) => Finding::new(
            "schedstats",
            Coverage::Missing,
            format!("{WHAT}: kernel.sched_schedstats is 0"),
            "sudo sysctl kernel.sched_schedstats=1 (they count from then on)",
        ),
        Some(Switch::ConfigOff) => Finding::new(
            "schedstats",
            Coverage::Unavailable,
            format!("{WHAT}: the kernel was built without CONFIG_SCHEDSTATS"),
            "",
        ),
        _ => Finding::new("schedstats", Coverage::Missing, WHAT, ""),
    }
}

fn smaps_skipped(snapshot: &CtprofSnapshot) -> Option<Finding> {
    let skipped = snapshot.parse_summary.as_ref()?.smaps_skipped;
    (skipped > 0).then(|| {
        Finding::new(
            "smaps_rollup",
            Coverage::Partial,
            format!("not read of {skipped} processes: they are so large that reading would stall them"),
            "read it all the same with --smaps always, or raise --smaps-max-rss",
        )
    })
}

fn taskstats(snapshot: &CtprofSnapshot, census: &Census) -> Finding {
    let finding = |coverage, reason: String, remedy: &str| Finding::new("taskstats", coverage, reason, remedy);
    let answered = census.has(|metric| metric.taskstats_family() == Some(TaskstatsFamily::Cpu));
    let Some(summary) = &snapshot.taskstats_summary else {
        return match &snapshot.capture {
            _ if answered => Finding::complete("taskstats"),
            Some(capture) if capture.options.no_taskstats => {
                finding(Coverage::NotAsked, "left out by --no-taskstats".to_owned(), "")
            }
            _ => finding(Coverage::NotAsked, "asked on a live host only".to_owned(), ""),
        };
    };
    let built = snapshot.host.as_ref().and_then(|host| host.config_task_xacct) == Some(Built::On);
    let elsewhere = "run ctprof in the initial network namespace, a container with the host's network";
    match (summary.open_error.as_deref(), summary.eperm_count) {
        (Some("ENOENT"), _) if built => {
            finding(Coverage::Missing, "not to be had in this network namespace".to_owned(), elsewhere)
        }
        (Some("ENOENT"), _) => finding(
            Coverage::Unavailable,
            "the kernel was built without CONFIG_TASKSTATS, or this is not the initial network namespace".to_owned(),
            "",
        ),
        (Some(errno), _) => finding(Coverage::Missing, format!("the kernel can't be asked: {errno}"), ""),
        (None, refused @ 1..) if holds(snapshot, CAP_NET_ADMIN) => {
            let reason =
                format!("refused for {refused} threads (EPERM) in spite of {CAP_NET_ADMIN}: by a user namespace");
            finding(Coverage::Missing, reason, elsewhere)
        }
        (None, refused @ 1..) => finding(
            Coverage::Missing,
            format!("refused for {refused} threads (EPERM): it needs {CAP_NET_ADMIN}"),
            &privileges(CAP_NET_ADMIN),
        ),
        (None, 0) if summary.other_err_count > 0 => {
            finding(Coverage::Partial, format!("no answer for {} threads", summary.other_err_count), "")
        }
        _ => Finding::complete("taskstats"),
    }
}

/// Delay accounting, beyond what the scheduler counts anyway.
fn delay_accounting(census: &Census, host: &HostContext) -> Finding {
    const WHAT: &str = "waits for disk, swap, reclaim, compaction, copies and interrupts are not counted";
    const NEW_THREADS: &str = "for threads born from then on; boot with delayacct for all";
    let finding = |coverage, reason: String, remedy: &str| Finding::new("delay accounting", coverage, reason, remedy);
    let delays = || census.has(|metric| metric.taskstats_family() == Some(TaskstatsFamily::Delay));
    let from_boot = || host.kernel_cmdline.iter().any(|line| line.split(' ').any(|word| word == "delayacct"));
    match host.task_delayacct {
        Some(Switch::RuntimeOff) => finding(
            Coverage::Missing,
            format!("{WHAT}: kernel.task_delayacct is 0"),
            &format!("sudo sysctl kernel.task_delayacct=1 ({NEW_THREADS})"),
        ),
        Some(Switch::ConfigOff) => {
            finding(Coverage::Unavailable, format!("{WHAT}: the kernel was built without CONFIG_TASK_DELAY_ACCT"), "")
        }
        // Only the sysctl can have switched it on, and nothing tells when.
        Some(Switch::On) if !from_boot() && delays() => finding(
            Coverage::Complete,
            "threads older than the switch are not covered: their delays read 0".to_owned(),
            "boot with delayacct",
        ),
        _ => Finding::complete("delay accounting"),
    }
}

fn watermarks(host: &HostContext) -> Option<Finding> {
    let reason = "memory high-water marks are not kept: the kernel was built without CONFIG_TASK_XACCT";
    let off = host.config_task_xacct == Some(Built::Off);
    off.then(|| Finding::new("memory high-water marks", Coverage::Unavailable, reason, ""))
}

fn jemalloc(snapshot: &CtprofSnapshot) -> Finding {
    let finding = |coverage, reason: String, remedy| Finding::new("jemalloc", coverage, reason, remedy);
    let Some(summary) = &snapshot.probe_summary else {
        let left_out = snapshot.capture.iter().any(|capture| capture.options.no_jemalloc);
        let reason = if left_out { "left out by --no-jemalloc" } else { "asked on a live host only" };
        return finding(Coverage::NotAsked, reason.to_owned(), "");
    };
    let (failed, dominant) = (summary.failed, summary.dominant_failure.as_deref().unwrap_or_default());
    let coverage = if summary.probed_ok > 0 { Coverage::Partial } else { Coverage::Missing };
    match summary.remediation_hint() {
        _ if failed == 0 => Finding::complete("jemalloc"),
        Some(_) if holds(snapshot, CAP_SYS_PTRACE) => {
            let reason = format!(
                "{failed} processes or threads could not be attached to in spite of {CAP_SYS_PTRACE}: a debugger holds them, or a security module or seccomp filter refuses"
            );
            finding(coverage, reason, "")
        }
        Some(remedy) => finding(coverage, format!("{failed} processes or threads could not be attached to"), remedy),
        None => finding(coverage, format!("{failed} processes or threads were not read, mostly: {dominant}"), ""),
    }
}

fn cgroups(snapshot: &CtprofSnapshot) -> Finding {
    let layout = snapshot.host.as_ref().and_then(|host| host.cgroup_layout);
    let read = snapshot.cgroup_stats.values().filter(|stats| **stats != CgroupStats::default()).count();
    let all = snapshot.cgroup_stats.len();
    match layout {
        Some(CgroupLayout::None) => Finding::new(
            "cgroups",
            Coverage::Missing,
            "no cgroup hierarchy is mounted",
            "sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        ),
        _ if read < all => {
            let coverage = if read == 0 { Coverage::Missing } else { Coverage::Partial };
            let reason = format!(
                "no statistics of {} of {all} cgroups: they are outside this cgroup namespace, or gone",
                all - read
            );
            Finding::new("cgroups", coverage, reason, "")
        }
        _ => Finding::complete("cgroups"),
    }
}

fn pressure(snapshot: &CtprofSnapshot) -> Finding {
    if snapshot.psi.is_some() {
        return Finding::complete("pressure");
    }
    let finding = |coverage, reason, remedy| Finding::new("pressure", coverage, reason, remedy);
    match snapshot.host.as_ref().and_then(|host| host.psi) {
        Some(Switch::ConfigOff) => finding(Coverage::Unavailable, "the kernel was built without CONFIG_PSI", ""),
        Some(Switch::RuntimeOff) => finding(Coverage::Missing, "switched off at boot", "boot with psi=1"),
        Some(_) => finding(
            Coverage::Missing,
            "switched off at boot, or the kernel was built without CONFIG_PSI",
            "boot with psi=1",
        ),
        None => finding(Coverage::NotAsked, "not recorded", ""),
    }
}

fn sched_ext(snapshot: &CtprofSnapshot) -> Finding {
    match &snapshot.sched_ext {
        Some(_) => Finding::complete("sched_ext"),
        None => Finding::new("sched_ext", Coverage::Unavailable, "this kernel has none (CONFIG_SCHED_CLASS_EXT)", ""),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{CaptureInfo, CtprofParseSummary, TaskstatsSummary};

    fn failing(file: &str, errno: &str) -> CtprofSnapshot {
        let by_errno = BTreeMap::from([(file.to_owned(), BTreeMap::from([(errno.to_owned(), 2)]))]);
        let summary = CtprofParseSummary { read_failures_by_errno: by_errno, ..CtprofParseSummary::default() };
        CtprofSnapshot {
            threads: vec![ThreadState { pcomm: "db".into(), ..ThreadState::default() }; 3],
            parse_summary: Some(summary.concluded()),
            ..CtprofSnapshot::default()
        }
    }

    fn with_capability(mut snapshot: CtprofSnapshot, capability: &str) -> CtprofSnapshot {
        let capabilities = vec![capability.to_owned()];
        snapshot.capture = Some(CaptureInfo { capabilities, ..CaptureInfo::default() });
        snapshot
    }

    fn of(snapshot: &CtprofSnapshot, source: &str) -> Finding {
        findings(snapshot).into_iter().find(|finding| finding.source == source).unwrap()
    }

    fn on_host(host: HostContext) -> CtprofSnapshot {
        let mut thread = ThreadState::default();
        thread.metrics.nr_migrations = Some(1.into());
        thread.metrics.blkio_delay_count = Some(0.into());
        CtprofSnapshot { threads: vec![thread], host: Some(host), ..CtprofSnapshot::default() }
    }

    #[test]
    fn a_refusal_is_cured_by_privilege_and_a_missing_file_by_a_kernel() {
        let refused = of(&failing("io", "EACCES"), "io");
        assert_eq!(refused.reason, "not read of 2 of 3 threads (db): permission denied (EACCES)");
        assert!(refused.remedy.contains("cap_sys_ptrace") && refused.coverage == Coverage::Partial);
        let missing = of(&failing("io", "ENOENT"), "io");
        assert!(missing.reason.contains("CONFIG_TASK_IO_ACCOUNTING"), "{}", missing.reason);
        assert_eq!((missing.remedy.as_str(), missing.coverage), ("", Coverage::Unavailable));
    }

    #[test]
    fn privileges_that_are_held_are_not_asked_for() {
        let refused = of(&with_capability(failing("io", "EACCES"), CAP_SYS_PTRACE), "io");
        assert!(refused.reason.contains("security module"), "{}", refused.reason);
        assert_eq!(refused.remedy, "");
    }

    #[test]
    fn switches_that_are_off_are_named_with_the_command_that_turns_them() {
        let off = HostContext {
            sched_schedstats: Some(Switch::RuntimeOff),
            task_delayacct: Some(Switch::RuntimeOff),
            ..HostContext::default()
        };
        let snapshot = on_host(off);
        assert!(of(&snapshot, "schedstats").remedy.starts_with("sudo sysctl kernel.sched_schedstats=1"));
        let delays = of(&snapshot, "delay accounting");
        assert!(delays.remedy.contains("kernel.task_delayacct=1 (for threads born from then on"), "{}", delays.remedy);
        let built_out = HostContext { sched_schedstats: Some(Switch::ConfigOff), ..HostContext::default() };
        assert_eq!(of(&on_host(built_out), "schedstats").coverage, Coverage::Unavailable);
    }

    #[test]
    fn threads_older_than_the_switch_are_said_not_to_be_covered() {
        let host = |cmdline: &str| HostContext {
            task_delayacct: Some(Switch::On),
            kernel_cmdline: Some(cmdline.to_owned()),
            ..HostContext::default()
        };
        let by_sysctl = of(&on_host(host("quiet")), "delay accounting");
        assert!(by_sysctl.reason.contains("older than the switch") && by_sysctl.coverage == Coverage::Complete);
        assert_eq!(of(&on_host(host("quiet delayacct")), "delay accounting").reason, "");
    }

    #[test]
    fn a_refused_taskstats_names_the_capability_or_the_namespace() {
        let refused =
            |errors: TaskstatsSummary| CtprofSnapshot { taskstats_summary: Some(errors), ..CtprofSnapshot::default() };
        let eperm = refused(TaskstatsSummary { eperm_count: 7, ..TaskstatsSummary::default() });
        assert!(of(&eperm, "taskstats").remedy.contains("cap_net_admin"));
        let held = of(&with_capability(eperm, CAP_NET_ADMIN), "taskstats");
        assert!(held.reason.contains("user namespace") && !held.remedy.contains("setcap"), "{held:?}");
        let mut enoent = refused(TaskstatsSummary { open_error: Some("ENOENT".into()), ..TaskstatsSummary::default() });
        assert_eq!(of(&enoent, "taskstats").coverage, Coverage::Unavailable);
        enoent.host = Some(HostContext { config_task_xacct: Some(Built::On), ..HostContext::default() });
        assert!(of(&enoent, "taskstats").reason.contains("network namespace"));
    }

    #[test]
    fn a_container_and_hidden_processes_are_said() {
        let container = HostContext { pid_namespace_initial: Some(false), ..HostContext::default() };
        assert!(of(&on_host(container), "processes").reason.contains("container"));
        let hidden = HostContext { proc_hidepid: Some("2".into()), ..HostContext::default() };
        let hidden = on_host(hidden);
        assert!(of(&hidden, "processes").reason.contains("hidepid=2"));
        let mut exempt = hidden.clone();
        exempt.threads[0].kernel_thread = true;
        assert_eq!(of(&exempt, "processes").coverage, Coverage::Complete);
        assert_eq!(of(&with_capability(hidden, CAP_SYS_PTRACE), "processes").coverage, Coverage::Complete);
    }
}
