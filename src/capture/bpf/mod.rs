//! The BPF engine: programs that the running kernel executes to read the values of threads.

mod active_threads;
mod assemble;
mod btf;
mod cgroup_fields;
mod change_filter;
mod change_program;
mod change_tracker;
mod changes;
mod columns;
mod complete;
mod cpu_time;
mod dead_threads;
mod exit_decoder;
mod exit_programs;
pub(in crate::capture) mod exits;
pub(in crate::capture) mod function_names;
pub(in crate::capture) mod host_parameters;
mod instruction;
mod layout;
mod load;
mod name_cache;
mod new_cgroup;
pub(in crate::capture) mod obstacle;
mod packed_records;
mod path;
mod process_counters;
mod processes;
mod program;
mod read;
mod record_ring;
mod sample_program;
pub(in crate::capture) mod samples;
pub(in crate::capture) mod setup;
mod shape;
pub(in crate::capture) mod sleep_check;
mod thread_walk;
mod value;
mod verifier_log;
pub(in crate::capture) mod walk;

#[cfg(any(feature = "fuzzing", test))]
pub(in crate::capture) mod fuzz;

#[cfg(test)]
mod tests;
