//! Records of threads that exit, from BPF programs.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

use super::super::css_sets::CssSets;
use super::super::options::Tree;
use super::super::record::packed::{MAX_CHUNKS, NotStored, Packed};
use super::super::start::Start;
use super::columns;
use super::exit_decoder::{Decoder, Exit};
use super::exit_programs::{ExitFields, ExitPrograms};
use super::facts::Facts;
use super::layout::{FOLLOWED, Field, HEAD, Part, Record, TIME};
use crate::model::{BpfObstacle, NoBpf};
use crate::sys::priority::prefer_this_thread;

/// Records are left in the ring for this long, so that one wake-up receives many. At 20,000 exits per second, a hundredth
/// of the default ring is used meanwhile.
const PAUSE_MS: u8 = 5;
/// The kernel frees a thread after a grace period of RCU: mostly 10 to 40 ms, at most this long.
const LONGEST_GRACE: Duration = Duration::from_millis(300);
/// If no thread was freed for this long, those that have exited are not freed soon: their parents have not waited
/// for them.
const QUIET: Duration = Duration::from_millis(60);

/// Receives the records of all threads that exit on this host, in a thread of its own.
#[derive(Debug)]
pub(in crate::capture) struct BpfListener {
    /// The thread stops when this end is closed.
    stop: UnixStream,
    listening: JoinHandle<Received>,
    facts: Facts,
    fields: ExitFields,
    css_sets: Arc<CssSets>,
}

impl BpfListener {
    /// Loads the programs, with a ring of at least so many bytes. Every thread that exits from now on has a record.
    ///
    /// # Errors
    /// [`NoBpf`] says why BPF is not available.
    pub(in crate::capture) fn start(ring_bytes: u32, facts: Facts, css_sets: Arc<CssSets>) -> Result<Self, NoBpf> {
        let failed = |error: std::io::Error| NoBpf::with_detail(BpfObstacle::Failed, error.to_string());
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let (programs, fields) = ExitPrograms::attach(ring_bytes)?;
        let received = Received::new(&fields);
        let thread = thread::Builder::new().name("ctprof-exits".to_owned());
        let listening = thread.spawn(move || received.listen(programs, stopped.as_fd())).map_err(failed)?;
        Ok(Self { stop, listening, facts, fields, css_sets })
    }

    /// Stops when the threads that have exited before the call are freed, and returns their records.
    ///
    /// # Panics
    /// If the listening thread panicked.
    pub(in crate::capture) fn finish(self) -> BpfExits {
        let Self { stop, listening, facts, fields, css_sets } = self;
        drop(stop);
        let Received { records, received, lost, .. } =
            listening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        BpfExits { received, lost, records, facts, fields, css_sets }
    }
}

/// Records of threads that exited.
#[derive(Debug)]
pub(in crate::capture) struct BpfExits {
    pub(in crate::capture) received: u64,
    pub(in crate::capture) lost: u64,
    records: Packed,
    facts: Facts,
    fields: ExitFields,
    css_sets: Arc<CssSets>,
}

impl BpfExits {
    /// The threads, in the order in which they were freed.
    pub(in crate::capture) fn threads(&self) -> impl Iterator<Item = Exit> {
        let mut decoder = Decoder::new(&self.fields, &self.facts);
        self.records.iter().filter_map(move |(_, record)| {
            let (mut exit, css_set) = decoder.exit(Record::split(&words(&record))?.0)?;
            exit.state.cgroup = css_set.and_then(|address| self.css_sets.cgroup(address));
            Some(exit)
        })
    }
}

/// What the listening thread has so far.
struct Received {
    /// Records of threads that have exited and are not freed yet, by the address of the thread.
    exiting: HashMap<u64, Vec<u64>>,
    records: Packed,
    /// Words of a record of a freed thread, and of an exit.
    words: [usize; 2],
    start: Option<Field>,
    received: u64,
    /// Threads whose record at the exit is missing.
    only_freed: u64,
    /// Records that are not stored.
    lost: u64,
    last_freed: Instant,
}

impl Received {
    fn new(fields: &ExitFields) -> Self {
        let ExitFields { layout, dropped } = fields;
        Self {
            exiting: HashMap::new(),
            records: Packed::new(MAX_CHUNKS),
            words: [Part::Thread, Part::Process].map(|part| layout.words(part)),
            start: layout.find(columns::START_TIME, dropped),
            received: 0,
            only_freed: 0,
            lost: 0,
            last_freed: Instant::now(),
        }
    }

    /// Receives records until the other end of `stop` is closed and the threads that have exited by then are freed.
    fn listen(mut self, mut programs: ExitPrograms, stop: BorrowedFd<'_>) -> Self {
        prefer_this_thread();
        let mut stop = [PollFd::new(stop, PollFlags::POLLIN)];
        while matches!(poll(&mut stop, PAUSE_MS), Ok(0) | Err(Errno::EINTR)) {
            self.take(&mut programs);
        }
        let (stopped, stopped_ns) = (Instant::now(), Start::now(Tree::Live).monotonic_ns.unwrap_or(0));
        self.take(&mut programs);
        self.last_freed = stopped;
        while stopped.elapsed() < LONGEST_GRACE && self.last_freed.elapsed() < QUIET && self.awaits_before(stopped_ns) {
            thread::sleep(Duration::from_millis(PAUSE_MS.into()));
            self.take(&mut programs);
        }
        // A capture that still lists such a thread counts it; of the others, this is all there is.
        std::mem::take(&mut self.exiting).into_values().for_each(|exiting| self.store(&exiting));
        let without_exit = programs.lost.value().unwrap_or(0);
        self.lost = self.lost.saturating_add(without_exit.saturating_sub(self.only_freed));
        self
    }

    fn take(&mut self, programs: &mut ExitPrograms) {
        if let Err(errno) = programs.ring.take(|record| self.add(&words(record))) {
            tracing::warn!("cannot read the ring buffer of exited threads: {errno}");
        }
    }

    /// Whether a thread that exited before this time is not freed yet.
    fn awaits_before(&self, monotonic_ns: u64) -> bool {
        self.exiting.values().any(|exiting| exiting[TIME] < monotonic_ns)
    }

    /// Adds a record with the address of its thread.
    fn add(&mut self, words: &[u64]) {
        let Some((&thread, record)) = words.split_last() else { return };
        let before = self.exiting.remove(&thread);
        if record.len() == self.words[1] {
            // The kernel has freed the thread before, and used its memory for this one.
            before.into_iter().for_each(|missed| self.store(&missed));
            self.exiting.insert(thread, record.to_vec());
        } else if record.len() == self.words[0] {
            self.add_freed(record, before);
        }
    }

    fn add_freed(&mut self, freed: &[u64], exiting: Option<Vec<u64>>) {
        match exiting {
            Some(mut both) if self.start_of(&both) == self.start_of(freed) => {
                self.last_freed = Instant::now();
                complete(&mut both, freed);
                self.store(&both);
            }
            missed => {
                missed.into_iter().for_each(|missed| self.store(&missed));
                self.only_freed += 1;
                self.store(freed);
            }
        }
    }

    fn start_of(&self, record: &[u64]) -> Option<u64> {
        Record::split(record)?.0.number(self.start)
    }

    fn store(&mut self, record: &[u64]) {
        let mut bytes: Vec<u8> = record.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.resize(8 * self.words[1], 0);
        match self.records.push(0, &bytes, !0) {
            Ok(()) => self.received += 1,
            Err(NotStored) => self.lost += 1,
        }
    }
}

/// Replaces what a thread had at its exit by what it had when it was freed, but for the time and for what it lost
/// in between.
fn complete(exiting: &mut [u64], freed: &[u64]) {
    let followed = FOLLOWED..TIME;
    exiting[followed.clone()].iter_mut().zip(&freed[followed]).for_each(|(both, pointers)| *both |= pointers);
    exiting[HEAD..freed.len()].copy_from_slice(&freed[HEAD..]);
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    bytes.chunks_exact(8).map(word).collect()
}
