//! `smaps_rollup`: memory of a process by kind, read after the walk, smallest processes first, within a limit of size and
//! time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rayon::ThreadPool;

use super::super::process::Process;
use super::super::procfs::folder::{Folder, is_gone};
use super::super::procfs::text;
use super::super::start::nanoseconds;
use super::super::tally::{File, Tally};
use super::super::walked::Walked;
use super::guarded;
use super::smaps::Smaps;
use crate::model::{ThreadState, printable};

/// How many processes may be read.
#[derive(Clone, Copy)]
struct Limits {
    max_rss_bytes: u64,
    time: Duration,
}

/// Adds the memory of processes to their leaders.
pub(in crate::capture) fn read(when: Smaps, procfs: &Folder, walked: &mut Walked, pool: &ThreadPool) {
    let limits = match when {
        Smaps::Never => return,
        Smaps::Always => Limits { max_rss_bytes: u64::MAX, time: Duration::MAX },
        Smaps::Auto { max_rss_bytes } => Limits { max_rss_bytes, time: Smaps::TIME },
    };
    read_within(limits, procfs, walked, pool);
}

fn read_within(limits: Limits, procfs: &Folder, walked: &mut Walked, pool: &ThreadPool) {
    let Walked { threads, resident_bytes, tally, .. } = walked;
    // Kernel threads and exited processes have no memory map. A process of unknown size may be of any.
    let leaders = threads.iter().enumerate().filter(|(_, thread)| thread.is_leader() && thread.has_memory());
    let sized = leaders.map(|(place, leader)| (resident_bytes.get(&leader.tgid).copied().unwrap_or(u64::MAX), place));
    let (mut chosen, too_large): (Vec<_>, Vec<_>) = sized.partition(|(bytes, _)| *bytes <= limits.max_rss_bytes);
    tally.smaps_too_large += count(&too_large);
    chosen.sort_unstable();
    let queue = Queue { chosen: &chosen, next: AtomicUsize::new(0), left_ns: AtomicU64::new(nanoseconds(limits.time)) };
    for (read, counts) in pool.broadcast(|_| queue.work(procfs, threads)) {
        tally.merge(counts);
        for (place, map) in read {
            threads[place].smaps_rollup_kib = Some(map);
        }
    }
    tally.smaps_out_of_time += count(queue.rest());
}

fn count<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

/// Processes to read, shared by all workers.
struct Queue<'c> {
    /// Resident bytes and the place of the leader, smallest first.
    chosen: &'c [(u64, usize)],
    next: AtomicUsize,
    left_ns: AtomicU64,
}

/// What one worker has read, by the place of the leader.
type Read = Vec<(usize, BTreeMap<String, u64>)>;

impl Queue<'_> {
    /// Reads processes until the time is not enough for the next one.
    fn work(&self, procfs: &Folder, threads: &[ThreadState]) -> (Read, Tally) {
        let (mut read, mut tally, mut buffer) = (Vec::new(), Tally::default(), Vec::new());
        while let Some(place) = self.take() {
            let leader = &threads[place];
            let begin = Instant::now();
            guarded(format_args!("smaps_rollup of process {}", leader.tgid), &mut tally, |tally| {
                let map = rollup(procfs, leader, &mut buffer, tally);
                read.extend(map.filter(|map| !map.is_empty()).map(|map| (place, map)));
            });
            let time = begin.elapsed();
            tally.smaps_time += time;
            let less = |left: u64| Some(left.saturating_sub(nanoseconds(time)));
            let _ = self.left_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        (read, tally)
    }

    /// The place of the next leader. All further processes are at least as large.
    fn take(&self) -> Option<usize> {
        let is_enough = |next: usize| {
            let (resident_bytes, _) = self.chosen.get(next)?;
            (self.left_ns.load(Ordering::Relaxed) > reading_ns(*resident_bytes)).then_some(next + 1)
        };
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_enough);
        taken.ok().map(|next| self.chosen[next].1)
    }

    /// The processes that were not taken.
    fn rest(&self) -> &[(u64, usize)] {
        &self.chosen[self.next.load(Ordering::Relaxed)..]
    }
}

/// How long reading takes: about 6 ms per GiB.
fn reading_ns(resident_bytes: u64) -> u64 {
    resident_bytes / 1024 * 6
}

/// The memory of the process of `leader`; `None` if it has exited since the walk, or if the file cannot be read.
fn rollup(
    procfs: &Folder,
    leader: &ThreadState,
    buffer: &mut Vec<u8>,
    tally: &mut Tally,
) -> Option<BTreeMap<String, u64>> {
    let process = Process::open(procfs, leader.tgid);
    let process = process.map_err(|errno| (!is_gone(errno)).then(|| tally.failed(File::SmapsRollup, errno))).ok()?;
    process.learn_name(&leader.comm);
    // The kernel may have given its id to another process.
    let started = leader.start_time_clock_ticks.zip(process.start_time());
    if started.is_some_and(|(walked, now)| walked != now) {
        return None;
    }
    match process.folder.read(File::SmapsRollup.name(), buffer) {
        // It has exited, or has freed its memory while exiting.
        Err(Errno::ESRCH) => None,
        Err(Errno::ENOENT) if !process.folder.has(File::Stat.name()) => None,
        Err(errno) => {
            process.unread(process.id, File::SmapsRollup, errno, tally);
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
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::workers;

    /// Linux 7.3.
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
        walked: Walked,
    }

    impl Tree {
        fn new(resident_mib: &[(u32, Option<u64>)]) -> Self {
            let mut tree = Self { root: tempfile::tempdir().unwrap(), walked: Walked::default() };
            for &(pid, mib) in resident_mib {
                let rss = mib.unwrap_or(0) * 1024;
                std::fs::create_dir(tree.path(pid, "")).unwrap();
                std::fs::write(tree.path(pid, "stat"), format!("{pid} (x) S{} 77", " 0".repeat(18))).unwrap();
                std::fs::write(tree.path(pid, "smaps_rollup"), format!("Rss: {rss} kB\n")).unwrap();
                tree.walked.resident_bytes.extend(mib.map(|mib| (pid, mib << 20)));
                let leader = ThreadState { tgid: pid, tid: pid, ..ThreadState::default() };
                tree.walked.threads.push(ThreadState { start_time_clock_ticks: Some(77), ..leader });
            }
            tree
        }

        fn path(&self, pid: u32, file: &str) -> std::path::PathBuf {
            self.root.path().join(pid.to_string()).join(file)
        }

        fn leader(&mut self, pid: u32) -> &mut ThreadState {
            self.walked.threads.iter_mut().find(|thread| thread.tid == pid).unwrap()
        }

        /// The processes that were read, and how many were too large and out of time.
        fn read(&mut self, limits: Limits) -> (Vec<u32>, u64, u64) {
            let procfs = Folder::open(self.root.path()).unwrap();
            read_within(limits, &procfs, &mut self.walked, &workers(2));
            let Walked { threads, tally, .. } = &self.walked;
            let read = threads.iter().filter(|thread| thread.smaps_rollup_kib.is_some()).map(|thread| thread.tid);
            (read.collect(), tally.smaps_too_large, tally.smaps_out_of_time)
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
    fn a_large_process_used_up_the_time_of_all_others() {
        // 60 s are enough for 10 TiB, and not for the next process.
        let time = Duration::from_secs(60);
        let mut tree = Tree::new(&[(7, Some(9 << 20)), (8, Some(1)), (9, Some(11 << 20)), (10, Some(2)), (11, None)]);
        assert_eq!(tree.read(Limits { time, ..ALL }), (vec![7, 8, 10], 0, 2));
        let mut tree = Tree::new(&[(7, Some(3)), (8, Some(1))]);
        assert_eq!(tree.read(Limits { time: Duration::ZERO, ..ALL }), (vec![], 0, 2));
        assert_eq!(tree.walked.tally.smaps_time, Duration::ZERO);
    }

    #[test]
    fn the_memory_of_another_process_with_the_same_id_was_added() {
        let mut tree = Tree::new(&[(7, Some(4)), (8, Some(4))]);
        tree.leader(7).start_time_clock_ticks = Some(76);
        assert_eq!(tree.read(ALL), (vec![8], 0, 0));
        assert_eq!(tree.walked.tally.summary().read_failures, 0);
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
        assert_eq!(tree.walked.tally.summary().read_failures, 1, "of process 8, which has a map and has not exited");
    }

    #[test]
    fn a_process_that_exits_while_it_is_read_is_not_a_failure() {
        let mut tree = Tree::new(&[(7, Some(4)), (8, Some(4))]);
        for file in ["smaps_rollup", "stat"] {
            std::fs::remove_file(tree.path(7, file)).unwrap();
        }
        assert_eq!(tree.read(ALL), (vec![8], 0, 0));
        assert_eq!(tree.walked.tally.summary().read_failures, 0);
    }
}
