//! The columns of reasons: whose they are, what they are, and how often they were seen.

use super::Column;
use super::captures::word;
use super::column::columns;
use super::threads::owner_text;
use crate::model::{CodeFunction, Name, OtherThread, Reason, ReasonTime, Reasons, SampledThreads, WaitPlace};
use crate::names::{cgroup_pattern, pattern_key};

pub(super) struct ReasonRow {
    threads: SampledThreads,
    reason: Reason,
    time: ReasonTime,
}

/// The rows of a window, sorted by process and pattern of threads. Places that do not exist are left out.
pub(super) fn rows(reasons: &Reasons) -> Vec<ReasonRow> {
    let row = |time: &ReasonTime| {
        let (threads, reason) = reasons.of(time)?;
        Some(ReasonRow { threads: threads.clone(), reason: reason.clone(), time: *time })
    };
    let mut rows: Vec<_> = reasons.times.iter().filter_map(row).collect();
    rows.sort_by_cached_key(|row| (row.threads.pcomm.clone(), pattern_key(&row.threads.comm)));
    rows
}

impl ReasonRow {
    fn name(&self) -> String {
        let by = self.by().map(|by| (&*by.pcomm).into());
        let function = self.reason.function_names().next().map(Into::into);
        let entry = self.reason.entry.as_deref().map(Into::into);
        WaitPlace { entry, function, by, at: None }.name(self.reason.class)
    }

    fn by(&self) -> Option<&OtherThread> {
        self.reason.by.as_ref()
    }
}

/// The functions of a program, from the innermost to the outermost.
fn labels(stack: &Option<Name>) -> Option<Vec<String>> {
    Some(CodeFunction::all(stack.as_deref()?).map(CodeFunction::label).collect())
}

/// The functions of the kernel, from the innermost to the outermost; `None` if there are none.
fn functions(reason: &Reason) -> Option<Vec<String>> {
    Some(reason.function_names().map(str::to_owned).collect()).filter(|names: &Vec<_>| !names.is_empty())
}

pub(super) fn columns() -> Vec<Column<ReasonRow>> {
    columns! { ReasonRow;
        tgid: Integer in "" = |row| row.threads.tgid.map(|tgid| u64::from(tgid).into()), "Process id; NULL for processes that were merged because there were many.";
        pcomm: Text in "" = |row| Some((&*row.threads.pcomm).into()), "Name of the process.";
        comm: Text in "" = |row| Some((&*row.threads.comm).into()), "Name of the threads.";
        comm_pattern: Text by pattern_key in "" = |row| Some((&*row.threads.comm).into()), "Name of the threads, with numbers and ids replaced.";
        cgroup: Text in "" = |row| row.threads.cgroup.as_deref().map(Into::into), "Path of the cgroup.";
        cgroup_pattern: Text by cgroup_pattern in "" = |row| row.threads.cgroup.as_deref().map(Into::into), "Path of the cgroup, with ids of instances replaced.";
        party: Text in "" = |row| row.threads.owner.map(owner_text), "`ctprof` for the capturing process, `command` for a recorded command and its descendants.";
        class: Text in "" = |row| word(Some(row.reason.class)), "`run`, `wait`, `cpu_quota`, `block`, `sleep`, `idle`, `stopped`, `traced`, `frozen` or `unread`: [classes](screen.md#reasons).";
        entry: Text in "" = |row| row.reason.entry.as_deref().map(Into::into), "System call, or `page fault`.";
        function: Text in "" = |row| row.reason.function_names().next().map(Into::into), "Innermost function of the kernel that is not the scheduler's.";
        reason: Text in "" = |row| Some(row.name().into()), "Name of the reason as in reports, without a place in the code of the program.";
        stack: Text in "" = |row| functions(&row.reason).map(|names| names.into_iter().rev().collect::<Vec<_>>().join(";").into()), "Functions of the kernel, the outermost first, separated by semicolons.";
        kernel_stack: Texts in "" = |row| functions(&row.reason), "Functions of the kernel, the innermost first.";
        user_stack: Texts in "" = |row| labels(&row.reason.stack), "Functions of the program that led to it, the innermost first.";
        held_stack: Texts in "" = |row| labels(&row.reason.held_in), "Functions of the program in which the holder of the lock slept, the innermost first.";
        object: Text in "" = |row| row.reason.object.as_deref().map(Into::into), "What the system call works on: a path, socket or pipe.";
        by_pcomm: Text in "" = |row| row.by().map(|by| (&*by.pcomm).into()), "Who ran on the CPU or owns the lock: name of the process.";
        by_comm: Text in "" = |row| row.by().map(|by| (&*by.comm).into()), "Name of that thread.";
        by_cgroup: Text in "" = |row| row.by().and_then(|by| by.cgroup.as_deref()).map(Into::into), "Path of its cgroup.";
        sampled_ns: Integer in "ns" = |row| Some(row.time.ns.into()), "Time by samples. For exact amounts, take shares of it, and multiply them by the counters in `threads`.";
        samples: Integer in "count" = |row| Some(row.time.samples.into()), "Number of samples; fewer than 5 say nothing.";
    }
}
