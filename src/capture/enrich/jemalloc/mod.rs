//! jemalloc's per-thread counters, in any program that uses it.
//!
//! The address of a counter has four parts: the thread pointer (`probe`), the offset of the module's
//! thread-local block (`process`), the offset of the thread-specific data in the block (`elf`), and the
//! offset of the counter in that data (`dwarf`, `layouts`).

mod attachment;
mod dwarf;
mod elf;
mod files;
mod layout;
mod layouts;
mod machine;
mod modules;
mod probe;
mod process;
mod tag;
mod target;
mod untrusted;

pub use self::layout::{Route, TsdLayout};
pub use self::layouts::Offsets;
use self::machine::Machine;
pub use self::tag::Tag;

pub(in crate::capture) use self::attachment::Attachment;
pub(in crate::capture) use self::files::Files;
#[cfg(fuzzing)]
pub(in crate::capture) use self::modules::fuzz_maps;
pub(in crate::capture) use self::probe::{Probe, log, merge};

/// The location of jemalloc's counters in a thread, from the bytes of a program or library.
///
/// # Errors
/// A [`Tag`] if the bytes do not determine it.
pub fn inspect(bytes: &[u8]) -> Result<TsdLayout, Tag> {
    inspect_for(Machine::NATIVE, bytes)
}

fn inspect_for(machine: Machine, bytes: &[u8]) -> Result<TsdLayout, Tag> {
    struct Nowhere;
    impl dwarf::Split for Nowhere {
        fn package(&self) -> Option<Vec<u8>> {
            None
        }

        fn unit(&self, _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
            None
        }
    }
    let (file, tls) = elf::open(machine, bytes)?;
    layout::locate(machine, &file, tls, None::<&elf::File<'_, &[u8]>>, &Nowhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_a_program_are_a_tag() {
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 4096]] {
            assert_eq!(inspect(bytes).unwrap_err(), Tag::JemallocNotFound);
        }
    }

    #[test]
    fn a_truncated_or_corrupt_program_is_a_tag_and_never_a_panic() {
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
