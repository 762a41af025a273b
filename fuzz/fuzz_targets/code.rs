//! Rules to unwind and symbols of any program on the host, and stacks that any thread may have.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ctprof::capture::fuzz::code(bytes));
