//! One process while it is read: a handle on its procfs directory, its name, and failures.

use std::fmt::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::errno::Errno;

use super::enrich::jemalloc::Attachment;
use super::procfs::folder::{Folder, IdName, Numbered, is_gone};
use super::procfs::parsers::{STAT_RSS, STAT_START_TIME};
use super::procfs::text;
use super::tally::{File, Tally};
use crate::model::{Name, printable};

/// One process, shared by the workers that read parts of it.
pub(super) struct Process {
    /// Process id.
    pub(super) id: u32,
    /// Its directory.
    pub(super) folder: Folder,
    name: OnceLock<Name>,
    /// Its jemalloc, once searched for.
    pub(super) jemalloc: OnceLock<Option<Attachment>>,
    outcome: Mutex<Outcome>,
}

/// Log data of a process.
#[derive(Default)]
struct Outcome {
    failures: Vec<Failure>,
    /// Threads with jemalloc counters.
    probed: u64,
}

struct Failure {
    /// A file, or `jemalloc`.
    source: &'static str,
    /// The errno or the tag.
    reason: String,
    /// Number of affected threads; `None` if the whole process is affected.
    threads: Option<u64>,
}

impl Process {
    /// Opens the directory of process `id`.
    pub(super) fn open(procfs: &Folder, id: u32) -> Result<Self, Errno> {
        Ok(Self::new(id, procfs.folder(IdName::new(id).as_c_str())?))
    }

    pub(super) fn new(id: u32, folder: Folder) -> Self {
        Self { id, folder, name: OnceLock::new(), jemalloc: OnceLock::new(), outcome: Mutex::default() }
    }

    /// The process's name; empty if it cannot be read.
    pub(super) fn name(&self) -> &Name {
        self.name.get_or_init(|| {
            let mut buffer = Vec::new();
            let comm = self.folder.read(c"comm", &mut buffer).unwrap_or_default();
            printable(comm.strip_suffix(b"\n").unwrap_or(comm)).into()
        })
    }

    /// Stores the name that was read with the leader.
    pub(super) fn learn_name(&self, name: &Name) {
        let _ = self.name.set(Name::clone(name));
    }

    /// Whether the process has not exited. A zombie has.
    pub(super) fn is_alive(&self) -> bool {
        alive(self.folder.read(File::Stat.name(), &mut Vec::new()))
    }

    /// When it started, in ticks; `None` if that cannot be read.
    pub(super) fn start_time(&self) -> Option<u64> {
        self.stat(STAT_START_TIME)
    }

    /// Its resident memory, in pages; `None` if that cannot be read.
    pub(super) fn resident_pages(&self) -> Option<u64> {
        self.stat(STAT_RSS)
    }

    /// A field of `stat` by number.
    fn stat(&self, wanted: u8) -> Option<u64> {
        let mut buffer = Vec::new();
        let (_, mut fields) = text::stat(self.folder.read(File::Stat.name(), &mut buffer).ok()?)?;
        fields.find(|(number, _)| *number == wanted).and_then(|(_, value)| text::unsigned(value))
    }

    /// Whether its thread `tid` has not exited.
    pub(super) fn has_thread(&self, tid: u32) -> bool {
        let mut stat = Vec::new();
        match self.folder.folder(c"task") {
            Ok(tasks) => alive(Numbered::new(&tasks, tid).read(File::Stat.name(), &mut stat)),
            Err(errno) => alive(Err(errno)),
        }
    }

    /// Counts and logs a file that could not be read, of a thread or (with the leader's id) of the process.
    pub(super) fn unread(&self, tid: u32, file: File, errno: Errno, tally: &mut Tally) {
        let name = file.name().to_str().expect("names of files are ASCII");
        tracing::debug!(file = name, pid = self.id, tid, process = ?self.name(), errno = ?errno, "cannot read");
        tally.failed(file, errno);
        tally.name_unread(file, self.name(), || self.is_alive());
        self.fail(name, format!("{errno:?}"), (file != File::SmapsRollup).then_some(1));
    }

    /// Records that jemalloc counters could not be read, for a thread or the whole process.
    pub(super) fn unprobed(&self, tid: Option<u32>, reason: &str) {
        tracing::debug!(pid = self.id, tid, process = ?self.name(), reason, "cannot read jemalloc counters");
        self.fail("jemalloc", reason.to_owned(), tid.map(|_| 1));
    }

    /// Records the number of threads whose jemalloc counters were read.
    pub(super) fn probed(&self, threads: u64) {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).probed += threads;
    }

    /// Panics in test builds, for process ids that no kernel has (`PID_MAX_LIMIT`).
    #[cfg(test)]
    pub(super) fn panic_in(&self, stage: &str) {
        let stages = ["reader", "enricher", "listing", "log"];
        let panics = (4_000_000_001..).zip(stages).any(|panics| panics == (self.id, stage));
        assert!(!panics, "on purpose, in the {stage}");
    }

    fn fail(&self, source: &'static str, reason: String, threads: Option<u64>) {
        let failures = &mut self.outcome.lock().unwrap_or_else(PoisonError::into_inner).failures;
        let same = |known: &&mut Failure| {
            known.source == source && known.reason == reason && known.threads.is_some() == threads.is_some()
        };
        match failures.iter_mut().find(same) {
            Some(known) => known.threads = known.threads.zip(threads).map(|(a, b)| a + b),
            None => failures.push(Failure { source, reason, threads }),
        }
    }

    /// Logs one line about the process, unless everything was read and it has no jemalloc.
    pub(super) fn log(&self) {
        #[cfg(test)]
        self.panic_in("log");
        if tracing::enabled!(tracing::Level::INFO)
            && let Some(line) = self.summary()
        {
            tracing::info!("{line}");
        }
    }

    fn summary(&self) -> Option<String> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let mut said = Vec::new();
        if outcome.probed > 0 {
            said.push(format!("jemalloc counters read for {}", threads(outcome.probed)));
        }
        for Failure { source, reason, threads: concerned } in &outcome.failures {
            let verb = if matches!(reason.as_str(), "EACCES" | "EPERM") { "denied" } else { "not read" };
            let mut text = format!("{source} {verb} ({reason})");
            if let Some(concerned) = concerned {
                let _ = write!(text, " for {}", threads(*concerned));
            }
            said.push(text);
        }
        // Debug formatting escapes terminal sequences.
        (!said.is_empty()).then(|| format!("pid {} {:?}: {}", self.id, self.name(), said.join("; ")))
    }
}

fn threads(count: u64) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
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
    use crate::model::SourceFile;

    /// A process of a recorded tree, with a name and a state.
    fn process(dir: &tempfile::TempDir, name: &str, state: char) -> Process {
        std::fs::write(dir.path().join("comm"), format!("{name}\n")).unwrap();
        std::fs::write(dir.path().join("stat"), format!("900 ({name}) {state} 1")).unwrap();
        Process::new(900, Folder::open(dir.path()).unwrap())
    }

    #[test]
    fn verbose_output_names_neither_the_process_nor_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let (process, mut tally) = (process(&dir, "post\u{1b}gres", 'S'), Tally::default());
        assert_eq!(process.summary(), None);
        (901..904).for_each(|tid| process.unread(tid, File::Io, Errno::EACCES, &mut tally));
        process.unread(900, File::SmapsRollup, Errno::EIO, &mut tally);
        process.unprobed(Some(901), "waitpid");
        process.probed(2);
        assert_eq!(
            process.summary().unwrap(),
            r#"pid 900 "post\u{1b}gres": jemalloc counters read for 2 threads; io denied (EACCES) for 3 threads; smaps_rollup not read (EIO); jemalloc not read (waitpid) for 1 thread"#
        );
    }

    #[test]
    fn names_of_processes_that_exited_meanwhile_are_reported() {
        for (state, names) in [('S', &["postgres".to_owned()][..]), ('Z', &[])] {
            let dir = tempfile::tempdir().unwrap();
            let (process, mut tally) = (process(&dir, "postgres", state), Tally::default());
            process.unread(901, File::Io, Errno::EACCES, &mut tally);
            assert_eq!(
                tally.summary().unread_names.get(&SourceFile::Io).map_or(&[][..], Vec::as_slice),
                names,
                "{state}"
            );
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
