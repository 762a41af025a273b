//! Asks whether a thread still sleeps, by a program that finds it by its id.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::assemble::{Assembled, Assembler, Helper, Label, Register, Width};
use super::btf::{Btf, TypeId};
use super::columns;
use super::layout::{is_addressable, near};
use super::path::{self, FieldLocation};
use super::sample_program::ListedThreads;
use crate::sys::bpf::map::SharedWords;
use crate::sys::bpf::program::run;

use Register::{Frame, R0, R1, R2, R6, R7, R8};

/// Fields of the kernel that the program needs: state, whether the thread is on a CPU, and both counters of switches.
const FIELDS: [&str; 4] = [columns::STATE, columns::ON_CPU, columns::VOLUNTARY_SWITCHES, columns::INVOLUNTARY_SWITCHES];
/// The place on the stack of the number of the word.
const NUMBER: i16 = -4;

/// A program, and the word in which it gets an id and returns a number.
pub(in crate::capture) struct SleepCheck {
    program: OwnedFd,
    word: SharedWords,
}

impl SleepCheck {
    pub(super) fn new(program: OwnedFd, word: SharedWords) -> Self {
        Self { program, word }
    }

    /// How often a thread has switched that sleeps; `None` if it does not, or has exited.
    pub(in crate::capture) fn switches_asleep(&self, tid: u32) -> Option<u64> {
        self.word.set(0, tid.into());
        run(self.program.as_fd()).ok()?;
        self.word.get(0).checked_sub(1)
    }
}

/// The fields of a thread; `None` for a kernel that lacks one.
pub(super) fn fields(btf: &Btf<'_>, task: TypeId) -> Option<[FieldLocation; FIELDS.len()]> {
    let [state, on_cpu, voluntary, involuntary] =
        FIELDS.map(|path| path::resolve(btf, task, path).filter(is_addressable));
    Some([state?, on_cpu?, voluntary?, involuntary?])
}

/// The program: the word has the id of a thread, and then its switches + 1, or 0 if it does not sleep.
pub(super) fn program(
    threads: &ListedThreads,
    fields: &[FieldLocation; FIELDS.len()],
    word: &SharedWords,
) -> Assembled {
    let [state, on_cpu, voluntary, involuntary] = fields;
    let mut assembler = Assembler::default();
    let [release, end] = [(); 2].map(|()| assembler.label());
    look_up(&mut assembler, word.map.as_raw_fd(), end);
    assembler.mov(R6, R0);
    assembler.load(Width::U64, R1, R6, 0);
    assembler.store_immediate(Width::U64, R6, 0, 0);
    assembler.call_kernel_function(threads.find.0);
    assembler.jump_if_equal(R0, 0, end);
    assembler.mov(R7, R0);
    load(&mut assembler, R1, on_cpu);
    assembler.jump_if_different(R1, 0, release);
    load(&mut assembler, R1, state);
    assembler.jump_if_equal(R1, 0, release);
    load(&mut assembler, R8, voluntary);
    load(&mut assembler, R1, involuntary);
    assembler.add(R8, R1);
    assembler.add_immediate(R8, 1);
    assembler.store(Width::U64, R6, 0, R8);
    assembler.place(release);
    assembler.mov(R1, R7);
    assembler.call_kernel_function(threads.release.0);
    assembler.place(end);
    assembler.mov_immediate(R0, 0);
    assembler.exit();
    assembler.finish()
}

fn look_up(assembler: &mut Assembler, map: i32, end: Label) {
    assembler.store_immediate(Width::U32, Frame, NUMBER, 0);
    assembler.load_map(R1, map);
    assembler.mov(R2, Frame);
    assembler.add_immediate(R2, NUMBER.into());
    assembler.call(Helper::MapLookupElem);
    assembler.jump_if_equal(R0, 0, end);
}

fn load(assembler: &mut Assembler, to: Register, place: &FieldLocation) {
    assembler.load(Width::from_bytes(place.size).unwrap_or(Width::U64), to, R7, near(place.offset));
}
