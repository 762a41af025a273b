//! Policies and nice values of threads.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc::{self, c_long};

use super::call;

const RESET_ON_FORK: c_long = libc::SCHED_RESET_ON_FORK as c_long;
const OTHER: c_long = libc::SCHED_OTHER as c_long;
const FIFO: c_long = libc::SCHED_FIFO as c_long;
/// The lowest nice value.
const LOWEST: c_long = -20;

/// Policy and nice value of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    nice: c_long,
    /// Scheduling policy, with [`SCHED_RESET_ON_FORK`](libc::SCHED_RESET_ON_FORK) if threads and processes started by this thread
    /// get the default policy.
    policy: c_long,
}

impl Priority {
    pub(crate) const USUAL: Self = Self { nice: 0, policy: OTHER | RESET_ON_FORK };
    /// The lowest nice value. On a host where thousands of threads are ready to run, a thread with the usual one gets a CPU every
    /// few seconds.
    pub(crate) const NICE: Self = Self { nice: LOWEST, policy: OTHER | RESET_ON_FORK };
    /// Before all with a usual policy, as soon as it is ready.
    pub(crate) const FIRST: Self = Self { nice: 0, policy: FIFO | RESET_ON_FORK };
    /// The same, also of threads that it starts.
    const FIRST_WITH_STARTED: Self = Self { nice: 0, policy: FIFO };
    /// Where a cgroup of version 1 has no time for real-time policies.
    const NICE_WITH_STARTED: Self = Self { nice: LOWEST, policy: OTHER };

    /// Returns the policy and nice value of a thread; 0 is the calling thread.
    pub(crate) fn of_thread(tid: libc::pid_t) -> Self {
        // SAFETY: the arguments are numbers. The first system call returns 20 less the nice value.
        let [nice, policy] = unsafe {
            let nice = call(libc::SYS_getpriority, [c_long::from(libc::PRIO_PROCESS), tid.into()]);
            [nice, call(libc::SYS_sched_getscheduler, [tid.into()])]
        };
        // A sandbox can refuse them: these values are nobody's.
        Self { nice: 20 - nice.unwrap_or(c_long::MIN / 2), policy: policy.unwrap_or(c_long::MIN) }
    }

    /// Returns the policy and nice value that a thread started by the calling thread would have.
    pub(crate) fn of_started() -> Self {
        let Self { nice, policy } = Self::of_thread(0);
        match policy & RESET_ON_FORK {
            0 => Self { nice, policy },
            _ => Self { nice: nice.max(0), policy: OTHER },
        }
    }

    /// Returns true for the default policy and nice value. A user who chose others for ctprof keeps them.
    pub(crate) fn is_usual(self) -> bool {
        Self { policy: self.policy | RESET_ON_FORK, ..self } == Self::USUAL
    }

    /// Whether [`run_first_with_started`] has given it.
    pub(crate) fn is_inherited(self) -> bool {
        [Self::FIRST_WITH_STARTED, Self::NICE_WITH_STARTED].contains(&self)
    }

    /// Gives it to a thread; false if it may not have it.
    pub(crate) fn set(self, tid: libc::pid_t) -> bool {
        let priority = i32::from(self.policy & !RESET_ON_FORK == FIFO);
        // SAFETY: the kernel reads the structure during the call: `struct sched_param` of include/uapi/linux/sched.h has only the
        // real-time priority; that of musl is larger. The other arguments are numbers.
        unsafe {
            let argument = super::address(&raw const priority);
            call(libc::SYS_sched_setscheduler, [tid.into(), self.policy, argument]).is_ok()
                && call(libc::SYS_setpriority, [c_long::from(libc::PRIO_PROCESS), tid.into(), self.nice]).is_ok()
        }
    }
}

/// Lets this thread wake up when it asked to, and not up to 50 µs later.
pub(crate) fn wake_in_time() {
    // SAFETY: the arguments are numbers.
    let _ = unsafe { call(libc::SYS_prctl, [c_long::from(libc::PR_SET_TIMERSLACK), 1]) };
}

/// Gives a thread, and threads that it starts later, precedence over all threads with a usual policy, or at least the lowest nice
/// value. Returns false if the kernel permits neither.
pub(crate) fn run_first_with_started(tid: libc::pid_t) -> bool {
    Priority::FIRST_WITH_STARTED.set(tid) || Priority::NICE_WITH_STARTED.set(tid)
}

/// Makes `command` start with the usual priority although this thread starts others with its own.
pub(crate) fn start_in_turn(command: &mut Command) {
    let reset_priority = || {
        Priority { policy: OTHER, ..Priority::USUAL }.set(0);
        io::Result::Ok(())
    };
    // SAFETY: between fork and exec, the function only makes system calls.
    unsafe { command.pre_exec(reset_priority) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn a_thread_with_a_priority_starts_others_with_the_usual_one() {
        for priority in [Priority::NICE, Priority::FIRST] {
            let seen = std::thread::spawn(move || {
                let may = priority.set(0);
                let seen = [Priority::of_thread(0), std::thread::spawn(|| Priority::of_thread(0)).join().unwrap()];
                assert_eq!(seen[1], Priority::of_started());
                Priority::USUAL.set(0);
                may.then_some((seen, Priority::of_thread(0)))
            });
            match seen.join().unwrap() {
                None => skipped(Missing::Privilege("a higher priority")),
                Some(([own, started], after)) => {
                    assert!(own == priority && started.is_usual() && after.is_usual(), "{own:?} {started:?} {after:?}");
                }
            }
        }
    }

    #[test]
    fn a_thread_that_runs_first_with_those_that_it_starts_starts_commands_with_the_usual_priority() {
        let seen = std::thread::spawn(|| {
            let may = run_first_with_started(0);
            let started = std::thread::spawn(|| Priority::of_thread(0)).join().unwrap();
            let mut command = Command::new("sleep");
            start_in_turn(command.arg("100"));
            let mut command = command.spawn().unwrap();
            let of_command = Priority::of_thread(command.id().cast_signed());
            command.kill().and_then(|()| command.wait()).unwrap();
            may.then_some((Priority::of_thread(0), started, of_command))
        });
        match seen.join().unwrap() {
            None => skipped(Missing::Privilege("a higher priority")),
            Some((own, started, of_command)) => {
                assert!(own.is_inherited() && started == own && of_command.is_usual(), "{own:?} {of_command:?}");
            }
        }
    }
}
