//! Records of threads that exit, from BPF programs.

use std::collections::{HashMap, HashSet};
use std::io::{PipeReader, PipeWriter, pipe};
use std::ops::Range;
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
use super::dead_threads::ExitedAt;
use super::exit_decoder::{Decoder, ExecFields, ExitFields, ExitNames, LeftProgram};
use super::exit_programs::{ExitPrograms, WithoutRecord};
use super::host_parameters::HostParameters;
use super::layout::{Layout, RecordScope, TIME, ThreadRecord, words_of};
use super::new_cgroup;
use super::obstacle::of_other_ids;
use super::packed_records::{MAX_BYTES, PackedRecords, unpacked};
use super::program::{EventTrailer, ThreadEvent};
use crate::model::{BpfObstacle, CtprofSnapshot, ExitRecords, ExitedThread, HostContext, Name, NoBpf, ThreadState};
use crate::process::{Privileges, RaisedPriority, lock};

/// Records are left in the ring for this long, so that one wake-up receives many. At 20,000 exits per second, they take
/// 2 % of the default ring.
const PAUSE_MS: u8 = 5;
/// How often it is asked whether the last threads are dead. A window waits for that.
const WAIT: Duration = Duration::from_millis(1);
/// Exited threads that the kernel has not freed yet, of 1 KB each: their parents may never wait for them. Beyond this many,
/// a thread's counters are those read at exit.
const MAX_EXITING: usize = 1 << 16;
/// Programs that were left, of 1 KB each. Beyond this many, and beyond [`MAX_LEFT_BY_ONE`] of a process, what was done in them
/// belongs to the programs that follow, and is counted.
const MAX_LEFT: usize = 1 << 14;
const MAX_LEFT_BY_ONE: usize = 64;
/// Threads are waited for until they have exited for this long: some hang. On an idle host, they are dead at once, and freed after
/// 10 to 40 ms.
const LONGEST_EXIT: Duration = Duration::from_millis(300);

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
            _ => match options.roots.tree() {
                Tree::Live => Self::start_with_bpf(ring_bytes),
                Tree::OtherIds => Err(of_other_ids()),
                Tree::Elsewhere => Err(BpfObstacle::NotLive.into()),
            },
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

    /// Forgets the threads that have exited before the call. Threads that still exit are kept: a capture after the call counts what
    /// these have done until then.
    pub fn restart(&mut self) {
        self.keep_all();
        let mut inbox = lock(&self.inbox);
        inbox.awaits_before(u64::MAX, &HashSet::new());
        inbox.drain(u64::MAX, Unfinished::Kept);
        inbox.received.left.clear();
    }

    /// Passes each thread that started after this call to `sink` when it is freed, and keeps other threads. `host` tells which
    /// values the kernel counts.
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

    /// Takes the new records of threads that exited before the call. Waits a little until those threads have done all of their work,
    /// and listens on. Others, and threads that exit meanwhile, are taken by the next call: a capture before the call has listed
    /// them.
    ///
    /// `host` tells which values the kernel counts. Threads are in cgroups that were made since this listener was started, or
    /// that were seen by captures that [share](super::super::capturer::Capturer::share_cgroups) them. An earlier capture has read
    /// `threads`: zombies among them are not waited for, because that capture has all of their work.
    pub fn drain(&mut self, host: &HostContext, threads: &[ThreadState]) -> RecordedExits {
        self.drained(host, threads, Unfinished::Kept)
    }

    /// Like [`drain`](Self::drain), for the last time: threads that still exit have what they had done at the start of their exit.
    pub fn drain_last(&mut self, host: &HostContext, threads: &[ThreadState]) -> RecordedExits {
        self.drained(host, threads, Unfinished::Taken)
    }

    fn drained(&mut self, host: &HostContext, threads: &[ThreadState], unfinished: Unfinished) -> RecordedExits {
        // An id that was used again only shortens the wait.
        let read: HashSet<u64> =
            threads.iter().filter(|thread| thread.has_exited()).map(|thread| thread.tid.into()).collect();
        let (begin, start) = (Instant::now(), Start::now(Tree::Live));
        let monotonic_ns = start.monotonic_ns.unwrap_or(u64::MAX);
        while begin.elapsed() < LONGEST_EXIT && lock(&self.inbox).awaits_before(monotonic_ns, &read) {
            thread::sleep(WAIT);
        }
        let mut inbox = lock(&self.inbox);
        let (records, summary) = inbox.drain(monotonic_ns, unfinished);
        let left = std::mem::take(&mut inbox.received.left);
        let zombies = inbox.received.exits_of(|id| read.contains(&id));
        let containers = inbox.containers.take();
        drop(inbox);
        self.names.programs.turn();
        let (parameters, layout) = (HostParameters::read(host, start), Arc::clone(&self.layout));
        RecordedExits { summary, records, zombies, left, parameters, layout, names: self.names.clone(), containers }
    }
}

/// Treatment of the records of threads that still exit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unfinished {
    /// They are completed, and taken later.
    Kept,
    /// They are taken as they are.
    Taken,
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
    zombies: Vec<Vec<u64>>,
    left: Vec<LeftProgram>,
    parameters: HostParameters,
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

    /// The threads, in the order in which they ended.
    pub fn threads(&self) -> impl Iterator<Item = ExitedThread> {
        let mut decoder = Decoder::new(&self.layout, &self.parameters, &self.names);
        unpacked(&self.records).filter_map(move |record| decoder.exit(ThreadRecord::split(&record)?.0))
    }

    /// First threads that have exited, whose processes have others: what they had at their exit. Their records follow when those
    /// have exited.
    pub(crate) fn zombies(&self) -> impl Iterator<Item = ExitedThread> {
        let mut decoder = Decoder::new(&self.layout, &self.parameters, &self.names);
        self.zombies.iter().filter_map(move |record| decoder.exit(ThreadRecord::split(record)?.0))
    }

    /// Returns the state and work of threads each time that they executed another program, and the exited threads.
    pub(crate) fn all(&self) -> impl Iterator<Item = ExitedThread> {
        self.left_programs().chain(self.threads())
    }

    fn left_programs(&self) -> impl Iterator<Item = ExitedThread> {
        let mut decoder = Decoder::new(&self.layout, &self.parameters, &self.names);
        self.left.iter().filter_map(move |left| decoder.left(left))
    }
}

/// Takes the records of threads.
pub struct ExitSink {
    /// Takes a thread that has exited, with what it was and had done each time that it executed another program.
    pub exited: Box<dyn FnMut(ExitedThread, Vec<ExitedThread>) + Send>,
    /// Takes any process that has just executed another program, with what it was and had done before.
    pub executed: Box<dyn FnMut(&ExitedThread) + Send>,
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

    fn notes_left(&mut self, left: &LeftProgram) {
        self.decoder.left(left).iter().for_each(&mut self.sink.executed);
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
                    let before = executed.and_then(|(executed, comm)| programs.add(executed, &comm));
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

    /// Records threads that exited before this time and are dead. Returns whether there are others, which do not hang, and were not
    /// read since.
    fn awaits_before(&mut self, monotonic_ns: u64, read: &HashSet<u64>) -> bool {
        self.take();
        for thread in self.received.exiting_in(0..monotonic_ns, |_| true) {
            let Some(dead) = &self.programs.dead else { break };
            if let Err(errno) = dead.record(thread) {
                tracing::info!("dead threads are not recorded: {errno}");
                self.programs.dead = None;
            }
            // A small ring has room for a few.
            self.take();
        }
        let longest = u64::try_from(LONGEST_EXIT.as_nanos()).unwrap_or(u64::MAX);
        let lately = monotonic_ns.saturating_sub(longest)..monotonic_ns;
        !self.received.exiting_in(lately, |id| !read.contains(&id)).is_empty()
    }

    /// Takes the records of threads that exited before this time. Without the program that finds dead
    /// threads, all of these threads count as dead.
    fn drain(&mut self, exited_before_ns: u64, unfinished: Unfinished) -> (Vec<u8>, ExitRecords) {
        if unfinished == Unfinished::Taken || self.programs.dead.is_none() {
            self.received.store_before(exited_before_ns);
        }
        self.received.drain(self.programs.without_record(self.received.counted))
    }
}

/// Records received since the receiver was last drained.
struct ExitReceiver {
    /// Records of threads that have exited, and are neither freed nor known to be dead, by the address of the thread.
    exiting: HashMap<u64, Vec<u64>>,
    /// Records of first threads when their name last changed, by the address of the thread. A thread that has executed a file
    /// since has left a program.
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
    /// Number of executions of a program for which the work before is unknown.
    execs_not_stored: u64,
    /// Counts of the programs at the last answer.
    counted: WithoutRecord,
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
            execs_not_stored: 0,
            counted: WithoutRecord::default(),
        }
    }

    /// Threads with such an id that exited in this time.
    fn exiting_in(&self, monotonic_ns: Range<u64>, has_id: impl Fn(u64) -> bool) -> Vec<ExitedAt> {
        let is_one =
            |exiting: &[u64]| monotonic_ns.contains(&exiting[TIME]) && self.fields.id(exiting).is_none_or(&has_id);
        let exiting = self.exiting.iter().filter(|(_, exiting)| is_one(exiting));
        exiting
            .map(|(&address, exiting)| ExitedAt { address, start_ns: self.fields.start_ns(exiting).unwrap_or(0) })
            .collect()
    }

    /// The records that threads with such an id had at their exit, and have not left behind.
    fn exits_of(&self, has_id: impl Fn(u64) -> bool) -> Vec<Vec<u64>> {
        let is_one = |exiting: &&Vec<u64>| self.fields.id(exiting).is_some_and(&has_id);
        self.exiting.values().filter(is_one).cloned().collect()
    }

    /// Stores the records that threads had at their exit, before this time.
    fn store_before(&mut self, monotonic_ns: u64) {
        for thread in self.exiting_in(0..monotonic_ns, |_| true) {
            self.exiting.remove(&thread.address).into_iter().for_each(|exiting| self.store(exiting));
        }
    }

    /// Takes the stored records. `counted` is what the programs have counted.
    fn drain(&mut self, counted: WithoutRecord) -> (Vec<u8>, ExitRecords) {
        let WithoutRecord { no_room, not_run, execs } = counted.since(std::mem::replace(&mut self.counted, counted));
        let received = std::mem::take(&mut self.received);
        let lost = std::mem::take(&mut self.not_stored).saturating_add(no_room).saturating_add(not_run);
        let execs_lost = std::mem::take(&mut self.execs_not_stored).saturating_add(execs);
        let records = std::mem::replace(&mut self.records, PackedRecords::new(MAX_BYTES)).finish();
        (records, ExitRecords { source: "bpf".to_owned(), received, lost, not_run, execs_lost })
    }

    /// Adds the record of a thread.
    fn add(&mut self, record: &[u64], EventTrailer { thread, event, .. }: EventTrailer) {
        if event == ThreadEvent::Nothing as u64 {
            return;
        }
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
            if event == ThreadEvent::Freed as u64 && record.len() == self.words[0] {
                self.fields.take_freed(&mut exiting, record);
            }
            self.fold_or_store(thread, exiting);
        }
    }

    /// Adds that a process, whose name has changed just before, has executed a file. `program` is what it ran until then.
    fn execute(&mut self, EventTrailer { thread, old_id, .. }: EventTrailer, program: Option<Name>) {
        let Some(mut record) = self.renamed.remove(&thread) else {
            self.execs_not_stored += 1;
            return;
        };
        self.fields.set_caller(&mut record, old_id, self.exiting.values());
        let is_new = |folding: &Folding| self.fields.started_since(&record, folding.since_monotonic_ns);
        let is_new = self.folding.as_ref().is_some_and(is_new);
        // A capture may have others under the name that they leave.
        if is_new && !self.fields.is_kept_apart(&record) {
            return;
        }
        let (all, most) = match is_new {
            true => (self.left_by.entry(thread).or_default(), MAX_LEFT_BY_ONE),
            false => (&mut self.left, MAX_LEFT),
        };
        if all.len() < most {
            let left = LeftProgram { record, program };
            self.folding.iter_mut().for_each(|folding| folding.notes_left(&left));
            all.push(left);
        } else {
            self.execs_not_stored += 1;
        }
    }

    /// Keeps all records from now on.
    fn keep_all(&mut self) {
        self.folding = None;
        self.left.extend(self.left_by.drain().flat_map(|(_, left)| left));
    }

    /// Takes the record of a thread that was freed, or is dead.
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
mod tests;
