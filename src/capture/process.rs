//! One process while it is read: a handle on its procfs directory, and its name.

use std::sync::OnceLock;

use nix::errno::Errno;

use super::context::CaptureContext;
use super::procfs::directory::{Numbered, ProcDirectory, is_gone};
use super::procfs::parsers::{STAT_RSS, STAT_START_TIME};
use super::procfs::text;
use super::read_threads::Answer;
use super::tally::Tally;
use crate::model::{Name, SourceFile, printable};

/// One process, shared by the workers that read parts of it.
pub(super) struct Process {
    pub(super) id: u32,
    pub(super) directory: ProcDirectory,
    name: OnceLock<Name>,
}

impl Process {
    /// Opens the directory of process `id`. An error that is not its exit is counted as one of `file`.
    pub(super) fn open(context: &CaptureContext, id: u32, file: SourceFile) -> Answer<Self> {
        match context.procfs.directory(&id.to_string()) {
            Ok(directory) => Answer::Read(Self::new(id, directory)),
            Err(errno) if is_gone(errno) => Answer::Gone,
            Err(errno) => {
                tracing::debug!(pid = id, ?errno, "cannot open the process's directory");
                context.tally.failed(file, errno, 1);
                Answer::Unread
            }
        }
    }

    pub(super) fn new(id: u32, directory: ProcDirectory) -> Self {
        Self { id, directory, name: OnceLock::new() }
    }

    /// The process's name; empty if it cannot be read.
    pub(super) fn name(&self) -> &Name {
        self.name.get_or_init(|| {
            let mut buffer = Vec::new();
            let comm = self.directory.read("comm", &mut buffer).unwrap_or_default();
            printable(comm.strip_suffix(b"\n").unwrap_or(comm)).into()
        })
    }

    pub(super) fn learn_name(&self, name: &Name) {
        let _ = self.name.set(Name::clone(name));
    }

    /// Whether the process has not exited. A zombie has.
    pub(super) fn is_alive(&self) -> bool {
        alive(self.directory.read("stat", &mut Vec::new()))
    }

    /// When it started, in ticks.
    pub(super) fn start_time(&self) -> Option<u64> {
        self.stat(STAT_START_TIME)
    }

    /// Its resident memory, in pages.
    pub(super) fn resident_pages(&self) -> Option<u64> {
        self.stat(STAT_RSS)
    }

    fn stat(&self, wanted: u8) -> Option<u64> {
        let mut buffer = Vec::new();
        let (_, mut fields) = text::stat(self.directory.read("stat", &mut buffer).ok()?)?;
        fields.find(|(number, _)| *number == wanted).and_then(|(_, value)| text::unsigned(value))
    }

    /// Whether its thread `tid` has not exited.
    pub(super) fn has_thread(&self, tid: u32) -> bool {
        let mut stat = Vec::new();
        match self.directory.directory("task") {
            Ok(tasks) => alive(Numbered::new(&tasks, tid).read("stat", &mut stat)),
            Err(errno) => alive(Err(errno)),
        }
    }

    /// Counts and logs a file that could not be read, of a thread or (with the leader's id) of the process.
    pub(super) fn unread(&self, tid: u32, file: SourceFile, errno: Errno, tally: &Tally) {
        tracing::debug!(file = file.name(), pid = self.id, tid, process = ?self.name(), errno = ?errno, "cannot read");
        tally.failed(file.clone(), errno, 1);
        tally.name_unread(file, self.name(), || self.is_alive());
    }

    /// Panics in test builds, for process ids that no kernel has (`PID_MAX_LIMIT`).
    #[cfg(test)]
    pub(super) fn panic_in(&self, stage: &str) {
        let stages = ["reader", "sources", "listing"];
        let panics = (4_000_000_001..).zip(stages).any(|panics| panics == (self.id, stage));
        assert!(!panics, "on purpose, in the {stage}");
    }
}

/// Whether `stat` describes a thread that has not exited (field 3 is neither `Z` nor `X`), or could not be
/// read for another reason.
fn alive(stat: Result<&[u8], Errno>) -> bool {
    match stat {
        Err(errno) => !is_gone(errno),
        Ok(stat) => {
            let state = text::stat(stat).and_then(|(_, mut fields)| fields.next());
            state.is_some_and(|(_, state)| !matches!(state, b"Z" | b"X"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process of a recorded tree, with a name and a state.
    fn process(dir: &tempfile::TempDir, name: &str, state: char) -> Process {
        std::fs::write(dir.path().join("comm"), format!("{name}\n")).unwrap();
        std::fs::write(dir.path().join("stat"), format!("900 ({name}) {state} 1")).unwrap();
        Process::new(900, ProcDirectory::open(dir.path()).unwrap())
    }

    #[test]
    fn processes_that_exited_meanwhile_are_not_named() {
        for (state, names) in [('S', &["postgres".to_owned()][..]), ('Z', &[])] {
            let dir = tempfile::tempdir().unwrap();
            let (process, tally) = (process(&dir, "postgres", state), Tally::default());
            process.unread(901, SourceFile::Io, Errno::EACCES, &tally);
            let unread = &tally.lock().parse.unread_names;
            assert_eq!(unread.get(&SourceFile::Io).map_or(&[][..], Vec::as_slice), names, "{state}");
        }
    }

    #[test]
    fn a_process_whose_stat_cannot_be_opened_has_not_exited() {
        for (errno, is_alive) in [(Errno::ENOENT, false), (Errno::ESRCH, false), (Errno::EMFILE, true)] {
            assert_eq!(alive(Err(errno)), is_alive, "{errno}");
        }
        assert!(alive(Ok(b"7 (x) S 1")) && !alive(Ok(b"7 (x) Z 1")));
    }
}
