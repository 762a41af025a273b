//! The filter of programs: skips threads that slept through the last pass, judged by their switch count and whether they are frozen.
//!
//! Each thread has a slot in an array that programs and ctprof share. Its word has, from above: 32 bits of counters, 31 bits of
//! when the thread started, and the lowest bit of the number of the pass that met it last. One more word has the number of the pass, and
//! how many threads it has met.
//!
//! Threads whose ids differ by a multiple of the number of slots share one. Each of these threads finds the word of another, and
//! is written in every pass, which takes 2.5 µs. In the pass in which a thread takes the slot of another, it is unknown whether
//! that pass met the other thread; the next pass, which would have to write it, tells.

use std::fs;

use super::assemble::{Assembler, Helper, Label, Register, Width};
use super::btf::{Btf, TypeId};
use super::columns;
use super::layout::{is_addressable, near};
use super::path::{self, FieldLocation};

use Register::{Frame, R0, R1, R2, R7, R8, R9};

/// Slots of a filter, at most; they take 8 MiB. Of 20,000 threads with any ids up to 4 million, 400 share a slot. A slot for each
/// of these ids would take 32 MiB, and 8 ms to make.
const MAX_SLOTS: u32 = 1 << 20;
/// Places on the stack of the program: the address of the slot, what is to be stored there, and the number of the pass.
pub(super) const SLOT: i16 = -16;
pub(super) const KEY: i16 = -24;
pub(super) const PASS: i16 = -40;
const SLOT_NUMBER: i16 = -4;

/// `TASK_FROZEN` of include/linux/sched.h, since Linux 6.1.
pub(super) const FROZEN: i32 = 0x8000;

/// Fields that an instruction needs before a record exists.
const FIELDS: [&str; 7] = [
    columns::STATE,
    columns::VOLUNTARY_SWITCHES,
    columns::INVOLUNTARY_SWITCHES,
    columns::START_TIME,
    columns::TID,
    columns::TGID,
    columns::ON_CPU,
];

/// Counters that tell whether a thread did something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FilteredCounters {
    /// Counters of the thread itself.
    OfThread,
    /// Counters of the thread, and for the first thread of a process also the counters of exited threads. The pass counts the
    /// threads that it meets.
    OfProcess,
}

/// Where a kernel has what the filter needs.
#[derive(Debug)]
pub(super) struct ChangeFilter {
    fields: [Option<FieldLocation>; FIELDS.len()],
    /// Location of the run time of the process's exited threads.
    exited: Option<FieldLocation>,
    /// How many slots the array has, a power of two.
    pub(super) slots: u32,
}

impl ChangeFilter {
    pub(super) fn find(btf: &Btf<'_>, task: TypeId, slots: u32) -> Self {
        let field = |path| path::resolve(btf, task, path).filter(is_addressable);
        Self { fields: FIELDS.map(field), exited: field(columns::RUN_TIME_OF_EXITED), slots }
    }

    /// Words of the array.
    pub(super) fn words(&self) -> u32 {
        self.slots + 1
    }

    /// Jumps to `next` if the thread in `R7` did nothing. Else, the places [`SLOT`] and [`KEY`] have what makes the next pass
    /// skip it.
    pub(super) fn unless_changed(&self, assembler: &mut Assembler, of: FilteredCounters, map: i32, next: Label) {
        let emit = assembler.label();
        let [state, voluntary, involuntary, start, tid, tgid, on_cpu] = &self.fields;
        match of {
            FilteredCounters::OfThread => assembler.store_immediate(Width::U64, Frame, PASS, 0),
            FilteredCounters::OfProcess => {
                self.count_threads(assembler, 1, map, next);
                assembler.shift_right(R1, 32);
                assembler.store(Width::U64, Frame, PASS, R1);
            }
        }
        load(assembler, R8, state);
        load(assembler, R9, voluntary);
        load(assembler, R1, involuntary);
        assembler.add(R9, R1);
        // The freezer freezes and thaws some sleepers without a switch: their state takes the highest bit of the counters.
        assembler.mov(R1, R8);
        assembler.and_immediate(R1, FROZEN);
        assembler.shift_left(R1, 31 - FROZEN.trailing_zeros().cast_signed());
        assembler.add(R9, R1);
        if of == FilteredCounters::OfProcess {
            self.add_exited(assembler, [tid, tgid]);
        }
        assembler.shift_left(R9, 32);
        load(assembler, R1, start);
        // The lower bits of nanoseconds differ least.
        assembler.shift_right(R1, 10);
        assembler.shift_left(R1, 33);
        assembler.shift_right(R1, 32);
        assembler.or(R9, R1);
        assembler.load(Width::U64, R1, Frame, PASS);
        assembler.and_immediate(R1, 1);
        assembler.or(R1, R9);
        assembler.store(Width::U64, Frame, KEY, R1);
        load(assembler, R1, tid);
        assembler.and_immediate(R1, (self.slots - 1).cast_signed());
        look_up(assembler, map, next);
        assembler.store(Width::U64, Frame, SLOT, R0);
        assembler.load(Width::U64, R1, R0, 0);
        assembler.and_immediate(R1, !1);
        assembler.jump_if_registers_differ(R1, R9, emit);
        assembler.jump_if_equal(R8, 0, emit);
        load(assembler, R1, on_cpu);
        assembler.jump_if_different(R1, 0, emit);
        assembler.load(Width::U64, R1, Frame, KEY);
        assembler.store(Width::U64, R0, 0, R1);
        assembler.jump(next);
        assembler.place(emit);
    }

    /// Adds the counter of exited threads to `R9` if `R7` is the first thread of its process. It grows with every exit.
    fn add_exited(&self, assembler: &mut Assembler, [tid, tgid]: [&Option<FieldLocation>; 2]) {
        let Some((exited, [hop])) = self.exited.as_ref().and_then(|at| Some((at, at.hops.first_chunk()?))) else {
            return;
        };
        let other = assembler.label();
        load(assembler, R1, tid);
        load(assembler, R2, tgid);
        assembler.jump_if_registers_differ(R1, R2, other);
        assembler.load(Width::U64, R1, R7, near(*hop));
        assembler.jump_if_equal(R1, 0, other);
        assembler.load(Width::U64, R1, R1, near(exited.offset));
        assembler.add(R9, R1);
        assembler.place(other);
    }

    /// Adds `more` to the word with the number of threads that the pass has met, which lies below the number of the pass. `R1` then
    /// has that word.
    pub(super) fn count_threads(&self, assembler: &mut Assembler, more: i32, map: i32, next: Label) {
        assembler.mov_immediate(R1, self.slots.cast_signed());
        look_up(assembler, map, next);
        assembler.load(Width::U64, R1, R0, 0);
        assembler.add_immediate(R1, more);
        assembler.store(Width::U64, R0, 0, R1);
    }
}

/// Slots for the threads of this host: one for each id, up to [`MAX_SLOTS`].
pub(super) fn slots_of_host() -> u32 {
    slots_for(fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|text| text.trim().parse().ok()))
}

/// Slots for ids below `pid_max`; `None` if that is unknown.
fn slots_for(pid_max: Option<u32>) -> u32 {
    pid_max.unwrap_or(MAX_SLOTS).clamp(1, MAX_SLOTS).next_power_of_two()
}

/// The address of the word with the number in `R1`, in `R0`.
fn look_up(assembler: &mut Assembler, map: i32, next: Label) {
    assembler.store(Width::U32, Frame, SLOT_NUMBER, R1);
    assembler.load_map(R1, map);
    assembler.mov(R2, Frame);
    assembler.add_immediate(R2, SLOT_NUMBER.into());
    assembler.call(Helper::MapLookupElem);
    assembler.jump_if_equal(R0, 0, next);
}

/// The bits of a slot that say when its thread started, by `CLOCK_BOOTTIME`.
pub(super) fn start_bits(start_ns: u64) -> u64 {
    (start_ns >> 10) << 33 >> 32
}

/// Whether the pass with this number has met a thread that started then, and that has this slot.
pub(super) fn was_met(slot: u64, start_bits: u64, pass: u32) -> bool {
    slot & u64::from(u32::MAX) == start_bits | u64::from(pass & 1)
}

fn load(assembler: &mut Assembler, to: Register, place: &Option<FieldLocation>) {
    match place {
        Some(place) => {
            assembler.load(Width::from_bytes(place.size).unwrap_or(Width::U64), to, R7, near(place.offset));
        }
        None => assembler.mov_immediate(to, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_a_slot_of_its_own_up_to_a_million() {
        let slots = [Some(1), Some(32_768), Some(100_000), Some(4_194_304), None].map(slots_for);
        assert_eq!(slots, [1, 1 << 15, 1 << 17, 1 << 20, 1 << 20]);
    }
}
