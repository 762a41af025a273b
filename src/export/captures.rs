//! The columns of captures: how each was made, what makes it doubtful, and the host.

use std::collections::BTreeMap;

use super::cgroups::{RecordValues, pressure, pressure_values, record_column, text};
use super::column::columns;
use super::identity::{known_time, microseconds};
use super::{Column, column_name, entries};
use crate::diagnose::gaps;
use crate::model::{
    Census, CtprofParseSummary, HostContext, SchedExtSysfs, Section, SnapshotHead, Value, WindowInfo, record_rows,
};

pub(super) struct CaptureRow {
    head: SnapshotHead,
    census: Census,
    cgroups: u64,
    /// Failures to read, keyed by `source: code`, with the number of findings.
    gaps: BTreeMap<String, u64>,
    values: RecordValues,
}

impl CaptureRow {
    pub(super) fn new(mut head: SnapshotHead, census: Census) -> Self {
        let mut counts = BTreeMap::new();
        for gap in gaps(&head, &census) {
            let key = format!("{}: {}", gap.source.name(), gap.code().unwrap_or_default());
            *counts.entry(key).or_insert(0) += 1;
        }
        let mut values = head.psi.as_ref().map(pressure_values).unwrap_or_default();
        let sched_ext = head.sched_ext.iter().flat_map(SchedExtSysfs::values);
        values.extend(sched_ext.map(|value| (sched_ext_name(&value.name), value.value.into_owned())));
        let cgroups = u64::try_from(head.listed_cgroups().count()).unwrap_or(u64::MAX);
        // Rows wait in memory for others: they have no more than they need.
        (head.cgroup_stats, head.containers, head.reasons) = Default::default();
        Self { head, census, cgroups, gaps: counts, values }
    }

    fn window(&self) -> Option<&WindowInfo> {
        self.head.window.as_ref()
    }

    /// A count that files have since this version of the format: the others do not say whether it is 0.
    fn count_since(&self, version: u32, count: fn(&CtprofParseSummary) -> u64) -> Option<Value<'static>> {
        let count = count(self.head.parse_summary.as_ref()?);
        (count > 0 || self.head.format_version? >= version).then(|| count.into())
    }

    fn host(&self) -> Option<&HostContext> {
        self.head.host.as_ref()
    }
}

fn sched_ext_name(value: &str) -> String {
    format!("sched_ext_{}", column_name(value))
}

pub(super) fn columns() -> Vec<Column<CaptureRow>> {
    let mut all = own_columns();
    all.extend(pressure(Section::HostPressure, |row: &CaptureRow| &row.values));
    let sched_ext = record_rows().filter(|row| row.section == Section::SchedExt);
    all.extend(sched_ext.map(|row| record_column(sched_ext_name(&row.name), &row, |row: &CaptureRow| &row.values)));
    all
}

/// Returns the word that a field has in files, for example the name of an enum's variant.
pub(super) fn word(field: Option<impl serde::Serialize>) -> Option<Value<'static>> {
    let json = serde_json::to_value(field?).ok()?;
    json.as_str().map(|word| word.to_owned().into())
}

fn own_columns() -> Vec<Column<CaptureRow>> {
    columns! { CaptureRow;
        captured_at_unix_ns: Integer in "ns" = |row| known_time(row.head.captured_at_unix_ns).map(Into::into), "`time` in nanoseconds since 1970.";
        format_version: Integer in "" = |row| row.head.format_version.map(|version| u64::from(version).into()), "Version of the file format; NULL if another tool wrote the file.";
        tool: Text in "" = |row| Some((&*row.head.capture.as_ref()?.tool).into()), "Program that captured.";
        tool_version: Text in "" = |row| Some((&*row.head.capture.as_ref()?.version).into()), "Version of that program.";
        engine: Text in "" = |row| Some((&*row.head.capture.as_ref()?.engine).into()), "Engine that read the threads: `bpf` or `procfs`.";
        no_bpf: Text in "" = |row| word(row.head.capture.as_ref()?.no_bpf.as_ref().map(|no_bpf| &no_bpf.cause)), "Why it was not `bpf`: a code of [findings.md](findings.md#obstacles-to-bpf).";
        duration_ns: Integer in "ns" = |row| Some(row.head.capture.as_ref()?.duration_ns.into()), "How long the capture took.";
        euid: Integer in "" = |row| Some(u64::from(row.head.capture.as_ref()?.euid).into()), "Effective user id.";
        redacted: Flag in "" = |row| Some(row.head.capture.as_ref()?.options.redacted.into()), "Whether names were replaced by hashes.";
        threads: Integer in "count" = |row| Some(row.census.threads.into()), "Threads alive at the end.";
        processes: Integer in "count" = |row| Some(row.census.processes.into()), "Processes alive at the end.";
        kernel_threads: Integer in "count" = |row| Some(row.census.kernel_threads.into()), "Kernel threads.";
        cgroups: Integer in "count" = |row| Some(row.cgroups.into()), "Cgroups.";

        gaps: Counts in "count" = |row| Some(entries(&row.gaps)), "What could not be read, as `source: code` of [findings.md](findings.md#causes). Empty if nothing is missing.";
        gap_count: Integer in "count" = |row| Some(u64::try_from(row.gaps.len()).unwrap_or(u64::MAX).into()), "Number of entries of `gaps`.";
        ghosts: Integer in "count" = |row| row.count_since(1, |summary| summary.ghosts), "Threads that exited before they could be read.";
        read_failures: Integer in "count" = |row| Some(row.head.parse_summary.as_ref()?.read_failures.into()), "Files that could not be read.";
        worker_panics: Integer in "count" = |row| row.count_since(2, |summary| summary.worker_panics), "Processes that lost values to a panic of ctprof.";
        missed_processes: Integer in "count" = |row| {
            Some(row.head.capture.as_ref()?.bpf.as_ref()?.missed_processes.into())
        }, "Processes that the BPF iterator missed, so that procfs read them.";

        window_started: Time in "" = |row| known_time(row.window()?.started_at_unix_ns).map(microseconds), "Start of the window.";
        suspended_ns: Integer in "ns" = |row| row.window()?.suspended_ns.map(Into::into), "Time in the window that the host was suspended.";
        started: Integer in "count" = |row| row.window().map(|_| row.census.started.into()), "Threads that started in the window.";
        exited: Integer in "count" = |row| row.window().map(|_| row.census.exited.into()), "Threads that exited in the window.";
        missed_threads: Integer in "count" = |row| Some(row.window()?.missed.into()), "Threads left out because only the second capture has them although they are older.";
        backwards: Counts in "count" = |row| Some(entries(&row.window()?.backwards)), "Threads that lack a metric because its counter went backwards, by metric.";
        process_counters: Flag in "" = |row| Some(row.window()?.process_counters.into()), "Whether exited work is known from counters of processes.";
        exit_record_source: Text in "" = |row| Some((&*row.window()?.exit_records.as_ref()?.source).into()), "Source of the records of exited threads: `bpf`; `taskstats` in files of 0.2.0.";
        exit_records: Integer in "count" = |row| Some(row.window()?.exit_records.as_ref()?.received.into()), "Records of exited threads.";
        exit_records_lost: Integer in "count" = |row| Some(row.window()?.exit_records.as_ref()?.lost.into()), "Lost records of exited threads.";
        cpus: Integer in "count" = |row| Some(row.window()?.cpu.as_ref()?.cpus.into()), "CPUs of the host in the window.";
        busy_ns: Integer in "ns" = |row| Some(row.window()?.cpu.as_ref()?.busy_ns.into()), "CPU time of the host in the window.";
        explained_ns: Integer in "ns" = |row| Some(row.window()?.cpu.as_ref()?.explained_ns.into()), "CPU time of all threads and exited work in the window.";
        interrupt_ns: Integer in "ns" = |row| row.window()?.cpu.as_ref()?.interrupt_ns.map(Into::into), "Time in interrupts in the window.";
        steal_ns: Integer in "ns" = |row| row.window()?.cpu.as_ref()?.steal_ns.map(Into::into), "Time taken by the hypervisor in the window.";
        command: Text in "" = |row| {
            let of_window = row.window()?.command.as_ref().map(|command| &command.arguments);
            let arguments = of_window.or_else(|| Some(&row.head.series.as_ref()?.command))?;
            (!arguments.is_empty()).then(|| arguments.join(" ").into())
        }, "Command that was recorded, with its arguments.";
        command_elapsed_ns: Integer in "ns" = |row| Some(row.window()?.command.as_ref()?.elapsed_ns.into()), "How long it ran in the window; of a series, only the last step has it: the time since the command started.";
        command_status: Integer in "" = |row| {
            Some(Value::Signed(row.window()?.command.as_ref()?.status?.into()))
        }, "Exit status of the command; NULL if a signal ended it.";

        boot_id: Text in "" = |row| text(&row.host()?.boot_id), "Boot. Totals of different boots cannot be subtracted.";
        uptime_ns: Integer in "ns" = |row| row.head.boottime_ns().map(Into::into), "Time since boot.";
        kernel_release: Text in "" = |row| text(&row.host()?.kernel_release), "Release of the kernel, as printed by `uname -r`.";
        kernel_version: Text in "" = |row| text(&row.host()?.kernel_version), "Build of the kernel, as printed by `uname -v`.";
        kernel_cmdline: Text in "" = |row| text(&row.host()?.kernel_cmdline), "Kernel command line.";
        arch: Text in "" = |row| text(&row.host()?.arch), "Architecture.";
        cpu_model: Text in "" = |row| text(&row.host()?.cpu_model), "CPU model.";
        online_cpus: Integer in "count" = |row| row.host()?.online_cpus.map(Into::into), "CPUs online.";
        numa_nodes: Integer in "count" = |row| row.host()?.numa_nodes.map(Into::into), "NUMA nodes online.";
        total_memory_kib: Integer in "KiB" = |row| row.host()?.total_memory_kib.map(Into::into), "Memory.";
        page_size: Integer in "bytes" = |row| row.host()?.page_size.map(Into::into), "Page size.";
        clock_ticks_per_second: Integer in "" = |row| row.host()?.clock_ticks_per_second.map(Into::into), "`USER_HZ`: ticks per second.";
        thp_enabled: Text in "" = |row| text(&row.host()?.thp_enabled), "Transparent huge pages: the options, with the active one in brackets.";
        loadavg: Text in "" = |row| text(&row.host()?.loadavg), "Load averages over 1, 5 and 15 minutes, runnable and all tasks, last process id.";
        task_delayacct: Text in "" = |row| word(row.host()?.task_delayacct), "Delay accounting: `on`, `runtime_off`, `config_off` or `unknown`.";
        sched_schedstats: Text in "" = |row| word(row.host()?.sched_schedstats), "Scheduler statistics of each thread: the same words.";
        cgroup_layout: Text in "" = |row| word(row.host()?.cgroup_layout), "How cgroups are mounted: `unified`, `hybrid`, `legacy` or `none`.";
        pid_namespace_initial: Flag in "" = |row| row.host()?.pid_namespace_initial.map(Into::into), "Whether the capture was made in the initial PID namespace, not in a container.";
    }
}
