//! The BPF engine: programs that the running kernel executes to read the values of threads.
#![cfg_attr(not(test), expect(dead_code, reason = "used by the engine"))]

mod assemble;
mod btf;
mod instruction;
mod path;
#[cfg(test)]
mod type_builder;
