//! jemalloc's thread-specific data in an ELF file. No file is opened here.

use std::cell::LazyCell;

use object::elf::{self, FileHeader64, PT_TLS, SHT_DYNSYM, SHT_SYMTAB, STT_TLS};
use object::read::elf::{
    Dyn, ElfFile64, FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable, VersionTable,
};
use object::{CompressionFormat, Endianness, ObjectSection, ReadRef, SectionIndex};

use super::machine::{Machine, Tls};
use super::untrusted::{ExamineBudget, Pieces};
use crate::model::ProbeFailure;

/// The symbol of the thread-specific data: its offset in the block, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) value: u64,
    pub(super) size: u64,
}

/// A file whose tables of symbols have been read, too.
pub(super) type File<'d, R> = ElfFile64<'d, Endianness, R>;

type ElfHeader = FileHeader64<Endianness>;

const ENDIAN: Endianness = Endianness::Little;

/// What the headers of a file say. Most files are refused by that: their tables of symbols can be large.
pub(super) struct Headers<'d, R: ReadRef<'d>> {
    pub(super) data: R,
    segments: &'d [elf::ProgramHeader64<Endianness>],
    sections: SectionTable<'d, ElfHeader, R>,
}

/// Reads the headers. Refuses files for machines other than `machine` and files without thread-local storage.
pub(super) fn open<'d, R: ReadRef<'d>>(machine: Machine, data: R) -> Result<(Headers<'d, R>, Tls), ProbeFailure> {
    let header = ElfHeader::parse(data).map_err(|_| ProbeFailure::JemallocNotFound)?;
    let endian = header.endian().map_err(|_| ProbeFailure::JemallocNotFound)?;
    if header.e_machine(endian) != machine.in_header() || endian != ENDIAN {
        return Err(ProbeFailure::ArchMismatch);
    }
    let segments = header.program_headers(ENDIAN, data).map_err(|_| ProbeFailure::JemallocNotFound)?;
    let tls = segments.iter().find(|segment| segment.p_type(ENDIAN) == PT_TLS).ok_or(ProbeFailure::JemallocNotFound)?;
    let tls = Tls { address: tls.p_vaddr(ENDIAN), size: tls.p_memsz(ENDIAN), align: tls.p_align(ENDIAN).max(1) };
    let sections = header.sections(ENDIAN, data).map_err(|_| ProbeFailure::JemallocNotFound)?;
    let headers = Headers { data, segments, sections };
    if !tls.align.is_power_of_two() { Err(ProbeFailure::TlsArithmetic) } else { Ok((headers, tls)) }
}

impl<'d, R: ReadRef<'d>> Headers<'d, R> {
    /// Those of a file with debug information of a program.
    pub(super) fn of_debug(data: R) -> Option<Self> {
        let header = ElfHeader::parse(data).ok().filter(|header| header.is_little_endian())?;
        let (segments, sections) = (header.program_headers(ENDIAN, data).ok()?, header.sections(ENDIAN, data).ok()?);
        Some(Self { data, segments, sections })
    }

    /// Whether there is a section of this name.
    pub(super) fn has_section(&self, name: &[u8]) -> bool {
        self.sections.section_by_name(ENDIAN, name).is_some()
    }

    pub(super) fn build_id(&self) -> Option<&'d [u8]> {
        let notes = self.sections.iter().filter_map(|section| section.notes(ENDIAN, self.data).ok().flatten());
        let mut notes = notes.flat_map(|mut notes| std::iter::from_fn(move || notes.next().ok().flatten()));
        let id = notes.find(|note| note.name() == elf::ELF_NOTE_GNU && note.n_type(ENDIAN) == elf::NT_GNU_BUILD_ID)?;
        Some(id.desc())
    }

    /// `tsd_tls`, alone or with a prefix: jemalloc's thread-specific data is a defined object in
    /// thread-local storage.
    pub(super) fn symbol(&self) -> Option<Symbol>
    where
        R: Pieces<'d>,
    {
        let table = self.sections.iter().find(|section| section.sh_type(ENDIAN) == SHT_SYMTAB)?;
        let names = usize::try_from(table.sh_link(ENDIAN)).ok()?;
        let names = self.sections.strings(ENDIAN, self.data, SectionIndex(names)).ok()?;
        let (start, bytes) = table.file_range(ENDIAN)?;
        self.data.find_in_pieces(start, bytes, |symbol: &elf::Sym64<Endianness>| {
            let is_defined = symbol.st_type() == STT_TLS && !symbol.is_undefined(ENDIAN);
            let name = if is_defined { names.get(symbol.st_name(ENDIAN)).ok()? } else { return None };
            let is_it = name == b"tsd_tls" || name.ends_with(b"_tsd_tls");
            is_it.then(|| Symbol { value: symbol.st_value(ENDIAN), size: symbol.st_size(ENDIAN) })
        })
    }

    /// Whether the file is a library that exports jemalloc's functions, by its hash table where it has one.
    pub(super) fn exports_jemalloc(&self) -> bool {
        const NAME: &[u8] = b"mallctl";
        let mut sections = self.sections.iter().filter(|section| section.sh_type(ENDIAN) == elf::SHT_GNU_HASH);
        let hashes = sections.find_map(|section| section.data(ENDIAN, self.data).ok());
        let may_export = hashes.and_then(|bytes| may_contain(bytes, elf::gnu_hash(NAME)));
        if may_export == Some(false) {
            return false;
        }
        let table = self.dynamic_symbols();
        let is_it = |symbol: &elf::Sym64<Endianness>| {
            !symbol.is_undefined(ENDIAN) && table.symbol_name(ENDIAN, symbol) == Ok(NAME)
        };
        match may_export.and(self.sections.gnu_hash(ENDIAN, self.data).ok().flatten()) {
            Some((hashes, _)) => {
                let found = hashes.find(ENDIAN, NAME, elf::gnu_hash(NAME), None, &table, &VersionTable::default());
                found.is_some_and(|(_, symbol)| is_it(symbol))
            }
            None => table.symbols().iter().any(is_it),
        }
    }

    /// The slot that the dynamic linker fills with the distance of the object at `value` from the
    /// thread pointer. Programs need none.
    pub(super) fn slot(&self, machine: Machine, value: u64) -> Option<u64>
    where
        R: Pieces<'d>,
    {
        if self.is_program() {
            return None;
        }
        let dynamic = LazyCell::new(|| self.dynamic_symbols());
        let symbol_value = |index: u32| {
            let found = dynamic.symbol(object::SymbolIndex(usize::try_from(index).ok()?)).ok()?;
            (!found.is_undefined(ENDIAN)).then(|| found.st_value(ENDIAN))
        };
        let slot = |entry: &elf::Rela64<Endianness>| {
            if entry.r_type(ENDIAN, false) != machine.distance_relocation() {
                return None;
            }
            let symbol = entry.r_sym(ENDIAN, false);
            let base = if symbol == 0 { Some(0) } else { symbol_value(symbol) };
            let target = base?.checked_add_signed(entry.r_addend(ENDIAN));
            (target == Some(value)).then(|| entry.r_offset(ENDIAN))
        };
        let mut tables = self.sections.iter().filter(|section| section.sh_type(ENDIAN) == elf::SHT_RELA);
        tables.find_map(|table| {
            let (start, bytes) = table.file_range(ENDIAN)?;
            self.data.find_in_pieces(start, bytes, slot)
        })
    }

    /// Whether the linker has marked it as a program that can be at any address.
    fn is_program(&self) -> bool {
        let entries = self.sections.dynamic(ENDIAN, self.data).ok().flatten();
        let mut entries = entries.into_iter().flat_map(|(entries, _)| entries);
        entries.any(|entry| entry.d_tag(ENDIAN) == elf::DT_FLAGS_1 && entry.d_val(ENDIAN) & elf::DF_1_PIE.0 != 0)
    }

    /// How much the address of the first code is larger than its place in the file.
    pub(super) fn code_shift(&self) -> u64 {
        let is_code = |part: &&elf::ProgramHeader64<Endianness>| {
            part.p_type(ENDIAN) == elf::PT_LOAD && part.p_flags(ENDIAN).contains(elf::PF_X)
        };
        let code = self.segments.iter().find(is_code);
        code.map_or(0, |code| code.p_vaddr(ENDIAN).wrapping_sub(code.p_offset(ENDIAN)))
    }

    fn dynamic_symbols(&self) -> SymbolTable<'d, ElfHeader, R> {
        self.sections.symbols(ENDIAN, self.data, SHT_DYNSYM).unwrap_or_default()
    }
}

/// Whether a hash table with these bytes can have a name, by its Bloom filter; `None` if it is invalid.
fn may_contain(table: &[u8], hash: u32) -> Option<bool> {
    let word = |at: usize| Some(u32::from_le_bytes(*table.get(at..)?.first_chunk()?));
    let (filters, other) = (word(8)?, hash.checked_shr(word(12)?)?);
    let place = usize::try_from((hash / 64) & filters.checked_sub(1)?).ok()?;
    let filter = u64::from_le_bytes(*table.get(16..)?.get(8 * place..)?.first_chunk()?);
    let has = |hash: u32| filter >> (hash % 64) & 1 == 1;
    Some(has(hash) && has(other))
}

/// A section's bytes, decompressed; `None` if they are invalid or more than is left of the budget.
pub(super) fn bounded<'d>(
    section: &impl ObjectSection<'d>,
    budget: &ExamineBudget,
) -> Option<std::borrow::Cow<'d, [u8]>> {
    let compressed = section.compressed_data().ok()?;
    if compressed.format != CompressionFormat::None {
        budget.charge(compressed.uncompressed_size).ok()?;
    }
    compressed.decompress().ok()
}
