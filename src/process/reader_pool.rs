//! Work in threads that can be given up. Another process can hold its memory lock indefinitely, and a thread that waits for
//! the lock can only be killed together with ctprof.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, gettid};

use super::hung::{CanHang, Hung};
use super::lock::lock;
use super::worker::Worker;
use crate::sys::ptrace::release_late;

/// How long an item may take before it is looked at. The more items were given up, the shorter.
const PATIENCE: Duration = Duration::from_secs(1);
const LEAST_PATIENCE: Duration = Duration::from_millis(10);
/// How long a worker waits for a thread that it has to resume before it takes more work, and how often it looks.
const RESUMED_IN: Duration = Duration::from_millis(20);
const RESUMED_EVERY: Duration = Duration::from_millis(2);
/// A thread that does not run for so long waits for one thing.
const ONE_WAIT: Duration = Duration::from_millis(50);

/// Threads that read what can keep its reader waiting without end, and what did.
#[derive(Default)]
pub(crate) struct ReaderPool {
    hung: Hung,
    idle: Mutex<Option<Worker>>,
}

impl ReaderPool {
    /// Forgets what hung some minutes ago and does not hang any more.
    pub(crate) fn forget(&self) {
        self.hung.forget();
    }

    /// The number of subjects that are left alone because they hung.
    pub(crate) fn hung(&self) -> usize {
        self.hung.entries()
    }

    /// Runs `work` for each item, in so many `workers` with a state each, which have the capabilities and the priority of this
    /// thread. The result is `None` for an item that hung lately, or that is given up: its thread had been blocked in one wait
    /// when the item took longer than 1 s, or less after others were given up.
    pub(crate) fn map<I, O, S: Default>(
        self: &Arc<Self>,
        workers: usize,
        items: Vec<I>,
        work: impl Fn(&mut S, &I) -> O + Send + Sync + 'static,
    ) -> Vec<Option<O>>
    where
        I: CanHang + Send + Sync + 'static,
        O: Send + 'static,
    {
        let results = items.iter().map(|_| None).collect();
        let may_read = |&index: &usize| !self.hung.leaves_alone(items[index].subject());
        let left = Vec::from_iter((0..items.len()).rev().filter(may_read));
        if left.is_empty() {
            return results;
        }
        let workers = workers.clamp(1, left.len());
        let state = State { left, results, running: HashMap::new(), workers: 0, given_up: 0 };
        let queue =
            Arc::new(Queue { items, pool: Arc::clone(self), state: Mutex::new(state), is_done: Condvar::new() });
        let work = Arc::new(work);
        let mut started = Vec::new();
        let start = |started: &mut Vec<Option<Worker>>| {
            let (own, work, number) = (Arc::clone(&queue), Arc::clone(&work), started.len());
            lock(&queue.state).workers += 1;
            let worker = Worker::start(lock(&self.idle).take(), move || own.serve(number, &*work));
            if worker.is_err() {
                lock(&queue.state).workers -= 1;
            }
            let is_started = worker.is_ok();
            started.extend(worker.ok().map(Some));
            is_started
        };
        // Where a limit allows no further thread, this one does the work, unless it could wait like those that were given up.
        if (0..workers).filter(|_| start(&mut started)).count() == 0 && !self.hung.has_waiting() {
            lock(&queue.state).workers += 1;
            queue.serve(0, &*work);
        }
        loop {
            match queue.wait() {
                QueueProgress::Done => break,
                QueueProgress::Overdue(index, thread) if waits(thread) => {
                    let Some(worker) = queue.give_up(index) else { continue };
                    started[worker] = None;
                    if !start(&mut started) && lock(&queue.state).workers == 0 {
                        break;
                    }
                }
                QueueProgress::Overdue(index, _) => queue.allow_more_time(index),
                QueueProgress::Running => {}
            }
        }
        // What they hold is free when this returns.
        *lock(&self.idle) = started.into_iter().flatten().filter_map(Worker::wait).last();
        std::mem::take(&mut lock(&queue.state).results)
    }
}

struct Queue<I, O> {
    items: Vec<I>,
    pool: Arc<ReaderPool>,
    state: Mutex<State<O>>,
    is_done: Condvar,
}

struct State<O> {
    /// Indices of the items that nobody has begun, the next one last.
    left: Vec<usize>,
    results: Vec<Option<O>>,
    /// The items that are being worked on.
    running: HashMap<usize, RunningItem>,
    workers: usize,
    given_up: u32,
}

struct RunningItem {
    /// Index of its thread.
    worker: usize,
    thread: Pid,
    since: Instant,
}

enum QueueProgress {
    Running,
    /// The item and its thread.
    Overdue(usize, Pid),
    Done,
}

impl<I: CanHang, O> Queue<I, O> {
    /// Works on one item after the other, until there are none or this thread was given up.
    fn serve<S: Default>(&self, worker: usize, work: impl Fn(&mut S, &I) -> O) {
        let (thread, mut own) = (gettid(), S::default());
        let mut state = lock(&self.state);
        while let Some(index) = state.left.pop() {
            let item = &self.items[index];
            state.running.insert(index, RunningItem { worker, thread, since: Instant::now() });
            drop(state);
            let result = work(&mut own, item);
            state = lock(&self.state);
            if state.running.remove(&index).is_none() {
                self.pool.hung.end(item.subject());
                return;
            }
            state.results[index] = Some(result);
            // A thread that it could not stop in time stops later, until this thread resumes it: what keeps this one waiting must
            // not keep that one, too.
            let since = Instant::now();
            while release_late() && since.elapsed() < RESUMED_IN {
                drop(state);
                thread::sleep(RESUMED_EVERY);
                state = lock(&self.state);
            }
            if state.workers > 1 && release_late() {
                break;
            }
        }
        state.workers -= 1;
        // The thread ends with the others: one of them may be reading the threads of this process.
        self.is_done.notify_all();
        while state.workers > 0 {
            let pause = if release_late() { RESUMED_EVERY } else { PATIENCE };
            state = self.is_done.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until all is done, or until an item takes too long.
    fn wait(&self) -> QueueProgress {
        let state = lock(&self.state);
        if state.workers == 0 {
            return QueueProgress::Done;
        }
        let patience = (PATIENCE / 2_u32.saturating_pow(state.given_up)).max(LEAST_PATIENCE);
        let oldest = state.running.iter().min_by_key(|(_, item)| item.since);
        let left = |item: &RunningItem| patience.saturating_sub(item.since.elapsed());
        let oldest = oldest.map(|(index, item)| (*index, item.thread, left(item)));
        match oldest {
            Some((index, thread, Duration::ZERO)) => QueueProgress::Overdue(index, thread),
            oldest => {
                let left = oldest.map_or(patience, |(.., left)| left);
                drop(self.is_done.wait_timeout(state, left));
                QueueProgress::Running
            }
        }
    }

    /// Returns the thread that is given up; `None` if it is done with the item by now.
    fn give_up(&self, index: usize) -> Option<usize> {
        let mut state = lock(&self.state);
        let given_up = state.running.remove(&index)?;
        state.workers -= 1;
        self.is_done.notify_all();
        state.given_up += 1;
        let subject = self.items[index].subject();
        self.pool.hung.begin(subject);
        if self.pool.hung.is_full(subject) {
            state.left.clear();
        }
        Some(given_up.worker)
    }

    fn allow_more_time(&self, index: usize) {
        if let Some(item) = lock(&self.state).running.get_mut(&index) {
            item.since = Instant::now();
        }
    }
}

/// Whether a thread of this process waits for one thing, and not for a CPU, or has ended by a panic.
fn waits(thread: Pid) -> bool {
    let before = blocked(thread);
    thread::sleep(ONE_WAIT);
    before != Some(None) && before == blocked(thread)
}

/// How often a thread of this process has waited, if it waits now; `None` if it has ended.
fn blocked(thread: Pid) -> Option<Option<u64>> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim);
    let waits = value("voluntary_ctxt_switches")?.parse().ok();
    Some(waits.filter(|_| !value("State").is_some_and(|state| state.starts_with('R'))))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::hung::Subject;
    use super::*;

    impl CanHang for u32 {
        fn subject(&self) -> Subject {
            Subject::Process { what: "number", id: *self, start: None }
        }
    }

    fn pool() -> Arc<ReaderPool> {
        Arc::default()
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let doubled = pool().map(3, (0..1000).collect(), |(), number| number * 2);
        assert_eq!(doubled, (0..1000).map(|number| Some(number * 2)).collect::<Vec<_>>());
        assert!(pool().map(3, Vec::<u32>::new(), |(), number| number * 2).is_empty());
    }

    #[test]
    fn items_that_block_cost_their_own_results_only() {
        for workers in [1, 3] {
            let (release, blocked) = mpsc::channel::<()>();
            let blocked = Mutex::new(blocked);
            let begin = Instant::now();
            let results = pool().map(workers, (0..100).collect(), move |(), number| {
                if number % 30 == 7 {
                    let _ = blocked.lock().unwrap().recv();
                }
                *number
            });
            let expected = (0..100).map(|number| (number % 30 != 7).then_some(number));
            assert_eq!(results, expected.collect::<Vec<_>>());
            assert!(begin.elapsed() >= PATIENCE);
            drop(release);
        }
    }

    #[test]
    fn an_item_that_hung_is_not_tried_again_while_its_reader_waits() {
        let (pool, tries) = (pool(), Arc::new(Mutex::new(0)));
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        let read = || {
            let (blocked, tries) = (Arc::clone(&blocked), Arc::clone(&tries));
            pool.map(2, vec![1, 2, 3], move |(), number| {
                if *number == 2 {
                    *tries.lock().unwrap() += 1;
                    let _ = blocked.lock().unwrap().recv();
                }
                *number
            })
        };
        assert_eq!([read(), read(), read()], [[Some(1), None, Some(3)]; 3]);
        assert_eq!((*tries.lock().unwrap(), pool.hung.has_waiting(), pool.hung()), (1, true, 1));
        drop(release);
        while pool.hung.has_waiting() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(read(), [Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn an_item_that_goes_on_or_needs_a_cpu_is_not_given_up() {
        let many_short_waits = |(): &mut (), _: &u32| (0..120).for_each(|_| thread::sleep(PATIENCE / 100));
        assert_eq!(pool().map(1, vec![1], many_short_waits), [Some(())]);
        let results = pool().map(1, vec![1], |(), _| {
            let begin = Instant::now();
            while begin.elapsed() < PATIENCE + PATIENCE / 5 {}
        });
        assert_eq!(results, [Some(())]);
    }

    #[test]
    fn an_item_that_panics_costs_its_own_result_only() {
        let results = pool().map(1, vec![1, 2, 3], |(), number| {
            assert_ne!(*number, 2, "on purpose");
            *number
        });
        assert_eq!(results, [Some(1), None, Some(3)]);
    }
}
