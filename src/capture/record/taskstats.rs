//! Records of exited threads, from taskstats.
//!
//! The kernel sends a record for every thread that exits (`taskstats_exit` of `kernel/taskstats.c`), filled
//! by `delayacct_add_tsk` (`kernel/delayacct.c`), `bacct_add_tsk` and `xacct_add_tsk` (`kernel/tsacct.c`). It
//! is sent early in `do_exit`, before anyone learns of the exit: what the thread does after that, such as freeing
//! its memory, is not in it.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::super::enrich::taskstats::Kept;
use super::super::procfs::text::cpu_list;
use super::decoder::{TaskstatsExits, needed_words};
use super::exits::{Exits, Records};
use super::listener_error::ExitListenerError;
use super::packed::{MAX_BYTES, NotStored, Packed};
use crate::model::HostContext;
use crate::process::Privileges;
use crate::sys::errno;
use crate::sys::taskstats::ExitSockets;

/// Receives the records of all threads that exit on this host, in a thread of its own.
#[derive(Debug)]
pub(super) struct TaskstatsListener {
    /// The thread stops when this end is closed.
    stop: UnixStream,
    listening: JoinHandle<Received>,
    kept: Kept,
}

/// What the listening thread has so far.
#[derive(Debug)]
struct Received {
    records: Packed,
    /// The words of the kernel's struct to store.
    needed: Option<u128>,
    received: u64,
    lost: u64,
}

impl TaskstatsListener {
    /// Starts to listen. Every thread that exits from now on has a record.
    ///
    /// # Errors
    /// [`ExitListenerError`] without `CAP_NET_ADMIN`, in a container, or if the kernel has no taskstats.
    pub(super) fn start(host: &HostContext) -> Result<Self, ExitListenerError> {
        let (stop, stopped) = UnixStream::pair().map_err(|error| errno(&error))?;
        let cpus = possible_cpus().ok_or(ExitListenerError::UnknownCpus)?;
        let sockets = ExitSockets::open(&cpus)?;
        receives_records(&sockets)?;
        let listen = move || {
            Privileges::Record.keep_after_loading();
            let mut received = Received { records: Packed::new(MAX_BYTES), needed: None, received: 0, lost: 0 };
            let dropped = sockets.listen(stopped.as_fd(), |stats| received.add(stats));
            received.lost += dropped;
            received
        };
        let thread = thread::Builder::new().name("ctprof-exits".to_owned());
        let listening = thread.spawn(listen).map_err(|error| errno(&error))?;
        // The file exists exactly where I/O accounting is built in.
        let has_io = Path::new("/proc/self/io").exists();
        let kept = Kept::by(host);
        Ok(Self { stop, listening, kept: if has_io { kept } else { kept.without_io() } })
    }

    /// Stops, and returns the records of all threads that have exited before the call.
    ///
    /// # Panics
    /// If the listening thread panicked.
    pub(super) fn finish(self) -> Exits {
        let Self { stop, listening, kept } = self;
        drop(stop);
        let Received { records, received, lost, .. } =
            listening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Exits::new(Records::Taskstats(TaskstatsExits::new(records, kept)), received, lost)
    }
}

/// Checks that the exit of a thread leaves a record. Outside the initial network namespace, newer kernels let
/// sockets register and send them nothing.
fn receives_records(sockets: &ExitSockets) -> Result<(), ExitListenerError> {
    let exiting = thread::Builder::new().name("ctprof-probe".to_owned()).spawn(|| ());
    let _ = exiting.map_err(|error| errno(&error))?.join();
    sockets.has_record().then_some(()).ok_or(ExitListenerError::Namespace)
}

/// CPUs on which a thread can ever exit; those online now if that is unknown.
fn possible_cpus() -> Option<Vec<u32>> {
    let listed = |file| cpu_list(&fs::read(format!("/sys/devices/system/cpu/{file}")).ok()?);
    listed("possible").or_else(|| listed("online"))
}

impl Received {
    fn add(&mut self, stats: &[u8]) {
        let needed = *self.needed.get_or_insert_with(|| needed_words(stats));
        match self.records.push(monotonic_ns(), stats, needed) {
            Ok(()) => self.received += 1,
            Err(NotStored) => self.lost += 1,
        }
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
