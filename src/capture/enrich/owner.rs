//! Owner of each thread: ctprof, the recorded command, or neither.

use rayon::ThreadPool;

use super::super::context::CaptureContext;
use super::super::options::Tree;
use super::super::process::Process;
use super::super::read_threads::ReadThreads;
use super::process_request::ProcessRequest;
use super::source::{Addition, Reads, ValueSource, When};
use crate::model::Owner;

/// The effective user id, of the owner of the process's directory: it is the same whether the process is dumpable or not
/// (`task_dump_owner` of fs/proc/base.c).
pub(super) const SOURCE: ValueSource =
    ValueSource { name: "owner", reads: Reads::Process { when: When::NewProcesses, read, count_missing: |_, _| {} } };

/// Source that marks the threads of ctprof itself.
pub(super) const OWN: ValueSource = ValueSource { name: "own threads", reads: Reads::Threads(mark_own) };

fn mark_own(context: &CaptureContext, read: &mut ReadThreads, _: &ThreadPool) {
    let threads = read.threads.iter_mut().map(|thread| &mut thread.state);
    let own = threads.filter(|thread| Some(thread.tgid) == context.capturing_process);
    own.for_each(|thread| thread.owner = Some(Owner::Ctprof));
}

fn read(context: &CaptureContext, process: &Process, _: &ProcessRequest) -> Option<Addition> {
    #[cfg(test)]
    process.panic_in("sources");
    // The owner of a copied directory is the user who has copied it.
    let euid = process.directory.stat(".").ok().filter(|_| context.tree != Tree::Elsewhere)?.st_uid;
    Some(Box::new(move |_, threads, _| {
        let leader = threads.iter_mut().map(|thread| &mut thread.state).find(|thread| thread.is_leader());
        leader.into_iter().for_each(|leader| leader.euid = Some(euid));
    }))
}
