//! jemalloc's thread-specific data in an ELF file. No file is opened here.

use object::elf::{self, FileHeader64, PT_TLS, STT_TLS};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, Rela, SectionHeader, Sym};
use object::{Endianness, Object, ObjectSection, ReadRef};

use super::Tag;
use super::dwarf;
use super::layouts::{self, Offsets};

/// A section larger than this, once decompressed, is not read.
const MAX_SECTION: u64 = 512 << 20;

/// The block of thread-local storage of a module: `PT_TLS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tls {
    address: u64,
    size: u64,
    align: u64,
}

/// The symbol of the thread-specific data: where in the block, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    value: u64,
    size: u64,
}

/// How the layout was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Debug information of the file.
    Dwarf,
    /// The size of the symbol.
    Symbol,
    /// The size of the block, and the version text.
    Version,
}

/// Where a module's counters are: the layout of its thread-specific data (TSD).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TsdLayout {
    /// Offsets of the counters in the thread-specific data.
    pub offsets: Offsets,
    /// How they were found.
    pub route: Route,
    tls: Tls,
    /// Where in the block the thread-specific data is.
    pub(super) value: u64,
    /// Where the dynamic linker stores the distance from the thread pointer, as an address in the file;
    /// `None` if unknown.
    pub(super) slot: Option<u64>,
    /// Lowest address of the file that is mapped.
    pub(super) base: u64,
}

/// How to find a file's separate debug information.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    /// The file's build id.
    pub(super) build_id: Option<Vec<u8>>,
    /// Name and checksum of its debug file.
    pub(super) debuglink: Option<(Vec<u8>, u32)>,
}

pub(super) type File<'d, R> = ElfFile64<'d, Endianness, R>;

/// Reads the headers. Refuses files for other machines and files without thread-local storage.
pub(super) fn open<'d, R: ReadRef<'d>>(data: R) -> Result<(File<'d, R>, Tls), Tag> {
    // The headers come first: most libraries have no thread-local storage, and their symbol tables
    // can be large.
    let header = FileHeader64::<Endianness>::parse(data).map_err(|_| Tag::JemallocNotFound)?;
    let endian = header.endian().map_err(|_| Tag::JemallocNotFound)?;
    let native = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
    if header.e_machine(endian) != native || endian != Endianness::Little {
        return Err(Tag::ArchMismatch);
    }
    let segments = header.program_headers(endian, data).map_err(|_| Tag::JemallocNotFound)?;
    let tls = segments.iter().find(|segment| segment.p_type(endian) == PT_TLS).ok_or(Tag::JemallocNotFound)?;
    let tls = Tls { address: tls.p_vaddr(endian), size: tls.p_memsz(endian), align: tls.p_align(endian).max(1) };
    let file = File::parse(data).map_err(|_| Tag::JemallocNotFound)?;
    if !tls.align.is_power_of_two() { Err(Tag::TlsArithmetic) } else { Ok((file, tls)) }
}

/// The layout by the file's own debug information, by that of its separate file `debug`, or by the table
/// of known builds.
pub(super) fn layout<'d, 'f, R: ReadRef<'d>, S: ReadRef<'f>>(
    file: &File<'d, R>,
    tls: Tls,
    debug: Option<&File<'f, S>>,
    split: &dyn dwarf::Split,
) -> Result<TsdLayout, Tag> {
    let symbol = symbol(file).or_else(|| debug.and_then(symbol));
    let placed = |symbol: Symbol, offsets: Offsets, route| {
        // A wrong symbol must not lead out of the block.
        let end =
            symbol.value.checked_add(offsets.allocated.max(offsets.deallocated)).and_then(|end| end.checked_add(8));
        if end.is_none_or(|end| end > tls.size) {
            return Err(Tag::TlsArithmetic);
        }
        let (value, base) = (symbol.value, base(file));
        Ok(TsdLayout { offsets, route, tls, value, slot: slot(file, value), base })
    };
    let Some(symbol) = symbol else {
        let rodata = file.section_by_name(".rodata").and_then(|section| bounded(&section)).unwrap_or_default();
        let version = layouts::version(&rodata).ok_or(Tag::JemallocNotFound)?;
        let offsets = layouts::by_size(tls.size, Some(version)).ok_or(Tag::UnknownLayout)?;
        return placed(Symbol { value: 0, size: tls.size }, offsets, Route::Version);
    };
    let mut failed = false;
    let mut members = |found: Result<Option<Offsets>, Tag>| {
        found.unwrap_or_else(|_| {
            failed = true;
            None
        })
    };
    let in_debug_info = members(dwarf::members(file, split)).or_else(|| members(dwarf::members(debug?, split)));
    match (in_debug_info, layouts::by_size(symbol.size, None)) {
        (Some(offsets), _) => placed(symbol, offsets, Route::Dwarf),
        (None, Some(offsets)) => placed(symbol, offsets, Route::Symbol),
        (None, None) => Err(if failed { Tag::DwarfParseFailure } else { Tag::UnknownLayout }),
    }
}

/// How to find the file's separate debug information.
pub(super) fn links<'d, R: ReadRef<'d>>(file: &File<'d, R>) -> Links {
    Links {
        build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
        debuglink: file.gnu_debuglink().ok().flatten().map(|(name, crc)| (name.to_vec(), crc)),
    }
}

/// `tsd_tls`, alone or with a prefix: jemalloc's thread-specific data is a defined object in
/// thread-local storage.
fn symbol<'d, R: ReadRef<'d>>(file: &File<'d, R>) -> Option<Symbol> {
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

/// The slot that the dynamic linker fills with the distance of the object at `value` from the
/// thread pointer.
fn slot<'d, R: ReadRef<'d>>(file: &File<'d, R>, value: u64) -> Option<u64> {
    let kind = if cfg!(target_arch = "aarch64") { elf::R_AARCH64_TLS_TPREL } else { elf::R_X86_64_TPOFF64 };
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
            entry.r_type(endian, false) == kind && target == Some(value)
        };
        Some(entries.iter().find(about_it)?.r_offset(endian))
    })
}

/// The lowest mapped address of the file.
fn base<'d, R: ReadRef<'d>>(file: &File<'d, R>) -> u64 {
    let endian = file.endian();
    let loads = file.elf_program_headers().iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    // Segments are mapped by whole pages.
    loads.map(|segment| segment.p_vaddr(endian)).min().unwrap_or(0) & !0xfff
}

/// A section's bytes, decompressed; `None` if they are invalid or too many.
pub(super) fn bounded<'d, 's>(section: &impl ObjectSection<'d>) -> Option<std::borrow::Cow<'d, [u8]>> {
    let compressed = section.compressed_data().ok()?;
    (compressed.uncompressed_size <= MAX_SECTION).then(|| compressed.decompress().ok()).flatten()
}

impl TsdLayout {
    /// Distance from the thread pointer to the thread-specific data of a main executable.
    pub(super) fn static_distance(&self) -> Option<i64> {
        let Tls { address, size, align } = self.tls;
        let distance = if cfg!(target_arch = "aarch64") {
            // Above the thread pointer, after two words of the thread control block.
            let gap = 16 + (address.wrapping_sub(16) & (align - 1));
            i64::try_from(gap.checked_add(self.value)?).ok()?
        } else {
            // Below it, so that the block keeps its alignment.
            let block = size.checked_add(address.wrapping_add(size).wrapping_neg() & (align - 1))?;
            i64::try_from(self.value).ok()?.checked_sub(i64::try_from(block).ok()?)?
        };
        Some(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(address: u64, size: u64, align: u64, value: u64) -> Option<i64> {
        let offsets = Offsets { allocated: 0, deallocated: 8 };
        let tls = Tls { address, size, align };
        TsdLayout { offsets, route: Route::Symbol, tls, value, slot: None, base: 0 }.static_distance()
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_block_of_an_executable_ends_at_the_thread_pointer() {
        assert_eq!(distance(0x1000, 0x100, 0x10, 0), Some(-0x100));
        assert_eq!(distance(0x1000, 0x101, 0x10, 0), Some(-0x110));
        assert_eq!(distance(0x1000, 0x101, 0x10, 0x20), Some(-0xf0));
        // An address that is not a multiple of the alignment.
        assert_eq!(distance(0x1008, 0x100, 0x10, 0), Some(-0x108));
    }

    #[test]
    fn wrong_sizes_do_not_overflow() {
        assert_eq!(distance(0, u64::MAX, 1, 0), None);
        assert_eq!(distance(u64::MAX, u64::MAX, 1 << 63, u64::MAX), None);
    }
}
