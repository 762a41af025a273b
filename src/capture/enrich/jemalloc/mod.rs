//! jemalloc's per-thread counters, in any program that uses it.
//!
//! The address of a counter has four parts: the thread pointer (`pthread`, `probe`), the offset of the module's
//! thread-local block (`attachment`), the offset of the thread-specific data in the block (`elf`), and the
//! offset of the counter in that data (`dwarf`, `layouts`).

mod attachment;
mod dwarf;
mod elf;
mod files;
mod layout;
mod layouts;
mod probe;
mod pthread;
mod target;

pub use self::layout::{Route, TsdLayout};
pub use self::layouts::Offsets;
use super::super::elf::headers::Headers;
use super::super::elf::machine::Machine;
use super::super::elf::untrusted::SharedBudget;
use crate::model::ProbeFailure;

pub(in crate::capture) use self::files::ExaminedFiles;
pub(in crate::capture) use self::probe::{Probe, ProbedThread, add, log};

/// The location of jemalloc's counters in a thread, from the bytes of a program or library.
///
/// # Errors
/// A [`ProbeFailure`] if the bytes do not determine it.
pub fn inspect(bytes: &[u8]) -> Result<TsdLayout, ProbeFailure> {
    inspect_for(Machine::NATIVE, bytes)
}

fn inspect_for(machine: Machine, bytes: &[u8]) -> Result<TsdLayout, ProbeFailure> {
    let (file, tls) = elf::open(machine, bytes)?;
    layout::locate(machine, &file, tls, None::<&Headers<'_, &[u8]>>, &SharedBudget::default().of_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_a_program_are_a_tag() {
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 4096]] {
            assert_eq!(inspect(bytes).unwrap_err(), ProbeFailure::JemallocNotFound);
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

    /// A stripped library that exports this function: a block of thread-local storage, and one relocation.
    fn library(machine: Machine, function: &[u8], block_bytes: u64, relocation: [u64; 3], hashes: &[u8]) -> Vec<u8> {
        let halves = |numbers: &[u16]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let words = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let longs = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let size = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap();
        let names = [b"\0", function, b"\0"].concat();
        // A global function in the first section.
        let exported = [vec![0; 24], words(&[1]), vec![0x12, 0], halves(&[1]), longs(&[0x1000, 8])].concat();
        let parts = [longs(&relocation), names, exported, hashes.to_vec()];
        let [relocations, name_table, symbols, hashes] = parts.each_ref().map(|part| size(part));
        // The header, the headers of a segment and of five sections, and then the parts.
        let first = 64 + 56 + 5 * 64;
        let strings = first + relocations;
        let section = |kind: u32, start: u64, bytes: u64, link: u32, entry: u64| {
            [words(&[0, kind]), longs(&[0, 0, start, bytes]), words(&[link, 0]), longs(&[8, entry])].concat()
        };
        [
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
            [halves(&[3, machine.in_header().0]), words(&[1]), longs(&[0, 64, 120]), words(&[0])].concat(),
            halves(&[64, 56, 1, 64, 5, 2]),
            [words(&[7, 4]), longs(&[0, 0x9a6e8, 0, block_bytes, block_bytes, 8])].concat(),
            section(0, 0, 0, 0, 0),
            section(4, first, relocations, 0, 24),
            section(3, strings, name_table, 0, 0),
            section(11, strings + name_table, symbols, 2, 24),
            section(0x6fff_fff6, strings + name_table + symbols, hashes, 3, 0),
            parts.concat(),
        ]
        .concat()
    }

    #[test]
    fn stripped_libraries_are_known_by_their_function_and_size_on_both_machines() {
        // Debian's libjemalloc2: R_AARCH64_TLS_TPREL64 and R_X86_64_TPOFF64, without a symbol.
        for (machine, block_bytes, kind, allocated) in
            [(Machine::Aarch64, 2696, 0x406, 888), (Machine::X86_64, 2632, 18, 824)]
        {
            let located = |function: &[u8], block_bytes, relocation| {
                inspect_for(machine, &library(machine, function, block_bytes, relocation, &[]))
            };
            let layout = located(b"mallctl", block_bytes, [0x9fcb8, kind, 0]).unwrap();
            assert_eq!((layout.route, layout.offsets.allocated, layout.slot), (Route::Block, allocated, Some(0x9fcb8)));
            let unknown = located(b"mallctl", block_bytes + 8, [0x9fcb8, kind, 0]);
            assert_eq!(unknown.unwrap_err(), ProbeFailure::UnknownLayout);
            let other = located(b"malloc", block_bytes, [0x9fcb8, kind, 0]);
            assert_eq!(other.unwrap_err(), ProbeFailure::JemallocNotFound, "another allocator");
            // A relocation of another object, and one that is resolved only at the first access (TLSDESC, DTPMOD64).
            let lazy = if machine == Machine::Aarch64 { 0x407 } else { 16 };
            for relocation in [[0x9fcb8, kind, 8], [0x9fcb8, lazy, 0]] {
                let layout = located(b"mallctl", block_bytes, relocation).unwrap();
                assert_eq!(layout.slot, None, "{machine:?} {relocation:?}");
            }
        }
        let foreign = library(Machine::Aarch64, b"mallctl", 2696, [0, 0, 0], &[]);
        assert_eq!(inspect_for(Machine::X86_64, &foreign).unwrap_err(), ProbeFailure::ArchMismatch);
    }

    #[test]
    fn a_function_is_looked_up_in_the_hash_table_of_its_library() {
        let is_found = |bloom: u64, shift: u32, hash: u32| {
            let table = [[1, 1, 1, shift].map(u32::to_le_bytes).concat(), bloom.to_le_bytes().to_vec()].concat();
            let table = [table, [1, hash | 1].map(u32::to_le_bytes).concat()].concat();
            let library = library(Machine::X86_64, b"mallctl", 2632, [0x9fcb8, 18, 0], &table);
            inspect_for(Machine::X86_64, &library).is_ok()
        };
        let hash = object::elf::gnu_hash(b"mallctl");
        assert!(is_found(u64::MAX, 6, hash));
        assert!(!is_found(0, 6, hash) && !is_found(u64::MAX, 6, hash ^ 2), "no other symbol is looked at");
        assert!(is_found(0, 32, hash), "without a table that can be used, all are");
    }
}
