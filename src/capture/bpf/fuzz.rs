//! Types, programs and records, exposed to the fuzz target.

use super::btf::{Btf, TypeId, kind};
use super::change_filter::ChangeFilter;
use super::change_program::ChangeOutput;
use super::columns;
use super::host_parameters::HostParameters;
use super::layout::{Layout, ThreadRecord, words_of};
use super::path::resolve;
use super::program::{Emitter, Kernel, TaskWalk};
use super::read::RecordReader;
use super::sample_program::{ListedThreads, SampleMaps, SampledKernel};
use super::samples::SampleFields;

/// Reads `bytes` as the types of a kernel, emits programs for it, and reads `bytes` as their records.
pub(in crate::capture) fn types(bytes: &[u8]) {
    let Ok(btf) = Btf::parse(bytes) else { return };
    btf.find(kind::TYPEDEF, "btf_trace_sched_process_free");
    let task = btf.find(kind::STRUCT, "task_struct").unwrap_or(TypeId(1));
    let wanted = columns::all(2);
    for path in wanted.iter().map(|wanted| wanted.path) {
        let Some(place) = resolve(&btf, task, path) else { continue };
        assert!(place.size > 0 && place.hops.len() <= path.matches("->").count());
    }
    let [layout, of_samples] = [wanted, columns::samples()].map(|wanted| Layout::resolve(&btf, task, wanted));
    if let Some(kernel) = Kernel::find(&btf) {
        Emitter { kernel, layout: &layout }.iterator(3);
        let filter = ChangeFilter::find(&btf, task, 1 << 18);
        let (sampled, maps) =
            (SampledKernel::find(&btf, task, 1 << 18), SampleMaps { ring: 3, lost: 4, filter: 5, list: 6 });
        let of_samples = Emitter { kernel, layout: &of_samples };
        let by_program = TaskWalk::open_coded(&btf).map(|walk| (walk, ChangeOutput::Ring([5, 6])));
        for (walk, output) in by_program.into_iter().chain([(TaskWalk::Iterator, ChangeOutput::Reader)]) {
            Emitter { kernel, layout: &layout }.changes((walk, output), 3, (&filter, 4));
            of_samples.sampler(walk, &sampled, maps);
        }
        ListedThreads::find(&btf, task).map(|threads| of_samples.listed_sampler(&threads, &sampled, maps));
    }
    SampleFields::new(&of_samples).sample(&words_of(bytes).collect::<Vec<_>>());
    records(bytes, &mut RecordReader::new(&layout, &HostParameters::default()));
}

fn records(bytes: &[u8], reader: &mut RecordReader) {
    let mut words: Vec<_> = words_of(bytes).collect();
    if let Some(length) = words.len().try_into().ok().filter(|_| !words.is_empty()) {
        words[0] = length;
    }
    let Some((record, _)) = ThreadRecord::split(&words) else { return };
    let Some(mut thread) = reader.thread(record) else { return };
    let process = thread.kernel.process.take();
    process.map(|process| process.with_threads(&[(&thread.state.metrics, thread.kernel.cpu_time)]));
}
