//! The BPF engine: programs in the kernel read the fields of threads.
#![cfg_attr(not(test), expect(dead_code, reason = "used by the engine"))]

mod btf;
mod path;
#[cfg(test)]
mod type_builder;
