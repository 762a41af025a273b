//! Symbols that distributions leave in stripped files: a compressed ELF file in a section of its own (MiniDebugInfo).

use std::fs::File;
use std::io::{Cursor, Read, Write};

use nix::sys::memfd::{MFdFlags, memfd_create};
use object::ReadRef;
use object::read::elf::SectionHeader;
use xz4rust::{DICT_SIZE_MIN, XzDecoder, XzReader};

use super::super::elf::headers::{ENDIAN, Headers};
use super::super::elf::untrusted::ExamineBudget;

/// Memory for decompression, at most: what `xz` needs at its default.
const MAX_DICTIONARY: usize = 8 << 20;
const PIECE: usize = 1 << 16;

/// The file in the section `.gnu_debugdata`, in memory; `None` without one, or if it takes too much.
pub(super) fn file<'d, R: ReadRef<'d>>(headers: &Headers<'d, R>, budget: &ExamineBudget) -> Option<File> {
    let (_, section) = headers.sections.section_by_name(ENDIAN, b".gnu_debugdata")?;
    let (start, bytes) = section.file_range(ENDIAN)?;
    let charge = |bytes: usize| budget.charge(u64::try_from(bytes).ok()?).ok();
    charge(MAX_DICTIONARY)?;
    let compressed = headers.data.read_bytes_at(start, bytes).ok()?;
    // The reader owns what it reads.
    charge(compressed.len())?;
    let compressed = Cursor::new(compressed.to_vec());
    let decoder = XzDecoder::in_heap_with_alloc_dict_size(DICT_SIZE_MIN, MAX_DICTIONARY);
    let mut reader = XzReader::new_with_buffer_size_and_decoder(compressed, PIECE.try_into().ok()?, decoder);
    let mut file = File::from(memfd_create(c"ctprof-symbols", MFdFlags::MFD_CLOEXEC).ok()?);
    let mut piece = vec![0; PIECE];
    while budget.has_time() {
        let read = reader.read(&mut piece).ok()?;
        if read == 0 {
            return Some(file);
        }
        charge(read)?;
        file.write_all(&piece[..read]).ok()?;
    }
    None
}
