//! The machines whose programs are read, and how each places thread-local storage.

use object::elf;

/// The block of thread-local storage of a module: `PT_TLS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) struct Tls {
    pub(in crate::capture) address: u64,
    pub(in crate::capture) size: u64,
    pub(in crate::capture) align: u64,
}

/// A processor architecture that programs are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Machine {
    /// Machine of type x86-64.
    X86_64,
    /// Machine of type AArch64.
    Aarch64,
}

impl Machine {
    /// The machine that ctprof runs on. On others, no program is of this machine.
    pub(in crate::capture) const NATIVE: Self =
        if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    /// The machine in an ELF header.
    pub(in crate::capture) fn in_header(self) -> elf::Machine {
        match self {
            Self::X86_64 => elf::EM_X86_64,
            Self::Aarch64 => elf::EM_AARCH64,
        }
    }

    /// The relocation of a slot that the dynamic linker fills with the distance of an object from the thread pointer.
    pub(in crate::capture) fn distance_relocation(self) -> elf::RelocationType {
        match self {
            Self::X86_64 => elf::R_X86_64_TPOFF64,
            Self::Aarch64 => elf::R_AARCH64_TLS_TPREL,
        }
    }

    /// Distance from the thread pointer to the object at `value` in the block of a main executable.
    pub(in crate::capture) fn static_distance(self, block: Tls, value: u64) -> Option<i64> {
        let Tls { address, size, align } = block;
        match self {
            // Below the thread pointer, so that the block keeps its alignment.
            Self::X86_64 => {
                let block = size.checked_add(address.wrapping_add(size).wrapping_neg() & (align - 1))?;
                i64::try_from(value).ok()?.checked_sub(i64::try_from(block).ok()?)
            }
            // Above it, after two words of the thread control block.
            Self::Aarch64 => {
                let gap = 16 + (address.wrapping_sub(16) & (align - 1));
                i64::try_from(gap.checked_add(value)?).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance of the object at `value` in a block with that address, size and alignment.
    fn distance(machine: Machine, [address, size, align]: [u64; 3], value: u64) -> Option<i64> {
        machine.static_distance(Tls { address, size, align }, value)
    }

    #[test]
    fn the_block_of_an_executable_ends_at_the_thread_pointer_of_x86_64() {
        for (block, value, expected) in [
            ([0x1000, 0x100, 0x10], 0, -0x100),
            ([0x1000, 0x101, 0x10], 0, -0x110),
            ([0x1000, 0x101, 0x10], 0x20, -0xf0),
            // An address that is not a multiple of the alignment.
            ([0x1008, 0x100, 0x10], 0, -0x108),
        ] {
            assert_eq!(distance(Machine::X86_64, block, value), Some(expected), "{block:x?}");
        }
    }

    #[test]
    fn the_block_of_an_executable_starts_two_words_above_the_thread_pointer_of_arm64() {
        for (block, value, expected) in [
            ([0x1000, 0x100, 8], 0, 0x10),
            ([0x1000, 0x100, 0x10], 0x20, 0x30),
            ([0x1000, 0x100, 0x40], 0, 0x40),
            // The first address after these words with the same remainder.
            ([0x1008, 0x100, 0x10], 0, 0x18),
            ([0x1008, 0x100, 0x40], 0, 0x48),
        ] {
            assert_eq!(distance(Machine::Aarch64, block, value), Some(expected), "{block:x?}");
        }
    }

    #[test]
    fn wrong_sizes_do_not_overflow() {
        for machine in [Machine::X86_64, Machine::Aarch64] {
            assert_eq!(distance(machine, [u64::MAX, u64::MAX, 1 << 63], u64::MAX), None);
            assert_eq!(distance(machine, [0, 1, 1], u64::MAX), None);
        }
        assert_eq!(distance(Machine::X86_64, [0, u64::MAX, 1], 0), None);
    }
}
