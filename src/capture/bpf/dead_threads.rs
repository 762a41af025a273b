//! Records threads that have exited before the kernel frees them, by a program that copies from their memory.
//!
//! After the last thing that a thread does, the kernel waits with its memory: for its parent, and for a grace period of RCU, which
//! takes seconds on some busy hosts.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;

use super::assemble::{Assembled, Assembler, Label, Register, Width};
use super::btf::{Btf, TypeId};
use super::columns;
use super::layout::{RecordScope, is_addressable, near};
use super::path::{self, FieldLocation};
use super::program::{Emitter, ThreadEvent, copy_bytes, element, end_if};
use crate::sys::bpf::map::SharedWords;
use crate::sys::bpf::program::run;

use Register::{Frame, R0, R3, R6, R7, R8, R9};

/// The state of a thread that leaves its CPU for the last time (`TASK_DEAD` of include/linux/sched.h).
const TASK_DEAD: i32 = 0x80;
/// The place on the stack of a field.
const FIELD: i16 = -16;

/// A program, and the words in which it gets a thread.
pub(super) struct DeadThreads {
    program: OwnedFd,
    thread: SharedWords,
}

/// A thread that has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExitedAt {
    pub(super) address: u64,
    /// Time of `CLOCK_BOOTTIME` at which it started, in nanoseconds: at that address, there may be another thread now.
    pub(super) start_ns: u64,
}

impl DeadThreads {
    /// Loads the program with `load`, which gets the descriptor of the map for the words.
    pub(super) fn new(load: impl FnOnce(i32) -> Option<OwnedFd>) -> Option<Self> {
        let thread = SharedWords::new(2).ok()?;
        Some(Self { program: load(thread.map.as_raw_fd())?, thread })
    }

    /// Writes a record of the thread if it is dead, or gone. `EPERM` before Linux 5.19, without the capabilities that loading needs.
    pub(super) fn record(&self, ExitedAt { address, start_ns }: ExitedAt) -> Result<(), Errno> {
        self.thread.set(0, address);
        self.thread.set(1, start_ns);
        run(self.program.as_fd())
    }
}

/// Where a thread says that it has left its CPU for the last time, and whether it is freed.
pub(super) struct DeathFields {
    start: FieldLocation,
    on_cpu: FieldLocation,
    state: FieldLocation,
    /// How many places of the kernel refer to it.
    usage: Option<FieldLocation>,
    /// How many threads the process of the thread has, zombies included.
    threads: FieldLocation,
}

impl DeathFields {
    /// `None` for a kernel that lacks one.
    pub(super) fn find(btf: &Btf<'_>, task: TypeId) -> Option<Self> {
        let paths = [columns::START_TIME, columns::ON_CPU, columns::STATE, "usage.refs.counter", "signal->nr_threads"];
        let [start, on_cpu, state, usage, threads] =
            paths.map(|path| path::resolve(btf, task, path).filter(is_addressable));
        Some(Self { start: start?, on_cpu: on_cpu?, state: state?, usage, threads: threads? })
    }
}

impl Emitter<'_> {
    /// A program that records a dead thread as the tracepoint of [`ThreadEvent::Freed`] does. The map `thread` has its address and its
    /// start. If the thread is gone, and the ring has no record of that tracepoint before this one, it was lost.
    pub(super) fn dead_thread(&self, fields: &DeathFields, thread: i32, ring_and_lost: (i32, i32)) -> Assembled {
        let mut assembler = Assembler::default();
        end_if(&mut assembler, |assembler, end| {
            let [gone, decided] = [(); 2].map(|()| assembler.label());
            for (number, register) in [(0, R9), (1, R6)] {
                element(assembler, thread, number);
                assembler.jump_if_equal(R0, 0, end);
                assembler.load(Width::U64, register, R0, 0);
            }
            assembler.mov(R7, R9);
            load(assembler, &fields.start);
            assembler.jump_if_registers_differ(R0, R6, gone);
            unless_used(assembler, fields, gone);
            load(assembler, &fields.on_cpu);
            assembler.jump_if_different(R0, 0, end);
            load(assembler, &fields.state);
            assembler.jump_if_different(R0, TASK_DEAD, end);
            self.if_leader_of_others(assembler, fields, end);
            assembler.mov_immediate(R6, ThreadEvent::Freed as i32);
            assembler.jump(decided);
            assembler.place(gone);
            assembler.mov_immediate(R6, ThreadEvent::Gone as i32);
            assembler.place(decided);
        });
        self.event_in_ring(assembler, ThreadEvent::Freed, ring_and_lost, |assembler| {
            self.copy(assembler, RecordScope::Thread);
            let [freed, whole] = [(); 2].map(|()| assembler.label());
            assembler.jump_if_equal(R6, ThreadEvent::Gone as i32, whole);
            unless_used(assembler, fields, freed);
            load(assembler, &fields.state);
            assembler.jump_if_equal(R0, TASK_DEAD, whole);
            assembler.place(freed);
            assembler.mov_immediate(R6, ThreadEvent::Nothing as i32);
            assembler.place(whole);
            self.replace_event(assembler, ThreadEvent::Freed, R6);
        })
    }

    /// Jumps if the thread in `R9` is the first of a process that has others: it is listed until they have exited, or until one of
    /// them executes a program and gets its id.
    fn if_leader_of_others(&self, assembler: &mut Assembler, fields: &DeathFields, others: Label) {
        let alone = assembler.label();
        let ids = [(self.kernel.tgid, R8), (self.kernel.pid, R0)];
        for (offset, register) in ids {
            assembler.mov(R3, R9);
            load_behind(assembler, offset, Width::U32);
            assembler.mov(register, R0);
        }
        assembler.jump_if_registers_differ(R0, R8, alone);
        load(assembler, &fields.threads);
        assembler.jump_if_equal(R0, 0, alone);
        assembler.jump_if_different(R0, 1, others);
        assembler.place(alone);
    }
}

/// Jumps if nothing refers to the thread in `R9`: it is freed.
fn unless_used(assembler: &mut Assembler, DeathFields { usage, .. }: &DeathFields, freed: Label) {
    if let Some(usage) = usage {
        load(assembler, usage);
        assembler.jump_if_equal(R0, 0, freed);
    }
}

/// Loads a field of the thread in `R9` to `R0`. It is 0 behind NULL.
fn load(assembler: &mut Assembler, place: &FieldLocation) {
    assembler.mov(R3, R9);
    for &hop in &place.hops {
        load_behind(assembler, near(hop), Width::U64);
        assembler.mov(R3, R0);
    }
    load_behind(assembler, near(place.offset), Width::from_bytes(place.size).unwrap_or(Width::U64));
}

/// Loads from the structure at the address in `R3`, which may be any, to `R0`.
fn load_behind(assembler: &mut Assembler, offset: i16, width: Width) {
    assembler.add_immediate(R3, offset.into());
    assembler.store_immediate(Width::U64, Frame, FIELD, 0);
    copy_bytes(assembler, Frame, FIELD, (width.bits() / 8).cast_signed());
    assembler.load(width, R0, Frame, FIELD);
}

#[cfg(test)]
mod tests {
    use super::super::btf::kind;
    use super::*;
    use crate::skip::{Missing, skipped};
    use crate::sys::bpf::kernel_btf::KernelBtf;

    #[test]
    fn the_running_kernel_says_which_threads_are_dead_and_freed() {
        let Ok(bytes) = KernelBtf::open() else { return skipped(Missing::Kernel("BTF")) };
        let btf = Btf::parse(&bytes).unwrap();
        let fields = DeathFields::find(&btf, btf.find(kind::STRUCT, "task_struct").unwrap()).unwrap();
        assert!(fields.usage.is_some_and(|usage| usage.size == 4 && usage.hops.is_empty()));
    }
}
