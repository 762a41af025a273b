//! One thread: each of its files opened, read and closed once, and what they say put in its place.

use std::borrow::Cow;
use std::collections::HashMap;

use nix::errno::Errno;

use super::cgroup_paths::CgroupPaths;
use super::folder::Numbered;
use super::tally::{File, Tally};
use super::text::{self, Keyed};
use crate::model::{
    METRICS, Metric, Metrics, MonotonicNs, Name, Source, ThreadState, Value, printable, procfs_sources,
};
use crate::sys::affinity;

/// `PF_KTHREAD` of `include/linux/sched.h`.
const PF_KTHREAD: u64 = 0x0020_0000;
const STAT_FLAGS: u8 = 9;
const STAT_START_TIME: u8 = 22;
const STAT_RSS: u8 = 24;
const STAT_FIELDS: usize = 53;

/// Whether thread ids of the tree are those of this process's own system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Tree {
    /// `/proc`: they are.
    Live,
    /// Another procfs, or a recorded tree.
    Elsewhere,
}

/// Reads threads: the buffers and the learned layouts of one worker.
pub(in crate::capture) struct Reader {
    tree: Tree,
    buffer: Vec<u8>,
    cpu_mask: Vec<u64>,
    names: HashMap<Box<[u8]>, Name>,
    pub(in crate::capture) cgroups: CgroupPaths,
    stat: [Option<&'static Metric>; STAT_FIELDS],
    schedstat: Vec<(usize, &'static Metric)>,
    status: Keyed,
    sched: Keyed,
    io: Keyed,
    /// Failures of the thread in hand: they count only if it is still there at the end.
    failures: Vec<(File, Errno)>,
}

/// A thread that was read, and what its process's memory map has to be read by.
pub(in crate::capture) struct Read {
    pub(in crate::capture) thread: ThreadState,
    /// Resident pages of the process.
    pub(in crate::capture) rss_pages: u64,
}

#[derive(Default)]
struct Stat {
    comm: Option<Name>,
    start_time: Option<u64>,
    flags: u64,
    rss_pages: u64,
}

impl Reader {
    pub(in crate::capture) fn new(tree: Tree) -> Self {
        let with = |place: fn(Source) -> Option<&'static str>| {
            procfs_sources().filter_map(move |(source, metric)| Some((place(source)?, metric)))
        };
        let mut stat = [None; STAT_FIELDS];
        let mut schedstat = Vec::new();
        for (source, metric) in procfs_sources() {
            match source {
                Source::Stat(field) | Source::StatPolicy(field) => stat[usize::from(field)] = Some(metric),
                Source::Schedstat(column) => schedstat.push((usize::from(column) - 1, metric)),
                _ => {}
            }
        }
        Self {
            tree,
            buffer: Vec::new(),
            cpu_mask: Vec::new(),
            names: HashMap::new(),
            cgroups: CgroupPaths::default(),
            stat,
            schedstat,
            status: Keyed::new(with(|source| match source {
                Source::Status(key) | Source::StatusOfLeader(key) => Some(key),
                _ => None,
            })),
            sched: Keyed::new(with(|source| match source {
                Source::Sched(key) | Source::SchedDifference(key, _) => Some(key),
                _ => None,
            })),
            io: Keyed::new(with(|source| match source {
                Source::Io(key) => Some(key),
                _ => None,
            })),
            failures: Vec::new(),
        }
    }

    /// Reads thread `tid` of process `tgid`; `None` if it ended first.
    pub(in crate::capture) fn thread(
        &mut self,
        files: &mut Numbered<'_>,
        tgid: u32,
        tid: u32,
        tally: &mut Tally,
    ) -> Option<Read> {
        self.failures.clear();
        let mut metrics = Box::new(Metrics::default());
        let stat = self.stat(files, &mut metrics);
        let comm = stat.comm.or_else(|| self.comm(files));
        let Some(comm) = comm else {
            let stat_failed = self.failures.iter().find(|(file, _)| *file == File::Stat);
            tally.lost(File::Stat, stat_failed.map_or(Errno::ESRCH, |(_, errno)| *errno));
            return None;
        };
        self.affinity(tid, &mut metrics);
        self.status(files, &mut metrics);
        if tid != tgid {
            metrics.nr_threads = None;
        }
        self.schedstat(files, &mut metrics);
        tally.negative_times += self.sched(files, &mut metrics);
        self.io(files, &mut metrics);
        let cgroup = self.cgroup(files);
        self.settle_failures(files, tally);
        let thread = ThreadState {
            tid,
            tgid,
            comm,
            cgroup,
            start_time_clock_ticks: stat.start_time,
            kernel_thread: stat.flags & PF_KTHREAD != 0,
            metrics,
            ..ThreadState::default()
        };
        Some(Read { thread, rss_pages: stat.rss_pages })
    }

    /// The name of a file's content that recurs from thread to thread: one allocation for all.
    fn name(&mut self, bytes: &[u8]) -> Name {
        if let Some(name) = self.names.get(bytes) {
            return name.clone();
        }
        let name: Name = printable(bytes).into();
        self.names.insert(bytes.into(), name.clone());
        name
    }

    /// Reads a file into `buffer`, or notes why not.
    fn read<'b>(&mut self, files: &mut Numbered<'_>, file: File, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        files.read(file.name(), buffer).map_err(|errno| self.failures.push((file, errno))).ok()
    }

    /// Counts the thread's failures, unless they only say that it has ended meanwhile.
    fn settle_failures(&self, files: &mut Numbered<'_>, tally: &mut Tally) {
        let gone = |errno| matches!(errno, Errno::ENOENT | Errno::ESRCH);
        if self.failures.iter().any(|&(_, errno)| gone(errno)) && !files.has(File::Stat.name()) {
            return;
        }
        let failures = self.failures.iter().filter(|&&(_, errno)| errno != Errno::ESRCH);
        failures.for_each(|&(file, errno)| tally.failed(file, errno));
    }

    fn stat(&mut self, files: &mut Numbered<'_>, metrics: &mut Metrics) -> Stat {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut stat = Stat::default();
        if let Some((name, fields)) = self.read(files, File::Stat, &mut buffer).and_then(text::stat) {
            // Kernels before 4.18 escape the name here, but not in `comm`.
            if memchr::memchr(b'\\', name).is_none() {
                stat.comm = Some(self.name(name));
            }
            for (field, value) in fields.take(STAT_FIELDS - 3) {
                match field {
                    STAT_FLAGS => stat.flags = text::unsigned(value).unwrap_or(0),
                    STAT_START_TIME => stat.start_time = text::unsigned(value),
                    STAT_RSS => stat.rss_pages = text::unsigned(value).unwrap_or(0),
                    _ => self.stat_field(field, value, metrics),
                }
            }
        }
        self.buffer = buffer;
        stat
    }

    fn stat_field(&self, field: u8, text: &[u8], metrics: &mut Metrics) {
        let Some(metric) = self.stat[usize::from(field)] else { return };
        let value = match metric.sources.procfs {
            [Source::StatPolicy(_)] => text::unsigned(text).map(policy),
            _ => text::value(metric, text),
        };
        put(metric, metrics, value);
    }

    /// The name from its own file, to the last newline.
    fn comm(&mut self, files: &mut Numbered<'_>) -> Option<Name> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let name = files.read(c"comm", &mut buffer).ok();
        let name = name.map(|text| self.name(text.strip_suffix(b"\n").unwrap_or(text)));
        self.buffer = buffer;
        name
    }

    fn affinity(&mut self, tid: u32, metrics: &mut Metrics) {
        if self.tree == Tree::Live {
            metrics.cpu_affinity = affinity::of(tid, &mut self.cpu_mask).ok().map(crate::model::CpuSet);
        }
    }

    fn status(&mut self, files: &mut Numbered<'_>, metrics: &mut Metrics) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(text) = self.read(files, File::Status, &mut buffer) {
            self.status.each(text, |metric, text| {
                // The first source that gives a value counts.
                if metric.get(metrics).is_none() {
                    put(metric, metrics, text::value(metric, text));
                }
            });
        }
        self.buffer = buffer;
    }

    fn schedstat(&mut self, files: &mut Numbered<'_>, metrics: &mut Metrics) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(text) = self.read(files, File::Schedstat, &mut buffer) {
            let columns = text.trim_ascii().split(|&b| b == b' ');
            for (column, text) in columns.enumerate() {
                if let Some((_, metric)) = self.schedstat.iter().find(|(place, _)| *place == column) {
                    put(metric, metrics, text::value(metric, text));
                }
            }
        }
        self.buffer = buffer;
    }

    /// Reads `sched`; the number of times in it that are negative.
    fn sched(&mut self, files: &mut Numbered<'_>, metrics: &mut Metrics) -> u64 {
        let mut negative = 0;
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(text) = self.read(files, File::Sched, &mut buffer) {
            self.sched.each(text::after_heading(text), |metric, text| {
                negative += u64::from(text.starts_with(b"-"));
                put(metric, metrics, text::value(metric, text));
            });
        }
        self.buffer = buffer;
        metrics.voluntary_sleep_ns = voluntary_sleep(metrics);
        negative
    }

    /// Reads `io`: all its keys or none.
    fn io(&mut self, files: &mut Numbered<'_>, metrics: &mut Metrics) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(text) = self.read(files, File::Io, &mut buffer) {
            self.io.each(text, |metric, text| put(metric, metrics, text::value(metric, text)));
            let of_io = || METRICS.iter().filter(|metric| matches!(metric.sources.procfs, [Source::Io(_)]));
            if of_io().any(|metric| metric.get(metrics).is_none()) {
                of_io().for_each(|metric| metric.clear(metrics));
            }
        }
        self.buffer = buffer;
    }

    fn cgroup(&mut self, files: &mut Numbered<'_>) -> Option<Name> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let path = self.read(files, File::Cgroup, &mut buffer).and_then(|text| self.cgroups.identify(text));
        self.buffer = buffer;
        path
    }
}

/// The kernel's sleep sum, which [`Reader::sched`] has put here, includes the blocking.
fn voluntary_sleep(metrics: &Metrics) -> Option<MonotonicNs> {
    let (sleep, block) = (metrics.voluntary_sleep_ns?, metrics.block_sum?);
    Some(MonotonicNs(sleep.0.saturating_sub(block.0)))
}

/// A value that the metric can't hold is as good as one that does not parse: absent.
fn put(metric: &Metric, metrics: &mut Metrics, value: Option<Value<'static>>) {
    if let Some(value) = value {
        let _ = metric.set(metrics, value);
    }
}

/// Scheduling policies of `include/uapi/linux/sched.h`, by name.
fn policy(number: u64) -> Value<'static> {
    Value::Name(match number {
        0 => "SCHED_OTHER",
        1 => "SCHED_FIFO",
        2 => "SCHED_RR",
        3 => "SCHED_BATCH",
        5 => "SCHED_IDLE",
        6 => "SCHED_DEADLINE",
        7 => "SCHED_EXT",
        _ => return Value::Text(Cow::Owned(format!("SCHED_UNKNOWN({number})"))),
    })
}

#[cfg(test)]
mod tests {
    use super::super::folder::Folder;
    use super::*;

    /// A thread folder with the given files, read as a recorded tree.
    fn read(tid: u32, files: &[(&str, &[u8])]) -> (Option<ThreadState>, Tally) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(tid.to_string());
        std::fs::create_dir(&folder).unwrap();
        for (name, content) in files {
            std::fs::write(folder.join(name), content).unwrap();
        }
        let mut tally = Tally::default();
        let tasks = Folder::open(dir.path()).unwrap();
        let mut files = Numbered::new(&tasks, tid);
        let read = Reader::new(Tree::Elsewhere).thread(&mut files, 7, tid, &mut tally);
        (read.map(|read| read.thread), tally)
    }

    const STAT: &[u8] = b"7 (init) S 0 0 0 0 -1 4194560 73 936 5 0 2 96 1 13 20 -5 1 0 42 2392064 417";

    #[test]
    fn a_field_of_stat_that_does_not_parse_is_absent_and_the_others_stand() {
        let (thread, _) = read(7, &[("stat", b"7 (x) S 0 0 0 0 -1 0 nine 0 5 0 2 96 1 13 20 99999999999 1 0 42")]);
        let thread = thread.unwrap();
        assert_eq!((thread.metrics.minflt, thread.metrics.majflt), (None, Some(5.into())));
        assert_eq!((thread.metrics.priority, thread.metrics.nice), (Some(20.into()), None));
        assert_eq!(thread.start_time_clock_ticks, Some(42));
    }

    #[test]
    fn a_thread_that_is_gone_is_a_ghost_and_its_failures_do_not_count() {
        let (thread, tally) = read(7, &[]);
        assert!(thread.is_none());
        assert_eq!((tally.ghosts, tally.summary().read_failures), (1, 0));
    }

    #[test]
    fn missing_files_of_a_living_thread_are_counted_with_their_errno() {
        let (_, tally) = read(7, &[("stat", STAT), ("status", b""), ("sched", b""), ("cgroup", b"0::/\n")]);
        let summary = tally.summary();
        assert_eq!(summary.read_failures_by_file, [("io".into(), 1), ("schedstat".into(), 1)].into());
        assert!(summary.kernel_config_dominant);
    }

    #[test]
    fn the_number_of_threads_stands_on_the_leader_only() {
        let files: &[(&str, &[u8])] = &[("stat", STAT), ("status", b"State:\tS (sleeping)\nThreads:\t9\n")];
        assert_eq!(read(7, files).0.unwrap().metrics.nr_threads, Some(9.into()));
        let other = read(8, files).0.unwrap().metrics;
        assert_eq!((other.nr_threads, other.state), (None, Some('S')));
    }

    #[test]
    fn negative_times_are_absent_and_counted_once_a_value() {
        let sched = b"wait_max : -5.000001\nwait_sum : -0.000001\nexec_max : 1.000000\nse.exec_start : -1.0\n";
        let (thread, tally) = read(7, &[("stat", STAT), ("sched", sched)]);
        let metrics = thread.unwrap().metrics;
        assert_eq!((metrics.wait_max, metrics.wait_sum), (None, None));
        assert_eq!(metrics.exec_max, Some(1_000_000.into()));
        assert_eq!(tally.negative_times, 2);
    }

    #[test]
    fn sleep_by_choice_is_sleep_less_blocking_and_needs_both() {
        let both = b"sum_sleep_runtime : 50.751655\nsum_block_runtime : 4.867026\n";
        let metrics = read(7, &[("stat", STAT), ("sched", both)]).0.unwrap().metrics;
        assert_eq!(metrics.voluntary_sleep_ns, Some(MonotonicNs(45_884_629)));
        // Linux 5.10 prints the sleep sum only.
        let one = b"se.statistics.sum_sleep_runtime : 39.630148\n";
        assert_eq!(read(7, &[("stat", STAT), ("sched", one)]).0.unwrap().metrics.voluntary_sleep_ns, None);
        let more = b"sum_sleep_runtime : 1.0\nsum_block_runtime : 2.0\n";
        let metrics = read(7, &[("stat", STAT), ("sched", more)]).0.unwrap().metrics;
        assert_eq!(metrics.voluntary_sleep_ns, Some(MonotonicNs(0)));
    }

    #[test]
    fn io_is_taken_whole_or_not_at_all() {
        let whole: &[u8] =
            b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
        let metrics = read(7, &[("stat", STAT), ("io", whole)]).0.unwrap().metrics;
        assert_eq!(metrics.cancelled_write_bytes, Some(7.into()));
        let metrics = read(7, &[("stat", STAT), ("io", &whole[..30])]).0.unwrap().metrics;
        assert_eq!(metrics.rchar, None);
    }

    #[test]
    fn names_that_are_not_text_are_kept_byte_by_byte() {
        let name = |stat: &[u8], comm: &[u8]| read(7, &[("stat", stat), ("comm", comm)]).0.unwrap().comm;
        assert_eq!(&*name(b"7 (caf\xc3) S 1", b""), "caf\\xc3");
        assert_eq!(&*name(b"7 (a\nb)c) S 1", b""), "a\nb)c");
        assert_eq!(&*name(b"7 (\x1b[31m) S 1", b""), "\x1b[31m");
        // Before Linux 4.18 `stat` escapes a newline, so `comm` decides.
        assert_eq!(&*name(b"7 (a\\nb) S 1", b"a\nb\n"), "a\nb");
    }

    #[test]
    fn policies_have_the_kernels_names() {
        let policy_of = |number: &str| {
            let stat = format!("7 (x) S{} {number} 0", " 0".repeat(37));
            read(7, &[("stat", stat.as_bytes())]).0.unwrap().metrics.policy.unwrap().0
        };
        assert_eq!(policy_of("0"), "SCHED_OTHER");
        assert_eq!(policy_of("7"), "SCHED_EXT");
        assert_eq!(policy_of("4"), "SCHED_UNKNOWN(4)");
    }
}
