//! Records as threads, with the values that procfs would print.

use std::collections::{BTreeSet, HashMap};

use super::super::procfs::task::PF_KTHREAD;
use super::columns::{self, Level};
use super::cpu_time::CpuTime;
use super::facts::Facts;
use super::layout::{Field, Layout, Record};
use super::process_counters::{ProcessCounters, ProcessFields};
use super::value::{Common, CpuTimeFields, NS_PER_TICK, Source, pages};
use crate::model::{
    Class, CpuSet, FieldForm, METRICS, Metric, Metrics, Name, PROCESS, RESIDENT, ThreadState, printable,
};

/// The policies for which the kernel prints the slice (`fair_policy` of kernel/sched/sched.h).
const FAIR: [&str; 3] = ["SCHED_OTHER", "SCHED_BATCH", "SCHED_EXT"];

/// Turns records into threads.
pub(super) struct Reader {
    facts: Facts,
    metrics: Vec<(&'static Metric, Source)>,
    fields: Fields,
    names: HashMap<[u64; 2], Name>,
    cpus: HashMap<Box<[u64]>, CpuSet>,
}

/// Fields that are not metrics.
struct Fields {
    tid: Option<Field>,
    tgid: Option<Field>,
    comm: Option<Field>,
    flags: Option<Field>,
    exit_state: Option<Field>,
    start_time: Option<Field>,
    cgroups: Option<Field>,
    sched_class: Option<Field>,
    thread_pointer: Option<Field>,
    cpu_time: CpuTimeFields,
    resident: Vec<Option<Field>>,
    process: ProcessFields,
}

/// A thread as it was read.
pub(super) struct ReadThread {
    pub(super) state: ThreadState,
    pub(super) facts: ThreadFacts,
}

/// What later steps need of a thread.
#[derive(Default)]
pub(super) struct ThreadFacts {
    /// `PF_` flags of `include/linux/sched.h`.
    pub(super) flags: u64,
    /// Equal for threads in the same cgroups.
    pub(super) cgroups: Option<u64>,
    /// Equal for threads of the same scheduling class.
    pub(super) sched_class: Option<u64>,
    /// Address of the thread-local storage; `None` for kernel threads.
    pub(super) thread_pointer: Option<u64>,
    /// Resident memory of the process, on the first thread only.
    pub(super) resident_bytes: Option<u64>,
    pub(super) cpu_time: Option<CpuTime>,
    /// The counters of the process, on the first thread only.
    pub(super) process: Option<Box<ProcessCounters>>,
}

impl Reader {
    pub(super) fn new(layout: &Layout, dropped: &BTreeSet<u16>, level: Level, facts: &Facts) -> Self {
        let find = |path: &str| layout.find(path, dropped);
        let source = |metric: &'static Metric| Some((metric, Source::find(metric.sources.bpf?, find)?));
        let counted = METRICS.iter().filter(|metric| facts.count(metric));
        let metrics = counted.filter_map(source).collect();
        Self {
            metrics,
            fields: Fields::find(find, level),
            facts: facts.clone(),
            names: HashMap::new(),
            cpus: HashMap::new(),
        }
    }

    /// Whether records can have a value of this metric.
    pub(super) fn has(&self, metric: &Metric) -> bool {
        self.metrics.iter().any(|(known, _)| std::ptr::eq(*known, metric))
    }

    /// The thread of a record; `None` if it has no id in this PID namespace.
    pub(super) fn thread(&mut self, record: Record<'_>) -> Option<ReadThread> {
        let fields = &self.fields;
        let id = |field| u32::try_from(record.number(field)?).ok().filter(|&id| id > 0);
        let (tid, tgid) = (id(fields.tid)?, id(fields.tgid)?);
        let flags = record.number(fields.flags).unwrap_or(0);
        let kernel_thread = flags & PF_KTHREAD != 0;
        let is_first = tid == tgid && !kernel_thread;
        let start = record.number(fields.start_time);
        let cpu_time = fields.cpu_time.read(record);
        let common = Common {
            cpu_time: cpu_time.map(|(time, printed)| time.adjusted(printed)),
            exit_state: record.number(fields.exit_state).unwrap_or(0),
            page_size: self.facts.page_size,
        };
        let mut state = ThreadState {
            tid,
            tgid,
            comm: self.name(record),
            start_time_clock_ticks: start
                .map(|ns| ns.saturating_add_signed(self.facts.boottime_offset_ns) / NS_PER_TICK),
            kernel_thread,
            read_at_ns: Some(record.time().saturating_sub(self.facts.start_monotonic_ns)),
            ..ThreadState::default()
        };
        self.fill(record, common, &mut state);
        let fields = &self.fields;
        let facts = ThreadFacts {
            flags,
            cgroups: record.number(fields.cgroups),
            sched_class: record.number(fields.sched_class),
            thread_pointer: if kernel_thread { None } else { record.number(fields.thread_pointer) },
            resident_bytes: if is_first { self.resident_bytes(record) } else { None },
            cpu_time: cpu_time.map(|(time, _)| time),
            process: is_first.then(|| Box::new(fields.process.read(record))),
        };
        Some(ReadThread { state, facts })
    }

    fn resident_bytes(&self, record: Record<'_>) -> Option<u64> {
        let counters = self.fields.resident.iter().map(|field| record.number(*field).map(pages));
        Some(counters.sum::<Option<u64>>()?.saturating_mul(self.facts.page_size))
    }

    /// The name of the thread. Threads with equal names share one allocation.
    fn name(&mut self, record: Record<'_>) -> Name {
        let mut words = [0; 2];
        let read = self.fields.comm.and_then(|field| record.words(field)).unwrap_or_default();
        words.iter_mut().zip(read).for_each(|(to, from)| *to = *from);
        let name = || {
            let bytes = words.map(u64::to_ne_bytes).concat();
            printable(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into()
        };
        self.names.entry(words).or_insert_with(name).clone()
    }

    fn fill(&mut self, record: Record<'_>, common: Common, thread: &mut ThreadState) {
        let is_first = thread.is_leader();
        let metrics = &mut *thread.metrics;
        for (metric, source) in &self.metrics {
            match source.form {
                FieldForm::Cpus => {
                    let mask = record.words(source.field);
                    metrics.cpu_affinity = mask.map(|mask| cpus(&mut self.cpus, &self.facts.online, mask));
                    continue;
                }
                FieldForm::Pages(_) if thread.kernel_thread => continue,
                _ if metric.is_leader_only() && !is_first => continue,
                _ if metric.class == Some(Class::FairPolicy) && !is_fair(metrics) => continue,
                _ => {}
            }
            if let Some(value) = source.value(metric, record, common) {
                // A value that the metric cannot hold is absent.
                let _ = metric.set(metrics, value);
            }
        }
    }
}

fn is_fair(metrics: &Metrics) -> bool {
    metrics.policy.as_ref().is_some_and(|policy| FAIR.contains(&&*policy.0))
}

/// The CPUs of a mask that are online. Most threads have one of a few masks.
fn cpus(known: &mut HashMap<Box<[u64]>, CpuSet>, online: &[u32], mask: &[u64]) -> CpuSet {
    if let Some(cpus) = known.get(mask) {
        return cpus.clone();
    }
    let is_set = |cpu: &u32| {
        let word = usize::try_from(cpu / 64).ok().and_then(|word| mask.get(word));
        word.is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    };
    let cpus = CpuSet(online.iter().copied().filter(is_set).collect());
    known.insert(mask.into(), cpus.clone());
    cpus
}

impl Fields {
    fn find(find: impl Fn(&str) -> Option<Field>, level: Level) -> Self {
        let cpu_time = |[user, system, run, printed_user, printed_system]: [&str; 5]| CpuTimeFields {
            user: find(user),
            system: find(system),
            run: find(run),
            printed_user: find(printed_user),
            printed_system: find(printed_system),
        };
        Self {
            tid: find(&level.tid()),
            tgid: find(&level.tgid()),
            comm: find(columns::COMM),
            flags: find(columns::FLAGS),
            exit_state: find(columns::EXIT_STATE),
            start_time: find(columns::START_TIME),
            cgroups: find(columns::CGROUPS),
            sched_class: find(columns::SCHED_CLASS),
            thread_pointer: find(columns::THREAD_POINTER),
            cpu_time: cpu_time(columns::CPU_TIME),
            resident: RESIDENT.iter().map(|path| find(path)).collect(),
            process: ProcessFields {
                counters: PROCESS.iter().map(|counter| find(counter.source.field)).collect(),
                cpu_time: cpu_time(columns::PROCESS_CPU_TIME),
                parent: find(&level.parent()),
                parent_level: find(Level::OF_PARENT),
                level: level.0,
            },
        }
    }
}
