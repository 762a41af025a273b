//! Captures, one after the other, with the programs of one engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use rayon::prelude::*;

use super::bpf::setup::Passes;
use super::capture_info::capture_info;
use super::containers::{ContainerNames, NamedContainers};
use super::context::CaptureContext;
use super::css_sets::CssSets;
use super::engine::SelectedEngine;
use super::enrich::smaps::Smaps;
use super::enrich::taskstats::CountedFamilies;
use super::enrich::{self, jemalloc, rollup};
use super::error::CaptureError;
use super::host::context::BootConstants;
use super::host::files::HostFiles;
use super::host::mounts::Mounts;
use super::host::{self, cgroup, cpu_time, psi, sched_ext};
use super::options::{Options, Tree, Use};
use super::procfs::directory::ProcDirectory;
use super::procfs::last_schedstats::KnownThreads;
use super::procfs::pids::{self, SelectedProcesses};
use super::procfs::whole_process;
use super::read_threads::ChangedThreads;
use super::start::{Start, nanoseconds};
use super::tally::Tally;
use crate::model::{
    CaptureInfo, CgroupStats, CtprofProbeSummary, CtprofSnapshot, FORMAT_VERSION, HostContext, Name, SnapshotHead,
    ThreadId, ThreadState,
};
use crate::process::{held, no_workers, with_file_capabilities, without_stops, workers};

/// Captures with the same options. The programs of the BPF engine are loaded once, before the first capture, which
/// then needs no capability to load programs.
pub struct Capturer {
    options: Options,
    procfs: Arc<ProcDirectory>,
    selected: SelectedProcesses,
    /// Whether there was a capture: selected processes may have exited since.
    has_captured: bool,
    boot: BootConstants,
    pub(super) engine: SelectedEngine,
    /// Effective capabilities when the engine was chosen.
    capabilities: Vec<String>,
    /// How long the preparation took; part of the first capture.
    preparation: Duration,
    /// The files of programs that captures have examined.
    programs: Arc<jemalloc::ExaminedFiles>,
    /// What captures have learned about cgroups.
    css_sets: Arc<CssSets>,
    container_names: ContainerNames,
    /// What the last whole capture has read, for the captures of changes after it.
    host: Option<HostContext>,
    mounts: Mounts,
    /// Whether the last whole capture has counters of allocators.
    has_heap_counters: bool,
    /// When all threads, and when all cgroups were read.
    whole_at: Option<Instant>,
    cgroups_at: Option<Instant>,
}

/// What changed since the capture before.
pub struct CapturedChanges {
    /// A capture with the threads that may have changed only.
    pub capture: CtprofSnapshot,
    /// Threads that have exited.
    pub gone: Vec<ThreadId>,
}

/// How long captures of changes follow a whole one. Others can change a thread that sleeps: its cgroup, its priority.
const CHANGES_FOR: Duration = Duration::from_secs(60);
/// How long the values of a cgroup whose threads sleep are taken to be those of before. Its memory can be reclaimed.
const CGROUPS_FOR: Duration = Duration::from_secs(10);

impl Capturer {
    /// Prepares so many captures.
    ///
    /// # Errors
    /// [`CaptureError`] if there is no procfs, or not the engine of the options.
    pub fn new(options: Options, captures: usize) -> Result<Self, CaptureError> {
        with_file_capabilities(|| Self::prepare(options, captures, Passes::OfAll))?
    }

    /// Prepares a series of captures, most of them of what changed.
    ///
    /// # Errors
    /// As [`Capturer::new`].
    pub fn of_changes(options: Options) -> Result<Self, CaptureError> {
        with_file_capabilities(|| Self::prepare(options, usize::MAX, Passes::OfChanges))?
    }

    fn prepare(options: Options, captures: usize, passes: Passes) -> Result<Self, CaptureError> {
        let begin = Instant::now();
        let root = &options.roots.procfs;
        let procfs =
            Arc::new(ProcDirectory::open(root).map_err(|errno| CaptureError::NoProcfs(root.to_owned(), errno))?);
        let selected = pids::selected(root, &procfs, &options.pids)?;
        let capabilities = held();
        let files = HostFiles::new(&options.roots);
        let boot = BootConstants::read(&files);
        files.check_descriptors()?;
        // Before Linux 5.19, opening an iterator needs the capabilities that loading needs. Each is a file.
        let most = if boot.is_at_least((5, 19)) { 2 } else { 512 };
        let engine = SelectedEngine::select(&options, &procfs, captures.min(most), passes)?;
        Ok(Self {
            container_names: ContainerNames::new(&options.roots),
            options,
            procfs,
            selected,
            has_captured: false,
            boot,
            engine,
            capabilities,
            preparation: begin.elapsed(),
            programs: Arc::default(),
            css_sets: Arc::default(),
            host: None,
            mounts: Mounts::default(),
            has_heap_counters: false,
            whole_at: None,
            cgroups_at: None,
        })
    }

    /// When the captures of this read the memory of processes, if nothing else is said.
    #[must_use]
    pub fn smaps(&self) -> Smaps {
        self.options.smaps
    }

    /// Checks that not all selected processes have exited.
    ///
    /// # Errors
    /// [`CaptureError::NoSuchProcess`]
    pub fn check_selected(&self) -> Result<(), CaptureError> {
        match self.selected.first_key_value() {
            Some((pid, _)) if pids::remaining(&self.selected).is_empty() => {
                Err(CaptureError::NoSuchProcess(*pid, self.options.roots.procfs.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Forgets the cgroups that captures have seen. The kernel knows them by addresses, which it uses again after a
    /// while: of captures that are far from each other, none may learn from the others.
    pub fn forget_cgroups(&mut self) {
        self.css_sets = Arc::default();
    }

    /// The cgroup of a `struct css_set` by its address, if captures have seen it.
    #[must_use]
    pub fn cgroup(&self, css_set: u64) -> Option<Name> {
        self.css_sets.cgroup(css_set)
    }

    pub(super) fn css_sets(&self) -> Arc<CssSets> {
        Arc::clone(&self.css_sets)
    }

    /// Captures, with this `smaps` in place of that of the options.
    ///
    /// A stop by the terminal waits for the end of the capture, so that no thread stays stopped that ctprof has stopped.
    /// Another thread of this process that can be stopped meanwhile takes that away.
    ///
    /// # Errors
    /// [`CaptureError`] if nothing useful can be read.
    pub fn capture(&mut self, smaps: Smaps) -> Result<CtprofSnapshot, CaptureError> {
        with_file_capabilities(|| without_stops(|| self.read(smaps, None)))?
    }

    /// Captures without the memory of processes, and with the settings of the host that the capture before has read.
    ///
    /// # Errors
    /// As [`Capturer::capture`].
    pub fn capture_again(&mut self) -> Result<CtprofSnapshot, CaptureError> {
        let host = self.host.take();
        with_file_capabilities(|| without_stops(|| self.read(Smaps::Never, host)))?
    }

    /// Captures what changed since the capture before, which had these threads and was this; `None` if all has to be read.
    ///
    /// # Errors
    /// As [`Capturer::capture`].
    pub fn capture_changes(
        &mut self,
        known: &KnownThreads,
        before: &SnapshotHead,
    ) -> Result<Option<CapturedChanges>, CaptureError> {
        with_file_capabilities(|| without_stops(|| self.read_changes(known, before)))?
    }

    fn read_changes(
        &mut self,
        known: &KnownThreads,
        before: &SnapshotHead,
    ) -> Result<Option<CapturedChanges>, CaptureError> {
        let begin = Instant::now();
        let is_recent = |at: Option<Instant>, time| at.is_some_and(|at| begin.duration_since(at) < time);
        let Some(host) = before.host.as_ref().filter(|_| is_recent(self.whole_at, CHANGES_FOR)) else {
            return Ok(None);
        };
        let Self { options, procfs, selected, engine, container_names, mounts, .. } = &*self;
        let files = HostFiles::new(&options.roots);
        let (psi, sched_ext) = (psi::host(&files), sched_ext::read(&files));
        // Only workers may read counters of allocators. Programs that use one are searched for by whole captures.
        let pool = if self.has_heap_counters { workers(options.workers(host)) } else { no_workers() };
        let tally = Arc::<Tally>::default();
        let start = Start::now(options.roots.tree());
        let cpu_time = cpu_time::read(&files, start.instant);
        let context = self.context(host, start, &pool, &tally);
        let pids = || pids::of(options, procfs, selected);
        let Some(ChangedThreads { mut read, gone, executed }) =
            engine.changes(&context, (host, start), (&pids, known), &pool)
        else {
            return Ok(None);
        };
        let reads_all = !is_recent(self.cgroups_at, CGROUPS_FOR);
        let paths = before.cgroup_stats.keys().filter(|path| reads_all || read.paths().any(|below| is_in(below, path)));
        let mut cgroup_stats = before.cgroup_stats.clone();
        let read_one = |path: &str| match before.cgroup_stats.get(path).filter(|_| !reads_all) {
            Some(before) => cgroup::read_again(&files, mounts, path, before),
            None => cgroup::read(&files, mounts, path),
        };
        cgroup_stats.extend(cgroups(paths.map(String::as_str).chain(read.paths()), &pool, read_one));
        read.take_known(known, &executed);
        enrich::complete(&context, &mut read, &pool);
        whole_process::reread_parents(procfs, &mut read.threads);
        let walk_ns = nanoseconds(start.instant.elapsed());
        if let Some(boottime_ns) = start.boottime_ns {
            read.remove_impossible_delays(boottime_ns.saturating_add(walk_ns));
        }
        let cpu_time_after = cpu_time::read(&files, start.instant);
        files.check_descriptors()?;
        let NamedContainers { containers, unread } = container_names.of(cgroup_stats.keys().map(String::as_str));
        let capture = CaptureInfo {
            duration_ns: nanoseconds(begin.elapsed()),
            monotonic_ns: start.monotonic_ns,
            boottime_ns: start.boottime_ns,
            walk_ns: Some(walk_ns),
            ..before.capture.clone().unwrap_or_default()
        };
        let head = SnapshotHead {
            captured_at_unix_ns: start.unix_ns,
            capture: Some(capture),
            cpu_time,
            cpu_time_after,
            containers,
            containers_unread: unread,
            cgroup_stats,
            psi,
            sched_ext,
            ..before.clone()
        };
        if reads_all {
            self.cgroups_at = Some(begin);
        }
        Ok(Some(CapturedChanges { capture: CtprofSnapshot { head, threads: read.threads }, gone }))
    }

    /// Reads the counters of cgroups again in which these threads were, when they exited before a capture of changes.
    ///
    /// # Errors
    /// [`CaptureError`] if the capabilities of the file of ctprof cannot be set aside again.
    pub fn read_cgroups_of<'t>(
        &self,
        exited: impl Iterator<Item = &'t ThreadState>,
        stats: &mut BTreeMap<String, CgroupStats>,
    ) -> Result<(), CaptureError> {
        let exited: BTreeSet<&str> = exited.filter_map(|thread| thread.cgroup.as_deref()).collect();
        let files = HostFiles::new(&self.options.roots);
        let read_again = || {
            for (path, stats) in stats.iter_mut().filter(|(path, _)| exited.iter().any(|below| is_in(below, path))) {
                *stats = cgroup::read_again(&files, &self.mounts, path, stats);
            }
        };
        Ok(with_file_capabilities(read_again)?)
    }

    fn read(&mut self, smaps: Smaps, known: Option<HostContext>) -> Result<CtprofSnapshot, CaptureError> {
        let begin = Instant::now();
        let preparation = std::mem::take(&mut self.preparation);
        let has_captured = std::mem::replace(&mut self.has_captured, true);
        let Self { options, procfs, selected, boot, engine, capabilities, programs, container_names, .. } = &*self;
        let roots = &options.roots;
        programs.begin_capture();
        let files = HostFiles::new(roots);
        let mounts = Mounts::read(&files);
        let host = known.unwrap_or_else(|| host::context::read(&files, &mounts, boot));
        let psi = psi::host(&files);
        let sched_ext = sched_ext::read(&files);
        files.check_descriptors()?;
        let pool = workers(options.workers(&host));
        let tally = Arc::<Tally>::default();
        let start = Start::now(roots.tree());
        let cpu_time = cpu_time::read(&files, start.instant);
        let is_of_all = options.pids.is_empty();
        let pids = pids::of(options, procfs, selected)?;
        // The engine reads each process, and then the other sources.
        options.progress.announce(u64::try_from(2 * pids.len()).unwrap_or(u64::MAX));
        let context = self.context(&host, start, &pool, &tally);
        let (mut read, report) = engine.read(&context, (&host, start), &pids, &pool);
        if read.threads.is_empty() && (is_of_all || !has_captured) {
            return Err(CaptureError::no_threads(&tally.lock().parse));
        }
        // As soon as possible: a window divides their rises by the time between the threads of both captures.
        let cgroup_stats = cgroups(read.paths(), &pool, |path| cgroup::read(&files, &mounts, path));
        enrich::complete(&context, &mut read, &pool);
        whole_process::reread_parents(procfs, &mut read.threads);
        let walk_ns = nanoseconds(start.instant.elapsed());
        if let Some(boottime_ns) = start.boottime_ns {
            tally.lock().parse.impossible_delays = read.remove_impossible_delays(boottime_ns.saturating_add(walk_ns));
        }
        let cpu_time_after = cpu_time::read(&files, start.instant);
        files.check_descriptors()?;
        rollup::read(&context, smaps, &mut read, &pool);
        let NamedContainers { containers, unread } = container_names.of(cgroup_stats.keys().map(String::as_str));
        let mut counts = tally.lock();
        let probe_summary = counts.probe.take().map(CtprofProbeSummary::concluded).inspect(jemalloc::log);

        let head = SnapshotHead {
            series: None,
            format_version: Some(FORMAT_VERSION),
            captured_at_unix_ns: start.unix_ns,
            capture: Some(CaptureInfo {
                duration_ns: nanoseconds(preparation + begin.elapsed()),
                monotonic_ns: start.monotonic_ns,
                boottime_ns: start.boottime_ns,
                walk_ns: Some(walk_ns),
                capabilities: capabilities.clone(),
                ..capture_info((options, smaps), &pool, &counts, report)
            }),
            window: None,
            reasons: None,
            host: Some(host),
            cpu_time,
            cpu_time_after,
            containers,
            containers_unread: unread,
            cgroup_stats,
            probe_summary,
            parse_summary: Some(std::mem::take(&mut counts.parse).concluded()),
            taskstats_summary: counts.taskstats.take(),
            psi,
            sched_ext,
        };
        self.host.clone_from(&head.host);
        self.mounts = mounts;
        (self.whole_at, self.cgroups_at) = (Some(begin), Some(begin));
        self.has_heap_counters = read.threads.iter().any(|thread| thread.metrics.allocated_bytes.is_some());
        Ok(CtprofSnapshot { head, threads: read.threads })
    }

    /// What the engine and the other sources share in a capture.
    fn context(&self, host: &HostContext, start: Start, pool: &ThreadPool, tally: &Arc<Tally>) -> CaptureContext {
        let Self { options, procfs, programs, css_sets, .. } = self;
        let roots = &options.roots;
        let is_live = |used: Use| used == Use::Enabled && roots.tree() == Tree::Live;
        // The kernel resumes a thread that did not stop in time when the worker tracing it exits. A pool of
        // the calling thread alone has no such worker.
        let traces = pool.current_thread_index().is_none();
        CaptureContext {
            procfs: Arc::clone(procfs),
            tree: roots.tree(),
            whole_names: host::context::whole_names(host),
            taskstats: is_live(options.taskstats).then(|| CountedFamilies::of(host)),
            jemalloc: (is_live(options.jemalloc) && traces).then(|| Arc::clone(programs)),
            page_size: host.page_size.unwrap_or(4096),
            start: start.instant,
            capturing_process: (roots.tree() == Tree::Live).then(|| pids::own(procfs)).flatten(),
            progress: Arc::clone(&options.progress),
            css_sets: Arc::clone(css_sets),
            tally: Arc::clone(tally),
        }
    }
}

/// The values of cgroups, each read once.
fn cgroups<'p>(
    paths: impl Iterator<Item = &'p str>,
    pool: &ThreadPool,
    read: impl Fn(&str) -> CgroupStats + Sync,
) -> BTreeMap<String, CgroupStats> {
    let paths: BTreeSet<&str> = paths.collect();
    let values = |path: &str| (path.to_owned(), read(path));
    pool.install(|| paths.into_par_iter().map(values).collect())
}

/// Whether a cgroup is this one, or below it.
fn is_in(below: &str, path: &str) -> bool {
    path == "/" || below.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::is_in;

    #[test]
    fn what_exits_in_a_cgroup_counts_in_those_above_it_and_in_no_other() {
        for (below, path, expected) in [
            ("/a/b", "/a/b", true),
            ("/a/b", "/a", true),
            ("/a/b", "/", true),
            ("/a", "/a/b", false),
            ("/ab", "/a", false),
        ] {
            assert_eq!(is_in(below, path), expected, "{below} in {path}");
        }
    }
}
