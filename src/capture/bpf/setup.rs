//! Loads the program that reads threads.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::super::host::context::in_initial_pid_namespace;
use super::super::procfs::text::cpu_list;
use super::btf::Btf;
use super::columns::{self, Level};
use super::layout::{Layout, Part, Record, Wanted, records, words_of};
use super::load::{Attach, LoadError, Spec, load};
use super::obstacle;
use super::program::{Emitter, Kernel};
use crate::model::{BpfObstacle, FieldForm, METRICS, Metric, NoBpf};
use crate::sys::bpf::iterator::{self, Only};
use crate::sys::bpf::kernel_btf::{KernelBtf, KernelBtfError};
use crate::sys::bpf::map::per_cpu_array;
use crate::sys::bpf::memlock::RaisedMemlock;

/// A loaded program with the layout of its records.
pub(in crate::capture) struct Engine {
    link: OwnedFd,
    /// Iterators for the next captures: before Linux 5.19, opening one needs the capabilities that loading needs.
    iterators: Mutex<Vec<OwnedFd>>,
    pub(super) layout: Layout,
    /// Columns that the verifier refused.
    pub(super) dropped: BTreeSet<u16>,
    pub(super) level: Level,
    pub(in crate::capture) setup: Duration,
}

impl Engine {
    /// Loads a program for all threads, or for those of one process where the kernel can select them. Opens
    /// iterators for `captures` captures, which then need no capability.
    ///
    /// # Errors
    /// [`NoBpf`] says why BPF is not available.
    pub(in crate::capture) fn load(process: Option<u32>, captures: usize) -> Result<Self, NoBpf> {
        obstacle::before_loading()?;
        let begin = Instant::now();
        let bytes = KernelBtf::open().map_err(without_btf)?;
        let invalid = |error| NoBpf::with_detail(BpfObstacle::NotKernelBtf, format!("{error}"));
        let btf = Btf::parse(&bytes).map_err(invalid)?;
        let kernel = Kernel::find(&btf).ok_or(BpfObstacle::NoTaskIterator)?;
        // If it cannot be raised, loading fails with the cause.
        let _raised = RaisedMemlock::new();
        let level = level(&btf, kernel)?;
        let layout = Layout::resolve(&btf, kernel.task, columns::all(level, cpu_words()));
        let (program, dropped) = iterator_program(kernel, &layout)?;
        let os = |errno| obstacle::explain(errno, "");
        let link = link(&program, process).map_err(os)?;
        let iterators = (0..captures).map(|_| iterator::open(link.as_fd())).collect::<Result<_, _>>().map_err(os)?;
        Ok(Self { link, iterators: Mutex::new(iterators), layout, dropped, level, setup: begin.elapsed() })
    }

    /// Names of the metrics without values because the verifier refused a field. Where it refused those of
    /// [`FieldForm::PageCounter`], procfs has the values.
    pub(in crate::capture) fn dropped_metrics(&self) -> Vec<String> {
        let dropped = self.dropped.iter().filter_map(|&column| self.layout.columns.get(usize::from(column)));
        let paths: Vec<_> = dropped.map(|column| &*column.path).collect();
        let lacks_field = |metric: &&Metric| {
            let field = metric.sources.bpf.filter(|field| field.form != FieldForm::PageCounter);
            field.is_some_and(|field| field.paths().any(|path| paths.contains(&path)))
        };
        METRICS.iter().filter(lacks_field).map(|metric| metric.name.to_owned()).collect()
    }

    /// Makes the next captures read another file.
    #[cfg(test)]
    pub(in crate::capture) fn replace_iterators(&self, file: OwnedFd) {
        *self.iterators.lock().unwrap_or_else(PoisonError::into_inner) = vec![file];
    }

    /// Passes the records of all threads to `each`, many at once.
    ///
    /// # Errors
    /// Errors of the iterator; `EIO` if it ends within a record, `EOVERFLOW` and `ETIMEDOUT` if it does not end. The
    /// records before are passed.
    pub(in crate::capture) fn read(&self, each: impl FnMut(Vec<u64>)) -> Result<(), Errno> {
        let opened = self.iterators.lock().unwrap_or_else(PoisonError::into_inner).pop();
        read(&opened.map_or_else(|| iterator::open(self.link.as_fd()), Ok)?, each)
    }
}

/// Loads the program of an iterator; also the columns that the verifier refused.
fn iterator_program(kernel: Kernel, layout: &Layout) -> Result<(OwnedFd, BTreeSet<u16>), NoBpf> {
    let bytes = u32::try_from(8 * layout.words(Part::Process)).expect("a record has a few hundred words");
    let record = per_cpu_array(bytes).map_err(|errno| obstacle::explain(errno, ""))?;
    let emit = |dropped: &BTreeSet<u16>| {
        let program = Emitter { kernel, layout, dropped }.iterator(record.as_raw_fd());
        let name = |column: u16| layout.columns.get(usize::from(column)).map_or("", |column| &*column.path);
        tracing::trace!("program of the BPF iterator:\n{}", program.listing(name));
        program
    };
    let spec = Spec { name: "ctprof_threads", attach: Attach::TaskIterator, btf_id: kernel.iterator.0 };
    let loaded = load(&spec, emit).map_err(|error| why(&error))?;
    Ok((loaded.program, loaded.dropped))
}

pub(super) fn why(error: &LoadError) -> NoBpf {
    match error {
        LoadError::Verifier { errno, reason } => obstacle::explain(*errno, reason),
        LoadError::Denied(errno) | LoadError::Unsupported(errno) | LoadError::Os(errno) => {
            obstacle::explain(*errno, "")
        }
    }
}

fn link(program: &OwnedFd, process: Option<u32>) -> Result<OwnedFd, Errno> {
    match process.map(Only::Process) {
        // Before Linux 6.1, an iterator visits all threads.
        Some(only) => iterator::link(program.as_fd(), Some(only)).or_else(|_| iterator::link(program.as_fd(), None)),
        None => iterator::link(program.as_fd(), None),
    }
}

/// Passes whole records to `each`, many at once.
fn read(iterator: &OwnedFd, mut each: impl FnMut(Vec<u64>)) -> Result<(), Errno> {
    let (begin, mut threads) = (Instant::now(), 0);
    let mut buffer = vec![0; iterator::CHUNK];
    let mut words: Vec<u64> = Vec::new();
    loop {
        let length = iterator::read(iterator, &mut buffer)?;
        if length == 0 {
            return if words.is_empty() { Ok(()) } else { Err(Errno::EIO) };
        }
        pass_whole(&mut words, &buffer[..length], &mut |words| {
            threads += records(&words).count();
            each(words);
        });
        check_progress(threads, begin.elapsed())?;
    }
}

/// More threads than a kernel can have (`PID_MAX_LIMIT` of include/linux/threads.h).
const TOO_MANY_THREADS: usize = (4 << 20) + 1;
/// A pass over a million threads takes a second.
const LONGEST_PASS: Duration = Duration::from_secs(10);

/// Fails a pass that does not end.
fn check_progress(threads: usize, elapsed: Duration) -> Result<(), Errno> {
    match (threads, elapsed) {
        (TOO_MANY_THREADS.., _) => Err(Errno::EOVERFLOW),
        (_, elapsed) if elapsed > LONGEST_PASS => Err(Errno::ETIMEDOUT),
        _ => Ok(()),
    }
}

/// Appends bytes to the words of a record that is not whole yet. Passes all whole records, and keeps the rest.
fn pass_whole(words: &mut Vec<u64>, bytes: &[u8], each: &mut impl FnMut(Vec<u64>)) {
    words.extend(words_of(bytes));
    let rest = words.split_off(records(words).map(Record::len).sum());
    each(std::mem::replace(words, rest));
}

/// The level of ctprof's PID namespace. In the initial one it is 0; in others, ctprof's own record says it.
pub(super) fn level(btf: &Btf<'_>, kernel: Kernel) -> Result<Level, NoBpf> {
    if in_initial_pid_namespace(Path::new("/proc")) == Some(true) {
        return Ok(Level(0));
    }
    let layout = Layout::resolve(btf, kernel.task, vec![Wanted::number(Part::Thread, Level::OF_THREAD)]);
    let (program, dropped) = iterator_program(kernel, &layout)?;
    let own = Only::Thread(nix::unistd::gettid().as_raw().unsigned_abs());
    let os = |errno| obstacle::explain(errno, "");
    let link = iterator::link(program.as_fd(), Some(own)).map_err(os)?;
    let field = layout.find(Level::OF_THREAD, &dropped);
    let mut levels = Vec::new();
    let iterator = iterator::open(link.as_fd()).map_err(os)?;
    read(&iterator, |words| levels.extend(records(&words).map(|record| record.number(field)))).map_err(os)?;
    // Before Linux 6.1, an iterator visits all threads.
    match levels[..] {
        [Some(level)] => u32::try_from(level).map(Level).map_err(|_| BpfObstacle::PidNamespace.into()),
        _ => Err(BpfObstacle::PidNamespace.into()),
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

pub(super) fn without_btf(error: KernelBtfError) -> NoBpf {
    match error {
        KernelBtfError::Os(Errno::ENOENT) => BpfObstacle::NoBtf.into(),
        KernelBtfError::Os(errno) => obstacle::explain(errno, ""),
        error => NoBpf::with_detail(BpfObstacle::NotKernelBtf, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn a_pass_that_does_not_end_fails() {
        assert_eq!(check_progress(4 << 20, LONGEST_PASS), Ok(()));
        assert_eq!(check_progress((4 << 20) + 1, Duration::ZERO), Err(Errno::EOVERFLOW));
        assert_eq!(check_progress(0, LONGEST_PASS + Duration::from_millis(1)), Err(Errno::ETIMEDOUT));
    }

    #[test]
    fn records_that_reads_divide_are_passed_whole() {
        let record = |number: u64| [6, 0, 0, 0, number, 42];
        let bytes: Vec<u8> = (0..5).flat_map(record).flat_map(u64::to_ne_bytes).collect();
        for length in (8..=bytes.len()).step_by(8) {
            let (mut words, mut times) = (Vec::new(), Vec::new());
            for part in bytes.chunks(length) {
                pass_whole(&mut words, part, &mut |words| times.extend(records(&words).map(Record::time)));
            }
            assert_eq!((times, words.len()), ((0..5).collect(), 0), "{length}");
        }
        let mut words = Vec::new();
        pass_whole(&mut words, &bytes[..bytes.len() - 8], &mut |_| ());
        assert_eq!(words.len(), 5, "the last record is not whole");
    }

    #[test]
    fn the_engine_reads_the_calling_thread() {
        // An iterator over one process can end early.
        let engine = match Engine::load(None, 1) {
            Ok(engine) => engine,
            Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
        };
        let field = engine.layout.find(&engine.level.tid(), &engine.dropped);
        let mut tids = BTreeSet::new();
        engine.read(|words| tids.extend(records(&words).filter_map(|record| record.number(field)))).unwrap();
        assert!(tids.contains(&u64::from(nix::unistd::gettid().as_raw().cast_unsigned())), "{tids:?}");
        assert_eq!(engine.dropped_metrics(), Vec::<String>::new());
    }

    #[test]
    fn metrics_without_values_are_those_with_a_refused_field() {
        let engine = Engine::load(None, 1);
        let Ok(mut engine) = engine else { return skipped(Missing::Privilege(format!("BPF: {:?}", engine.err()))) };
        let number = |path| engine.layout.columns.iter().position(|column| column.path == path).unwrap();
        let dropped = ["nvcsw", "mm->total_vm"].map(|path| u16::try_from(number(path)).unwrap());
        engine.dropped = dropped.into();
        assert_eq!(engine.dropped_metrics(), ["voluntary_csw", "hiwater_vm_bytes"]);
    }

    #[test]
    fn a_mask_has_a_word_for_each_64_cpus() {
        assert!((1..=MAX_CPU_WORDS).contains(&cpu_words()));
    }
}
