//! `smaps_rollup`: memory of a process by kind, read after the walk, smallest processes first, within a limit of size and
//! time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rayon::ThreadPool;

use super::super::context::CaptureContext;
use super::super::process::Process;
use super::super::procfs::text;
use super::super::read_threads::{ReadThread, ReadThreads};
use super::smaps::Smaps;
use super::source::{Reads, ValueSource};
use crate::model::sorted::CollectSorted;
use crate::model::{Name, SourceFile, ThreadState, printable};
use crate::process::{CanHang, Subject, lock};

/// How many processes may be read.
#[derive(Clone, Copy)]
struct Limits {
    max_rss_bytes: u64,
    time: Duration,
}

/// The memory of processes, by kind.
pub(super) const SOURCE: ValueSource = ValueSource { name: "smaps_rollup", reads: Reads::Threads(read) };

/// Adds the memory of processes to their leaders.
fn read(context: &CaptureContext, read: &mut ReadThreads, pool: &ThreadPool) {
    let limits = match context.smaps {
        Smaps::Never => return,
        Smaps::Always => Limits { max_rss_bytes: u64::MAX, time: Duration::MAX },
        Smaps::Auto { max_rss_bytes } => Limits { max_rss_bytes, time: Smaps::TIME },
    };
    read_within(context, limits, read, pool);
}

/// A process with its size in memory.
struct SizedProcess {
    id: u32,
    name: Name,
    start: Option<u64>,
    resident_bytes: u64,
}

impl CanHang for SizedProcess {
    fn subject(&self) -> Subject {
        Subject::Process { what: "smaps_rollup", id: self.id, start: self.start }
    }
}

/// Result of reading `smaps_rollup`.
enum Rollup {
    Read(BTreeMap<String, u64>),
    /// It has exited, or cannot be read, which is counted.
    Absent,
    OutOfTime,
}

fn read_within(context: &CaptureContext, limits: Limits, read: &mut ReadThreads, pool: &ThreadPool) {
    // Kernel threads and exited processes have no memory map. A process of unknown size may be of any.
    let leaders = read.threads.iter_mut().filter(|thread| thread.state.is_leader() && thread.state.has_memory());
    let resident_bytes = |leader: &ReadThread| leader.resident_bytes.map_or(u64::MAX, u64::from);
    let sized = leaders.map(|leader| (resident_bytes(leader), &mut leader.state));
    let (mut chosen, too_large): (Vec<_>, Vec<_>) = sized.partition(|(bytes, _)| *bytes <= limits.max_rss_bytes);
    context.tally.lock().parse.smaps_skipped += u64::try_from(too_large.len()).unwrap_or(u64::MAX);
    chosen.sort_unstable_by_key(|(bytes, leader)| (*bytes, leader.tgid));
    let sized = |(resident_bytes, leader): &(u64, &mut ThreadState)| SizedProcess {
        id: leader.tgid,
        name: Name::clone(&leader.comm),
        start: leader.start_time_clock_ticks,
        resident_bytes: *resident_bytes,
    };
    let (own, left) = (context.clone(), Mutex::new(limits.time));
    let sized = chosen.iter().map(sized).collect();
    let read = context.readers.map(pool.current_num_threads(), sized, move |(), process| {
        let left = || lock(&left);
        // Reading takes about 6 ms per GiB. All further processes are at least as large.
        if *left() <= Duration::from_nanos(process.resident_bytes / 1024 * 6) {
            return Rollup::OutOfTime;
        }
        let begin = Instant::now();
        let rollup = rollup(&own, process).filter(|map| !map.is_empty());
        let time = begin.elapsed();
        own.tally.lock().smaps_time += time;
        let mut left = left();
        *left = left.saturating_sub(time);
        rollup.map_or(Rollup::Absent, Rollup::Read)
    });
    for ((_, leader), read) in chosen.into_iter().zip(read) {
        match read {
            Some(Rollup::Read(map)) => leader.smaps_rollup_kib = Some(map),
            Some(Rollup::Absent) => {}
            Some(Rollup::OutOfTime) => context.tally.lock().parse.smaps_out_of_time += 1,
            None => {
                context.tally.failed(SourceFile::SmapsRollup, Errno::ETIMEDOUT, 1);
                context.tally.name_unread(SourceFile::SmapsRollup, &leader.comm, || true);
            }
        }
    }
}

/// The memory of a process; `None` if it has exited since the walk, or if the file cannot be read.
fn rollup(context: &CaptureContext, sized: &SizedProcess) -> Option<BTreeMap<String, u64>> {
    let process = Process::reopen(context, sized.id, sized.start, SourceFile::SmapsRollup).read()?;
    process.learn_name(&sized.name);
    match process.directory.read("smaps_rollup", &mut Vec::new()) {
        // It has exited, or has freed its memory while exiting.
        Err(Errno::ESRCH) => None,
        Err(Errno::ENOENT) if !process.directory.has("stat") => None,
        Err(errno) => {
            process.unread(process.id, SourceFile::SmapsRollup, errno, &context.tally);
            None
        }
        Ok(text) => Some(parse(text)),
    }
}

/// Lines of `key: number kB`. The first line is an address range.
fn parse(text: &[u8]) -> BTreeMap<String, u64> {
    let lines = text.split(|&b| b == b'\n');
    let entries = lines.filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let number = line[colon + 1..].trim_ascii().strip_suffix(b" kB")?;
        Some((printable(&line[..colon]).into_owned(), text::unsigned(number.trim_ascii())?))
    });
    entries.into_map()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::context::in_context;
    use crate::model::CtprofParseSummary;
    use crate::process::workers;

    /// File `smaps_rollup` of Linux 7.3.
    const ROLLUP: &[u8] = b"00400000-7ffc40aab000 ---p 00000000 00:00 0                              [rollup]
Rss:                1736 kB
Pss:                 440 kB
Pss_Dirty:           440 kB
AnonHugePages:         0 kB
Some_Future_Key:       7 kB
";

    #[test]
    fn every_key_the_kernel_prints_is_kept() {
        let expected = [("AnonHugePages", 0), ("Pss", 440), ("Pss_Dirty", 440), ("Rss", 1736), ("Some_Future_Key", 7)];
        assert_eq!(parse(ROLLUP), expected.map(|(key, kib)| (key.to_owned(), kib)).into());
    }

    /// A recorded tree with processes of that many resident MiB, which are also their `Rss`.
    struct Tree {
        root: tempfile::TempDir,
        read: ReadThreads,
        summary: CtprofParseSummary,
    }

    impl Tree {
        fn new(resident_mib: &[(u32, Option<u64>)]) -> Self {
            let (root, read) = (tempfile::tempdir().unwrap(), ReadThreads::default());
            let mut tree = Self { root, read, summary: CtprofParseSummary::default() };
            for &(pid, mib) in resident_mib {
                let rss = mib.unwrap_or(0) * 1024;
                let (task, stat) = (format!("task/{pid}"), format!("{pid} (x) S{} 77", " 0".repeat(18)));
                std::fs::create_dir_all(tree.path(pid, &task)).unwrap();
                for file in ["stat", &format!("{task}/stat")] {
                    std::fs::write(tree.path(pid, file), &stat).unwrap();
                }
                std::fs::write(tree.path(pid, "smaps_rollup"), format!("Rss: {rss} kB\n")).unwrap();
                let leader = ThreadState { tgid: pid, tid: pid, ..ThreadState::default() };
                let leader = ReadThread::from(ThreadState { start_time_clock_ticks: Some(77), ..leader });
                tree.read.threads.push(ReadThread { resident_bytes: mib.map(|mib| (mib << 20).into()), ..leader });
            }
            tree
        }

        fn path(&self, pid: u32, file: &str) -> std::path::PathBuf {
            self.root.path().join(pid.to_string()).join(file)
        }

        fn leader(&mut self, pid: u32) -> &mut ThreadState {
            self.read.threads.iter_mut().map(|thread| &mut thread.state).find(|thread| thread.tid == pid).unwrap()
        }

        /// The processes that were read, and how many were too large and out of time.
        fn read(&mut self, limits: Limits) -> (Vec<u32>, u64, u64) {
            self.summary = in_context(self.root.path(), |context| {
                read_within(context, limits, &mut self.read, &workers(2));
                context.tally.lock().parse.clone().concluded()
            });
            let read = self.read.states().filter(|thread| thread.smaps_rollup_kib.is_some());
            let read = read.map(|thread| thread.tid).collect();
            (read, self.summary.smaps_skipped, self.summary.smaps_out_of_time)
        }
    }

    const ALL: Limits = Limits { max_rss_bytes: u64::MAX, time: Duration::MAX };
    const MIB: u64 = 1 << 20;

    #[test]
    fn a_process_over_the_limit_is_skipped_and_counted() {
        let mut tree = Tree::new(&[(7, Some(4)), (8, Some(5)), (9, Some(6))]);
        assert_eq!(tree.read(Limits { max_rss_bytes: 5 * MIB, ..ALL }), (vec![7, 8], 1, 0));
        assert_eq!(tree.leader(8).smaps_rollup_kib.take().unwrap()["Rss"], 5 << 10);
    }

    #[test]
    fn a_process_of_unknown_size_counts_as_small() {
        let processes = [(7, None), (8, Some(5))];
        assert_eq!(Tree::new(&processes).read(Limits { max_rss_bytes: 1 << 40, ..ALL }), (vec![8], 1, 0));
        assert_eq!(Tree::new(&processes).read(ALL), (vec![7, 8], 0, 0));
    }

    #[test]
    fn a_large_process_does_not_use_up_the_time_of_the_others() {
        // 60 s are enough for 10 TiB, and not for the next process.
        let time = Duration::from_secs(60);
        let mut tree = Tree::new(&[(7, Some(9 << 20)), (8, Some(1)), (9, Some(11 << 20)), (10, Some(2)), (11, None)]);
        assert_eq!(tree.read(Limits { time, ..ALL }), (vec![7, 8, 10], 0, 2));
        let mut tree = Tree::new(&[(7, Some(3)), (8, Some(1))]);
        assert_eq!(tree.read(Limits { time: Duration::ZERO, ..ALL }), (vec![], 0, 2));
    }

    #[test]
    fn memory_of_the_next_process_with_the_same_id_is_not_added() {
        let mut tree = Tree::new(&[(7, Some(4)), (8, Some(4))]);
        tree.leader(7).start_time_clock_ticks = Some(76);
        assert_eq!(tree.read(ALL), (vec![8], 0, 0));
        assert_eq!(tree.summary.read_failures, 0);
    }

    #[test]
    fn a_kernel_thread_without_a_memory_map_is_not_a_failure() {
        let mut tree = Tree::new(&[(7, Some(4)), (8, Some(4)), (9, Some(4))]);
        for pid in [7, 8] {
            std::fs::remove_file(tree.path(pid, "smaps_rollup")).unwrap();
        }
        std::fs::remove_dir_all(tree.path(9, "")).unwrap();
        tree.leader(7).kernel_thread = true;
        assert_eq!(tree.read(ALL), (vec![], 0, 0));
        assert_eq!(tree.summary.read_failures, 1, "of process 8, which has a map and has not exited");
    }

    #[test]
    fn a_process_that_exits_while_it_is_read_is_not_a_failure() {
        let mut tree = Tree::new(&[(7, Some(4)), (8, Some(4))]);
        for file in ["smaps_rollup", "stat"] {
            std::fs::remove_file(tree.path(7, file)).unwrap();
        }
        assert_eq!(tree.read(ALL), (vec![8], 0, 0));
        assert_eq!(tree.summary.read_failures, 0);
    }
}
