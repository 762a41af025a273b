//! Where steps are printed. Beside a file, a thread prints them, so that the recording never waits for a reader.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::{Stream, ViewArgs, terminal, write_to};
use crate::report::Terminal;

/// Steps that wait for a reader; further ones are left out.
const MOST_WAITING: u64 = 8;
/// How long a step waits for its reader: one that reads needs less, so that its end is known at once.
const PATIENCE: Duration = Duration::from_millis(10);

pub(super) struct StepStream<'v> {
    stream: Stream,
    view: &'v ViewArgs,
    /// `None` if printing can wait for a reader.
    thread: Option<PrintingThread>,
}

struct PrintingThread {
    texts: Sender<Vec<u8>>,
    /// How the writing of each text ended.
    written: Receiver<io::Result<()>>,
    waiting: u64,
    left_out: u64,
}

impl<'v> StepStream<'v> {
    pub(super) fn new(stream: Stream, view: &'v ViewArgs) -> Self {
        Self { stream, view, thread: None }
    }

    /// Lets a thread print what follows. The thread inherits blocked signals and dropped capabilities, so they come first.
    pub(super) fn stop_waiting(&mut self) -> anyhow::Result<()> {
        if self.thread.is_none() {
            let file = self.stream.duplicate().context(self.stream.failure())?;
            self.thread = Some(PrintingThread::start(file).context("cannot start a thread that prints steps")?);
        }
        Ok(())
    }

    /// Whether a step is printed; if not, it is left out, because earlier ones wait for their reader.
    pub(super) fn takes_step(&mut self) -> anyhow::Result<bool> {
        let Some(thread) = &mut self.thread else { return Ok(true) };
        thread.wait(Duration::ZERO).context(self.stream.failure())?;
        let has_room = thread.waiting < MOST_WAITING;
        thread.left_out += u64::from(!has_room);
        Ok(has_room)
    }

    pub(super) fn write(
        &mut self,
        write: impl FnOnce(&mut dyn Write, Terminal) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(thread) = &mut self.thread else { return write_to(self.stream, self.view, write) };
        let mut text = Vec::new();
        let printed = write(&mut text, terminal(self.stream, self.view)).and_then(|()| thread.print(text));
        printed.context(self.stream.failure())
    }

    /// Waits until all steps are printed, but for no step longer than this, and returns how many were not printed.
    pub(super) fn finish(mut self, patience: Duration) -> anyhow::Result<u64> {
        let Some(thread) = &mut self.thread else { return Ok(0) };
        thread.wait(patience).context(self.stream.failure())?;
        Ok(thread.left_out + thread.waiting)
    }
}

impl PrintingThread {
    fn start(mut file: File) -> io::Result<Self> {
        let (texts, to_write) = channel::<Vec<u8>>();
        let (ended, written) = channel();
        let write = move || to_write.iter().try_for_each(|text| ended.send(file.write_all(&text)));
        thread::Builder::new().name("ctprof".to_owned()).spawn(write)?;
        Ok(Self { texts, written, waiting: 0, left_out: 0 })
    }

    fn print(&mut self, text: Vec<u8>) -> io::Result<()> {
        // It ends only after this.
        let _ = self.texts.send(text);
        self.waiting += 1;
        self.wait(PATIENCE)
    }

    /// Waits until all texts are written, but for no text longer than this.
    fn wait(&mut self, patience: Duration) -> io::Result<()> {
        while self.waiting > 0
            && let Ok(written) = self.written.recv_timeout(patience)
        {
            self.waiting -= 1;
            written?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn who_prints_waits_for_no_reader_and_learns_at_once_that_there_is_none() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut thread = PrintingThread::start(File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
        // More than the pipe holds.
        thread.print(vec![b'a'; 1 << 20]).unwrap();
        thread.print(b"end".to_vec()).unwrap();
        assert_eq!(thread.waiting, 2);
        let mut text = vec![0; (1 << 20) + 3];
        reader.read_exact(&mut text).unwrap();
        thread.wait(Duration::MAX).unwrap();
        assert_eq!((thread.waiting, text.ends_with(b"aend")), (0, true));
        drop(reader);
        let failed = (0..2).find_map(|_| thread.print(b"more".to_vec()).err());
        assert_eq!(failed.unwrap().kind(), io::ErrorKind::BrokenPipe);
    }
}
