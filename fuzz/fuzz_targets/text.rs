//! Kernel text of a thread, by each of its parsers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ctprof::capture::fuzz::text(bytes));
