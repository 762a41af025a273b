//! The columns of reasons: whose they are, what they are, and how often they were seen.

use super::Column;
use super::captures::word;
use super::column::columns;
use super::threads::party;
use crate::model::{CodeFunction, Name, OtherThread, Reason, ReasonTime, Reasons, SampledThreads};
use crate::names::{cgroup_pattern, pattern_key};

pub(super) struct ReasonRow {
    threads: SampledThreads,
    reason: Reason,
    time: ReasonTime,
}

/// The rows of a window, sorted by process and pattern of threads. Places that do not exist are left out.
pub(super) fn rows(reasons: &Reasons) -> Vec<ReasonRow> {
    let row = |time: &ReasonTime| {
        let threads = reasons.threads.get(usize::try_from(time.threads).ok()?)?.clone();
        let reason = reasons.reasons.get(usize::try_from(time.reason).ok()?)?.clone();
        Some(ReasonRow { threads, reason, time: *time })
    };
    let mut rows: Vec<_> = reasons.times.iter().filter_map(row).collect();
    rows.sort_by_cached_key(|row| (row.threads.pcomm.clone(), pattern_key(&row.threads.comm)));
    rows
}

impl ReasonRow {
    fn by(&self) -> Option<&OtherThread> {
        self.reason.by.as_ref()
    }
}

/// From the outermost function to the innermost.
fn stack(functions: &[Name]) -> Option<String> {
    (!functions.is_empty()).then(|| functions.iter().rev().map(|name| &**name).collect::<Vec<_>>().join(";"))
}

/// From the outermost function of a program to the innermost.
fn labels(stack: &str) -> String {
    let labels = CodeFunction::all(stack).rev().map(|function| function.label().replace(';', ","));
    labels.collect::<Vec<_>>().join(";")
}

pub(super) fn columns() -> Vec<Column<ReasonRow>> {
    columns! { ReasonRow;
        tgid: Integer in "" = |row| row.threads.tgid.map(|tgid| u64::from(tgid).into()), "Process id; NULL for processes that were merged because there were many.";
        pcomm: Text in "" = |row| Some((&*row.threads.pcomm).into()), "Name of the process.";
        comm: Text in "" = |row| Some((&*row.threads.comm).into()), "Name of the threads.";
        comm_pattern: Text by pattern_key in "" = |row| Some((&*row.threads.comm).into()), "Name of the threads, with numbers and ids replaced.";
        cgroup: Text in "" = |row| row.threads.cgroup.as_deref().map(Into::into), "Path of the cgroup.";
        cgroup_pattern: Text by cgroup_pattern in "" = |row| row.threads.cgroup.as_deref().map(Into::into), "Path of the cgroup, with ids of instances replaced.";
        party: Text in "" = |row| row.threads.owner.map(party), "`ctprof` for the capturing process, `command` for a recorded command and its descendants.";
        class: Text in "" = |row| word(Some(row.reason.class)), "`run`, `wait`, `cpu_quota`, `block`, `sleep`, `idle`, `stopped` or `unread`: [classes](report.md#reasons).";
        entry: Text in "" = |row| row.reason.entry.as_deref().map(Into::into), "System call, or `page fault`.";
        function: Text in "" = |row| row.reason.functions.first().map(|name| (&**name).into()), "Innermost function of the kernel that is not the scheduler's.";
        stack: Text in "" = |row| stack(&row.reason.functions).map(Into::into), "Functions of the kernel, the outermost first, separated by semicolons.";
        user_stack: Text in "" = |row| row.reason.stack.as_deref().map(labels).map(Into::into), "Functions of the program that led to it, the outermost first, separated by semicolons.";
        held_stack: Text in "" = |row| row.reason.held_in.as_deref().map(labels).map(Into::into), "The same of the holder of the lock, if it slept.";
        object: Text in "" = |row| row.reason.object.as_deref().map(Into::into), "What the system call works on: a path, socket or pipe.";
        by_pcomm: Text in "" = |row| row.by().map(|by| (&*by.pcomm).into()), "Who ran on the CPU or owns the lock: name of the process.";
        by_comm: Text in "" = |row| row.by().map(|by| (&*by.comm).into()), "Name of that thread.";
        by_cgroup: Text in "" = |row| row.by().and_then(|by| by.cgroup.as_deref()).map(Into::into), "Path of its cgroup.";
        sampled_ns: Integer in "ns" = |row| Some(row.time.ns.into()), "Time by samples. For exact amounts, take shares of it, and multiply them by the counters in `threads`.";
        samples: Integer in "count" = |row| Some(row.time.samples.into()), "Number of samples; fewer than 5 say nothing.";
    }
}
