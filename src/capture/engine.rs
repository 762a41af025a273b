//! The engine that reads the threads of a capture.

use nix::errno::Errno;
use rayon::ThreadPool;

use super::bpf::host_parameters::HostParameters;
use super::bpf::obstacle::of_other_ids;
use super::bpf::setup::{BpfEngine, Passes};
use super::context::CaptureContext;
use super::error::CaptureError;
use super::options::{Engine, Options, Tree};
use super::procfs::last_schedstats::KnownThreads;
use super::procfs::walk;
use super::read_threads::{ChangedThreads, ReadThreads};
use super::start::{Start, nanoseconds};
use crate::model::{BpfObstacle, BpfUse, CaptureInfo, HostContext, NoBpf, ThreadId};

/// The engine of the captures of a [`Capturer`](super::capturer::Capturer).
pub(super) enum SelectedEngine {
    /// The BPF engine, loaded.
    Bpf(Box<BpfEngine>),
    /// procfs, and why not BPF, if that was wanted.
    Procfs(Option<NoBpf>),
}

impl SelectedEngine {
    /// BPF if it is wanted and available, for so many captures.
    pub(super) fn select(options: &Options, captures: usize, passes: Passes) -> Result<Self, CaptureError> {
        if options.engine == Engine::Procfs {
            return Ok(Self::Procfs(None));
        }
        let loaded = match options.roots.tree() {
            Tree::Live if !options.pids.is_empty() => Err(BpfObstacle::SelectedProcesses.into()),
            Tree::Live => BpfEngine::load(captures, passes),
            Tree::OtherIds => Err(of_other_ids()),
            Tree::Elsewhere => Err(BpfObstacle::NotLive.into()),
        };
        match loaded {
            Ok(engine) => Ok(Self::Bpf(Box::new(engine))),
            Err(no_bpf) if options.engine == Engine::Bpf => Err(CaptureError::no_bpf(&no_bpf)),
            Err(no_bpf) => Ok(Self::Procfs(Some(no_bpf))),
        }
    }

    /// Uses procfs for good after an EPERM, which every later pass would have, too: before Linux 5.19, opening an iterator needs
    /// capabilities that ctprof has dropped, and the iterators opened before can be used up.
    fn give_up_bpf(&mut self) {
        tracing::warn!(
            "from now on, procfs reads all threads: before Linux 5.19, BPF can read them only with capabilities that ctprof has \
             dropped"
        );
        *self = Self::Procfs(Some(NoBpf::with_detail(BpfObstacle::Denied, "EPERM")));
    }

    /// The number of threads that are kept from pass to pass.
    pub(super) fn entries(&self) -> usize {
        if let Self::Bpf(engine) = self { engine.entries() } else { 0 }
    }

    /// Reads the threads that changed since the pass before; `None` if all have to be read. `pids` lists the processes.
    pub(super) fn changes(
        &mut self,
        context: &CaptureContext,
        (host, start): (&HostContext, Start),
        (pids, last_threads): (&dyn Fn() -> Result<Vec<u32>, CaptureError>, &KnownThreads),
        pool: &ThreadPool,
    ) -> Option<ChangedThreads> {
        let Self::Bpf(engine) = self else {
            let read = walk::read_changed(context, &pids().ok()?, last_threads, pool);
            // Whether a process has executed another program of the same name is not told.
            let executed = read.processes().collect();
            let gone_threads = read.missing(last_threads.keys().copied()).collect();
            return Some(ChangedThreads { read, gone_threads, executed });
        };
        match engine.changes(context, &HostParameters::read(host, start), last_threads, pool) {
            Ok(changes) => changes,
            Err(Errno::EPERM) => {
                self.give_up_bpf();
                None
            }
            Err(errno) => {
                tracing::warn!("the BPF iterator failed ({errno}): all threads are read");
                None
            }
        }
    }

    /// Reads the threads of the processes that procfs has listed.
    pub(super) fn read(
        &mut self,
        context: &CaptureContext,
        (host, start): (&HostContext, Start),
        pids: &[u32],
        pool: &ThreadPool,
    ) -> EnginePass {
        let of_all = |read, engine: &str, no_bpf, bpf| EnginePass {
            read,
            gone_threads: None,
            report: CaptureInfo { engine: engine.to_owned(), no_bpf, bpf, ..CaptureInfo::default() },
        };
        let by_procfs = |no_bpf| of_all(walk::read(context, pids, pool), "procfs", no_bpf, None);
        let engine = match self {
            Self::Procfs(no_bpf) => return by_procfs(no_bpf.clone()),
            Self::Bpf(engine) => engine,
        };
        match engine.walk(context, &HostParameters::read(host, start), pids, pool) {
            Ok((read, missed_processes)) => {
                let (setup_ns, dropped) = (nanoseconds(engine.setup), engine.dropped_metrics());
                of_all(read, "bpf", None, Some(BpfUse { setup_ns, dropped, missed_processes }))
            }
            Err(Errno::EPERM) => {
                self.give_up_bpf();
                self.read(context, (host, start), pids, pool)
            }
            Err(errno) => {
                tracing::warn!("the BPF iterator failed ({errno}): procfs reads all processes");
                by_procfs(Some(NoBpf::with_detail(BpfObstacle::Failed, format!("{errno:?}"))))
            }
        }
    }
}

/// Threads that an engine has read in a pass.
pub(super) struct EnginePass {
    pub(super) read: ReadThreads,
    /// Threads that have exited since the pass before; `None` if the pass read all threads.
    pub(super) gone_threads: Option<Vec<ThreadId>>,
    /// Report of the engine in the snapshot, for a pass over all threads.
    pub(super) report: CaptureInfo,
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::fs::File;
    use std::path::Path;

    use super::super::capturer::Capturer;
    use super::super::enrich::smaps::Smaps;
    use super::super::options::Use;
    use super::super::scope::CaptureScope;
    use super::*;

    fn chosen(engine: Engine, procfs: &Path) -> Result<SelectedEngine, CaptureError> {
        let mut options = Options { engine, ..Options::default() };
        options.roots.procfs = procfs.to_owned();
        SelectedEngine::select(&options, 1, Passes::OfAll)
    }

    #[test]
    fn processes_are_read_by_procfs_if_the_iterator_fails() {
        // The search for jemalloc in all programs of this host takes long.
        let options = Options { engine: Engine::Bpf, jemalloc: Use::Disabled, ..Options::default() };
        let mut capturer = match Capturer::new(options, 1) {
            Ok(capturer) => capturer,
            Err(error) => return skipped(Missing::Privilege(error)),
        };
        let SelectedEngine::Bpf(engine) = &capturer.engine else { panic!("the options demand it") };
        let unreadable = File::open("/").unwrap();
        engine.replace_iterators(unreadable.into());
        let snapshot = capturer.capture(Smaps::Never).unwrap();
        let capture = snapshot.head.capture.unwrap();
        let no_bpf = NoBpf::with_detail(BpfObstacle::Failed, "EISDIR");
        assert_eq!((&*capture.engine, capture.no_bpf, capture.bpf), ("procfs", Some(no_bpf), None));
        assert!(snapshot.threads.iter().any(|thread| thread.tid == std::process::id()));
    }

    #[test]
    fn procfs_reads_all_for_good_where_the_kernel_refuses_iterators() {
        let Ok(mut capturer) = Capturer::of_changes(Options { jemalloc: Use::Disabled, ..Options::default() }) else {
            return skipped(Missing::Kernel("a procfs"));
        };
        capturer.engine.give_up_bpf();
        let first = capturer.capture(Smaps::Never).unwrap();
        assert_eq!(first.head.capture.as_ref().map(|capture| &*capture.engine), Some("procfs"));
        let threads = first.threads.into_iter().map(|thread| (thread.id(), thread)).collect();
        let changed = capturer.pass(CaptureScope::Changed { threads: &threads, head: &first.head }).unwrap();
        assert!(
            changed.gone_threads.is_some() && changed.capture.threads.len() < threads.len(),
            "only what changed is read"
        );
    }

    #[test]
    fn selected_processes_are_read_by_procfs() {
        let mut options = Options { pids: vec![std::process::id()], ..Options::default() };
        let by = |options: &Options| SelectedEngine::select(options, 1, Passes::OfAll);
        let Ok(SelectedEngine::Procfs(Some(no_bpf))) = by(&options) else { panic!("procfs reads fewer files") };
        assert_eq!(no_bpf, BpfObstacle::SelectedProcesses.into());
        options.engine = Engine::Bpf;
        assert!(by(&options).is_err_and(|error| error.to_string().contains("--pid")));
    }

    #[test]
    fn a_recorded_tree_is_read_by_procfs() {
        let dir = tempfile::tempdir().unwrap();
        let Ok(SelectedEngine::Procfs(Some(no_bpf))) = chosen(Engine::Auto, dir.path()) else {
            panic!("it has no threads")
        };
        assert_eq!(no_bpf, BpfObstacle::NotLive.into());
        assert!(matches!(chosen(Engine::Procfs, dir.path()), Ok(SelectedEngine::Procfs(None))), "BPF was not wanted");
        let Err(error) = chosen(Engine::Bpf, dir.path()) else { panic!("it has no threads") };
        let error = error.to_string();
        assert!(error.contains("another procfs") && error.contains("Fix: use --engine auto"), "{error}");
    }
}
