//! The offsets of `tsd_s` members from debug information.

use std::borrow::Cow;

use gimli::{
    AttributeValue, DW_AT_byte_size, DW_AT_data_member_location, DW_AT_language, DW_AT_name, DW_LANG_C, DW_LANG_C11,
    DW_LANG_C89, DW_LANG_C99, DW_TAG_member, DW_TAG_structure_type, Dwarf, EndianSlice, LittleEndian, SectionId, Unit,
};
use object::read::elf::ElfSection64;
use object::{Endianness, Object, ObjectSection, ReadRef};

use super::super::super::elf::headers::{File, Headers, bounded};
use super::super::super::elf::untrusted::ExamineBudget;
use super::layouts::Offsets;
use crate::model::ProbeFailure;

type Slice<'s> = EndianSlice<'s, LittleEndian>;

/// The sections that are read: not those about code.
const READ: [SectionId; 7] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// A file with its sections, if it has debug information.
fn described<'d, R: ReadRef<'d>>(headers: &Headers<'d, R>) -> Option<File<'d, R>> {
    let is_described = headers.has_section(b".debug_info") || headers.has_section(b".zdebug_info");
    if is_described { File::parse(headers.data).ok() } else { None }
}

/// How much memory the file's debug information takes, in bytes.
pub(super) fn memory<'d, R: ReadRef<'d>>(headers: &Headers<'d, R>) -> u64 {
    let Some(file) = described(headers) else { return 0 };
    let sections = READ.iter().filter_map(|id| file.section_by_name(id.name()));
    let size = |section: ElfSection64<'d, '_, Endianness, R>| {
        section.compressed_file_range().map(|range| range.uncompressed_size)
    };
    sections.filter_map(|section| size(section).ok()).fold(0, u64::saturating_add)
}

/// Offsets of the two counters, if the file's debug information has them.
pub(super) fn members<'d, R: ReadRef<'d>>(
    headers: &Headers<'d, R>,
    budget: &ExamineBudget,
) -> Result<Option<Offsets>, ProbeFailure> {
    let Some(file) = &described(headers) else { return Ok(None) };
    let load = |id: SectionId| {
        if READ.contains(&id) { section(file, id.name(), budget) } else { Ok(Cow::Borrowed(&[][..])) }
    };
    let sections = gimli::DwarfSections::load(load)?;
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    offsets_in_units(&dwarf, budget).map_err(|_| ProbeFailure::DwarfParseFailure)
}

fn section<'d, R: ReadRef<'d>>(
    file: &File<'d, R>,
    name: &str,
    budget: &ExamineBudget,
) -> Result<Cow<'d, [u8]>, ProbeFailure> {
    match file.section_by_name(name) {
        Some(section) => bounded(&section, budget).ok_or(ProbeFailure::DwarfParseFailure),
        None => Ok(Cow::Borrowed(&[])),
    }
}

fn offsets_in_units(dwarf: &Dwarf<Slice<'_>>, budget: &ExamineBudget) -> gimli::Result<Option<Offsets>> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        // Each unit can have the abbreviations of all others.
        if !budget.has_time() {
            return Err(gimli::Error::Io);
        }
        if let Some(offsets) = offsets_in_unit(dwarf, &dwarf.unit(header)?)? {
            return Ok(Some(offsets));
        }
    }
    Ok(None)
}

/// Searches a unit if it is written in C: a large program has thousands of others.
fn offsets_in_unit(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>) -> gimli::Result<Option<Offsets>> {
    let mut entries = unit.entries();
    let Some(root) = entries.next_dfs()? else { return Ok(None) };
    let c = [DW_LANG_C, DW_LANG_C89, DW_LANG_C99, DW_LANG_C11];
    match root.attr_value(DW_AT_language) {
        Some(AttributeValue::Language(language)) if !c.contains(&language) => return Ok(None),
        _ => {}
    }
    let mut inside = None;
    let mut found = (None, None);
    while let Some(entry) = entries.next_dfs()? {
        let depth = entry.depth();
        if inside.is_some_and(|at| depth <= at) {
            inside = None;
            found = (None, None);
        }
        let name = || entry.attr_value(DW_AT_name).and_then(|name| dwarf.attr_string(unit, name).ok());
        if entry.tag() == DW_TAG_structure_type && entry.attr(DW_AT_byte_size).is_some() {
            if name().is_some_and(|name| name.slice() == b"tsd_s") {
                inside = Some(depth);
            }
        } else if entry.tag() == DW_TAG_member && inside.is_some_and(|at| depth == at + 1) {
            let offset = entry.attr_value(DW_AT_data_member_location).and_then(|value| value.udata_value());
            match name().and_then(|name| member(name.slice())) {
                Some(Member::Allocated) => found.0 = offset,
                Some(Member::Deallocated) => found.1 = offset,
                None => {}
            }
            if let (Some(allocated), Some(deallocated)) = found {
                return Ok(Some(Offsets { allocated, deallocated }));
            }
        }
    }
    Ok(None)
}

enum Member {
    Allocated,
    Deallocated,
}

/// The member with that name. Since 5.0, names start with a warning.
fn member(name: &[u8]) -> Option<Member> {
    const WARNINGS: [&[u8]; 3] =
        [b"cant_access_tsd_items_directly_use_a_getter_or_setter_", b"use_a_getter_or_setter_instead_", b""];
    match WARNINGS.iter().find_map(|warning| name.strip_prefix(*warning))? {
        b"thread_allocated" => Some(Member::Allocated),
        b"thread_deallocated" => Some(Member::Deallocated),
        _ => None,
    }
}
