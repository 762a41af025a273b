//! How a capture was made: who ran it, with what rights, at what cost.

use std::fs;
use std::path::Path;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::walk::Walked;
use super::{Ask, Options, Roots, Smaps};
use crate::model::{CaptureInfo, CaptureOptions, SelfCost};

pub(super) fn info(options: &Options, pool: &rayon::ThreadPool, walked: &Walked, begin: Instant) -> CaptureInfo {
    CaptureInfo {
        tool: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        engine: "procfs".to_owned(),
        jobs: u64::try_from(pool.current_num_threads()).unwrap_or(u64::MAX),
        euid: nix::unistd::geteuid().as_raw(),
        capabilities: capabilities(),
        options: chosen(options),
        self_cost: Some(cost(walked)),
        duration_ns: u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
    }
}

fn chosen(options: &Options) -> CaptureOptions {
    let Roots { procfs, sysfs, cgroupfs } = &options.roots;
    let other = |path: &Path, usual: &str| (path != Path::new(usual)).then(|| path.display().to_string());
    CaptureOptions {
        procfs: other(procfs, "/proc"),
        sysfs: other(sysfs, "/sys"),
        cgroupfs: cgroupfs.as_ref().map(|path| path.display().to_string()),
        no_jemalloc: options.jemalloc == Ask::No,
        no_taskstats: options.taskstats == Ask::No,
        pids: options.pids.clone(),
        smaps: options.smaps.name().to_owned(),
        smaps_max_rss_bytes: match options.smaps {
            Smaps::Auto { max_rss_bytes } => Some(max_rss_bytes),
            _ => None,
        },
    }
}

fn cost(walked: &Walked) -> SelfCost {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
    SelfCost {
        user_ns: usage.and_then(|usage| nanoseconds(usage.user_time())),
        system_ns: usage.and_then(|usage| nanoseconds(usage.system_time())),
        // The kernel gives KiB.
        peak_rss_bytes: usage.and_then(|usage| u64::try_from(usage.max_rss()).ok()).map(|kib| kib * 1024),
        smaps_ns: u64::try_from(walked.tally.smaps_time.as_nanos()).ok(),
        probe_ns: u64::try_from(walked.probe_time.as_nanos()).ok(),
    }
}

fn nanoseconds(time: TimeVal) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    let microseconds = u64::try_from(time.tv_usec()).ok()?;
    Some(seconds * 1_000_000_000 + microseconds * 1000)
}

/// Names of the effective capabilities of this process.
fn capabilities() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    named(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
}

fn named(mask: u64) -> Vec<String> {
    let held = |(bit, name): (usize, &&str)| (mask >> bit & 1 == 1).then(|| format!("cap_{name}"));
    CAPABILITIES.iter().enumerate().filter_map(held).collect()
}

/// In the order of `include/uapi/linux/capability.h`.
const CAPABILITIES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_have_the_kernels_names() {
        assert_eq!(named(1 << 19 | 1 << 12 | 1 << 2), ["cap_dac_read_search", "cap_net_admin", "cap_sys_ptrace"]);
        assert_eq!(named(1 << 40), ["cap_checkpoint_restore"]);
        assert_eq!(named(0), [] as [&str; 0]);
    }
}
