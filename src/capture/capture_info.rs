//! How a capture was made: user, capabilities, cost.

use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use super::start;
use super::tally::Counts;
use super::{Options, Roots, Smaps, Use};
use crate::model::{CaptureInfo, CaptureOptions, SelfCost};

/// How a capture was made, but for the times and the capabilities.
pub(super) fn capture_info(
    (options, smaps): (&Options, Smaps),
    pool: &rayon::ThreadPool,
    counts: &Counts,
    of_engine: CaptureInfo,
) -> CaptureInfo {
    CaptureInfo {
        tool: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        jobs: u64::try_from(pool.current_num_threads()).unwrap_or(u64::MAX),
        euid: nix::unistd::geteuid().as_raw(),
        ambient: crate::process::names_of_ambient(),
        confined: crate::process::is_confined(),
        programs: true,
        options: chosen(options, smaps),
        self_cost: Some(cost(counts)),
        ..of_engine
    }
}

fn chosen(options: &Options, smaps: Smaps) -> CaptureOptions {
    let Roots { procfs, sysfs, cgroupfs } = &options.roots;
    let other = |path: &Path, default_path: &str| (path != Path::new(default_path)).then(|| path.display().to_string());
    CaptureOptions {
        procfs: other(procfs, "/proc"),
        sysfs: other(sysfs, "/sys"),
        cgroupfs: cgroupfs.as_ref().map(|path| path.display().to_string()),
        no_jemalloc: options.jemalloc == Use::Disabled,
        no_taskstats: options.taskstats == Use::Disabled,
        redacted: false,
        pids: options.pids.clone(),
        engine: options.engine.requested().map(str::to_owned),
        smaps: smaps.name().to_owned(),
        smaps_max_rss_bytes: if let Smaps::Auto { max_rss_bytes } = smaps { Some(max_rss_bytes) } else { None },
    }
}

fn cost(counts: &Counts) -> SelfCost {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
    let nanoseconds = |time: TimeVal| u64::try_from(time.num_microseconds()).ok().map(|us| us * 1000);
    SelfCost {
        user_ns: usage.and_then(|usage| nanoseconds(usage.user_time())),
        system_ns: usage.and_then(|usage| nanoseconds(usage.system_time())),
        // The kernel reports KiB.
        peak_rss_bytes: usage.and_then(|usage| u64::try_from(usage.max_rss()).ok()).map(|kib| kib * 1024),
        smaps_ns: Some(start::nanoseconds(counts.smaps_time)),
        probe_ns: Some(start::nanoseconds(counts.probe_time)),
    }
}
