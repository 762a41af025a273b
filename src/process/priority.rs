//! The priority of threads.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::process::Command;
use std::sync::Mutex;

use nix::unistd::gettid;

use super::lock;
use crate::sys::priority::{self, Priority};

/// Priorities of all threads before they ran first, by thread id; `None` if they do not run first.
static ALL_FIRST: Mutex<Option<BTreeMap<i32, Priority>>> = Mutex::new(None);

/// A higher priority, if it may be had, until it is dropped.
pub(crate) struct RaisedPriority {
    /// `None` if the priority is not higher.
    raised: Option<Raised>,
    _of_this_thread: PhantomData<*const ()>,
}

enum Raised {
    ThisThread,
    AllThreads,
}

impl RaisedPriority {
    fn new(raised: Option<Raised>) -> Self {
        Self { raised, _of_this_thread: PhantomData }
    }

    /// The lowest nice value. Threads and processes that this thread starts do not inherit it.
    pub(crate) fn of_this_thread() -> Self {
        Self::new(exchange(Priority::is_usual, Priority::NICE).then_some(Raised::ThisThread))
    }

    /// Lets this thread run before all with a usual policy, as soon as it is ready, or at least with a higher priority if it may.
    /// Threads and processes that it starts do not inherit that.
    pub(crate) fn run_first() -> Self {
        priority::wake_in_time();
        if exchange(Priority::is_usual, Priority::FIRST) {
            Self::new(Some(Raised::ThisThread))
        } else {
            Self::of_this_thread()
        }
    }

    /// On a [crowded](is_crowded) host, lets all threads of this process, and threads that they start, run before all threads
    /// with a usual policy. Their work is bounded, and would take minutes in their turn: each waits for others. Once the crowd
    /// has gone, the next call gives all threads their earlier priority, even if somebody holds the earlier guard: a recorder can
    /// go on for weeks.
    pub(crate) fn of_all_if_crowded() -> Self {
        let mut all = lock(&ALL_FIRST);
        if !is_crowded() {
            give_back(&mut all);
            return Self::new(None);
        }
        if all.is_some() || !is_own(Priority::of_thread(0)) || !priority::run_first_with_started(0) {
            return Self::new(None);
        }
        let mut before = BTreeMap::new();
        before.insert(gettid().as_raw(), Priority::USUAL);
        for (tid, priority) in own_threads() {
            if is_own(priority) && priority::run_first_with_started(tid) {
                before.insert(tid, priority);
            }
        }
        *all = Some(before);
        Self::new(Some(Raised::AllThreads))
    }

    /// Keeps it as long as this process lives.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        match self.raised {
            None => {}
            Some(Raised::ThisThread) => {
                exchange(|_| true, Priority::USUAL);
            }
            Some(Raised::AllThreads) => give_back(&mut lock(&ALL_FIRST)),
        }
    }
}

/// Gives all threads back what they had, if all run first. Those that were started meanwhile get the usual priority.
fn give_back(all: &mut Option<BTreeMap<i32, Priority>>) {
    let Some(before) = all.take() else { return };
    for (tid, _) in own_threads().filter(|(_, priority)| priority.is_inherited()) {
        before.get(&tid).unwrap_or(&Priority::USUAL).set(tid);
    }
}

/// Gives this thread another priority in place of one that is as asked, at the latest when not all run first any more.
fn exchange(is_asked: fn(Priority) -> bool, priority: Priority) -> bool {
    match &mut *lock(&ALL_FIRST) {
        Some(before) if Priority::of_thread(0).is_inherited() => {
            let before = before.entry(gettid().as_raw()).or_insert(Priority::USUAL);
            let is_as_asked = is_asked(*before);
            *before = if is_as_asked { priority } else { *before };
            is_as_asked
        }
        _ => is_asked(Priority::of_thread(0)) && priority.set(0),
    }
}

/// Whether a thread has a priority that nobody else has chosen.
fn is_own(priority: Priority) -> bool {
    priority.is_usual() || [Priority::NICE, Priority::FIRST].contains(&priority)
}

/// The other threads of this process, and this one, with their priorities.
fn own_threads() -> impl Iterator<Item = (i32, Priority)> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    ids.map(|tid| (tid, Priority::of_thread(tid)))
}

/// Makes `command` start with the usual priority, if this thread would give it its own.
pub(super) fn start_in_turn(command: &mut Command) {
    if lock(&ALL_FIRST).is_some() {
        priority::start_in_turn(command);
    }
}

/// Number of threads per CPU, ready to run, above which a host is crowded: each then gets a CPU once in a hundred milliseconds or
/// less often, so a few milliseconds of ctprof delay no thread noticeably.
const MOST_RUNNABLE: usize = 32;

/// Whether far more threads are ready to run than CPUs can take; false where that is unknown.
pub(crate) fn is_crowded() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    runnable(&load).is_some_and(|runnable| runnable / MOST_RUNNABLE > cpus)
}

/// The number of threads that are ready to run, from the text of `/proc/loadavg`.
fn runnable(load: &str) -> Option<usize> {
    load.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_many_threads_are_ready_to_run() {
        assert_eq!(runnable("2437.88 628.61 211.90 5002/5107 327\n"), Some(5002));
        assert_eq!(["", "0.1 0.2 0.3", "0.1 0.2 0.3 x/7 8"].map(runnable), [None; 3]);
    }
}
