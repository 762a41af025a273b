//! Kernel text of a thread, a process and the host's CPU time, by each of their parsers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ctprof::capture::fuzz::text(bytes));
