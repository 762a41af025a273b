//! The location of the counters in a module, from an ELF file, its debug information and the table of
//! known builds.

use object::{Object, ObjectSection, ReadRef};

use super::dwarf;
use super::elf::{File, Symbol, base, slot, symbol};
use super::layouts::{self, Offsets};
use super::machine::{Machine, Tls};
use super::untrusted::ReadInto;
use crate::model::ProbeFailure;

/// How much is searched at once.
const PART: usize = 1 << 18;
/// Debug information that takes more bytes of memory is only read for unknown builds.
const LARGE: u64 = 16 << 20;

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

/// The location of the counters in a module: the layout of its thread-specific data (TSD).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TsdLayout {
    /// Offsets of the counters in the thread-specific data.
    pub offsets: Offsets,
    /// How they were found.
    pub route: Route,
    machine: Machine,
    tls: Tls,
    /// Offset of the thread-specific data in the block.
    pub(super) value: u64,
    /// Where the dynamic linker stores the distance from the thread pointer, as an address in the file;
    /// `None` if unknown.
    pub(super) slot: Option<u64>,
    /// Lowest address of the file that is mapped.
    pub(super) base: u64,
}

/// The layout by the file's own debug information, by that of its separate file `debug`, or by the table
/// of known builds.
pub(super) fn locate<'d, 'f, R: ReadInto<'d>, S: ReadRef<'f>>(
    machine: Machine,
    file: &File<'d, R>,
    tls: Tls,
    debug: Option<&File<'f, S>>,
    split: &dyn dwarf::Split,
) -> Result<TsdLayout, ProbeFailure> {
    let symbol = symbol(file).or_else(|| debug.and_then(symbol));
    let placed = |symbol: Symbol, offsets: Offsets, route| {
        // A wrong symbol must not point outside the block.
        let end =
            symbol.value.checked_add(offsets.allocated.max(offsets.deallocated)).and_then(|end| end.checked_add(8));
        if end.is_none_or(|end| end > tls.size) {
            return Err(ProbeFailure::TlsArithmetic);
        }
        let (value, base) = (symbol.value, base(file));
        Ok(TsdLayout { offsets, route, machine, tls, value, slot: slot(machine, file, value), base })
    };
    let Some(symbol) = symbol else {
        let constants = file.section_by_name(".rodata").and_then(|section| section.file_range());
        let version = constants.and_then(|range| version(file.data(), range)).ok_or(ProbeFailure::JemallocNotFound)?;
        let offsets = layouts::by_size(machine, tls.size, Some(&version)).ok_or(ProbeFailure::UnknownLayout)?;
        return placed(Symbol { value: 0, size: tls.size }, offsets, Route::Version);
    };
    let mut failed = false;
    let mut members = |found: Result<Option<Offsets>, ProbeFailure>| {
        found.unwrap_or_else(|_| {
            failed = true;
            None
        })
    };
    let known = layouts::by_size(machine, symbol.size, None);
    let memory = dwarf::memory(file).max(debug.map_or(0, dwarf::memory));
    let is_needed = known.is_none() || memory <= LARGE;
    let in_debug_info = is_needed
        .then(|| members(dwarf::members(file, split)).or_else(|| members(dwarf::members(debug?, split))))
        .flatten();
    match (in_debug_info, known) {
        (Some(offsets), _) => placed(symbol, offsets, Route::Dwarf),
        (None, Some(offsets)) => placed(symbol, offsets, Route::Symbol),
        (None, None) => Err(if failed { ProbeFailure::DwarfParseFailure } else { ProbeFailure::UnknownLayout }),
    }
}

/// The version of jemalloc by its text in `size` bytes from `start`, which can be half of a large program.
fn version<'d>(data: impl ReadInto<'d>, (start, size): (u64, u64)) -> Option<String> {
    let mut buffer = vec![0; PART];
    // Parts overlap, so that one of them has the whole text.
    let parts = (0..size).step_by(PART - layouts::LONGEST_VERSION).map_while(|at| {
        let part = usize::try_from(size - at).map_or(PART, |left| left.min(PART));
        data.read_into(start.checked_add(at)?, &mut buffer[..part])?;
        Some(layouts::version(&buffer[..part]).map(str::to_owned))
    });
    parts.flatten().next()
}

impl TsdLayout {
    /// Distance from the thread pointer to the thread-specific data of a main executable.
    pub(super) fn static_distance(&self) -> Option<i64> {
        self.machine.static_distance(self.tls, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_between_two_parts_is_found() {
        let text = b"15.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c";
        for at in [0, PART - 80, PART - 64, PART - 50, PART - 14, PART - 1, PART, 2 * PART] {
            let mut bytes = vec![b' '; 2 * PART + 100];
            bytes[at..at + text.len()].copy_from_slice(text);
            let size = u64::try_from(bytes.len()).unwrap();
            assert_eq!(version(&bytes[..], (0, size)).as_deref(), Some("15.3.0"), "{at}");
        }
    }

    #[test]
    fn a_section_of_any_size_takes_one_failed_read() {
        assert_eq!(version(&b"short"[..], (0, u64::MAX)), None);
        assert_eq!(version(&b"short"[..], (u64::MAX, u64::MAX)), None);
    }
}
