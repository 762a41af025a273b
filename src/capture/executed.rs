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
pub(super) struct Executed {
    pub(super) tgid: u32,
    /// When it started, in ticks.
    pub(super) start: u64,
    /// When it executed the file, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) at_ns: u64,
}

/// The program that a process runs.
#[derive(Clone)]
struct NamedProgram {
    executed: Executed,
    name: Name,
}

/// Programs of processes, by process id.
pub(super) struct ProgramNames(Mutex<Recent<u32, NamedProgram>>);

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
    pub(super) fn add(&self, executed: Executed, comm: &str) -> Option<Name> {
        let before = self.names.remove(executed.tgid, executed.start);
        let started = StartedProgram { comm, exe: None, arguments: b"" };
        if started.may_have_name() && self.processes.try_send(executed).is_err() {
            tracing::debug!(executed.tgid, "too many programs start to name this one");
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
    pub(super) fn of_exited(&self, thread: &ThreadState, exited_ns: u64) -> Option<Name> {
        let started = thread.start_time_clock_ticks?;
        let NamedProgram { executed: Executed { start, at_ns, .. }, name } = lock(&self.0).get(thread.tgid)?;
        // The id can have been that of another process.
        let is_same = if thread.is_leader() { start == started } else { start <= started };
        // Threads that the execution has ended ran what was before.
        (is_same && at_ns <= exited_ns).then_some(name)
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
        names.insert(executed.tgid, NamedProgram { executed, name });
    }

    /// Forgets what a process ran, and returns it if the process started then.
    fn remove(&self, tgid: u32, start: u64) -> Option<Name> {
        let mut names = lock(&self.0);
        let before = names.get(tgid);
        names.remove(&tgid);
        before.filter(|before| before.executed.start == start).map(|before| before.name)
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
            if let Some(name) = name.flatten() {
                names.insert(executed, name);
            }
        }
        readers.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python() -> Executed {
        Executed { tgid: 7, start: 100, at_ns: 5 }
    }

    #[test]
    fn a_name_is_that_of_the_process_that_ran_the_program() {
        let names = ProgramNames::default();
        names.insert(python(), "job.py".into());
        let of = |tid, start, exited_ns| {
            let thread = ThreadState { tgid: 7, tid, start_time_clock_ticks: Some(start), ..ThreadState::default() };
            names.of_exited(&thread, exited_ns).as_deref().map(str::to_owned)
        };
        assert_eq!([of(7, 100, 9), of(8, 120, 5)].map(Option::unwrap), ["job.py"; 2]);
        assert_eq!([of(7, 101, 9), of(8, 99, 9)], [None, None], "of another process with the id");
        assert_eq!([of(7, 100, 4), of(8, 120, 4)], [None, None], "of what has executed it");
    }

    #[test]
    fn a_process_that_executes_another_program_has_no_longer_the_name_of_the_first_one() {
        for comm in ["python3", "sleep"] {
            let (processes, _waiting) = sync_channel(1);
            let programs = ExecutedPrograms { processes, names: Arc::default() };
            programs.names.insert(python(), "job.py".into());
            let before = programs.add(python(), comm);
            assert_eq!((before.as_deref(), programs.names.entries()), (Some("job.py"), 0), "{comm}");
        }
    }
}
