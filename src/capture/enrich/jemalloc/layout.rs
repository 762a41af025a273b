//! The location of the counters in a module, from an ELF file, its debug information and the table of
//! known builds.

use super::super::super::elf::headers::Headers;
use super::super::super::elf::machine::{Machine, Tls};
use super::super::super::elf::untrusted::{ExamineBudget, Pieces};
use super::dwarf;
use super::elf::Symbol;
use super::layouts::{self, Offsets};
use crate::model::ProbeFailure;

/// Debug information that takes more bytes of memory is only read for unknown builds.
const LARGE: u64 = 16 << 20;

/// How the layout was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Debug information of the file.
    Dwarf,
    /// The size of the symbol.
    Symbol,
    /// The size of the block of a stripped library.
    Block,
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
    /// Shift of code addresses, from [`Headers::code_shift`].
    pub(super) code_shift: u64,
}

/// Finds the layout by the file's own debug information, by the separate file `debug`, or by the table of known builds.
pub(super) fn locate<'d, 'f, R: Pieces<'d>, S: Pieces<'f>>(
    machine: Machine,
    file: &Headers<'d, R>,
    tls: Tls,
    debug: Option<&Headers<'f, S>>,
    budget: &ExamineBudget,
) -> Result<TsdLayout, ProbeFailure> {
    let symbol = file.symbol().or_else(|| debug.and_then(Headers::symbol));
    let placed = |symbol: Symbol, offsets: Offsets, route| {
        // A wrong symbol must not point outside the block.
        let end =
            symbol.value.checked_add(offsets.allocated.max(offsets.deallocated)).and_then(|end| end.checked_add(8));
        if end.is_none_or(|end| end > tls.size) {
            return Err(ProbeFailure::TlsArithmetic);
        }
        let (value, code_shift) = (symbol.value, file.code_shift());
        Ok(TsdLayout { offsets, route, machine, tls, value, slot: file.slot(machine, value), code_shift })
    };
    let Some(symbol) = symbol else {
        if !file.exports_jemalloc() {
            return Err(ProbeFailure::JemallocNotFound);
        }
        // The block of jemalloc's own library has nothing else in it.
        let offsets = layouts::by_size(machine, tls.size).ok_or(ProbeFailure::UnknownLayout)?;
        return placed(Symbol { value: 0, size: tls.size }, offsets, Route::Block);
    };
    let mut failed = false;
    let mut members = |found: Result<Option<Offsets>, ProbeFailure>| {
        found.unwrap_or_else(|_| {
            failed = true;
            None
        })
    };
    let of_size = layouts::by_size(machine, symbol.size);
    let memory = dwarf::memory(file).max(debug.map_or(0, dwarf::memory));
    let is_needed = of_size.is_none() || memory <= LARGE;
    let in_debug_info = is_needed
        .then(|| members(dwarf::members(file, budget)).or_else(|| members(dwarf::members(debug?, budget))))
        .flatten();
    match (in_debug_info, of_size) {
        (Some(offsets), _) => placed(symbol, offsets, Route::Dwarf),
        (None, Some(offsets)) => placed(symbol, offsets, Route::Symbol),
        (None, None) => Err(if failed { ProbeFailure::DwarfParseFailure } else { ProbeFailure::UnknownLayout }),
    }
}

impl TsdLayout {
    /// Distance from the thread pointer to the thread-specific data of a main executable.
    pub(super) fn static_distance(&self) -> Option<i64> {
        self.machine.static_distance(self.tls, self.value)
    }
}
