//! What needs privileges: BPF, records of exits, capabilities and namespaces. Without them, a test says why it is skipped.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[path = "../support/alone.rs"]
mod alone;
mod attacks_memory;
mod attacks_paths;
mod attacks_privileges;
mod attacks_secrets;
mod attacks_stops;
mod attacks_support;
mod attacks_targets;
mod bounds_exits;
mod bounds_hangs;
mod bounds_programs;
mod call_tables;
mod changes;
mod code_sites;
mod crowds;
mod doctor;
mod engine_captures;
mod exact_trace;
#[path = "../support/example.rs"]
mod example;
mod example_scripts;
mod exit_records;
mod frozen;
#[path = "../support/hanging.rs"]
mod hanging;
mod histories;
#[path = "../support/host.rs"]
mod host;
mod host_facts;
mod injected_errors;
mod interruptions;
mod left_programs;
mod mixes;
mod moves;
mod namespaces;
mod neighbors;
mod parity;
mod privileged;
mod recorder;
mod rights;
mod stacks;
#[path = "../support/mod.rs"]
mod support;

use self::alone::alone;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
