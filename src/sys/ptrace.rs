//! Stops a thread while its thread pointer is read.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{self, c_long};

use super::{address, call, seccomp};

/// How long to poll for a stop without sleeping.
const POLLING: Duration = Duration::from_micros(100);

/// The step of the stop that failed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopError {
    Seize(Errno),
    Interrupt(Errno),
    /// It did not stop in time, or exited.
    Wait(Errno),
    Registers(Errno),
}

/// An attached thread. Dropping this detaches from it if it has stopped, and it resumes.
#[derive(Debug)]
struct Attached {
    tid: i32,
    /// Once it has stopped: the signal to detach with, 0 for none.
    stop: Option<i32>,
    /// Only the thread that has attached can detach.
    _not_send: PhantomData<*const ()>,
}

thread_local! {
    /// Threads that the calling thread has interrupted and that have not stopped in time. Detaching is possible only after
    /// they stop; the kernel resumes them when the calling thread exits.
    static LATE: RefCell<Vec<Attached>> = const { RefCell::new(Vec::new()) };
}

impl Attached {
    /// Attaches to thread `tid` without stopping it.
    fn seize(tid: u32) -> Result<Self, StopError> {
        let tid = i32::try_from(tid).map_err(|_| StopError::Seize(Errno::ESRCH))?;
        if !seccomp::RiskyCall::Ptrace.returns() {
            return Err(StopError::Seize(Errno::EPERM));
        }
        request(libc::PTRACE_SEIZE.into(), tid, 0).map_err(StopError::Seize)?;
        Ok(Self { tid, stop: None, _not_send: PhantomData })
    }

    /// Interrupts the thread and waits until it stops, at most for `timeout`.
    fn stop(&mut self, timeout: Duration) -> Result<(), StopError> {
        request(libc::PTRACE_INTERRUPT.into(), self.tid, 0).map_err(StopError::Interrupt)?;
        let begin = Instant::now();
        let mut pause = Duration::from_micros(20);
        while !self.has_stopped().map_err(StopError::Wait)? {
            match begin.elapsed() {
                waited if waited >= timeout => return Err(StopError::Wait(Errno::ETIMEDOUT)),
                // Most threads stop immediately: sleeping would take longer.
                waited if waited < POLLING => thread::yield_now(),
                _ => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(2));
                }
            }
        }
        Ok(())
    }

    fn has_stopped(&mut self) -> Result<bool, Errno> {
        let mut status = 0;
        let flags = libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG;
        // SAFETY: `status` is an integer of this frame that the kernel may write.
        let reaped = Errno::result(unsafe { libc::waitpid(self.tid, &raw mut status, flags) });
        match reaped {
            Ok(0) | Err(Errno::EINTR) => Ok(false),
            Ok(_) if libc::WIFSTOPPED(status) => {
                // Any other stop is the delivery of a signal, which must be forwarded.
                let requested = status >> 16 == libc::PTRACE_EVENT_STOP;
                self.stop = Some(if requested { 0 } else { libc::WSTOPSIG(status) });
                Ok(true)
            }
            Ok(_) => Err(Errno::ESRCH),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(signal) = self.stop {
            let _ = request(libc::PTRACE_DETACH.into(), self.tid, signal);
        }
    }
}

/// Detaches from threads that did not stop in time for the calling thread, and have stopped or exited since. Whether some
/// have not.
pub(crate) fn release_late() -> bool {
    LATE.with_borrow_mut(|late| {
        late.retain_mut(|attached| matches!(attached.has_stopped(), Ok(false)));
        !late.is_empty()
    })
}

/// Stops thread `tid`, waiting at most `timeout`, reads its thread pointer, and resumes it. [`release_late`] resumes a
/// thread that did not stop in time.
pub(crate) fn thread_pointer(tid: u32, timeout: Duration) -> Result<u64, StopError> {
    let mut attached = Attached::seize(tid)?;
    match attached.stop(timeout) {
        Ok(()) => pointer_register(tid).map_err(StopError::Registers),
        Err(error @ StopError::Wait(Errno::ETIMEDOUT)) => {
            LATE.with_borrow_mut(|late| late.push(attached));
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// The raw system call, because C libraries differ in the types of its wrapper.
fn request(request: c_long, tid: i32, data: i32) -> Result<(), Errno> {
    // SAFETY: none of the requests made here reads or writes memory of this process: address and
    // data are numbers to them.
    unsafe { call(libc::SYS_ptrace, [request, tid.into(), 0, data.into()]) }.map(drop)
}

/// The thread pointer in the thread's registers.
fn pointer_register(tid: u32) -> Result<u64, Errno> {
    #[cfg(target_arch = "x86_64")]
    return regset::<{ size_of::<libc::user_regs_struct>() / 8 }>(tid, libc::NT_PRSTATUS)
        .map(|words| words[std::mem::offset_of!(libc::user_regs_struct, fs_base) / 8]);
    #[cfg(target_arch = "aarch64")]
    return regset::<1>(tid, NT_ARM_TLS).map(|words| words[0]);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return Err(Errno::ENOSYS);
}

/// `NT_ARM_TLS` of `include/uapi/linux/elf.h`: `tpidr_el0`.
#[cfg(target_arch = "aarch64")]
const NT_ARM_TLS: libc::c_int = 0x401;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn regset<const WORDS: usize>(tid: u32, set: libc::c_int) -> Result<[u64; WORDS], Errno> {
    let mut words = [0u64; WORDS];
    let mut buffer = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(&words) };
    let request = libc::PTRACE_GETREGSET.into();
    let arguments = [request, c_long::from(tid), c_long::from(set), address(&raw mut buffer)];
    // SAFETY: the kernel writes at most `iov_len` bytes to `iov_base`, which is the array's size and
    // address; any bit pattern is a valid u64. `buffer` outlives the call.
    unsafe { call(libc::SYS_ptrace, arguments) }?;
    if buffer.iov_len < size_of_val(&words) { Err(Errno::EIO) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::process::{Child, Command};

    use super::*;

    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Self {
            let sleeper = Self(Command::new("sleep").arg("100").spawn().unwrap());
            while sleeper.state() != 'S' || !sleeper.field("Name:").contains("sleep") {
                thread::sleep(Duration::from_millis(1));
            }
            sleeper
        }

        fn field(&self, name: &str) -> String {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
        }

        fn state(&self) -> char {
            self.field("State:").chars().next().unwrap()
        }

        /// The state that it is in once it no longer runs.
        fn rests_in(&self) -> char {
            (0..1000)
                .find_map(|_| {
                    thread::sleep(Duration::from_millis(1));
                    Some(self.state()).filter(|state| *state != 'R')
                })
                .unwrap_or('R')
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Does not compile if an attachment could be sent to another thread, which could not detach.
    #[test]
    fn only_the_thread_that_attached_has_the_attachment() {
        trait AmbiguousIfSend<T> {
            fn check() {}
        }
        impl<A> AmbiguousIfSend<()> for A {}
        impl<A: Send> AmbiguousIfSend<u8> for A {}
        <Attached as AmbiguousIfSend<_>>::check();
    }

    const TIMEOUT: Duration = Duration::from_millis(250);

    #[test]
    fn a_thread_is_resumed_at_once() {
        let sleeper = Sleeper::new();
        match thread_pointer(sleeper.0.id(), TIMEOUT) {
            Err(error) => return skipped(Missing::Privilege(format!("ptrace: {error:?}"))),
            Ok(pointer) => assert_ne!(pointer, 0),
        }
        assert_eq!(sleeper.field("TracerPid:"), "0");
        assert_eq!(sleeper.rests_in(), 'S');
    }

    #[test]
    fn a_stopped_process_stays_stopped() {
        let sleeper = Sleeper::new();
        let id = nix::unistd::Pid::from_raw(i32::try_from(sleeper.0.id()).unwrap());
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGSTOP).unwrap();
        while sleeper.state() != 'T' {
            thread::sleep(Duration::from_millis(1));
        }
        let _ = thread_pointer(sleeper.0.id(), TIMEOUT);
        thread::sleep(Duration::from_millis(20));
        assert_eq!((sleeper.state(), sleeper.field("TracerPid:").as_str()), ('T', "0"));
    }

    #[test]
    fn a_panic_while_a_thread_is_stopped_resumes_it() {
        let sleeper = Sleeper::new();
        let id = sleeper.0.id();
        let held = move || {
            let mut attached = Attached::seize(id).unwrap();
            attached.stop(TIMEOUT).unwrap();
            panic!("on purpose");
        };
        let _ = std::panic::catch_unwind(held);
        assert_eq!((sleeper.rests_in(), sleeper.field("TracerPid:").as_str()), ('S', "0"));
    }

    #[test]
    fn a_thread_that_does_not_exist_is_an_error() {
        let error = thread_pointer(u32::MAX >> 1, TIMEOUT);
        assert_eq!(error, Err(StopError::Seize(Errno::ESRCH)));
    }
}
