//! Names of what interpreters run, read when they start: most scripts are gone before the next capture.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use super::enrich::program;
use super::process::Process;
use super::procfs::directory::ProcDirectory;
use super::recent::Recent;
use crate::model::{Name, ThreadState};
use crate::names::StartedProgram;
use crate::process::{CanHang, ReaderPool, Subject, lock, start_reader};

/// Processes that wait to be looked at, at most. Where more start, some stay without a name.
const MAX_WAITING: usize = 1 << 10;
/// Processes that are looked at together.
const MAX_AT_ONCE: usize = 64;
/// Names that are kept: a process that runs longer has its name from captures.
const MOST: usize = 1 << 14;

/// Looks at processes whose names do not say what they run, in a thread of its own, until it is dropped.
pub(super) struct ExecutedPrograms {
    processes: SyncSender<Executed>,
    names: Arc<ProgramNames>,
}

/// A process that has executed a file.
#[derive(Clone, Copy)]
struct Executed {
    tgid: u32,
    /// When it started, in ticks.
    start: u64,
}

/// Programs of processes, by process id: the start of the process in ticks, and the name of the program.
pub(super) struct ProgramNames(Mutex<Recent<u32, (u64, Name)>>);

impl ExecutedPrograms {
    pub(super) fn start() -> io::Result<Self> {
        let (processes, executed) = sync_channel(MAX_WAITING);
        let names = Arc::<ProgramNames>::default();
        let shared = Arc::clone(&names);
        start_reader("ctprof-programs", move || name_all(&executed, &shared))?;
        Ok(Self { processes, names })
    }

    /// Names what a process with this name runs, if the name does not say it, soon: the process has just executed it. Returns
    /// what it ran before.
    pub(super) fn add(&self, tgid: u32, start: u64, comm: &str) -> Option<Name> {
        let before = self.names.remove(tgid, start);
        let started = StartedProgram { comm, exe: None, arguments: b"" };
        if started.may_have_name() && self.processes.try_send(Executed { tgid, start }).is_err() {
            tracing::debug!(tgid, "too many programs start to name this one");
        }
        before
    }

    /// The names so far.
    pub(super) fn names(&self) -> Arc<ProgramNames> {
        Arc::clone(&self.names)
    }
}

impl Default for ProgramNames {
    fn default() -> Self {
        Self(Mutex::new(Recent::new("started programs", MOST)))
    }
}

impl ProgramNames {
    /// Returns the program of an exited thread's process; `None` if the process's own name says it, or if it is not known.
    pub(super) fn of_exited(&self, thread: &ThreadState) -> Option<Name> {
        let started = thread.start_time_clock_ticks?;
        let (start, name) = lock(&self.0).get(thread.tgid)?;
        // The id can have been that of another process.
        let is_same = if thread.is_leader() { start == started } else { start <= started };
        is_same.then_some(name)
    }

    /// Forgets names that were not asked for since the call before: captures name what runs on.
    pub(super) fn turn(&self) {
        lock(&self.0).turn();
    }

    /// The number of names.
    pub(super) fn entries(&self) -> usize {
        lock(&self.0).len()
    }

    fn insert(&self, executed: Executed, name: Name) {
        let mut names = lock(&self.0);
        if !names.has_room() {
            names.turn();
        }
        names.insert(executed.tgid, (executed.start, name));
    }

    /// Forgets what a process ran, and returns it if the process started then.
    fn remove(&self, tgid: u32, start: u64) -> Option<Name> {
        let mut names = lock(&self.0);
        let before = names.get(tgid);
        names.remove(&tgid);
        before.filter(|(started, _)| *started == start).map(|(_, name)| name)
    }
}

impl CanHang for Executed {
    fn subject(&self) -> Subject {
        Subject::Process { what: "program", id: self.tgid, start: Some(self.start) }
    }
}

impl Executed {
    fn name(self, procfs: &ProcDirectory) -> Option<Name> {
        let process = Process::new(self.tgid, procfs.directory(&self.tgid.to_string()).ok()?);
        let comm = Name::clone(process.name());
        program::name(&process, &comm).filter(|_| process.start_time() == Some(self.start))
    }
}

fn name_all(processes: &Receiver<Executed>, names: &ProgramNames) {
    let Ok(procfs) = ProcDirectory::open(Path::new("/proc")).map(Arc::new) else { return };
    let readers = Arc::<ReaderPool>::default();
    while let Ok(first) = processes.recv() {
        let executed: Vec<_> = std::iter::once(first).chain(processes.try_iter().take(MAX_AT_ONCE)).collect();
        let own = Arc::clone(&procfs);
        let named = readers.map(1, executed.clone(), move |(), executed| executed.name(&own));
        for (executed, name) in executed.into_iter().zip(named) {
            name.flatten().into_iter().for_each(|name| names.insert(executed, name));
        }
        readers.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_the_process_that_ran_the_program() {
        let names = ProgramNames::default();
        names.insert(Executed { tgid: 7, start: 100 }, "job.py".into());
        let of = |tid, start| {
            let thread = ThreadState { tgid: 7, tid, start_time_clock_ticks: Some(start), ..ThreadState::default() };
            names.of_exited(&thread).as_deref().map(str::to_owned)
        };
        assert_eq!([of(7, 100), of(8, 120)].map(Option::unwrap), ["job.py"; 2]);
        assert_eq!([of(7, 101), of(8, 99)], [None, None], "of another process with the id");
    }

    #[test]
    fn a_process_that_executes_another_program_has_no_longer_the_name_of_the_first_one() {
        for comm in ["python3", "sleep"] {
            let (processes, _waiting) = sync_channel(1);
            let programs = ExecutedPrograms { processes, names: Arc::default() };
            programs.names.insert(Executed { tgid: 7, start: 100 }, "job.py".into());
            let before = programs.add(7, 100, comm);
            assert_eq!((before.as_deref(), programs.names.entries()), (Some("job.py"), 0), "{comm}");
        }
    }
}
