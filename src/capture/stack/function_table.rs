//! Names of functions by addresses in a file, from its tables of symbols.

use std::fs::File;
use std::iter;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::Endianness;
use object::SectionIndex;
use object::elf::{self, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC};
use object::read::elf::{SectionHeader, Sym};

use super::super::elf::headers::{ENDIAN, Headers};
use super::super::elf::machine::Machine;
use super::super::elf::mapped_file::debug_file;
use super::super::elf::untrusted::{ExamineBudget, LimitedFile, Pieces, SharedBudget};
use super::super::procfs::directory::ProcDirectory;
use super::compressed_symbols;
use super::demangle::demangled;
use crate::model::{Name, printable};

/// The longest symbol that is read, in bytes.
const LONGEST_SYMBOL: usize = 4096;

/// Names of the functions at some addresses of a file.
#[derive(Default)]
pub(super) struct NamedAddresses {
    pub(super) names: Vec<Option<Name>>,
    /// Whether there are only the symbols that other files need.
    pub(super) is_stripped: bool,
}

/// The names of the functions at `addresses`, which are sorted, in one pass over the symbols that keeps nothing else: of the file,
/// of its debug file on this host, else of what it exports and of what it has compressed.
pub(super) fn names(file: &File, addresses: &[u64], shared: &SharedBudget) -> NamedAddresses {
    of_file(file, addresses, &shared.of_file()).unwrap_or_default()
}

fn of_file(file: &File, addresses: &[u64], budget: &ExamineBudget) -> Option<NamedAddresses> {
    let all = |names| NamedAddresses { names, is_stripped: false };
    let limited = LimitedFile::new(file, budget);
    let headers = Headers::parse(Machine::NATIVE, &limited).ok()?;
    let table = |kind| Symbols::find(&headers, kind);
    if let Some(symbols) = table(SHT_SYMTAB) {
        return Some(all(symbols.names(file, &limited, addresses)));
    }
    let own_root = ProcDirectory::open(Path::new("/proc/self")).ok();
    if let Some(debug) = own_root.and_then(|root| debug_file(&root, &headers)) {
        let limited = LimitedFile::new(&debug, budget);
        let of_debug = Headers::parse(Machine::NATIVE, &limited).ok();
        let of_debug = of_debug.filter(|debug| debug.build_id() == headers.build_id());
        if let Some(symbols) = of_debug.and_then(|headers| Symbols::find(&headers, SHT_SYMTAB)) {
            return Some(all(symbols.names(&debug, &limited, addresses)));
        }
    }
    let exported = table(SHT_DYNSYM).map(|symbols| symbols.names(file, &limited, addresses)).unwrap_or_default();
    let Some(others) = compressed_names(&headers, addresses, budget) else {
        return Some(NamedAddresses { names: exported, is_stripped: true });
    };
    let exported = exported.into_iter().chain(iter::repeat(None));
    Some(all(others.into_iter().zip(exported).map(|(other, exported)| other.or(exported)).collect()))
}

/// The names of functions that a file does not export, if it has them compressed.
fn compressed_names<'d>(
    headers: &Headers<'d, &'d LimitedFile<'_>>,
    addresses: &[u64],
    budget: &ExamineBudget,
) -> Option<Vec<Option<Name>>> {
    let file = compressed_symbols::file(headers, budget)?;
    let limited = LimitedFile::new(&file, budget);
    let headers = Headers::parse(Machine::NATIVE, &limited).ok()?;
    Some(Symbols::find(&headers, SHT_SYMTAB)?.names(&file, &limited, addresses))
}

/// The places of a table of symbols, and of its texts, in a file.
struct Symbols {
    table: (u64, u64),
    texts: (u64, u64),
}

impl Symbols {
    fn find<'d>(headers: &Headers<'d, &'d LimitedFile<'_>>, kind: elf::SectionType) -> Option<Self> {
        let table = headers.sections.iter().find(|section| section.sh_type(ENDIAN) == kind)?;
        let texts = usize::try_from(table.sh_link(ENDIAN)).ok()?;
        let texts = headers.sections.section(SectionIndex(texts)).ok()?;
        Some(Self { table: table.file_range(ENDIAN)?, texts: texts.file_range(ENDIAN)? })
    }

    fn names(&self, file: &File, limited: &LimitedFile<'_>, addresses: &[u64]) -> Vec<Option<Name>> {
        // The start of the innermost function around each address, and the place of its name.
        let mut best: Vec<Option<(u64, u32)>> = vec![None; addresses.len()];
        let (start, bytes) = self.table;
        let _ = limited.find_in_pieces(start, bytes, |symbol: &elf::Sym64<Endianness>| {
            let is_function = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC) && !symbol.is_undefined(ENDIAN);
            let (value, size) = (symbol.st_value(ENDIAN), symbol.st_size(ENDIAN));
            let from = if is_function { addresses.partition_point(|&at| at < value) } else { addresses.len() };
            let inside = addresses[from..].iter().take_while(|&&at| at - value < size);
            for (best, _) in best[from..].iter_mut().zip(inside) {
                if best.is_none_or(|(start, _)| value > start) {
                    *best = Some((value, symbol.st_name(ENDIAN)));
                }
            }
            None::<()>
        });
        best.into_iter().map(|found| self.text(file, found?.1)).collect()
    }

    fn text(&self, file: &File, place: u32) -> Option<Name> {
        let (start, bytes) = self.texts;
        let left = usize::try_from(bytes.checked_sub(place.into())?).unwrap_or(usize::MAX);
        let mut text = vec![0; left.min(LONGEST_SYMBOL)];
        let read = file.read_at(&mut text, start.checked_add(place.into())?).ok()?;
        let symbol = text[..read].split(|&byte| byte == 0).next().filter(|symbol| !symbol.is_empty())?;
        Some(demangled(&printable(symbol)).as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function at an address, in a table of symbols whose texts follow.
    fn symbol(address: u64, size: u64, name: u32) -> Vec<u8> {
        let mut symbol = name.to_le_bytes().to_vec();
        symbol.extend([STT_FUNC.0, 0, 1, 0]);
        symbol.extend([address, size].map(u64::to_le_bytes).concat());
        symbol
    }

    fn names(symbols: &[Vec<u8>], texts: &[u8], addresses: &[u64]) -> Vec<Option<String>> {
        let (file, table) = (tempfile::tempfile().unwrap(), symbols.concat());
        file.write_all_at(&[&table, texts].concat(), 0).unwrap();
        let shared = SharedBudget::default();
        let budget = shared.of_file();
        let limited = LimitedFile::new(&file, &budget);
        let bytes = |text: &[u8]| u64::try_from(text.len()).unwrap();
        let symbols = Symbols { table: (0, bytes(&table)), texts: (bytes(&table), bytes(texts)) };
        let names = symbols.names(&file, &limited, addresses);
        names.into_iter().map(|name| name.map(|name| name.to_string())).collect()
    }

    #[test]
    fn an_address_has_the_name_of_the_innermost_function_around_it() {
        let symbols = [symbol(0x100, 0x100, 1), symbol(0x140, 0x10, 7), symbol(0x300, 0, 7), symbol(u64::MAX, 9, 1)];
        let found = names(&symbols, b"\0outer\0inner\0", &[0x50, 0x100, 0x145, 0x150, 0x200, 0x300]);
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, [None, Some("outer"), Some("inner"), Some("outer"), None, None]);
    }

    #[test]
    fn functions_whose_symbols_are_compressed_have_the_names_that_they_had_before_stripping() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds/code");
        let named = |file: &str| {
            let addresses: Vec<u64> = (0x1000..0x1100).collect();
            super::names(&File::open(seeds.join(file)).unwrap(), &addresses, &SharedBudget::default())
        };
        let [whole, stripped, compressed] = ["c.so", "stripped.so", "compressed.so"].map(named);
        assert!(whole.names.iter().flatten().any(|name| &**name == "inner"));
        assert_eq!((compressed.is_stripped, &compressed.names), (false, &whole.names));
        assert!(stripped.is_stripped && stripped.names != whole.names);
    }

    #[test]
    fn a_name_of_a_megabyte_or_behind_the_end_takes_no_memory() {
        let longest = [b"_ZN".to_vec(), b"4pool".repeat(200_000), b"Ev".to_vec()].concat();
        let found = names(&[symbol(1, 1, 0), symbol(2, 1, u32::MAX), symbol(3, 1, 2_000_000)], &longest, &[1, 2, 3]);
        assert!(found[0].as_ref().is_some_and(|name| name.len() <= 256), "{found:?}");
        assert_eq!(found[1..], [None, None]);
    }
}
