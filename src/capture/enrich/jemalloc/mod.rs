//! jemalloc's counters of each thread, in any program that carries it.
//!
//! Four facts lead to a counter: where the thread pointer points (`probe`), where the module's
//! thread-local block lies relative to it (`process`), where the thread-specific data lies in that
//! block (`elf`), and at which offsets in it the counters are (`dwarf`, `layouts`).

mod dwarf;
mod elf;
mod files;
mod layout;
mod layouts;
mod modules;
mod probe;
mod process;
mod tag;

pub use self::layout::{Layout, Route};
pub use self::layouts::Offsets;
pub use self::tag::Tag;

pub(in crate::capture) use self::files::Files;
#[cfg(fuzzing)]
pub(in crate::capture) use self::modules::fuzz_maps;
pub(in crate::capture) use self::probe::{Probe, guarded, merge};
pub(in crate::capture) use self::process::{Target, attach};

/// What the bytes of a program or library say on where jemalloc's counters are in a thread.
///
/// # Errors
/// The [`Tag`] of why they don't say.
pub fn inspect(bytes: &[u8]) -> Result<Layout, Tag> {
    struct Nowhere;
    impl dwarf::Split for Nowhere {
        fn package(&self) -> Option<Vec<u8>> {
            None
        }

        fn unit(&self, _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
            None
        }
    }
    let (file, tls) = elf::open(bytes)?;
    layout::locate(&file, tls, None::<&elf::File<'_, &[u8]>>, &Nowhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_is_a_tag() {
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 4096]] {
            assert_eq!(inspect(bytes).unwrap_err(), Tag::JemallocNotFound);
        }
    }

    #[test]
    fn a_program_that_is_cut_or_lies_is_a_tag_and_never_a_panic() {
        let program = std::fs::read("/proc/self/exe").unwrap();
        let head = &program[..program.len().min(1 << 16)];
        for end in (0..head.len()).step_by(101) {
            let _ = inspect(&head[..end]);
        }
        for at in 0..512 {
            for value in [0xff, 0x80, 0x00] {
                let mut bytes = head.to_vec();
                bytes[at] = value;
                let _ = inspect(&bytes);
            }
        }
    }
}
