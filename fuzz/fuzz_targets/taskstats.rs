//! Answers of taskstats, and records of exited threads.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ctprof::capture::fuzz::taskstats(bytes));
