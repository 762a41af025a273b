use std::collections::BTreeMap;

use super::cause::{OTHER_NETWORK_NAMESPACE, OTHER_USER_NAMESPACE};
use super::*;
use crate::model::{
    BpfObstacle, BpfUse, Built, CaptureInfo, Census, Container, CtprofParseSummary, CtprofProbeSummary, CtprofSnapshot,
    Errno, HostContext, NoBpf, ProbeFailure, Reasons, Sampling, SnapshotHead, SourceFile, Switch, TaskstatsSummary,
    ThreadState,
};

fn failing(file: SourceFile, errno: Errno) -> CtprofSnapshot {
    let summary = CtprofParseSummary {
        read_failures_by_errno: BTreeMap::from([(file.clone(), BTreeMap::from([(errno, 2)]))]),
        unread_names: BTreeMap::from([(file, vec!["db".to_owned()])]),
        ..CtprofParseSummary::default()
    };
    CtprofSnapshot {
        head: SnapshotHead { parse_summary: Some(summary.concluded()), ..SnapshotHead::default() },
        threads: vec![ThreadState::default(); 3],
    }
}

/// Captured by an unprivileged user with these capabilities.
fn holding(mut snapshot: CtprofSnapshot, capabilities: &[Capability]) -> CtprofSnapshot {
    let capabilities = capabilities.iter().map(ToString::to_string).collect();
    snapshot.head.capture = Some(CaptureInfo { capabilities, euid: 1000, ..CaptureInfo::default() });
    snapshot
}

fn finding(snapshot: &CtprofSnapshot, source: impl Into<DataSource>) -> Finding {
    let source = source.into();
    findings(snapshot).into_iter().find(|finding| finding.source == source).unwrap()
}

impl From<SourceFile> for DataSource {
    fn from(file: SourceFile) -> Self {
        Self::File(file)
    }
}

fn on_host(host: HostContext) -> CtprofSnapshot {
    let mut thread = ThreadState::default();
    // A value from `sched` that no option gates, and one of delay accounting.
    thread.metrics.nr_migrations = Some(1.into());
    thread.metrics.blkio_delay_count = Some(0.into());
    CtprofSnapshot { head: SnapshotHead { host: Some(host), ..SnapshotHead::default() }, threads: vec![thread] }
}

fn setcap(capabilities: &[Capability]) -> Option<Fix> {
    Some(Fix::Setcap(capabilities.iter().cloned().collect()))
}

/// Capabilities for files and memory of other users' processes.
const OF_PROCESSES: [Capability; 2] = [Capability::DacReadSearch, Capability::SysPtrace];

#[test]
fn a_denial_is_fixed_by_capabilities_and_a_missing_file_by_a_kernel() {
    let denied = finding(&holding(failing(SourceFile::Io, Errno::EACCES), &[]), SourceFile::Io);
    assert_eq!(
        denied.reason().unwrap(),
        "not read for 2 of 3 threads (db): permission denied (EACCES): requires cap_sys_ptrace"
    );
    assert_eq!(denied.coverage, Coverage::Partial);
    assert_eq!(denied.fix, setcap(&[Capability::SysPtrace, Capability::DacReadSearch]));
    let missing = finding(&failing(SourceFile::Io, Errno::ENOENT), SourceFile::Io);
    assert_eq!(missing.cause, Some(Cause::KernelLacks { option: "TASK_IO_ACCOUNTING" }));
    assert_eq!((missing.fix, missing.coverage), (None, Coverage::Unavailable));
}

#[test]
fn an_io_file_of_mode_0400_is_not_blamed_on_a_security_module() {
    let traced = holding(failing(SourceFile::Io, Errno::EACCES), &[Capability::SysPtrace]);
    let denied = finding(&traced, SourceFile::Io);
    assert_eq!(denied.cause, Some(Cause::Denied { capability: Capability::DacReadSearch, errno: Errno::EACCES }));
    assert!(denied.reason().unwrap().ends_with("(EACCES): requires cap_dac_read_search"), "{denied}");
    assert_eq!(denied.fix, setcap(&[Capability::SysPtrace, Capability::DacReadSearch]));
    // smaps_rollup has mode 0444: only the ptrace check counts.
    let smaps = holding(failing(SourceFile::SmapsRollup, Errno::EACCES), &[Capability::SysPtrace]);
    assert_eq!(finding(&smaps, SourceFile::SmapsRollup).code(), Some("permission-denied-despite-capability"));
}

#[test]
fn capabilities_that_are_held_are_not_named_as_a_fix() {
    for reads_any_file in [Capability::DacReadSearch, Capability::DacOverride] {
        let held = [Capability::SysPtrace, reads_any_file];
        let denied = finding(&holding(failing(SourceFile::Io, Errno::EACCES), &held), SourceFile::Io);
        let why = "permission denied (EACCES) despite cap_sys_ptrace: blocked by an LSM or a user namespace";
        assert!(denied.reason().unwrap().ends_with(why), "{denied}");
        assert_eq!(denied.fix, None);
    }
}

#[test]
fn setcap_commands_of_several_sources_do_not_undo_one_another() {
    let mut snapshot = holding(failing(SourceFile::Io, Errno::EACCES), &[Capability::CheckpointRestore]);
    snapshot.head.taskstats_summary = Some(TaskstatsSummary { eperm_count: 3, ..TaskstatsSummary::default() });
    let findings = findings(&snapshot);
    let fixes = fixes(&findings);
    let (fix, sources) = &fixes[0];
    let command = "run as root, or once: sudo setcap \
                   cap_checkpoint_restore,cap_dac_read_search,cap_net_admin,cap_sys_ptrace+p \
                   \"$(command -v ctprof)\"";
    assert_eq!((fixes.len(), fix.to_string().as_str()), (1, command));
    assert_eq!(sources.iter().map(|source| source.name()).collect::<Vec<_>>(), ["io", "taskstats"]);
}

#[test]
fn who_cannot_gain_capabilities_is_not_told_to_use_setcap() {
    let mut container = failing(SourceFile::Io, Errno::EACCES);
    container.head.capture = Some(CaptureInfo { euid: 1000, confined: true, ..CaptureInfo::default() });
    let fix = finding(&container, SourceFile::Io).fix.unwrap().to_string();
    assert!(fix.starts_with("run as root with cap_") && fix.contains("--cap-add="), "{fix}");
}

#[test]
fn root_without_a_capability_is_not_told_to_use_setcap() {
    let mut container = failing(SourceFile::Io, Errno::EACCES);
    container.head.capture =
        Some(CaptureInfo { capabilities: vec!["cap_dac_override".to_owned()], ..CaptureInfo::default() });
    let fix = finding(&container, SourceFile::Io).fix.unwrap().to_string();
    assert_eq!(fix, "run as root with cap_sys_ptrace (container: --user=0 --cap-add=SYS_PTRACE)");
}

#[test]
fn at_most_three_names_are_shown() {
    let mut snapshot = holding(failing(SourceFile::Io, Errno::EACCES), &[]);
    let summary = snapshot.head.parse_summary.as_mut().unwrap();
    summary.unread_names.insert(SourceFile::Io, ["a", "b", "c", "d"].map(str::to_owned).to_vec());
    let reason = finding(&snapshot, SourceFile::Io).reason().unwrap();
    assert!(reason.starts_with("not read for 2 of 3 threads (a, b, c, …): "), "{reason}");
}

#[test]
fn findings_do_not_look_at_threads() {
    let mut snapshot = holding(failing(SourceFile::Io, Errno::EACCES), &[]);
    let (whole, census) = (findings(&snapshot), Census::from_threads(&snapshot.threads));
    snapshot.threads.clear();
    assert_eq!(findings_of(&snapshot.head, &census), whole);
}

#[test]
fn switches_that_are_off_are_named_with_the_command_that_sets_them() {
    let off = HostContext {
        sched_schedstats: Some(Switch::RuntimeOff),
        task_delayacct: Some(Switch::RuntimeOff),
        ..HostContext::default()
    };
    let snapshot = on_host(off);
    let line = |source| finding(&snapshot, source).to_string();
    assert_eq!(
        line(DataSource::Schedstats),
        "schedstats: no nr_wakeups*, wait_*, block_*, sleep_* (kernel.sched_schedstats=0); run_time_ns and \
         wait_time_ns are unaffected. Fix: sudo sysctl kernel.sched_schedstats=1 (counts from then on)"
    );
    assert_eq!(
        line(DataSource::DelayAccounting),
        "delay accounting: I/O and memory delays off (kernel.task_delayacct=0). Fix: sudo sysctl \
         kernel.task_delayacct=1 (new threads only; boot with `delayacct` for all)"
    );
    let lacking = HostContext { sched_schedstats: Some(Switch::ConfigOff), ..HostContext::default() };
    assert_eq!(finding(&on_host(lacking), DataSource::Schedstats).coverage, Coverage::Unavailable);
    let unread = HostContext {
        sched_schedstats: Some(Switch::Unknown),
        task_delayacct: Some(Switch::Unknown),
        ..HostContext::default()
    };
    let mut snapshot = on_host(unread);
    // Engines show no delay then.
    snapshot.threads[0].metrics.blkio_delay_count = None;
    let line = |source| finding(&snapshot, source).to_string();
    let of_sched = line(DataSource::Schedstats);
    assert!(of_sched.contains("(kernel.sched_schedstats cannot be read)"), "{of_sched}");
    assert_eq!(
        line(DataSource::DelayAccounting),
        "delay accounting: I/O and memory delays unknown (kernel.task_delayacct cannot be read). Fix: let ctprof read \
         sys/ in /proc, or in the directory of --procfs (systemd: ProcSubset=all)"
    );
}

#[test]
fn scheduler_statistics_are_judged_by_their_gate() {
    let host = || HostContext { sched_schedstats: Some(Switch::RuntimeOff), ..HostContext::default() };
    let mut counted = on_host(host());
    counted.threads[0].metrics.slice_max = Some(1.into());
    assert_eq!(finding(&counted, DataSource::Schedstats).coverage, Coverage::Complete);
    let no_sched = CtprofSnapshot {
        head: SnapshotHead { host: Some(host()), ..SnapshotHead::default() },
        ..CtprofSnapshot::default()
    };
    assert_eq!(finding(&no_sched, DataSource::Schedstats).coverage, Coverage::Complete);
}

#[test]
fn threads_that_started_before_the_sysctl_was_set_are_said_to_show_0() {
    let host = |cmdline: &str| HostContext {
        task_delayacct: Some(Switch::On),
        kernel_cmdline: Some(cmdline.to_owned()),
        ..HostContext::default()
    };
    let by_sysctl = finding(&on_host(host("quiet")), DataSource::DelayAccounting);
    assert_eq!(
        (by_sysctl.cause.as_ref(), by_sysctl.coverage),
        (Some(&Cause::EnabledLate { older_threads: "show 0" }), Coverage::Complete)
    );
    assert!(by_sysctl.is_gap() && !by_sysctl.is_fixable());
    assert_eq!(finding(&on_host(host("quiet delayacct")), DataSource::DelayAccounting).cause, None);
}

#[test]
fn before_linux_5_14_delay_accounting_is_on_from_boot() {
    let host = |release: &str| HostContext {
        task_delayacct: Some(Switch::On),
        kernel_release: Some(release.to_owned()),
        ..HostContext::default()
    };
    let cause = |release: &str| finding(&on_host(host(release)), DataSource::DelayAccounting).cause;
    assert_eq!(cause("5.10.0-32-cloud-amd64"), None);
    assert_eq!(cause("5.14.0"), Some(Cause::EnabledLate { older_threads: "show 0" }));
}

fn without_bpf(cause: BpfObstacle, detail: Option<&str>) -> CtprofSnapshot {
    let mut no_bpf = NoBpf::from(cause);
    no_bpf.detail = detail.map(str::to_owned);
    let capture = CaptureInfo { no_bpf: Some(no_bpf), euid: 1000, ..CaptureInfo::default() };
    CtprofSnapshot {
        head: SnapshotHead { capture: Some(capture), ..SnapshotHead::default() },
        ..CtprofSnapshot::default()
    }
}

fn by_bpf(snapshot: CtprofSnapshot, bpf: BpfUse) -> CtprofSnapshot {
    let capture = CaptureInfo { bpf: Some(bpf), euid: 1000, ..snapshot.head.capture.unwrap_or_default() };
    CtprofSnapshot { head: SnapshotHead { capture: Some(capture), ..snapshot.head }, ..snapshot }
}

#[test]
fn a_capture_without_bpf_says_why_and_is_complete_all_the_same() {
    let line = |cause, detail| finding(&without_bpf(cause, detail), DataSource::Bpf).to_string();
    let expected = "bpf engine: BPF requires cap_bpf and cap_perfmon (EPERM). Fix: run as root, or once: sudo setcap \
                    cap_bpf,cap_perfmon+p \"$(command -v ctprof)\"";
    assert_eq!(line(BpfObstacle::NoCapability, Some("EPERM")), expected);
    let expected = "bpf engine: the kernel is locked down (lockdown=confidentiality), where BPF requires Linux 6.12 (EPERM). \
                    Fix: boot without `lockdown=confidentiality`";
    assert_eq!(line(BpfObstacle::Lockdown, Some("EPERM")), expected);
    let expected = "bpf engine: the kernel lacks CONFIG_DEBUG_INFO_BTF: there is no type information of its own in /sys/kernel/btf/vmlinux";
    assert_eq!(line(BpfObstacle::NoBtf, None), expected);
    assert_eq!(line(BpfObstacle::Other("é".into()), None), "bpf engine: é");
    for cause in BpfObstacle::KNOWN {
        let finding = finding(&without_bpf(cause.clone(), None), DataSource::Bpf);
        assert!(!finding.is_gap() && !finding.is_fixable() && finding.is_listed(), "{finding}");
        assert_eq!((finding.code(), finding.coverage), (Some("no-bpf"), Coverage::NotUsed));
    }
}

#[test]
fn one_setcap_command_also_allows_bpf() {
    let mut snapshot = failing(SourceFile::Io, Errno::EACCES);
    snapshot.head.capture = without_bpf(BpfObstacle::NoCapability, None).head.capture;
    let capabilities = [Capability::SysPtrace, Capability::DacReadSearch, Capability::Bpf, Capability::Perfmon];
    assert_eq!(finding(&snapshot, SourceFile::Io).fix, setcap(&capabilities));
}

#[test]
fn a_choice_of_procfs_and_an_old_file_are_no_obstacle() {
    let mut snapshot = CtprofSnapshot {
        head: SnapshotHead { capture: Some(CaptureInfo::default()), ..SnapshotHead::default() },
        ..CtprofSnapshot::default()
    };
    let on_bpf = |snapshot: &CtprofSnapshot| {
        findings(snapshot)
            .into_iter()
            .find(|finding| finding.source == DataSource::Bpf)
            .map(|finding| finding.to_string())
    };
    assert_eq!(on_bpf(&snapshot), None);
    snapshot.head.capture.as_mut().unwrap().options.engine = Some("procfs".to_owned());
    assert_eq!(on_bpf(&snapshot).as_deref(), Some("bpf engine: disabled by --engine procfs"));
    assert_eq!(on_bpf(&by_bpf(snapshot, BpfUse::default())).as_deref(), Some("bpf engine: ok"));
}

#[test]
fn metrics_that_the_verifier_rejected_are_a_gap_and_processes_that_procfs_read_are_none() {
    let dropped = vec!["wait_max".to_owned(), "block_max".to_owned()];
    let bpf = BpfUse { dropped, missed_processes: 1, ..BpfUse::default() };
    let findings = findings(&by_bpf(CtprofSnapshot::default(), bpf));
    let lines: Vec<_> = findings.iter().filter(|finding| finding.source == DataSource::Bpf).collect();
    let [rejected, missed] = lines[..] else { panic!("{lines:?}") };
    let expected = "bpf engine: no values for 2 metrics (wait_max, block_max): the kernel's verifier rejected access to \
                    their fields. Fix: capture with --engine procfs";
    assert_eq!(rejected.to_string(), expected);
    assert_eq!(missed.to_string(), "bpf engine: procfs read 1 process: missing from the BPF iterator");
    assert_eq!([rejected, missed].map(Finding::is_gap), [true, false]);
}

#[test]
fn bpf_needs_no_taskstats() {
    let snapshot = by_bpf(on_host(HostContext::default()), BpfUse::default());
    assert_eq!(finding(&snapshot, DataSource::Taskstats).cause, None);
    let host = HostContext { config_task_xacct: Some(Built::Off), ..HostContext::default() };
    let marks =
        |snapshot: &CtprofSnapshot| findings(snapshot).iter().any(|one| one.source == DataSource::HighWaterMarks);
    assert!(marks(&on_host(host.clone())) && !marks(&by_bpf(on_host(host), BpfUse::default())));
}

#[test]
fn with_bpf_a_taskstats_that_cannot_be_opened_lacks_only_what_bpf_missed() {
    let lacks = "no data for 1 of 1 process: kernel lacks CONFIG_TASKSTATS, or not available in this network namespace";
    for (errno, reason) in [(Errno::EPERM, "cannot be opened for 1 of 1 process: EPERM"), (Errno::ENOENT, lacks)] {
        let missed = BpfUse { missed_processes: 1, ..BpfUse::default() };
        let mut snapshot = by_bpf(on_host(HostContext::default()), missed);
        let summary = TaskstatsSummary { open_error: Some(errno), ..TaskstatsSummary::default() };
        snapshot.head.taskstats_summary = Some(summary);
        let partial = finding(&snapshot, DataSource::Taskstats);
        assert_eq!((partial.coverage, partial.reason().unwrap().as_str()), (Coverage::Partial, reason));
    }
}

#[test]
fn a_process_whose_threads_may_not_be_listed_is_counted_beside_those_that_were_read() {
    let denied = finding(&holding(failing(SourceFile::Stat, Errno::EACCES), &[]), SourceFile::Stat);
    let expected = "not read for 2 of 3 processes (db): permission denied (EACCES): requires cap_sys_ptrace";
    assert_eq!((denied.reason().unwrap().as_str(), denied.coverage), (expected, Coverage::Partial));
}

#[test]
fn ambient_capabilities_are_the_callers_own() {
    let mut denied = holding(probed(ProbeFailure::PtraceSeize, 1), &OF_PROCESSES);
    let sampling = Sampling { source: "bpf".to_owned(), ..Sampling::default() };
    denied.head.reasons = Some(Box::new(Reasons { sampling, ..Reasons::default() }));
    let causes = |snapshot: &CtprofSnapshot| {
        [DataSource::Reasons, DataSource::Jemalloc].map(|source| finding(snapshot, source).code())
    };
    assert_eq!(causes(&denied), [Some("stacks-of-user-only"), Some("stops-of-user-only")]);
    denied.head.capture.as_mut().unwrap().ambient = vec!["cap_sys_ptrace".to_owned()];
    assert_eq!(causes(&denied), [None, Some("permission-denied-despite-capability")]);
}

#[test]
fn with_bpf_threads_older_than_delay_accounting_have_no_value() {
    let host = HostContext { task_delayacct: Some(Switch::On), ..HostContext::default() };
    let snapshot = by_bpf(on_host(host), BpfUse::default());
    let partial = finding(&snapshot, DataSource::DelayAccounting);
    let expected = "delay accounting: threads started before it was enabled have no value. Fix: boot with `delayacct`";
    assert_eq!((partial.to_string().as_str(), partial.coverage), (expected, Coverage::Partial));
    let none = CtprofSnapshot { threads: Vec::new(), ..snapshot };
    assert_eq!(finding(&none, DataSource::DelayAccounting).coverage, Coverage::Missing);
}

#[test]
fn delays_that_cannot_be_true_are_not_blamed_on_the_time_at_which_they_were_enabled() {
    let mut snapshot = on_host(HostContext::default());
    let partial = |snapshot: &CtprofSnapshot| {
        let all = findings(snapshot);
        all.into_iter()
            .find(|finding| finding.cause == Some(Cause::ImpossibleDelays))
            .map(|finding| finding.to_string())
    };
    assert_eq!(partial(&snapshot), None);
    snapshot.head.parse_summary = Some(CtprofParseSummary { impossible_delays: 3, ..CtprofParseSummary::default() });
    let expected =
        "delay accounting: no values for 3 threads: delays longer than the lifetime of their threads were discarded";
    assert_eq!(partial(&snapshot).as_deref(), Some(expected));
}

#[test]
fn with_bpf_a_debugger_is_not_blamed_for_memory_that_cannot_be_read() {
    let denied = by_bpf(holding(probed(ProbeFailure::PtraceSeize, 2), &OF_PROCESSES), BpfUse::default());
    let expected = "jemalloc: not read for 2 processes or threads: permission denied (EPERM) despite cap_sys_ptrace: \
                    blocked by an LSM or a user namespace";
    assert_eq!(finding(&denied, DataSource::Jemalloc).to_string(), expected);
}

#[test]
fn a_field_that_the_kernel_lacks_is_not_blamed_on_an_option_of_a_file_that_bpf_does_not_read() {
    let missing = failing(SourceFile::Sched, Errno::ENOENT);
    assert_eq!(finding(&missing, SourceFile::Sched).cause, Some(Cause::KernelLacks { option: "SCHED_DEBUG" }));
    let missing = by_bpf(missing, BpfUse::default());
    assert_eq!(finding(&missing, SourceFile::Sched).cause, Some(Cause::KernelLacksFile));
    let io = by_bpf(failing(SourceFile::Io, Errno::ENOENT), BpfUse::default());
    assert_eq!(finding(&io, SourceFile::Io).cause, Some(Cause::KernelLacks { option: "TASK_IO_ACCOUNTING" }));
}

#[test]
fn a_denied_taskstats_names_the_capability_or_the_namespace() {
    let failing = |summary| CtprofSnapshot {
        head: SnapshotHead { taskstats_summary: Some(summary), ..SnapshotHead::default() },
        ..CtprofSnapshot::default()
    };
    let denied = failing(TaskstatsSummary { eperm_count: 7, ..TaskstatsSummary::default() });
    assert_eq!(finding(&denied, DataSource::Taskstats).fix, setcap(&[Capability::NetAdmin]));
    let held = finding(&holding(denied, &[Capability::NetAdmin]), DataSource::Taskstats);
    assert_eq!(held.cause, Some(OTHER_USER_NAMESPACE));
    assert_eq!(held.fix, OTHER_NETWORK_NAMESPACE.fix());
    let mut missing = failing(TaskstatsSummary { open_error: Some(Errno::ENOENT), ..TaskstatsSummary::default() });
    assert_eq!(finding(&missing, DataSource::Taskstats).coverage, Coverage::Unavailable);
    missing.head.host = Some(HostContext { config_task_xacct: Some(Built::On), ..HostContext::default() });
    assert_eq!(finding(&missing, DataSource::Taskstats).reason().unwrap(), "not available in this network namespace");
    let unopened = failing(TaskstatsSummary { open_error: Some(Errno::EMFILE), ..TaskstatsSummary::default() });
    assert_eq!(finding(&unopened, DataSource::Taskstats).reason().unwrap(), "cannot be opened (EMFILE)");
}

#[test]
fn a_container_and_hidden_processes_are_reported() {
    let container = HostContext { pid_namespace_initial: Some(false), ..HostContext::default() };
    let reason = finding(&on_host(container), DataSource::Processes).reason().unwrap();
    assert_eq!(reason, "only this PID namespace is visible");
    let hidden = HostContext { proc_hidepid: Some("2".into()), ..HostContext::default() };
    let hidden = on_host(hidden);
    let reason = finding(&hidden, DataSource::Processes).reason().unwrap();
    assert_eq!(reason, "other users' processes are hidden (procfs is mounted with hidepid=2)");
    let mut exempt = hidden.clone();
    exempt.threads[0].kernel_thread = true;
    assert_eq!(finding(&exempt, DataSource::Processes).coverage, Coverage::Complete);
    let held = holding(hidden, &[Capability::SysPtrace]);
    assert_eq!(finding(&held, DataSource::Processes).coverage, Coverage::Complete);
}

fn probed(failure: ProbeFailure, count: u64) -> CtprofSnapshot {
    let failures = BTreeMap::from([(failure, count)]);
    let summary = CtprofProbeSummary { failures, ..CtprofProbeSummary::default() };
    holding(
        CtprofSnapshot {
            head: SnapshotHead { probe_summary: Some(summary.concluded()), ..SnapshotHead::default() },
            ..CtprofSnapshot::default()
        },
        &[],
    )
}

#[test]
fn failed_attachments_are_counted_and_explained() {
    let denied = probed(ProbeFailure::PtraceSeize, 1);
    let without = finding(&denied, DataSource::Jemalloc);
    assert_eq!(
        without.reason().unwrap(),
        "not read for 1 process or thread: permission denied (EPERM): requires cap_sys_ptrace"
    );
    assert_eq!(without.fix, setcap(&[Capability::SysPtrace]));
    let files = holding(probed(ProbeFailure::PtraceSeize, 1), &[Capability::SysPtrace]);
    assert_eq!(finding(&files, DataSource::Jemalloc).fix, setcap(&[Capability::DacReadSearch, Capability::SysPtrace]));
    let mut held = holding(denied, &OF_PROCESSES);
    assert_eq!(finding(&held, DataSource::Jemalloc).cause, Some(Cause::StopsOfUserOnly));
    held.head.capture.iter_mut().for_each(|capture| capture.euid = 0);
    let held = finding(&held, DataSource::Jemalloc);
    assert!(held.reason().unwrap().ends_with("blocked by a debugger, an LSM, seccomp or a user namespace"), "{held}");
    assert_eq!(held.fix, None);
    let unknown = finding(&probed(ProbeFailure::UnknownLayout, 2), DataSource::Jemalloc);
    let expected = "not read for 2 processes or threads: mostly: the jemalloc build is not recognized and has no \
                    debug information";
    assert_eq!(unknown.reason().unwrap(), expected);
}

#[test]
fn failures_of_different_kinds_are_counted_apart() {
    let failures = [(ProbeFailure::PtraceSeize, 1), (ProbeFailure::UnknownLayout, 2)].into();
    let summary = CtprofProbeSummary { failures, ..CtprofProbeSummary::default() };
    let errnos = BTreeMap::from([(Errno::EACCES, 2), (Errno::EIO, 1)]);
    let parse = CtprofParseSummary {
        read_failures_by_errno: BTreeMap::from([(SourceFile::Io, errnos)]),
        ..CtprofParseSummary::default()
    };
    let snapshot = CtprofSnapshot {
        head: SnapshotHead {
            probe_summary: Some(summary.concluded()),
            parse_summary: Some(parse.concluded()),
            ..SnapshotHead::default()
        },
        ..CtprofSnapshot::default()
    };
    let gaps = findings(&snapshot).into_iter().filter_map(|finding| Some((finding.code()?, finding.affected?.count)));
    let expected = [("permission-denied", 2), ("error", 1), ("permission-denied", 1), ("probe-failed", 2)];
    assert_eq!(gaps.collect::<Vec<_>>(), expected);
}

#[test]
fn skipped_processes_are_counted_with_the_option_that_skipped_them() {
    let summary = CtprofParseSummary { smaps_skipped: 1, smaps_out_of_time: 2, ..CtprofParseSummary::default() };
    let snapshot = CtprofSnapshot {
        head: SnapshotHead { parse_summary: Some(summary), ..SnapshotHead::default() },
        ..CtprofSnapshot::default()
    };
    assert!(!findings(&snapshot).iter().any(Finding::is_fixable), "nothing that `doctor` fails for");
    let line = |cause| {
        findings(&snapshot).into_iter().find(|finding| finding.cause.as_ref() == Some(&cause)).unwrap().to_string()
    };
    for (cause, expected) in [
        (Cause::TooLarge, "smaps_rollup: skipped 1 of 1 process: above --smaps-max-rss."),
        (Cause::OutOfTime, "smaps_rollup: skipped 2 of 2 processes: time limit reached."),
    ] {
        assert_eq!(line(cause), format!("{expected} Fix: capture with --smaps always"));
    }
}

#[test]
fn findings_have_a_code_a_reason_and_a_fix_in_json_and_null_where_nothing_is_missing() {
    let snapshot = holding(failing(SourceFile::Sched, Errno::EMFILE), &[]);
    let json = |source: SourceFile| serde_json::to_value(finding(&snapshot, source)).unwrap();
    let expected = serde_json::json!({
        "source": "sched",
        "coverage": "partial",
        "code": "open-file-limit",
        "reason": "not read for 2 of 3 threads (db): too many open files (EMFILE)",
        "fix": "ulimit -n \"$(ulimit -Hn)\", or sudo prlimit --nofile=65536 --pid $$ (container: --ulimit nofile=65536)",
    });
    assert_eq!(json(SourceFile::Sched), expected);
    let complete = json(SourceFile::Stat);
    assert!(complete["code"].is_null() && complete["reason"].is_null() && complete["fix"].is_null(), "{complete}");
}

#[test]
fn codes_are_unique() {
    for codes in [Cause::CODES, Warning::CODES, Note::CODES] {
        let mut names: Vec<_> = codes.iter().map(|(code, _)| code).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), codes.len(), "{codes:?}");
    }
}

#[test]
fn values_lost_to_a_panic_are_a_finding() {
    let panics = |worker_panics| {
        let summary = CtprofParseSummary { worker_panics, ..CtprofParseSummary::default() };
        let snapshot = CtprofSnapshot {
            head: SnapshotHead { parse_summary: Some(summary), ..SnapshotHead::default() },
            ..CtprofSnapshot::default()
        };
        findings(&snapshot).into_iter().find(|finding| finding.cause == Some(Cause::Panicked))
    };
    assert_eq!(panics(0), None);
    let reason = panics(2).and_then(|finding| finding.reason());
    assert_eq!(reason.as_deref(), Some("values lost for 2 processes: ctprof panicked while reading them"));
}

#[test]
fn reasons_that_are_not_of_all_threads_or_lack_functions_say_what_helps() {
    let sampled = |source: &str, no_functions: Option<&str>, capabilities: &[Capability]| {
        let mut snapshot = holding(CtprofSnapshot::default(), capabilities);
        let no_functions = no_functions.map(str::to_owned);
        let sampling = Sampling { source: source.to_owned(), no_functions, ..Sampling::default() };
        snapshot.head.reasons = Some(Box::new(Reasons { sampling, ..Reasons::default() }));
        finding(&snapshot, DataSource::Reasons)
    };
    let of_others = sampled("procfs", None, &[]);
    assert_eq!((of_others.code(), of_others.fix), (Some("permission-denied"), setcap(&[Capability::SysPtrace])));
    assert_eq!(
        sampled("procfs", None, &[Capability::SysPtrace]).code(),
        Some("permission-denied"),
        "`syscall` has mode 0400"
    );
    assert_eq!(sampled("procfs", None, &OF_PROCESSES).cause, None);
    assert_eq!(sampled("bpf", None, &[]).cause, Some(Cause::StacksOfUserOnly));
    let unnamed = sampled("bpf", Some("kernel lacks CONFIG_KALLSYMS"), &[]);
    assert_eq!(unnamed.to_string(), "reasons: no kernel functions (kernel lacks CONFIG_KALLSYMS)");
}

#[test]
fn it_is_said_whose_stacks_reasons_lack() {
    let sampled_by = |source: &str, no_stacks: Option<&str>, version: &str, is_root: bool| {
        let mut snapshot = holding(CtprofSnapshot::default(), &OF_PROCESSES);
        let capture = snapshot.head.capture.as_mut().unwrap();
        (capture.euid, capture.version) = (if is_root { 0 } else { 1000 }, version.into());
        let no_stacks = no_stacks.map(str::to_owned);
        let sampling = Sampling { source: source.to_owned(), no_stacks, ..Sampling::default() };
        snapshot.head.reasons = Some(Box::new(Reasons { sampling, ..Reasons::default() }));
        finding(&snapshot, DataSource::Reasons)
    };
    let sampled = |no_stacks, is_root| sampled_by("bpf", no_stacks, "0.4.0", is_root);
    assert_eq!(sampled(None, true).cause, None);
    assert_eq!(sampled(None, false).cause, Some(Cause::StacksOfUserOnly), "although no process of the user waited");
    assert_eq!(sampled_by("bpf", None, "0.3.0", false).cause, None, "without stacks at all");
    assert_eq!(sampled(Some("--no-stacks"), false).cause, None);
    assert_eq!(sampled(Some("too old"), true).reason().as_deref(), Some("no functions of programs (too old)"));
    let without_bpf = sampled_by("procfs", Some("no BPF"), "0.4.0", true);
    assert_eq!(without_bpf.reason().as_deref(), Some("no functions of programs (no BPF)"));
}

#[test]
fn denied_names_of_containers_need_the_capability_for_their_path() {
    let denied = |path: &str, capabilities: &[Capability]| {
        let head = SnapshotHead {
            containers: BTreeMap::from([("/docker/1".to_owned(), Container::default())]),
            containers_unread: BTreeMap::from([(Errno::EACCES, [path.to_owned()].into())]),
            ..SnapshotHead::default()
        };
        finding(&holding(CtprofSnapshot { head, ..CtprofSnapshot::default() }, capabilities), DataSource::Containers)
    };
    let directory = "/var/lib/docker/containers";
    assert_eq!(denied(directory, &[]).fix, setcap(&[Capability::DacReadSearch]));
    assert_eq!(
        denied(directory, &[]).reason().unwrap(),
        "no names for 1 of 1 container (/var/lib/docker/containers): permission denied (EACCES): requires cap_dac_read_search"
    );
    assert_eq!(
        denied("/proc/1/root", &[Capability::DacReadSearch]).fix,
        setcap(&[Capability::SysPtrace, Capability::DacReadSearch])
    );
    assert_eq!(denied(directory, &[Capability::DacReadSearch]).code(), Some("permission-denied-despite-capability"));
}
