//! Fields that a program copies: fields of metrics and of processes, and fields that identify the thread.

use super::super::cgroup_ids::HIERARCHIES;
use super::layout::{FieldRequest, RecordScope};
use crate::model::{FieldForm, KernelField, METRICS, Metric, MetricId, PROCESS, RESIDENT, WindowRule};

pub(super) const TID: &str = "pid";
pub(super) const TGID: &str = "tgid";
/// The process of the parent, which can be any of its threads.
pub(super) const PARENT: &str = "real_parent->tgid";
pub(super) const COMM: &str = "comm";
pub(super) const FLAGS: &str = "flags";
pub(super) const EXIT_STATE: &str = "exit_state";
/// Start of the process or thread, in nanoseconds of `CLOCK_BOOTTIME`.
pub(super) const START_TIME: &str = "start_boottime | real_start_time";
/// Start of the process or thread, in nanoseconds of `CLOCK_MONOTONIC`.
pub(super) const START_MONOTONIC: &str = "start_time";
pub(super) const PROCESS_NAME: &str = "group_leader->comm";
/// Start of the process of a thread, as [`START_TIME`].
pub(super) const PROCESS_START: &str = "group_leader->start_boottime | group_leader->real_start_time";
/// The id of the thread's cgroup in each hierarchy, in the order of [`ACCOUNTING`](super::super::procfs::cgroup_paths::ACCOUNTING),
/// and the address of its `struct css_set`: threads in the same cgroups, in all hierarchies, have the same one.
pub(super) const CGROUPS: [&str; HIERARCHIES] = [
    "cgroups->subsys[cgroup_subsys_id.memory_cgrp_id]->cgroup->kn->id",
    "cgroups->subsys[cgroup_subsys_id.cpu_cgrp_id]->cgroup->kn->id",
    "cgroups->subsys[cgroup_subsys_id.cpuacct_cgrp_id]->cgroup->kn->id",
    "cgroups->subsys[cgroup_subsys_id.io_cgrp_id]->cgroup->kn->id",
    "cgroups->subsys[cgroup_subsys_id.pids_cgrp_id]->cgroup->kn->id",
    "cgroups->dfl_cgrp->kn->id",
    "cgroups",
];
/// How far each cgroup is below the root.
pub(super) const CGROUP_LEVELS: [&str; HIERARCHIES - 1] = [
    "cgroups->subsys[cgroup_subsys_id.memory_cgrp_id]->cgroup->level",
    "cgroups->subsys[cgroup_subsys_id.cpu_cgrp_id]->cgroup->level",
    "cgroups->subsys[cgroup_subsys_id.cpuacct_cgrp_id]->cgroup->level",
    "cgroups->subsys[cgroup_subsys_id.io_cgrp_id]->cgroup->level",
    "cgroups->subsys[cgroup_subsys_id.pids_cgrp_id]->cgroup->level",
    "cgroups->dfl_cgrp->level",
];
/// The architecture's register with the address of thread-local storage, saved or not.
pub(super) const THREAD_POINTER: &str = "thread.fsbase | thread.uw.tp_value";
pub(super) const SCHED_CLASS: &str = "sched_class";
pub(super) const STATE: &str = "__state | state";
pub(super) const ON_CPU: &str = "on_cpu";
pub(super) const VOLUNTARY_SWITCHES: &str = "nvcsw";
pub(super) const INVOLUNTARY_SWITCHES: &str = "nivcsw";
/// The lock that a thread waits for (Linux 6.16).
pub(super) const BLOCKER: &str = "blocker";
/// The CPU that a thread runs on, or in whose queue it is.
pub(super) const CPU: &str = "thread_info.cpu | cpu";
/// How many groups that the thread is in have used their CPU quota.
pub(super) const THROTTLED: &str = "throttled | se.cfs_rq->throttle_count";
/// The id of the thread that runs on its CPU.
pub(super) const RUNS_ON_ITS_CPU: &str = "se.cfs_rq->rq->curr->pid";
/// When a thread last got a CPU, and since when it waits for one, by the clock of the queue.
pub(super) const LAST_ARRIVAL: &str = "sched_info.last_arrival";
pub(super) const LAST_QUEUED: &str = "sched_info.last_queued";
/// Clock of the queue that a thread is in, in nanoseconds. It is as old as the last tick or switch on that CPU.
const QUEUE_CLOCK: &str = "se.cfs_rq->rq->clock";
/// Fields that tell for how long a thread has waited for a CPU that it has not got yet.
pub(super) const WAIT_IN_PROGRESS: [&str; 2] = [LAST_QUEUED, QUEUE_CLOCK];
/// Run time of a thread, and its run time when it last got a CPU.
pub(super) const RUN_TIME: &str = "se.sum_exec_runtime";
/// Time for which a thread has waited for a CPU.
pub(super) const WAIT_TIME: &str = "sched_info.run_delay";
pub(super) const RUN_TIME_AT_ARRIVAL: &str = "se.prev_sum_exec_runtime";
/// Run time of the exited threads of a process.
pub(super) const RUN_TIME_OF_EXITED: &str = "signal->sum_sched_runtime";
/// User, system and run time of a thread, and the user and system time that procfs printed last.
pub(super) const CPU_TIME: [&str; 5] = ["utime", "stime", RUN_TIME, "prev_cputime.utime", "prev_cputime.stime"];
/// The same of a process's exited threads, and what procfs printed last for the process.
pub(super) const PROCESS_CPU_TIME: [&str; 5] =
    ["signal->utime", "signal->stime", RUN_TIME_OF_EXITED, "signal->prev_cputime.utime", "signal->prev_cputime.stime"];

/// Fields that every record has, whatever metrics there are.
pub(super) const OF_THREADS: [&str; 6] = [TID, TGID, FLAGS, EXIT_STATE, START_TIME, THREAD_POINTER];

/// Bytes of a name, `TASK_COMM_LEN`, in words.
const COMM_WORDS: usize = 2;

fn of_cgroups() -> impl Iterator<Item = &'static str> {
    CGROUPS.into_iter().chain(CGROUP_LEVELS)
}

/// Every field, with `cpu_words` words of a mask of CPUs.
pub(super) fn all(cpu_words: usize) -> Vec<FieldRequest> {
    let of_metrics = METRICS.iter().filter_map(|metric| metric.sources.bpf).flat_map(move |field| {
        let max_words = if field.form == FieldForm::Cpus { cpu_words } else { 1 };
        field.paths().map(move |path| FieldRequest { path, part: RecordScope::Thread, max_words })
    });
    let threads = OF_THREADS.into_iter().chain(of_cgroups()).chain(CPU_TIME).chain(WAIT_IN_PROGRESS);
    let threads = threads.chain(RESIDENT.iter().copied());
    let counters = PROCESS.iter().map(|counter| counter.source.field);
    let processes = PROCESS_CPU_TIME.into_iter().chain(counters).chain([PARENT]);
    let comm = FieldRequest { path: COMM, part: RecordScope::Thread, max_words: COMM_WORDS };
    std::iter::once(comm)
        .chain(threads.map(|path| FieldRequest::number(RecordScope::Thread, path)))
        .chain(of_metrics)
        .chain(processes.map(|path| FieldRequest::number(RecordScope::Process, path)))
        .collect()
}

/// Fields of a process that has executed a file.
pub(super) fn execs() -> Vec<FieldRequest> {
    let comm = FieldRequest { path: COMM, part: RecordScope::Thread, max_words: COMM_WORDS };
    let numbers = [TGID, START_TIME].map(|path| FieldRequest::number(RecordScope::Thread, path));
    std::iter::once(comm).chain(numbers).collect()
}

/// Fields of a thread that exits. The second part is what it has lost when it is freed: from Linux 6.16 on, its memory is
/// in it (`do_exit` of kernel/exit.c), and its cgroups.
pub(super) fn exits() -> Vec<FieldRequest> {
    let of_metrics = |is_wanted: fn(&Metric) -> bool| {
        let fields = METRICS.iter().filter(move |metric| is_wanted(metric)).filter_map(|metric| metric.sources.bpf);
        fields.flat_map(KernelField::paths)
    };
    let name = |path: &'static str, part| FieldRequest { path, part, max_words: COMM_WORDS };
    let others = [TID, TGID, FLAGS, START_TIME, START_MONOTONIC].into_iter().chain(CPU_TIME);
    let threads = others.chain(of_metrics(is_of_exited_threads));
    let exiting = of_metrics(is_of_memory).chain([PARENT, PROCESS_START]).chain(of_cgroups());
    [name(COMM, RecordScope::Thread), name(PROCESS_NAME, RecordScope::Process)]
        .into_iter()
        .chain(threads.map(|path| FieldRequest::number(RecordScope::Thread, path)))
        .chain(exiting.map(|path| FieldRequest::number(RecordScope::Process, path)))
        .collect()
}

/// Flags of x86 that last as long as a system call (`TS_COMPAT` of arch/x86/include/asm/thread_info.h).
pub(super) const CALL_STATUS: &str = "thread_info.status";

/// Numbers that a sample has. Whether a thread runs is read before its state, which it changes before it leaves its CPU.
pub(super) const OF_SAMPLES: [&str; 16] = [
    ON_CPU,
    STATE,
    TID,
    TGID,
    FLAGS,
    START_TIME,
    PROCESS_START,
    VOLUNTARY_SWITCHES,
    INVOLUNTARY_SWITCHES,
    CPU,
    THROTTLED,
    LAST_ARRIVAL,
    LAST_QUEUED,
    RUN_TIME,
    RUN_TIME_AT_ARRIVAL,
    CALL_STATUS,
];

/// Fields of a sample.
pub(super) fn samples() -> Vec<FieldRequest> {
    let name = |path: &'static str| FieldRequest { path, part: RecordScope::Thread, max_words: COMM_WORDS };
    let numbers = OF_SAMPLES.into_iter().chain([BLOCKER]).chain(of_cgroups());
    let numbers = numbers.map(|path| FieldRequest::number(RecordScope::Thread, path));
    numbers.chain([COMM, PROCESS_NAME].map(name)).collect()
}

/// Whether the kernel keeps the metric in `struct mm_struct`.
pub(super) fn is_of_memory(metric: &Metric) -> bool {
    metric.sources.bpf.is_some_and(|field| matches!(field.form, FieldForm::Pages(_)))
}

/// Counters, peaks and floors, and the nice value: the others say nothing about a thread that has exited.
fn is_of_exited_threads(metric: &Metric) -> bool {
    !is_of_memory(metric) && (metric.window != WindowRule::Later || metric.id == MetricId::nice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::KernelField;

    #[test]
    fn every_field_of_the_tables_is_copied() {
        let paths: Vec<_> = all(1).into_iter().map(|wanted| wanted.path).collect();
        let of_metrics = METRICS.iter().filter_map(|metric| metric.sources.bpf).flat_map(KernelField::paths);
        let of_processes = PROCESS.iter().map(|counter| counter.source.field);
        for path in of_metrics.chain(of_processes).chain(RESIDENT.iter().copied()) {
            assert!(paths.contains(&path), "{path}");
        }
    }
}
