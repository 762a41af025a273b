//! From the kernel to the model: walks all threads and fills a snapshot. Values that cannot be read are
//! absent, and counted by reason. A capture fails only if nothing useful can be read.

mod bpf;
mod css_sets;
mod engine;
mod enrich;
mod error;
#[cfg(fuzzing)]
pub mod fuzz;
mod host;
mod myself;
mod options;
mod process;
mod procfs;
pub mod record;
mod start;
mod tally;
mod ticks;
mod walked;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rayon::ThreadPool;
use rayon::prelude::*;

pub use self::enrich::jemalloc::{Offsets, Route, Tag, TsdLayout, inspect};
pub use self::enrich::smaps::Smaps;
use self::enrich::{Sources, guarded, jemalloc, rollup, taskstats};
pub use self::error::CaptureError;
use self::host::mounts::Mounts;
use self::host::{cgroup, context, cpu_time, psi, sched_ext};
use self::options::Tree;
pub use self::options::{Ask, Engine, Options, Roots};
use self::procfs::folder::Folder;
use self::procfs::pids;
use self::procfs::walk::Walk;
use self::procfs::whole_process;
use self::start::{Start, nanoseconds};
use self::tally::Tally;
use self::walked::Walked;
use crate::model::{CaptureInfo, CgroupStats, CtprofProbeSummary, CtprofSnapshot, FORMAT_VERSION, HostContext, Name};
use crate::process::workers;

/// Captures every thread of every process.
///
/// # Errors
/// [`CaptureError`] if nothing useful can be read.
pub fn capture() -> Result<CtprofSnapshot, CaptureError> {
    capture_with(&Options::default())
}

/// Captures every thread of one process.
///
/// # Errors
/// [`CaptureError`] if nothing useful can be read, for example for an unknown process.
pub fn capture_pid(pid: u32) -> Result<CtprofSnapshot, CaptureError> {
    capture_with(&Options { pids: vec![pid], ..Options::default() })
}

/// Captures according to `options`.
///
/// # Errors
/// [`CaptureError`] if nothing useful can be read.
pub fn capture_with(options: &Options) -> Result<CtprofSnapshot, CaptureError> {
    let begin = Instant::now();
    let roots = &options.roots;
    let procfs = Folder::open(&roots.procfs).map_err(|errno| CaptureError::no_procfs(&roots.procfs, errno))?;
    let mounts = Mounts::read(roots);
    let host = context::read(roots, &mounts);
    let psi = psi::host(&roots.procfs);
    let sched_ext = sched_ext::read(&roots.sysfs);
    let pool = workers(options.workers(&host));
    let sources = sources(options, &host, &pool);
    let engine = engine::Chosen::by(options, &procfs)?;
    let start = Start::now(roots.tree());
    let cpu_time = cpu_time::read(&roots.procfs, roots.tree());
    let pids = pids::to_capture(&roots.procfs, &procfs, &options.pids)?;
    let walk = Walk {
        procfs: &procfs,
        tree: roots.tree(),
        whole_names: context::whole_names(&host),
        sources: &sources,
        page_size: host.page_size.unwrap_or(4096),
        start: start.instant,
        capturing_process: (roots.tree() == Tree::Live).then(|| pids::own(&procfs)).flatten(),
        progress: &options.progress,
        css_sets: &options.css_sets,
    };
    let (mut walked, used) = engine.walk(&walk, options, (&host, start), &pids, &pool);
    whole_process::reread_parents(&procfs, &mut walked.threads);
    let (walk_ns, cpu_time_after) = (nanoseconds(start.instant.elapsed()), cpu_time::read(&roots.procfs, roots.tree()));
    let (cgroup_stats, tally) = cgroups(&walked, &mounts, &pool);
    walked.tally.merge(tally);
    rollup::read(options.smaps, &procfs, &mut walked, &pool);
    let probe_summary = walked.probe.clone().map(CtprofProbeSummary::concluded).inspect(jemalloc::log);

    Ok(CtprofSnapshot {
        format_version: Some(FORMAT_VERSION),
        captured_at_unix_ns: start.unix_ns,
        capture: Some(CaptureInfo {
            duration_ns: nanoseconds(begin.elapsed()),
            monotonic_ns: start.monotonic_ns,
            boottime_ns: start.boottime_ns,
            walk_ns: Some(walk_ns),
            ..myself::info(options, &pool, &walked, used)
        }),
        window: None,
        host: Some(host),
        cpu_time,
        cpu_time_after,
        threads: walked.threads,
        cgroup_stats,
        probe_summary,
        parse_summary: Some(walked.tally.summary()),
        taskstats_summary: walked.taskstats,
        psi,
        sched_ext,
    })
}

/// Runs the program of the BPF engine for all threads and ignores what it writes: the floor of a capture, for
/// benchmarks.
///
/// # Errors
/// [`CaptureError`] if BPF is not available.
#[doc(hidden)]
pub fn bpf_pass() -> Result<(), CaptureError> {
    let engine = bpf::setup::Engine::load(None).map_err(|no_bpf| CaptureError::no_bpf(&no_bpf))?;
    let errno = |errno| CaptureError::no_procfs(std::path::Path::new("BPF iterator"), errno);
    engine.read(|words| drop(std::hint::black_box(words))).map_err(errno)
}

/// The host, without a capture.
#[must_use]
pub fn host(roots: &Roots) -> HostContext {
    context::read(roots, &Mounts::read(roots))
}

/// The enabled sources that this tree and process can use.
fn sources(options: &Options, host: &HostContext, pool: &ThreadPool) -> Sources {
    let live = |ask: Ask| ask == Ask::Yes && options.roots.tree() == Tree::Live;
    // The kernel resumes a thread that did not stop in time when the worker tracing it exits. A pool of
    // the calling thread alone has no such worker.
    let traces = pool.current_thread_index().is_none();
    Sources {
        taskstats: live(options.taskstats).then(|| taskstats::Kept::by(host)),
        jemalloc: (live(options.jemalloc) && traces).then(jemalloc::Files::default),
    }
}

/// The values of every cgroup that a thread is in, in any hierarchy with values, each read once, and what
/// failed.
fn cgroups(walked: &Walked, mounts: &Mounts, pool: &ThreadPool) -> (BTreeMap<String, CgroupStats>, Tally) {
    let of_threads = walked.threads.iter().filter_map(|thread| thread.cgroup.as_ref());
    let paths: BTreeSet<&Name> = of_threads.chain(&walked.cgroups).collect();
    let paths: Vec<_> = paths.into_iter().collect();
    let read = |path: &&Name| {
        let (mut stats, mut tally) = (None, Tally::default());
        guarded(format_args!("cgroup {path:?}"), &mut tally, |_| {
            #[cfg(test)]
            assert_ne!(&***path, "/panics", "on purpose");
            stats = Some((path.to_string(), cgroup::read(mounts, path)));
        });
        (stats, tally)
    };
    let all: Vec<_> = pool.install(|| paths.par_iter().map(read).collect());
    let (stats, tallies): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let mut tally = Tally::default();
    tallies.into_iter().for_each(|one| tally.merge(one));
    (stats.into_iter().flatten().collect(), tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_processes_is_not_a_procfs() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.roots.procfs = dir.path().to_owned();
        let error = capture_with(&options).unwrap_err().to_string();
        assert!(error.contains("lists no process"), "{error}");
        options.roots.procfs = dir.path().join("none");
        let error = capture_with(&options).unwrap_err().to_string();
        assert!(error.contains("is procfs mounted there? mount -t proc proc "), "{error}");
    }

    #[test]
    fn a_panic_in_one_cgroup_ends_the_capture() {
        let walked = Walked { cgroups: ["/panics", "/other"].map(Name::from).into(), ..Walked::default() };
        let (stats, tally) = cgroups(&walked, &Mounts::read(&Roots::default()), &workers(2));
        assert_eq!((stats.into_keys().collect::<Vec<_>>(), tally.panics), (vec!["/other".to_owned()], 1));
    }

    #[test]
    fn an_unknown_process_is_an_error_that_names_it() {
        let error = capture_pid(u32::MAX >> 1).unwrap_err().to_string();
        assert_eq!(error, "no such process: 2147483647 (/proc/2147483647 does not exist)");
    }
}
