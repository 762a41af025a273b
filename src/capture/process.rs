//! A process while it is read: a handle on its procfs directory, and its name.

use std::sync::OnceLock;

use nix::errno::Errno;

use super::context::CaptureContext;
use super::procfs::directory::{Numbered, ProcDirectory, is_gone};
use super::procfs::text::StatFields;
use super::read_threads::Answer;
use super::tally::Tally;
use crate::model::{Name, SourceFile, printable};

/// A process, shared by the workers that read parts of it.
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

    /// Opens the directory of the process with this id that started then, if that is known: the kernel may have given the id to
    /// another process, for which the answer is [`Answer::Gone`].
    pub(super) fn reopen(context: &CaptureContext, id: u32, start: Option<u64>, file: SourceFile) -> Answer<Self> {
        match Self::open(context, id, file) {
            Answer::Read(process) if process.is_other(start) => Answer::Gone,
            answer => answer,
        }
    }

    /// Whether this is known to be another process than the one that started then, in ticks.
    fn is_other(&self, start: Option<u64>) -> bool {
        start.is_some_and(|start| self.start_time().is_some_and(|now| now != start))
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

    /// When its first thread started, in ticks. The file of the thread does not add up the values of all threads.
    pub(super) fn start_time(&self) -> Option<u64> {
        self.stat(&format!("task/{}/stat", self.id))?.start
    }

    /// Returns the resident memory of the process, in pages.
    pub(super) fn resident_pages(&self) -> Option<u64> {
        self.stat("stat")?.rss_pages
    }

    fn stat(&self, file: &str) -> Option<StatFields> {
        StatFields::from_text(self.directory.read(file, &mut Vec::new()).ok()?)
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
            StatFields::from_text(stat).and_then(|stat| stat.state).is_some_and(|state| !matches!(state, b'Z' | b'X'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::in_context;
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
    fn the_next_process_with_the_same_id_is_not_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let task = dir.path().join("7/task/7");
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(task.join("stat"), format!("7 (x) S{} 900", " 0".repeat(18))).unwrap();
        in_context(dir.path(), |context| {
            let reopened = |id, start| Process::reopen(context, id, start, SourceFile::Stat);
            assert!(matches!(reopened(7, Some(900)), Answer::Read(_)));
            assert!(matches!(reopened(7, None), Answer::Read(_)), "its start is not known");
            assert!(matches!(reopened(7, Some(800)), Answer::Gone));
            assert!(matches!(reopened(8, Some(800)), Answer::Gone));
        });
    }

    #[test]
    fn a_process_whose_stat_cannot_be_opened_has_not_exited() {
        for (errno, is_alive) in [(Errno::ENOENT, false), (Errno::ESRCH, false), (Errno::EMFILE, true)] {
            assert_eq!(alive(Err(errno)), is_alive, "{errno}");
        }
        assert!(alive(Ok(b"7 (x) S 1")) && !alive(Ok(b"7 (x) Z 1")));
    }
}
