//! Emits the program of passes that return what changed: the threads that did something since the pass before, and the first
//! thread of each of their processes, whose record has what a process has.

use std::os::fd::RawFd;

use super::assemble::{Assembled, Assembler, Helper, Label, Width};
use super::change_filter::{ChangeFilter, FilteredCounters, KEY, PASS, SLOT};
use super::layout::RecordScope;
use super::program::{Emitter, NO_WAKEUP, TaskWalk, byte, count};

use super::assemble::Register::{Frame, R0, R1, R2, R4, R7, R8};

/// Place on the stack: whether the thread that is written is the first one of the process of the thread that was visited.
const IS_SECOND: i16 = -32;

/// Where the program writes records.
#[derive(Clone, Copy)]
pub(super) enum ChangeOutput {
    /// A ring, and the number of records that had no room in it.
    Ring([RawFd; 2]),
    /// The reader of the kernel's iterator.
    Reader,
}

impl Emitter<'_> {
    /// The program, with a per-CPU array of one element for the record, and the filter and its slots.
    pub(super) fn changes(
        &self,
        (walk, output): (TaskWalk, ChangeOutput),
        record: RawFd,
        (filter, slots): (&ChangeFilter, RawFd),
    ) -> Assembled {
        self.each_thread(walk, |assembler, visited| {
            let again = assembler.label();
            assembler.store_immediate(Width::U64, Frame, IS_SECOND, 0);
            filter.unless_changed(assembler, FilteredCounters::OfProcess, slots, visited);
            assembler.place(again);
            self.whole_record(assembler, record, visited);
            self.write(assembler, output, (filter, slots), visited);
            self.after_write(assembler, again);
        })
    }

    /// Writes the record in `R8`, of as many bytes as `R3` says. Without room, jumps to `visited`: the thread is tried again.
    fn write(
        &self,
        assembler: &mut Assembler,
        output: ChangeOutput,
        (filter, slots): (&ChangeFilter, RawFd),
        visited: Label,
    ) {
        let written = assembler.label();
        let ChangeOutput::Ring([ring, without_room]) = output else {
            self.write_to_reader(assembler);
            assembler.jump_if_equal(R0, 0, written);
            // The kernel drops all that was written for the thread, and visits it again in the next read.
            filter.count_threads(assembler, -1, slots, visited);
            assembler.jump(visited);
            return assembler.place(written);
        };
        assembler.load_map(R1, ring);
        assembler.mov(R2, R8);
        assembler.mov_immediate(R4, NO_WAKEUP);
        assembler.call(Helper::RingbufOutput);
        assembler.jump_if_equal(R0, 0, written);
        count(assembler, without_room, visited);
        assembler.jump(visited);
        assembler.place(written);
    }

    /// Goes on with the first thread of the process, unless this pass has written it last of all first threads. Then stores
    /// what makes the next pass skip the thread that was visited.
    fn after_write(&self, assembler: &mut Assembler, again: Label) {
        let [other, goes_on, store] = [(); 3].map(|()| assembler.label());
        let last = byte(self.layout.words(RecordScope::Process));
        // The number of the pass, and the process.
        assembler.load(Width::U64, R2, Frame, PASS);
        assembler.shift_left(R2, 32);
        assembler.load(Width::U32, R1, R7, self.kernel.tgid);
        assembler.or(R2, R1);
        self.unless_leader(assembler, other);
        assembler.store(Width::U64, R8, last, R2);
        assembler.jump(store);
        assembler.place(other);
        assembler.load(Width::U64, R1, R8, last);
        assembler.jump_if_registers_differ(R1, R2, goes_on);
        assembler.jump(store);
        assembler.place(goes_on);
        assembler.load(Width::U64, R1, Frame, IS_SECOND);
        assembler.jump_if_different(R1, 0, store);
        assembler.store_immediate(Width::U64, Frame, IS_SECOND, 1);
        assembler.load(Width::U64, R7, R7, self.kernel.group_leader);
        assembler.jump_if_different(R7, 0, again);
        assembler.place(store);
        assembler.load(Width::U64, R1, Frame, SLOT);
        assembler.load(Width::U64, R2, Frame, KEY);
        assembler.store(Width::U64, R1, 0, R2);
    }
}
