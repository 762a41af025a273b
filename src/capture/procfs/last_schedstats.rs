//! Values of `schedstat` from the pass before, so that the next pass reads only threads that ran since.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::directory::{Numbered, ProcDirectory};
use super::text;
use crate::model::{ThreadId, ThreadState};

/// Threads by their ids, as captures have them.
pub(in crate::capture) type KnownThreads = BTreeMap<ThreadId, ThreadState>;

/// The threads of a process, with their `schedstat`.
pub(super) struct LastSchedstats(BTreeMap<ThreadId, Option<[u64; 3]>>);

impl LastSchedstats {
    /// `None` for a new process.
    pub(super) fn of_process(last_threads: &KnownThreads, tgid: u32) -> Option<Self> {
        let threads = last_threads.range(threads_of(tgid));
        let threads: BTreeMap<_, _> = threads.map(|(id, thread)| (*id, known_schedstat(thread))).collect();
        (!threads.is_empty()).then_some(Self(threads))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ThreadId> {
        self.0.keys().copied()
    }

    /// Returns true if the process with this directory has the same threads, and no thread ran since.
    pub(super) fn slept(&self, process: &ProcDirectory) -> bool {
        let mut buffer = Vec::new();
        let Ok(tasks) = process.directory("task") else { return false };
        tasks.ids().is_ok_and(|tids| self.ids().map(|id| id.tid).eq(tids))
            && self.ids().all(|id| self.thread_slept(&tasks, id, &mut buffer))
    }

    /// Whether the thread did not run since. One that had never run can be another one with its id.
    pub(super) fn thread_slept(&self, tasks: &ProcDirectory, id: ThreadId, buffer: &mut Vec<u8>) -> bool {
        let before = self.0.get(&id).copied().flatten().filter(|[ran, ..]| *ran > 0);
        let now = Numbered::new(tasks, id.tid).read("schedstat", buffer).ok().and_then(schedstat);
        before.is_some() && before == now
    }
}

/// The ids that threads of a process can have.
pub(in crate::capture) fn threads_of(tgid: u32) -> RangeInclusive<ThreadId> {
    ThreadId { tgid, tid: 0 }..=ThreadId { tgid, tid: u32::MAX }
}

fn known_schedstat(thread: &ThreadState) -> Option<[u64; 3]> {
    let metrics = &thread.metrics;
    Some([metrics.run_time_ns?.into(), metrics.wait_time_ns?.into(), metrics.timeslices?.into()])
}

/// Time on CPUs and time ready to run in nanoseconds, and how often a thread got a CPU.
pub(super) fn schedstat(text: &[u8]) -> Option<[u64; 3]> {
    let mut numbers = text::words(text.trim_ascii()).map(text::unsigned);
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::super::super::context::in_context;
    use super::super::super::read_threads::ReadThreads;
    use super::super::walk::{read, read_changed};
    use super::*;
    use crate::process::no_workers;
    use crate::skip::{Missing, skipped};

    fn threads_by_id(read: ReadThreads) -> KnownThreads {
        read.threads.into_iter().map(|thread| (thread.state.id(), thread.state)).collect()
    }

    /// Starts a process that sleeps as soon as it runs.
    fn sleeper() -> std::process::Child {
        let sleep = Command::new("sleep").arg("100").stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        sleep
    }

    /// Starts a thread that answers each message, and returns its id.
    fn answering() -> (u32, Sender<()>, Receiver<u32>) {
        let (ask, asked) = channel::<()>();
        let (answer, answered) = channel();
        std::thread::spawn(move || {
            let own = nix::unistd::gettid().as_raw().cast_unsigned();
            asked.iter().for_each(|()| answer.send(own).unwrap());
        });
        ask.send(()).unwrap();
        (answered.recv().unwrap(), ask, answered)
    }

    #[test]
    fn only_threads_that_ran_are_read_again_and_the_first_one_of_their_process() {
        let own = std::process::id();
        let [mut lives, mut exits] = [(); 2].map(|()| sleeper());
        let [(sleeps, _ask, _), (wakes, ask, answered)] = [(); 2].map(|()| answering());
        std::thread::sleep(Duration::from_millis(100));
        let pids = [own, lives.id(), exits.id()];
        in_context("/proc".as_ref(), |context| {
            let last_threads = threads_by_id(read(context, &pids, &no_workers()));
            let schedstat = |tid| known_schedstat(&last_threads[&ThreadId { tgid: own, tid }]);
            if schedstat(own).is_none() {
                return skipped(Missing::Kernel("schedstat of threads"));
            }
            exits.kill().and_then(|()| exits.wait()).unwrap();
            ask.send(()).unwrap();
            answered.recv().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            let later = read_changed(context, &pids, &last_threads, &no_workers());
            let was_read = |tgid, tid| later.states().any(|thread| thread.id() == ThreadId { tgid, tid });
            let slept = |tgid, tid| later.slept.contains(&ThreadId { tgid, tid });
            assert!(was_read(own, wakes) && was_read(own, own) && !was_read(own, sleeps));
            assert!(slept(own, sleeps) && slept(lives.id(), lives.id()) && !slept(own, wakes));
            let gone_threads: Vec<_> =
                later.missing(last_threads.keys().copied()).filter(|id| id.tgid == exits.id()).collect();
            assert_eq!(gone_threads, [ThreadId { tgid: exits.id(), tid: exits.id() }]);
        });
        lives.kill().and_then(|()| lives.wait()).unwrap();
    }
    #[test]
    fn a_thread_that_had_never_run_can_be_another_one_with_its_id() {
        let dir = tempfile::tempdir().unwrap();
        let tasks = dir.path().join("task/7");
        std::fs::create_dir_all(&tasks).unwrap();
        // Linux 6.18.
        for (text, schedstats, slept) in
            [("5 1 2\n", [5, 1, 2], true), ("5 1 3\n", [5, 1, 2], false), ("0 0 0\n", [0; 3], false)]
        {
            std::fs::write(tasks.join("schedstat"), text).unwrap();
            let schedstats = LastSchedstats([(ThreadId { tgid: 7, tid: 7 }, Some(schedstats))].into());
            assert_eq!(schedstats.slept(&ProcDirectory::open(dir.path()).unwrap()), slept, "{text}");
        }
    }
}
