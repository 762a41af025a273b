//! The headers of an ELF file, and the sections that they lead to. No file is opened here.

use object::elf::{self, FileHeader64, SHT_DYNSYM};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, SectionHeader, SectionTable, SymbolTable};
use object::{CompressionFormat, Endianness, ObjectSection, ReadRef};

use super::machine::Machine;
use super::untrusted::ExamineBudget;

/// A file whose tables of symbols have been read, too.
pub(in crate::capture) type File<'d, R> = ElfFile64<'d, Endianness, R>;

pub(in crate::capture) type ElfHeader = FileHeader64<Endianness>;

pub(in crate::capture) const ENDIAN: Endianness = Endianness::Little;

/// The headers of a file. Most files are refused by their headers, without their tables of symbols, which can be large.
pub(in crate::capture) struct Headers<'d, R: ReadRef<'d>> {
    pub(in crate::capture) data: R,
    pub(in crate::capture) segments: &'d [elf::ProgramHeader64<Endianness>],
    pub(in crate::capture) sections: SectionTable<'d, ElfHeader, R>,
}

/// Why a file has no headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum NoHeaders {
    /// It is no ELF file, or its headers are damaged.
    Invalid,
    /// It is for another machine.
    OtherMachine,
}

impl<'d, R: ReadRef<'d>> Headers<'d, R> {
    /// Reads the headers of a file for this machine.
    pub(in crate::capture) fn parse(machine: Machine, data: R) -> Result<Self, NoHeaders> {
        let header = ElfHeader::parse(data).map_err(|_| NoHeaders::Invalid)?;
        let endian = header.endian().map_err(|_| NoHeaders::Invalid)?;
        if header.e_machine(endian) != machine.in_header() || endian != ENDIAN {
            return Err(NoHeaders::OtherMachine);
        }
        let segments = header.program_headers(ENDIAN, data).map_err(|_| NoHeaders::Invalid)?;
        let sections = header.sections(ENDIAN, data).map_err(|_| NoHeaders::Invalid)?;
        Ok(Self { data, segments, sections })
    }

    /// Whether there is a section of this name.
    pub(in crate::capture) fn has_section(&self, name: &[u8]) -> bool {
        self.sections.section_by_name(ENDIAN, name).is_some()
    }

    pub(in crate::capture) fn build_id(&self) -> Option<&'d [u8]> {
        let notes = self.sections.iter().filter_map(|section| section.notes(ENDIAN, self.data).ok().flatten());
        let mut notes = notes.flat_map(|mut notes| std::iter::from_fn(move || notes.next().ok().flatten()));
        let id = notes.find(|note| note.name() == elf::ELF_NOTE_GNU && note.n_type(ENDIAN) == elf::NT_GNU_BUILD_ID)?;
        Some(id.desc())
    }

    /// Whether the linker has marked it as a program that can be at any address.
    pub(in crate::capture) fn is_program(&self) -> bool {
        let entries = self.sections.dynamic(ENDIAN, self.data).ok().flatten();
        let mut entries = entries.into_iter().flat_map(|(entries, _)| entries);
        entries.any(|entry| entry.d_tag(ENDIAN) == elf::DT_FLAGS_1 && entry.d_val(ENDIAN) & elf::DF_1_PIE.0 != 0)
    }

    /// How much the address of the first code is larger than its place in the file.
    pub(in crate::capture) fn code_shift(&self) -> u64 {
        let is_code = |part: &&elf::ProgramHeader64<Endianness>| {
            part.p_type(ENDIAN) == elf::PT_LOAD && part.p_flags(ENDIAN).contains(elf::PF_X)
        };
        let code = self.segments.iter().find(is_code);
        code.map_or(0, |code| code.p_vaddr(ENDIAN).wrapping_sub(code.p_offset(ENDIAN)))
    }

    /// The symbols that the dynamic linker uses; none if the table is damaged.
    pub(in crate::capture) fn dynamic_symbols(&self) -> SymbolTable<'d, ElfHeader, R> {
        self.sections.symbols(ENDIAN, self.data, SHT_DYNSYM).unwrap_or_default()
    }
}

/// A section's bytes, decompressed; `None` if they are invalid or more than is left of the budget.
pub(in crate::capture) fn bounded<'d>(
    section: &impl ObjectSection<'d>,
    budget: &ExamineBudget,
) -> Option<std::borrow::Cow<'d, [u8]>> {
    let compressed = section.compressed_data().ok()?;
    if compressed.format != CompressionFormat::None {
        budget.charge(compressed.uncompressed_size).ok()?;
    }
    compressed.decompress().ok()
}
