//! The columns of threads: identity and names, then every metric of the table.

use super::column::columns;
use super::{Column, ColumnType, entries};
use crate::model::{METRICS, Owner, PROCESS, Shape, ThreadState, Value};
use crate::names::{cgroup_pattern, pattern_key};

/// The kinds of memory that queries ask for: engines read a map as a whole.
const SMAPS: [(&str, &str, &str); 4] = [
    ("smaps_rss_kib", "Rss", "Memory of the process in RAM, on its leader only."),
    (
        "smaps_pss_kib",
        "Pss",
        "Memory of the process in RAM, shared pages divided among their processes, on its leader only.",
    ),
    ("smaps_anonymous_kib", "Anonymous", "Anonymous memory of the process in RAM, on its leader only."),
    ("smaps_swap_kib", "Swap", "Memory of the process in swap, on its leader only."),
];

pub(super) fn columns() -> Vec<Column<ThreadState>> {
    let mut all = own_columns();
    all.extend(METRICS.iter().map(|metric| {
        let column =
            Column::new(metric.name, metric.shape.into(), metric.unit.name(), metric.doc, |thread: &ThreadState| {
                metric.get(&thread.metrics)
            });
        match metric.shape {
            Shape::Unsigned | Shape::Signed => {
                column.batched(|threads| metric.numbers(threads.iter().map(|thread| &*thread.metrics)))
            }
            _ => column,
        }
    }));
    all.extend(PROCESS.iter().map(|field| {
        let meaning =
            format!("Counter of the whole process, on its first thread only: {}", lower_case_start(field.doc));
        let name = format!("process_{}", field.name);
        Column::new(
            name,
            field.value_type.shape.into(),
            field.value_type.unit.name(),
            meaning,
            |thread: &ThreadState| thread.process.as_deref().and_then(|process| field.get(process)),
        )
    }));
    for (name, key, meaning) in SMAPS {
        all.push(Column::new(name, ColumnType::Integer, "KiB", meaning, |thread: &ThreadState| {
            thread.smaps_rollup_kib.as_ref()?.get(key).copied().map(Into::into)
        }));
    }
    all.extend(columns! { ThreadState;
        smaps_rollup_kib: Counts in "KiB" = |thread| thread.smaps_rollup_kib.as_ref().map(entries), "Memory of the process by kind, on its leader only: `/proc/PID/smaps_rollup`.";
    });
    all
}

fn own_columns() -> Vec<Column<ThreadState>> {
    columns! { ThreadState;
        tgid: Integer in "" = |thread| Some(u64::from(thread.tgid).into()), "Process id.";
        tid: Integer in "" = |thread| Some(u64::from(thread.tid).into()), "Thread id; 0 for exited work.";
        pcomm: Text in "" = |thread| Some((&*thread.pcomm).into()), "Name of the process.";
        comm: Text in "" = |thread| Some((&*thread.comm).into()), "Name of the thread.";
        pcomm_pattern: Text by pattern_key in "" = |thread| Some((&*thread.pcomm).into()), "Name of the process, with numbers and ids replaced by `{N}`, `{H}` and `{U}`.";
        comm_pattern: Text by pattern_key in "" = |thread| Some((&*thread.comm).into()), "Name of the thread, with numbers and ids replaced: one value per pool of threads.";
        cgroup: Text in "" = |thread| thread.cgroup.as_deref().map(Into::into), "Path of the cgroup.";
        cgroup_pattern: Text by cgroup_pattern in "" = |thread| thread.cgroup.as_deref().map(Into::into), "Path of the cgroup, with ids of instances replaced.";
        start_time_clock_ticks: Integer in "ticks" = |thread| thread.start_time_clock_ticks.map(Into::into), "Start time since boot. With host, boot id, tgid and tid, the identity of a thread.";
        kernel_thread: Flag in "" = |thread| Some(thread.kernel_thread.into()), "Whether the thread is a kernel thread.";
        read_at_ns: Integer in "ns" = |thread| thread.read_at_ns.map(Into::into), "From `time` until this thread was read.";
        party: Text in "" = |thread| thread.owner.map(owner_text), "`ctprof` for the capturing process, `command` for a recorded command and its descendants.";

        exited_work: Text in "" = |thread| thread.exited_work.map(|work| work.name().into()), "`exited threads` or `exited children`: work that is only known from the counters of the process. NULL for threads.";
        thread_count: Integer in "count" = |thread| thread.exited_work.is_none().then(|| thread.span.unwrap_or_default().count.into()), "Number of threads that the row stands for: in windows, exited threads with equal names are one row. NULL for exited work.";
        alive_ns: Integer in "ns" = |thread| thread.span.map(|span| span.alive_ns.into()), "Time alive in the window, summed over the threads of the row. NULL in snapshots.";
        started: Flag in "" = |thread| thread.span.map(|span| span.started.into()), "Whether the thread started in the window. NULL in snapshots.";
        exited: Flag in "" = |thread| thread.span.map(|span| span.exited.into()), "Whether the thread exited in the window. NULL in snapshots.";
    }
}

pub(super) fn owner_text(owner: Owner) -> Value<'static> {
    match owner {
        Owner::Ctprof => "ctprof",
        Owner::Command => "command",
    }
    .into()
}

/// A sentence to continue another one with.
fn lower_case_start(sentence: &str) -> String {
    let mut rest = sentence.chars();
    match (rest.next(), rest.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(rest).collect(),
        _ => sentence.to_owned(),
    }
}
