//! Types of a kernel, paths of fields in them, programs that copy the fields, and records of these programs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ctprof::capture::fuzz::btf(bytes));
