//! Assembles a program. Each instruction can be marked with the column that it is for, so that one that the
//! kernel refuses leads to the column to leave out.

use std::fmt;

use super::instruction::{
    ADD, CALL, EXIT, Instruction, JUMP, JUMP_IF_EQUAL, JUMP_IF_REGISTERS_DIFFER, KERNEL_FUNCTION, MAP_DESCRIPTOR, MOVE,
    MOVE_REGISTER, SHIFT_LEFT, SHIFT_RIGHT_SIGNED, WIDE, atomic, load, store, store_immediate,
};
pub(in crate::capture) use super::instruction::{Helper, Register, Width};

/// A place to jump to, which [`Assembler::place`] sets once.
#[derive(Clone, Copy, Debug)]
pub(in crate::capture) struct Label(usize);

/// A program in the making. Offsets are of 16 bits: a field that is further from its structure's start cannot
/// be addressed.
#[derive(Debug, Default)]
pub(in crate::capture) struct Assembler {
    code: Vec<Instruction>,
    columns: Vec<Option<u16>>,
    column: Option<u16>,
    /// Jumps, with the label that each leads to.
    jumps: Vec<(usize, Label)>,
    /// The instruction at each label.
    labels: Vec<Option<usize>>,
}

impl Assembler {
    /// Sets the column that the following instructions are for.
    pub(in crate::capture) fn mark(&mut self, column: Option<u16>) {
        self.column = column;
    }

    pub(in crate::capture) fn mov(&mut self, to: Register, from: Register) {
        self.push(Instruction { destination: to as u8, source: from as u8, ..opcode(MOVE_REGISTER) });
    }

    /// The value is extended to 64 bits with its sign.
    pub(in crate::capture) fn mov_immediate(&mut self, to: Register, value: i32) {
        self.push(Instruction { destination: to as u8, immediate: value, ..opcode(MOVE) });
    }

    pub(in crate::capture) fn add_immediate(&mut self, to: Register, value: i32) {
        self.push(Instruction { destination: to as u8, immediate: value, ..opcode(ADD) });
    }

    /// Extends the sign of the low `width` of a register to all of it.
    pub(in crate::capture) fn sign_extend(&mut self, register: Register, width: Width) {
        if width == Width::U64 {
            return;
        }
        let immediate = (u64::BITS - width.bits()).cast_signed();
        for shift in [SHIFT_LEFT, SHIFT_RIGHT_SIGNED] {
            self.push(Instruction { destination: register as u8, immediate, ..opcode(shift) });
        }
    }

    /// Loads the value at `base + offset`, without its sign.
    pub(in crate::capture) fn load(&mut self, width: Width, to: Register, base: Register, offset: i16) {
        self.push(Instruction { destination: to as u8, source: base as u8, offset, ..opcode(load(width)) });
    }

    pub(in crate::capture) fn store(&mut self, width: Width, base: Register, offset: i16, from: Register) {
        self.push(Instruction { destination: base as u8, source: from as u8, offset, ..opcode(store(width)) });
    }

    pub(in crate::capture) fn store_immediate(&mut self, width: Width, base: Register, offset: i16, value: i32) {
        let opcode = opcode(store_immediate(width));
        self.push(Instruction { destination: base as u8, offset, immediate: value, ..opcode });
    }

    /// Adds a register to the 64 bits at `base + offset`, atomically.
    pub(in crate::capture) fn atomic_add(&mut self, base: Register, offset: i16, from: Register) {
        let opcode = opcode(atomic(Width::U64));
        self.push(Instruction { destination: base as u8, source: from as u8, offset, ..opcode });
    }

    /// Loads the address of the map with this descriptor of the loading process.
    pub(in crate::capture) fn load_map(&mut self, to: Register, descriptor: i32) {
        let source = MAP_DESCRIPTOR;
        self.push(Instruction { destination: to as u8, source, immediate: descriptor, ..opcode(WIDE) });
        self.push(Instruction::default());
    }

    pub(in crate::capture) fn call(&mut self, helper: Helper) {
        self.push(Instruction { immediate: helper.number(), ..opcode(CALL) });
    }

    /// Calls the function of the kernel ("kfunc") with this id in the kernel's BTF.
    pub(in crate::capture) fn call_kernel_function(&mut self, btf_id: u32) {
        self.push(Instruction { source: KERNEL_FUNCTION, immediate: btf_id.cast_signed(), ..opcode(CALL) });
    }

    pub(in crate::capture) fn exit(&mut self) {
        self.push(opcode(EXIT));
    }

    /// A new label, not yet placed.
    pub(in crate::capture) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub(in crate::capture) fn place(&mut self, label: Label) {
        let before = self.labels[label.0].replace(self.code.len());
        assert_eq!(before, None, "a label has one place");
    }

    pub(in crate::capture) fn jump(&mut self, to: Label) {
        self.push_jump(opcode(JUMP), to);
    }

    pub(in crate::capture) fn jump_if_equal(&mut self, register: Register, value: i32, to: Label) {
        self.push_jump(Instruction { destination: register as u8, immediate: value, ..opcode(JUMP_IF_EQUAL) }, to);
    }

    pub(in crate::capture) fn jump_if_registers_differ(&mut self, one: Register, other: Register, to: Label) {
        let opcode = opcode(JUMP_IF_REGISTERS_DIFFER);
        self.push_jump(Instruction { destination: one as u8, source: other as u8, ..opcode }, to);
    }

    /// The whole program.
    ///
    /// # Panics
    /// If a jump leads to a label without a place, or if the program has more than 32,767
    /// instructions.
    pub(in crate::capture) fn finish(mut self) -> Assembled {
        for (jump, label) in self.jumps {
            let target = self.labels[label.0].expect("a label that is jumped to has a place");
            let [target, next] =
                [target, jump + 1].map(|at| i16::try_from(at).expect("a program has fewer than 32,768 instructions"));
            self.code[jump].offset = target - next;
        }
        Assembled { code: self.code.into_iter().map(Instruction::word).collect(), columns: self.columns }
    }

    fn push(&mut self, instruction: Instruction) {
        self.code.push(instruction);
        self.columns.push(self.column);
    }

    fn push_jump(&mut self, instruction: Instruction, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(instruction);
    }
}

fn opcode(opcode: u8) -> Instruction {
    Instruction { opcode, ..Instruction::default() }
}

/// A program: words of code, and the column that each is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::capture) struct Assembled {
    pub(in crate::capture) code: Vec<u64>,
    pub(in crate::capture) columns: Vec<Option<u16>>,
}

impl Assembled {
    /// The program with one instruction per line, as in the verifier's log, with the names of columns.
    pub(in crate::capture) fn listing<N: fmt::Display>(&self, name: impl Fn(u16) -> N) -> impl fmt::Display {
        Listing { program: self, name }
    }
}

struct Listing<'a, F> {
    program: &'a Assembled,
    name: F,
}

impl<N: fmt::Display, F: Fn(u16) -> N> fmt::Display for Listing<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut code = self.program.code.iter().map(|&word| Instruction::from_word(word)).enumerate();
        while let Some((number, instruction)) = code.next() {
            write!(f, "{number}: ")?;
            if instruction.is_wide() {
                code.next();
                f.write_str(&instruction.wide_text())?;
            } else {
                write!(f, "{instruction}")?;
            }
            if let Some(column) = self.program.columns.get(number).copied().flatten() {
                write!(f, "  ; {}", (self.name)(column))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Register::{Frame, R0, R1, R2, R6, R7};
    use super::*;

    /// Every instruction once.
    fn every_instruction() -> Assembled {
        let mut program = Assembler::default();
        let [end, again] = [program.label(), program.label()];
        program.mov(R6, R1);
        program.mov_immediate(R0, -1);
        program.add_immediate(R2, -4);
        program.mark(Some(3));
        program.load(Width::U64, R0, R7, 1234);
        program.load(Width::U16, R0, R7, 0);
        program.sign_extend(R0, Width::U16);
        program.sign_extend(R0, Width::U64);
        program.mark(Some(4));
        program.store(Width::U64, Frame, -8, R0);
        program.store_immediate(Width::U8, Frame, -1, 1);
        program.mark(None);
        program.place(again);
        program.atomic_add(R0, 8, R1);
        program.load_map(R1, 5);
        program.jump_if_equal(R0, 0, end);
        program.jump_if_registers_differ(R0, R1, again);
        program.call(Helper::SeqWrite);
        program.call_kernel_function(70_000);
        program.jump(end);
        program.place(end);
        program.exit();
        program.finish()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_have_the_encodings_of_the_standard() {
        let expected = [
            0x0000_0000_0000_16bf,
            0xffff_ffff_0000_00b7,
            0xffff_fffc_0000_0207,
            0x0000_0000_04d2_7079,
            0x0000_0000_0000_7069,
            0x0000_0030_0000_0067,
            0x0000_0030_0000_00c7,
            0x0000_0000_fff8_0a7b,
            0x0000_0001_ffff_0a72,
            0x0000_0000_0008_10db,
            0x0000_0005_0000_1118,
            0x0000_0000_0000_0000,
            0x0000_0000_0004_0015,
            0x0000_0000_fffb_105d,
            0x0000_007f_0000_0085,
            0x0001_1170_0000_2085,
            0x0000_0000_0000_0005,
            0x0000_0000_0000_0095,
        ];
        let code = every_instruction().code;
        let differing = code.iter().zip(expected).position(|(&word, expected)| word != expected);
        assert_eq!((differing, code.len()), (None, expected.len()), "{code:016x?}");
    }

    #[test]
    fn a_listing_reads_like_the_log_of_the_verifier() {
        let listing =
            every_instruction().listing(|column| ["run_time_ns", "nice"][usize::from(column) - 3]).to_string();
        let expected = "\
0: (bf) r6 = r1
1: (b7) r0 = -1
2: (07) r2 += -4
3: (79) r0 = *(u64 *)(r7 +1234)  ; run_time_ns
4: (69) r0 = *(u16 *)(r7 +0)  ; run_time_ns
5: (67) r0 <<= 48  ; run_time_ns
6: (c7) r0 s>>= 48  ; run_time_ns
7: (7b) *(u64 *)(r10 -8) = r0  ; nice
8: (72) *(u8 *)(r10 -1) = 1  ; nice
9: (db) lock *(u64 *)(r0 +8) += r1
10: (18) r1 = map[fd:5]
12: (15) if r0 == 0x0 goto pc+4
13: (5d) if r0 != r1 goto pc-5
14: (85) call bpf_seq_write#127
15: (85) call kernel-function#70000
16: (05) goto pc+0
17: (95) exit
";
        assert_eq!(listing, expected);
    }

    #[test]
    #[should_panic(expected = "a label that is jumped to has a place")]
    fn a_jump_to_nowhere_is_a_fault_of_the_emitter() {
        let mut program = Assembler::default();
        let nowhere = program.label();
        program.jump(nowhere);
        program.finish();
    }
}
