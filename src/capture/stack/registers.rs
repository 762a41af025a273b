//! The registers that unwinding needs: where the kernel saves them, and their numbers in DWARF.

use crate::model::CODE_REGISTERS;

/// Registers by their numbers in DWARF; `None` for lost ones.
pub(super) type Registers = [Option<u64>; COUNT];

/// More than the largest number that is used.
pub(super) const COUNT: usize = 33;

/// The registers in the order of a sample: the member of the kernel's `struct pt_regs`, and the number in DWARF.
#[cfg(target_arch = "x86_64")]
pub(in crate::capture) const SAMPLED: [(&str, usize); CODE_REGISTERS] = [
    ("ip | rip", INSTRUCTION),
    ("sp | rsp", STACK),
    ("bp | rbp", FRAME),
    ("bx | rbx", 3),
    ("r12", 12),
    ("r13", 13),
    ("r14", 14),
    ("r15", 15),
];
#[cfg(not(target_arch = "x86_64"))]
pub(in crate::capture) const SAMPLED: [(&str, usize); CODE_REGISTERS] = [
    ("pc", INSTRUCTION),
    ("sp", STACK),
    ("regs[29]", FRAME),
    ("regs[30]", 30),
    ("regs[19]", 19),
    ("regs[20]", 20),
    ("regs[21]", 21),
    ("regs[22]", 22),
    ("regs[23]", 23),
    ("regs[24]", 24),
    ("regs[25]", 25),
    ("regs[26]", 26),
    ("regs[27]", 27),
    ("regs[28]", 28),
];

/// The bits of the same registers in `arch/*/include/uapi/asm/perf_regs.h`.
#[cfg(target_arch = "x86_64")]
pub(in crate::capture) const PERF_BITS: [u32; CODE_REGISTERS] = [8, 7, 6, 1, 20, 21, 22, 23];
#[cfg(not(target_arch = "x86_64"))]
pub(in crate::capture) const PERF_BITS: [u32; CODE_REGISTERS] =
    [32, 31, 29, 30, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28];

#[cfg(target_arch = "x86_64")]
mod numbers {
    pub(in super::super) const INSTRUCTION: usize = 16;
    pub(in super::super) const STACK: usize = 7;
    pub(in super::super) const FRAME: usize = 6;
}
#[cfg(not(target_arch = "x86_64"))]
mod numbers {
    pub(in super::super) const INSTRUCTION: usize = 32;
    pub(in super::super) const STACK: usize = 31;
    pub(in super::super) const FRAME: usize = 29;
}
pub(super) use self::numbers::{FRAME, INSTRUCTION, STACK};

/// The registers of a sample, by their numbers.
pub(super) fn numbered(sampled: &[u64; CODE_REGISTERS]) -> Registers {
    let mut registers = [None; COUNT];
    SAMPLED.iter().zip(sampled).for_each(|((_, number), value)| registers[*number] = Some(*value));
    registers
}

/// A return address without what processors add to sign it (pointer authentication of arm64).
pub(super) fn address_of(signed: u64) -> u64 {
    const USER_BITS: u64 = (1 << 48) - 1;
    if cfg!(target_arch = "x86_64") { signed } else { signed & USER_BITS }
}
