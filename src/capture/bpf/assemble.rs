//! Assembles a program. Each instruction can be marked with the column that it is for: if the kernel refuses the
//! instruction, that column can be left out.

use super::instruction::{
    ADD, ADD_REGISTER, AND, ATOMIC, CALL, EXIT, Instruction, JUMP, JUMP_IF_DIFFERENT, JUMP_IF_EQUAL,
    JUMP_IF_REGISTERS_DIFFER, JUMP_IF_SET, KERNEL_FUNCTION, LOAD, MAP_DESCRIPTOR, MOVE, MOVE_REGISTER, OR_REGISTER,
    SHIFT_LEFT, SHIFT_RIGHT, SHIFT_RIGHT_SIGNED, STORE, STORE_IMMEDIATE, WIDE,
};
pub(super) use super::instruction::{Helper, Register, Width};

/// The number of a register that an instruction does not have.
const NONE: Register = Register::R0;

/// A place to jump to, which [`Assembler::place`] sets once.
#[derive(Clone, Copy)]
pub(super) struct Label(usize);

/// A program in the making. Offsets have 16 bits: a field further from the start of its structure cannot be addressed.
#[derive(Default)]
pub(super) struct Assembler {
    code: Vec<(Instruction, Option<u16>)>,
    column: Option<u16>,
    /// Jumps, with the label that each leads to.
    jumps: Vec<(usize, Label)>,
    /// The instruction at each label.
    labels: Vec<Option<usize>>,
}

/// Words of code, and the column that each is for.
#[derive(Debug)]
pub(super) struct Assembled {
    pub(super) code: Vec<u64>,
    pub(super) columns: Vec<Option<u16>>,
}

impl Assembler {
    /// Sets the column that the following instructions are for.
    pub(super) fn mark(&mut self, column: Option<u16>) {
        self.column = column;
    }

    pub(super) fn mov(&mut self, to: Register, from: Register) {
        self.push(MOVE_REGISTER, [to, from], 0, 0);
    }

    /// The value is extended to 64 bits with its sign.
    pub(super) fn mov_immediate(&mut self, to: Register, value: i32) {
        self.push(MOVE, [to, NONE], 0, value);
    }

    pub(super) fn add_immediate(&mut self, to: Register, value: i32) {
        self.push(ADD, [to, NONE], 0, value);
    }

    pub(super) fn add(&mut self, to: Register, from: Register) {
        self.push(ADD_REGISTER, [to, from], 0, 0);
    }

    pub(super) fn or(&mut self, to: Register, from: Register) {
        self.push(OR_REGISTER, [to, from], 0, 0);
    }

    /// The value is extended to 64 bits with its sign.
    pub(super) fn and_immediate(&mut self, to: Register, value: i32) {
        self.push(AND, [to, NONE], 0, value);
    }

    pub(super) fn shift_left(&mut self, to: Register, bits: i32) {
        self.push(SHIFT_LEFT, [to, NONE], 0, bits);
    }

    pub(super) fn shift_right(&mut self, to: Register, bits: i32) {
        self.push(SHIFT_RIGHT, [to, NONE], 0, bits);
    }

    /// Extends the sign of the low `width` of a register to all of it.
    pub(super) fn sign_extend(&mut self, register: Register, width: Width) {
        if width != Width::U64 {
            let bits = (u64::BITS - width.bits()).cast_signed();
            self.shift_left(register, bits);
            self.push(SHIFT_RIGHT_SIGNED, [register, NONE], 0, bits);
        }
    }

    /// Loads the value at `base + offset`, without its sign.
    pub(super) fn load(&mut self, width: Width, to: Register, base: Register, offset: i16) {
        self.push(LOAD | width.code(), [to, base], offset, 0);
    }

    pub(super) fn store(&mut self, width: Width, base: Register, offset: i16, from: Register) {
        self.push(STORE | width.code(), [base, from], offset, 0);
    }

    pub(super) fn store_immediate(&mut self, width: Width, base: Register, offset: i16, value: i32) {
        self.push(STORE_IMMEDIATE | width.code(), [base, NONE], offset, value);
    }

    /// Adds a register to the 64 bits at `base + offset`, atomically.
    pub(super) fn atomic_add(&mut self, base: Register, offset: i16, from: Register) {
        self.push(ATOMIC | Width::U64.code(), [base, from], offset, 0);
    }

    /// Loads the address of the map with this descriptor of the loading process.
    pub(super) fn load_map(&mut self, to: Register, descriptor: i32) {
        self.push(WIDE, [to, MAP_DESCRIPTOR], 0, descriptor);
        self.push(0, [NONE; 2], 0, 0);
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.push(CALL, [NONE; 2], 0, helper as i32);
    }

    /// Calls the function of the kernel ("kfunc") with this id in the kernel's BTF.
    pub(super) fn call_kernel_function(&mut self, btf_id: u32) {
        self.push(CALL, [NONE, KERNEL_FUNCTION], 0, btf_id.cast_signed());
    }

    pub(super) fn exit(&mut self) {
        self.push(EXIT, [NONE; 2], 0, 0);
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        let before = self.labels[label.0].replace(self.code.len());
        assert_eq!(before, None, "a label has one place");
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.push_jump(JUMP, [NONE; 2], 0, to);
    }

    pub(super) fn jump_if_equal(&mut self, register: Register, value: i32, to: Label) {
        self.push_jump(JUMP_IF_EQUAL, [register, NONE], value, to);
    }

    pub(super) fn jump_if_different(&mut self, register: Register, value: i32, to: Label) {
        self.push_jump(JUMP_IF_DIFFERENT, [register, NONE], value, to);
    }

    /// Jumps if the register has any of the bits of `value`.
    pub(super) fn jump_if_set(&mut self, register: Register, value: i32, to: Label) {
        self.push_jump(JUMP_IF_SET, [register, NONE], value, to);
    }

    pub(super) fn jump_if_registers_differ(&mut self, one: Register, other: Register, to: Label) {
        self.push_jump(JUMP_IF_REGISTERS_DIFFER, [one, other], 0, to);
    }

    /// Panics if a jump leads to a label without a place, or if the program has more than 32,767 instructions.
    pub(super) fn finish(mut self) -> Assembled {
        for (jump, label) in self.jumps {
            let target = self.labels[label.0].expect("a label that is jumped to has a place");
            let [target, next] =
                [target, jump + 1].map(|at| i16::try_from(at).expect("a program has fewer than 32,768 instructions"));
            self.code[jump].0.offset = target - next;
        }
        let (code, columns) = self.code.into_iter().map(|(instruction, column)| (instruction.word(), column)).unzip();
        Assembled { code, columns }
    }

    fn push(&mut self, opcode: u8, [destination, source]: [Register; 2], offset: i16, immediate: i32) {
        let (destination, source) = (destination as u8, source as u8);
        self.code.push((Instruction { opcode, destination, source, offset, immediate }, self.column));
    }

    fn push_jump(&mut self, opcode: u8, registers: [Register; 2], immediate: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(opcode, registers, 0, immediate);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::listing::listing;
    use super::Register::{Frame, R0, R1, R2, R6, R7};
    use super::*;

    /// Returns every kind of instruction once.
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
        let listing = listing(&every_instruction(), |column| ["run_time_ns", "nice"][usize::from(column) - 3]);
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
