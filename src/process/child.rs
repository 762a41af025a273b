//! The command that ctprof runs.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};

use super::command_end::{CommandEnd, SpawnError};
use super::invocation::Invocation;
use super::priority::start_in_turn;
use super::privileges::{CannotDrop, with_file_capabilities};
use super::signals::{Received, Signals};
use crate::sys::signals::inherit;
use crate::sys::wait::{Used, reap, zombie};

/// A command that ctprof has started.
///
/// It keeps ctprof's working directory, environment and process group, and the signal mask and dispositions that
/// ctprof was started with. After its exit it is a zombie until [`reap`](Self::reap).
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    started: Instant,
    /// The first signal that would have ended ctprof.
    interrupted: Option<i32>,
}

impl Child {
    /// Starts the command as a child of this process.
    ///
    /// Capabilities: start ctprof with [`Privileges::RecordCommand`](super::Privileges::RecordCommand).
    ///
    /// # Errors
    /// If the command cannot be started, or a signal that would have ended ctprof has arrived meanwhile.
    pub fn spawn(invocation: &Invocation, signals: &Signals) -> Result<Self, SpawnError> {
        if let Some(signal) = signals.interruption() {
            return Err(SpawnError::Interrupted(signal));
        }
        let removed = removed_variables()?;
        let start = |invocation: &Invocation| {
            let mut command = invocation.prepared();
            command.envs(removed.clone());
            inherit(&mut command, signals.mask, signals.ignored.clone());
            start_in_turn(&mut command);
            command.spawn()
        };
        let started = Instant::now();
        let child = match start(invocation) {
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => start(&invocation.as_script()),
            started => started,
        };
        let child = child.map_err(|error| SpawnError::of_spawn(&invocation.program, error))?;
        let pid = i32::try_from(child.id()).expect("process ids are positive i32");
        Ok(Self { pid: Pid::from_raw(pid), started, interrupted: None })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// How long ago it was started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until the command's process has exited, and leaves it a zombie; `None` if the deadline comes first. Reaps other
    /// children only if `signals` [adopt orphans](Signals::adopting_orphans).
    ///
    /// Forwards signals that a process sent to ctprof. Signals of the terminal reach the command anyway, which is in the same process
    /// group. Only the hangup of a terminal goes to the leader of its session alone, and is forwarded.
    ///
    /// # Errors
    /// Errors of the system calls: out of memory, or the command was reaped elsewhere.
    pub fn wait_exited(&mut self, signals: &Signals, deadline: Option<Instant>) -> io::Result<Option<CommandEnd>> {
        let awaited = (!signals.adopt_orphans).then_some(self.pid);
        loop {
            let seen = Instant::now();
            while let Some((pid, status)) = zombie(awaited)? {
                if pid == self.pid {
                    let (status, signal) = (status.ok(), status.err());
                    // The key that ended the command can arrive here after its exit is seen.
                    let interrupted = self.interrupted.or_else(|| signals.interruption());
                    return Ok(Some(CommandEnd { status, signal, elapsed: seen - self.started, interrupted }));
                }
                reap(pid)?;
            }
            let next_look = awaited.map(|_| seen + LONGEST_UNSEEN);
            if let Some(received) = signals.receive([deadline, next_look].into_iter().flatten().min())? {
                self.interrupted = self.interrupted.or(received.interrupts());
                self.forward(received);
            } else if deadline.is_some_and(|end| end <= seen) {
                return Ok(None);
            }
        }
    }

    fn forward(&self, received: Received) {
        let is_hangup = received.signal == Signal::SIGHUP && getsid(None).is_ok_and(|leader| leader == Pid::this());
        if !received.is_from_process && !is_hangup {
            return;
        }
        if let Err(errno) = kill(self.pid, received.signal) {
            tracing::warn!("cannot forward {} to the command: {errno}", received.signal);
        }
    }

    /// Reaps the command's process, whose exit has been waited for. A process that is not reaped stays a zombie
    /// until ctprof exits. Returns what it used: `io` of a zombie belongs to root, so that other users cannot read it
    /// (`task_dump_owner` in fs/proc/base.c), and a zombie has no memory.
    ///
    /// # Errors
    /// If it was reaped elsewhere.
    pub fn reap(self) -> io::Result<UsedByCommand> {
        let Used { blocks_read, blocks_written, peak_kib } = reap(self.pid)?;
        let own_kib = own_peak_kib();
        let bytes = |number: i64, unit: u64| u64::try_from(number).unwrap_or(0).saturating_mul(unit);
        Ok(UsedByCommand {
            read_bytes: bytes(blocks_read, BLOCK),
            write_bytes: bytes(blocks_written, BLOCK),
            peak_bytes: own_kib.filter(|own| peak_kib > *own).map(|_| bytes(peak_kib, 1024)),
        })
    }
}

/// How late an exit is seen where no SIGCHLD may arrive: other threads of the program can take it.
const LONGEST_UNSEEN: Duration = Duration::from_millis(50);

/// The largest resident set of ctprof so far, in KiB: `VmHWM` of proc_pid_status(5). A command is
/// a copy of it until it executes its program, and the kernel counts that. `None` without procfs.
fn own_peak_kib() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Unit of `ru_inblock` and `ru_oublock` of getrusage(2), in bytes.
const BLOCK: u64 = 512;

/// Resources used by the command and the children that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedByCommand {
    /// Bytes that were read from storage.
    pub read_bytes: u64,
    /// Bytes that were written to storage.
    pub write_bytes: u64,
    /// Largest resident set of any of these processes, in bytes; `None` if it was not larger than ctprof's own.
    pub peak_bytes: Option<u64>,
}

/// Variables that ctprof was started with and no longer has whole. If ctprof has file capabilities, glibc removes
/// `LD_LIBRARY_PATH`, `TMPDIR` and others for its own protection (`unsecvars.h`), which the command, without
/// these capabilities, does not need.
fn removed_variables() -> Result<Vec<(OsString, OsString)>, CannotDrop> {
    // It belongs to root if ctprof has file capabilities.
    let initial = with_file_capabilities(|| std::fs::read("/proc/self/environ"))?;
    let initial = initial.unwrap_or_else(|error| {
        tracing::warn!(
            "cannot read /proc/self/environ ({error}): the command may lack variables such as LD_LIBRARY_PATH; \
             grant ctprof cap_dac_read_search, or run it as root"
        );
        Vec::new()
    });
    let kept: BTreeSet<_> = std::env::vars_os().map(|(name, _)| name).filter(|name| name != SHORTENED).collect();
    let variables = initial.split(|&byte| byte == 0).filter_map(variable);
    Ok(variables.filter(|(name, _)| !kept.contains(name)).collect())
}

/// glibc removes parts of its value (`elf/dl-tunables.c`).
const SHORTENED: &str = "GLIBC_TUNABLES";

/// Name and value of `NAME=value`.
fn variable(text: &[u8]) -> Option<(OsString, OsString)> {
    let end = text.iter().position(|&byte| byte == b'=').filter(|&end| end > 0)?;
    Some((OsStr::from_bytes(&text[..end]).into(), OsStr::from_bytes(&text[end + 1..]).into()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn sleeper(signals: &Signals, seconds: &str) -> Child {
        Child::spawn(&Invocation::new("sleep".as_ref(), &[seconds.into()]), signals).unwrap()
    }

    #[test]
    fn other_children_of_the_program_are_left_to_it_while_a_command_runs() {
        for signals in [Signals::for_pause, Signals::for_command] {
            let signals = signals().unwrap();
            let mut other = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
            let mut child = sleeper(&signals, "0.2");
            assert_eq!(child.wait_exited(&signals, None).unwrap().unwrap().status, Some(0));
            child.reap().unwrap();
            assert_eq!(other.wait().unwrap().code(), Some(7));
        }
    }

    #[test]
    fn an_exit_is_seen_without_its_signal_also_when_the_time_is_over() {
        let signals = Signals::for_pause().unwrap();
        for deadline in [None, Some(Instant::now())] {
            let mut child = sleeper(&signals, "0");
            let has_exited = || zombie(Some(child.pid)).unwrap().is_some();
            while deadline.is_some() && !has_exited() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let end = child.wait_exited(&signals, deadline).unwrap();
            assert_eq!(end.unwrap().status, Some(0));
            child.reap().unwrap();
        }
    }
}
