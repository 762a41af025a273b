//! Records as threads, with the values that procfs would print.

use std::collections::HashMap;

use super::super::cgroup_ids::CgroupIds;
use super::super::read_threads::ReadThread;
use super::super::thread_flags::{PF_EXITING, PF_KTHREAD, is_forked};
use super::cgroup_fields::CgroupFields;
use super::columns;
use super::cpu_time::CpuTime;
use super::host_parameters::HostParameters;
use super::layout::{Field, Layout, ThreadRecord};
use super::name_cache::NameCache;
use super::process_counters::{ProcessCounters, ProcessFields};
use super::value::{CpuTimeFields, MetricField, ThreadInputs, cpu_time, pages};
use crate::model::{
    Class, CpuSet, FieldForm, METRICS, Metric, MetricId, Metrics, NS_PER_TICK, RESIDENT, SharedMetricsCache,
    ThreadState, Value, read_time,
};

/// Policies with a slice in procfs (`fair_policy` of kernel/sched/sched.h).
const FAIR: [&str; 3] = ["SCHED_OTHER", "SCHED_BATCH", "SCHED_EXT"];

/// Turns records into threads.
pub(super) struct RecordReader {
    parameters: HostParameters,
    metrics: Vec<(&'static Metric, MetricField)>,
    /// In the order of [`columns::OF_THREADS`].
    of_threads: [Option<Field>; columns::OF_THREADS.len()],
    comm: Option<Field>,
    sched_class: Option<Field>,
    cpu_time: CpuTimeFields,
    /// In the order of [`columns::WAIT_IN_PROGRESS`].
    wait_in_progress: [Option<Field>; columns::WAIT_IN_PROGRESS.len()],
    pub(super) cgroups: CgroupFields,
    resident: Vec<Option<Field>>,
    of_processes: ProcessFields,
    pub(super) names: NameCache,
    shared_metrics: SharedMetricsCache,
    cpus: HashMap<Box<[u64]>, CpuSet>,
}

pub(super) struct BpfThread {
    pub(super) state: ThreadState,
    pub(super) kernel: KernelFields,
}

impl From<BpfThread> for ReadThread {
    fn from(BpfThread { state, kernel }: BpfThread) -> Self {
        let KernelFields { thread_pointer, resident_bytes, .. } = kernel;
        Self { thread_pointer, resident_bytes: resident_bytes.map(Into::into), ..state.into() }
    }
}

/// Values of a thread that only BPF reads, or that later steps of the capture need.
#[derive(Default)]
pub(super) struct KernelFields {
    /// `PF_` flags of `include/linux/sched.h`.
    pub(super) flags: u64,
    /// When it started, in nanoseconds of `CLOCK_BOOTTIME`.
    pub(super) start_ns: Option<u64>,
    /// Ids of its cgroups, as procfs shows them.
    pub(super) cgroups: CgroupIds,
    /// Equal for threads of the same scheduling class.
    pub(super) sched_class: Option<u64>,
    /// Address of the thread-local storage; `None` for threads without their own.
    pub(super) thread_pointer: Option<u64>,
    /// Resident memory of the process, on the first thread only.
    pub(super) resident_bytes: Option<u64>,
    pub(super) cpu_time: Option<CpuTime>,
    /// The counters of the process, on the first thread only.
    pub(super) process: Option<Box<ProcessCounters>>,
}

impl RecordReader {
    pub(super) fn new(layout: &Layout, parameters: &HostParameters) -> Self {
        let find = |path: &str| layout.find(path);
        let source = |metric: &'static Metric| Some((metric, MetricField::find(metric.sources.bpf?, find)?));
        Self {
            metrics: METRICS.iter().filter(|metric| parameters.count(metric)).filter_map(source).collect(),
            of_threads: columns::OF_THREADS.map(find),
            comm: find(columns::COMM),
            sched_class: find(columns::SCHED_CLASS),
            cpu_time: columns::CPU_TIME.map(find),
            wait_in_progress: columns::WAIT_IN_PROGRESS.map(find),
            cgroups: CgroupFields::find(layout),
            resident: RESIDENT.iter().map(|path| find(path)).collect(),
            of_processes: ProcessFields::find(find),
            parameters: parameters.clone(),
            names: NameCache::default(),
            shared_metrics: SharedMetricsCache::default(),
            cpus: HashMap::new(),
        }
    }

    pub(super) fn has(&self, metric: &Metric) -> bool {
        self.metrics.iter().any(|(own, _)| std::ptr::eq(*own, metric))
    }

    /// The thread of a record; `None` if it has no id.
    pub(super) fn thread(&mut self, record: ThreadRecord<'_>) -> Option<BpfThread> {
        let [tid, tgid, flags, exit_state, start, thread_pointer] = self.of_threads.map(|field| record.number(field));
        let id = |number: Option<u64>| u32::try_from(number?).ok().filter(|&id| id > 0);
        let (tid, tgid, flags) = (id(tid)?, id(tgid)?, flags?);
        let kernel_thread = flags & PF_KTHREAD != 0;
        let is_first = tid == tgid && !kernel_thread;
        let cpu_time = cpu_time(record, self.cpu_time);
        let cgroups = self.cgroups.keys(record);
        let common = ThreadInputs {
            cpu_time: cpu_time.map(|(time, printed)| time.adjusted(printed)),
            exit_state,
            page_size: self.parameters.page_size,
        };
        let mut state = ThreadState {
            tid,
            tgid,
            comm: self.names.name(record, self.comm),
            start_time_clock_ticks: start.map(|ns| ns / NS_PER_TICK),
            kernel_thread,
            forked: is_first && is_forked(flags),
            read_at_ns: self.parameters.start_monotonic_ns.map(|start| read_time(record.time().saturating_sub(start))),
            ..ThreadState::default()
        };
        self.fill(record, common, &mut state);
        let kernel = KernelFields {
            flags,
            start_ns: start,
            cgroups,
            sched_class: record.number(self.sched_class),
            thread_pointer: thread_pointer.filter(|_| has_own_thread_pointer(flags)),
            resident_bytes: if is_first { self.resident_bytes(record) } else { None },
            cpu_time: cpu_time.map(|(time, _)| time),
            process: is_first.then(|| Box::new(self.of_processes.read(record))),
        };
        Some(BpfThread { state, kernel })
    }

    fn resident_bytes(&self, record: ThreadRecord<'_>) -> Option<u64> {
        let counters = self.resident.iter().map(|field| record.number(*field));
        Some(pages(counters)?.saturating_mul(self.parameters.page_size))
    }

    fn fill(&mut self, record: ThreadRecord<'_>, common: ThreadInputs, thread: &mut ThreadState) {
        let is_first = thread.is_leader();
        let metrics = &mut *thread.metrics;
        metrics.rare = self.shared_metrics.next();
        for (metric, source) in &self.metrics {
            let value = match source.form {
                FieldForm::Cpus => {
                    let mask = record.words(source.field).filter(|_| !self.parameters.online.is_empty());
                    metrics.cpu_affinity = mask.map(|mask| cpus(&mut self.cpus, &self.parameters.online, mask));
                    continue;
                }
                FieldForm::Pages(_) | FieldForm::PageCounter if thread.kernel_thread => None,
                _ if metric.is_leader_only() && !is_first => None,
                _ if metric.class == Some(Class::FairPolicy) && !is_fair(metrics) => None,
                _ => source.value(metric, record, common),
            };
            // A value that the metric cannot hold is absent.
            if value.is_none_or(|value| metric.set(metrics, value).is_err()) {
                metric.clear(metrics);
            }
        }
        self.add_wait_in_progress(record, metrics);
        self.shared_metrics.share(&mut metrics.rare);
    }

    /// The kernel adds a wait when it ends: a thread that never gets a CPU would wait for none. One that sleeps can have been
    /// queued, if it was moved to another CPU before the kernel took it off its queue.
    fn add_wait_in_progress(&self, record: ThreadRecord<'_>, metrics: &mut Metrics) {
        let [Some(queued), Some(clock)] = self.wait_in_progress.map(|field| record.number(field)) else { return };
        if queued == 0 || clock <= queued || metrics.state != Some('R') {
            return;
        }
        for metric in [MetricId::wait_time_ns, MetricId::cpu_delay_total_ns].map(MetricId::metric) {
            if let Some(Value::Unsigned(waited)) = metric.get(metrics) {
                let all = Value::Unsigned(waited.saturating_add(clock - queued));
                metric.set(metrics, all).expect("the metric had such a value");
            }
        }
    }
}

/// Whether a thread with these `PF_` flags has its own thread-local storage. Workers that the kernel creates in a
/// process have the thread pointer of the thread that needed them, and exited threads may have released theirs.
fn has_own_thread_pointer(flags: u64) -> bool {
    /// Workers of io_uring (Linux 5.12).
    const PF_IO_WORKER: u64 = 0x10;
    /// Flag of user workers, such as vhost's (Linux 6.4).
    const PF_USER_WORKER: u64 = 0x4000;
    flags & (PF_KTHREAD | PF_EXITING | PF_IO_WORKER | PF_USER_WORKER) == 0
}

fn is_fair(metrics: &Metrics) -> bool {
    metrics.policy.as_ref().is_some_and(|policy| FAIR.contains(&&*policy.0))
}

/// Maximum number of distinct masks that are remembered: programs can make any number of masks.
const MAX_MASKS: usize = 1 << 12;

/// The CPUs of a mask that are online. Most threads have one of a few masks.
fn cpus(sets_by_mask: &mut HashMap<Box<[u64]>, CpuSet>, online: &[u32], mask: &[u64]) -> CpuSet {
    if let Some(cpus) = sets_by_mask.get(mask) {
        return cpus.clone();
    }
    let is_set = |cpu: &u32| {
        let word = usize::try_from(cpu / 64).ok().and_then(|word| mask.get(word));
        word.is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    };
    let cpus = CpuSet(online.iter().copied().filter(is_set).collect());
    if sets_by_mask.len() >= MAX_MASKS {
        sets_by_mask.clear();
    }
    sets_by_mask.insert(mask.into(), cpus.clone());
    cpus
}

#[cfg(test)]
mod tests {
    use super::super::layout::RecordScope;
    use super::super::tests::record_builder::RecordBuilder;
    use super::*;
    use crate::model::{CategoricalString, RareMetrics};

    const PID: u64 = 700;

    fn host_parameters() -> HostParameters {
        HostParameters {
            online: vec![0, 1, 2, 64],
            page_size: 4096,
            start_monotonic_ns: Some(1_000),
            schedstats: true,
            delays: true,
            irq_delays: true,
        }
    }

    fn read_by(parameters: HostParameters, record: &RecordBuilder) -> Option<BpfThread> {
        RecordReader::new(&record.layout, &parameters).thread(record.record())
    }

    fn read(record: &RecordBuilder) -> BpfThread {
        read_by(host_parameters(), record).unwrap()
    }

    /// The first thread of a process.
    fn leader() -> RecordBuilder {
        RecordBuilder::new().with([("pid", PID), ("tgid", PID)])
    }

    fn other_thread() -> RecordBuilder {
        leader().with([("pid", PID + 1)])
    }

    fn kernel_thread() -> RecordBuilder {
        leader().with([(columns::FLAGS, PF_KTHREAD)])
    }

    fn value<'t>(thread: &'t BpfThread, name: &str) -> Option<Value<'t>> {
        METRICS.iter().find(|metric| metric.name == name).unwrap().get(&thread.state.metrics)
    }

    #[test]
    fn a_thread_has_its_ids_name_and_times() {
        let name = u128::from_ne_bytes(*b"sh\0left-from-old");
        let [low, high] = [0, 64].map(|shift| u64::try_from(name >> shift & u128::from(u64::MAX)).unwrap());
        let words = if cfg!(target_endian = "little") { [low, high] } else { [high, low] };
        let record = other_thread().set(columns::COMM, &words).with([(columns::START_TIME, 29_999_999)]).at(21_999);
        let thread = read(&record).state;
        assert_eq!((thread.tgid, thread.tid, &*thread.comm), (700, 701, "sh"));
        assert_eq!((thread.start_time_clock_ticks, thread.read_at_ns), (Some(2), Some(20_000)));
        assert!(!thread.kernel_thread);
        let unknown = HostParameters { start_monotonic_ns: None, ..host_parameters() };
        assert_eq!(read_by(unknown, &record).unwrap().state.read_at_ns, None);
    }

    #[test]
    fn a_record_without_an_id_is_no_thread() {
        assert!(read_by(host_parameters(), &RecordBuilder::new()).is_none());
    }

    #[test]
    fn values_of_a_process_are_those_of_its_first_thread() {
        let (leader, other) = (read(&leader()), read(&other_thread()));
        assert_eq!((value(&leader, "nr_threads"), value(&other, "nr_threads")), (Some(Value::Unsigned(0)), None));
        assert!(leader.kernel.process.is_some() && other.kernel.process.is_none());
        assert_eq!((leader.kernel.resident_bytes, other.kernel.resident_bytes), (Some(0), None));
    }

    #[test]
    fn a_wait_that_has_not_ended_is_one_of_a_thread_that_is_ready_to_run() {
        let waited = |state: u64, queued: u64| {
            let times = [("sched_info.run_delay", 5), (columns::LAST_QUEUED, queued), ("se.cfs_rq->rq->clock", 350)];
            let metrics = read(&leader().with(times).with([(columns::STATE, state)])).state.metrics;
            [metrics.wait_time_ns.map(u64::from), metrics.cpu_delay_total_ns.map(u64::from)]
        };
        assert_eq!(waited(0, 100), [Some(255); 2]);
        assert_eq!(waited(0, 0), [Some(5); 2], "it has a CPU");
        assert_eq!(waited(0, 351), [Some(5); 2], "it was queued by another clock");
        assert_eq!(waited(1, 100), [Some(5); 2], "it sleeps");
    }

    #[test]
    fn kernel_threads_and_exited_threads_have_no_memory() {
        let anonymous = METRICS[MetricId::rss_anon_bytes as usize].sources.bpf.unwrap().path;
        let fields = [("mm->hiwater_rss", 7), (RESIDENT[1], 5), (anonymous, 4), ("mm->total_vm", 9)];
        let record = |record: RecordBuilder| record.with(fields);
        let thread = read(&record(leader()));
        assert_eq!(value(&thread, "hiwater_rss_bytes"), Some(Value::Unsigned(7 * 4096)));
        assert_eq!(thread.kernel.resident_bytes, Some(5 * 4096));
        assert_eq!(value(&thread, "rss_anon_bytes"), Some(Value::Unsigned(4 * 4096)));
        // A kernel thread uses the memory of a process at times.
        for thread in [read(&record(kernel_thread())), read(&record(leader()).null("mm"))] {
            assert_eq!(value(&thread, "hiwater_rss_bytes"), None);
            assert_eq!(value(&thread, "hiwater_vm_bytes"), None);
            assert_eq!(value(&thread, "rss_anon_bytes"), None);
            assert_eq!(thread.kernel.resident_bytes, None);
        }
        assert!(read(&kernel_thread()).kernel.process.is_none());
        assert!(read(&kernel_thread()).state.kernel_thread);
    }

    #[test]
    fn a_thread_pointer_is_its_own_or_absent() {
        let pointer = |flags| {
            let fields = [(columns::THREAD_POINTER, 0x7f00), (columns::FLAGS, flags)];
            read(&leader().with(fields)).kernel.thread_pointer
        };
        assert_eq!(pointer(0x40_0040), Some(0x7f00));
        for flags in [PF_KTHREAD, 0x4, 0x10, 0x4000] {
            assert_eq!(pointer(0x40_0040 | flags), None, "{flags:#x}");
        }
    }

    #[test]
    fn only_threads_of_a_fair_policy_have_a_slice() {
        let slice = |policy| {
            let thread = read(&leader().with([("policy", policy), ("se.slice", 2_800_000)]));
            value(&thread, "fair_slice_ns").is_some()
        };
        let with_slice: Vec<_> = (0..8).filter(|&policy| slice(policy)).collect();
        assert_eq!(with_slice, [0, 3, 7], "SCHED_OTHER, SCHED_BATCH, SCHED_EXT");
    }

    #[test]
    fn masks_have_the_cpus_that_are_online() {
        let path = "cpus_mask.bits | cpus_allowed.bits";
        let cpus = |parameters, mask: [u64; 2]| {
            let thread = read_by(parameters, &leader().set(path, &mask)).unwrap();
            thread.state.metrics.cpu_affinity.map(|cpus| cpus.0.to_vec())
        };
        assert_eq!(cpus(host_parameters(), [u64::MAX; 2]), Some(vec![0, 1, 2, 64]));
        assert_eq!(cpus(host_parameters(), [0b1010, 1]), Some(vec![1, 64]));
        assert_eq!(cpus(host_parameters(), [0b1000, 2]), Some(vec![]));
        let many = HostParameters { online: vec![1, 200], ..host_parameters() };
        assert_eq!(cpus(many, [u64::MAX; 2]), Some(vec![1]), "a CPU beyond the mask");
        let unknown = HostParameters { online: vec![], ..host_parameters() };
        assert_eq!(cpus(unknown, [u64::MAX; 2]), None);
    }

    #[test]
    fn what_the_kernel_does_not_count_is_absent() {
        let thread = read(&leader());
        assert_eq!(value(&thread, "nr_wakeups"), Some(Value::Unsigned(0)));
        assert_eq!(value(&thread, "blkio_delay_count"), Some(Value::Unsigned(0)));
        assert_eq!(value(&thread, "blkio_delay_min_ns"), None, "the shortest of no waits");
        let without = |parameters| read_by(parameters, &leader()).unwrap();
        assert_eq!(value(&without(HostParameters { schedstats: false, ..host_parameters() }), "nr_wakeups"), None);
        assert_eq!(value(&without(HostParameters { delays: false, ..host_parameters() }), "blkio_delay_count"), None);
        let older = read(&leader().null("delays"));
        assert_eq!(value(&older, "blkio_delay_count"), None, "started before delays were counted");
        assert_eq!(value(&older, "cpu_delay_count"), Some(Value::Unsigned(0)));
    }

    #[test]
    fn a_value_that_its_metric_cannot_hold_is_absent() {
        let thread = read(&leader().with([("rt_priority", u64::MAX), ("static_prio", u64::MAX >> 1), ("min_flt", 3)]));
        assert_eq!((value(&thread, "rt_priority"), value(&thread, "nice")), (None, None));
        assert_eq!(value(&thread, "minflt"), Some(Value::Unsigned(3)));
    }

    #[test]
    fn a_refused_field_costs_only_its_metrics() {
        let record = leader();
        let column = |path: &str| record.layout.columns.iter().position(|column| column.path == path).unwrap();
        let dropped = |path| {
            let mut record = leader();
            record.layout.dropped = [u16::try_from(column(path)).unwrap()].into();
            read_by(host_parameters(), &record)
        };
        let thread = dropped("policy").unwrap();
        assert_eq!((value(&thread, "policy"), value(&thread, "fair_slice_ns")), (None, None));
        assert_eq!(value(&thread, "voluntary_csw"), Some(Value::Unsigned(0)));
        assert_eq!(value(&dropped("exit_state").unwrap(), "state"), None);
        assert_eq!(value(&dropped("stime").unwrap(), "utime_clock_ticks"), None);
        assert!(dropped("flags").is_none(), "kernel threads would be unknown");
    }

    #[test]
    fn every_metric_with_a_field_has_a_value() {
        let record = leader().with([("policy", 3)]);
        let thread = read(&record);
        let is_absent = |metric: &&Metric| {
            let form = metric.sources.bpf.map(|field| field.form);
            form.is_some_and(|form| !matches!(form, FieldForm::Representative | FieldForm::Pages(_)))
                && metric.get(&thread.state.metrics).is_none()
        };
        let absent: Vec<_> = METRICS.iter().filter(is_absent).map(|metric| metric.name).collect();
        assert!(absent.iter().all(|name| name.ends_with("_delay_min_ns")), "{absent:?}");
        assert_eq!(thread.state.metrics.policy, Some(CategoricalString("SCHED_BATCH".into())));
    }

    #[test]
    fn no_record_stops_the_capture() {
        let mut reader = RecordReader::new(&leader().layout, &host_parameters());
        let mut read = |record: RecordBuilder| {
            let Some(mut thread) = reader.thread(record.record()) else { return 0 };
            let process = thread.kernel.process.take();
            process.map(|process| process.with_threads(&[(&thread.state.metrics, thread.kernel.cpu_time)]));
            1
        };
        for word in [0, 1, u64::MAX, u64::MAX >> 1, 1 << 63, 0xffff_ffff] {
            read(RecordBuilder::new().fill(|| word).with([("pid", PID), ("tgid", PID)]));
        }
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random.rotate_left(21)
        };
        let random = (5..=leader().layout.words(RecordScope::Process))
            .map(|words| read(leader().fill(&mut next).with([("pid", PID), ("tgid", PID)]).cut(words)));
        assert!(random.sum::<usize>() > 0);
    }

    #[test]
    fn threads_share_equal_rare_values_whatever_is_between_them() {
        let of_io = |bytes: u64| leader().with([("ioac.rchar", bytes)]);
        let mut reader = RecordReader::new(&leader().layout, &host_parameters());
        let threads = [1, 2, 2, 3, 2, 2].map(|bytes| reader.thread(of_io(bytes).record()).unwrap().state.metrics);
        assert_eq!(threads.each_ref().map(|metrics| metrics.rchar.map(u64::from)), [1, 2, 2, 3, 2, 2].map(Some));
        let shared = |one: usize, other: usize| std::ptr::eq::<RareMetrics>(&**threads[one], &**threads[other]);
        assert_eq!(
            [(1, 2), (2, 4), (4, 5), (0, 1), (2, 3)].map(|(a, b)| shared(a, b)),
            [true, true, true, false, false]
        );
    }

    #[test]
    fn equal_names_share_one_allocation() {
        let record = leader();
        let mut reader = RecordReader::new(&record.layout, &host_parameters());
        let names = [(); 2].map(|()| reader.thread(record.record()).unwrap().state.comm);
        assert!(crate::model::Name::ptr_eq(&names[0], &names[1]));
    }
}
