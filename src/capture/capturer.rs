//! Captures, one after the other, with the programs of one engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use rayon::prelude::*;

use super::css_sets::CssSets;
use super::engine::Chosen;
use super::enrich::smaps::Smaps;
use super::enrich::{Sources, guarded, jemalloc, rollup, taskstats};
use super::error::CaptureError;
use super::host::context::BootConstants;
use super::host::mounts::Mounts;
use super::host::{cgroup, context, cpu_time, psi, sched_ext};
use super::myself;
use super::options::{Ask, Options, Tree};
use super::procfs::folder::Folder;
use super::procfs::walk::Walk;
use super::procfs::{pids, whole_process};
use super::start::{Start, nanoseconds};
use super::tally::Tally;
use super::walked::Walked;
use crate::model::{
    CaptureInfo, CgroupStats, CtprofProbeSummary, CtprofSnapshot, FORMAT_VERSION, HostContext, Name, SnapshotHead,
};
use crate::process::{held, with_file_capabilities, without_stops, workers};

/// Captures with the same options. The programs of the BPF engine are loaded once, before the first capture, which
/// then needs no capability to load programs.
pub struct Capturer {
    options: Options,
    procfs: Folder,
    boot: BootConstants,
    pub(super) engine: Chosen,
    /// Effective capabilities when the engine was chosen.
    capabilities: Vec<String>,
    /// How long the preparation took; part of the first capture.
    preparation: Duration,
    /// The files of programs that captures have examined.
    programs: jemalloc::Files,
    /// What captures have learned about cgroups.
    css_sets: Arc<CssSets>,
}

impl Capturer {
    /// Prepares so many captures.
    ///
    /// # Errors
    /// [`CaptureError`] if there is no procfs, or not the engine of the options.
    pub fn new(options: Options, captures: usize) -> Result<Self, CaptureError> {
        with_file_capabilities(|| Self::prepare(options, captures))?
    }

    fn prepare(options: Options, captures: usize) -> Result<Self, CaptureError> {
        let begin = Instant::now();
        let root = &options.roots.procfs;
        let procfs = Folder::open(root).map_err(|errno| CaptureError::no_procfs(root, errno))?;
        let capabilities = held();
        let boot = BootConstants::read(&options.roots);
        // Before Linux 5.19, opening an iterator needs the capabilities that loading needs. Each is a file.
        let most = if boot.is_at_least((5, 19)) { 2 } else { 512 };
        let engine = Chosen::by(&options, &procfs, captures.min(most))?;
        let (programs, css_sets) = (jemalloc::Files::default(), Arc::default());
        Ok(Self { options, procfs, boot, engine, capabilities, preparation: begin.elapsed(), programs, css_sets })
    }

    /// When the captures of this read the memory of processes, if nothing else is said.
    #[must_use]
    pub fn smaps(&self) -> Smaps {
        self.options.smaps
    }

    /// Forgets the cgroups that captures have seen. The kernel knows them by addresses, which it uses again after a
    /// while: of captures that are far from each other, none may learn from the others.
    pub fn forget_cgroups(&mut self) {
        self.css_sets = Arc::default();
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
        with_file_capabilities(|| without_stops(|| self.read(smaps)))?
    }

    fn read(&mut self, smaps: Smaps) -> Result<CtprofSnapshot, CaptureError> {
        let begin = Instant::now();
        let preparation = std::mem::take(&mut self.preparation);
        let Self { options, procfs, boot, engine, capabilities, programs, css_sets, .. } = &*self;
        let roots = &options.roots;
        programs.begin_capture();
        let mounts = Mounts::read(roots);
        let host = context::read(roots, &mounts, boot);
        let psi = psi::host(&roots.procfs);
        let sched_ext = sched_ext::read(&roots.sysfs);
        let pool = workers(options.workers(&host));
        let sources = sources(options, &host, &pool, programs);
        let start = Start::now(roots.tree());
        let cpu_time = cpu_time::read(&roots.procfs, roots.tree());
        let pids = pids::to_capture(&roots.procfs, procfs, &options.pids)?;
        let walk = Walk {
            procfs,
            tree: roots.tree(),
            whole_names: context::whole_names(&host),
            sources: &sources,
            page_size: host.page_size.unwrap_or(4096),
            start: start.instant,
            capturing_process: (roots.tree() == Tree::Live).then(|| pids::own(procfs)).flatten(),
            progress: &options.progress,
            css_sets,
        };
        let (mut walked, used) = engine.walk(&walk, (&host, start), &pids, &pool);
        whole_process::reread_parents(procfs, &mut walked.threads);
        let walk_ns = nanoseconds(start.instant.elapsed());
        if let Some(boottime_ns) = start.boottime_ns {
            walked.remove_impossible_delays(boottime_ns.saturating_add(walk_ns));
        }
        let cpu_time_after = cpu_time::read(&roots.procfs, roots.tree());
        let (cgroup_stats, tally) = cgroups(&walked, &mounts, &pool);
        walked.tally.merge(tally);
        rollup::read(smaps, procfs, &mut walked, &pool);
        let probe_summary = walked.probe.clone().map(CtprofProbeSummary::concluded).inspect(jemalloc::log);

        let head = SnapshotHead {
            format_version: Some(FORMAT_VERSION),
            captured_at_unix_ns: start.unix_ns,
            capture: Some(CaptureInfo {
                duration_ns: nanoseconds(preparation + begin.elapsed()),
                monotonic_ns: start.monotonic_ns,
                boottime_ns: start.boottime_ns,
                walk_ns: Some(walk_ns),
                capabilities: capabilities.clone(),
                ..myself::info((options, smaps), &pool, &walked, used)
            }),
            window: None,
            host: Some(host),
            cpu_time,
            cpu_time_after,
            cgroup_stats,
            probe_summary,
            parse_summary: Some(walked.tally.summary()),
            taskstats_summary: walked.taskstats,
            psi,
            sched_ext,
        };
        Ok(CtprofSnapshot { head, threads: walked.threads })
    }
}

/// The enabled sources that this tree and process can use.
fn sources<'p>(options: &Options, host: &HostContext, pool: &ThreadPool, programs: &'p jemalloc::Files) -> Sources<'p> {
    let live = |ask: Ask| ask == Ask::Yes && options.roots.tree() == Tree::Live;
    // The kernel resumes a thread that did not stop in time when the worker tracing it exits. A pool of
    // the calling thread alone has no such worker.
    let traces = pool.current_thread_index().is_none();
    Sources {
        taskstats: live(options.taskstats).then(|| taskstats::Kept::by(host)),
        jemalloc: (live(options.jemalloc) && traces).then_some(programs),
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
    use crate::capture::Roots;

    #[test]
    fn a_panic_in_one_cgroup_ends_the_capture() {
        let walked = Walked { cgroups: ["/panics", "/other"].map(Name::from).into(), ..Walked::default() };
        let (stats, tally) = cgroups(&walked, &Mounts::read(&Roots::default()), &workers(2));
        assert_eq!((stats.into_keys().collect::<Vec<_>>(), tally.panics), (vec!["/other".to_owned()], 1));
    }
}
