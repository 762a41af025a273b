//! `io` of threads that procfs has read, and of their processes. Unlike their other files, the kernel guards it by a lock
//! that is held while a process executes a program.

use nix::errno::Errno;

use super::super::context::CaptureContext;
use super::super::process::Process;
use super::super::procfs::directory::{Numbered, is_gone};
use super::super::procfs::parsers::Parsers;
use super::super::procfs::whole_process;
use super::super::read_threads::ReadThread;
use super::super::tally::Tally;
use super::process_request::{ProcessRequest, lacks_io};
use super::source::{Addition, Reads, ValueSource, When};
use crate::model::SourceFile;

/// `io` of each thread that procfs has read, and of its process.
pub(super) const SOURCE: ValueSource =
    ValueSource { name: "io", reads: Reads::Process { when: When::WithoutIo, read: read_asked, count_missing } };

fn read_asked(context: &CaptureContext, process: &Process, request: &ProcessRequest) -> Option<Addition> {
    let texts = IoTexts::read(process, &request.io, &context.tally);
    Some(Box::new(move |_, threads, parsers| texts.store(threads, parsers)))
}

fn count_missing(context: &CaptureContext, threads: &[ReadThread]) {
    let lacking = threads.iter().filter(|thread| lacks_io(thread)).count();
    if lacking > 0 {
        context.tally.failed(SourceFile::Io, Errno::ETIMEDOUT, u64::try_from(lacking).unwrap_or(u64::MAX));
        context.tally.name_unread(SourceFile::Io, &threads[0].state.pcomm, || true);
    }
}

/// The texts of a process and of its threads, where they could be read.
#[derive(Default)]
struct IoTexts {
    process: Option<Vec<u8>>,
    threads: Vec<(u32, Vec<u8>)>,
}

impl IoTexts {
    /// Reads the process before its threads: later counters of the process would include work that is missing in its threads'
    /// counters.
    fn read(process: &Process, tids: &[u32], tally: &Tally) -> Self {
        let mut buffer = Vec::new();
        let of_process = process.directory.read("io", &mut buffer).ok().map(<[u8]>::to_vec);
        let Ok(tasks) = process.directory.directory("task") else { return Self::default() };
        let mut threads = Vec::new();
        for &tid in tids {
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
    fn store(self, threads: &mut [ReadThread], parsers: &mut Parsers) {
        let mut texts = self.threads.into_iter().peekable();
        for ReadThread { state: thread, .. } in threads {
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
    use crate::model::{ProcessState, ThreadState};

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
        let thread = |tid| ReadThread::from(ThreadState { tgid: 7, tid, ..ThreadState::default() });
        let mut threads = [7, 8, 9].map(thread);
        threads[0].state.process = Some(Box::new(ProcessState::default()));
        IoTexts::read(&process, &[7, 8, 9], &tally).store(&mut threads, &mut Parsers::new());
        let of_process = threads[0].state.process.as_ref().unwrap();
        assert_eq!((threads[0].state.metrics.rchar, of_process.rchar), (Some(7.into()), Some(807_265.into())));
        assert_eq!((threads[1].state.metrics.rchar, threads[2].state.metrics.rchar), (None, None));
        let summary = tally.lock().parse.clone().concluded();
        assert_eq!(summary.read_failures, 1, "of thread 8; thread 9 has exited");
    }
}
