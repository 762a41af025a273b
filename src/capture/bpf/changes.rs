//! Passes that return only the threads that did something since the pass before.

use nix::errno::Errno;
use rayon::ThreadPool;

use super::super::context::CaptureContext;
use super::super::procfs::{
    self,
    last_schedstats::{KnownThreads, threads_of},
};
use super::super::read_threads::{ChangedThreads, ReadThreads, reduced};
use super::change_tracker::{LastChange, NotReturned};
use super::host_parameters::HostParameters;
use super::layout::records;
use super::read::{BpfThread, RecordReader};
use super::record_ring::RecordRing;
use super::setup::{BpfEngine, ChangePasses};
use super::walk::in_order;
use super::{complete, processes};
use crate::model::ThreadId;
use crate::process::lock;

impl BpfEngine {
    /// The number of threads that are kept from pass to pass.
    pub(in crate::capture) fn entries(&self) -> usize {
        self.changes.as_ref().map_or(0, |changes| lock(changes).tracker.entries())
    }

    /// The threads that did something since the pass before, whose threads `last_threads` has; `None` if the engine always reads all.
    pub(in crate::capture) fn changes(
        &self,
        context: &CaptureContext,
        parameters: &HostParameters,
        last_threads: &KnownThreads,
        pool: &ThreadPool,
    ) -> Result<Option<ChangedThreads>, Errno> {
        let Some(changes) = &self.changes else { return Ok(None) };
        let mut changes = lock(changes);
        let ChangePasses { tracker, ring } = &mut *changes;
        tracker.begin_pass();
        let mut threads = self.changed_threads(ring, parameters)?;
        let changed: Vec<ThreadId> = threads.iter().map(|thread| thread.state.id()).collect();
        let NotReturned { mut gone_threads, hidden } = tracker.not_returned(last_threads, &changed);
        let changes = LastChange::each(&threads);
        complete::complete_threads(context, &mut threads);
        let slept = |id: &ThreadId| changed.binary_search(id).is_err() && !gone_threads.contains(id);
        let others = |tgid| tracker.counters(last_threads, tgid, slept);
        processes::add_process_values(context, &mut threads, &others, pool);
        let mut read = ReadThreads { threads: reduced(threads), ..ReadThreads::default() };
        read.add_renamed(last_threads, slept);
        let hidden: Vec<_> = hidden.into_iter().collect();
        let of_hidden = procfs::walk::read_changed(context, &hidden, last_threads, pool);
        let mut executed = tracker.executed(&changes);
        executed.extend(of_hidden.processes());
        read.merge(of_hidden);
        let read = read.in_order();
        let hidden = hidden.into_iter().flat_map(|tgid| last_threads.range(threads_of(tgid)));
        gone_threads.extend(read.missing(hidden.map(|(id, _)| *id)));
        let gone_threads: Vec<_> = gone_threads.into_iter().collect();
        tracker.end_pass(changes, &gone_threads);
        Ok(Some(ChangedThreads { read, gone_threads, executed }))
    }

    fn changed_threads(&self, ring: &mut RecordRing, parameters: &HostParameters) -> Result<Vec<BpfThread>, Errno> {
        let mut reader = RecordReader::new(&self.layout, parameters);
        let mut threads = Vec::new();
        let mut add = |words: &[u64]| threads.extend(records(words).filter_map(|record| reader.thread(record)));
        let is_whole = lock(&self.walk).run_program()? && ring.take(&mut add)? == 0;
        if !is_whole {
            self.read(|words| add(&words))?;
        }
        lock(&self.walk).end_pass(threads.len());
        Ok(in_order(threads))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::super::super::context::in_context;
    use super::super::super::options::Tree;
    use super::super::setup::Passes;
    use super::*;
    use crate::model::{METRICS, ThreadState};
    use crate::process::no_workers;
    use crate::skip::{Missing, skipped};

    /// Calls `body` with an engine whose program goes over the threads itself, where the kernel can do that, and with one that has
    /// the kernel do it, with a context and all threads of a first pass; not where there is no BPF.
    fn with_first_pass(body: impl Fn(&BpfEngine, &CaptureContext, KnownThreads)) {
        for is_open_coded in [true, false] {
            let engine = match BpfEngine::load(2, Passes::OfChanges) {
                Ok(engine) => engine,
                Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
            };
            assert!(engine.changes.is_some(), "the verifier accepts the filter");
            if !is_open_coded && !lock(&engine.walk).drop_program() {
                skipped(Missing::Kernel("an open-coded iterator over threads (Linux 6.7)"));
                continue;
            }
            in_context("/proc".as_ref(), |context| {
                let context = CaptureContext { tree: Tree::Live, ..context.clone() };
                let last_threads = whole(&engine, &context);
                body(&engine, &context, last_threads);
            });
        }
    }

    fn whole(engine: &BpfEngine, context: &CaptureContext) -> KnownThreads {
        let (read, _) = engine.walk(context, &HostParameters::default(), &[], &no_workers()).unwrap();
        read.threads.into_iter().map(|thread| (thread.state.id(), thread.state)).collect()
    }

    fn changed(
        engine: &BpfEngine,
        context: &CaptureContext,
        last_threads: &mut KnownThreads,
    ) -> (Vec<ThreadId>, Vec<ThreadId>) {
        let ChangedThreads { read, gone_threads, .. } =
            engine.changes(context, &HostParameters::default(), last_threads, &no_workers()).unwrap().unwrap();
        gone_threads.iter().for_each(|id| drop(last_threads.remove(id)));
        let ids = read.states().map(ThreadState::id).collect();
        last_threads.extend(read.threads.into_iter().map(|thread| (thread.state.id(), thread.state)));
        (ids, gone_threads)
    }

    #[test]
    fn changes_are_threads_that_ran_and_those_that_are_gone() {
        with_first_pass(|engine, context, _| {
            let mut sleeps = [(); 2].map(|()| Command::new("sleep").arg("100").spawn().unwrap());
            std::thread::sleep(Duration::from_millis(100));
            let mut last_threads = whole(engine, context);
            let [lives, exits] = sleeps.each_ref().map(|sleep| ThreadId { tgid: sleep.id(), tid: sleep.id() });
            let own = std::process::id();
            let (begin, began) = channel::<()>();
            let (answer, answered) = channel();
            let thread = std::thread::spawn(move || {
                answer.send(nix::unistd::gettid().as_raw().cast_unsigned()).unwrap();
                began.recv().unwrap_err();
            });
            let tid = answered.recv().unwrap();
            sleeps[1].kill().and_then(|()| sleeps[1].wait()).unwrap();
            let (ids, gone_threads) = changed(engine, context, &mut last_threads);
            assert!(ids.contains(&ThreadId { tgid: own, tid }), "a new thread");
            assert!(ids.contains(&ThreadId { tgid: own, tid: own }), "the process has more threads");
            assert!(!ids.contains(&lives) && last_threads.contains_key(&lives), "it sleeps on");
            assert!(gone_threads.contains(&exits) && !last_threads.contains_key(&exits));
            drop(begin);
            thread.join().unwrap();
            // The kernel wakes up those who wait for a thread before it is gone.
            while Path::new("/proc/self/task").join(tid.to_string()).exists() {
                std::thread::yield_now();
            }
            let (ids, gone_threads) = changed(engine, context, &mut last_threads);
            assert!(gone_threads.contains(&ThreadId { tgid: own, tid }));
            assert!(ids.contains(&ThreadId { tgid: own, tid: own }), "the process has counters of its exited thread");
            sleeps[0].kill().and_then(|()| sleeps[0].wait()).unwrap();
        });
    }

    #[test]
    fn a_process_that_executes_a_program_of_the_same_name_is_told() {
        with_first_pass(|engine, context, _| {
            let mut shell = Command::new("bash");
            let shell = shell.args(["-c", "read _; exec bash -c 'read _; :'"]).stdin(Stdio::piped());
            let mut shell = shell.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(200));
            let last_threads = whole(engine, context);
            let executed = || {
                let changes = engine.changes(context, &HostParameters::default(), &last_threads, &no_workers());
                changes.unwrap().unwrap().executed
            };
            assert!(!executed().contains(&shell.id()));
            shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            std::thread::sleep(Duration::from_millis(200));
            assert!(executed().contains(&shell.id()));
            shell.kill().and_then(|()| shell.wait()).unwrap();
        });
    }

    #[test]
    fn changes_lead_to_what_a_pass_over_all_threads_reads() {
        with_first_pass(|engine, context, mut last_threads| {
            let mut sleepers = Vec::new();
            for round in 0..10 {
                // Others can change threads that this test has not started.
                sleepers.extend([(); 2].map(|()| Command::new("sleep").arg("100").spawn().unwrap()));
                let work = || (0..200_000_u64).map(std::hint::black_box).sum::<u64>();
                std::thread::scope(|scope| (0..round).for_each(|_| drop(scope.spawn(work))));
                Command::new("true").status().unwrap();
                changed(engine, context, &mut last_threads);
            }
            std::thread::sleep(Duration::from_millis(200));
            // The last one makes up for what happened since.
            changed(engine, context, &mut last_threads);
            let now = whole(engine, context);
            // The kernel moves some threads to another CPU after they have begun to sleep.
            let done = |ThreadState { metrics, .. }: &ThreadState| {
                (metrics.voluntary_csw, metrics.nonvoluntary_csw, metrics.nr_migrations)
            };
            let ids = sleepers.iter().map(|sleeper| ThreadId { tgid: sleeper.id(), tid: sleeper.id() });
            // On a busy host, some have not begun to sleep, and wait for a CPU.
            let sleeps = |id: &ThreadId| now[id].metrics.state == Some('S');
            let slept: Vec<_> = ids.filter(|id| sleeps(id) && done(&last_threads[id]) == done(&now[id])).collect();
            assert!(slept.len() > sleepers.len() / 2, "{} threads slept", slept.len());
            for id in slept {
                let (last_threads, now) = (&last_threads[&id], &now[&id]);
                let is_of_memory = |name: &str| name.ends_with("_bytes");
                for metric in METRICS.iter().filter(|metric| !is_of_memory(metric.name)) {
                    assert_eq!(
                        metric.get(&last_threads.metrics),
                        metric.get(&now.metrics),
                        "{} of {id:?}",
                        metric.name
                    );
                }
                assert_eq!((&last_threads.cgroup, &last_threads.comm), (&now.cgroup, &now.comm), "{id:?}");
            }
            sleepers.iter_mut().for_each(|sleeper| sleeper.kill().and_then(|()| sleeper.wait()).map(drop).unwrap());
        });
    }
}
