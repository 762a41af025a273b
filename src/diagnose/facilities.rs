//! Findings on the engine, on facilities of the kernel that are not files of a thread, and on jemalloc.

use std::collections::BTreeMap;

use super::cause::{LSM_OR_NAMESPACE, OTHER_NETWORK_NAMESPACE, OTHER_USER_NAMESPACE};
use super::{Capability, Cause, Coverage, DataSource, Evidence, Finding};
use crate::model::{
    BpfUse, Built, CaptureInfo, Census, Errno, HostContext, NoBpf, ProbeFailure, Sampling, SnapshotHead, SourceFile,
    Switch, TaskstatsSummary, at_least, dominant,
};

/// Whether BPF read the threads, and what it could not read. Nothing for captures that do not say.
pub(super) fn engine(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(capture) = &evidence.head.capture else { return Vec::new() };
    let not_used = |cause| vec![Finding::new(DataSource::Bpf, Coverage::NotUsed, cause)];
    match (&capture.bpf, &capture.no_bpf) {
        (Some(bpf), _) => with_bpf(bpf),
        (None, Some(no_bpf)) => not_used(Cause::NoBpf { no_bpf: no_bpf.clone() }),
        (None, None) if capture.options.engine.as_deref() == Some("procfs") => {
            not_used(Cause::DisabledByOption { option: "--engine procfs" })
        }
        (None, None) => Vec::new(),
    }
}

fn with_bpf(BpfUse { setup_ns: _, dropped, missed_processes }: &BpfUse) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !dropped.is_empty() {
        let rejected = Finding::new(DataSource::Bpf, Coverage::Partial, Cause::FieldsRejected);
        let count = u64::try_from(dropped.len()).unwrap_or(u64::MAX);
        findings.push(Finding { names: dropped.clone(), ..rejected.affecting(count, None, "metric") });
    }
    if *missed_processes > 0 {
        let missed = Finding::new(DataSource::Bpf, Coverage::Complete, Cause::MissedByIterator);
        findings.push(missed.affecting(*missed_processes, None, "process"));
    }
    if findings.is_empty() { vec![Finding::full_coverage(DataSource::Bpf)] } else { findings }
}

/// Why a capture by this process cannot use BPF, and the fix.
pub(crate) fn why_no_bpf(no_bpf: &NoBpf, capture: CaptureInfo) -> Finding {
    let head = SnapshotHead { capture: Some(capture), ..SnapshotHead::default() };
    let mut finding = Finding::new(DataSource::Bpf, Coverage::NotUsed, Cause::NoBpf { no_bpf: no_bpf.clone() });
    Evidence::new(&head, &Census::default()).grant(finding.fix.iter_mut());
    finding
}

pub(super) fn schedstats(evidence: &Evidence<'_>) -> Finding {
    let source = DataSource::Schedstats;
    let has = |source: &DataSource| evidence.census.has(|metric| DataSource::of_metric(metric) == *source);
    // Without `sched`, its own finding says why.
    if has(&source) || !has(&DataSource::File(SourceFile::Sched)) {
        return Finding::full_coverage(source);
    }
    let (coverage, cause) = match evidence.host().and_then(|host| host.sched_schedstats) {
        Some(Switch::RuntimeOff) => (Coverage::Missing, Cause::SysctlOff { sysctl: "kernel.sched_schedstats" }),
        Some(Switch::ConfigOff) => (Coverage::Unavailable, Cause::KernelLacks { option: "SCHEDSTATS" }),
        Some(Switch::Unknown) => (Coverage::Missing, Cause::SysctlUnreadable { sysctl: "kernel.sched_schedstats" }),
        Some(Switch::On) | None => (Coverage::Missing, Cause::Unknown),
    };
    Finding::new(source, coverage, cause)
}

pub(super) fn taskstats(evidence: &Evidence<'_>) -> Finding {
    let source = DataSource::Taskstats;
    let answered = || evidence.census.has(|metric| DataSource::of_metric(metric) == DataSource::Taskstats);
    let disabled = || evidence.head.capture.iter().any(|capture| capture.options.no_taskstats);
    match &evidence.head.taskstats_summary {
        Some(summary) => queried(evidence, summary),
        // BPF reads these fields without taskstats.
        None if answered() || evidence.is_by_bpf() => Finding::full_coverage(source),
        None if disabled() => {
            Finding::new(source, Coverage::NotRead, Cause::DisabledByOption { option: "--no-taskstats" })
        }
        None => Finding::new(source, Coverage::NotRead, Cause::NotLive),
    }
}

fn queried(evidence: &Evidence<'_>, summary: &TaskstatsSummary) -> Finding {
    let finding = |coverage, cause| Finding::new(DataSource::Taskstats, coverage, cause);
    let affecting = |count, coverage, cause| {
        let total = Some(evidence.census.threads).filter(|total| *total >= count);
        finding(coverage, cause).affecting(count, total, "thread")
    };
    if let Some(errno) = &summary.open_error {
        return not_opened(evidence, errno);
    }
    // With BPF, only processes that its iterator missed are queried.
    let denial = if evidence.is_by_bpf() { Coverage::Partial } else { Coverage::Missing };
    let unread = |count| evidence.census.unread("taskstats", count);
    match (unread(summary.eperm_count), unread(summary.other_err_count)) {
        (0, 0) => Finding::full_coverage(DataSource::Taskstats),
        (0, failed) => affecting(failed, Coverage::Partial, Cause::NoAnswer),
        (denied, _) if evidence.holds(&Capability::NetAdmin) => affecting(denied, denial, OTHER_USER_NAMESPACE),
        (denied, _) => {
            affecting(denied, denial, Cause::Denied { capability: Capability::NetAdmin, errno: Errno::EPERM })
        }
    }
}

/// Nothing could be queried. With BPF, only processes that its iterator missed lack values.
fn not_opened(evidence: &Evidence<'_>, errno: &Errno) -> Finding {
    let finding = |coverage, cause| Finding::new(DataSource::Taskstats, coverage, cause);
    let built = || evidence.host().and_then(|host| host.config_task_xacct) == Some(Built::On);
    let unread = match errno {
        Errno::ENOENT if built() => finding(Coverage::Missing, OTHER_NETWORK_NAMESPACE),
        Errno::ENOENT => finding(Coverage::Unavailable, Cause::NamespaceOrKernelLacks { option: "TASKSTATS" }),
        errno => finding(Coverage::Missing, Cause::Failed { errno: errno.clone() }),
    };
    let Some(bpf) = evidence.head.capture.as_ref().and_then(|capture| capture.bpf.as_ref()) else { return unread };
    let missed = bpf.missed_processes;
    let total = Some(evidence.census.processes).filter(|total| *total >= missed);
    Finding { coverage: Coverage::Partial, ..unread }.affecting(missed, total, "process")
}

/// Delays that only delay accounting counts; those for a CPU are always counted.
pub(super) fn delay_accounting(evidence: &Evidence<'_>) -> Option<Finding> {
    let host = evidence.host()?;
    let finding = |coverage, cause| Some(Finding::new(DataSource::DelayAccounting, coverage, cause));
    let enabled_late = |coverage, older_threads| finding(coverage, Cause::EnabledLate { older_threads });
    let has_delays = || evidence.census.has(|metric| DataSource::of_metric(metric) == DataSource::DelayAccounting);
    match host.task_delayacct {
        Some(Switch::RuntimeOff) => finding(Coverage::Missing, Cause::SysctlOff { sysctl: "kernel.task_delayacct" }),
        Some(Switch::ConfigOff) => finding(Coverage::Unavailable, Cause::KernelLacks { option: "TASK_DELAY_ACCT" }),
        Some(Switch::Unknown) if !has_delays() => {
            finding(Coverage::Missing, Cause::SysctlUnreadable { sysctl: "kernel.task_delayacct" })
        }
        // Only the sysctl can have enabled it, at an unknown time.
        Some(Switch::On) if !is_on_from_boot(host) => match (evidence.is_by_bpf(), has_delays()) {
            (true, true) => enabled_late(Coverage::Partial, "have no value"),
            (true, false) => enabled_late(Coverage::Missing, "have no value"),
            (false, true) => enabled_late(Coverage::Complete, "show 0"),
            (false, false) => Some(Finding::full_coverage(DataSource::DelayAccounting)),
        },
        _ => Some(Finding::full_coverage(DataSource::DelayAccounting)),
    }
}

/// Threads without delays because the kernel's cannot be true.
pub(super) fn impossible_delays(evidence: &Evidence<'_>) -> Option<Finding> {
    let count = evidence.head.parse_summary.as_ref()?.impossible_delays;
    let finding = || Finding::new(DataSource::DelayAccounting, Coverage::Partial, Cause::ImpossibleDelays);
    (count > 0).then(|| finding().affecting(count, None, "thread"))
}

/// Before Linux 5.14, there is no sysctl.
fn is_on_from_boot(host: &HostContext) -> bool {
    let has_no_sysctl = host.kernel_release.is_some() && !at_least(host.kernel_release.as_deref(), (5, 14));
    has_no_sysctl || host.kernel_cmdline.iter().any(|line| line.split(' ').any(|word| word == "delayacct"))
}

pub(super) fn high_water_marks(evidence: &Evidence<'_>) -> Option<Finding> {
    // The kernel keeps the marks in any case; only taskstats needs the option.
    let lacks = evidence.host()?.config_task_xacct == Some(Built::Off) && !evidence.is_by_bpf();
    let cause = Cause::KernelLacks { option: "TASK_XACCT" };
    lacks.then(|| Finding::new(DataSource::HighWaterMarks, Coverage::Unavailable, cause))
}

/// Returns a finding for denials, and one for all other failures.
pub(super) fn jemalloc(evidence: &Evidence<'_>) -> Vec<Finding> {
    let source = DataSource::Jemalloc;
    let Some(summary) = &evidence.head.probe_summary else {
        let disabled = evidence.head.capture.iter().any(|capture| capture.options.no_jemalloc);
        let cause = if disabled { Cause::DisabledByOption { option: "--no-jemalloc" } } else { Cause::NotLive };
        return vec![Finding::new(source, Coverage::NotRead, cause)];
    };
    let failures = summary.failures.iter().filter(|(failure, _)| !failure.is_routine());
    let (denied, other): (BTreeMap<_, _>, BTreeMap<_, _>) =
        failures.map(|(failure, count)| (failure, *count)).partition(|(failure, _)| failure.is_denial());
    let coverage = if summary.probed_ok > 0 { Coverage::Partial } else { Coverage::Missing };
    let finding = |failures: &BTreeMap<&ProbeFailure, u64>, cause| {
        // Processes that failed as a whole, and single threads of others.
        Finding::new(source.clone(), coverage, cause).affecting(failures.values().sum(), None, "process or thread")
    };
    let mut findings = Vec::new();
    findings.extend((!denied.is_empty()).then(|| finding(&denied, denial(evidence))));
    let cause = |failure: &&ProbeFailure| Cause::ProbeFailed { failure: (*failure).clone() };
    findings.extend(dominant(&other).map(|failure| finding(&other, cause(failure))));
    match (findings.is_empty(), evidence.is_by_bpf()) {
        (false, _) => findings,
        (true, true) => vec![Finding::full_coverage(source)],
        (true, false) => vec![Finding::new(source, Coverage::Complete, Cause::PausesThreads)],
    }
}

/// Samples of why threads wait. Nothing for captures without them.
pub(super) fn reasons(evidence: &Evidence<'_>) -> Option<Finding> {
    let reasons = evidence.head.reasons.as_ref()?;
    let sampling = &reasons.sampling;
    let no_stacks = sampling.no_stacks.as_ref().filter(|why| *why != Sampling::STACKS_NOT_WANTED);
    // Files of version 0.3 have no stacks at all.
    let is_older = || evidence.head.capture.as_ref().is_some_and(|capture| capture.version.starts_with("0.3."));
    let partial = |cause| Some(Finding::new(DataSource::Reasons, Coverage::Partial, cause));
    let is_by_bpf = sampling.source == "bpf";
    match (is_by_bpf, &sampling.no_functions) {
        // `syscall` and `wchan` are for those who may attach to the process.
        (false, _) if missing(evidence).is_some() => {
            let capability = missing(evidence).unwrap_or(Capability::SysPtrace);
            partial(Cause::Denied { capability, errno: Errno::EPERM })
        }
        (true, Some(why)) => partial(Cause::NoFunctionNames { why: why.clone() }),
        (_, None) if no_stacks.is_some() => partial(Cause::NoStacks { why: no_stacks.cloned().unwrap_or_default() }),
        (true, None) if sampling.no_stacks.is_none() && !evidence.is_privileged && !is_older() => {
            partial(Cause::StacksOfUserOnly)
        }
        _ => Some(Finding::full_coverage(DataSource::Reasons)),
    }
}

/// A capability that the caller lacks for memory and `syscall` of other users' processes, which have modes 0600 and 0400.
fn missing(evidence: &Evidence<'_>) -> Option<Capability> {
    [Capability::SysPtrace, Capability::DacReadSearch].into_iter().find(|capability| !evidence.holds(capability))
}

/// Why access to processes was denied. With BPF, no thread is stopped, so a debugger is no obstacle.
fn denial(evidence: &Evidence<'_>) -> Cause {
    let (capability, errno) = (Capability::SysPtrace, Errno::EPERM);
    if let Some(capability) = missing(evidence) {
        return Cause::Denied { capability, errno };
    }
    if !evidence.is_by_bpf() && !evidence.is_privileged {
        return Cause::StopsOfUserOnly;
    }
    let blocked_by =
        if evidence.is_by_bpf() { LSM_OR_NAMESPACE } else { "a debugger, an LSM, seccomp or a user namespace" };
    Cause::DeniedDespite { capability, errno, blocked_by }
}
