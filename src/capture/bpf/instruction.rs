//! One BPF instruction: its encoding and its text. Encodings are from
//! `Documentation/bpf/standardization/instruction-set.rst`, the text is that of `kernel/bpf/disasm.c`.

use std::fmt;

/// R0 holds results, R1 to R5 arguments, which calls overwrite; R6 to R9 survive calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::capture) enum Register {
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
pub(in crate::capture) enum Width {
    U8,
    U16,
    U32,
    U64,
}

impl Width {
    /// The width of a value of `bytes` bytes; `None` if no single instruction loads it.
    pub(in crate::capture) fn from_bytes(bytes: u32) -> Option<Self> {
        [Self::U8, Self::U16, Self::U32, Self::U64].into_iter().find(|width| width.bits() == bytes.saturating_mul(8))
    }

    pub(super) const fn bits(self) -> u32 {
        match self {
            Self::U8 => 8,
            Self::U16 => 16,
            Self::U32 => 32,
            Self::U64 => 64,
        }
    }

    /// `BPF_B`, `BPF_H`, `BPF_W`, `BPF_DW`.
    const fn code(self) -> u8 {
        match self {
            Self::U8 => 0x10,
            Self::U16 => 0x08,
            Self::U32 => 0x00,
            Self::U64 => 0x18,
        }
    }

    fn from_opcode(opcode: u8) -> Self {
        let all = [Self::U8, Self::U16, Self::U32, Self::U64];
        all.into_iter().find(|width| width.code() == opcode & 0x18).expect("all values of two bits")
    }
}

/// Functions of the kernel that programs may call, with the numbers of `include/uapi/linux/bpf.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(in crate::capture) enum Helper {
    MapLookupElem = 1,
    KtimeGetNs = 5,
    ProbeReadKernel = 113,
    SeqWrite = 127,
    RingbufReserve = 131,
    RingbufSubmit = 132,
    RingbufDiscard = 133,
}

impl Helper {
    const ALL: [(Self, &str); 7] = [
        (Self::MapLookupElem, "map_lookup_elem"),
        (Self::KtimeGetNs, "ktime_get_ns"),
        (Self::ProbeReadKernel, "probe_read_kernel"),
        (Self::SeqWrite, "seq_write"),
        (Self::RingbufReserve, "ringbuf_reserve"),
        (Self::RingbufSubmit, "ringbuf_submit"),
        (Self::RingbufDiscard, "ringbuf_discard"),
    ];

    pub(super) const fn number(self) -> i32 {
        self as i32
    }

    fn name(number: i32) -> &'static str {
        Self::ALL.iter().find(|(helper, _)| helper.number() == number).map_or("unknown", |(_, name)| name)
    }
}

/// An opcode is a class with, for arithmetic and jumps, an operation and the kind of the second operand, and
/// for memory, a mode and a width.
const LOAD: u8 = 0x01;
const STORE_IMMEDIATE: u8 = 0x02;
const STORE: u8 = 0x03;
const JUMP_CLASS: u8 = 0x05;
const ALU64: u8 = 0x07;
const CLASS: u8 = 0x07;
const MEMORY: u8 = 0x60;
const ATOMIC: u8 = 0xc0;
const REGISTER_OPERAND: u8 = 0x08;

pub(super) const ADD: u8 = ALU64;
pub(super) const MOVE: u8 = ALU64 | 0xb0;
pub(super) const SHIFT_LEFT: u8 = ALU64 | 0x60;
pub(super) const SHIFT_RIGHT_SIGNED: u8 = ALU64 | 0xc0;
pub(super) const MOVE_REGISTER: u8 = MOVE | REGISTER_OPERAND;
pub(super) const JUMP: u8 = JUMP_CLASS;
pub(super) const JUMP_IF_EQUAL: u8 = JUMP_CLASS | 0x10;
pub(super) const JUMP_IF_REGISTERS_DIFFER: u8 = JUMP_CLASS | 0x50 | REGISTER_OPERAND;
pub(super) const CALL: u8 = JUMP_CLASS | 0x80;
pub(super) const EXIT: u8 = JUMP_CLASS | 0x90;
/// A load of 64 bits, whose upper half is in a second word.
pub(super) const WIDE: u8 = 0x18;

/// What the source register of [`WIDE`] and [`CALL`] says about the immediate operand.
pub(super) const MAP_DESCRIPTOR: u8 = 1;
pub(super) const KERNEL_FUNCTION: u8 = 2;

pub(super) const fn load(width: Width) -> u8 {
    LOAD | MEMORY | width.code()
}

pub(super) const fn store(width: Width) -> u8 {
    STORE | MEMORY | width.code()
}

pub(super) const fn store_immediate(width: Width) -> u8 {
    STORE_IMMEDIATE | MEMORY | width.code()
}

/// The operation is in the immediate operand: 0 is addition.
pub(super) const fn atomic(width: Width) -> u8 {
    STORE | ATOMIC | width.code()
}

/// The fields of an instruction; those that it does not use are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    pub(super) fn from_word(word: u64) -> Self {
        let [opcode, registers, a, b, c, d, e, f] = word.to_ne_bytes();
        let (high, low) = (registers >> 4, registers & 0xf);
        let (source, destination) = if cfg!(target_endian = "little") { (high, low) } else { (low, high) };
        let (offset, immediate) = (i16::from_ne_bytes([a, b]), i32::from_ne_bytes([c, d, e, f]));
        Self { opcode, destination, source, offset, immediate }
    }

    pub(super) fn is_wide(self) -> bool {
        self.opcode == WIDE
    }

    /// The text of a load of the address of a map.
    pub(super) fn wide_text(self) -> String {
        let Self { destination, immediate, .. } = self;
        format!("(18) r{destination} = map[fd:{immediate}]")
    }
}

/// As in the log of the kernel's verifier; not for [`WIDE`].
impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { opcode, destination, source, offset, immediate } = self;
        let bits = Width::from_opcode(opcode).bits();
        let memory = |base| format!("*(u{bits} *)(r{base} {offset:+})");
        write!(f, "({opcode:02x}) ")?;
        match (opcode, opcode & CLASS) {
            (MOVE_REGISTER, _) => write!(f, "r{destination} = r{source}"),
            (MOVE, _) => write!(f, "r{destination} = {immediate}"),
            (ADD, _) => write!(f, "r{destination} += {immediate}"),
            (SHIFT_LEFT, _) => write!(f, "r{destination} <<= {immediate}"),
            (SHIFT_RIGHT_SIGNED, _) => write!(f, "r{destination} s>>= {immediate}"),
            (JUMP, _) => write!(f, "goto pc{offset:+}"),
            (JUMP_IF_EQUAL, _) => write!(f, "if r{destination} == {immediate:#x} goto pc{offset:+}"),
            (JUMP_IF_REGISTERS_DIFFER, _) => write!(f, "if r{destination} != r{source} goto pc{offset:+}"),
            (CALL, _) if source == KERNEL_FUNCTION => write!(f, "call kernel-function#{immediate}"),
            (CALL, _) => write!(f, "call bpf_{}#{immediate}", Helper::name(immediate)),
            (EXIT, _) => write!(f, "exit"),
            (_, LOAD) => write!(f, "r{destination} = {}", memory(source)),
            (_, STORE_IMMEDIATE) => write!(f, "{} = {immediate}", memory(destination)),
            (_, STORE) if opcode & !0x18 == STORE | ATOMIC => {
                write!(f, "lock {} += r{source}", memory(destination))
            }
            (_, STORE) => write!(f, "{} = r{source}", memory(destination)),
            _ => write!(f, "unknown"),
        }
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

    #[test]
    fn decoding_reverses_encoding() {
        let all = Instruction { opcode: 0x7b, destination: 10, source: 3, offset: -512, immediate: i32::MIN };
        assert_eq!(Instruction::from_word(all.word()), all);
    }
}
