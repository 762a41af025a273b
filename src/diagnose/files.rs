//! Findings on the files of threads and processes.

use super::cause::LSM_OR_NAMESPACE;
use super::{Capability, Cause, Coverage, DataSource, Evidence, Finding, Fix};
use crate::model::{Errno, METRICS, SourceFile};

/// Returns a finding per file, or per error if the file could not be read, and one for each reason why `smaps_rollup` files were
/// skipped.
pub(super) fn all(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let summary = evidence.head.parse_summary.clone().unwrap_or_default();
    for file in SourceFile::KNOWN {
        let failures = summary.read_failures_by_errno.get(file).into_iter().flatten();
        let errnos = failures.map(|(errno, count)| (errno, evidence.census.unread(file.name(), *count)));
        let errnos: Vec<_> = errnos.filter(|(_, count)| *count > 0).collect();
        if errnos.is_empty() {
            findings.push(unread(evidence, file));
            continue;
        }
        // Names are recorded per file: with several errors, which one each process had is unknown, as are those of a part.
        let names = summary.unread_names.get(file).filter(|_| errnos.len() == 1 && !evidence.census.is_part());
        let finding = |(errno, count): (&Errno, u64)| Finding {
            names: names.cloned().unwrap_or_default(),
            ..failed(evidence, file, errno, count)
        };
        findings.extend(errnos.into_iter().map(finding));
    }
    let skipped = [(Cause::TooLarge, summary.smaps_skipped), (Cause::OutOfTime, summary.smaps_out_of_time)];
    let of_part = |count| evidence.census.unread(SourceFile::SmapsRollup.name(), count);
    let skipped = skipped.map(|(cause, count)| (cause, of_part(count))).into_iter().filter(|(_, count)| *count > 0);
    findings.extend(skipped.map(|(cause, count)| {
        let total = Some(evidence.census.user_processes.max(count));
        let finding = Finding::new(DataSource::File(SourceFile::SmapsRollup), Coverage::Partial, cause);
        finding.affecting(count, total, "process")
    }));
    findings
}

/// A file without failures: complete, unless the capture did not read it.
fn unread(evidence: &Evidence<'_>, file: &SourceFile) -> Finding {
    let never = || evidence.head.capture.iter().any(|capture| capture.options.smaps == "never");
    if *file == SourceFile::SmapsRollup && never() {
        let cause = Cause::DisabledByOption { option: "--smaps never" };
        return Finding::new(DataSource::File(file.clone()), Coverage::NotRead, cause);
    }
    Finding::full_coverage(DataSource::File(file.clone()))
}

fn failed(evidence: &Evidence<'_>, file: &SourceFile, errno: &Errno, count: u64) -> Finding {
    let census = evidence.census;
    let (total, noun) = match (file, errno) {
        // Who may not read `stat` may not list the threads of the process: it is not among the snapshot's.
        (SourceFile::Stat, Errno::EACCES | Errno::EPERM) => (census.processes.saturating_add(count), "process"),
        (SourceFile::SmapsRollup, _) => (census.user_processes.max(count), "process"),
        // Threads that could not be read at all are not among the snapshot's.
        _ => (census.threads.max(count), "thread"),
    };
    let coverage = match errno {
        Errno::ENOENT => Coverage::Unavailable,
        _ if count < total => Coverage::Partial,
        _ => Coverage::Missing,
    };
    let mut finding = Finding::new(DataSource::File(file.clone()), coverage, cause(evidence, file, errno));
    if let Some(Fix::Setcap(capabilities)) = &mut finding.fix {
        capabilities.extend(needed(file).iter().cloned());
    }
    finding.affecting(count, Some(total), noun)
}

/// Capabilities that reading a file of any process needs. `io` has mode 0400 and is checked once
/// more when it is read (`do_io_accounting` of `fs/proc/base.c`); the other files have mode 0444, and
/// only the check counts.
fn needed(file: &SourceFile) -> &'static [Capability] {
    match file {
        SourceFile::Io => &[Capability::SysPtrace, Capability::DacReadSearch],
        _ => &[Capability::SysPtrace],
    }
}

fn cause(evidence: &Evidence<'_>, file: &SourceFile, errno: &Errno) -> Cause {
    let errno = errno.clone();
    let lacks = |capability: &&Capability| !evidence.holds(capability);
    match errno {
        Errno::EACCES | Errno::EPERM => match needed(file).iter().find(lacks) {
            None => Cause::DeniedDespite { capability: Capability::SysPtrace, errno, blocked_by: LSM_OR_NAMESPACE },
            Some(capability) => Cause::Denied { capability: capability.clone(), errno },
        },
        Errno::EMFILE => Cause::OpenFileLimit { errno },
        Errno::ETIMEDOUT => Cause::ReadBlocked { errno },
        // BPF reads fields of the kernel, not a file that depends on an option.
        Errno::ENOENT if evidence.is_by_bpf() && *file == SourceFile::Sched => Cause::KernelLacksFile,
        Errno::ENOENT => option(file).map_or(Cause::KernelLacksFile, |option| Cause::KernelLacks { option }),
        _ => Cause::Failed { errno },
    }
}

/// The kernel option that a file depends on.
fn option(file: &SourceFile) -> Option<&'static str> {
    match file {
        SourceFile::SmapsRollup => Some("PROC_PAGE_MONITOR"),
        SourceFile::Cgroup => Some("CGROUPS"),
        SourceFile::Sched => Some("SCHED_DEBUG"),
        _ => METRICS.iter().find(|metric| metric.file() == file.name())?.gates.first().copied(),
    }
}
