//! Runs programs in tests, on structures that a test provides, by the rules of the verifier: no read of a
//! register without a value, no load beyond a structure.

use super::super::assemble::{Assembled, Helper};
use super::super::instruction::{
    ADD, ADD_REGISTER, AND, CALL, EXIT, Instruction, JUMP, JUMP_IF_DIFFERENT, JUMP_IF_EQUAL, JUMP_IF_REGISTERS_DIFFER,
    KERNEL_FUNCTION, LOAD, MOVE, MOVE_REGISTER, OR_REGISTER, SHIFT_LEFT, SHIFT_RIGHT, SHIFT_RIGHT_SIGNED, STORE,
    STORE_IMMEDIATE, Width,
};

/// Time on the clock of the machine.
pub(crate) const NOW: u64 = 1_234_567_890;
/// Word that fills records before a program writes to them.
pub(crate) const STALE: u64 = 0xdead_dead_dead_dead;
/// The descriptors that a program has for its record and for the filter.
pub(crate) const RECORD_MAP: i32 = 3;
pub(crate) const FILTER_MAP: i32 = 5;
/// Distance of structures in memory.
const STRIDE: u64 = 1 << 22;
const STACK: usize = 512;
const RECORD_WORDS: usize = 1024;
/// Slots of the filter.
pub(crate) const SLOTS: u32 = 1 << 10;

/// Memory of structures, by address.
#[derive(Default)]
pub(crate) struct BpfMachine {
    structures: Vec<Vec<u8>>,
    /// Whether the reader has no room for records.
    pub(crate) is_full: bool,
    /// An address, and the number that the kernel writes there when a program asks for the time.
    pub(crate) meanwhile: Option<(u64, u32)>,
}

impl BpfMachine {
    /// Adds a structure. Returns its address.
    pub(crate) fn add(&mut self, bytes: Vec<u8>) -> u64 {
        self.structures.push(bytes);
        STRIDE * u64::try_from(self.structures.len()).unwrap()
    }

    /// The bytes at an address.
    pub(crate) fn bytes(&mut self, address: u64, length: usize) -> &mut [u8] {
        let (structure, start) = self.find(address);
        &mut structure[start..start + length]
    }

    /// Writes a 64-bit number.
    pub(crate) fn write(&mut self, address: u64, number: u64) {
        self.bytes(address, 8).copy_from_slice(&number.to_ne_bytes());
    }

    /// Runs the program of an iterator for the thread at an address. Returns its record.
    pub(crate) fn run(&mut self, program: &Assembled, task: u64) -> Vec<u64> {
        let kept = self.structures.len();
        let maps = MachineMaps { record: self.add(STALE.to_ne_bytes().repeat(RECORD_WORDS)), slots: 0 };
        let mut written = self.run_with(program, task, &maps);
        self.structures.truncate(kept);
        assert_eq!(written.len(), 1, "one record per thread");
        written.remove(0)
    }

    /// Returns the maps that programs of changes share from one run to the next.
    pub(crate) fn maps(&mut self) -> MachineMaps {
        let slots = self.add(vec![0; 8 * usize::try_from(SLOTS + 1).unwrap()]);
        MachineMaps { record: self.add(STALE.to_ne_bytes().repeat(RECORD_WORDS)), slots }
    }

    /// Begins the pass with this number.
    pub(crate) fn begin_pass(&mut self, maps: &MachineMaps, pass: u64) {
        self.write(maps.slots + 8 * u64::from(SLOTS), pass << 32);
    }

    /// Sets the first words of the map [`FILTER_MAP`].
    pub(crate) fn set_words(&mut self, maps: &MachineMaps, words: [u64; 2]) {
        words.iter().zip([0, 8]).for_each(|(word, at)| self.write(maps.slots + at, *word));
    }

    /// How many threads the pass has met.
    pub(crate) fn met(&mut self, maps: &MachineMaps) -> u32 {
        u32::from_ne_bytes(self.bytes(maps.slots + 8 * u64::from(SLOTS), 4).try_into().unwrap())
    }

    /// Runs the program of an iterator. Returns its records.
    pub(crate) fn run_with(&mut self, program: &Assembled, task: u64, maps: &MachineMaps) -> Vec<Vec<u64>> {
        let kept = self.structures.len();
        // `seq` of `struct bpf_iter_meta`.
        let meta = self.add([0; 8 * 4].to_vec());
        let context = self.add([meta, task].map(u64::to_ne_bytes).concat());
        let stack = self.add(vec![0; STACK]);
        let mut registers = [None; 11];
        (registers[1], registers[10]) = (Some(context), Some(stack + u64::try_from(STACK).unwrap()));
        let written =
            Run { machine: self, code: &program.code, registers, maps, written: Vec::new(), reserved: 0 }.run();
        self.structures.truncate(kept);
        written
    }

    fn find(&mut self, address: u64) -> (&mut Vec<u8>, usize) {
        let index = usize::try_from(address / STRIDE).unwrap().checked_sub(1).expect("an address, not NULL");
        (&mut self.structures[index], usize::try_from(address % STRIDE).unwrap())
    }
}

/// Addresses of the elements of maps.
pub(crate) struct MachineMaps {
    record: u64,
    slots: u64,
}

struct Run<'m> {
    machine: &'m mut BpfMachine,
    code: &'m [u64],
    registers: [Option<u64>; 11],
    maps: &'m MachineMaps,
    written: Vec<Vec<u64>>,
    /// Bytes of the record in the ring buffer.
    reserved: usize,
}

impl Run<'_> {
    fn run(mut self) -> Vec<Vec<u64>> {
        let mut next = 0;
        // A thread, and the first one of its process.
        for _ in 0..2 * self.code.len() {
            let instruction = Instruction::from_word(self.code[next]);
            if instruction.opcode == EXIT {
                assert_eq!(self.registers[0], Some(0));
                return self.written;
            }
            let jump = if self.execute(instruction) { isize::from(instruction.offset) } else { 0 };
            next = next.checked_add_signed(jump).expect("a jump within the program")
                + 1
                + usize::from(instruction.is_wide());
        }
        panic!("the program has a loop");
    }

    /// Executes an instruction. Whether it jumps.
    fn execute(&mut self, instruction: Instruction) -> bool {
        let Instruction { opcode, destination, source, offset, immediate } = instruction;
        let [to, from] = [destination, source].map(usize::from);
        let constant = i64::from(immediate).cast_unsigned();
        let width = Width::ALL.into_iter().find(|width| width.code() == opcode & 0x18).unwrap();
        match opcode {
            JUMP => return true,
            JUMP_IF_EQUAL => return self.value(to) == constant,
            JUMP_IF_DIFFERENT => return self.value(to) != constant,
            JUMP_IF_REGISTERS_DIFFER => return self.value(to) != self.value(from),
            MOVE => self.registers[to] = Some(constant),
            MOVE_REGISTER => self.registers[to] = Some(self.value(from)),
            ADD => self.registers[to] = Some(self.value(to).wrapping_add(constant)),
            ADD_REGISTER => self.registers[to] = Some(self.value(to).wrapping_add(self.value(from))),
            OR_REGISTER => self.registers[to] = Some(self.value(to) | self.value(from)),
            AND => self.registers[to] = Some(self.value(to) & constant),
            SHIFT_RIGHT => self.registers[to] = Some(self.value(to) >> immediate),
            SHIFT_LEFT => self.registers[to] = Some(self.value(to) << immediate),
            SHIFT_RIGHT_SIGNED => {
                self.registers[to] = Some((self.value(to).cast_signed() >> immediate).cast_unsigned());
            }
            CALL => self.call(from, immediate),
            _ if instruction.is_wide() => self.registers[to] = Some(constant),
            _ => {
                let bytes = usize::try_from(width.bits() / 8).unwrap();
                let class = opcode & !width.code();
                assert!([LOAD, STORE, STORE_IMMEDIATE].contains(&class), "a known instruction");
                let address = |base: u64| base.checked_add_signed(offset.into()).expect("an address");
                if class == LOAD {
                    self.registers[to] = Some(self.load(address(self.value(from)), bytes));
                } else {
                    let number = if class == STORE { self.value(from) } else { constant };
                    self.machine.bytes(address(self.value(to)), bytes).copy_from_slice(&number.to_le_bytes()[..bytes]);
                }
            }
        }
        false
    }

    fn value(&self, register: usize) -> u64 {
        self.registers[register].expect("a register is set before it is read")
    }

    fn load(&mut self, address: u64, bytes: usize) -> u64 {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(self.machine.bytes(address, bytes));
        u64::from_le_bytes(number)
    }

    /// Calls overwrite the registers with arguments.
    fn call(&mut self, kind: usize, function: i32) {
        let arguments: [_; 3] = std::array::from_fn(|number| self.registers[number + 1]);
        let argument = |number: usize| arguments[number].expect("an argument is set");
        let length = |number: usize| usize::try_from(argument(number)).unwrap();
        self.registers[..6].fill(None);
        let result = if kind == KERNEL_FUNCTION as usize {
            argument(0)
        } else if function == Helper::MapLookupElem as i32 {
            let key = u64::from(u32::from_le_bytes(self.machine.bytes(argument(1), 4).try_into().unwrap()));
            if argument(0) == i64::from(RECORD_MAP).cast_unsigned() {
                self.maps.record
            } else {
                self.maps.slots + 8 * key
            }
        } else if function == Helper::KtimeGetNs as i32 {
            if let Some((address, number)) = self.machine.meanwhile {
                self.machine.bytes(address, 4).copy_from_slice(&number.to_ne_bytes());
            }
            NOW
        } else if function == Helper::ProbeReadKernel as i32 {
            let bytes = self.machine.bytes(argument(2), length(1)).to_vec();
            self.machine.bytes(argument(0), bytes.len()).copy_from_slice(&bytes);
            0
        } else if function == Helper::RingbufReserve as i32 {
            self.reserved = length(1);
            self.maps.record
        } else if function == Helper::RingbufSubmit as i32 {
            self.write(argument(0), self.reserved)
        } else {
            assert_eq!(function, Helper::SeqWrite as i32);
            if self.machine.is_full {
                // `EOVERFLOW`
                return self.registers[0] = Some((-75_i64).cast_unsigned());
            }
            self.write(argument(1), length(2))
        };
        self.registers[0] = Some(result);
    }

    fn write(&mut self, record: u64, bytes: usize) -> u64 {
        let words = self.machine.bytes(record, bytes).chunks(8);
        let words = words.map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        self.written.push(words.collect());
        0
    }
}
