//! How to ask the kernel what no safe wrapper asks. The only home of `unsafe`.
#![allow(unsafe_code, reason = "raw system calls live here, and only here")]

pub(crate) mod affinity;
pub(crate) mod capabilities;
pub(crate) mod directory;
pub(crate) mod memory;
pub(crate) mod ptrace;
mod seccomp;
pub(crate) mod taskstats;
