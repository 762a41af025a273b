//! The terminal of a full-screen command: taken once, and given back however the process ends.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::libc::termios;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

/// The other screen, without cursor and line wrap, which reports buttons of the mouse in the form SGR.
const TAKE: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1000h\x1b[?1006h";
const GIVE: &[u8] = b"\x1b[?1006l\x1b[?1000l\x1b[?7h\x1b[?25h\x1b[0m\x1b[?1049l";
/// Messages that are kept for the end; later ones are dropped.
const MOST_MESSAGES: usize = 100;

/// The settings of the terminal when ctprof took it first.
static BEFORE: OnceLock<termios> = OnceLock::new();
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// Messages for standard error, which would disturb the screen.
static HELD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The screen of the terminal that standard input and output are. Dropping it gives the terminal back, and prints the messages
/// that were held.
#[derive(Debug)]
pub(crate) struct TerminalScreen(());

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoScreen {
    #[error("standard input and output are not a terminal")]
    NoTerminal,
    #[error("the terminal cannot move its cursor (TERM is {0})")]
    Dumb(String),
    #[error("cannot set up the terminal: {0}")]
    Refused(#[from] io::Error),
}

impl TerminalScreen {
    /// Whether the terminal has a screen.
    pub(crate) fn check() -> Result<(), NoScreen> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(NoScreen::NoTerminal);
        }
        let term = std::env::var("TERM").unwrap_or_default();
        if matches!(&*term, "" | "dumb" | "unknown") {
            return Err(NoScreen::Dumb(if term.is_empty() { "not set".to_owned() } else { term }));
        }
        Ok(())
    }

    pub(crate) fn take() -> Result<Self, NoScreen> {
        Self::check()?;
        let before = tcgetattr(io::stdin()).map_err(io::Error::from)?;
        BEFORE.get_or_init(|| before.into());
        let screen = Self(());
        screen.retake()?;
        Ok(screen)
    }

    /// Takes the screen again, after a stop.
    pub(crate) fn retake(&self) -> io::Result<()> {
        let Some(before) = BEFORE.get() else { return Ok(()) };
        let mut raw = Termios::from(*before);
        cfmakeraw(&mut raw);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &raw)?;
        IS_TAKEN.store(true, Ordering::Relaxed);
        self.draw(TAKE)
    }

    /// Gives the screen back before a stop.
    pub(crate) fn lend(&self) {
        give_back();
    }

    pub(crate) fn draw(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// Where keys are read.
    pub(crate) fn input(&self) -> BorrowedFd<'static> {
        static STDIN: OnceLock<io::Stdin> = OnceLock::new();
        STDIN.get_or_init(io::stdin).as_fd()
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        give_back();
        let held = std::mem::take(&mut *HELD.lock().unwrap_or_else(PoisonError::into_inner));
        held.iter().for_each(|message| eprintln!("{message}"));
    }
}

/// Gives the terminal back, if it was taken. It needs no memory, so that a panic and a lack of memory can end so.
pub(super) fn give_back() {
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        // The terminal may be gone.
        let _ = nix::unistd::write(io::stdout(), GIVE);
        let _ = BEFORE.get().map(|before| tcsetattr(io::stdin(), SetArg::TCSANOW, &Termios::from(*before)));
    }
}

/// Keeps a message while the screen is taken; false if it is not.
pub(super) fn hold(message: &[u8]) -> bool {
    let is_taken = IS_TAKEN.load(Ordering::Relaxed);
    if let Some(mut held) = HELD.try_lock().ok().filter(|held| is_taken && held.len() < MOST_MESSAGES) {
        held.push(String::from_utf8_lossy(message).trim_end().to_owned());
    }
    is_taken
}

/// The last message that is held.
pub(crate) fn last_message() -> Option<String> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
}

/// Writes messages to standard error, or keeps them while the screen is taken.
#[derive(Debug, Default)]
pub(crate) struct MessageWriter;

impl Write for MessageWriter {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        if hold(message) { Ok(message.len()) } else { io::stderr().write(message) }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
