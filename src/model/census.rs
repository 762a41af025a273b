//! Counts of threads that findings need, so that the threads themselves need not be kept.

use std::collections::BTreeMap;

use super::{METRIC_COUNT, METRICS, Metric, SourceFile, ThreadState};

/// Numbers of threads and processes, and the metrics that any thread has a value of.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Number of threads; in a window, at its end.
    pub threads: u64,
    /// Number of processes; in a window, at its end.
    pub processes: u64,
    /// Number of processes with a memory map of their own whose leader is among the threads.
    pub user_processes: u64,
    /// Number of kernel threads.
    pub kernel_threads: u64,
    /// Number of threads that run or wait for a CPU.
    pub runnable: u64,
    /// In a window, number of threads that started in it, including threads that also exited.
    pub started: u64,
    /// In a window, number of threads that exited in it. They are counted nowhere else.
    pub exited: u64,
    /// The metrics that any thread has a value of, a bit for each.
    present: u128,
    /// How many threads lack the values of each source, by its name. `None` if the census is of all threads of a capture, whose
    /// own counts also cover threads that it could not read.
    lacking: Option<BTreeMap<&'static str, u64>>,
    /// Process ids of the first and the last thread.
    ends: Option<(u32, u32)>,
}

const _: () = assert!(METRIC_COUNT <= 128);

impl Census {
    /// Counts threads, which must be sorted by process.
    pub fn from_threads(threads: &[ThreadState]) -> Self {
        let mut census = Self::default();
        threads.iter().for_each(|thread| census.add(thread));
        census
    }

    /// No threads yet of a part of a capture's threads.
    pub fn of_part() -> Self {
        Self { lacking: Some(BTreeMap::new()), ..Self::default() }
    }

    /// How many of these threads a capture could not read a source for, if it failed `count` times for all its threads.
    pub fn unread(&self, source: &str, count: u64) -> u64 {
        self.lacking.as_ref().map_or(count, |lacking| lacking.get(source).copied().unwrap_or(0).min(count))
    }

    /// Whether these are only some of the capture's threads.
    pub fn is_part(&self) -> bool {
        self.lacking.is_some()
    }

    /// Counts one more thread, of the last process or of a new one.
    pub fn add(&mut self, thread: &ThreadState) {
        let span = thread.span.unwrap_or_default();
        self.started = self.started.saturating_add(if span.started { span.count } else { 0 });
        self.exited = self.exited.saturating_add(if span.exited { span.count } else { 0 });
        if span.exited || thread.exited_work.is_some() {
            return;
        }
        self.threads += 1;
        self.processes += u64::from(self.ends.is_none_or(|(_, last)| last != thread.tgid));
        self.user_processes += u64::from(thread.is_leader() && thread.has_memory());
        self.kernel_threads += u64::from(thread.kernel_thread);
        self.runnable += u64::from(thread.metrics.state == Some('R'));
        self.ends = Some((self.ends.map_or(thread.tgid, |(first, _)| first), thread.tgid));
        let present = thread.metrics.present();
        self.present |= present;
        if let Some(lacking) = &mut self.lacking {
            for source in sources().filter(|source| lacks(thread, present, source)) {
                *lacking.entry(source).or_default() += 1;
            }
        }
    }

    /// Takes the numbers of threads, processes and kernel threads from all living threads, which must be sorted by process. Threads
    /// that were added before are only some of them.
    pub fn count_living<'t>(&mut self, all: impl Iterator<Item = &'t ThreadState>) {
        (self.threads, self.processes, self.kernel_threads) = (0, 0, 0);
        let mut last = None;
        for thread in all {
            self.threads += 1;
            self.processes += u64::from(last.replace(thread.tgid) != Some(thread.tgid));
            self.kernel_threads += u64::from(thread.kernel_thread);
        }
    }

    /// Counts the threads that follow these.
    pub fn append(&mut self, next: Self) {
        let Self { threads, processes, user_processes, kernel_threads, runnable, started, exited, .. } = next;
        let Self { present, lacking, ends, .. } = next;
        let shared = matches!((self.ends, ends), (Some((_, last)), Some((first, _))) if last == first);
        self.threads += threads;
        self.processes += processes - u64::from(shared);
        self.user_processes += user_processes;
        self.kernel_threads += kernel_threads;
        self.runnable += runnable;
        self.started = self.started.saturating_add(started);
        self.exited = self.exited.saturating_add(exited);
        self.present |= present;
        for (source, threads) in lacking.into_iter().flatten() {
            *self.lacking.get_or_insert_default().entry(source).or_default() += threads;
        }
        self.ends = match (self.ends, ends) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (before, after) => before.or(after),
        };
    }

    /// Whether any thread has a value of one of these metrics.
    pub fn has(&self, which: impl Fn(&'static Metric) -> bool) -> bool {
        self.present().any(which)
    }

    /// The metrics that any thread has a value of.
    pub fn present(&self) -> impl Iterator<Item = &'static Metric> + '_ {
        METRICS.iter().filter(|metric| self.present >> metric.id as u32 & 1 == 1)
    }
}

/// The sources whose failures captures count: files of procfs, and taskstats.
fn sources() -> impl Iterator<Item = &'static str> {
    SourceFile::KNOWN.iter().map(SourceFile::name).chain(["taskstats"])
}

/// Whether a thread with these metrics, a bit for each, has no value from a source.
fn lacks(thread: &ThreadState, present: u128, source: &str) -> bool {
    match source {
        "cgroup" => thread.cgroup.is_none(),
        "smaps_rollup" => thread.is_leader() && thread.has_memory() && thread.smaps_rollup_kib.is_none(),
        source => {
            let of_source = METRICS.iter().filter(|metric| metric.file() == source);
            of_source.fold(0, |bits, metric| bits | 1_u128 << metric.id as u32) & present == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tgid: u32, tid: u32) -> ThreadState {
        let mut thread = ThreadState { tgid, tid, kernel_thread: tgid == 2, ..ThreadState::default() };
        thread.metrics.minflt = (tid == 8).then(|| 0.into());
        thread
    }

    #[test]
    fn counting_in_parts_comes_to_the_same() {
        let threads = [thread(1, 1), thread(2, 2), thread(7, 7), thread(7, 8), thread(9, 10)];
        let whole = Census::from_threads(&threads);
        let counts = |census: &Census| (census.threads, census.processes, census.user_processes, census.kernel_threads);
        assert_eq!(counts(&whole), (5, 4, 2, 1));
        for cut in 0..=threads.len() {
            let mut parts = Census::from_threads(&threads[..cut]);
            parts.append(Census::from_threads(&threads[cut..]));
            assert_eq!(counts(&parts), counts(&whole), "cut at {cut}");
            assert!(parts.has(|metric| metric.name == "minflt") && !parts.has(|metric| metric.name == "majflt"));
        }
    }

    #[test]
    fn a_part_counts_only_the_failures_of_its_own_threads() {
        let mut read = thread(1, 1);
        read.metrics.rchar = Some(0.into());
        let mut part = Census::of_part();
        part.add(&read);
        assert_eq!((part.unread("io", 150), Census::from_threads(&[read]).unread("io", 150)), (0, 150));
        part.add(&thread(7, 7));
        assert_eq!((part.unread("io", 150), part.unread("io", 0)), (1, 0));
    }

    #[test]
    fn a_zombie_is_no_process_with_memory() {
        let mut zombie = thread(1, 1);
        zombie.metrics.state = Some('Z');
        let census = Census::from_threads(&[zombie, thread(7, 7)]);
        assert_eq!((census.processes, census.user_processes), (2, 1));
    }
}
