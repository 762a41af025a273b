//! Panics and lack of memory: each is one line on standard error. It ends the process, whatever thread has it, unless a panic is
//! contained.

use std::cell::Cell;
use std::fmt::{self, Write};
use std::hint::black_box;
use std::io;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::sync::atomic::{AtomicU8, Ordering};

use super::terminal;
#[cfg(feature = "cli")]
use crate::sys::allocator::end_without_memory;
use crate::sys::exit_now;

/// The exit status of what ends the process.
static FAILURE: AtomicU8 = AtomicU8::new(1);

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `work`; `None` after a panic, which costs no more than this result.
pub(crate) fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = IS_CONTAINED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CONTAINED.set(before);
    done.ok()
}

/// Lets lack of memory and other panics end the process with this status. What unwinds instead takes memory that there may be none of, runs
/// destructors that wait for other threads, and lets other threads wait for one that has ended.
#[cfg(feature = "cli")]
pub(crate) fn end_at_panics(status: u8) {
    FAILURE.store(status, Ordering::Relaxed);
    take_stack();
    end_without_memory(|size| fail_now(format_args!("not enough memory: {size} bytes are missing")));
    set_hook(Box::new(|panic| {
        let is_contained = IS_CONTAINED.try_with(Cell::get).unwrap_or(false);
        if !is_contained {
            terminal::give_back();
        }
        Line::from_panic(panic).print();
        if !is_contained {
            exit_now(FAILURE.load(Ordering::Relaxed));
        }
    }));
}

/// Size of the main thread's stack that must be free, in bytes: 0.4 MB with all checks of a debug build.
const STACK: usize = 384 << 10;

/// Takes the stack of the calling thread while there is memory for it: a lack of it later would end the process without a word.
#[inline(never)]
fn take_stack() {
    black_box(&mut [0_u8; STACK]);
}

/// Ends the process with one line, whatever its other threads do or hold, and with the status of a panic.
pub(crate) fn fail_now(message: impl fmt::Display) -> ! {
    let mut line = Line { bytes: [0; 400], length: 0 };
    let _ = write!(line, "ctprof: {message}");
    terminal::give_back();
    line.print();
    exit_now(FAILURE.load(Ordering::Relaxed))
}

/// A line of text that takes no memory, and is cut at its end.
struct Line {
    bytes: [u8; 400],
    length: usize,
}

impl Line {
    fn from_panic(panic: &PanicHookInfo<'_>) -> Self {
        let mut line = Self { bytes: [0; 400], length: 0 };
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let _ = line.write_str("ctprof: a fault of ctprof");
        let _ = panic.location().map_or(Ok(()), |at| write!(line, " at {}:{}", at.file(), at.line()));
        let _ = write!(line, ": {text}; please report it");
        line
    }

    fn print(mut self) {
        let end = self.length.min(self.bytes.len() - 1);
        self.bytes[..end].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        self.bytes[end] = b'\n';
        if !terminal::hold(&self.bytes[..=end]) {
            // The lock of standard error may be held by a thread that waits for this one.
            let _ = nix::unistd::write(io::stderr(), &self.bytes[..=end]);
        }
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = &mut self.bytes[self.length..];
        let length = text.len().min(free.len());
        free[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contained_panic_costs_its_own_result() {
        assert_eq!(contained(|| 7), Some(7));
        assert_eq!(contained(|| contained(|| panic!("on purpose")).is_none()), Some(true));
        assert!(!IS_CONTAINED.get());
    }

    /// Part of `a_panic_of_any_thread_ends_the_process_with_one_line` that runs in another process.
    #[test]
    #[ignore = "it ends the process"]
    fn panics_in_another_thread() {
        end_at_panics(125);
        assert!(contained(|| panic!("contained")).is_none());
        drop(std::thread::spawn(|| panic!("on\npurpose")));
        std::thread::sleep(std::time::Duration::from_secs(1000));
    }

    #[test]
    fn a_panic_of_any_thread_ends_the_process_with_one_line() {
        let name =
            std::thread::current().name().unwrap().replace("a_panic_of_any_thread_ends_the_process_with_one_line", "");
        let mut this = std::process::Command::new(std::env::current_exe().unwrap());
        let this = this.args(["--exact", "--ignored", "--nocapture", &format!("{name}panics_in_another_thread")]);
        let ended = this.env("RUST_BACKTRACE", "1").output().unwrap();
        let lines = String::from_utf8(ended.stderr).unwrap();
        let lines: Vec<_> = lines.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(ended.status.code(), Some(125), "{lines:?}");
        let [contained, other] = lines[..] else { panic!("{lines:?}") };
        assert!(contained.starts_with("ctprof: a fault of ctprof at src/process/panics.rs:"), "{contained}");
        assert!(other.ends_with(": on purpose; please report it"), "{other}");
    }

    #[test]
    fn a_line_is_cut_where_there_is_no_more_room() {
        let mut line = Line { bytes: [0; 400], length: 0 };
        (0..50).for_each(|_| line.write_str("0123456789").unwrap());
        assert_eq!((line.length, &line.bytes[390..]), (400, &b"0123456789"[..]));
    }
}
