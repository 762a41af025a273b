//! Counters of parents after all threads were read.

use std::collections::HashSet;
use std::sync::Arc;

use rayon::ThreadPool;

use super::super::context::CaptureContext;
use super::super::procfs::directory::is_gone;
use super::super::procfs::whole_process;
use super::super::read_threads::{ReadThread, ReadThreads};
use super::source::{Reads, ValueSource};
use crate::model::{Includes, PROCESS, ProcessState, ThreadState, Value};
use crate::process::{CanHang, Subject};

/// Work of children that exited while the threads were read.
pub(super) const SOURCE: ValueSource = ValueSource { name: "counters of parents", reads: Reads::Threads(read) };

/// A process whose counters are read again.
struct AskedParent {
    id: u32,
    /// In ticks since boot.
    start: Option<u64>,
}

impl CanHang for AskedParent {
    fn subject(&self) -> Subject {
        Subject::Process { what: "counters", id: self.id, start: self.start }
    }
}

/// Reads the counters of parents again, after all threads were read, and keeps the counters of parents that waited for children
/// meanwhile.
///
/// A child that exits during the walk is missing in the capture if its parent waits for it before it is read. Its whole work is
/// then in the later counters of the parent. A window that starts with this capture uses the later counters, so that it does not
/// count the whole life of the child. If such a child was still read, its counters are dropped, because the parent's include
/// them.
fn read(context: &CaptureContext, ReadThreads { threads, .. }: &mut ReadThreads, _: &ThreadPool) {
    let leaders = || threads.iter().filter_map(|thread| thread.state.process.as_deref());
    let parents: HashSet<u32> = leaders().filter_map(|process| process.ppid).collect();
    let waited = read_again(context, threads, |leader| {
        leader.process.as_ref().is_some_and(|process| parents.contains(&leader.tgid) || has_waited(process))
    });
    let mut of_exited = HashSet::new();
    for ReadThread { state: leader, .. } in &mut *threads {
        let parent = leader.process.as_ref().and_then(|process| process.ppid);
        if let Some(parent) = parent.filter(|parent| waited.contains(parent))
            && context.procfs.directory(&leader.tgid.to_string()).is_err_and(is_gone)
        {
            // Whose child it was still says whose command it is of.
            leader.process = Some(Box::new(ProcessState { ppid: Some(parent), ..ProcessState::default() }));
            of_exited.insert(parent);
        }
    }
    // The child may have exited since its parent was read again.
    read_again(context, threads, |leader| of_exited.contains(&leader.tgid));
}

/// Reads the counters of some processes again, and returns the counters of processes that waited for children meanwhile.
fn read_again(
    context: &CaptureContext,
    threads: &mut [ReadThread],
    is_asked: impl Fn(&ThreadState) -> bool,
) -> HashSet<u32> {
    let asked: Vec<_> = threads.iter_mut().map(|thread| &mut thread.state).filter(|leader| is_asked(leader)).collect();
    let process = |leader: &&mut ThreadState| AskedParent { id: leader.tgid, start: leader.start_time_clock_ticks };
    let (processes, procfs) = (asked.iter().map(process).collect(), Arc::clone(&context.procfs));
    let again = context
        .readers
        .map(1, processes, move |(), parent| whole_process::read_again(&procfs, parent.id, parent.start));
    let mut waited = HashSet::new();
    for (leader, after) in asked.into_iter().zip(again) {
        let is_new = |after: &ProcessState| leader.process.as_ref().is_some_and(|now| !after.has_same_children_as(now));
        // One that cannot be read any more keeps what it had.
        if let Some(after) = after.flatten().filter(is_new) {
            leader.process_after = Some(Box::new(after));
            waited.insert(leader.tgid);
        }
    }
    waited
}

fn has_waited(process: &ProcessState) -> bool {
    let of_children = PROCESS.iter().filter(|field| field.source.includes == Includes::Children);
    of_children.into_iter().any(|field| field.get(process).is_some_and(|value| value != Value::Unsigned(0)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use super::super::super::context::in_context;
    use super::super::super::procfs::directory::ProcDirectory;
    use super::*;
    use crate::process::no_workers;

    /// The first thread of a process.
    fn leader(pid: u32, process: Option<Box<ProcessState>>) -> ReadThread {
        ThreadState { tid: pid, tgid: pid, process, ..ThreadState::default() }.into()
    }

    /// Reads parents of these threads again.
    fn reread(procfs: &Path, threads: &mut Vec<ReadThread>) {
        let mut read_threads = ReadThreads { threads: std::mem::take(threads), ..ReadThreads::default() };
        in_context(procfs, |context| read(context, &mut read_threads, &no_workers()));
        *threads = read_threads.threads;
    }

    #[test]
    fn a_child_that_is_waited_for_during_the_walk_is_not_counted_twice() {
        let dir = tempfile::tempdir().unwrap();
        let write = |pid: u32, text: &[u8]| {
            std::fs::create_dir_all(dir.path().join(pid.to_string())).unwrap();
            std::fs::write(dir.path().join(pid.to_string()).join("stat"), text).unwrap();
        };
        let procfs = ProcDirectory::open(dir.path()).unwrap();
        let read_leader = |pid: u32, text: &[u8]| {
            write(pid, text);
            let process = whole_process::read(&procfs.directory(&pid.to_string()).unwrap(), &mut Vec::new());
            leader(pid, process.map(Box::new))
        };
        let waited = |cutime: u32| format!("7 (sh) S 1 7 7 0 -1 0 92 10 1 2 3 4 {cutime} 6 20").into_bytes();
        let mut threads = vec![read_leader(7, &waited(5)), read_leader(8, b"8 (x) S 7 7 7 0 -1 0 9 0 1 0 3 4 0 0 20")];
        reread(dir.path(), &mut threads);
        assert!(threads.iter().all(|thread| thread.state.process_after.is_none()), "nothing changed");
        write(7, &waited(900));
        reread(dir.path(), &mut threads);
        let after = threads[0].state.process_after.as_ref().unwrap();
        assert_eq!((after.cutime_clock_ticks, &threads[1].state.process_after), (Some(900.into()), &None));
        assert!(threads[1].state.process.is_some(), "a child that is alive keeps its counters");
        std::fs::remove_dir_all(dir.path().join("8")).unwrap();
        reread(dir.path(), &mut threads);
        let only_parent = |ppid| Some(Box::new(ProcessState { ppid: Some(ppid), ..ProcessState::default() }));
        let of_child = &threads[1].state.process;
        assert_eq!(*of_child, only_parent(7), "counters of a child that was waited for are in the parent's");
    }

    #[test]
    fn a_parent_whose_child_exits_while_parents_are_read_again_has_the_whole_life_of_the_child() {
        let dir = tempfile::tempdir().unwrap();
        let parent = |cutime: u32| format!("7 (sh) S 1 7 7 0 -1 0 92 10 1 2 3 4 {cutime} 6 20");
        let procfs = ProcDirectory::open(dir.path()).unwrap();
        let process = |text: &str| {
            std::fs::write(dir.path().join("stat"), text).unwrap();
            whole_process::read(&procfs, &mut Vec::new()).map(Box::new)
        };
        let mut threads =
            vec![leader(7, process(&parent(5))), leader(8, process("8 (x) S 7 7 7 0 -1 0 9 0 1 0 3 4 0 0 20"))];
        let [of_parent, of_child] = [7, 8].map(|pid| dir.path().join(pid.to_string()));
        std::fs::create_dir(&of_parent).unwrap();
        std::fs::create_dir(&of_child).unwrap();
        std::fs::write(of_child.join("stat"), "").unwrap();
        let fifo = of_parent.join("stat");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::thread::spawn(move || {
            // Whoever reads the pipe has opened it now, and waits.
            let mut first = std::fs::File::create(&fifo).unwrap();
            std::fs::remove_dir_all(of_child).unwrap();
            let second = of_parent.join("second");
            std::fs::write(&second, parent(900)).unwrap();
            std::fs::rename(second, fifo).unwrap();
            first.write_all(parent(20).as_bytes()).unwrap();
        });
        reread(dir.path(), &mut threads);
        let after = threads[0].state.process_after.as_ref().and_then(|after| after.cutime_clock_ticks);
        let of_child = threads[1].state.process.as_ref().map(|child| (child.ppid, child.utime_clock_ticks));
        assert_eq!((after, of_child), (Some(900.into()), Some((Some(7), None))));
    }

    #[test]
    fn only_parents_and_processes_that_waited_for_children_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let procfs = ProcDirectory::open(dir.path()).unwrap();
        let stat = |pid: u32, parent: u32, cutime: u32| {
            std::fs::create_dir_all(dir.path().join(pid.to_string())).unwrap();
            let text = format!("{pid} (x) S {parent} 7 7 0 -1 0 92 0 1 0 3 4 {cutime} 0 20");
            std::fs::write(dir.path().join(pid.to_string()).join("stat"), text).unwrap();
        };
        let read_leader = |pid: u32| {
            let process = whole_process::read(&procfs.directory(&pid.to_string()).unwrap(), &mut Vec::new());
            leader(pid, process.map(Box::new))
        };
        // 7 is the parent of 8, which has waited for a child, as has 10. 9 never had one.
        for (pid, parent, cutime) in [(7, 1, 0), (8, 7, 5), (9, 1, 0), (10, 1, 5)] {
            stat(pid, parent, cutime);
        }
        let mut threads = [7, 8, 9, 10].map(read_leader).into();
        for (pid, parent) in [(7, 1), (8, 7), (9, 1), (10, 1)] {
            stat(pid, parent, 50);
        }
        reread(dir.path(), &mut threads);
        let read_again: Vec<_> = threads
            .iter()
            .filter(|thread| thread.state.process_after.is_some())
            .map(|thread| thread.state.tid)
            .collect();
        assert_eq!(read_again, [7, 8, 10]);
    }

    #[test]
    fn another_process_with_the_id_of_a_parent_has_not_waited_for_its_children() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("7")).unwrap();
        let write = |parent: u32, cutime: u32, start: u32| {
            let text = format!("7 (x) S {parent} 7 7 0 -1 0 92 0 1 0 3 4 {cutime} 0 20 0 1 0 {start} 0 0");
            std::fs::write(dir.path().join("7/stat"), text).unwrap();
        };
        let procfs = ProcDirectory::open(dir.path()).unwrap();
        let is_same = |parent, start| {
            write(1, 5, 800);
            let process = whole_process::read(&procfs.directory("7").unwrap(), &mut Vec::new()).map(Box::new);
            let mut threads = vec![leader(7, process)];
            threads[0].state.start_time_clock_ticks = Some(800);
            write(parent, 50, start);
            reread(dir.path(), &mut threads);
            threads[0].state.process_after.is_some()
        };
        assert!(is_same(1, 800));
        assert!(is_same(2, 800), "its own parent exited meanwhile");
        assert!(!is_same(1, 801), "another process");
    }
}
