//! The nice value of threads.

use nix::libc::{self, c_long};

use super::call;

/// The lowest. On a host where thousands of threads are ready to run, a thread with the usual one gets a CPU every few seconds.
const NICE: c_long = -20;
const USUAL: c_long = 0;

/// Gives this thread the lowest nice value, and not those that it starts; false if it may not, or has another one than usual.
pub(crate) fn raise_priority() -> bool {
    // Those that it starts get the usual nice value.
    is_usual() && set_policy(libc::SCHED_OTHER.into(), 0, Started::AsUsual) && set(NICE)
}

/// Gives this thread the usual nice value.
pub(crate) fn lower_priority() {
    set(USUAL);
}

/// Who has chosen another policy or nice value for ctprof keeps it.
fn is_usual() -> bool {
    let Priority { nice, policy } = Priority::of_this_thread();
    (nice, policy & !c_long::from(libc::SCHED_RESET_ON_FORK)) == (USUAL, libc::SCHED_OTHER.into())
}

/// Sets the nice value of this thread; false if it may not.
fn set(nice: c_long) -> bool {
    // SAFETY: the arguments are numbers.
    unsafe { call(libc::SYS_setpriority, [c_long::from(libc::PRIO_PROCESS), 0, nice]) }.is_ok()
}

/// Lets this thread, and not those that it starts, run as soon as it is ready, before all with a usual policy; false if it may
/// not. It also wakes up when it asked to, and not up to 50 µs later.
pub(crate) fn run_first() -> bool {
    // SAFETY: the arguments are numbers.
    let _ = unsafe { call(libc::SYS_prctl, [c_long::from(libc::PR_SET_TIMERSLACK), 1]) };
    is_usual() && set_policy(libc::SCHED_FIFO.into(), 1, Started::AsUsual)
}

/// Lets this thread and those that it starts run as soon as they are ready, before all with a usual policy, or at least with the
/// lowest nice value. Returns what it had before, which [`raise_priority`] or [`run_first`] may have set; `None` if it may not.
pub(crate) fn run_first_with_started() -> Option<Priority> {
    let before = Priority::of_this_thread();
    let is_ours = [(NICE, libc::SCHED_OTHER), (USUAL, libc::SCHED_FIFO), (NICE, libc::SCHED_FIFO)]
        .map(|(nice, policy)| Priority { nice, policy: c_long::from(policy | libc::SCHED_RESET_ON_FORK) })
        .contains(&before);
    // A cgroup of version 1 can have no time for real-time policies.
    let raise = || {
        set_policy(libc::SCHED_FIFO.into(), 1, Started::Alike)
            || set_policy(libc::SCHED_OTHER.into(), 0, Started::Alike) && set(NICE)
    };
    ((is_usual() || is_ours) && raise()).then_some(before)
}

/// Nice value and policy of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    nice: c_long,
    /// With [`SCHED_RESET_ON_FORK`](libc::SCHED_RESET_ON_FORK).
    policy: c_long,
}

impl Priority {
    fn of_this_thread() -> Self {
        // SAFETY: the arguments are numbers. The first system call returns 20 less the nice value.
        let [nice, policy] = unsafe {
            let nice = call(libc::SYS_getpriority, [c_long::from(libc::PRIO_PROCESS), 0]);
            [nice, call(libc::SYS_sched_getscheduler, [0])]
        };
        // A sandbox can refuse them: these values are nobody's.
        Self { nice: 20 - nice.unwrap_or(c_long::MIN / 2), policy: policy.unwrap_or(c_long::MIN) }
    }

    /// Gives it to this thread again. Threads that it starts from now on have the usual priority.
    pub(crate) fn restore(self) {
        let policy = self.policy & !c_long::from(libc::SCHED_RESET_ON_FORK);
        set_policy(policy, i32::from(policy == c_long::from(libc::SCHED_FIFO)), Started::AsUsual);
        set(self.nice);
    }
}

/// Lets this thread run in its turn again, with the nice value that it had.
pub(crate) fn run_in_turn() {
    set_policy(libc::SCHED_OTHER.into(), 0, Started::AsUsual);
}

/// The priority of threads that a thread starts, and of commands.
#[derive(Clone, Copy)]
enum Started {
    /// The usual policy and nice value.
    AsUsual,
    /// The same.
    Alike,
}

/// Sets the policy of this thread; false if it may not.
fn set_policy(policy: c_long, priority: libc::c_int, started: Started) -> bool {
    let policy = match started {
        Started::AsUsual => policy | c_long::from(libc::SCHED_RESET_ON_FORK),
        Started::Alike => policy,
    };
    // SAFETY: the kernel reads the structure during the call: `struct sched_param` of include/uapi/linux/sched.h has only the
    // real-time priority; that of musl is larger.
    unsafe { call(libc::SYS_sched_setscheduler, [0, policy, super::address(&raw const priority)]) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn a_thread_runs_before_others_until_it_is_to_run_in_its_turn() {
        // SAFETY: the argument is a number.
        let policy =
            || unsafe { call(libc::SYS_sched_getscheduler, [0]) }.unwrap() & !c_long::from(libc::SCHED_RESET_ON_FORK);
        let seen = std::thread::spawn(move || {
            let may = run_first();
            let (first, other) = (policy(), std::thread::spawn(policy).join().unwrap());
            run_in_turn();
            may.then_some([first, other, policy()])
        });
        let usual = c_long::from(libc::SCHED_OTHER);
        match seen.join().unwrap() {
            None => skipped(Missing::Privilege("a real-time policy")),
            Some(policies) => assert_eq!(policies, [c_long::from(libc::SCHED_FIFO), usual, usual]),
        }
    }

    #[test]
    fn a_thread_and_those_that_it_starts_run_before_others_until_it_is_to_run_in_its_turn() {
        let started = || std::thread::spawn(Priority::of_this_thread).join().unwrap();
        let seen = std::thread::spawn(move || {
            raise_priority();
            let raised = Priority::of_this_thread();
            run_first_with_started().map(|before| {
                let [first, second] = [Priority::of_this_thread(), started()];
                before.restore();
                (first, second, raised, Priority::of_this_thread(), started())
            })
        });
        match seen.join().unwrap() {
            None => skipped(Missing::Privilege("a real-time policy")),
            Some((first, second, raised, after, next)) => {
                assert_eq!(first, second);
                assert_eq!((raised, next), (after, Priority { nice: USUAL, policy: libc::SCHED_OTHER.into() }));
                assert!(first.policy == c_long::from(libc::SCHED_FIFO) || first.nice == NICE, "{first:?}");
            }
        }
    }

    #[test]
    fn a_policy_or_nice_value_that_was_chosen_is_kept() {
        let policy = |policy| {
            set_policy(policy, 0, Started::AsUsual)
                .then(|| [run_first() || run_first_with_started().is_some(), raise_priority()])
        };
        let seen =
            [libc::SCHED_BATCH, libc::SCHED_IDLE].map(|chosen| std::thread::spawn(move || policy(chosen.into())));
        let nice = std::thread::spawn(|| {
            set(19).then(|| [run_first() || run_first_with_started().is_some(), raise_priority()])
        });
        for raised in seen.into_iter().chain([nice]) {
            assert_eq!(raised.join().unwrap(), Some([false; 2]));
        }
    }

    #[test]
    fn a_raised_priority_is_that_of_one_thread_and_ends() {
        // SAFETY: the arguments are numbers.
        let nice = || 20 - unsafe { call(libc::SYS_getpriority, [c_long::from(libc::PRIO_PROCESS), 0]) }.unwrap();
        let of_another = move || std::thread::spawn(nice).join().unwrap();
        let seen = std::thread::spawn(move || {
            let before = nice();
            raise_priority();
            let (raised, other) = (nice(), of_another());
            lower_priority();
            [before, raised, other, nice()]
        });
        match seen.join().unwrap() {
            [USUAL, USUAL, ..] => skipped(Missing::Privilege("a lower nice value")),
            [USUAL, raised, other, after] => assert_eq!([raised, other, after], [NICE, USUAL, USUAL]),
            [before, raised, ..] => assert_eq!(before, raised, "another nice value was chosen"),
        }
    }
}
