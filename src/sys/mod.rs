//! System calls that have no safe wrapper. All `unsafe` code is here.
#![allow(unsafe_code, reason = "raw system calls are here, and only here")]

pub(crate) mod affinity;
#[cfg(feature = "cli")]
pub(crate) mod allocator;
pub(crate) mod bpf;
pub(crate) mod capabilities;
pub(crate) mod file_handle;
pub(crate) mod maps;
pub(crate) mod memory;
pub(crate) mod perf_event;
pub(crate) mod priority;
pub(crate) mod ptrace;
pub(crate) mod robust;
pub(crate) mod seccomp;
pub(crate) mod signals;
pub(crate) mod stdout;
pub(crate) mod taskstats;
pub(crate) mod wait;

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::libc::{self, c_long};

/// The kernel's error; `EIO` for one that the standard library made up.
pub(crate) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// A system call. The kernel reads whole registers, and C leaves the upper half of a variadic argument of 32 bits
/// undefined, so each argument has the size of a register.
///
/// # Safety
/// That of the system call.
unsafe fn call<const N: usize>(number: c_long, arguments: [c_long; N]) -> Result<c_long, Errno> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: the caller's promise. The kernel ignores arguments that the system call does not have.
    Errno::result(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

/// Ends this process, without destructors and what the standard library does at its exit.
pub(crate) fn exit_now(status: u8) -> ! {
    // SAFETY: nothing of this process is used after it.
    unsafe { libc::_exit(status.into()) }
}

/// Another descriptor of the open file that descriptor `number` of this process has. `EBADF` if there is none.
pub(crate) fn duplicate(number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel checks the number, and takes no memory.
    let new = Errno::result(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}

/// Renames a file in this directory to a name that no file has; `EEXIST` if one has it.
pub(crate) fn rename_new(directory: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    let [from, to] = [from, to].map(|name| CString::new(name.as_bytes()).map_err(|_| Errno::EINVAL));
    let (from, to) = (from?, to?);
    let directory = c_long::from(directory.as_raw_fd());
    let arguments =
        [directory, address(from.as_ptr()), directory, address(to.as_ptr()), c_long::from(libc::RENAME_NOREPLACE)];
    // SAFETY: both names are C strings, and the kernel only reads them.
    unsafe { call(libc::SYS_renameat2, arguments) }.map(drop)
}

/// An address as an argument: the kernel may access the value through it.
fn address<T>(value: *const T) -> c_long {
    c_long::try_from(value.expose_provenance().cast_signed()).expect("a register holds an address")
}

fn length(bytes: usize) -> c_long {
    c_long::try_from(bytes).expect("no object is longer")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn arguments_of_system_calls_fill_their_registers() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sys");
        let files = ["", "bpf", "taskstats"].into_iter().flat_map(|name| fs::read_dir(directory.join(name)).unwrap());
        let texts = files.filter_map(|file| fs::read_to_string(file.unwrap().path()).ok());
        let wrapped = concat!("libc::", "syscall(");
        assert_eq!(texts.map(|text| text.matches(wrapped).count()).sum::<usize>(), 1, "use `call`");
    }
}
