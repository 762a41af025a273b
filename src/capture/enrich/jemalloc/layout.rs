//! The location of the counters in a module, from an ELF file, its debug information and the table of
//! known builds.

use object::{Object, ReadRef};

use super::dwarf;
use super::elf::{File, Symbol, Tls, base, bounded, slot, symbol};
use super::layouts::{self, Offsets};
use super::tag::Tag;
use super::untrusted::MAX_READ;

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
pub(super) fn locate<'d, 'f, R: ReadRef<'d>, S: ReadRef<'f>>(
    file: &File<'d, R>,
    tls: Tls,
    debug: Option<&File<'f, S>>,
    split: &dyn dwarf::Split,
) -> Result<TsdLayout, Tag> {
    let symbol = symbol(file).or_else(|| debug.and_then(symbol));
    let placed = |symbol: Symbol, offsets: Offsets, route| {
        // A wrong symbol must not point outside the block.
        let end =
            symbol.value.checked_add(offsets.allocated.max(offsets.deallocated)).and_then(|end| end.checked_add(8));
        if end.is_none_or(|end| end > tls.size) {
            return Err(Tag::TlsArithmetic);
        }
        let (value, base) = (symbol.value, base(file));
        Ok(TsdLayout { offsets, route, tls, value, slot: slot(file, value), base })
    };
    let Some(symbol) = symbol else {
        let rodata = file
            .section_by_name(".rodata")
            .and_then(|section| bounded(&section, &mut MAX_READ.clone()))
            .unwrap_or_default();
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
