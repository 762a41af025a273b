//! From the kernel to the model: walks procfs and fills a snapshot. What can't be read is absent
//! and counted; a capture fails only where nothing useful can come out.

mod enrich;
#[cfg(fuzzing)]
pub mod fuzz;
mod host;
mod myself;
mod procfs;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Instant, SystemTime};

use nix::errno::Errno;
use nix::unistd::SysconfVar;
use rayon::prelude::*;

pub use self::enrich::jemalloc::{Layout, Offsets, Route, Tag, inspect};
pub use self::enrich::smaps::Smaps;
use self::enrich::{jemalloc, taskstats};
use self::host::mounts::Mounts;
use self::host::{cgroup, context, psi, sched_ext};
use self::procfs::folder::{Folder, IdName};
use self::procfs::task::Tree;
use self::procfs::text;
use self::procfs::walk::{Walk, Walked};
use crate::model::{CgroupStats, CtprofProbeSummary, CtprofSnapshot, FORMAT_VERSION, HostContext, Name};
use crate::process::workers;

/// Where the kernel's file systems are.
#[derive(Clone, Debug)]
pub struct Roots {
    /// Root of procfs. With another one than `/proc`, what only live threads can tell is left out.
    pub procfs: PathBuf,
    /// Root of sysfs.
    pub sysfs: PathBuf,
    /// Root of cgroup version 2; `None` to look it up in `mountinfo`.
    pub cgroupfs: Option<PathBuf>,
}

impl Default for Roots {
    fn default() -> Self {
        Self { procfs: "/proc".into(), sysfs: "/sys".into(), cgroupfs: None }
    }
}

/// What to capture, and how.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Where to look.
    pub roots: Roots,
    /// Processes to capture; empty for all.
    pub pids: Vec<u32>,
    /// Workers; `None` for as many as the load leaves room for.
    pub jobs: Option<NonZeroUsize>,
    /// When to read `smaps_rollup`.
    pub smaps: Smaps,
    /// Whether to ask taskstats.
    pub taskstats: Ask,
    /// Whether to read the counters of processes' allocators, for which threads are stopped for
    /// microseconds.
    pub jemalloc: Ask,
    /// Told how far the walk has come.
    pub progress: Arc<Progress>,
}

/// Whether to use a source that costs something or needs privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// Use it.
    #[default]
    Yes,
    /// Leave it alone.
    No,
}

/// How far a walk has come, for whoever watches.
#[derive(Debug, Default)]
pub struct Progress {
    /// Processes to read; 0 until they are listed.
    pub total: AtomicUsize,
    /// Processes read.
    pub done: AtomicUsize,
}

/// Why nothing could be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The procfs root can't be opened or listed.
    #[error("cannot list processes in {}: {errno}; is procfs mounted there? mount -t proc proc {}", path.display(), path.display())]
    NoProcfs {
        /// The root.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// A directory that lists no process: no procfs.
    #[error("{} lists no process; is procfs mounted there?", .0.display())]
    NoProcesses(PathBuf),
    /// A process that was asked for is not there.
    #[error("no process {pid} in {}: {errno}", path.display())]
    NoSuchProcess {
        /// The id.
        pid: u32,
        /// The root.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// The id that was asked for is a thread's.
    #[error("{tid} is a thread of process {tgid}: ask for --pid {tgid}")]
    NotAProcess {
        /// The id asked for.
        tid: u32,
        /// The process.
        tgid: u32,
    },
}

/// Captures every thread of every process.
///
/// # Errors
/// [`CaptureError`] where nothing useful can come out.
pub fn capture() -> Result<CtprofSnapshot, CaptureError> {
    capture_with(&Options::default())
}

/// Captures every thread of one process.
///
/// # Errors
/// [`CaptureError`] where nothing useful can come out: no such process above all.
pub fn capture_pid(pid: u32) -> Result<CtprofSnapshot, CaptureError> {
    capture_with(&Options { pids: vec![pid], ..Options::default() })
}

/// Captures what `options` say.
///
/// # Errors
/// [`CaptureError`] where nothing useful can come out.
pub fn capture_with(options: &Options) -> Result<CtprofSnapshot, CaptureError> {
    let begin = Instant::now();
    let captured_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let Roots { procfs: path, .. } = &options.roots;
    let tree = if path == Path::new("/proc") { Tree::Live } else { Tree::Elsewhere };
    let procfs = Folder::open(path).map_err(|errno| no_procfs(path, errno))?;
    let pids = processes(path, &procfs, &options.pids)?;
    let mounts = Mounts::read(&options.roots);
    let host = context::read(&options.roots, tree, &mounts);
    let psi = psi::host(path);
    let sched_ext = sched_ext::read(&options.roots.sysfs);
    let pool = workers(options.jobs.map_or_else(|| default_jobs(&host), NonZeroUsize::get));
    // A thread that can't be stopped in time is let go by the end of the worker that holds it. Without
    // workers of its own, a capture holds none.
    let may_hold = pool.current_thread_index().is_none();
    let walk = Walk {
        procfs: &procfs,
        tree,
        smaps: options.smaps,
        taskstats: (tree == Tree::Live && options.taskstats == Ask::Yes).then(|| taskstats::Kept::on(&host)),
        jemalloc: (tree == Tree::Live && options.jemalloc == Ask::Yes && may_hold).then(jemalloc::Files::default),
        page_size: context::setting(SysconfVar::PAGE_SIZE).unwrap_or(4096),
        begin,
        progress: &options.progress,
    };
    let walked = walk.run(&pids, &pool);
    let cgroup_stats = cgroups(&walked, &mounts, &pool);

    Ok(CtprofSnapshot {
        format_version: Some(FORMAT_VERSION),
        captured_at_unix_ns: u64::try_from(captured_at.as_nanos()).unwrap_or(u64::MAX),
        capture: Some(myself::info(options, &pool, &walked, begin)),
        host: Some(host),
        threads: walked.threads,
        cgroup_stats,
        probe_summary: walked.probe.map(CtprofProbeSummary::concluded),
        parse_summary: Some(walked.tally.summary()),
        taskstats_summary: walked.taskstats,
        psi,
        sched_ext,
    })
}

/// The values of every cgroup that a thread is in, in any hierarchy with values, each read once.
fn cgroups(walked: &Walked, mounts: &Mounts, pool: &rayon::ThreadPool) -> BTreeMap<String, CgroupStats> {
    let of_threads = walked.threads.iter().filter_map(|thread| thread.cgroup.as_ref());
    let paths: BTreeSet<&Name> = of_threads.chain(&walked.cgroups).collect();
    let paths: Vec<_> = paths.into_iter().collect();
    pool.install(|| paths.par_iter().map(|path| (path.to_string(), cgroup::read(mounts, path))).collect())
}

fn no_procfs(path: &Path, errno: Errno) -> CaptureError {
    CaptureError::NoProcfs { path: path.to_owned(), errno }
}

/// The processes to capture: all that procfs lists, or those chosen, which have to be there.
fn processes(path: &Path, procfs: &Folder, chosen: &[u32]) -> Result<Vec<u32>, CaptureError> {
    let mut pids = chosen.to_vec();
    if chosen.is_empty() {
        let listing = procfs.listing(c".").map_err(|errno| no_procfs(path, errno))?;
        listing.ids(&mut Vec::new(), &mut pids).map_err(|errno| no_procfs(path, errno))?;
        if pids.is_empty() {
            return Err(CaptureError::NoProcesses(path.to_owned()));
        }
    }
    pids.sort_unstable();
    pids.dedup();
    for &pid in chosen {
        let opened = procfs.folder(IdName::new(pid).as_c_str());
        let folder = opened.map_err(|errno| CaptureError::NoSuchProcess { pid, path: path.to_owned(), errno })?;
        match process_of(&folder) {
            Some(tgid) if tgid != pid => return Err(CaptureError::NotAProcess { tid: pid, tgid }),
            _ => {}
        }
    }
    Ok(pids)
}

/// The process that a directory of procfs belongs to: threads have such directories too, unlisted.
fn process_of(folder: &Folder) -> Option<u32> {
    let mut buffer = Vec::new();
    let status = folder.read(c"status", &mut buffer).ok()?;
    let tgid = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"Tgid:"))?;
    u32::try_from(text::unsigned(tgid.trim_ascii())?).ok()
}

/// As many workers as CPUs are idle, at least one, at most a little over half of them: a capture
/// must not drown a busy host.
fn default_jobs(host: &HostContext) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let load = host.loadavg.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    jobs_for(cpus, load.unwrap_or(0.0))
}

fn jobs_for(cpus: usize, load: f64) -> usize {
    let busy = (0..cpus).take_while(|&n| f64::from(u32::try_from(n).unwrap_or(u32::MAX)) + 0.5 <= load).count();
    (cpus - busy).clamp(1, cpus / 2 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_leave_room_for_the_load_but_are_never_none() {
        for (cpus, load, jobs) in [(1, 0.0, 1), (2, 0.0, 2), (2, 1.0, 1), (2, 9.0, 1), (16, 0.0, 9), (16, 12.2, 4)] {
            assert_eq!(jobs_for(cpus, load), jobs, "{cpus} CPUs, load {load}");
        }
    }

    #[test]
    fn a_directory_without_processes_is_no_procfs() {
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
    fn an_unknown_process_is_an_error_that_names_it() {
        let error = capture_pid(u32::MAX >> 1).unwrap_err().to_string();
        assert_eq!(error, "no process 2147483647 in /proc: ENOENT: No such file or directory");
    }
}
