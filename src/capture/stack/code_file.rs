//! A file with code: its rules to unwind, read one at a time.
//!
//! Nothing is mapped, because its owner could truncate it, and little but headers is kept: of `.eh_frame`, a host's stacks
//! need some 60 KiB.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, LazyLock};

use gimli::{
    BaseAddresses, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian, UnwindContext, UnwindSection, Vendor,
};
use nix::unistd::{SysconfVar, sysconf};
use object::Endianness;
use object::elf::{self, ProgramHeader64};
use object::read::elf::{ProgramHeader, SectionHeader};

use super::super::elf::headers::{ENDIAN, Headers};
use super::super::elf::machine::Machine;
use super::super::elf::untrusted::{ExamineBudget, LimitedFile};
use super::rule::UnwindRule;
use crate::model::Name;

/// The start of `.eh_frame_hdr`: its version, and that both columns of its table are relative to it (`DW_EH_PE_datarel |
/// DW_EH_PE_sdata4`). Linkers write no other one.
const TABLE_START: [u8; 4] = [1, 0x1b, 3, 0x3b];
/// The longest entry of `.eh_frame`, in bytes.
const LONGEST_ENTRY: usize = 1 << 16;
/// Functions in a table that the file lacks, at most, and bytes of `.eh_frame` for each.
const MAX_FUNCTIONS: usize = 1 << 16;
const FUNCTION_BYTES: usize = 64;
/// Executable segments of a file, at most: linkers make one or two.
const MAX_SEGMENTS: usize = 16;

/// A section of these entries. On aarch64, they say where return addresses are signed.
fn section_of(bytes: &[u8]) -> EhFrame<Bytes<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_vendor(if cfg!(target_arch = "aarch64") { Vendor::AArch64 } else { Vendor::Default });
    section
}

/// Size of the pages that are mapped, in bytes: 4096, or on aarch64 up to 64 KiB.
static PAGE: LazyLock<u64> = LazyLock::new(|| {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0).unwrap_or(4096)
});

type Bytes<'b> = EndianSlice<'b, LittleEndian>;

/// A file with code.
#[derive(Debug)]
pub(super) struct CodeFile {
    /// A number that no other file has.
    pub(super) number: u32,
    /// The name of the file, without directory.
    pub(super) name: Name,
    pub(super) file: File,
    /// The executable parts of the file, and the address of each in the file's own terms.
    pub(super) segments: Vec<(Range<u64>, u64)>,
    rules: Section,
    /// `.eh_frame_hdr`, which finds rules by addresses. At 0 if there is none.
    table: Section,
    /// The rows of a table that is made where `.eh_frame_hdr` is missing, as in static programs: where a function begins, and the
    /// address of its entry in `.eh_frame`.
    made_table: Vec<[u64; 2]>,
}

/// A place in the code of a file, in the file's own terms.
pub(super) struct CodePlace {
    pub(super) file: Arc<CodeFile>,
    pub(super) address: u64,
}

/// The address of a section, and its place in the file.
#[derive(Clone, Copy, Debug, Default)]
struct Section {
    address: u64,
    place: u64,
}

impl CodeFile {
    /// Reads the headers; `None` if it is no ELF file for this machine, or takes too much.
    pub(super) fn open(file: File, (number, name): (u32, Name), budget: &ExamineBudget) -> Option<Self> {
        let limited = LimitedFile::new(&file, budget);
        let headers = Headers::parse(Machine::NATIVE, &limited).ok()?;
        let is_code = |part: &&ProgramHeader64<Endianness>| {
            part.p_type(ENDIAN) == elf::PT_LOAD && part.p_flags(ENDIAN).contains(elf::PF_X)
        };
        let segment = |part: &ProgramHeader64<Endianness>| {
            let start = part.p_offset(ENDIAN);
            (start..start.saturating_add(part.p_filesz(ENDIAN)), part.p_vaddr(ENDIAN))
        };
        let segments = headers.segments.iter().filter(is_code).take(MAX_SEGMENTS).map(segment).collect();
        let section = |name: &[u8]| {
            let (_, section) = headers.sections.section_by_name(ENDIAN, name)?;
            Some(Section { address: section.sh_addr(ENDIAN), place: section.file_range(ENDIAN)?.0 })
        };
        let [rules, table] = [&b".eh_frame"[..], b".eh_frame_hdr"].map(|name| section(name).unwrap_or_default());
        let made_table = if table.place == 0 { made_table(&headers, rules.address) } else { None };
        drop(limited);
        Some(Self { number, name, file, segments, rules, table, made_table: made_table.unwrap_or_default() })
    }

    /// The file's own address for the start of a mapping at this offset. Segments can share a page of the file: the mapping is of
    /// the one that begins in its first page, or before.
    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        let page = *PAGE;
        let is_of = |range: &Range<u64>| (range.start / page * page..range.end).contains(&offset);
        let (range, address) = self.segments.iter().rev().find(|(range, _)| is_of(range))?;
        Some(address.wrapping_add(offset).wrapping_sub(range.start))
    }

    /// The rule for an address in the file's own terms.
    pub(super) fn rule(&self, address: u64, context: &mut UnwindContext<usize>) -> Option<UnwindRule> {
        self.with_entry(address, |entry, section, bases| {
            let row = entry.unwind_info_for_address(section, bases, context, address).ok()?;
            let (returns_to, is_of_signal) = (entry.cie().return_address_register(), entry.is_signal_trampoline());
            UnwindRule::new::<EhFrame<Bytes<'_>>>(section, row, returns_to, is_of_signal)
        })
    }

    /// Where the function around an address begins, in the file's own terms.
    pub(super) fn function_start(&self, address: u64) -> Option<u64> {
        self.with_entry(address, |entry, _, _| Some(entry.initial_address()))
    }

    /// Reads the entry of `.eh_frame` for an address.
    fn with_entry<T>(
        &self,
        address: u64,
        read: impl FnOnce(&FrameDescriptionEntry<Bytes<'_>>, &EhFrame<Bytes<'_>>, &BaseAddresses) -> Option<T>,
    ) -> Option<T> {
        let description = self.description(address)?;
        let place = description.wrapping_sub(self.rules.address).wrapping_add(self.rules.place);
        // The entry, and what it has in common with others, are made a section of their own.
        let back = u64::from(self.word(place.checked_add(4)?)?);
        let mut bytes = self.entry(place.checked_add(4)?.checked_sub(back)?)?;
        let common = bytes.len();
        bytes.extend(self.entry(place)?);
        let distance = u32::try_from(common + 4).ok()?;
        bytes.get_mut(common + 4..common + 8)?.copy_from_slice(&distance.to_le_bytes());
        let bases = BaseAddresses::default().set_eh_frame(description.wrapping_sub(u64::try_from(common).ok()?));
        let section = section_of(&bytes);
        let entry = section.fde_from_offset(&bases, common.into(), EhFrame::cie_from_offset).ok()?;
        let entry = Some(entry).filter(|entry| entry.contains(address))?;
        read(&entry, &section, &bases)
    }

    /// The address of the entry that may describe an address: the last one in the table that begins before.
    fn description(&self, address: u64) -> Option<u64> {
        let Section { address: base, place } = self.table;
        if place == 0 {
            let next = self.made_table.partition_point(|[start, _]| *start <= address);
            return Some(self.made_table.get(next.checked_sub(1)?)?[1]);
        }
        if self.read(place)? != TABLE_START {
            return None;
        }
        let row = |number: u64| {
            let row: [u8; 8] = self.read(place.checked_add(12 + 8 * number)?)?;
            let column = |at: usize| Some(i32::from_le_bytes(*row.get(at..)?.first_chunk()?));
            let absolute = |column: i32| base.wrapping_add_signed(column.into());
            Some([absolute(column(0)?), absolute(column(4)?)])
        };
        let (mut low, mut high) = (0, u64::from(self.word(place + 8)?));
        while high.checked_sub(low)? > 1 {
            let middle = low.midpoint(high);
            if row(middle)?[0] <= address { low = middle } else { high = middle }
        }
        Some(row(low)?[1])
    }

    /// An entry of `.eh_frame`, with its length.
    fn entry(&self, place: u64) -> Option<Vec<u8>> {
        let length = usize::try_from(self.word(place)?).ok()?.checked_add(4)?;
        let mut bytes = vec![0; Some(length).filter(|length| (8..LONGEST_ENTRY).contains(length))?];
        self.file.read_exact_at(&mut bytes, place).ok()?;
        Some(bytes)
    }

    fn word(&self, place: u64) -> Option<u32> {
        self.read(place).map(u32::from_le_bytes)
    }

    fn read<const BYTES: usize>(&self, place: u64) -> Option<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        self.file.read_exact_at(&mut bytes, place).ok()?;
        Some(bytes)
    }
}

fn made_table<'d>(headers: &Headers<'d, &'d LimitedFile<'_>>, address: u64) -> Option<Vec<[u64; 2]>> {
    let (_, section) = headers.sections.section_by_name(ENDIAN, b".eh_frame")?;
    let is_small = usize::try_from(section.sh_size(ENDIAN)).is_ok_and(|bytes| bytes <= MAX_FUNCTIONS * FUNCTION_BYTES);
    Some(table_of(section.data(ENDIAN, headers.data).ok().filter(|_| is_small)?, address))
}

/// The table for these entries, which begin at an address. Compilers write all starts of functions as 4 bytes relative to their
/// place (`DW_EH_PE_pcrel | DW_EH_PE_sdata4`); what else there is finds no entry that contains the address.
fn table_of(entries: &[u8], address: u64) -> Vec<[u64; 2]> {
    let (mut table, mut at) = (Vec::new(), 0);
    let word = |at: usize| entries.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    // An empty entry ends the part of an object file.
    while let Some(length) = word(at).and_then(|length| usize::try_from(length).ok()) {
        let entry = address.wrapping_add(u64::try_from(at).unwrap_or(u64::MAX));
        if let Some([back, distance]) = word(at + 4).zip(word(at + 8)).map(<[u32; 2]>::from)
            && length > 0
            && back > 0
        {
            table.push([entry.wrapping_add(8).wrapping_add_signed(distance.cast_signed().into()), entry]);
        }
        let next = at.checked_add(4).and_then(|at| at.checked_add(length));
        let Some(next) = next.filter(|_| table.len() < MAX_FUNCTIONS) else { break };
        at = next;
    }
    table.sort_unstable();
    table
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::super::super::elf::untrusted::SharedBudget;
    use super::*;

    fn opened(file: File) -> Option<CodeFile> {
        CodeFile::open(file, (1, "test".into()), &SharedBudget::default().of_file())
    }

    #[test]
    fn a_sparse_file_of_4_gib_with_headers_anywhere_is_examined_at_once() {
        let mut header = vec![0; 64];
        File::open("/proc/self/exe").unwrap().read_exact_at(&mut header, 0).unwrap();
        for (table, rows) in [(40, 0xfffe_u16), (32, 0xfffe), (40, 0)] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(4 << 30).unwrap();
            header[table..table + 8].copy_from_slice(&(3_u64 << 30).to_le_bytes());
            for count in [56, 60] {
                header[count..count + 2].copy_from_slice(&rows.to_le_bytes());
            }
            file.write_all_at(&header, 0).unwrap();
            assert!(file.metadata().unwrap().blocks() < 1000);
            let code = opened(file);
            assert!(code.is_none_or(|code| code.rule(0x1000, &mut UnwindContext::new()).is_none()));
        }
        assert!(opened(File::open("/dev/null").unwrap()).is_none());
    }

    #[test]
    fn entries_that_claim_any_length_or_place_are_no_rules() {
        let file = tempfile::tempfile().unwrap();
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        for (length, back) in [(u32::MAX, 0), (8, u32::MAX), (8, 0), (1 << 20, 4), (0, 0)] {
            // The table of one row at 0, whose description is at 64.
            let table = words(&[0x3b03_1b01, 0, 1, 0x1000, 64]);
            file.write_all_at(&table, 0).unwrap();
            file.write_all_at(&words(&[length, back, 0, 0]), 64).unwrap();
            let mut code = opened(File::open("/proc/self/exe").unwrap()).unwrap();
            code.file = file.try_clone().unwrap();
            (code.rules, code.table) = (Section { address: 0, place: 0 }, Section { address: 0, place: 16 });
            file.write_all_at(&table, 16).unwrap();
            assert_eq!(code.rule(0x2000, &mut UnwindContext::new()), None, "{length} {back}");
        }
    }

    #[test]
    fn a_file_whose_linker_wrote_no_table_has_the_same_rules() {
        let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds/code");
        for seed in ["c.so", "cc.so"] {
            let mut bytes = std::fs::read(seeds.join(seed)).unwrap();
            let code = opened(File::open(seeds.join(seed)).unwrap()).unwrap();
            let name = bytes.windows(14).position(|name| name == b".eh_frame_hdr\0").unwrap();
            bytes[name + 1] = b'-';
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            let without = opened(file).unwrap();
            assert!(without.table.place == 0 && !without.made_table.is_empty());
            let rules = |code: &CodeFile| {
                let (range, address) = code.segments[0].clone();
                let rules = (0..range.end - range.start).map(|place| address + place);
                rules.map(|at| (code.rule(at, &mut UnwindContext::new()), code.function_start(at))).collect::<Vec<_>>()
            };
            let expected = rules(&code);
            assert!(expected.iter().filter(|(rule, _)| rule.is_some()).count() > 100);
            assert!(expected == rules(&without), "{seed}");
        }
    }

    #[test]
    fn a_table_of_entries_of_any_length_has_a_bounded_size() {
        for entry in [[0_u8; 12], [0xff; 12], [8, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]] {
            let rows = table_of(&entry.repeat(2 * MAX_FUNCTIONS), u64::MAX);
            assert!(rows.len() <= MAX_FUNCTIONS && rows.is_sorted());
        }
        assert_eq!(table_of(&[8, 0, 0, 0, 1, 0], 0), Vec::<[u64; 2]>::new());
    }

    #[test]
    fn the_own_code_has_rules() {
        let code = opened(File::open("/proc/self/exe").unwrap()).unwrap();
        let (range, address) = code.segments[0].clone();
        assert_eq!(code.address_of(range.start), Some(address));
        assert_eq!(code.address_of(u64::MAX), None);
        let places = (0..1000).map(|place| address + (range.end - range.start) / 1000 * place);
        let found = places.filter(|place| code.rule(*place, &mut UnwindContext::new()).is_some()).count();
        assert!(found > 900, "{found} of 1000");
        let middle = address + (range.end - range.start) / 2;
        let start = (0..100).find_map(|back| code.function_start(middle - 16 * back)).unwrap();
        assert_eq!((code.function_start(start), code.function_start(start + 1)), (Some(start), Some(start)));
        assert_eq!(code.function_start(u64::MAX), None);
    }
}
