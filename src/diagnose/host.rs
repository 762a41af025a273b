//! Findings on the host: the list of processes, cgroups, pressure, sched_ext.

use super::cause::{LSM_OR_NAMESPACE, OTHER_PID_NAMESPACE};
use super::{Capability, Cause, Coverage, DataSource, Evidence, Finding};
use crate::model::{CgroupLayout, CgroupStats, Errno, Switch};

pub(super) fn processes(evidence: &Evidence<'_>) -> Finding {
    let source = DataSource::Processes;
    let host = evidence.host();
    if host.and_then(|host| host.pid_namespace_initial) == Some(false) {
        return Finding::new(source, Coverage::Partial, OTHER_PID_NAMESPACE);
    }
    // Members of the group that the mount exempts see kernel threads without a capability.
    let sees_others = || evidence.holds(&Capability::SysPtrace) || evidence.census.kernel_threads > 0;
    match host.and_then(|host| host.proc_hidepid.as_deref()) {
        Some(hidepid) if !matches!(hidepid, "0" | "off") && !sees_others() => {
            Finding::new(source, Coverage::Partial, Cause::HiddenByMount { hidepid: hidepid.to_owned() })
        }
        _ => Finding::full_coverage(source),
    }
}

/// Processes, or parts of large ones, that lost values to a panic.
pub(super) fn panics(evidence: &Evidence<'_>) -> Option<Finding> {
    let count = evidence.head.parse_summary.as_ref()?.worker_panics;
    let finding = || Finding::new(DataSource::Processes, Coverage::Partial, Cause::Panicked);
    (count > 0).then(|| finding().affecting(count, None, "process"))
}

pub(super) fn cgroups(evidence: &Evidence<'_>) -> Finding {
    let source = DataSource::Cgroups;
    let stats: Vec<_> = evidence.head.cgroups().map(|(_, stats)| stats).collect();
    if evidence.host().and_then(|host| host.cgroup_layout) == Some(CgroupLayout::None) {
        return Finding::new(source, Coverage::Missing, Cause::NotMounted);
    }
    let unread = stats.iter().filter(|stats| ***stats == CgroupStats::default()).count();
    if unread == 0 {
        return Finding::full_coverage(source);
    }
    let coverage = if unread == stats.len() { Coverage::Missing } else { Coverage::Partial };
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let finding = Finding::new(source, coverage, Cause::CgroupGone);
    finding.affecting(number(unread), Some(number(stats.len())), "cgroup")
}

/// Returns a finding per error of reading the files that can name containers.
pub(super) fn containers(evidence: &Evidence<'_>) -> Vec<Finding> {
    let source = DataSource::Containers;
    let containers = &evidence.head.containers;
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let unnamed = number(containers.values().filter(|container| !container.is_named()).count());
    if unnamed == 0 {
        return vec![Finding::full_coverage(source)];
    }
    let finding = |cause, names| {
        let coverage = if unnamed < number(containers.len()) { Coverage::Partial } else { Coverage::Missing };
        let finding = Finding { names, ..Finding::new(source.clone(), coverage, cause) };
        finding.affecting(unnamed, Some(number(containers.len())), "container")
    };
    let unread = evidence.head.containers_unread.iter();
    let findings = unread.map(|(errno, names)| {
        // The kernel tells the root of another process to those that may trace it.
        let is_root = names.iter().any(|name| name.starts_with("/proc/"));
        let capability = if is_root { Capability::SysPtrace } else { Capability::DacReadSearch };
        finding(unread_cause(evidence, errno.clone(), capability), names.iter().cloned().collect())
    });
    let findings: Vec<_> = findings.collect();
    if findings.is_empty() { vec![finding(Cause::NotListed, Vec::new())] } else { findings }
}

fn unread_cause(evidence: &Evidence<'_>, errno: Errno, capability: Capability) -> Cause {
    match errno {
        Errno::ENOENT => Cause::RuntimeElsewhere,
        _ if errno.is_denial() && !evidence.holds(&capability) => Cause::Denied { capability, errno },
        _ if errno.is_denial() => Cause::DeniedDespite { capability, errno, blocked_by: LSM_OR_NAMESPACE },
        Errno::EINVAL | Errno::ELOOP | Errno::EFBIG | Errno::EBADMSG => Cause::UnexpectedFile { errno },
        _ => Cause::Failed { errno },
    }
}

pub(super) fn pressure(evidence: &Evidence<'_>) -> Finding {
    let finding = |coverage, cause| Finding::new(DataSource::Pressure, coverage, cause);
    match evidence.host().and_then(|host| host.psi) {
        _ if evidence.head.psi.is_some() => Finding::full_coverage(DataSource::Pressure),
        Some(Switch::ConfigOff) => finding(Coverage::Unavailable, Cause::KernelLacks { option: "PSI" }),
        Some(Switch::RuntimeOff) => finding(Coverage::Missing, Cause::BootOff { option: "PSI" }),
        _ => finding(Coverage::NotRead, Cause::Unknown),
    }
}

pub(super) fn sched_ext(evidence: &Evidence<'_>) -> Finding {
    match &evidence.head.sched_ext {
        Some(_) => Finding::full_coverage(DataSource::SchedExt),
        None => {
            let cause = Cause::SysfsHiddenOrKernelLacks { option: "SCHED_CLASS_EXT" };
            Finding::new(DataSource::SchedExt, Coverage::Unavailable, cause)
        }
    }
}
