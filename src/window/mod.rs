//! Windows: what happened between two captures of one boot. Counters are increases, of threads alive at both
//! ends, of threads that started, and, as far as the kernel shows it, of threads that exited.

mod accounting;
mod boot;
mod cpu_ticks;
mod cpu_time;
mod earlier_threads;
mod exit_records;
mod finish;
mod fold;
mod folded_exits;
mod head;
mod join;
mod left_programs;
mod lineage;
mod lost_threads;
mod parents;
mod processes;
mod residue;
mod work;

use std::collections::HashMap;
use std::sync::Arc;

use self::boot::{Clocks, TakenBy};
pub use self::boot::{NoWindow, check};
use self::cpu_ticks::CPU_TICKS;
use self::cpu_time::CpuReadings;
pub use self::earlier_threads::EarlierThreads;
use self::exit_records::PlacedRecords;
use self::fold::Fold;
use self::folded_exits::MOST_ANCESTORS;
pub use self::folded_exits::{EachExit, Exits, FoldedExits, FoldedPart};
use self::join::WindowStart;
pub use self::join::{Join, Joined, JoinedValues};
use self::left_programs::LeftPrograms;
use self::lineage::Lineage;
pub use self::lost_threads::{leave_out_lost, leave_out_unlisted};
use self::parents::{KnownProcess, Living, Parents, living};
use self::processes::{Processes, Seen, whole_name};
use self::work::{PRECISION_NS, Work};
pub use crate::model::ExitedThread;
use crate::model::{
    CtprofSnapshot, FORMAT_VERSION, Name, RecordedCommand, SnapshotHead, ThreadId, ThreadSpan, ThreadState, Threads,
};

/// The window between two snapshots of one boot: a snapshot whose counters are increases.
pub fn between(earlier: CtprofSnapshot, later: CtprofSnapshot) -> Result<CtprofSnapshot, NoWindow> {
    recorded(&earlier.head, EarlierThreads::of_threads(earlier.threads), later, Recording::default())
}

/// Records of a window beyond its two captures.
#[derive(Default)]
pub struct Recording<'r> {
    /// The threads that exited in the window.
    pub exits: Exits<'r>,
    /// The process that took both captures; `None` if they may be of several processes.
    pub recorder: Option<u32>,
    /// The command whose run the window is; `None` if it was recorded for a time.
    pub command: Option<RecordedCommand>,
    /// Length that was asked for and reached.
    pub requested_ns: Option<u64>,
}

/// The window between two snapshots.
pub fn recorded(
    earlier: &SnapshotHead,
    threads: EarlierThreads,
    later: CtprofSnapshot,
    recording: Recording<'_>,
) -> Result<CtprofSnapshot, NoWindow> {
    let CtprofSnapshot { mut head, threads: all } = later;
    let taken_by = if recording.recorder.is_some() { TakenBy::OneProcess } else { TakenBy::Anyone };
    let clocks = Clocks::between(earlier, &head, taken_by)?;
    let mut join =
        Join::new(Arc::new(WindowStart::new(earlier, threads, clocks, JoinedValues::Increases)), &Vec::new());
    let start = Arc::get_mut(&mut join.start).expect("the join has no other part yet");
    let listed = |id: ThreadId| all.binary_search_by_key(&id, ThreadState::id).ok().map(|place| &all[place]);
    recording.exits.for_each(|exit| {
        let began_ns = clocks.end_monotonic_ns.unwrap_or(0);
        if exit.executed {
            if exit.is_before_read(began_ns, listed) {
                start.left.add(&start.earlier, &clocks, exit);
            }
            return;
        }
        let is_replaced = |leader| exit.is_replaced_by(leader, began_ns, |id| listed(id).is_some());
        if let Some(tid) = exit.replaced_by.filter(|_| listed(exit.state.id()).is_none_or(is_replaced)) {
            start.replaced.insert((exit.state.tgid, exit.state.start_time_clock_ticks), tid);
        }
    });
    let Recording { exits, recorder, command, requested_ns } = recording;
    let mut lineage = recorder.filter(|_| command.is_some()).map(|recorder| {
        let leaders = all.iter().filter(|thread| thread.is_leader()).map(living);
        Lineage::new(recorder, Parents::new(&join.start.earlier, leaders, &exits, &clocks))
    });
    let parents = parents_of_zombies(&all.iter().collect::<Vec<_>>(), recorder);
    for mut thread in all {
        thread.parent = parents.get(&thread.id()).cloned();
        let start_ns = clocks.boot_ns(thread.start_time_clock_ticks);
        thread.owner = thread.owner.or_else(|| lineage.as_mut()?.owner(thread.tgid, start_ns));
        join.add(thread);
    }
    join.lineage = lineage;
    let mut ends = join.finish(&head, &exits);
    (ends.window.command, ends.window.requested_ns) = (command, requested_ns);
    let mut threads = into_window(earlier, &mut head, ends);
    threads.sort_by_key(ThreadState::id);
    Ok(CtprofSnapshot { head, threads })
}

/// Returns the names of the processes that have not waited for their exited children, by child, of all threads in the order of their
/// ids. The recorder waits for its command at the end, and nobody can wait for a process whose other threads live on.
pub(crate) fn parents_of_zombies(all: &[&ThreadState], recorder: Option<u32>) -> HashMap<ThreadId, Name> {
    let named = |process: &[&ThreadState]| {
        let zombie = process.iter().find(|thread| thread.is_leader())?;
        let ppid = zombie.process.as_ref()?.ppid.filter(|ppid| Some(*ppid) != recorder)?;
        let leader = all.binary_search_by_key(&ThreadId { tgid: ppid, tid: ppid }, |thread| thread.id()).ok()?;
        Some((zombie.id(), whole_name(&all[leader].comm, all[leader].program.as_ref())))
    };
    let processes = all.chunk_by(|one, next| one.tgid == next.tgid);
    processes.filter(|process| process.iter().all(|thread| thread.has_exited())).filter_map(named).collect()
}

/// A thread in a window of this length in which nothing of it changed.
pub fn unchanged(thread: &ThreadState, duration_ns: u64) -> ThreadState {
    let [alive_ns, zombie_ns] = if thread.has_exited() { [0, duration_ns] } else { [duration_ns, 0] };
    let mut unchanged = thread.clone();
    earlier_threads::subtract(&thread.metrics, &mut unchanged.metrics, |_| {});
    unchanged.span = Some(ThreadSpan { alive_ns, zombie_ns, ..ThreadSpan::default() });
    unchanged.exited_monotonic_ns = None;
    (unchanged.process, unchanged.process_after) = (None, None);
    unchanged
}

/// Joins the threads of `later`, as they are added, with the threads of `earlier`.
pub fn join<T: Threads>(
    earlier: &SnapshotHead,
    threads: EarlierThreads,
    later: &SnapshotHead,
    empty: &T,
    values: JoinedValues,
) -> Result<Join<T>, NoWindow> {
    let clocks = Clocks::between(earlier, later, TakenBy::Anyone)?;
    Ok(Join::new(Arc::new(WindowStart::new(earlier, threads, clocks, values)), empty))
}

/// Turns the head of a later snapshot into the head of the window, and returns the window's threads.
pub fn into_window<T>(earlier: &SnapshotHead, later: &mut SnapshotHead, ends: Joined<T>) -> T {
    let Joined { threads, mut window, cpu_time, impossible_delays, .. } = ends;
    head::subtract(earlier, later);
    later.format_version = Some(FORMAT_VERSION);
    let is_of_namespace = later.host.as_ref().is_some_and(|host| host.pid_namespace_initial == Some(false));
    let is_partial = is_of_namespace || is_of_selected(later);
    window.cpu.iter_mut().for_each(|cpu| cpu.partial = is_partial);
    later.window = Some(window);
    later.cpu_time = cpu_time;
    later.cpu_time_after = None;
    if impossible_delays > 0 {
        let summary = later.parse_summary.get_or_insert_default();
        summary.impossible_delays = summary.impossible_delays.saturating_add(impossible_delays);
    }
    threads
}

/// Whether only selected processes were captured. What their children had done before the window is unknown then.
fn is_of_selected(snapshot: &SnapshotHead) -> bool {
    snapshot.capture.as_ref().is_some_and(|capture| !capture.options.pids.is_empty())
}
