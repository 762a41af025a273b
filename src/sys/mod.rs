//! System calls that have no safe wrapper. All `unsafe` code is here.
#![allow(unsafe_code, reason = "raw system calls are here, and only here")]

pub(crate) mod affinity;
pub(crate) mod bpf;
pub(crate) mod capabilities;
pub(crate) mod directory;
pub(crate) mod maps;
pub(crate) mod memory;
pub(crate) mod priority;
pub(crate) mod ptrace;
mod seccomp;
pub(crate) mod signals;
pub(crate) mod taskstats;
pub(crate) mod wait;

use std::io;

use nix::errno::Errno;

/// The kernel's error; `EIO` for one that the standard library made up.
pub(crate) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
