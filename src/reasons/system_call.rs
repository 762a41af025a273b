//! System calls by number: their names, and what their first argument is.

use syscalls::Sysno;

use crate::model::KernelEntry;

#[cfg(target_arch = "aarch64")]
use syscalls::arm as table_of_32_bits;
#[cfg(target_arch = "x86_64")]
use syscalls::x86 as table_of_32_bits;

/// The name of a system call of this architecture.
pub(super) fn name(number: u32) -> String {
    sysno(number).map_or_else(|| format!("system call {number}"), |sysno| sysno.name().to_owned())
}

/// The name of a system call in the table of 32-bit programs.
pub(super) fn name_of_32_bits(number: u32) -> String {
    let sysno = usize::try_from(number).ok().and_then(table_of_32_bits::Sysno::new);
    sysno.map_or_else(|| format!("32-bit system call {number}"), |sysno| sysno.name().to_owned())
}

fn sysno(number: u32) -> Option<Sysno> {
    /// First number of x32 programs that has a table of its own.
    const FIRST_OF_X32: u32 = 512;
    let number = match number ^ KernelEntry::X32 {
        of_x32 @ ..FIRST_OF_X32 if cfg!(target_arch = "x86_64") => of_x32,
        _ => number,
    };
    Sysno::new(usize::try_from(number).ok()?)
}

/// The descriptor that a system call works on, if it is one that waits for a file, a socket or a pipe.
pub fn works_on_descriptor(entry: KernelEntry) -> Option<u32> {
    let KernelEntry::SystemCall(number, [first, _]) = entry else { return None };
    let name = sysno(number)?.name();
    let works = WITH_DESCRIPTOR.split(' ').any(|listed| listed == name);
    u32::try_from(first).ok().filter(|_| works)
}

const WITH_DESCRIPTOR: &str = "\
    accept accept4 connect copy_file_range fallocate fdatasync flock fstat fsync ftruncate getdents64 \
    io_uring_enter ioctl mq_timedreceive mq_timedsend pread64 preadv preadv2 pwrite64 pwritev pwritev2 read \
    readahead readv recvfrom recvmmsg recvmsg sendfile sendmmsg sendmsg sendto splice sync_file_range syncfs tee \
    vmsplice write writev fcntl process_madvise";

/// The address of the mutex that a system call may wait for: glibc waits for one by `FUTEX_WAIT`, and for all else by
/// `FUTEX_WAIT_BITSET`.
pub fn waits_for_mutex(entry: KernelEntry) -> Option<u64> {
    let KernelEntry::SystemCall(number, [address, operation]) = entry else { return None };
    let is_wait = u32::try_from(operation & 0xffff_ffff).is_ok_and(|operation| operation & !FUTEX_PRIVATE_FLAG == 0);
    (is_wait && sysno(number) == Some(Sysno::futex)).then_some(address)
}

/// Whether a system call may wait for a lock on a file, if it sleeps.
pub fn waits_for_file_lock(entry: KernelEntry) -> bool {
    let KernelEntry::SystemCall(number, _) = entry else { return false };
    matches!(sysno(number), Some(Sysno::flock | Sysno::fcntl))
}

/// Of `include/uapi/linux/futex.h`.
const FUTEX_PRIVATE_FLAG: u32 = 128;

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

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn each_table_has_its_own_names() {
        assert_eq!(
            [162, 240, 407, 4000].map(name_of_32_bits),
            ["nanosleep", "futex", "clock_nanosleep_time64", "32-bit system call 4000"]
        );
        assert_eq!([162, KernelEntry::X32 | 162].map(name), ["sync", "sync"]);
        assert_eq!(name(KernelEntry::X32 | 515), "system call 1073742339", "readv of x32");
    }

    #[test]
    fn only_the_wait_for_a_mutex_has_its_address() {
        let futex = |operation: u64| KernelEntry::SystemCall(libc::SYS_futex.try_into().unwrap(), [0x1000, operation]);
        // FUTEX_WAIT with and without FUTEX_PRIVATE_FLAG, FUTEX_WAKE, FUTEX_WAIT_BITSET.
        let found = [0, 128, 0xdead_0000_0000_0080, 1, 9 | 128].map(|operation| waits_for_mutex(futex(operation)));
        assert_eq!(found, [Some(0x1000), Some(0x1000), Some(0x1000), None, None]);
        assert_eq!(waits_for_mutex(call(libc::SYS_read, 0)), None);
    }

    #[test]
    fn flock_and_fcntl_wait_for_locks_on_files() {
        let calls = [libc::SYS_flock, libc::SYS_fcntl, libc::SYS_read].map(|number| call(number, 3));
        assert_eq!(calls.map(waits_for_file_lock), [true, true, false]);
    }

    #[test]
    fn the_descriptor_of_a_call_is_its_first_argument() {
        assert_eq!(works_on_descriptor(call(libc::SYS_read, 7)), Some(7));
        assert_eq!(works_on_descriptor(call(libc::SYS_clock_nanosleep, 7)), None);
        assert_eq!(works_on_descriptor(call(libc::SYS_read, u64::MAX)), None);
        assert_eq!(works_on_descriptor(KernelEntry::Exception), None);
    }
}
