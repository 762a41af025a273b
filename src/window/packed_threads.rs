//! The threads of the earlier capture, packed: a million of them fit in memory while the later ones stream by.

use std::collections::{BTreeMap, HashMap};

use super::{CPU_TICKS, cpu_ticks};
use crate::model::{
    Census, InWindow, METRICS, Metric, MetricId, Metrics, Name, Owner, ProcessState, Reduction, Shape, ThreadId,
    ThreadState, Threads, Value, WindowRule,
};

/// The number of a thread's values fits one byte of LEB128.
const _: () = assert!(METRICS.len() < 128);

/// Threads of the earlier capture, by id.
#[derive(Clone, Debug, Default)]
pub struct PackedThreads {
    /// What a capture of these threads has.
    pub census: Census,
    pub(super) threads: Vec<PackedThread>,
    /// The metrics of all threads: for each thread the number of values, then its values with the index of
    /// their metrics.
    bytes: Vec<u8>,
    /// Texts and CPU sets of the values, each once.
    words: Words,
    /// Number of values of `smaps_rollup`.
    smaps_kinds: usize,
}

/// A thread, with its metrics elsewhere.
#[derive(Clone, Debug)]
pub(super) struct PackedThread {
    pub(super) id: ThreadId,
    pub(super) start_ticks: Option<u64>,
    pub(super) read_at_ns: u64,
    pub(super) pcomm: Name,
    pub(super) comm: Name,
    pub(super) program: Option<Name>,
    pub(super) cgroup: Option<Name>,
    pub(super) kernel_thread: bool,
    pub(super) owner: Option<Owner>,
    pub(super) process: Option<Box<ProcessState>>,
    process_after: Option<Box<ProcessState>>,
    smaps_rollup_kib: Option<BTreeMap<String, u64>>,
    /// Start of its metrics in the bytes.
    at: usize,
}

impl PackedThread {
    /// The counters of its process that include children, read after those of all threads: a child is in them, or
    /// was still captured.
    pub(super) fn process_after(&self) -> Option<&ProcessState> {
        self.process_after.as_deref().or(self.process.as_deref())
    }
}

/// Values that are not numbers.
#[derive(Clone, Debug, Default)]
struct Words {
    values: Vec<Value<'static>>,
    /// The index of each.
    places: HashMap<Value<'static>, u64>,
}

impl Words {
    /// The index of a value.
    fn index(&mut self, value: Value<'_>) -> u64 {
        let places: &HashMap<Value<'_>, u64> = &self.places;
        if let Some(place) = places.get(&value) {
            return *place;
        }
        let (place, value) = (u64::try_from(self.values.len()).expect("an index fits"), value.into_owned());
        self.values.push(value.clone());
        self.places.insert(value, place);
        place
    }
}

impl Threads for PackedThreads {
    fn another(&self) -> Self {
        Self::default()
    }

    fn add(&mut self, thread: ThreadState) {
        self.census.add(&thread);
        let at = self.bytes.len();
        self.pack(&thread.metrics);
        let id = thread.id();
        self.smaps_kinds += thread.smaps_rollup_kib.as_ref().map_or(0, BTreeMap::len);
        let ThreadState { start_time_clock_ticks, read_at_ns, pcomm, comm, program, cgroup, kernel_thread, .. } =
            thread;
        self.threads.push(PackedThread {
            id,
            start_ticks: start_time_clock_ticks,
            read_at_ns: read_at_ns.unwrap_or(0),
            pcomm,
            comm,
            program,
            cgroup,
            kernel_thread,
            owner: thread.owner,
            process: thread.process,
            process_after: thread.process_after,
            smaps_rollup_kib: thread.smaps_rollup_kib,
            at,
        });
    }

    fn append(&mut self, later: Self) {
        let Self { census, threads, bytes, words, smaps_kinds } = later;
        self.census.append(census);
        self.smaps_kinds += smaps_kinds;
        let moved = words.values.into_iter().map(|value| self.words.index(value)).collect::<Vec<_>>();
        let shift = self.bytes.len();
        if moved.iter().enumerate().all(|(from, to)| u64::try_from(from) == Ok(*to)) {
            self.bytes.extend(bytes);
            self.threads.extend(threads.into_iter().map(|thread| PackedThread { at: thread.at + shift, ..thread }));
            return;
        }
        for mut thread in threads {
            let mut reader = PackedReader { bytes: &bytes, at: thread.at };
            thread.at = self.bytes.len();
            let count = reader.number();
            push(&mut self.bytes, count);
            for _ in 0..count {
                let metric = reader.number();
                let number = reader.number();
                push(&mut self.bytes, metric);
                push(&mut self.bytes, if is_word(metric) { moved[index(number)] } else { number });
            }
            self.threads.push(thread);
        }
    }

    fn bytes(&self) -> usize {
        const BYTES_PER_KIND: usize = 128;
        self.threads.len() * size_of::<PackedThread>() + self.bytes.len() + self.smaps_kinds * BYTES_PER_KIND
    }
}

impl PackedThreads {
    /// The threads of a snapshot.
    pub fn of_threads(threads: impl IntoIterator<Item = ThreadState>) -> Self {
        let mut earlier = Self::default();
        threads.into_iter().for_each(|thread| earlier.add(thread));
        earlier
    }

    /// The index of a thread.
    pub(super) fn find(&self, id: ThreadId) -> Option<usize> {
        self.threads.binary_search_by_key(&id, |thread| thread.id).ok()
    }

    /// The run time of all threads of a process, in nanoseconds; `None` if that of one is unknown.
    pub(super) fn run_time_ns(&self, tgid: u32) -> Option<u64> {
        let leader = self.find(ThreadId { tgid, tid: tgid })?;
        let all = std::iter::once(leader).chain(self.siblings(leader));
        all.map(|place| self.value(place, MetricId::run_time_ns)).try_fold(0_u64, |sum, value| match value? {
            Value::Unsigned(ns) => Some(sum.saturating_add(ns)),
            _ => None,
        })
    }

    /// The places of the other threads of the process whose first thread is at `place`.
    pub(super) fn siblings(&self, place: usize) -> impl Iterator<Item = usize> + Clone {
        let tgid = self.threads[place].id.tgid;
        let first = self.threads.partition_point(|thread| thread.id.tgid < tgid);
        let end = self.threads.partition_point(|thread| thread.id.tgid <= tgid);
        (first..end).filter(move |sibling| *sibling != place)
    }

    /// Whether the thread at `place` had exited already.
    pub(super) fn had_exited(&self, place: usize) -> bool {
        matches!(self.value(place, MetricId::state), Some(Value::Letter('Z' | 'X')))
    }

    fn value(&self, place: usize, id: MetricId) -> Option<Value<'static>> {
        let mut found = None;
        self.each_value(place, |metric, value| {
            if metric.id == id {
                found = Some(value.clone());
            }
        });
        found
    }

    /// Replaces the metrics in `later` by those of a window that started with the thread at `place`, and calls
    /// `backwards` for each counter that went backwards.
    pub(super) fn subtract(&self, place: usize, later: &mut Metrics, mut backwards: impl FnMut(&'static Metric)) {
        let mut known = [false; METRICS.len()];
        let mut ticks = [None; CPU_TICKS.len()];
        let mut subtract = |metric: &'static Metric, value: &Value<'_>, later: &mut Metrics| {
            if metric.subtract(Some(value), later) == InWindow::Backwards {
                backwards(metric);
            }
        };
        self.each_value(place, |metric, value| {
            known[metric.id as usize] = true;
            match (CPU_TICKS.iter().position(|id| *id == metric.id), value) {
                (Some(part), Value::Unsigned(number)) => ticks[part] = Some(*number),
                _ if metric.window != WindowRule::Later => subtract(metric, value, later),
                _ => {}
            }
        });
        match cpu_ticks::subtract(ticks, later) {
            Some(InWindow::Backwards) => CPU_TICKS.iter().for_each(|id| backwards(id.metric())),
            Some(_) => {}
            None => {
                let parts = CPU_TICKS.iter().zip(ticks).filter_map(|(id, ticks)| Some((id.metric(), ticks?)));
                parts.for_each(|(metric, ticks)| subtract(metric, &Value::Unsigned(ticks), later));
            }
        }
        // Without an event there is a largest delay, of 0, and no smallest one: the first is of the window.
        let is_first = |metric: &Metric| metric.reduction == Reduction::Min && known[peak_of(metric) as usize];
        let unknown = METRICS.iter().filter(|metric| metric.window != WindowRule::Later && !known[metric.id as usize]);
        unknown.filter(|metric| !is_first(metric)).for_each(|metric| metric.clear(later));
    }

    /// Calls `found` for each value of the thread at `place`.
    fn each_value(&self, place: usize, mut found: impl FnMut(&'static Metric, &Value<'static>)) {
        let mut reader = PackedReader { bytes: &self.bytes, at: self.threads[place].at };
        for _ in 0..reader.number() {
            let metric = &METRICS[index(reader.number())];
            let number = reader.number();
            match metric.shape {
                Shape::Unsigned => found(metric, &Value::Unsigned(number)),
                Shape::Signed => found(metric, &Value::Signed(unfolded(number))),
                _ => found(metric, &self.words.values[index(number)]),
            }
        }
    }

    /// The thread at `place`, whole, under the names that it has later.
    pub(super) fn thread(&self, place: usize, later: &ThreadState) -> ThreadState {
        let packed = &self.threads[place];
        let mut thread = ThreadState {
            tid: packed.id.tid,
            tgid: packed.id.tgid,
            pcomm: Name::clone(&later.pcomm),
            comm: Name::clone(&later.comm),
            program: later.program.clone(),
            cgroup: later.cgroup.clone(),
            start_time_clock_ticks: packed.start_ticks,
            kernel_thread: packed.kernel_thread,
            name_complete: later.name_complete,
            read_at_ns: Some(packed.read_at_ns),
            owner: packed.owner,
            smaps_rollup_kib: packed.smaps_rollup_kib.clone(),
            ..ThreadState::default()
        };
        self.each_value(place, |metric, value| {
            metric.set(&mut thread.metrics, value.clone()).expect("the metric had this value");
        });
        thread
    }

    fn pack(&mut self, metrics: &Metrics) {
        let counted_at = self.bytes.len();
        self.bytes.push(0);
        let mut count = 0;
        for (place, metric) in METRICS.iter().enumerate() {
            let Some(value) = metric.get(metrics) else { continue };
            count += 1;
            let number = match value {
                Value::Unsigned(number) => number,
                Value::Signed(number) => folded(number),
                word => self.words.index(word),
            };
            push(&mut self.bytes, u64::try_from(place).expect("an index fits"));
            push(&mut self.bytes, number);
        }
        self.bytes[counted_at] = count;
    }
}

/// Whether the values of the metric at this index are words.
fn is_word(metric: u64) -> bool {
    !matches!(METRICS[index(metric)].shape, Shape::Unsigned | Shape::Signed)
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("it was an index")
}

/// Zigzag: small negative numbers become small numbers.
fn folded(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unfolded(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Appends a number as LEB128: seven bits per byte, the lowest first.
fn push(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & 0x7f).expect("seven bits");
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

struct PackedReader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl PackedReader<'_> {
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.bytes[self.at];
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return number;
            }
            shift += 7;
        }
    }
}

/// The largest delay of the kind whose smallest one this is: it precedes it in the table.
fn peak_of(floor: &Metric) -> MetricId {
    METRICS[(floor.id as usize).saturating_sub(1)].id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CategoricalString, CpuSet};

    fn thread(tid: u32, policy: &'static str, cpus: &[u32]) -> ThreadState {
        let mut thread = ThreadState { tid, tgid: 1, comm: "worker".into(), ..ThreadState::default() };
        let metrics = &mut thread.metrics;
        (metrics.run_time_ns, metrics.nice) = (Some(u64::MAX.into()), Some((-20).into()));
        (metrics.minflt, metrics.majflt) = (Some(u64::from(tid).into()), None);
        metrics.policy = Some(CategoricalString(policy.into()));
        metrics.cpu_affinity = Some(CpuSet(cpus.into()));
        thread
    }

    #[test]
    fn every_value_is_unpacked_as_it_was_packed_also_after_parts_were_appended() {
        let threads =
            [thread(1, "SCHED_OTHER", &[0, 1]), thread(2, "SCHED_FIFO", &[1]), thread(3, "SCHED_OTHER", &[1])];
        for cut in 0..=threads.len() {
            let mut earlier = PackedThreads::of_threads(threads[..cut].to_vec());
            earlier.append(PackedThreads::of_threads(threads[cut..].iter().rev().cloned()));
            for place in 0..threads.len() {
                let id = earlier.threads[place].id;
                let original = threads.iter().find(|thread| thread.id() == id).unwrap();
                let unpacked = earlier.thread(place, original);
                assert_eq!(unpacked.metrics, original.metrics, "cut at {cut}");
            }
        }
    }

    #[test]
    fn the_first_event_of_a_thread_is_the_smallest_of_the_window() {
        let smallest = |before: Metrics| {
            let earlier = ThreadState { tid: 1, tgid: 1, metrics: Box::new(before), ..ThreadState::default() };
            let packed = PackedThreads::of_threads(vec![earlier]);
            let mut later = Metrics { cpu_delay_min_ns: Some(5.into()), ..Metrics::default() };
            packed.subtract(0, &mut later, |_| {});
            later.cpu_delay_min_ns.map(u64::from)
        };
        assert_eq!(smallest(Metrics { cpu_delay_max_ns: Some(0.into()), ..Metrics::default() }), Some(5));
        assert_eq!(smallest(Metrics::default()), None, "it was not measured before");
        for floor in METRICS.iter().filter(|metric| metric.reduction == Reduction::Min) {
            assert_eq!(peak_of(floor).metric().name, floor.name.replace("_min_", "_max_"));
        }
    }

    #[test]
    fn numbers_of_any_size_are_packed_without_loss() {
        for number in [0, 1, 127, 128, 300, u64::MAX] {
            let mut bytes = Vec::new();
            push(&mut bytes, number);
            assert_eq!(PackedReader { bytes: &bytes, at: 0 }.number(), number);
        }
        for number in [0, -1, 1, -20, i64::MIN, i64::MAX] {
            assert_eq!(unfolded(folded(number)), number);
        }
    }

    #[test]
    fn a_thread_with_every_counter_takes_less_than_a_kibibyte() {
        let mut thread = thread(1, "SCHED_OTHER", &[0]);
        for metric in METRICS.iter().filter(|metric| metric.shape == Shape::Unsigned) {
            // 18 minutes in nanoseconds.
            drop(metric.set(&mut thread.metrics, Value::Unsigned(1 << 40)));
        }
        let earlier = PackedThreads::of_threads([thread]);
        let bytes = earlier.bytes.len() + size_of::<PackedThread>();
        assert!(bytes < 1024, "{bytes}");
    }
}
