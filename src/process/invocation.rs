//! A command, and how it is started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, Stdio};

use crate::sys::affinity::start_on;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The program, found in `PATH` if it has no slash.
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub streams: Streams,
    /// The CPUs that it may run on; those of ctprof if empty.
    pub cpus: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Those of ctprof.
    Inherited,
    /// Its input is empty, and its output goes to standard error.
    ToStderr,
    /// Its input is empty, and its output is discarded.
    Discarded,
}

impl Invocation {
    /// A program with the streams and CPUs of ctprof.
    pub fn new(program: &OsStr, arguments: &[OsString]) -> Self {
        let (program, arguments) = (program.to_owned(), arguments.to_vec());
        Self { program, arguments, streams: Streams::Inherited, cpus: Vec::new() }
    }

    /// A script of `sh`, with the CPUs of ctprof.
    pub fn shell(script: &str, streams: Streams) -> Self {
        Self { streams, ..Self::new(OsStr::new("sh"), &["-c".into(), script.into()]) }
    }

    pub(super) fn prepared(&self) -> Command {
        let Self { program, arguments, streams, cpus } = self;
        let mut command = Command::new(program);
        command.args(arguments);
        match streams {
            Streams::Inherited => {}
            Streams::ToStderr => _ = command.stdin(Stdio::null()).stdout(io::stderr()),
            Streams::Discarded => _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()),
        }
        if !cpus.is_empty() {
            start_on(&mut command, cpus);
        }
        command
    }
}
