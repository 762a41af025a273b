//! What ctprof does around the command that it records, for `tests/live/commands.rs`: signals, and the parent of
//! orphans, concern a whole process. Facts for the tests go to stderr.
//!
//! `recorder command WORD...` runs a command, `recorder pause MS` pauses, and `recorder survive` is a command that
//! SIGINT does not end.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use ctprof::process::{Child, Invocation, Privileges, Signals, fail_writes_beyond_limit};
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Failure> {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let [task, words @ ..] = &words[..] else { return Err("usage: recorder TASK WORD...".into()) };
    fail_writes_beyond_limit();
    Privileges::RecordCommand.keep()?;
    let number = || words.first().and_then(|word| word.to_str()).unwrap_or_default().parse::<u32>();
    match task.to_str() {
        Some("command") => record_command(words),
        Some("pause") => record_pause(Duration::from_millis(number()?.into())),
        Some("survive") => survive_interrupts(),
        _ => Err("no such task".into()),
    }
}

fn record_command(command: &[OsString]) -> Result<ExitCode, Failure> {
    let signals = Signals::for_command()?.adopting_orphans();
    wait_for_stdin();
    let [program, arguments @ ..] = command else { return Err("no command".into()) };
    let mut child = match Child::spawn(&Invocation::new(program, arguments), &signals) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{error}");
            return Ok(error.exit_status().into());
        }
    };
    let end = loop {
        if let Some(end) = child.wait_exited(&signals, None)? {
            break end;
        }
    };
    drop(signals);
    let id = child.id();
    let state = state(id)?;
    child.reap()?;
    let children = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        Err(Errno::ECHILD) => "none",
        Ok(WaitStatus::StillAlive) => "alive",
        other => return Err(format!("{other:?}").into()),
    };
    let exists = Path::new(&format!("/proc/{id}")).exists();
    eprintln!("state {state} exists {exists} children {children} elapsed {}", end.elapsed.as_millis());
    Ok(end.exit_status().into())
}

/// With signals blocked, for tests that send some before anything else.
fn wait_for_stdin() {
    if env::var_os("WAIT_FOR_STDIN").is_some() {
        println!("ready");
        let _ = io::stdin().read(&mut [0]);
    }
}

/// The letter in `/proc/PID/stat`.
fn state(id: u32) -> io::Result<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    Ok(stat.rsplit(") ").next().and_then(|rest| rest.get(..1)).unwrap_or_default().to_owned())
}

fn record_pause(time: Duration) -> Result<ExitCode, Failure> {
    let signals = Signals::for_pause()?;
    wait_for_stdin();
    println!("ready");
    let begin = Instant::now();
    let ended = signals.pause(time)?;
    let waited = begin.elapsed();
    drop(signals);
    let what = ended.map_or("Elapsed".to_owned(), |signal| format!("Signal({signal})"));
    println!("{what} {}", waited.as_millis());
    if ended.is_some() {
        thread::sleep(Duration::from_secs(10));
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts interrupts until none has arrived for a while.
fn survive_interrupts() -> Result<ExitCode, Failure> {
    let signals = Signals::for_pause()?;
    println!("ready");
    let mut patience = Duration::from_secs(10);
    while signals.pause(patience)?.is_some() {
        println!("interrupted");
        patience = Duration::from_millis(100);
    }
    Ok(ExitCode::from(9))
}
