//! Threads that have exited without a record. A window has neither their time nor their reasons, which would divide the time of
//! other threads.

use std::collections::HashSet;

use crate::model::{CtprofSnapshot, ThreadSpan, ThreadState};

/// Leaves out the reasons of threads that are listed without their time and values.
pub fn leave_out_lost(window: &mut CtprofSnapshot) {
    let Some(reasons) = window.head.reasons.as_deref_mut() else { return };
    let threads_of = |is_lost: bool| {
        let threads = window.threads.iter().filter(move |thread| lacks_record(thread) == is_lost);
        threads.map(|thread| (thread.tgid, &*thread.comm)).collect::<HashSet<_>>()
    };
    let [lost, known] = [true, false].map(threads_of);
    reasons.keep(|threads| {
        let is_in =
            |listed: &HashSet<(u32, &str)>| threads.tgid.is_some_and(|tgid| listed.contains(&(tgid, &threads.comm)));
        !is_in(&lost) || is_in(&known)
    });
}

/// Leaves out the reasons of processes that a window of all threads does not list, where others have their name: they started and
/// exited in it.
pub fn leave_out_unlisted(window: &mut CtprofSnapshot) {
    let has_records = window.head.window.as_ref().is_none_or(|info| info.exit_records.is_some());
    let Some(reasons) = window.head.reasons.as_deref_mut().filter(|_| !has_records) else { return };
    let listed: HashSet<u32> = window.threads.iter().map(|thread| thread.tgid).collect();
    let names: HashSet<&str> = window.threads.iter().map(|thread| &*thread.pcomm).collect();
    let is_listed = |tgid| listed.contains(&tgid);
    reasons.keep(|threads| threads.tgid.is_none_or(is_listed) || !names.contains(&*threads.pcomm));
}

/// A thread with a record can have no time either: it exited while the first capture was made, and has waited in the window.
fn lacks_record(thread: &ThreadState) -> bool {
    let has_no_time = |span: &ThreadSpan| span.exited && span.alive_ns == 0 && span.zombie_ns == 0;
    thread.metrics.run_time_ns.is_none() && thread.span.as_ref().is_some_and(has_no_time)
}
