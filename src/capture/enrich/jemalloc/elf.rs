//! jemalloc's thread-specific data in an ELF file. No file is opened here.

use std::cell::LazyCell;

use object::elf::{self, PT_TLS, SHT_SYMTAB, STT_TLS};
use object::read::elf::{ProgramHeader, Rela, SectionHeader, Sym, VersionTable};
use object::{Endianness, ReadRef, SectionIndex};

use super::super::super::elf::headers::{ENDIAN, Headers, NoHeaders};
use super::super::super::elf::machine::{Machine, Tls};
use super::super::super::elf::untrusted::Pieces;
use crate::model::ProbeFailure;

/// The symbol of the thread-specific data: its offset in the block, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) value: u64,
    pub(super) size: u64,
}

/// Reads the headers. Refuses files for machines other than `machine` and files without thread-local storage.
pub(super) fn open<'d, R: ReadRef<'d>>(machine: Machine, data: R) -> Result<(Headers<'d, R>, Tls), ProbeFailure> {
    let headers = Headers::parse(machine, data).map_err(|no_headers| match no_headers {
        NoHeaders::Invalid => ProbeFailure::JemallocNotFound,
        NoHeaders::OtherMachine => ProbeFailure::ArchMismatch,
    })?;
    let tls = headers.segments.iter().find(|segment| segment.p_type(ENDIAN) == PT_TLS);
    let tls = tls.ok_or(ProbeFailure::JemallocNotFound)?;
    let tls = Tls { address: tls.p_vaddr(ENDIAN), size: tls.p_memsz(ENDIAN), align: tls.p_align(ENDIAN).max(1) };
    if !tls.align.is_power_of_two() { Err(ProbeFailure::TlsArithmetic) } else { Ok((headers, tls)) }
}

impl<'d, R: ReadRef<'d>> Headers<'d, R> {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::super::super::elf::untrusted::{LimitedFile, SharedBudget};
    use super::*;

    /// A program with a block of thread-local storage and a symbol table of `symbols` bytes.
    fn program(symbols: u64) -> Vec<u8> {
        let machine = Machine::NATIVE.in_header().0;
        let halves = |numbers: &[u16]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let words = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let longs = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let header = [
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
            [halves(&[2, machine]), words(&[1]), longs(&[0, 64, 120]), words(&[0])].concat(),
            halves(&[64, 56, 1, 64, 3, 2]),
        ];
        let tls = [words(&[7, 4]), longs(&[0, 0, 0, 0, 64, 8])].concat();
        let section = |kind: u32, size: u64, link: u32, entry: u64| {
            [words(&[0, kind]), longs(&[0, 0, 312, size]), words(&[link, 0]), longs(&[8, entry])].concat()
        };
        let sections = [section(0, 0, 0, 0), section(2, symbols, 2, 24), section(3, 1, 0, 0)];
        [header.concat(), tls, sections.concat(), vec![0]].concat()
    }

    /// Whether a file that starts with that program is too much.
    fn is_too_much(symbols: u64) -> bool {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&program(symbols), 0).unwrap();
        file.set_len(4 << 30).unwrap();
        let budget = SharedBudget::default().of_file();
        let limited = LimitedFile::new(&file, &budget);
        let (headers, _) = open(Machine::NATIVE, &limited).unwrap();
        assert_eq!(headers.symbol(), None);
        budget.is_exceeded.get()
    }

    #[test]
    fn a_symbol_table_above_the_limit_or_without_content_is_not_read() {
        assert!(!is_too_much(24 << 10));
        assert!(is_too_much(24 << 14), "sparse");
        assert!(is_too_much(24 << 26));
    }
}
