//! Counters of whole processes, from `stat` and `io` in the directory of the process.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::thread_flags::PF_KTHREAD;
use super::directory::{ProcDirectory, is_gone};
use super::parsers::{STAT_FLAGS, STAT_START_TIME};
use super::text::{self, unsigned};
use crate::model::{Includes, PROCESS, ProcessState, Source, ThreadState, Value};
use crate::process::map_patiently;

/// Field of `stat` (proc_pid_stat(5)).
const STAT_PPID: u8 = 4;

/// Reads the counters in `stat` of the process with this directory. Absent for kernel threads: each is a process with
/// one thread and, but for usermode helpers, without children, so its thread has the same values.
///
/// Failures are not counted: they have the same reasons as those of the first thread's files, which are.
pub(super) fn read(directory: &ProcDirectory, buffer: &mut Vec<u8>) -> Option<ProcessState> {
    let stat = stat(directory.read("stat", buffer).ok()?)?;
    (stat.flags & PF_KTHREAD == 0).then_some(stat.process)
}

/// The counters of the process `id` that started at this time, in ticks since boot.
fn read_again(procfs: &ProcDirectory, (id, start): (u32, Option<u64>)) -> Option<ProcessState> {
    let (directory, mut buffer) = (procfs.directory(&id.to_string()).ok()?, Vec::new());
    let Stat { mut process, flags, start: now } = stat(directory.read("stat", &mut buffer).ok()?)?;
    if flags & PF_KTHREAD != 0 || now != start {
        return None;
    }
    if let Ok(text) = directory.read("io", &mut buffer) {
        add_io(&mut process, text);
    }
    Some(process)
}

/// Reads the counters of parents again, after all threads were read, and keeps those of parents that waited for
/// children meanwhile.
///
/// A child that exits during the walk is missing in the capture if its parent waits for it before it is read.
/// What it did since its start is then in the later counters of the parent. A window that starts with this
/// capture takes these, so that it does not count the whole life of the child. The counters of such a child that was
/// still read are dropped: the parent's include them.
pub(in crate::capture) fn reread_parents(procfs: &Arc<ProcDirectory>, threads: &mut [ThreadState]) {
    let leaders = || threads.iter().filter_map(|thread| thread.process.as_deref());
    let parents: HashSet<u32> = leaders().filter_map(|process| process.ppid).collect();
    let waited = reread(procfs, threads, |leader| {
        leader.process.as_ref().is_some_and(|process| parents.contains(&leader.tgid) || has_waited(process))
    });
    let mut of_gone = HashSet::new();
    for leader in &mut *threads {
        let parent = leader.process.as_ref().and_then(|process| process.ppid);
        if let Some(parent) = parent.filter(|parent| waited.contains(parent))
            && procfs.directory(&leader.tgid.to_string()).is_err_and(is_gone)
        {
            leader.process = None;
            of_gone.insert(parent);
        }
    }
    // The child may have exited since its parent was read again.
    reread(procfs, threads, |leader| leader.process.is_some() && of_gone.contains(&leader.tgid));
}

/// Reads the counters of some processes again, and returns those that waited for children meanwhile.
fn reread(
    procfs: &Arc<ProcDirectory>,
    threads: &mut [ThreadState],
    is_asked: impl Fn(&ThreadState) -> bool,
) -> HashSet<u32> {
    let asked: Vec<_> = threads.iter_mut().filter(|leader| is_asked(leader)).collect();
    let processes = asked.iter().map(|leader| (leader.tgid, leader.start_time_clock_ticks)).collect();
    let procfs_of_reader = Arc::clone(procfs);
    let again = map_patiently(1, processes, move |(), process| read_again(&procfs_of_reader, *process));
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

/// Data of a process's `stat`.
#[derive(Default)]
struct Stat {
    process: ProcessState,
    /// The `PF_` flags of `include/linux/sched.h`.
    flags: u64,
    /// In ticks since boot.
    start: Option<u64>,
}

fn stat(text: &[u8]) -> Option<Stat> {
    let (_, fields) = text::stat(text)?;
    let mut stat = Stat::default();
    for (field, text) in fields.take_while(|(field, _)| *field <= STAT_START_TIME) {
        let Some(value) = unsigned(text) else { continue };
        match field {
            STAT_PPID => stat.process.ppid = u32::try_from(value).ok(),
            STAT_FLAGS => stat.flags = value,
            STAT_START_TIME => stat.start = Some(value),
            _ => counters(Source::Stat(field), value, &mut stat.process),
        }
    }
    Some(stat)
}

/// Stores a value of `source`.
fn counters(source: Source, value: u64, process: &mut ProcessState) {
    for counter in PROCESS.iter().filter(|counter| counter.source.source == source) {
        // A value that the counter cannot hold is absent.
        let _ = counter.set(process, Value::Unsigned(value));
    }
}

/// Adds the keys of `io`: all of them, or none if one is missing.
pub(in crate::capture) fn add_io(process: &mut ProcessState, text: &[u8]) {
    let mut with_io = process.clone();
    let is_whole = PROCESS.iter().all(|counter| {
        let Source::Io(key) = counter.source.source else { return true };
        let value = |line: &[u8]| unsigned(line.strip_prefix(key.as_bytes())?.strip_prefix(b": ")?);
        let value = text::lines(text).find_map(value);
        value.is_some_and(|value| counter.set(&mut with_io, Value::Unsigned(value)).is_ok())
    });
    if is_whole {
        *process = with_io;
    }
}

/// Reads `bytes` as both files.
#[cfg(fuzzing)]
pub(in crate::capture) fn fuzz(bytes: &[u8]) {
    add_io(&mut stat(bytes).unwrap_or_default().process, bytes);
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    // Linux 6.18: a shell that started 200 processes and waited for them.
    const STAT: &[u8] = b"14675 (sh) S 14670 14670 12992 0 -1 4194304 92 10009 1 2 3 4 5 6 20 0 1 0 1190779";
    const IO: &[u8] = b"rchar: 807265\nwchar: 309\nsyscr: 1620\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n";

    fn read_from(files: &[(&str, &[u8])]) -> Option<ProcessState> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let directory = ProcDirectory::open(dir.path()).unwrap();
        let mut process = read(&directory, &mut Vec::new())?;
        if let Ok(text) = directory.read("io", &mut Vec::new()) {
            add_io(&mut process, text);
        }
        Some(process)
    }

    fn values(process: &ProcessState) -> Vec<Option<String>> {
        PROCESS.iter().map(|counter| counter.get(process).map(|value| value.to_string())).collect()
    }

    #[test]
    fn every_counter_comes_from_its_field_or_key() {
        let process = read_from(&[("stat", STAT), ("io", IO)]).unwrap();
        let expected = [3, 4, 92, 1, 5, 6, 10_009, 2, 807_265, 309, 1620, 1, 4096, 0, 0];
        assert_eq!(values(&process), expected.map(|number: u64| Some(number.to_string())));
        assert_eq!(process.ppid, Some(14_670));
    }

    #[test]
    fn io_that_is_denied_or_cut_is_absent_and_stat_remains() {
        let without = read_from(&[("stat", STAT)]).unwrap();
        assert_eq!((without.rchar, without.cminflt), (None, Some(10_009.into())));
        assert_eq!(read_from(&[("stat", STAT), ("io", &IO[..40])]).as_ref(), Some(&without));
        assert_eq!(read_from(&[("io", IO)]), None);
    }

    #[test]
    fn a_child_that_is_waited_for_during_the_walk_is_not_counted_twice() {
        let dir = tempfile::tempdir().unwrap();
        let write = |pid: u32, text: &[u8]| {
            std::fs::create_dir_all(dir.path().join(pid.to_string())).unwrap();
            std::fs::write(dir.path().join(pid.to_string()).join("stat"), text).unwrap();
        };
        let procfs = Arc::new(ProcDirectory::open(dir.path()).unwrap());
        let leader = |pid: u32, text: &[u8]| {
            write(pid, text);
            let process = read(&procfs.directory(&pid.to_string()).unwrap(), &mut Vec::new());
            ThreadState { tid: pid, tgid: pid, process: process.map(Box::new), ..ThreadState::default() }
        };
        let waited = |cutime: u32| format!("7 (sh) S 1 7 7 0 -1 0 92 10 1 2 3 4 {cutime} 6 20").into_bytes();
        let mut threads = [leader(7, &waited(5)), leader(8, b"8 (x) S 7 7 7 0 -1 0 9 0 1 0 3 4 0 0 20")];
        reread_parents(&procfs, &mut threads);
        assert!(threads.iter().all(|thread| thread.process_after.is_none()), "nothing changed");
        write(7, &waited(900));
        reread_parents(&procfs, &mut threads);
        let after = threads[0].process_after.as_ref().unwrap();
        assert_eq!((after.cutime_clock_ticks, &threads[1].process_after), (Some(900.into()), &None));
        assert!(threads[1].process.is_some(), "a child that is alive keeps its counters");
        std::fs::remove_dir_all(dir.path().join("8")).unwrap();
        reread_parents(&procfs, &mut threads);
        assert!(threads[1].process.is_none(), "those of a child that was waited for are in the parent's");
    }

    #[test]
    fn a_parent_whose_child_exits_while_parents_are_read_again_has_the_whole_life_of_the_child() {
        let dir = tempfile::tempdir().unwrap();
        let parent = |cutime: u32| format!("7 (sh) S 1 7 7 0 -1 0 92 10 1 2 3 4 {cutime} 6 20");
        let process = |text: &str| Some(Box::new(stat(text.as_bytes()).unwrap().process));
        let leader = |tgid, process| ThreadState { tid: tgid, tgid, process, ..ThreadState::default() };
        let mut threads =
            [leader(7, process(&parent(5))), leader(8, process("8 (x) S 7 7 7 0 -1 0 9 0 1 0 3 4 0 0 20"))];
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
        reread_parents(&Arc::new(ProcDirectory::open(dir.path()).unwrap()), &mut threads);
        let after = threads[0].process_after.as_ref().and_then(|after| after.cutime_clock_ticks);
        assert_eq!((after, &threads[1].process), (Some(900.into()), &None));
    }

    #[test]
    fn a_counter_that_does_not_parse_is_absent() {
        let process = stat(b"7 (a) b) S 1 1 1 0 -1 0 1 x 3").unwrap().process;
        assert_eq!((process.minflt, process.cminflt, process.majflt), (Some(1.into()), None, Some(3.into())));
        assert_eq!((process.cmajflt, process.ppid), (None, Some(1)));
    }

    #[test]
    fn a_kernel_thread_has_the_counters_of_its_thread_only() {
        // Linux 6.18.
        let kthreadd = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 8 0 0";
        assert_eq!(read_from(&[("stat", kthreadd), ("io", IO)]), None);
    }

    #[test]
    fn only_parents_and_processes_that_waited_for_children_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let procfs = Arc::new(ProcDirectory::open(dir.path()).unwrap());
        let stat = |pid: u32, parent: u32, cutime: u32| {
            std::fs::create_dir_all(dir.path().join(pid.to_string())).unwrap();
            let text = format!("{pid} (x) S {parent} 7 7 0 -1 0 92 0 1 0 3 4 {cutime} 0 20");
            std::fs::write(dir.path().join(pid.to_string()).join("stat"), text).unwrap();
        };
        let leader = |pid: u32| {
            let process = read(&procfs.directory(&pid.to_string()).unwrap(), &mut Vec::new());
            ThreadState { tid: pid, tgid: pid, process: process.map(Box::new), ..ThreadState::default() }
        };
        // 7 is the parent of 8, which has waited for a child, as has 10. 9 never had one.
        for (pid, parent, cutime) in [(7, 1, 0), (8, 7, 5), (9, 1, 0), (10, 1, 5)] {
            stat(pid, parent, cutime);
        }
        let mut threads = [7, 8, 9, 10].map(leader);
        for (pid, parent) in [(7, 1), (8, 7), (9, 1), (10, 1)] {
            stat(pid, parent, 50);
        }
        reread_parents(&procfs, &mut threads);
        let read_again: Vec<_> =
            threads.iter().filter(|thread| thread.process_after.is_some()).map(|thread| thread.tid).collect();
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
        let procfs = Arc::new(ProcDirectory::open(dir.path()).unwrap());
        let is_same = |parent, start| {
            write(1, 5, 800);
            let process = read(&procfs.directory("7").unwrap(), &mut Vec::new()).map(Box::new);
            let leader =
                ThreadState { tid: 7, tgid: 7, start_time_clock_ticks: Some(800), process, ..ThreadState::default() };
            let mut threads = [leader];
            write(parent, 50, start);
            reread_parents(&procfs, &mut threads);
            threads[0].process_after.is_some()
        };
        assert!(is_same(1, 800));
        assert!(is_same(2, 800), "its own parent exited meanwhile");
        assert!(!is_same(1, 801), "another process");
    }
}
