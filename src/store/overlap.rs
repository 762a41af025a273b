//! Writes in a second thread, so that serialization and compression overlap.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{mem, panic, thread};

/// Size of a block in bytes: the size of zstd's blocks.
const BLOCK: usize = 128 * 1024;
/// Maximum number of full blocks that wait to be written.
const MAX_WAITING: usize = 4;

/// Calls `produce` in this thread and writes the produced bytes to `sink` in another, in blocks; in this thread too
/// if a limit does not allow threads.
///
/// # Errors
/// Errors of `sink`, and of `produce`.
pub(super) fn overlapped<W: Write + Send>(
    sink: &mut W,
    produce: impl Fn(&mut Blocks<'_>) -> io::Result<()>,
) -> io::Result<()> {
    thread::scope(|scope| {
        let (sender, full) = sync_channel(MAX_WAITING);
        let writer = thread::Builder::new().name("ctprof-write".to_owned()).spawn_scoped(scope, || write(full, sink));
        let Ok(writer) = writer else { return None };
        let produced = Blocks::new(Next::Thread(sender)).filled(&produce);
        let written = writer.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        // `produce` knows only that the writer has failed.
        Some(written.and(produced))
    })
    .unwrap_or_else(|| Blocks::new(Next::Sink(sink)).filled(&produce))
}

fn write(full: Receiver<Vec<u8>>, sink: &mut impl Write) -> io::Result<()> {
    full.into_iter().try_for_each(|block| sink.write_all(&block))
}

/// Collects bytes in blocks.
pub(super) struct Blocks<'s> {
    block: Vec<u8>,
    next: Next<'s>,
}

/// The destination of full blocks.
enum Next<'s> {
    Thread(SyncSender<Vec<u8>>),
    Sink(&'s mut dyn Write),
}

impl<'s> Blocks<'s> {
    fn new(next: Next<'s>) -> Self {
        Self { block: Vec::with_capacity(BLOCK), next }
    }

    /// Passes on everything that `produce` writes.
    fn filled(mut self, produce: impl Fn(&mut Self) -> io::Result<()>) -> io::Result<()> {
        produce(&mut self)?;
        self.pass()
    }

    fn pass(&mut self) -> io::Result<()> {
        match &mut self.next {
            Next::Thread(sender) => {
                let full = mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
                sender.send(full).map_err(|_| ErrorKind::BrokenPipe.into())
            }
            Next::Sink(sink) => {
                sink.write_all(&self.block)?;
                self.block.clear();
                Ok(())
            }
        }
    }
}

impl Write for Blocks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.len() + bytes.len() > BLOCK {
            self.pass()?;
        }
        self.block.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sink that fails after `left` bytes.
    struct Full {
        left: usize,
        bytes: Vec<u8>,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.left = self.left.checked_sub(bytes.len()).ok_or(ErrorKind::StorageFull)?;
            self.bytes.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Numbers as text, and one that takes several blocks.
    fn numbers(out: &mut Blocks<'_>) -> io::Result<()> {
        (0..300_000).try_for_each(|number| write!(out, "{number},"))?;
        out.write_all(&vec![b'7'; 3 * BLOCK])
    }

    #[test]
    fn all_bytes_arrive_in_order_with_and_without_a_thread() {
        let sink = || Full { left: usize::MAX, bytes: Vec::new() };
        let (mut other, mut same) = (sink(), sink());
        overlapped(&mut other, numbers).unwrap();
        Blocks::new(Next::Sink(&mut same)).filled(numbers).unwrap();
        let text: String = (0..300_000).map(|number| format!("{number},")).collect();
        assert!(other.bytes == [text.as_bytes(), &[b'7'; 3 * BLOCK]].concat());
        assert!(other.bytes == same.bytes);
    }

    #[test]
    fn the_error_of_a_full_disk_is_reported_and_not_that_of_the_channel() {
        for left in [0, BLOCK, 9 * BLOCK] {
            let error = overlapped(&mut Full { left, bytes: Vec::new() }, numbers).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull, "after {left} bytes");
        }
    }

    #[test]
    fn an_error_before_the_end_is_no_success() {
        let mut sink = Full { left: usize::MAX, bytes: Vec::new() };
        let result = overlapped(&mut sink, |out| numbers(out).and(Err(ErrorKind::InvalidData.into())));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
