//! State that outlives a pass: all of it is here, and is forgotten here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use rayon::prelude::*;

use super::cgroup_names::CgroupNames;
use super::containers::ContainerNames;
use super::enrich::jemalloc::ExaminedFiles;
use super::host::cgroup;
use super::host::context::{self, BootConstants};
use super::host::files::HostFiles;
use super::host::mounts::Mounts;
use super::options::Roots;
use super::read_threads::ReadThread;
use super::scope::CaptureScope;
use crate::model::{CgroupStats, HostContext, lineage};
use crate::process::ReaderPool;

/// Knowledge of passes that later passes use.
pub(super) struct Lasting {
    /// The files of programs that passes have examined.
    pub(super) programs: Arc<ExaminedFiles>,
    /// The paths of cgroups that passes, and records of exits, have learned.
    pub(super) cgroup_names: Arc<CgroupNames>,
    pub(super) container_names: ContainerNames,
    /// They know what kept them waiting.
    pub(super) readers: Arc<ReaderPool>,
    /// The settings of the host that the last pass had.
    pub(super) host: Option<HostContext>,
    pub(super) mounts: Mounts,
    /// Whether the last pass over all threads has counters of allocators.
    pub(super) has_heap_counters: bool,
    /// When all threads, and when all cgroups were read.
    whole_at: Option<Instant>,
    cgroups_at: Option<Instant>,
    /// Whether the pass reads all cgroups.
    reads_all_cgroups: bool,
    /// How long passes over what changed follow one over all threads.
    pub(super) changes_for: Duration,
}

/// How long passes over what changed follow one over all threads. Others can change a thread that sleeps: its cgroup, its
/// priority.
const CHANGES_FOR: Duration = Duration::from_secs(60);
/// Time for which the values of a cgroup whose threads sleep are taken from before. Its memory can be reclaimed meanwhile.
const CGROUPS_FOR: Duration = Duration::from_secs(10);

impl Lasting {
    pub(super) fn new(roots: &Roots) -> Self {
        let readers = Arc::<ReaderPool>::default();
        Self {
            programs: Arc::default(),
            cgroup_names: Arc::default(),
            container_names: ContainerNames::new(roots, &readers),
            readers,
            host: None,
            mounts: Mounts::default(),
            has_heap_counters: false,
            whole_at: None,
            cgroups_at: None,
            reads_all_cgroups: true,
            changes_for: CHANGES_FOR,
        }
    }

    /// Begins a pass of this scope, or of all threads if the last pass over these is too long ago. One over all threads
    /// forgets what no pass has seen since the one before.
    pub(super) fn begin<'b>(&mut self, scope: CaptureScope<'b>) -> CaptureScope<'b> {
        let has_host = scope.before().is_none_or(|(_, head)| head.host.is_some());
        let scope = if has_host && is_recent(self.whole_at, self.changes_for) { scope } else { scope.of_all() };
        if scope.before().is_none() {
            self.forget();
        }
        self.reads_all_cgroups = !is_recent(self.cgroups_at, CGROUPS_FOR);
        if self.reads_all_cgroups {
            self.cgroups_at = Some(Instant::now());
        }
        scope
    }

    /// The settings of the host, and its mounts, for a pass over all threads.
    pub(super) fn settings(
        &mut self,
        files: &HostFiles<'_>,
        scope: CaptureScope<'_>,
        boot: &BootConstants,
    ) -> HostContext {
        self.mounts = Mounts::read(files);
        self.cgroup_names.forget(&self.mounts);
        let last_host = if let CaptureScope::AllThreads = scope { self.host.take() } else { None };
        last_host.unwrap_or_else(|| context::read(files, &self.mounts, boot))
    }

    fn forget(&mut self) {
        let Self { programs, readers, whole_at, cgroups_at, .. } = self;
        (*whole_at, *cgroups_at) = (None, None);
        programs.begin_capture();
        readers.forget();
    }

    /// The next pass is over all threads.
    pub(super) fn forget_whole(&mut self) {
        self.whole_at = None;
    }

    /// Learns from a pass over all threads that began then.
    pub(super) fn learn(&mut self, begin: Instant, host: &HostContext, threads: &[ReadThread]) {
        self.whole_at = Some(begin);
        self.host = Some(host.clone());
        self.has_heap_counters = threads.iter().any(|thread| thread.state.metrics.allocated_bytes.is_some());
    }

    /// Returns the values of cgroups, each read once: cgroups with these paths, and cgroups of the pass before.
    pub(super) fn cgroup_stats<'p>(
        &self,
        files: &HostFiles<'_>,
        scope: CaptureScope<'_>,
        paths: impl Iterator<Item = &'p str>,
        pool: &ThreadPool,
    ) -> BTreeMap<String, CgroupStats> {
        let of_threads: BTreeSet<&str> = paths.collect();
        // The quota of a cgroup also stops threads of those below it, and it may have no thread of its own.
        let paths: BTreeSet<&str> = of_threads.iter().copied().flat_map(lineage).collect();
        let mut stats = scope.before().map(|(_, head)| head.cgroup_stats.clone()).unwrap_or_default();
        let is_asked = |path: &&String| self.reads_all_cgroups || paths.contains(&***path);
        let mut asked: BTreeSet<&str> = stats.keys().filter(is_asked).map(String::as_str).collect();
        asked.extend(&paths);
        let read = |path: &str| match stats.get(path).filter(|_| !self.reads_all_cgroups) {
            Some(before) => cgroup::read_again(files, &self.mounts, path, before),
            None => cgroup::read(files, &self.mounts, path),
        };
        let values = |path: &str| {
            let had_none = stats.get(path).is_none_or(|before| before.without_threads);
            let without_threads = had_none && !of_threads.contains(path);
            (path.to_owned(), CgroupStats { without_threads, ..read(path) })
        };
        let values: Vec<_> = pool.install(|| asked.into_par_iter().map(values).collect());
        stats.extend(values);
        stats
    }

    /// How many entries each map has.
    pub(super) fn entries(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("examined programs", self.programs.entries()),
            ("container names", self.container_names.entries()),
            ("cgroups", self.cgroup_names.entries()),
            ("hung", self.readers.hung()),
        ]
    }
}

fn is_recent(at: Option<Instant>, time: Duration) -> bool {
    at.is_some_and(|at| at.elapsed() < time)
}
