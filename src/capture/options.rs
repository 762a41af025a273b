//! Options of a capture: processes, sources, roots, workers.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, process};

use super::enrich::smaps::Smaps;
use crate::model::HostContext;
use crate::process::Progress;

/// Roots of the kernel's file systems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// Root of procfs. With a root other than `/proc`, sources that need live threads are disabled: the BPF engine,
    /// `sched_getaffinity`, taskstats, jemalloc.
    pub procfs: PathBuf,
    /// Root directory of sysfs.
    pub sysfs: PathBuf,
    /// Root of cgroup version 2; `None` to look it up in `mountinfo`.
    pub cgroupfs: Option<PathBuf>,
}

impl Default for Roots {
    fn default() -> Self {
        Self { procfs: "/proc".into(), sysfs: "/sys".into(), cgroupfs: None }
    }
}

impl Roots {
    pub(super) fn tree(&self) -> Tree {
        let own = || fs::read_link("/proc/self").ok()?.to_str()?.parse().ok();
        match self.procfs == Path::new("/proc") {
            false => Tree::Elsewhere,
            true if own() == Some(process::id()) => Tree::Live,
            true => Tree::OtherIds,
        }
    }
}

/// The threads that a procfs lists, as seen by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// `/proc`: its thread ids are valid in system calls.
    Live,
    /// `/proc` of another PID namespace: a system call takes its thread ids for ids of other threads.
    OtherIds,
    /// Another procfs, or a recorded tree, which may be of another boot.
    Elsewhere,
}

/// Options of a capture.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Roots of the kernel's file systems.
    pub roots: Roots,
    /// Processes to capture; empty for all.
    pub pids: Vec<u32>,
    /// The engine that reads the threads.
    pub engine: Engine,
    /// Worker threads. `None` for the number of idle CPUs: the CPUs that this process may use, less the
    /// 1-minute load average rounded to the nearest whole number; at least 1, at most half of the CPUs
    /// plus 1. At most 4 per CPU, as more would only contend: larger numbers are lowered to that.
    pub jobs: Option<NonZeroUsize>,
    /// When to read `smaps_rollup`.
    pub smaps: Smaps,
    /// Whether to use taskstats.
    pub taskstats: Use,
    /// Whether to read jemalloc's counters, which pauses each thread for microseconds.
    pub jemalloc: Use,
    /// Samples of threads that say where in their code they are.
    pub code: CodeSampling,
    /// Progress, updated during the capture.
    pub progress: Arc<Progress>,
}

impl Options {
    /// The number of workers on a host with this load.
    pub(super) fn workers(&self, host: &HostContext) -> usize {
        let cpus = cpus();
        self.jobs.map_or_else(|| jobs_for(cpus, host), |jobs| jobs.get().min(cpus.saturating_mul(MAX_JOBS_PER_CPU)))
    }
}

/// Samples of threads that say where in their code they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeSampling {
    /// None of the samples.
    Never,
    /// Samples of threads that wait.
    #[default]
    Waits,
    /// Samples of threads that wait, and more samples of threads that run.
    WaitsAndRuns,
}

/// The engine that reads the threads. Engines differ in speed, not in the meaning of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Engine {
    /// BPF where it is available, else procfs (`ctprof doctor` says why).
    #[default]
    Auto,
    /// Only BPF: requires root or cap_bpf and cap_perfmon, and a kernel with BTF (CONFIG_DEBUG_INFO_BTF).
    Bpf,
    /// Only files of /proc.
    Procfs,
}

impl Engine {
    /// The name in files; `None` if none was requested.
    pub(super) fn requested(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Bpf => Some("bpf"),
            Self::Procfs => Some("procfs"),
        }
    }
}

/// Whether to use an optional source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Use {
    /// The source is used.
    #[default]
    Enabled,
    /// Do not use it.
    Disabled,
}

/// Worker threads beyond this wait for each other.
const MAX_JOBS_PER_CPU: usize = 4;

/// The CPUs that this process may use.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// More workers would wait for the locks of the kernel.
const MAX_USUAL_JOBS: usize = 8;

/// A capture must not slow down a busy host, so it uses idle CPUs; see [`Options::jobs`].
fn jobs_for(cpus: usize, host: &HostContext) -> usize {
    let load = host.loadavg.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0);
    let busy = (0..cpus).take_while(|&n| f64::from(u32::try_from(n).unwrap_or(u32::MAX)) + 0.5 <= load).count();
    (cpus - busy).clamp(1, (cpus / 2 + 1).min(MAX_USUAL_JOBS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_jobs_brought_the_host_down() {
        let options = Options { jobs: NonZeroUsize::new(100_000), ..Options::default() };
        assert_eq!(options.workers(&HostContext::default()), cpus() * MAX_JOBS_PER_CPU);
        let options = Options { jobs: NonZeroUsize::new(2), ..Options::default() };
        assert_eq!(options.workers(&HostContext::default()), 2);
    }

    #[test]
    fn workers_leave_room_for_the_load_and_are_at_least_one() {
        for (cpus, load, jobs) in
            [(1, 0.0, 1), (2, 0.0, 2), (2, 1.0, 1), (2, 9.0, 1), (16, 0.0, 8), (128, 0.0, 8), (16, 12.2, 4)]
        {
            let host = HostContext { loadavg: Some(format!("{load:.2} 0.50 0.10 1/99 7")), ..HostContext::default() };
            assert_eq!(jobs_for(cpus, &host), jobs, "{cpus} CPUs, load {load}");
        }
    }
}
