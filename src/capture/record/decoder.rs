//! Exit records of taskstats as threads.

use std::collections::HashMap;

use super::super::enrich::taskstats::Kept;
use super::super::enrich::taskstats::fields::{self, Threads};
use super::super::ticks::Ticks;
use super::exited::ExitedThread;
use super::packed::Packed;
use crate::model::{METRICS, Metric, MetricId, Metrics, MonotonicCount, MonotonicNs, Name, ThreadState, printable};

/// A field of `struct taskstats` that is no metric: offset in version 16, version that added it, size.
type Place = (u16, u16, usize);

const VERSION: Place = (0, 8, 2);
const COMM: Place = (80, 8, 16);
const PID: Place = (128, 8, 4);
const PPID: Place = (132, 8, 4);
const ELAPSED_US: Place = (144, 8, 8);
const TGID: Place = (368, 12, 4);

fn read<const N: usize>(stats: &[u8], (at, since, size): Place) -> Option<[u8; N]> {
    fields::bytes(stats, at, since, size)?.try_into().ok()
}

/// Process id of kthreadd, the parent of kernel threads.
const KTHREADD: u32 = 2;
const NS_PER_US: u64 = 1000;
/// The longest time between two ticks of a kernel (`CONFIG_HZ` of 100).
const LONGEST_TICK_NS: u64 = 10_000_000;

/// Records of taskstats.
#[derive(Debug)]
pub(super) struct TaskstatsExits {
    records: Packed,
    kept: Kept,
}

impl TaskstatsExits {
    pub(super) fn new(records: Packed, kept: Kept) -> Self {
        Self { records, kept }
    }

    /// The threads, in the order in which their records were received.
    pub(super) fn threads(&self) -> impl Iterator<Item = ExitedThread> {
        let mut decoder = Decoder::new(self.kept);
        self.records.iter().filter_map(move |(time, stats)| decoder.thread(time, &stats))
    }
}

/// The words of the kernel's struct, a bit each, that threads are made from.
pub(super) fn needed_words(stats: &[u8]) -> u128 {
    let metrics = METRICS.iter().filter_map(Metric::exit_record);
    let metrics = metrics.map(|field| (field.at, field.since, field.form.size()));
    let all = metrics.chain([VERSION, COMM, PID, PPID, ELAPSED_US, TGID]);
    let words = all.filter_map(|(at, since, size)| {
        let start = usize::from(fields::offset(stats, at, since)?);
        Some(start / 8..=(start + size - 1) / 8)
    });
    words.flatten().filter(|&word| word < 128).fold(0, |bits, word| bits | 1 << word)
}

/// Completes the run time of a thread that never blocked: it was on a CPU whenever it did not wait for one.
///
/// The kernel adds to a run time at ticks and context switches (`update_curr` of `kernel/sched/fair.c`), so that
/// a record lacks the time since the last of them, which is most of the time of short processes. What is longer than a
/// tick is something else: a thread's life begins in `copy_process` of `kernel/fork.c`, and the thread that creates it
/// may have to wait for a CPU until it has done so.
fn complete_run_time(elapsed_ns: u64, metrics: &mut Metrics) {
    let never_blocked = metrics.voluntary_csw == Some(MonotonicCount(0));
    if let (true, Some(MonotonicNs(run)), Some(wait)) = (never_blocked, &mut metrics.run_time_ns, metrics.wait_time_ns)
    {
        let lacking = elapsed_ns.saturating_sub(wait.0).saturating_sub(*run);
        *run += if lacking <= LONGEST_TICK_NS { lacking } else { 0 };
    }
}

/// Turns records into threads.
struct Decoder {
    kept: Kept,
    names: HashMap<[u8; 16], Name>,
    user: Ticks,
    system: Ticks,
}

impl Decoder {
    fn new(kept: Kept) -> Self {
        Self { kept, names: HashMap::new(), user: Ticks::default(), system: Ticks::default() }
    }

    fn thread(&mut self, received_monotonic_ns: u64, stats: &[u8]) -> Option<ExitedThread> {
        let (tid, ppid) = (u32::from_ne_bytes(read(stats, PID)?), u32::from_ne_bytes(read(stats, PPID)?));
        let tgid = read(stats, TGID).map(u32::from_ne_bytes);
        let elapsed_ns = u64::from_ne_bytes(read(stats, ELAPSED_US)?).saturating_mul(NS_PER_US);
        let comm = self.name(read(stats, COMM)?);
        let kernel_thread = ppid == KTHREADD;
        let threads = if kernel_thread { Threads::Kernel } else { Threads::User };
        let mut metrics = Box::<Metrics>::default();
        fields::fill(stats, self.kept, threads, Metric::exit_record, &mut metrics);
        complete_run_time(elapsed_ns, &mut metrics);
        self.split_cpu_time(stats, &mut metrics);
        Some(ExitedThread {
            state: ThreadState {
                tid,
                tgid: tgid.unwrap_or(tid),
                comm,
                kernel_thread,
                metrics,
                ..ThreadState::default()
            },
            tgid,
            ppid,
            started_monotonic_ns: received_monotonic_ns.saturating_sub(elapsed_ns),
            elapsed_ns,
        })
    }

    /// Divides the run time into user and system time as procfs does (`cputime_adjust` of
    /// `kernel/sched/cputime.c`): records have the times that the kernel samples, which most threads are too
    /// short for.
    fn split_cpu_time(&mut self, stats: &[u8], metrics: &mut Metrics) {
        let sampled = |id: MetricId| fields::number(stats, id.metric().exit_record()?);
        let Some((user, system)) = sampled(MetricId::utime_clock_ticks).zip(sampled(MetricId::stime_clock_ticks))
        else {
            return;
        };
        let sampled_ns = user.saturating_add(system).saturating_mul(NS_PER_US);
        let run = metrics.run_time_ns.map_or(sampled_ns, |MonotonicNs(ns)| ns);
        let (user, system) = (u128::from(user), u128::from(system));
        let system = u64::try_from(u128::from(run) * system / (user + system).max(1)).unwrap_or(run);
        metrics.utime_clock_ticks = Some(self.user.add(run - system));
        metrics.stime_clock_ticks = Some(self.system.add(system));
    }

    /// The name in these bytes. Threads with equal names share one allocation.
    fn name(&mut self, bytes: [u8; 16]) -> Name {
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        self.names.entry(bytes).or_insert_with(|| printable(text).into()).clone()
    }
}

/// Reads any bytes as the struct in a record.
#[cfg(fuzzing)]
pub(in crate::capture) fn fuzz(stats: &[u8]) {
    let mut packed = Packed::new(1);
    if packed.push(7, stats, needed_words(stats)).is_ok() {
        let stored: Vec<_> = TaskstatsExits::new(packed, Kept::ALL).threads().collect();
        assert!(stored.into_iter().eq(Decoder::new(Kept::ALL).thread(7, stats)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::ticks::NS_PER_TICK;
    use super::*;

    const TGID_IN_16: usize = 368;

    /// A record of version 16 with numbers at some offsets.
    fn record(numbers: &[(usize, u64)]) -> Vec<u8> {
        let mut stats = vec![0; 560];
        stats[..2].copy_from_slice(&16u16.to_ne_bytes());
        stats[80..87].copy_from_slice(b"cc1plus");
        for &(at, number) in numbers {
            stats[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        }
        stats
    }

    fn threads(records: &[Vec<u8>]) -> Vec<ExitedThread> {
        let mut packed = Packed::new(1);
        records.iter().for_each(|stats| packed.push(5_000_000_000, stats, needed_words(stats)).unwrap());
        TaskstatsExits::new(packed, Kept::ALL).threads().collect()
    }

    #[test]
    fn a_record_is_a_thread_with_its_ids_and_values() {
        let pid_and_parent = u64::from(41u32) | u64::from(7u32) << 32;
        let stats = record(&[(128, pid_and_parent), (144, 2500), (168, 33), (272, 4), (TGID_IN_16, 40)]);
        let [thread] = threads(&[stats]).try_into().unwrap();
        let ThreadState { tid, tgid, comm, metrics, pcomm, cgroup, start_time_clock_ticks, .. } = thread.state;
        assert_eq!((tid, tgid, &*comm, thread.tgid, thread.ppid), (41, 40, "cc1plus", Some(40), 7));
        assert_eq!((thread.elapsed_ns, thread.started_monotonic_ns), (2_500_000, 4_997_500_000));
        assert_eq!((metrics.minflt, metrics.voluntary_csw), (Some(33.into()), Some(4.into())));
        assert_eq!((&*pcomm, cgroup, start_time_clock_ticks), ("", None, None));
    }

    #[test]
    fn storage_keeps_every_word_that_a_thread_is_made_from() {
        for (version, length) in
            [(8u16, 328), (10, 352), (14, 432), (14, 560), (15, 560), (16, 560), (17, 688), (12, 372), (99, 4000)]
        {
            let mut stats: Vec<u8> = (1..=251).cycle().take(length).collect();
            stats[..2].copy_from_slice(&version.to_ne_bytes());
            let direct = Decoder::new(Kept::ALL).thread(5_000_000_000, &stats);
            assert_eq!(threads(&[stats]), Vec::from_iter(direct), "version {version}");
        }
    }

    #[test]
    fn before_version_12_the_process_of_a_thread_is_unknown() {
        let mut stats = record(&[(128, 41), (TGID_IN_16, 40)]);
        stats[..2].copy_from_slice(&10u16.to_ne_bytes());
        stats.truncate(352);
        let [thread] = threads(&[stats]).try_into().unwrap();
        assert_eq!((thread.state.tid, thread.state.tgid, thread.tgid), (41, 41, None));
    }

    #[test]
    fn children_of_kthreadd_are_kernel_threads() {
        let parent = |ppid: u64| threads(&[record(&[(128, 41 | ppid << 32)])])[0].state.kernel_thread;
        assert_eq!([parent(2), parent(1), parent(0)], [true, false, false]);
    }

    // Offsets: times in µs, times in ns, voluntary switches.
    const ELAPSED: usize = 144;
    const USER: usize = 152;
    const SYSTEM: usize = 160;
    const RUN: usize = 72;
    const WAIT: usize = 24;
    const SWITCHES: usize = 272;

    fn run_time(numbers: &[(usize, u64)]) -> u64 {
        threads(&[record(numbers)])[0].state.metrics.run_time_ns.unwrap().0
    }

    #[test]
    fn a_short_process_has_the_run_time_that_the_kernel_has_not_added_yet() {
        let times = [(ELAPSED, 1000), (RUN, 120_000), (WAIT, 300_000)];
        assert_eq!(run_time(&times), 700_000, "never blocked: elapsed − wait");
        assert_eq!(run_time(&[&times[..], &[(SWITCHES, 1)]].concat()), 120_000, "it also slept");
        assert_eq!(run_time(&[(ELAPSED, 1000), (RUN, 900_000), (WAIT, 300_000)]), 900_000, "never less");
    }

    #[test]
    fn the_wait_of_the_parent_that_creates_a_process_is_no_run_time_of_it() {
        let times = |elapsed_us| [(ELAPSED, elapsed_us), (RUN, 120_000), (WAIT, 300_000)];
        assert_eq!(run_time(&times(10_420)), 10_120_000, "a tick");
        assert_eq!(run_time(&times(10_421)), 120_000, "longer than a tick");
    }

    #[test]
    fn the_run_time_is_divided_into_user_and_system_time_as_it_was_sampled() {
        let ticks = |run, user, system| {
            let stats = record(&[(SWITCHES, 1), (RUN, run), (USER, user), (SYSTEM, system)]);
            let metrics = threads(&[stats])[0].state.metrics.clone();
            (metrics.utime_clock_ticks.unwrap().0, metrics.stime_clock_ticks.unwrap().0)
        };
        assert_eq!(ticks(1_000_000_000, 4000, 12_000), (25, 75));
        assert_eq!(ticks(1_000_000_000, 0, 0), (100, 0), "as procfs");
        assert_eq!(ticks(1_000_000_000, 0, 1), (0, 100));
        assert_eq!(ticks(u64::MAX, u64::MAX, u64::MAX).1, u64::MAX / 2 / NS_PER_TICK, "no overflow");
    }

    #[test]
    fn many_short_threads_have_the_ticks_of_their_total() {
        let short = record(&[(SWITCHES, 1), (RUN, 1_000_000)]);
        let ticks = threads(&vec![short; 2000]).into_iter().map(|thread| thread.state.metrics.utime_clock_ticks);
        assert_eq!(ticks.map(|ticks| ticks.unwrap().0).sum::<u64>(), 200, "2 s, 1 ms each");
    }

    #[test]
    fn a_record_too_short_for_ids_is_no_thread() {
        assert_eq!(threads(&[record(&[])[..100].to_vec()]), []);
        assert_eq!(threads(&[vec![]]), []);
    }
}
