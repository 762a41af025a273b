//! Records of threads that exit, from BPF programs.

use std::collections::HashMap;
use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::super::cgroup_ids::Hierarchies;
use super::super::cgroup_names::CgroupNames;
use super::super::containers::{CreatedContainers, NamedContainers};
use super::super::error::finding_without_bpf;
use super::super::executed::ExecutedPrograms;
use super::super::options::{Engine, Options, Tree};
use super::super::start::Start;
use super::exit_decoder::{Decoder, ExecFields, ExitFields, ExitNames, LeftProgram};
use super::exit_programs::ExitPrograms;
use super::host_parameters::HostParameters;
use super::layout::{Layout, RecordScope, TIME, ThreadRecord, words_of};
use super::new_cgroup;
use super::packed_records::{MAX_BYTES, PackedRecords, unpacked};
use super::program::{EventTrailer, ThreadEvent};
use crate::model::{BpfObstacle, CtprofSnapshot, ExitRecords, ExitedThread, HostContext, Name, NoBpf};
use crate::process::{Privileges, RaisedPriority, lock};

/// Records are left in the ring for this long, so that one wake-up receives many. At 20,000 exits per second, they take
/// 2 % of the default ring.
const PAUSE_MS: u8 = 5;
const PAUSE: Duration = Duration::from_millis(PAUSE_MS as u64);
/// Exited threads that the kernel has not freed yet, of 1 KB each: their parents may never wait for them. Beyond this many,
/// a thread's counters are those read at exit.
const MAX_EXITING: usize = 1 << 16;
/// Programs that were left, of 1 KB each. Beyond this many, and beyond [`MAX_LEFT_BY_ONE`] of a process, what was done in them
/// belongs to the programs that follow.
const MAX_LEFT: usize = 1 << 14;
const MAX_LEFT_BY_ONE: usize = 64;
/// The kernel frees a thread after a grace period of RCU: mostly 10 to 40 ms, at most this long.
const LONGEST_GRACE: Duration = Duration::from_millis(300);
/// If no thread was freed for this long, the parents of the remaining ones have not waited for them.
const QUIET: Duration = Duration::from_millis(60);

/// Size of the ring buffer of an [`ExitListener`]: room for 5,000 threads.
pub const DEFAULT_RING_BYTES: u32 = 8 << 20;

/// Receives the records of all threads that exit on this host, in a thread of its own, until it is dropped.
pub struct ExitListener {
    inbox: Arc<Mutex<Inbox>>,
    /// The thread ends when its pipe is closed.
    listening: Option<(PipeWriter, JoinHandle<()>)>,
    layout: Arc<Layout>,
    names: ExitNames,
}

/// Why there are no records of exited threads. Without them, windows show the work of exited threads by process.
#[derive(Debug, thiserror::Error)]
#[error("no exit records: {0}")]
pub struct NoExitRecords(String);

impl ExitListener {
    /// Starts to listen, with a ring buffer of at least `ring_bytes`. Every thread that exits from now on has a record.
    ///
    /// # Errors
    /// [`NoExitRecords`] if the options demand procfs, or BPF is not available.
    pub fn start(options: &Options, ring_bytes: u32) -> Result<Self, NoExitRecords> {
        let listener = match options.engine {
            Engine::Procfs => return Err(NoExitRecords("only BPF has them. Fix: use --engine auto".to_owned())),
            _ if options.roots.tree() != Tree::Live => Err(BpfObstacle::NotLive.into()),
            _ => Self::start_with_bpf(ring_bytes),
        };
        listener.map_err(|no_bpf| NoExitRecords(finding_without_bpf(&no_bpf).to_string()))
    }

    fn start_with_bpf(ring_bytes: u32) -> Result<Self, NoBpf> {
        let failed = |error: std::io::Error| NoBpf::with_detail(BpfObstacle::Failed, error.to_string());
        let (ended, end) = pipe().map_err(failed)?;
        let hierarchies = Hierarchies::of_this_host();
        let (programs, layout) = ExitPrograms::attach(ring_bytes, &hierarchies)?;
        let ring = programs.ring.map.try_clone().map_err(failed)?;
        let received = ExitReceiver::new(&layout);
        let cgroup_names = Arc::<CgroupNames>::default();
        let new_cgroups = NewCgroups { hierarchies, names: Arc::clone(&cgroup_names) };
        let containers = CreatedContainers::start().map_err(failed)?;
        let executed = programs.execs.as_ref().map(|execs| ExecFields::new(&execs.layout));
        let executed = executed.map(|fields| Ok((fields, ExecutedPrograms::start()?))).transpose().map_err(failed)?;
        let program_names = executed.as_ref().map(|(_, programs)| programs.names()).unwrap_or_default();
        let inbox = Arc::new(Mutex::new(Inbox { programs, received, new_cgroups, containers, executed }));
        let shared = Arc::clone(&inbox);
        let thread = thread::Builder::new().name("ctprof-exits".to_owned());
        let thread = thread.spawn(move || listen(&shared, &ring, &ended)).map_err(failed)?;
        let names = ExitNames { cgroups: cgroup_names, programs: program_names };
        Ok(Self { inbox, listening: Some((end, thread)), layout: Arc::new(layout), names })
    }

    /// How many entries each map has that outlives a step, for tests of weeks of recording.
    pub(crate) fn entries(&self) -> Vec<(&'static str, usize)> {
        let inbox = lock(&self.inbox);
        let ExitReceiver { exiting, renamed, left_by, left, .. } = &inbox.received;
        vec![
            ("exiting threads", exiting.len()),
            ("renamed threads", renamed.len()),
            ("left programs", left_by.len() + left.len()),
            ("started programs", self.names.programs.entries()),
        ]
    }

    /// Forgets the threads that have exited before the call.
    pub fn restart(&mut self) {
        self.keep_all();
        let mut inbox = lock(&self.inbox);
        inbox.take();
        inbox.received.exiting.clear();
        inbox.received.left.clear();
        inbox.drain(u64::MAX);
    }

    /// From now on, passes each thread that has started after the call to `sink` when it is freed, and keeps the others.
    /// `host` says what the kernel counts.
    pub fn fold(&mut self, host: &HostContext, sink: ExitSink) {
        let start = Start::now(Tree::Live);
        let decoder = Decoder::new(&self.layout, &HostParameters::read(host, start), &self.names);
        let since_monotonic_ns = start.monotonic_ns.unwrap_or(u64::MAX);
        lock(&self.inbox).received.folding = Some(Folding { since_monotonic_ns, decoder, sink });
    }

    /// Keeps all records from now on. Those that have arrived are passed on before.
    pub fn keep_all(&mut self) {
        let mut inbox = lock(&self.inbox);
        inbox.take();
        inbox.received.keep_all();
    }

    /// Names of cgroups, which captures and records learn.
    pub(in crate::capture) fn cgroup_names(&self) -> &Arc<CgroupNames> {
        &self.names.cgroups
    }

    /// Takes the records of the threads that have exited before the call, and were not taken before. Waits until those threads
    /// are freed, and listens on. Threads that exit meanwhile are taken by the next call: they have not done all of their work yet,
    /// and a capture before the call has listed them.
    ///
    /// `host` says what the kernel counts. Threads are in cgroups that were made since this listener was started, or that were
    /// seen by captures that [share](super::super::capturer::Capturer::share_cgroups) them.
    pub fn drain(&mut self, host: &HostContext) -> RecordedExits {
        let (begin, start) = (Instant::now(), Start::now(Tree::Live));
        let monotonic_ns = start.monotonic_ns.unwrap_or(u64::MAX);
        lock(&self.inbox).received.last_freed = begin;
        while begin.elapsed() < LONGEST_GRACE && lock(&self.inbox).awaits_before(monotonic_ns) {
            thread::sleep(PAUSE);
        }
        let ((records, summary), left) = {
            let mut inbox = lock(&self.inbox);
            (inbox.drain(monotonic_ns), std::mem::take(&mut inbox.received.left))
        };
        self.names.programs.turn();
        let (facts, layout) = (HostParameters::read(host, start), Arc::clone(&self.layout));
        let containers = lock(&self.inbox).containers.take();
        RecordedExits { summary, records, left, facts, layout, names: self.names.clone(), containers }
    }
}

impl Drop for ExitListener {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.listening.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

/// Receives records until the other end of the pipe is closed.
fn listen(inbox: &Mutex<Inbox>, ring: &OwnedFd, ended: &PipeReader) {
    let _raised = RaisedPriority::run_first();
    Privileges::Record.keep_after_loading().expect("the thread that started this one has dropped capabilities");
    let mut files = [ended.as_fd(), ring.as_fd()].map(|file| PollFd::new(file, PollFlags::POLLIN));
    loop {
        let _ = poll(&mut files, PollTimeout::NONE);
        if matches!(poll(&mut files[..1], PAUSE_MS), Ok(1)) {
            return;
        }
        lock(inbox).take();
    }
}

/// Records of threads that exited, from an [`ExitListener`].
///
/// Records take 20 to 100 bytes each, and 256 MiB at most: those beyond that are counted as lost.
pub struct RecordedExits {
    /// How many records there are, and how many were lost.
    pub summary: ExitRecords,
    records: Vec<u8>,
    left: Vec<LeftProgram>,
    facts: HostParameters,
    layout: Arc<Layout>,
    names: ExitNames,
    containers: NamedContainers,
}

impl RecordedExits {
    /// Adds the containers that were created before the records were drained, and that threads of a window were in.
    pub(crate) fn name_containers(&mut self, window: &mut CtprofSnapshot) {
        let NamedContainers { mut containers, unread } = std::mem::take(&mut self.containers);
        let cgroups = window.threads.iter().filter_map(|thread| thread.cgroup.as_deref());
        let exited = cgroups.filter_map(|path| containers.remove_entry(path));
        let exited: Vec<_> = exited.filter(|(path, _)| !window.head.containers.contains_key(path)).collect();
        if exited.iter().any(|(_, container)| !container.is_named()) {
            window.head.containers_unread.extend(unread);
        }
        window.head.containers.extend(exited);
    }

    /// The threads, in the order in which they were freed.
    pub fn threads(&self) -> impl Iterator<Item = ExitedThread> {
        let mut decoder = Decoder::new(&self.layout, &self.facts, &self.names);
        unpacked(&self.records).filter_map(move |record| decoder.exit(ThreadRecord::split(&record)?.0))
    }

    /// What threads were and had done each time that they executed another program, and the threads that have exited.
    pub(crate) fn all(&self) -> impl Iterator<Item = ExitedThread> {
        self.left_programs().chain(self.threads())
    }

    fn left_programs(&self) -> impl Iterator<Item = ExitedThread> {
        let mut decoder = Decoder::new(&self.layout, &self.facts, &self.names);
        self.left.iter().filter_map(move |left| decoder.left(left))
    }
}

/// Takes the records of threads.
pub struct ExitSink {
    /// Takes a thread that has exited, with what it was and had done each time that it executed another program.
    pub exited: Box<dyn FnMut(ExitedThread, Vec<ExitedThread>) + Send>,
}

/// Passes on records of threads that started at that time or later, as soon as they are freed.
struct Folding {
    since_monotonic_ns: u64,
    decoder: Decoder,
    sink: ExitSink,
}

impl Folding {
    fn takes(&mut self, record: &[u64], left: &[LeftProgram]) -> bool {
        let Self { since_monotonic_ns, decoder, sink } = self;
        let exit = ThreadRecord::split(record).and_then(|(record, _)| decoder.exit(record));
        let exit = exit.filter(|exit| exit.started_monotonic_ns >= *since_monotonic_ns);
        exit.map(|exit| (sink.exited)(exit, left.iter().filter_map(|left| decoder.left(left)).collect())).is_some()
    }
}

struct Inbox {
    programs: ExitPrograms,
    received: ExitReceiver,
    new_cgroups: NewCgroups,
    containers: CreatedContainers,
    /// `None` where no program can record what is executed.
    executed: Option<(ExecFields, ExecutedPrograms)>,
}

/// Where the names of new cgroups go.
struct NewCgroups {
    hierarchies: Hierarchies,
    names: Arc<CgroupNames>,
}

impl Inbox {
    fn take(&mut self) {
        let Self { programs, received, new_cgroups, containers, executed } = self;
        let NewCgroups { hierarchies, names } = new_cgroups;
        let mut add = |words: &[u64]| {
            if let Some(cgroup) = new_cgroup::learn(names, hierarchies, words) {
                return containers.add(&cgroup);
            }
            let Some((record, trailer)) = EventTrailer::split(words) else { return };
            match executed {
                Some((fields, programs)) if trailer.event == ThreadEvent::Exec as u64 => {
                    let executed = fields.executed(record);
                    let before = executed.and_then(|(tgid, start, comm)| programs.add(tgid, start, &comm));
                    received.execute(trailer, before);
                }
                _ => received.add(record, trailer),
            }
        };
        if let Err(errno) = programs.ring.take(|record| add(&words_of(record).collect::<Vec<_>>())) {
            tracing::warn!(
                "records of exited threads are damaged and skipped, and counted as one that was lost: {errno}"
            );
            received.not_stored += 1;
        }
    }

    /// Whether a thread that exited before this time is not freed yet, and may be soon.
    fn awaits_before(&mut self, monotonic_ns: u64) -> bool {
        self.take();
        self.received.last_freed.elapsed() < QUIET && self.received.has_before(monotonic_ns)
    }

    fn drain(&mut self, exited_before_ns: u64) -> (Vec<u8>, ExitRecords) {
        self.received.drain(exited_before_ns, [self.programs.without_room.get(0), self.programs.not_run()])
    }
}

/// What was received since it was last drained.
struct ExitReceiver {
    /// Records of threads that have exited and are not freed yet, by the address of the thread.
    exiting: HashMap<u64, Vec<u64>>,
    /// Records of first threads when their name last changed, by the address of the thread: those that have executed a file since
    /// have left a program.
    renamed: HashMap<u64, Vec<u64>>,
    /// Programs that were left by threads that may be passed on when they are freed, by the address of the thread.
    left_by: HashMap<u64, Vec<LeftProgram>>,
    /// Programs that were left by others.
    left: Vec<LeftProgram>,
    records: PackedRecords,
    /// Words of a record of a freed thread, and of an exit.
    words: [usize; 2],
    fields: ExitFields,
    folding: Option<Folding>,
    received: u64,
    /// Threads whose record had no room in memory, and one for each damaged record: how many were behind it is unknown.
    not_stored: u64,
    /// What the programs had counted at the last answer: threads without room in the ring, and threads for whose exit the
    /// kernel did not run the program.
    counted: [u64; 2],
    last_freed: Instant,
}

impl ExitReceiver {
    fn new(layout: &Layout) -> Self {
        Self {
            exiting: HashMap::new(),
            renamed: HashMap::new(),
            left_by: HashMap::new(),
            left: Vec::new(),
            records: PackedRecords::new(MAX_BYTES),
            words: [RecordScope::Thread, RecordScope::Process].map(|part| layout.words(part)),
            fields: ExitFields::new(layout),
            folding: None,
            received: 0,
            not_stored: 0,
            counted: [0; 2],
            last_freed: Instant::now(),
        }
    }

    /// Takes the records of freed threads, and of others that exited before this time. `counted` is what the programs have counted.
    fn drain(&mut self, exited_before_ns: u64, counted: [u64; 2]) -> (Vec<u8>, ExitRecords) {
        // A capture that still lists such a thread counts it; of the others, this is all there is.
        let exited = self.exiting.extract_if(|_, exiting| exiting[TIME] < exited_before_ns);
        exited.collect::<Vec<_>>().into_iter().for_each(|(_, exiting)| self.store(exiting));
        let [without_room, not_run] = [0, 1].map(|kind| counted[kind].saturating_sub(self.counted[kind]));
        self.counted = counted;
        let received = std::mem::take(&mut self.received);
        let lost = std::mem::take(&mut self.not_stored).saturating_add(without_room).saturating_add(not_run);
        let records = std::mem::replace(&mut self.records, PackedRecords::new(MAX_BYTES)).finish();
        (records, ExitRecords { source: "bpf".to_owned(), received, lost, not_run })
    }

    /// Whether a thread that exited before this time is not freed yet.
    fn has_before(&self, monotonic_ns: u64) -> bool {
        self.exiting.values().any(|exiting| exiting[TIME] < monotonic_ns)
    }

    /// Adds the record of a thread.
    fn add(&mut self, record: &[u64], EventTrailer { thread, event, .. }: EventTrailer) {
        if event == ThreadEvent::Rename as u64 {
            if self.renamed.len() < MAX_EXITING {
                self.renamed.insert(thread, record.to_vec());
            }
            return;
        }
        let before = self.exiting.remove(&thread);
        if event == ThreadEvent::Exit as u64 {
            self.renamed.remove(&thread);
            // The kernel has freed the thread before, and used its memory for this one.
            before.into_iter().for_each(|missed| self.fold_or_store(thread, missed));
            if self.exiting.len() < MAX_EXITING {
                self.exiting.insert(thread, record.to_vec());
            } else {
                self.store(record.to_vec());
            }
        } else if let Some(mut exiting) = before {
            // Without its exit, the parent of a thread is unknown, and its work would be counted twice: its ancestors
            // count it too.
            if record.len() == self.words[0] && self.fields.complete(&mut exiting, record) {
                self.last_freed = Instant::now();
            }
            self.fold_or_store(thread, exiting);
        }
    }

    /// Adds that a process, whose name has changed just before, has executed a file. `program` is what it ran until then.
    fn execute(&mut self, EventTrailer { thread, old_id, .. }: EventTrailer, program: Option<Name>) {
        let Some(mut record) = self.renamed.remove(&thread) else { return };
        self.fields.set_caller(&mut record, old_id, self.exiting.values());
        let is_new = |folding: &Folding| self.fields.started_since(&record, folding.since_monotonic_ns);
        let is_new = self.folding.as_ref().is_some_and(is_new);
        // A capture may have others under the name that they leave.
        if is_new && !self.fields.is_told(&record) {
            return;
        }
        let (all, most) = match is_new {
            true => (self.left_by.entry(thread).or_default(), MAX_LEFT_BY_ONE),
            false => (&mut self.left, MAX_LEFT),
        };
        if all.len() < most {
            let left = LeftProgram { record, program };
            all.push(left);
        }
    }

    /// Keeps all records from now on.
    fn keep_all(&mut self) {
        self.folding = None;
        self.left.extend(self.left_by.drain().flat_map(|(_, left)| left));
    }

    /// Takes the record of a thread that was freed.
    fn fold_or_store(&mut self, thread: u64, record: Vec<u64>) {
        let mut left = self.left_by.remove(&thread).unwrap_or_default();
        left.retain(|left| self.fields.is_same(&left.record, &record));
        if self.folding.as_mut().is_some_and(|folding| folding.takes(&record, &left)) {
            self.received += 1;
        } else {
            self.left.extend(left);
            self.store(record);
        }
    }

    fn store(&mut self, record: Vec<u64>) {
        match self.records.push(&record) {
            Some(()) => self.received += 1,
            None => self.not_stored += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::cgroup_ids::{UNIFIED, key};
    use super::super::columns;
    use super::super::layout::{FOLLOWED, HEAD, RecordColumn};
    use super::super::packed_records::MAX_WORDS;
    use super::super::path::FieldLocation;
    use super::*;

    /// A layout in which every field has a place, each with a pointer of its own if its path has one.
    fn fields() -> Layout {
        let mut layout = Layout::default();
        let mut slot = HEAD;
        let mut wanted = columns::exits();
        wanted.sort_by_key(|wanted| wanted.part);
        for wanted in wanted {
            let pointer = wanted.path.split_once("->").map(|(pointer, _)| pointer.bytes().map(u32::from).sum());
            let hops = Vec::from_iter(pointer);
            if !hops.is_empty() && !layout.pointers.contains(&hops) {
                layout.pointers.push(hops.clone());
            }
            if layout.columns.iter().all(|column| column.path != wanted.path) {
                let place = FieldLocation { hops, size: 8, ..FieldLocation::default() };
                let words = wanted.max_words;
                layout.columns.push(RecordColumn { path: wanted.path, part: wanted.part, place, slot, words });
                slot += words;
            }
        }
        layout
    }

    /// A record with fields by their paths, in which every pointer was followed, and the address of its thread.
    fn record(fields: &Layout, (part, time, address): (RecordScope, u64, u64), values: &[(&str, u64)]) -> Vec<u64> {
        let Layout { columns, pointers, .. } = fields;
        let mut words = vec![0; fields.words(part)];
        words[0] = fields.words(part).try_into().unwrap();
        for column in columns.iter().filter(|column| column.part <= part && !column.place.hops.is_empty()) {
            let pointer = pointers.iter().position(|way| *way == column.place.hops).unwrap();
            words[FOLLOWED + pointer / 8] |= 1 << (8 * (pointer % 8));
        }
        words[TIME] = time;
        for (path, value) in values {
            let column = columns.iter().find(|column| column.path == *path).unwrap();
            words[column.slot] = *value;
        }
        let event = if part == RecordScope::Process { ThreadEvent::Exit } else { ThreadEvent::Freed };
        words.extend([address, event as u64, 0]);
        words
    }

    impl ExitReceiver {
        /// Adds the words of a ring buffer.
        fn take(&mut self, words: &[u64]) {
            let Some((record, trailer)) = EventTrailer::split(words) else { return };
            match trailer.event == ThreadEvent::Exec as u64 {
                true => self.execute(trailer, None),
                false => self.add(record, trailer),
            }
        }
    }

    fn name(text: &[u8; 8]) -> u64 {
        u64::from_ne_bytes(*text)
    }

    /// The record of thread 41, which started at second 2, at its exit.
    fn exiting(fields: &Layout, run_ns: u64) -> Vec<u64> {
        let values = [
            ("pid", 41),
            ("tgid", 40),
            ("comm", name(b"worker\0\0")),
            ("group_leader->comm", name(b"cc1\0\0\0\0\0")),
            ("real_parent->tgid", 7),
            (columns::START_TIME, 2_000_000_000),
            (columns::START_MONOTONIC, 1_900_000_000),
            (columns::CGROUPS[UNIFIED], 0xff00),
            (columns::CGROUP_LEVELS[UNIFIED], 2),
            ("se.sum_exec_runtime", run_ns),
            ("min_flt", 5),
            ("delays->blkio_count", 3),
        ];
        record(fields, (RecordScope::Process, 5_000_000_000, 0xabc), &values)
    }

    fn freed(fields: &Layout, start_ns: u64, run_ns: u64) -> Vec<u64> {
        let values = [
            ("pid", 41),
            ("tgid", 40),
            ("comm", name(b"worker\0\0")),
            (columns::START_TIME, start_ns),
            (columns::START_MONOTONIC, start_ns - 100_000_000),
            ("se.sum_exec_runtime", run_ns),
            ("min_flt", 9),
            ("delays->blkio_count", 4),
        ];
        record(fields, (RecordScope::Thread, 6_000_000_000, 0xabc), &values)
    }

    #[test]
    fn what_was_drained_is_neither_received_nor_lost_again() {
        let fields = fields();
        let mut received = ExitReceiver::new(&fields);
        received.take(&exiting(&fields, 100));
        let (_, ExitRecords { received: first, lost, not_run, .. }) = received.drain(u64::MAX, [4, 3]);
        assert_eq!((first, lost, not_run), (1, 7, 3));
        received.take(&freed(&fields, 2_000_000_000, 130));
        let (_, ExitRecords { received: second, lost, not_run, .. }) = received.drain(u64::MAX, [4, 5]);
        assert_eq!((second, lost, not_run), (0, 2, 2));
    }

    #[test]
    fn a_thread_that_exits_while_others_are_taken_is_taken_with_all_of_its_work_by_the_next_call() {
        let fields = fields();
        let mut received = ExitReceiver::new(&fields);
        received.take(&exiting(&fields, 100));
        let taken = [5_000_000_000, 5_000_000_001].map(|now_ns| received.drain(now_ns, [0; 2]).1.received);
        assert_eq!(taken, [0, 1]);
        received.take(&exiting(&fields, 100));
        received.drain(5_000_000_000, [0; 2]);
        received.take(&freed(&fields, 2_000_000_000, 130));
        assert_eq!(received.drain(5_000_000_000, [0; 2]).1.received, 1);
    }

    /// The threads of these records.
    fn exits(records: &[Vec<u64>]) -> Vec<ExitedThread> {
        exits_of(fields(), records)
    }

    fn exits_of(fields: Layout, records: &[Vec<u64>]) -> Vec<ExitedThread> {
        let mut received = ExitReceiver::new(&fields);
        records.iter().for_each(|record| received.take(record));
        let (records, summary) = received.drain(u64::MAX, [0; 2]);
        let left = received.left;
        let cgroup_names = Arc::new(CgroupNames::default());
        cgroup_names.add(key(UNIFIED, 0xff00).get(), "/build".into());
        let facts = HostParameters { delays: true, ..HostParameters::default() };
        let containers = NamedContainers::default();
        let names = ExitNames { cgroups: cgroup_names, ..ExitNames::default() };
        let exits = RecordedExits { summary, records, left, facts, layout: Arc::new(fields), names, containers };
        exits.all().collect()
    }

    #[test]
    fn a_freed_thread_has_its_last_counters_and_what_it_lost_after_its_exit() {
        let fields = fields();
        let [exit] = exits(&[exiting(&fields, 100), freed(&fields, 2_000_000_000, 130)]).try_into().unwrap();
        let ExitedThread { state, ppid, started_monotonic_ns, elapsed_ns, .. } = exit;
        assert_eq!((state.tid, state.tgid, &*state.comm, &*state.pcomm, ppid), (41, 40, "worker", "cc1", 7));
        assert_eq!((started_monotonic_ns, elapsed_ns), (1_900_000_000, 3_100_000_000));
        assert_eq!(state.start_time_clock_ticks, Some(200));
        let metrics = &state.metrics;
        assert_eq!((metrics.run_time_ns, metrics.minflt), (Some(130.into()), Some(9.into())));
        assert_eq!((metrics.blkio_delay_count, state.cgroup.as_deref()), (Some(4.into()), Some("/build")));
        assert_eq!((state.read_at_ns, &metrics.state, metrics.nr_threads), (None, &None, None));
    }

    #[test]
    fn a_kernel_whose_threads_have_no_cgroups_has_exits() {
        let mut fields = fields();
        let is_of_cgroups = |column: &RecordColumn| column.path.starts_with("cgroups");
        fields.dropped =
            (0..).zip(&fields.columns).filter(|(_, column)| is_of_cgroups(column)).map(|(at, _)| at).collect();
        let record = exiting(&fields, 100);
        let [exit] = exits_of(fields, &[record]).try_into().unwrap();
        assert_eq!((exit.state.tid, exit.state.cgroup), (41, None));
    }

    #[test]
    fn a_thread_whose_address_another_has_without_being_freed_has_the_counters_of_its_exit() {
        let fields = fields();
        let runs = |records: &[Vec<u64>]| {
            exits(records).iter().map(|exit| exit.state.metrics.run_time_ns.unwrap().number()).collect::<Vec<_>>()
        };
        let freed_as_it_was = freed(&fields, 2_000_000_000, 230);
        assert_eq!(runs(&[exiting(&fields, 100), exiting(&fields, 200), freed_as_it_was]), [100, 230]);
        assert_eq!(runs(&[exiting(&fields, 100), freed(&fields, 3_000_000_000, 7)]), [100], "its exit was lost");
    }

    #[test]
    fn only_threads_that_exited_before_are_awaited() {
        let mut received = ExitReceiver::new(&fields());
        received.take(&exiting(&fields(), 100));
        assert!(received.has_before(5_000_000_001) && !received.has_before(5_000_000_000));
    }

    #[test]
    fn more_zombies_than_fit_have_the_counters_of_their_exit() {
        let fields = fields();
        let mut received = ExitReceiver::new(&fields);
        for address in 0..=MAX_EXITING as u64 {
            let mut exit = exiting(&fields, 100);
            *exit.iter_mut().nth_back(2).unwrap() = address;
            received.take(&exit);
        }
        assert_eq!((received.exiting.len(), received.received), (MAX_EXITING, 1));
    }

    #[test]
    fn a_thread_that_exited_before_is_not_known_by_being_freed() {
        assert_eq!(exits(&[freed(&fields(), 2_000_000_000, 7), vec![], vec![1, 2, 3]]), []);
    }

    #[test]
    fn a_record_with_every_field_is_stored_whole() {
        let words = fields().words(RecordScope::Process);
        assert!(words <= MAX_WORDS, "{words}");
    }

    #[test]
    fn user_and_system_time_are_those_of_ticks_however_long_the_thread_ran() {
        let fields = fields();
        let mut freed = freed(&fields, 2_000_000_000, 1_234_567);
        let [user, system, ..] = columns::CPU_TIME.map(|path| fields.find(path).unwrap().slot());
        (freed[user], freed[system]) = (8_000_000, 4_000_000);
        let [exit] = exits(&[exiting(&fields, 1), freed]).try_into().unwrap();
        assert_eq!(exit.cpu_time_ns, Some([8_000_000, 4_000_000]));
    }

    #[test]
    fn a_first_thread_whose_ids_another_got_has_its_own_and_names_the_other() {
        let fields = fields();
        let slot = |path| fields.find(path).unwrap().slot();
        let mut exit = exiting(&fields, 100);
        exit[slot("pid")] = 40;
        let [exit] = exits(&[exit, freed(&fields, 2_000_000_000, 130)]).try_into().unwrap();
        assert_eq!((exit.state.tid, exit.ppid, exit.replaced_by), (40, 7, Some(41)));
    }

    #[test]
    fn threads_that_start_and_exit_while_records_are_folded_are_not_kept() {
        let fields = fields();
        let mut received = ExitReceiver::new(&fields);
        let (passed, taken) = std::sync::mpsc::channel();
        let exited = Box::new(move |exit: ExitedThread, _| passed.send(exit.started_monotonic_ns).unwrap());
        let sink = ExitSink { exited };
        let decoder = Decoder::new(&fields, &HostParameters::default(), &ExitNames::default());
        received.folding = Some(Folding { since_monotonic_ns: 1_900_000_000, decoder, sink });
        for start_ns in [1_999_999_999, 2_000_000_000] {
            let mut exit = exiting(&fields, 100);
            exit[fields.find(columns::START_TIME).unwrap().slot()] = start_ns;
            exit[fields.find(columns::START_MONOTONIC).unwrap().slot()] = start_ns - 100_000_000;
            received.take(&exit);
            received.take(&freed(&fields, start_ns, 130));
        }
        // The kernel uses the memory of the first one for the second one.
        [100; 2].into_iter().for_each(|thread| received.take(&exiting(&fields, thread)));
        let (records, summary) = received.drain(u64::MAX, [0; 2]);
        assert_eq!((unpacked(&records).count(), summary.received), (2, 4), "an older one, and one that is not freed");
        assert_eq!(taken.try_iter().collect::<Vec<_>>(), [1_900_000_000; 2], "one whose last record was lost, too");
    }

    /// What the ring buffer has of process 40 when it executes a file: the record with its name before, and that it did.
    fn executing(fields: &Layout, run_ns: u64, caller: u64) -> [Vec<u64>; 2] {
        let mut renamed = exiting(fields, run_ns);
        let slot = |path| fields.find(path).unwrap().slot();
        (renamed[slot("pid")], renamed[slot("group_leader->comm")]) = (40, name(b"caller\0\0"));
        *renamed.iter_mut().nth_back(1).unwrap() = ThreadEvent::Rename as u64;
        [renamed, vec![5, 0, 0, 0, 0, 0xabc, ThreadEvent::Exec as u64, caller]]
    }

    #[test]
    fn a_process_that_executes_a_file_leaves_what_it_has_done_under_its_name() {
        let fields = fields();
        let left = |records: &[Vec<u64>]| {
            let left = exits_of(self::fields(), records).into_iter().filter(|exit| exit.executed);
            left.map(|left| (left.state.tid, left.state.pcomm.to_string(), left.elapsed_ns)).collect::<Vec<_>>()
        };
        let first = || executing(&fields, 2_000_000, 40);
        assert_eq!(left(&first()), [(40, "caller".to_owned(), 3_100_000_000)]);
        let other = executing(&fields, 2_000_000, 41);
        let mut leader = exiting(&fields, 100);
        leader[fields.find("pid").unwrap().slot()] = 40;
        *leader.iter_mut().nth_back(2).unwrap() = 0xdef;
        assert_eq!(left(&[&[leader][..], &other].concat()), [(41, "cc1".to_owned(), 3_100_000_000)]);
        assert_eq!(left(&first()[..1]), [], "it has only changed its name");
        assert_eq!(left(&[&first()[..1], &[exiting(&fields, 1)], &first()[1..]].concat()), [], "another thread");
    }

    #[test]
    fn programs_that_a_folded_process_has_left_are_folded_with_it_and_others_are_kept() {
        let fields = fields();
        let mut received = ExitReceiver::new(&fields);
        let (passed, taken) = std::sync::mpsc::channel();
        let sink = ExitSink { exited: Box::new(move |_, left| passed.send(left.len()).unwrap()) };
        let decoder = Decoder::new(&fields, &HostParameters::default(), &ExitNames::default());
        received.folding = Some(Folding { since_monotonic_ns: 1_900_000_000, decoder, sink });
        let execute = |received: &mut ExitReceiver, waited_ns| {
            let [mut renamed, executed] = executing(&fields, 2_000_000, 40);
            renamed[fields.find(columns::WAIT_TIME).unwrap().slot()] = waited_ns;
            [renamed, executed].iter().for_each(|record| received.take(record));
        };
        // Of 3.1 seconds, it has waited for nearly all.
        [3_090_000_001, 3_090_000_000, 0].into_iter().for_each(|waited_ns| execute(&mut received, waited_ns));
        received.take(&exiting(&fields, 2_000_000));
        received.take(&freed(&fields, 2_000_000_000, 130));
        assert_eq!(taken.try_iter().collect::<Vec<_>>(), [2]);
        execute(&mut received, 0);
        assert_eq!(received.left.len(), 0);
        received.keep_all();
        assert_eq!((received.left.len(), received.left_by.len()), (1, 0), "it lives on");
    }
}
