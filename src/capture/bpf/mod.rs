//! The BPF engine: programs that the running kernel executes to read the values of threads.
#![cfg_attr(not(any(test, fuzzing)), expect(dead_code, reason = "used by the engine"))]

mod assemble;
mod btf;
mod instruction;
pub(in crate::capture) mod obstacle;
mod path;
mod shape;

#[cfg(fuzzing)]
pub(in crate::capture) use self::path::fuzz;

#[cfg(test)]
mod recorded_types;
#[cfg(test)]
mod type_builder;
