//! bpf(2): programs, maps, iterators and ring buffers, and the kernel's type information.
//!
//! Commands and structures are from `include/uapi/linux/bpf.h`. Every descriptor that bpf(2) returns is
//! close-on-exec.

mod command;
pub(crate) mod iterator;
pub(crate) mod kernel_btf;
pub(crate) mod map;
mod mapping;
pub(crate) mod memlock;
pub(crate) mod program;
pub(crate) mod ring;

pub(super) use self::mapping::{Access, SharedMemory, page_size};
