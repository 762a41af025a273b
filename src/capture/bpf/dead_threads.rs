//! Records threads that have exited before the kernel frees them, by a program that copies from their memory.
//!
//! After the last thing that a thread does, the kernel waits with its memory: for its parent, and for a grace period of RCU, which
//! takes seconds on some busy hosts.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::assemble::{Assembled, Assembler, Register, Width};
use super::btf::{Btf, TypeId};
use super::columns;
use super::layout::{RecordScope, is_addressable, near};
use super::path::{self, FieldLocation};
use super::program::{Emitter, ThreadEvent, copy_bytes, end_if, first_element};
use crate::sys::bpf::map::SharedWords;
use crate::sys::bpf::program::run;

use Register::{Frame, R0, R3, R7, R9};

/// The state of a thread that leaves its CPU for the last time (`TASK_DEAD` of include/linux/sched.h).
const TASK_DEAD: i32 = 0x80;
/// The place on the stack of a field.
const FIELD: i16 = -16;

/// A program, and the word in which it gets the address of a thread.
pub(super) struct DeadThreads {
    program: OwnedFd,
    address: SharedWords,
}

impl DeadThreads {
    pub(super) fn new(program: OwnedFd, address: SharedWords) -> Self {
        Self { program, address }
    }

    /// Writes the record of the thread at this address if it is dead. `EPERM` before Linux 5.19, without the capabilities that
    /// loading needs.
    pub(super) fn record(&self, address: u64) -> Result<(), Errno> {
        self.address.set(0, address);
        run(self.program.as_fd())
    }
}

/// Where a thread says that it has left its CPU for the last time.
pub(super) struct DeathFields {
    on_cpu: FieldLocation,
    state: FieldLocation,
}

impl DeathFields {
    /// `None` for a kernel that lacks one.
    pub(super) fn find(btf: &Btf<'_>, task: TypeId) -> Option<Self> {
        let [on_cpu, state] =
            [columns::ON_CPU, columns::STATE].map(|path| path::resolve(btf, task, path).filter(is_addressable));
        Some(Self { on_cpu: on_cpu?, state: state? })
    }
}

impl Emitter<'_> {
    /// A program that records a dead thread as the tracepoint of [`ThreadEvent::Freed`] does. The first word of the map `address` says
    /// where the thread is. If the memory belongs to another thread by then, the ring has the record of that tracepoint before.
    pub(super) fn dead_thread(&self, fields: &DeathFields, address: i32, ring_and_lost: (i32, i32)) -> Assembled {
        let mut assembler = Assembler::default();
        end_if(&mut assembler, |assembler, end| {
            first_element(assembler, address);
            assembler.jump_if_equal(R0, 0, end);
            assembler.load(Width::U64, R9, R0, 0);
            assembler.mov(R7, R9);
            load(assembler, &fields.on_cpu);
            assembler.jump_if_different(R0, 0, end);
            load(assembler, &fields.state);
            assembler.jump_if_different(R0, TASK_DEAD, end);
        });
        self.event_in_ring(assembler, ThreadEvent::Freed, ring_and_lost, |assembler| {
            self.copy(assembler, RecordScope::Thread);
        })
    }
}

/// Loads a field of the thread in `R9` to `R0`.
fn load(assembler: &mut Assembler, place: &FieldLocation) {
    let width = Width::from_bytes(place.size).unwrap_or(Width::U64);
    assembler.mov(R3, R9);
    assembler.add_immediate(R3, near(place.offset).into());
    assembler.store_immediate(Width::U64, Frame, FIELD, 0);
    copy_bytes(assembler, Frame, FIELD, place.size.cast_signed());
    assembler.load(width, R0, Frame, FIELD);
}
