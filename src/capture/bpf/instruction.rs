//! A BPF instruction and its encoding, from `Documentation/bpf/standardization/instruction-set.rst`.

/// R0 holds results, R1 to R5 arguments, which calls overwrite; R6 to R9 survive calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// R10, read-only: the end of the program's stack of 512 bytes.
    Frame,
}

/// The size of a value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Width {
    U8,
    U16,
    U32,
    U64,
}

impl Width {
    pub(super) const ALL: [Self; 4] = [Self::U8, Self::U16, Self::U32, Self::U64];

    /// The width of a value of `bytes` bytes; `None` if no single instruction loads it.
    pub(super) fn from_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.bits() == bytes.saturating_mul(8))
    }

    pub(super) const fn bits(self) -> u32 {
        8 << self as u32
    }

    /// `BPF_B`, `BPF_H`, `BPF_W`, `BPF_DW`.
    pub(super) const fn code(self) -> u8 {
        [0x10, 0x08, 0x00, 0x18][self as usize]
    }
}

/// Functions of the kernel that programs may call, with the numbers of `include/uapi/linux/bpf.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Helper {
    MapLookupElem = 1,
    KtimeGetNs = 5,
    ProbeReadKernel = 113,
    ProbeReadKernelStr = 115,
    SeqPrintf = 126,
    SeqWrite = 127,
    RingbufOutput = 130,
    RingbufReserve = 131,
    RingbufSubmit = 132,
    GetTaskStack = 141,
    TaskPtRegs = 175,
}

/// An opcode is a class with, for arithmetic and jumps, an operation and the kind of the second operand, and
/// for memory, a mode and a width.
const JUMP_CLASS: u8 = 0x05;
const ALU64: u8 = 0x07;
const REGISTER_OPERAND: u8 = 0x08;

pub(super) const ADD: u8 = ALU64;
pub(super) const MOVE: u8 = ALU64 | 0xb0;
pub(super) const SHIFT_LEFT: u8 = ALU64 | 0x60;
pub(super) const SHIFT_RIGHT: u8 = ALU64 | 0x70;
pub(super) const SHIFT_RIGHT_SIGNED: u8 = ALU64 | 0xc0;
pub(super) const AND: u8 = ALU64 | 0x50;
pub(super) const ADD_REGISTER: u8 = ADD | REGISTER_OPERAND;
pub(super) const OR_REGISTER: u8 = ALU64 | 0x40 | REGISTER_OPERAND;
pub(super) const MOVE_REGISTER: u8 = MOVE | REGISTER_OPERAND;
pub(super) const JUMP: u8 = JUMP_CLASS;
pub(super) const JUMP_IF_EQUAL: u8 = JUMP_CLASS | 0x10;
pub(super) const JUMP_IF_DIFFERENT: u8 = JUMP_CLASS | 0x50;
pub(super) const JUMP_IF_SET: u8 = JUMP_CLASS | 0x40;
pub(super) const JUMP_IF_REGISTERS_DIFFER: u8 = JUMP_CLASS | 0x50 | REGISTER_OPERAND;
pub(super) const CALL: u8 = JUMP_CLASS | 0x80;
pub(super) const EXIT: u8 = JUMP_CLASS | 0x90;
/// A load of 64 bits, whose upper half is in a second word.
pub(super) const WIDE: u8 = 0x18;

/// Opcode of loads, without their [`Width`].
pub(super) const LOAD: u8 = 0x61;
pub(super) const STORE: u8 = 0x63;
pub(super) const STORE_IMMEDIATE: u8 = 0x62;
/// The operation is in the immediate operand: 0 is addition.
pub(super) const ATOMIC: u8 = 0xc3;

/// The number of the source register of [`WIDE`] and [`CALL`] says what the immediate operand is.
pub(super) const MAP_DESCRIPTOR: Register = Register::R1;
pub(super) const KERNEL_FUNCTION: Register = Register::R2;

/// Fields of an instruction; unused fields are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) opcode: u8,
    pub(super) destination: u8,
    pub(super) source: u8,
    /// Bytes from the address in a register, or instructions from the next one.
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

impl Instruction {
    pub(super) fn word(self) -> u64 {
        let registers = if cfg!(target_endian = "little") {
            self.source << 4 | self.destination
        } else {
            self.destination << 4 | self.source
        };
        let [a, b] = self.offset.to_ne_bytes();
        let [c, d, e, f] = self.immediate.to_ne_bytes();
        u64::from_ne_bytes([self.opcode, registers, a, b, c, d, e, f])
    }
}

#[cfg(test)]
mod tests {
    use super::Register::{Frame, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
    use super::*;

    #[test]
    fn registers_have_their_numbers() {
        let registers = [R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, Frame];
        assert!(registers.into_iter().map(|register| register as u8).eq(0..=10));
    }

    #[test]
    fn only_four_sizes_are_loaded_by_one_instruction() {
        let widths: Vec<_> = (0..=9).filter_map(|bytes| Width::from_bytes(bytes).map(|width| (bytes, width))).collect();
        assert_eq!(widths, [(1, Width::U8), (2, Width::U16), (4, Width::U32), (8, Width::U64)]);
        assert_eq!(Width::from_bytes(1 << 29 | 1), None);
    }
}
