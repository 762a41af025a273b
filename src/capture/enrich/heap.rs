//! Counters of the allocator of a process.

use std::time::Instant;

use super::super::context::CaptureContext;
use super::super::process::Process;
use super::super::read_threads::ReadThread;
use super::jemalloc::{self, Probe};
use super::process_request::ProcessRequest;
use super::source::{Addition, Reads, ValueSource, When};
use crate::model::{CtprofProbeSummary, ProbeFailure};

/// Bytes that each thread has allocated and freed by jemalloc. The programs that were examined are kept from pass to pass. Steps
/// read it if the last pass over all threads has found such counters.
pub(super) const SOURCE: ValueSource =
    ValueSource { name: "jemalloc", reads: Reads::Process { when: When::NewProcesses, read, count_missing } };

fn read(context: &CaptureContext, process: &Process, request: &ProcessRequest) -> Option<Addition> {
    let (begin, mut probe) = (Instant::now(), Probe::new(context.jemalloc.as_deref()?));
    let heap = probe.process(process, &request.probed);
    let (summary, time) = (probe.finish(), begin.elapsed());
    Some(Box::new(move |context, threads, _| {
        let mut heap = heap.into_iter().peekable();
        for ReadThread { state, .. } in threads {
            if let Some(counters) = heap.next_if(|counters| counters.tid == state.tid) {
                state.metrics.allocated_bytes = Some(counters.allocated.into());
                state.metrics.deallocated_bytes = Some(counters.deallocated.into());
            }
        }
        let mut counts = context.tally.lock();
        jemalloc::add(counts.probe.get_or_insert_default(), summary);
        counts.probe_time += time;
    }))
}

fn count_missing(context: &CaptureContext, _: &[ReadThread]) {
    if context.jemalloc.is_some() {
        let failures = [(ProbeFailure::TimedOut, 1)].into();
        let summary = CtprofProbeSummary { tgids_walked: 1, failures, ..CtprofProbeSummary::default() };
        jemalloc::add(context.tally.lock().probe.get_or_insert_default(), summary);
    }
}
