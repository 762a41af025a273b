//! The nice value of threads.

use nix::libc::{self, c_long};

use super::call;

/// The lowest. On a host where thousands of threads are ready to run, a thread with the usual one gets a CPU every few seconds.
const NICE: c_long = -20;
const USUAL: c_long = 0;

/// Gives this thread the lowest nice value, and not those that it starts; false if it may not, or has another one than usual.
pub(crate) fn raise_priority() -> bool {
    // Those that it starts get the usual nice value.
    is_usual() && set_policy(libc::SCHED_OTHER.into(), 0) && set(NICE)
}

/// Gives this thread the usual nice value.
pub(crate) fn lower_priority() {
    set(USUAL);
}

/// Who has chosen another policy or nice value for ctprof keeps it.
fn is_usual() -> bool {
    // SAFETY: the arguments are numbers. The first system call returns 20 less the nice value.
    let (nice, policy) = unsafe {
        let nice = call(libc::SYS_getpriority, [c_long::from(libc::PRIO_PROCESS), 0]);
        (nice, call(libc::SYS_sched_getscheduler, [0]))
    };
    let policy = policy.map(|policy| policy & !c_long::from(libc::SCHED_RESET_ON_FORK));
    (nice, policy) == (Ok(20 - USUAL), Ok(libc::SCHED_OTHER.into()))
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
    is_usual() && set_policy(libc::SCHED_FIFO.into(), 1)
}

/// Lets this thread run in its turn again.
pub(crate) fn run_in_turn() {
    set_policy(libc::SCHED_OTHER.into(), 0);
}

/// Sets the policy of this thread, and not of those that it starts; false if it may not.
fn set_policy(policy: c_long, priority: libc::c_int) -> bool {
    let policy = policy | c_long::from(libc::SCHED_RESET_ON_FORK);
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
    fn a_policy_or_nice_value_that_was_chosen_is_kept() {
        let policy = |policy| set_policy(policy, 0).then(|| [run_first(), raise_priority()]);
        let seen =
            [libc::SCHED_BATCH, libc::SCHED_IDLE].map(|chosen| std::thread::spawn(move || policy(chosen.into())));
        let nice = std::thread::spawn(|| set(19).then(|| [run_first(), raise_priority()]));
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
