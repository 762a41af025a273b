//! System calls by number: their names, and what their first argument is.

use syscalls::Sysno;

use crate::model::KernelEntry;

/// The name of a system call of this architecture.
pub(super) fn name(number: u32) -> String {
    sysno(number).map_or_else(|| format!("system call {number}"), |known| known.name().to_owned())
}

fn sysno(number: u32) -> Option<Sysno> {
    Sysno::new(usize::try_from(number).ok()?)
}

/// The descriptor that a system call works on, if it is one that waits for a file, a socket or a pipe.
pub fn works_on_descriptor(entry: KernelEntry) -> Option<u32> {
    let KernelEntry::SystemCall(number, [first, _]) = entry else { return None };
    let works = WITH_DESCRIPTOR.contains(&sysno(number)?.name());
    u32::try_from(first).ok().filter(|_| works)
}

const WITH_DESCRIPTOR: [&str; 40] = [
    "accept",
    "accept4",
    "connect",
    "copy_file_range",
    "fallocate",
    "fdatasync",
    "flock",
    "fstat",
    "fsync",
    "ftruncate",
    "getdents64",
    "io_uring_enter",
    "ioctl",
    "mq_timedreceive",
    "mq_timedsend",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "splice",
    "sync_file_range",
    "syncfs",
    "tee",
    "vmsplice",
    "write",
    "writev",
    "fcntl",
    "process_madvise",
];

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;

    fn call(number: libc::c_long, first: u64) -> KernelEntry {
        KernelEntry::SystemCall(number.try_into().unwrap(), [first, 0])
    }

    #[test]
    fn system_calls_have_the_names_of_this_architecture() {
        let numbers = [libc::SYS_read, libc::SYS_fdatasync, libc::SYS_clock_nanosleep, libc::SYS_futex];
        assert_eq!(
            numbers.map(|number| name(number.try_into().unwrap())),
            ["read", "fdatasync", "clock_nanosleep", "futex"]
        );
        assert_eq!(name(4000), "system call 4000");
    }

    #[test]
    fn the_descriptor_of_a_call_is_its_first_argument() {
        assert_eq!(works_on_descriptor(call(libc::SYS_read, 7)), Some(7));
        assert_eq!(works_on_descriptor(call(libc::SYS_clock_nanosleep, 7)), None);
        assert_eq!(works_on_descriptor(call(libc::SYS_read, u64::MAX)), None);
        assert_eq!(works_on_descriptor(KernelEntry::Exception), None);
    }
}
