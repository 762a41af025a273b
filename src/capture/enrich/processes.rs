//! Reads sources of one process at a time. A process can block its reader for as long as it holds its memory lock, so that is done in
//! threads that can be given up.

use rayon::ThreadPool;

use super::super::context::{CaptureContext, in_all_workers};
use super::super::process::Process;
use super::super::procfs::parsers::Parsers;
use super::super::read_threads::{ReadThread, processes_of, processes_of_mut};
use super::process_request::ProcessRequest;
use super::source::{Addition, Reads, ValueSource};
use crate::model::SourceFile;

/// Adds the values of these sources.
pub(super) fn read(
    context: &CaptureContext,
    sources: &'static [ValueSource],
    threads: &mut [ReadThread],
    pool: &ThreadPool,
) {
    let is_asked = |request: &ProcessRequest| sources.iter().any(|source| source.is_for(request));
    let requests: Vec<_> = processes_of(threads).map(ProcessRequest::new).filter(is_asked).collect();
    let asked: Vec<u32> = requests.iter().map(|request| request.id).collect();
    let others = processes_of(threads).count() - requests.len();
    context.progress.advance(u64::try_from(others).unwrap_or(u64::MAX));
    let own = context.clone();
    let additions = context.readers.map(pool.current_num_threads(), requests, move |(), request| {
        own.progress.advance(1);
        read_process(&own, sources, request)
    });
    let processes = processes_of_mut(threads).filter(|process| asked.binary_search(&process[0].state.tgid).is_ok());
    in_all_workers(pool, processes.zip(additions), |processes| {
        let mut parsers = Parsers::new();
        processes.for_each(|(threads, additions)| match additions {
            Some(additions) => additions.into_iter().for_each(|add| add(context, threads, &mut parsers)),
            None => {
                let request = ProcessRequest::new(threads);
                let unread = sources.iter().filter(|source| source.is_for(&request));
                unread.for_each(|source| source.count_missing(context, threads));
            }
        });
    });
}

fn read_process(context: &CaptureContext, sources: &[ValueSource], request: &ProcessRequest) -> Vec<Addition> {
    let mut additions = Vec::new();
    let process = Process::reopen(context, request.id, request.start, SourceFile::Stat).read();
    let Some(process) = process else { return additions };
    request.leader.iter().for_each(|name| process.learn_name(name));
    for source in sources.iter().filter(|source| source.is_for(request)) {
        if let Reads::Process { read, .. } = source.reads {
            context.guarded(format_args!("{} of process {}", source.name, request.id), || {
                additions.extend(read(context, &process, request));
            });
        }
    }
    additions
}
