//! Answers of taskstats.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ctprof::capture::fuzz::taskstats(bytes));
