//! The table to which the number of a system call belongs: procfs has only the number, and programs can call the tables of both
//! word sizes.
//!
//! The text of `syscall` has six registers of 64 bits, or zero-extended ones of 32 bits, and the addresses of the stack and of
//! the instruction behind the call. A program with 32-bit addresses calls by the 32-bit table, and a call with a larger argument
//! has 64 bits. The instruction decides the rest: `syscall`, or `int $0x80` of a 64-bit program.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::super::patient_reader::PatientReader;
use super::text;
use crate::model::{KernelEntry, ThreadSample};

/// Instructions that are read per pass, at most: each takes some 10 µs.
const MAX_READS: usize = 128;

/// How a thread got into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEntry {
    Known(KernelEntry),
    /// Decided by the instruction before this address, with this number and these arguments.
    ByInstruction {
        before: u64,
        number: u32,
        arguments: [u64; 2],
    },
}

impl CallEntry {
    /// The entry in the text of `syscall`: a number, arguments and addresses, `-1` outside of system calls, or `running`.
    pub(super) fn parse(text: &[u8]) -> Self {
        let mut words = text::words(text.trim_ascii());
        let number = words.next().and_then(text::signed);
        let values = words.map(|word| text::hexadecimal(word.strip_prefix(b"0x")?)).collect::<Option<Vec<_>>>();
        let number = match number.map(u32::try_from) {
            None => return Self::Known(KernelEntry::Unknown),
            Some(Err(_)) => return Self::Known(KernelEntry::Exception),
            Some(Ok(number)) => number,
        };
        let Some([values @ .., stack, before]) = values.as_deref() else { return Self::Known(KernelEntry::Unknown) };
        let is_short = |value: &u64| u32::try_from(*value).is_ok();
        match *values {
            _ if values.len() != 6 => Self::Known(KernelEntry::Unknown),
            // A worker of the kernel in a process has no registers.
            _ if (*stack, *before) == (0, 0) => Self::Known(KernelEntry::Unknown),
            _ if number & KernelEntry::X32 == 0 && [stack, before].into_iter().all(is_short) => {
                Self::Known(KernelEntry::Compatible(number))
            }
            [first, second, ..] if cfg!(target_arch = "x86_64") && values.iter().all(is_short) => {
                Self::ByInstruction { before: *before, number, arguments: [first, second] }
            }
            [first, second, ..] => Self::Known(KernelEntry::SystemCall(number, [first, second])),
            _ => Self::Known(KernelEntry::Unknown),
        }
    }
}

/// The entry of a call by these bytes of an instruction.
fn decided(instruction: [u8; 2], number: u32, arguments: [u64; 2]) -> KernelEntry {
    match instruction {
        [0x0f, 0x05] => KernelEntry::SystemCall(number, arguments),
        [0xcd, 0x80] => KernelEntry::Compatible(number),
        _ => KernelEntry::Unknown,
    }
}

/// A process, and the address behind an instruction.
type CallPlace = (u32, u64);

/// Samples of a pass whose entry is still to be decided, and the instructions that earlier passes have read.
pub(super) struct CallTables {
    undecided: Vec<(usize, CallPlace, u32, [u64; 2])>,
    instructions: HashMap<CallPlace, [u8; 2]>,
    reader: PatientReader<CallPlace, Option<[u8; 2]>>,
}

impl CallTables {
    pub(super) fn new() -> Self {
        let reader = PatientReader::new("ctprof-calls", instruction);
        Self { undecided: Vec::new(), instructions: HashMap::new(), reader }
    }

    /// The entry of the sample that will be at `at`, unknown until [`decide`](Self::decide) if the instruction decides.
    pub(super) fn entry(&mut self, at: usize, tgid: u32, text: &[u8]) -> KernelEntry {
        match CallEntry::parse(text) {
            CallEntry::Known(entry) => entry,
            CallEntry::ByInstruction { before, number, arguments } => {
                self.undecided.push((at, (tgid, before), number, arguments));
                KernelEntry::Unknown
            }
        }
    }

    /// Decides the entries of the pass. They stay unknown where the instruction cannot be read in time.
    pub(super) fn decide(&mut self, samples: &mut [ThreadSample]) {
        let undecided = std::mem::take(&mut self.undecided);
        let mut places: Vec<CallPlace> = undecided.iter().map(|(_, place, ..)| *place).collect();
        places.retain(|place| !self.instructions.contains_key(place));
        places.sort_unstable();
        places.dedup();
        places.truncate(MAX_READS);
        if !places.is_empty() {
            let read = self.reader.answers(places.clone()).unwrap_or_default();
            self.instructions.extend(places.into_iter().zip(read).filter_map(|(place, bytes)| Some((place, bytes?))));
        }
        for (at, place, number, arguments) in undecided {
            if let (Some(sample), Some(bytes)) = (samples.get_mut(at), self.instructions.get(&place)) {
                sample.entry = decided(*bytes, number, arguments);
            }
        }
    }

    /// Forgets the instructions: processes exit, and execute other programs.
    pub(super) fn forget(&mut self) {
        self.instructions.clear();
    }
}

/// The two bytes before an address of a process; `None` if they cannot be read.
fn instruction((tgid, before): CallPlace) -> Option<[u8; 2]> {
    let mut bytes = [0; 2];
    let memory = File::open(format!("/proc/{tgid}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, before.checked_sub(2)?).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_system_call_has_its_number_and_its_arguments() {
        // Linux 6.18, `proc_pid_syscall` of fs/proc/base.c.
        let text = b"202 0x7f3a5c0008c8 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd7a5e9d10 0x7f3a5c2a49ee\n";
        let futex = KernelEntry::SystemCall(202, [0x7f3a_5c00_08c8, 0x189]);
        assert_eq!(CallEntry::parse(text), CallEntry::Known(futex));
        assert_eq!(CallEntry::parse(b"-1 0x7ffd7a5e9d10 0x55d0c8a7b1c9\n"), CallEntry::Known(KernelEntry::Exception));
        let worker = b"0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0\n";
        for unknown in [&b"running\n"[..], b"", b"202\n", b"202 0x7f 0x80\n", b"202 x\n", worker] {
            assert_eq!(CallEntry::parse(unknown), CallEntry::Known(KernelEntry::Unknown), "{}", unknown.escape_ascii());
        }
    }

    #[test]
    fn a_call_is_of_the_table_that_its_registers_or_its_instruction_prove() {
        // nanosleep of a 32-bit program; 162 of x86-64 is sync.
        let of_32_bits = b"162 0xffb0a1c8 0x0 0x0 0x0 0x0 0xffb0a208 0xffb0a1a0 0xf7f1a579\n";
        assert_eq!(CallEntry::parse(of_32_bits), CallEntry::Known(KernelEntry::Compatible(162)));
        // The same by `int $0x80` of a 64-bit program.
        let mixed = b"162 0x40a7b000 0x0 0x0 0x0 0x0 0x1 0x7ffd7a5e9d10 0x55d0c8a7b1c9\n";
        if cfg!(target_arch = "x86_64") {
            let (before, number, arguments) = (0x55d0_c8a7_b1c9, 162, [0x40a7_b000, 0]);
            assert_eq!(CallEntry::parse(mixed), CallEntry::ByInstruction { before, number, arguments });
        }
        let call = KernelEntry::SystemCall(162, [1, 2]);
        assert_eq!(decided([0x0f, 0x05], 162, [1, 2]), call);
        assert_eq!(decided([0xcd, 0x80], 162, [1, 2]), KernelEntry::Compatible(162));
        assert_eq!(decided([0x90, 0x90], 162, [1, 2]), KernelEntry::Unknown);
    }
}
