//! A program on a terminal, of which a test sees the screen.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};

/// What ends each whole screen of ctprof.
const END: &str = "\x1b[?2026l";
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that was started on a terminal of its own.
pub(crate) struct OnTerminal {
    child: Child,
    master: File,
    /// Held so that its settings can be read after the program has ended.
    terminal: File,
    /// All that was written.
    output: Vec<u8>,
}

impl OnTerminal {
    /// Starts the program as the leader of a session, of which this is the terminal.
    pub(crate) fn start(program: &str, arguments: &[&str], (columns, lines): (u16, u16)) -> Self {
        let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let [stdin, stdout, stderr] = [(); 3].map(|()| pty.slave.try_clone().unwrap());
        let mut command = Command::new("setsid");
        // A shell that starts the tests in the background ignores SIGINT for them, nohup SIGHUP.
        command
            .args(["--ctty", "env", "--default-signal", program])
            .args(arguments)
            .env("TERM", "xterm")
            .env("NO_COLOR", "1");
        let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap();
        Self { child, master: pty.master.into(), terminal: pty.slave.into(), output: Vec::new() }
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    pub(crate) fn resize(&self, columns: u16, lines: u16) {
        let size = [columns, lines].map(|number| number.to_string());
        let stty = ["cols", &size[0], "rows", &size[1]];
        assert!(Command::new("stty").args(stty).stdin(self.terminal.try_clone().unwrap()).status().unwrap().success());
    }

    /// Whether the terminal is as programs expect it that know nothing of screens.
    pub(crate) fn is_given_back(&self) -> bool {
        let flags = tcgetattr(&self.terminal).unwrap().local_flags;
        let is_cooked = flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG);
        let output = self.output();
        is_cooked && output.rfind("\x1b[?1049l") > output.rfind("\x1b[?1049h")
    }

    /// All that was written.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// The lines of the last whole screen, without escapes.
    pub(crate) fn screen(&self) -> String {
        let output = self.output();
        let whole = output.rfind(END).map_or("", |end| &output[..end]);
        let last = whole.rfind("\x1b[H").map_or("", |start| &whole[start..]);
        let mut text = String::new();
        let mut rest = last;
        while let Some((before, escape)) = rest.split_once("\x1b[") {
            text.push_str(before);
            rest = escape.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, after)| after);
        }
        text.push_str(rest);
        text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// Waits until the program has done what is wanted, and returns its screen.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, is_there: impl Fn(&Self) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        while !is_there(self) {
            assert!(Instant::now() < end, "{}\n{:?}", self.screen(), self.output());
            self.read_for(PollTimeout::from(50_u8));
        }
        self.screen()
    }

    /// Waits until a text is on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        self.wait_until(|terminal| terminal.screen().contains(text))
    }

    /// Waits for the end of the program.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            self.read_for(PollTimeout::from(10_u8));
            if let Some(status) = self.child.try_wait().unwrap() {
                while self.read_for(PollTimeout::ZERO) {}
                return status;
            }
            assert!(Instant::now() < end, "{}", self.screen());
        }
    }

    fn read_for(&mut self, time: PollTimeout) -> bool {
        let mut polled = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, time) == Ok(0) {
            return false;
        }
        let mut bytes = [0; 1 << 16];
        match self.master.read(&mut bytes) {
            Ok(length) => {
                self.output.extend(&bytes[..length]);
                length > 0
            }
            Err(error) => error.kind() == ErrorKind::Interrupted,
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
