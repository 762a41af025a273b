//! Processes that wait without end for a file system of a user.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::support::{Missing, skipped};

/// `hanging_files.c`: a process of a user, and the file system that it waits for. It ends when this is dropped.
pub(crate) struct Hanging {
    server: Child,
    /// The process.
    pub(crate) pid: u32,
}

impl Hanging {
    /// Starts one that waits while it does this: `None` if there can be no such file system here.
    pub(crate) fn start(mode: &str) -> Option<Self> {
        let program = match &*PROGRAM {
            Ok(program) => program,
            Err(error) => {
                skipped(Missing::Tool(error));
                return None;
            }
        };
        let mut server = Command::new(program).args([mode, "65534"]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(server.stdout.take().unwrap());
        let first = lines.recv_timeout(Duration::from_secs(60)).unwrap();
        match first.strip_prefix("ready ") {
            Some(pid) => Some(Self { server, pid: pid.parse().unwrap() }),
            None => {
                server.wait().unwrap();
                skipped(Missing::Privilege(first));
                None
            }
        }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // Its descriptor of the file system ends what waits for it, also ctprof.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

pub(crate) fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (send, lines) = channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).for_each(|line| {
            let _ = send.send(line);
        });
    });
    lines
}

/// With the debug information that the search for jemalloc needs, or why it could not be compiled.
static PROGRAM: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/hanging_files.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hanging_files");
    let compiled = Command::new("cc").args(["-O1", "-g", "-pthread", "-o"]).args([&program, &source]).status();
    assert!(compiled.as_ref().map_err(|error| format!("cc: {error}"))?.success());
    Ok(program)
});
