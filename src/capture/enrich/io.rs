//! `io` of threads that procfs has read, and of their processes. Unlike their other files, the kernel guards it by a lock
//! that is held while a process executes a program.

use nix::errno::Errno;

use super::super::process::Process;
use super::super::procfs::directory::{Numbered, is_gone};
use super::super::procfs::parsers::Parsers;
use super::super::procfs::whole_process;
use super::super::tally::Tally;
use crate::model::{SourceFile, ThreadState};

/// The texts of a process and of its threads, where they could be read.
#[derive(Default)]
pub(super) struct IoTexts {
    process: Option<Vec<u8>>,
    threads: Vec<(u32, Vec<u8>)>,
}

impl IoTexts {
    /// The process comes first: later counters would include work that is not yet in those of the threads.
    pub(super) fn read(process: &Process, tids: impl Iterator<Item = u32>, tally: &Tally) -> Self {
        let mut buffer = Vec::new();
        let of_process = process.directory.read("io", &mut buffer).ok().map(<[u8]>::to_vec);
        let Ok(tasks) = process.directory.directory("task") else { return Self::default() };
        let mut threads = Vec::new();
        for tid in tids {
            let mut files = Numbered::new(&tasks, tid);
            match files.read(SourceFile::Io.name(), &mut buffer) {
                Ok(text) => threads.push((tid, text.to_vec())),
                Err(Errno::ESRCH) => {}
                // The thread has exited.
                Err(errno) if is_gone(errno) && !files.has("stat") => {}
                Err(errno) => process.unread(tid, SourceFile::Io, errno, tally),
            }
        }
        Self { process: of_process, threads }
    }

    /// Stores the counters in the threads of the process, which are in the order of ids.
    pub(super) fn store(self, threads: &mut [ThreadState], parsers: &mut Parsers) {
        let mut texts = self.threads.into_iter().peekable();
        for thread in threads {
            if let Some((_, text)) = texts.next_if(|(tid, _)| *tid == thread.tid) {
                parsers.put_all(&SourceFile::Io, &text, &mut thread.metrics);
            }
            if let (Some(process), Some(text)) = (&mut thread.process, &self.process) {
                whole_process::add_io(process, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::procfs::directory::ProcDirectory;
    use super::*;
    use crate::model::ProcessState;

    // Linux 6.18.
    const IO: &[u8] = b"rchar: 807265\nwchar: 309\nsyscr: 1620\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n";

    #[test]
    fn threads_and_their_process_have_the_counters_of_their_own_files() {
        let dir = tempfile::tempdir().unwrap();
        let of_thread = [b"rchar: 7\n", &IO[14..]].concat();
        for (path, text) in [("io", IO), ("task/7/io", &of_thread), ("task/8/stat", b""), ("task/9/none", b"")] {
            std::fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(path), text).unwrap();
        }
        let (process, tally) = (Process::new(7, ProcDirectory::open(dir.path()).unwrap()), Tally::default());
        let thread = |tid| ThreadState { tgid: 7, tid, ..ThreadState::default() };
        let mut threads = [7, 8, 9].map(thread);
        threads[0].process = Some(Box::new(ProcessState::default()));
        IoTexts::read(&process, [7, 8, 9].into_iter(), &tally).store(&mut threads, &mut Parsers::new());
        let of_process = threads[0].process.as_ref().unwrap();
        assert_eq!((threads[0].metrics.rchar, of_process.rchar), (Some(7.into()), Some(807_265.into())));
        assert_eq!((threads[1].metrics.rchar, threads[2].metrics.rchar), (None, None));
        let summary = tally.lock().parse.clone().concluded();
        assert_eq!(summary.read_failures, 1, "of thread 8; thread 9 has exited");
    }
}
