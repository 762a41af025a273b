//! Types of a kernel, and paths of fields in them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ctprof::capture::fuzz::btf(bytes));
