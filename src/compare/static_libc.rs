//! Functions of libc in the file of a program that is linked statically: only their names and places in the stack tell that.

use crate::model::CodeFunction;

/// Functions that wait, without the underscores that can precede the names.
const WAITS: [&str; 55] = [
    "accept",
    "accept4",
    "clock_nanosleep",
    "connect",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fcntl",
    "fcntl64",
    "fdatasync",
    "flock",
    "fsync",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "nanosleep",
    "open",
    "open64",
    "openat",
    "openat64",
    "pause",
    "poll",
    "ppoll",
    "pread64",
    "pselect",
    "pwrite64",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sccp",
    "select",
    "sem_clockwait",
    "sem_timedwait",
    "sem_wait",
    "send",
    "sendmsg",
    "sendto",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "sleep",
    "syscall",
    "timedwait_cp",
    "usleep",
    "wait",
    "wait4",
    "waitid",
    "waitpid",
    "write",
    "writev",
];
/// Beginnings of the names of further functions that wait.
const KINDS_OF_WAITS: [&str; 6] =
    ["futex_abstimed_wait", "libc_", "lll_lock_wait", "new_sem_wait", "pthread_", "syscall_cp"];

/// Functions that start threads and programs, the outermost first: one of each.
const STARTS: [&[&str]; 2] = [&["__clone", "__clone3", "_start", "_start_c"], &["start", "start_c11", "start_thread"]];

/// Removes functions of libc from both ends of a stack. A function with such a name between them is the program's own, and so is
/// one in another file than the innermost function.
pub(super) fn without_libc<'a, 's>(stack: &'a [CodeFunction<'s>]) -> &'a [CodeFunction<'s>] {
    let is_wait = |function: &&CodeFunction<'_>| {
        let name = function.name.trim_start_matches('_');
        function.module == stack[0].module
            && (WAITS.contains(&name) || KINDS_OF_WAITS.iter().any(|kind| name.starts_with(kind)))
    };
    let waits = stack.iter().take_while(is_wait).count();
    without_starts(&stack[waits..])
}

/// Nothing calls what starts a thread: that no table says what does is no gap.
fn without_starts<'a, 's>(stack: &'a [CodeFunction<'s>]) -> &'a [CodeFunction<'s>] {
    let known = stack.split_last().filter(|(last, _)| last.is_gap()).map_or(stack, |(_, known)| known);
    let is_any = |names: &[&str], function: &CodeFunction<'_>| names.contains(&function.name);
    let rest = STARTS.iter().fold(known, |rest, names| match rest.split_last() {
        Some((last, inner)) if is_any(names, last) => inner,
        _ => rest,
    });
    if rest.len() == known.len() { stack } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_libc_in_a_static_program_are_not_the_programs_own_and_its_own_ones_with_their_names_are() {
        for (stack, own) in [
            ("app:__clock_nanosleep;app:nanosleep;app:usleep;app:cache_get;app:main;app:_start", "cache_get main"),
            ("app:sccp;app:nap;app:start;app:?no unwind tables", "nap"),
            ("app:syscall;app:?no unwind tables", "?no unwind tables"),
            ("app:___pthread_mutex_lock;app:get;app:start_thread;app:__clone3", "get"),
            ("app:___pthread_mutex_lock;app:get;app:start;app:start_thread;app:__clone3", "get start"),
            ("app:poll;app:poll_devices;app:sleep;app:start;app:main;app:_start", "poll_devices sleep start main"),
            ("libc.so.6:__poll;app:poll;app:work;libc.so.6:start_thread;libc.so.6:__clone3", "poll work"),
            ("app:futex_wait;app:_start_worker", "futex_wait _start_worker"),
            ("app:syscall", ""),
            ("", ""),
        ] {
            let all: Vec<_> = CodeFunction::all(stack).collect();
            let names: Vec<_> = without_libc(&all).iter().map(|function| function.name).collect();
            assert_eq!(names.join(" "), own, "{stack}");
        }
    }
}
