//! Loads the program that reads threads, and runs it.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::super::cgroup_ids::Hierarchies;
use super::super::procfs::text::cpu_list;
use super::btf::Btf;
use super::cgroup_fields::of_mounted;
use super::change_filter::{ChangeFilter, slots_of_host};
use super::change_program::ChangeOutput;
use super::change_tracker::ChangeTracker;
use super::columns;
use super::layout::{Layout, RecordScope, ThreadRecord, records};
use super::load::{Attach, ProgramSpec, load};
use super::obstacle;
use super::program::{Emitter, Kernel, LAST_WRITTEN_WORDS, TaskWalk};
use super::record_ring::RecordRing;
use super::thread_walk::ThreadWalk;
use crate::model::{BpfObstacle, FieldForm, METRICS, Metric, NoBpf};
use crate::process::lock;
use crate::sys::bpf::iterator;
use crate::sys::bpf::kernel_btf::KernelBtf;
use crate::sys::bpf::map::per_cpu_array;
use crate::sys::bpf::memlock::RaisedMemlock;

/// Kind of threads that passes return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::capture) enum Passes {
    /// All threads of the host.
    OfAll,
    /// After the first pass, threads that did something since the pass before.
    OfChanges,
}

/// Loaded programs with the layout of their records.
pub(in crate::capture) struct BpfEngine {
    pub(super) walk: Mutex<ThreadWalk>,
    /// `None` if each pass returns all threads.
    pub(super) changes: Option<Mutex<ChangePasses>>,
    pub(super) layout: Layout,
    pub(in crate::capture) setup: Duration,
}

/// Parts that passes of changes need.
pub(super) struct ChangePasses {
    pub(super) tracker: ChangeTracker,
    /// Ring that the program fills which goes over the threads by itself.
    pub(super) ring: RecordRing,
}

/// Room for the records of some thousand threads.
const RING_BYTES: u32 = 1 << 20;

impl BpfEngine {
    /// Loads the programs, and opens iterators for `captures` captures, which then need no capability.
    pub(in crate::capture) fn load(captures: usize, passes: Passes) -> Result<Self, NoBpf> {
        let begin = Instant::now();
        with_kernel(|btf, kernel| {
            let mut layout =
                Layout::resolve(btf, kernel.task, of_mounted(&Hierarchies::of_this_host(), columns::all(cpu_words())));
            let of_changes = match passes {
                Passes::OfAll => None,
                Passes::OfChanges => change_programs((btf, kernel), &mut layout).map_err(obstacle::of_errno)?,
            };
            let (by_iterator, program, changes) = match of_changes {
                Some(ChangePrograms { by_iterator, program, passes }) => (by_iterator, program, Some(passes)),
                None => {
                    let record = record_of(&layout).map_err(obstacle::of_errno)?;
                    let spec = iterator_spec(kernel);
                    let emit = |layout: &Layout| Emitter { kernel, layout }.iterator(record.as_raw_fd());
                    (load(&spec, &mut layout, emit)?, None, None)
                }
            };
            let walk = ThreadWalk::new(&by_iterator, program, captures).map_err(obstacle::of_errno)?;
            let (walk, changes) = (Mutex::new(walk), changes.map(Mutex::new));
            Ok(Self { walk, changes, layout, setup: begin.elapsed() })
        })
    }

    /// Names of metrics that have no values because the verifier refused a field. procfs has the values of
    /// [`FieldForm::PageCounter`] all the same.
    pub(in crate::capture) fn dropped_metrics(&self) -> Vec<String> {
        let paths: Vec<_> =
            self.layout.dropped.iter().map(|&column| self.layout.columns[usize::from(column)].path).collect();
        let lacks_field = |metric: &&Metric| {
            let field = metric.sources.bpf.filter(|field| field.form != FieldForm::PageCounter);
            field.is_some_and(|field| field.paths().any(|path| paths.contains(&path)))
        };
        METRICS.iter().filter(lacks_field).map(|metric| metric.name.to_owned()).collect()
    }

    /// Makes the next captures read another file.
    #[cfg(test)]
    pub(in crate::capture) fn replace_iterators(&self, file: OwnedFd) {
        lock(&self.walk).replace_opened(file);
    }

    /// Passes the records of all threads to `each`, many at once. The records before an error are passed: `EIO` if the
    /// iterator ends within a record, `EOVERFLOW` if it does not end.
    pub(in crate::capture) fn read(&self, mut each: impl FnMut(Vec<u64>)) -> Result<(), Errno> {
        let iterator = lock(&self.walk).open()?;
        let mut pass = IteratorPass::default();
        while let Some(words) = pass.whole_records(|words| iterator::read_words(&iterator, words))? {
            each(words);
        }
        Ok(())
    }
}

/// Calls `body` with the types of this kernel, while the limit of locked memory is raised.
pub(super) fn with_kernel<T>(body: impl FnOnce(&Btf<'_>, Kernel) -> Result<T, NoBpf>) -> Result<T, NoBpf> {
    obstacle::before_loading()?;
    let bytes = KernelBtf::open().map_err(|error| obstacle::without_types(&error))?;
    let btf = Btf::parse(&bytes).map_err(|damage| NoBpf::with_detail(BpfObstacle::NoBtf, damage))?;
    let kernel = Kernel::find(&btf).ok_or(BpfObstacle::NoTaskIterator)?;
    // If the limit cannot be raised, loading fails with the cause.
    let _raised = RaisedMemlock::new();
    body(&btf, kernel)
}

/// Programs of passes that return what changed, and what they share.
struct ChangePrograms {
    by_iterator: OwnedFd,
    /// `None` where the kernel cannot run it, or not with the fields of the other one.
    program: Option<OwnedFd>,
    passes: ChangePasses,
}

/// Loads both programs; `None` if the verifier refuses the filter.
fn change_programs((btf, kernel): (&Btf<'_>, Kernel), layout: &mut Layout) -> Result<Option<ChangePrograms>, Errno> {
    let filter = ChangeFilter::find(btf, kernel.task, slots_of_host());
    let (tracker, ring) = (ChangeTracker::new(filter.words())?, RecordRing::new(RING_BYTES)?);
    let record = record_of(layout)?;
    let load_with = |spec: &ProgramSpec<'_>, layout: &mut Layout, way| {
        let filter = (&filter, tracker.slots.map.as_raw_fd());
        load(spec, layout, |layout| Emitter { kernel, layout }.changes(way, record.as_raw_fd(), filter))
    };
    let by_iterator = match load_with(&iterator_spec(kernel), layout, (TaskWalk::Iterator, ChangeOutput::Reader)) {
        Ok(program) => program,
        Err(no_bpf) => {
            tracing::info!("each step reads all threads: {no_bpf:?}");
            return Ok(None);
        }
    };
    let program = TaskWalk::open_coded(btf).and_then(|walk| {
        let spec = ProgramSpec { name: "ctprof_changes", attach: Attach::Nowhere, btf_id: 0 };
        let mut of_this = layout.clone();
        let refused = |no_bpf: &NoBpf| tracing::info!("the kernel's iterator goes over the threads: {no_bpf:?}");
        let program =
            load_with(&spec, &mut of_this, (walk, ChangeOutput::Ring(ring.maps()))).inspect_err(refused).ok()?;
        (of_this.dropped == layout.dropped).then_some(program)
    });
    Ok(Some(ChangePrograms { by_iterator, program, passes: ChangePasses { tracker, ring } }))
}

fn iterator_spec(kernel: Kernel) -> ProgramSpec<'static> {
    ProgramSpec { name: "ctprof_threads", attach: Attach::Iterator, btf_id: kernel.iterator.0 }
}

/// The map in which programs make records of this layout.
fn record_of(layout: &Layout) -> Result<OwnedFd, Errno> {
    let words = layout.words(RecordScope::Process) + LAST_WRITTEN_WORDS;
    per_cpu_array(u32::try_from(8 * words).map_err(|_| Errno::E2BIG)?)
}

/// A pass over all threads. Its work is bounded, not its time: on a busy host, a capture can wait long for a CPU.
#[derive(Default)]
struct IteratorPass {
    threads: usize,
    /// Words of a record that is not whole yet.
    rest: Vec<u64>,
}

/// More threads than a kernel can have (`PID_MAX_LIMIT` of include/linux/threads.h).
const TOO_MANY_THREADS: usize = (4 << 20) + 1;
/// Words of the longest record: the kernel's own buffer has 32 KiB (`bpf_seq_read`).
const MAX_RECORD_WORDS: usize = (32 << 10) / 8;

impl IteratorPass {
    /// The records that are whole with the words that `read` appends; `None` if these are none.
    fn whole_records(
        &mut self,
        read: impl FnOnce(&mut Vec<u64>) -> Result<usize, Errno>,
    ) -> Result<Option<Vec<u64>>, Errno> {
        let mut words = std::mem::take(&mut self.rest);
        if read(&mut words)? == 0 {
            return if words.is_empty() { Ok(None) } else { Err(Errno::EIO) };
        }
        self.rest = words.split_off(records(&words).map(ThreadRecord::len).sum());
        self.threads += records(&words).count();
        match self {
            Self { threads: TOO_MANY_THREADS.., .. } => Err(Errno::EOVERFLOW),
            Self { rest, .. } if rest.len() > MAX_RECORD_WORDS => Err(Errno::EIO),
            _ => Ok(Some(words)),
        }
    }
}

/// Words of a mask of all CPUs that this host can have.
fn cpu_words() -> usize {
    let possible = fs::read("/sys/devices/system/cpu/possible").ok().and_then(|text| cpu_list(&text));
    let last = possible.and_then(|cpus| cpus.last().copied()).and_then(|cpu| usize::try_from(cpu).ok());
    last.map_or(MAX_CPU_WORDS, |last| (last / 64 + 1).min(MAX_CPU_WORDS))
}

/// Words of a mask of 8192 CPUs, the most that a kernel is built for.
const MAX_CPU_WORDS: usize = 8192 / 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::skip::{Missing, skipped};

    /// Words of records, with 42 in the only field of each.
    fn words_of(times: std::ops::Range<u64>) -> Vec<u64> {
        times.flat_map(|time| [6, 0, 0, 0, time, 42]).collect()
    }

    fn read(pass: &mut IteratorPass, part: &[u64]) -> Result<Option<Vec<u64>>, Errno> {
        pass.whole_records(|words| {
            words.extend(part);
            Ok(part.len())
        })
    }

    #[test]
    fn a_pass_ends_after_more_threads_than_a_kernel_can_have() {
        let mut pass = IteratorPass { threads: TOO_MANY_THREADS - 2, ..IteratorPass::default() };
        assert_eq!(read(&mut pass, &words_of(0..1)), Ok(Some(words_of(0..1))));
        assert_eq!(read(&mut pass, &words_of(0..1)), Err(Errno::EOVERFLOW));
    }

    #[test]
    fn a_record_that_never_ends_fails_the_pass() {
        let mut pass = IteratorPass::default();
        let zeros = [0; MAX_RECORD_WORDS];
        assert_eq!(read(&mut pass, &zeros), Ok(Some(vec![])));
        assert_eq!(read(&mut pass, &zeros[..1]), Err(Errno::EIO));
    }

    #[test]
    fn records_that_reads_divide_are_passed_whole() {
        let words = words_of(0..5);
        for length in 1..=words.len() {
            let (mut pass, mut times) = (IteratorPass::default(), Vec::new());
            for part in words.chunks(length) {
                times.extend(records(&read(&mut pass, part).unwrap().unwrap()).map(ThreadRecord::time));
            }
            assert_eq!((times, read(&mut pass, &[])), ((0..5).collect(), Ok(None)), "{length}");
        }
        let mut pass = IteratorPass::default();
        read(&mut pass, &words[..words.len() - 1]).unwrap();
        assert_eq!(read(&mut pass, &[]), Err(Errno::EIO), "the last record is not whole");
    }

    #[test]
    fn the_engine_reads_the_calling_thread() {
        let engine = match BpfEngine::load(1, Passes::OfAll) {
            Ok(engine) => engine,
            Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
        };
        let field = engine.layout.find(columns::TID);
        let mut tids = BTreeSet::new();
        engine.read(|words| tids.extend(records(&words).filter_map(|record| record.number(field)))).unwrap();
        assert!(tids.contains(&u64::from(nix::unistd::gettid().as_raw().cast_unsigned())), "{tids:?}");
        assert_eq!(engine.dropped_metrics(), Vec::<String>::new());
    }

    #[test]
    fn metrics_without_values_are_those_with_a_refused_field() {
        let engine = BpfEngine::load(1, Passes::OfAll);
        let Ok(mut engine) = engine else { return skipped(Missing::Privilege(format!("BPF: {:?}", engine.err()))) };
        let number = |path| engine.layout.columns.iter().position(|column| column.path == path).unwrap();
        let dropped = ["nvcsw", "mm->total_vm"].map(|path| u16::try_from(number(path)).unwrap());
        engine.layout.dropped = dropped.into();
        assert_eq!(engine.dropped_metrics(), ["voluntary_csw", "hiwater_vm_bytes"]);
    }

    #[test]
    fn a_mask_has_a_word_for_each_64_cpus() {
        assert!((1..=MAX_CPU_WORDS).contains(&cpu_words()));
    }
}
