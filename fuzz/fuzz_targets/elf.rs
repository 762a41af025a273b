//! ELF and DWARF of any program on the host.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ctprof::capture::inspect(bytes);
});
