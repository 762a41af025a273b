//! Passes over all threads, or over changed threads, with the programs of one engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::ThreadPool;

use super::bpf::exits::ExitListener;
use super::bpf::setup::Passes;
use super::capture_info::capture_info;
use super::containers::NamedContainers;
use super::context::CaptureContext;
use super::engine::{EnginePass, SelectedEngine};
use super::enrich::smaps::Smaps;
use super::enrich::taskstats::CountedFamilies;
use super::enrich::{self, jemalloc};
use super::error::CaptureError;
use super::host::context::BootConstants;
use super::host::files::HostFiles;
use super::host::{self, cgroup, cpu_time, psi, sched_ext};
use super::lasting::Lasting;
use super::options::{Options, Tree, Use};
use super::procfs::directory::ProcDirectory;
use super::procfs::pids::{self, SelectedProcesses};
use super::read_threads::{ChangedThreads, reduced};
use super::scope::{CaptureScope, Pass};
use super::start::{Start, nanoseconds};
use super::tally::Tally;
use crate::model::{
    CaptureInfo, CgroupStats, CtprofProbeSummary, CtprofSnapshot, FORMAT_VERSION, HostContext, Name, SnapshotHead,
    ThreadState, lineage,
};
use crate::process::{RaisedPriority, held, no_workers, with_file_capabilities, without_stops, workers};

/// Passes over the threads of this host, one after the other, with the same options. The programs of the BPF engine are
/// loaded once, before the first pass, which then needs no capability to load programs.
pub struct Capturer {
    options: Options,
    procfs: Arc<ProcDirectory>,
    selected: SelectedProcesses,
    /// Whether there was a pass: selected processes may have exited since.
    has_captured: bool,
    boot: BootConstants,
    pub(super) engine: SelectedEngine,
    /// Effective capabilities when the engine was chosen.
    capabilities: Vec<String>,
    /// How long the preparation took; part of the first capture.
    preparation: Duration,
    lasting: Lasting,
}

impl Capturer {
    /// Prepares so many captures.
    ///
    /// # Errors
    /// [`CaptureError`] if there is no procfs, or not the engine of the options.
    pub fn new(options: Options, captures: usize) -> Result<Self, CaptureError> {
        with_file_capabilities(|| Self::prepare(options, captures, Passes::OfAll))?
    }

    /// Prepares a series of captures, nearly all with changes only.
    ///
    /// # Errors
    /// The errors of [`Capturer::new`].
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
        let engine = SelectedEngine::select(&options, captures.min(most), passes)?;
        Ok(Self {
            lasting: Lasting::new(&options.roots),
            options,
            procfs,
            selected,
            has_captured: false,
            boot,
            engine,
            capabilities,
            preparation: begin.elapsed(),
        })
    }

    /// The process id of ctprof in procfs, which can be mounted for another PID namespace.
    #[must_use]
    pub fn own_id(&self) -> u32 {
        pids::own(&self.procfs).unwrap_or_else(std::process::id)
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

    /// Names cgroups by what the listener has learned, which then learns from the passes.
    pub fn share_cgroups(&mut self, listener: &ExitListener) {
        self.lasting.cgroup_names = Arc::clone(listener.cgroup_names());
    }

    /// The cgroup of a sample or of an exited thread by what the kernel knows it by, if it is known.
    #[must_use]
    pub fn cgroup(&self, key: u64) -> Option<Name> {
        self.lasting.cgroup_names.get(key)
    }

    /// How many entries each map has that outlives a pass, for tests of weeks of recording.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, usize)> {
        let mut entries = self.lasting.entries();
        entries.push(("changed threads", self.engine.entries()));
        entries
    }

    /// Makes each pass later than this after one over all threads read all threads, for tests of weeks of recording.
    pub fn read_all_every(&mut self, time: Duration) {
        self.lasting.changes_for = time;
    }

    /// Captures all threads, with this `smaps` in place of the option.
    ///
    /// # Errors
    /// The errors of [`Capturer::pass`].
    pub fn capture(&mut self, smaps: Smaps) -> Result<CtprofSnapshot, CaptureError> {
        self.pass(CaptureScope::All(smaps)).map(|pass| pass.capture)
    }

    /// Makes a pass over the threads.
    ///
    /// A stop by the terminal waits for the end of the pass, so that no thread stays stopped that ctprof has stopped. This holds
    /// only if no other thread of this process can be stopped meanwhile.
    ///
    /// # Errors
    /// [`CaptureError`] if nothing useful can be read.
    pub fn pass(&mut self, scope: CaptureScope<'_>) -> Result<Pass, CaptureError> {
        with_file_capabilities(|| {
            without_stops(|| {
                let _raised = RaisedPriority::of_all_if_crowded();
                // What the engine has noted by then, a pass over changes would not find again.
                let pass = self.read(scope).inspect_err(|_| self.lasting.forget_whole())?;
                // What changed cannot always be told.
                pass.map_or_else(|| self.read(scope.of_all()).map(|all| all.expect("all threads were read")), Ok)
            })
        })?
    }

    /// Reads the counters of cgroups again in which these threads were, when they exited before a capture of changes. `before` has
    /// the values of the capture before that.
    ///
    /// # Errors
    /// [`CaptureError`] if the capabilities of the file of ctprof cannot be set aside again.
    pub fn read_cgroups_of<'t>(
        &self,
        exited: impl Iterator<Item = &'t ThreadState>,
        stats: &mut BTreeMap<String, CgroupStats>,
        before: &BTreeMap<String, CgroupStats>,
    ) -> Result<(), CaptureError> {
        let exited: BTreeSet<&str> = exited.filter_map(|thread| thread.cgroup.as_deref()).flat_map(lineage).collect();
        let files = HostFiles::new(&self.options.roots);
        let read_again = || {
            for (path, stats) in stats.iter_mut().filter(|(path, _)| exited.contains(&***path)) {
                let again = cgroup::read_again(&files, &self.lasting.mounts, path, stats);
                // What the capture has read of a cgroup that was removed since then is the last that is known.
                if again != CgroupStats::default() || before.get(path) == Some(stats) {
                    *stats = CgroupStats { without_threads: stats.without_threads, ..again };
                }
            }
        };
        Ok(with_file_capabilities(read_again)?)
    }

    /// Makes a pass; `None` if what changed cannot be told.
    fn read(&mut self, scope: CaptureScope<'_>) -> Result<Option<Pass>, CaptureError> {
        let begin = Instant::now();
        let roots = self.options.roots.clone();
        let files = HostFiles::new(&roots);
        let scope = self.lasting.begin(scope);
        let host = match scope.before() {
            Some((_, before)) => before.host.clone().unwrap_or_default(),
            None => self.lasting.settings(&files, scope, &self.boot),
        };
        let (psi, sched_ext) = (psi::host(&files), sched_ext::read(&files));
        files.check_descriptors()?;
        // Only workers may read counters of allocators. Programs that use one are searched for by passes over all threads.
        let needs_workers = scope.before().is_none() || self.lasting.has_heap_counters;
        let pool = if needs_workers { workers(self.options.workers(&host)) } else { no_workers() };
        let tally = Arc::<Tally>::default();
        let start = Start::now(roots.tree());
        let cpu_time = cpu_time::read(&files, start.instant);
        let context = self.context((&host, start), scope.smaps(), &pool, &tally);
        let answer = self.read_threads(&context, scope, (&host, start), &pool)?;
        let Some(EnginePass { mut read, gone_threads, report }) = answer else { return Ok(None) };
        // As soon as possible: a window divides their rises by the time between the threads of both captures.
        let cgroup_stats = self.lasting.cgroup_stats(&files, scope, read.paths(), &pool);
        enrich::read(&context, enrich::WITH_THREADS, &mut read, &pool);
        let walk_ns = nanoseconds(start.instant.elapsed());
        if let Some(boottime_ns) = start.boottime_ns {
            tally.lock().parse.impossible_delays = read.remove_impossible_delays(boottime_ns.saturating_add(walk_ns));
        }
        let cpu_time_after = cpu_time::read(&files, start.instant);
        files.check_descriptors()?;
        enrich::read(&context, enrich::AFTER_THREADS, &mut read, &pool);
        let named_before = scope.before().into_iter().flat_map(|(_, head)| head.containers.keys().map(String::as_str));
        let with_threads: BTreeSet<&str> = read.paths().chain(named_before).collect();
        let NamedContainers { containers, unread } =
            self.lasting.container_names.containers_of(with_threads.into_iter());
        let mut head = match scope.before() {
            Some((_, before)) => before.clone(),
            None => self.head_of_all(scope.smaps(), &pool, &tally, report),
        };
        let capture = head.capture.get_or_insert_default();
        capture.duration_ns = nanoseconds(std::mem::take(&mut self.preparation) + begin.elapsed());
        (capture.monotonic_ns, capture.boottime_ns) = (start.monotonic_ns, start.boottime_ns);
        capture.walk_ns = Some(walk_ns);
        self.has_captured = true;
        if scope.before().is_none() {
            self.lasting.learn(begin, &host, &read.threads);
        }
        let head = SnapshotHead {
            captured_at_unix_ns: start.unix_ns,
            host: Some(host),
            cpu_time,
            cpu_time_after,
            containers,
            containers_unread: unread,
            cgroup_stats,
            psi,
            sched_ext,
            unread_threads: read.unread,
            ..head
        };
        Ok(Some(Pass { capture: CtprofSnapshot { head, threads: reduced(read.threads) }, gone_threads }))
    }

    /// Reads the threads. A pass over all threads has to find some; `None` if the changes cannot be told.
    fn read_threads(
        &mut self,
        context: &CaptureContext,
        scope: CaptureScope<'_>,
        settings: (&HostContext, Start),
        pool: &ThreadPool,
    ) -> Result<Option<EnginePass>, CaptureError> {
        let Self { options, procfs, engine, selected, has_captured, .. } = self;
        let pids = || pids::to_read(options, procfs, selected);
        if let Some((threads, _)) = scope.before() {
            let changes = engine.changes(context, settings, (&pids, threads), pool);
            return Ok(changes.map(|ChangedThreads { mut read, gone_threads, executed }| {
                read.take_known(threads, &executed);
                EnginePass { read, gone_threads: Some(gone_threads), report: CaptureInfo::default() }
            }));
        }
        let pids = pids()?;
        // The engine reads each process, and then the other sources.
        options.progress.announce(u64::try_from(2 * pids.len()).unwrap_or(u64::MAX));
        let answer = engine.read(context, settings, &pids, pool);
        if answer.read.threads.is_empty() && (options.pids.is_empty() || !*has_captured) {
            return Err(CaptureError::no_threads(&context.tally.lock().parse));
        }
        Ok(Some(answer))
    }

    /// Returns the head of a pass over all threads: everything but the threads.
    fn head_of_all(&self, smaps: Smaps, pool: &ThreadPool, tally: &Tally, report: CaptureInfo) -> SnapshotHead {
        let mut counts = tally.lock();
        let capture = capture_info((&self.options, smaps), pool, &counts, report);
        let probe = counts.probe.take().map(CtprofProbeSummary::concluded);
        SnapshotHead {
            format_version: Some(FORMAT_VERSION),
            capture: Some(CaptureInfo { capabilities: self.capabilities.clone(), ..capture }),
            probe_summary: probe.inspect(jemalloc::log),
            parse_summary: Some(std::mem::take(&mut counts.parse).concluded()),
            taskstats_summary: counts.taskstats.take(),
            ..SnapshotHead::default()
        }
    }

    /// Returns the context that the engine and the other sources share in a capture.
    fn context(
        &self,
        (host, start): (&HostContext, Start),
        smaps: Smaps,
        pool: &ThreadPool,
        tally: &Arc<Tally>,
    ) -> CaptureContext {
        let Self { options, procfs, lasting: Lasting { programs, cgroup_names, readers, .. }, .. } = self;
        let roots = &options.roots;
        let is_live = |used: Use| used == Use::Enabled && roots.tree() == Tree::Live;
        // The kernel resumes a thread that did not stop in time when the worker tracing it exits. A pool of
        // the calling thread alone has no such worker.
        let traces = pool.current_thread_index().is_none();
        CaptureContext {
            procfs: Arc::clone(procfs),
            tree: roots.tree(),
            whole_names: host::context::whole_names(host),
            taskstats: is_live(options.taskstats).then(|| CountedFamilies::from_host(host)),
            jemalloc: (is_live(options.jemalloc) && traces).then(|| Arc::clone(programs)),
            smaps,
            page_size: host.page_size.unwrap_or(4096),
            start: start.instant,
            capturing_process: (roots.tree() != Tree::Elsewhere).then(|| pids::own(procfs)).flatten(),
            progress: Arc::clone(&options.progress),
            cgroup_names: Arc::clone(cgroup_names),
            readers: Arc::clone(readers),
            tally: Arc::clone(tally),
        }
    }
}
