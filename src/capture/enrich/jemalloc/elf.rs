//! jemalloc's thread-specific data in an ELF file. No file is opened here.

use object::elf::{self, FileHeader64, PT_TLS, STT_TLS};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, Rela, SectionHeader, Sym, VersionTable};
use object::{CompressionFormat, Endianness, ObjectSection, ReadRef};

use super::machine::{Machine, Tls};
use super::untrusted::ExamineBudget;
use crate::model::ProbeFailure;

/// The symbol of the thread-specific data: its offset in the block, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) value: u64,
    pub(super) size: u64,
}

pub(super) type File<'d, R> = ElfFile64<'d, Endianness, R>;

/// Reads the headers. Refuses files for machines other than `machine` and files without thread-local storage.
pub(super) fn open<'d, R: ReadRef<'d>>(machine: Machine, data: R) -> Result<(File<'d, R>, Tls), ProbeFailure> {
    // The headers come first: most libraries have no thread-local storage, and their symbol tables
    // can be large.
    let header = FileHeader64::<Endianness>::parse(data).map_err(|_| ProbeFailure::JemallocNotFound)?;
    let endian = header.endian().map_err(|_| ProbeFailure::JemallocNotFound)?;
    if header.e_machine(endian) != machine.in_header() || endian != Endianness::Little {
        return Err(ProbeFailure::ArchMismatch);
    }
    let segments = header.program_headers(endian, data).map_err(|_| ProbeFailure::JemallocNotFound)?;
    let tls = segments.iter().find(|segment| segment.p_type(endian) == PT_TLS).ok_or(ProbeFailure::JemallocNotFound)?;
    let tls = Tls { address: tls.p_vaddr(endian), size: tls.p_memsz(endian), align: tls.p_align(endian).max(1) };
    let file = File::parse(data).map_err(|_| ProbeFailure::JemallocNotFound)?;
    if !tls.align.is_power_of_two() { Err(ProbeFailure::TlsArithmetic) } else { Ok((file, tls)) }
}

/// `tsd_tls`, alone or with a prefix: jemalloc's thread-specific data is a defined object in
/// thread-local storage.
pub(super) fn symbol<'d, R: ReadRef<'d>>(file: &File<'d, R>) -> Option<Symbol> {
    let table = file.elf_symbol_table();
    let endian = file.endian();
    let named = |symbol: &&elf::Sym64<Endianness>| {
        let name = table.symbol_name(endian, symbol).unwrap_or_default();
        name == b"tsd_tls" || name.ends_with(b"_tsd_tls")
    };
    let defined = |symbol: &&elf::Sym64<Endianness>| symbol.st_type() == STT_TLS && !symbol.is_undefined(endian);
    let found = table.symbols().iter().filter(defined).find(named)?;
    Some(Symbol { value: found.st_value(endian), size: found.st_size(endian) })
}

/// Whether the file is a library that exports jemalloc's functions, by its hash table where it has one.
pub(super) fn exports_jemalloc<'d, R: ReadRef<'d>>(file: &File<'d, R>) -> bool {
    const NAME: &[u8] = b"mallctl";
    let (table, endian) = (file.elf_dynamic_symbol_table(), file.endian());
    let is_it =
        |symbol: &elf::Sym64<Endianness>| !symbol.is_undefined(endian) && table.symbol_name(endian, symbol) == Ok(NAME);
    let (sections, data) = (file.elf_section_table(), file.data());
    // `find` shifts 32 bits by what the file says.
    let header = sections.gnu_hash_header(endian, data).ok().flatten();
    match header
        .filter(|header| header.bloom_shift.get(endian) < 32)
        .and(sections.gnu_hash(endian, data).ok().flatten())
    {
        Some((hashes, _)) => {
            let found = hashes.find(endian, NAME, elf::gnu_hash(NAME), None, table, &VersionTable::default());
            found.is_some_and(|(_, symbol)| is_it(symbol))
        }
        None => table.symbols().iter().any(is_it),
    }
}

/// The slot that the dynamic linker fills with the distance of the object at `value` from the
/// thread pointer.
pub(super) fn slot<'d, R: ReadRef<'d>>(machine: Machine, file: &File<'d, R>, value: u64) -> Option<u64> {
    let (endian, data) = (file.endian(), file.data());
    let dynamic = file.elf_dynamic_symbol_table();
    let symbol_value = |index: u32| {
        let found = dynamic.symbol(object::SymbolIndex(usize::try_from(index).ok()?)).ok()?;
        (!found.is_undefined(endian)).then(|| found.st_value(endian))
    };
    let mut sections = file.elf_section_table().iter();
    sections.find_map(|section| {
        let (entries, _) = section.rela(endian, data).ok().flatten()?;
        let about_it = |entry: &&elf::Rela64<Endianness>| {
            let symbol = entry.r_sym(endian, false);
            let base = if symbol == 0 { Some(0) } else { symbol_value(symbol) };
            let target = base.and_then(|base| base.checked_add_signed(entry.r_addend(endian)));
            entry.r_type(endian, false) == machine.distance_relocation() && target == Some(value)
        };
        Some(entries.iter().find(about_it)?.r_offset(endian))
    })
}

/// How much the address of the first code is larger than its place in the file.
pub(super) fn code_shift<'d, R: ReadRef<'d>>(file: &File<'d, R>) -> u64 {
    let endian = file.endian();
    let mut segments = file.elf_program_headers().iter();
    let code = segments.find(|part| part.p_type(endian) == elf::PT_LOAD && part.p_flags(endian).contains(elf::PF_X));
    code.map_or(0, |code| code.p_vaddr(endian).wrapping_sub(code.p_offset(endian)))
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
