//! The offsets of `tsd_s` members in debug information: of the file, or split off into others.

use std::borrow::Cow;

use gimli::{
    AttributeValue, DW_AT_byte_size, DW_AT_data_member_location, DW_AT_language, DW_AT_name, DW_LANG_C, DW_LANG_C11,
    DW_LANG_C89, DW_LANG_C99, DW_TAG_member, DW_TAG_structure_type, Dwarf, DwarfPackage, DwoId, EndianSlice,
    LittleEndian, SectionId, Unit,
};
use object::{Object, ReadRef};

use super::elf::{File, bounded};
use super::layouts::Offsets;
use super::tag::Tag;

type Slice<'s> = EndianSlice<'s, LittleEndian>;

/// Where split debug information is found.
pub(super) trait Split {
    /// The bytes of the package of the program's split units, its `.dwp`.
    fn package(&self) -> Option<Vec<u8>>;

    /// The bytes of the file of one split unit, its `.dwo`.
    fn unit(&self, directory: &[u8], name: &[u8]) -> Option<Vec<u8>>;
}

/// Offsets of the two counters, if the file's debug information tells them.
pub(super) fn members<'d, R: ReadRef<'d>>(file: &File<'d, R>, split: &dyn Split) -> Result<Option<Offsets>, Tag> {
    if file.section_by_name(".debug_info").is_none() {
        return Ok(None);
    }
    let sections = gimli::DwarfSections::load(|id| section(file, id.name()))?;
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    of_units(&dwarf, split).map_err(|_| Tag::DwarfParseFailure)
}

fn section<'d, R: ReadRef<'d>>(file: &File<'d, R>, name: &str) -> Result<Cow<'d, [u8]>, Tag> {
    match file.section_by_name(name) {
        Some(section) => bounded(&section).ok_or(Tag::DwarfParseFailure),
        None => Ok(Cow::Borrowed(&[])),
    }
}

/// A section of a split file; some have none there.
fn split_section<'d>(file: &File<'d, &'d [u8]>, id: SectionId) -> Result<Cow<'d, [u8]>, Tag> {
    id.dwo_name().map_or(Ok(Cow::Borrowed(&[])), |name| section(file, name))
}

fn of_units(dwarf: &Dwarf<Slice<'_>>, split: &dyn Split) -> gimli::Result<Option<Offsets>> {
    let mut package = None;
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let found = match unit.dwo_id {
            Some(id) if unit.dwo_name()?.is_some() => of_split(dwarf, &unit, id, split, &mut package)?,
            _ => of_unit(dwarf, &unit)?,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    of_type_units(dwarf)
}

/// Types that have units of their own: `.debug_types` of version 4.
fn of_type_units(dwarf: &Dwarf<Slice<'_>>) -> gimli::Result<Option<Offsets>> {
    let mut units = dwarf.type_units();
    while let Some(header) = units.next()? {
        if let Some(offsets) = of_unit(dwarf, &dwarf.unit(header)?)? {
            return Ok(Some(offsets));
        }
    }
    Ok(None)
}

/// The rest of a unit of which only the skeleton is in the file.
fn of_split(
    dwarf: &Dwarf<Slice<'_>>,
    skeleton: &Unit<Slice<'_>>,
    id: DwoId,
    split: &dyn Split,
    package: &mut Option<Option<Vec<u8>>>,
) -> gimli::Result<Option<Offsets>> {
    if let Some(bytes) = package.get_or_insert_with(|| split.package()) {
        return of_package(id, bytes);
    }
    let Some(name) = skeleton.dwo_name()? else { return Ok(None) };
    let name = dwarf.attr_string(skeleton, name)?;
    let directory = skeleton.comp_dir.map(|directory| directory.slice()).unwrap_or_default();
    let Some(bytes) = split.unit(directory, name.slice()) else { return Ok(None) };
    let Ok(file) = File::parse(bytes.as_slice()) else { return Ok(None) };
    let load = |id: SectionId| split_section(&file, id);
    let Ok(sections) = gimli::DwarfSections::load(load) else { return Ok(None) };
    let mut own = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    // What it would take from its parent are addresses, which nothing here needs.
    own.make_dwo(&Dwarf::default());
    of_all(&own)
}

fn of_package(id: DwoId, bytes: &[u8]) -> gimli::Result<Option<Offsets>> {
    let Ok(file) = File::parse(bytes) else { return Ok(None) };
    let load = |id: SectionId| split_section(&file, id);
    let Ok(sections) = gimli::DwarfPackageSections::load(|id| load(id).map_err(|_| gimli::Error::Io)) else {
        return Ok(None);
    };
    let empty = EndianSlice::new(&[], LittleEndian);
    let package: DwarfPackage<Slice<'_>> = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian), empty)?;
    match package.find_cu(id, &Dwarf::default())? {
        Some(unit) => of_all(&unit),
        None => Ok(None),
    }
}

fn of_all(dwarf: &Dwarf<Slice<'_>>) -> gimli::Result<Option<Offsets>> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        if let Some(offsets) = of_unit(dwarf, &unit)? {
            return Ok(Some(offsets));
        }
    }
    of_type_units(dwarf)
}

/// Looks through a unit, if it is one of C: a large program has thousands of others.
fn of_unit(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>) -> gimli::Result<Option<Offsets>> {
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

/// The member of that name. Versions from 5.0 on put a warning in front of it.
fn member(name: &[u8]) -> Option<Member> {
    const WARNINGS: [&[u8]; 3] =
        [b"cant_access_tsd_items_directly_use_a_getter_or_setter_", b"use_a_getter_or_setter_instead_", b""];
    match WARNINGS.iter().find_map(|warning| name.strip_prefix(*warning))? {
        b"thread_allocated" => Some(Member::Allocated),
        b"thread_deallocated" => Some(Member::Deallocated),
        _ => None,
    }
}
