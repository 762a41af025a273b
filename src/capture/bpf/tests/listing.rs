//! The text of programs, as the kernel's verifier logs it (`kernel/bpf/disasm.c`).

use std::fmt;

use super::super::assemble::Assembled;
use super::super::instruction::{
    ADD, ADD_REGISTER, AND, ATOMIC, CALL, EXIT, Helper, Instruction, JUMP, JUMP_IF_DIFFERENT, JUMP_IF_EQUAL,
    JUMP_IF_REGISTERS_DIFFER, JUMP_IF_SET, KERNEL_FUNCTION, LOAD, MOVE, MOVE_REGISTER, OR_REGISTER, SHIFT_LEFT,
    SHIFT_RIGHT, SHIFT_RIGHT_SIGNED, STORE, STORE_IMMEDIATE, WIDE, Width,
};

const HELPERS: [(Helper, &str); 8] = [
    (Helper::MapLookupElem, "map_lookup_elem"),
    (Helper::KtimeGetNs, "ktime_get_ns"),
    (Helper::ProbeReadKernel, "probe_read_kernel"),
    (Helper::SeqWrite, "seq_write"),
    (Helper::RingbufReserve, "ringbuf_reserve"),
    (Helper::RingbufSubmit, "ringbuf_submit"),
    (Helper::GetTaskStack, "get_task_stack"),
    (Helper::TaskPtRegs, "task_pt_regs"),
];

impl Instruction {
    pub(crate) fn from_word(word: u64) -> Self {
        let [opcode, registers, a, b, c, d, e, f] = word.to_ne_bytes();
        let (high, low) = (registers >> 4, registers & 0xf);
        let (source, destination) = if cfg!(target_endian = "little") { (high, low) } else { (low, high) };
        let (offset, immediate) = (i16::from_ne_bytes([a, b]), i32::from_ne_bytes([c, d, e, f]));
        Self { opcode, destination, source, offset, immediate }
    }

    pub(crate) fn is_wide(self) -> bool {
        self.opcode == WIDE
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { opcode, destination, source, offset, immediate } = self;
        let bits = Width::ALL.into_iter().find(|width| width.code() == opcode & 0x18).unwrap().bits();
        let memory = |base| format!("*(u{bits} *)(r{base} {offset:+})");
        let name =
            || HELPERS.iter().find(|(helper, _)| *helper as i32 == immediate).map_or("unknown", |(_, name)| name);
        write!(f, "({opcode:02x}) ")?;
        match (opcode, opcode & !0x18) {
            (WIDE, _) => write!(f, "r{destination} = map[fd:{immediate}]"),
            (MOVE_REGISTER, _) => write!(f, "r{destination} = r{source}"),
            (MOVE, _) => write!(f, "r{destination} = {immediate}"),
            (ADD, _) => write!(f, "r{destination} += {immediate}"),
            (SHIFT_LEFT, _) => write!(f, "r{destination} <<= {immediate}"),
            (ADD_REGISTER, _) => write!(f, "r{destination} += r{source}"),
            (AND, _) => write!(f, "r{destination} &= {immediate}"),
            (OR_REGISTER, _) => write!(f, "r{destination} |= r{source}"),
            (SHIFT_RIGHT, _) => write!(f, "r{destination} >>= {immediate}"),
            (SHIFT_RIGHT_SIGNED, _) => write!(f, "r{destination} s>>= {immediate}"),
            (JUMP, _) => write!(f, "goto pc{offset:+}"),
            (JUMP_IF_EQUAL, _) => write!(f, "if r{destination} == {immediate:#x} goto pc{offset:+}"),
            (JUMP_IF_DIFFERENT, _) => write!(f, "if r{destination} != {immediate:#x} goto pc{offset:+}"),
            (JUMP_IF_SET, _) => write!(f, "if r{destination} & {immediate:#x} goto pc{offset:+}"),
            (JUMP_IF_REGISTERS_DIFFER, _) => write!(f, "if r{destination} != r{source} goto pc{offset:+}"),
            (CALL, _) if source == KERNEL_FUNCTION as u8 => write!(f, "call kernel-function#{immediate}"),
            (CALL, _) => write!(f, "call bpf_{}#{immediate}", name()),
            (EXIT, _) => write!(f, "exit"),
            (_, LOAD) => write!(f, "r{destination} = {}", memory(source)),
            (_, STORE_IMMEDIATE) => write!(f, "{} = {immediate}", memory(destination)),
            (_, ATOMIC) => write!(f, "lock {} += r{source}", memory(destination)),
            (_, STORE) => write!(f, "{} = r{source}", memory(destination)),
            _ => write!(f, "unknown"),
        }
    }
}

/// The program with one instruction per line and, behind it, the name of its column.
pub(crate) fn listing<N: fmt::Display>(program: &Assembled, name: impl Fn(u16) -> N) -> String {
    let mut text = String::new();
    let mut code = program.code.iter().map(|&word| Instruction::from_word(word)).enumerate();
    while let Some((number, instruction)) = code.next() {
        text += &format!("{number}: {instruction}");
        text += &program.columns[number].map_or(String::new(), |column| format!("  ; {}", name(column)));
        text += "\n";
        if instruction.is_wide() {
            code.next();
        }
    }
    text
}

#[test]
fn decoding_reverses_encoding() {
    let all = Instruction { opcode: 0x7b, destination: 10, source: 3, offset: -512, immediate: i32::MIN };
    assert_eq!(Instruction::from_word(all.word()), all);
}
