//! Emits the program that samples threads: all threads that run, are ready to run, or have slept since the previous sample.
//!
//! A thread that is asleep with an unchanged number of switches is in the same sleep, and nothing is written about it: out of
//! thousands of threads, a pass writes the few that did something. The order of instructions matters. Everything but the filter
//! is behind it, and `R7` to `R9` have equal types whenever a loop begins a round, so that the verifier ends it.

use super::super::stack::registers::SAMPLED;
use super::super::thread_flags::PF_KTHREAD;
use super::assemble::{Assembled, Assembler, Helper, Label, Register, Width};
use super::btf::{Btf, TypeId, kind};
use super::change_filter::{ChangeFilter, FilteredCounters, KEY, SLOT};
use super::columns;
use super::layout::{RecordScope, is_addressable, near};
use super::path::{self, FieldLocation};
use super::program::{CONTEXT_TASK, Emitter, NO_WAKEUP, TaskWalk, begin_round, byte, count, iterate};
use crate::model::CODE_REGISTERS;

use Register::{Frame, R0, R1, R2, R3, R4, R7, R8, R9};

/// Functions of the kernel that a sample has, at most.
pub(super) const FRAMES: usize = 8;
/// Registers of a thread in user mode: the number of its system call, two arguments, and whether it runs in 64-bit mode.
pub(super) const USER_REGISTERS: usize = 4;
/// Words behind the fields of a sample: the registers of the call and of the code, the thread that owns the lock, the bytes of the
/// stack, the stack.
pub(super) const CODE: usize = USER_REGISTERS;
pub(super) const OWNER: usize = CODE + CODE_REGISTERS;
pub(super) const STACK_BYTES: usize = OWNER + 1;
pub(super) const STACK: usize = STACK_BYTES + 1;
pub(super) const EXTRA_WORDS: usize = STACK + FRAMES;

/// Where the registers are in `struct pt_regs`: of x86-64, else of arm64.
const REGISTERS: [&str; USER_REGISTERS] =
    ["orig_ax | orig_rax | syscallno", "di | rdi | orig_x0", "si | rsi | regs[1]", "cs | pstate"];
/// The place on the stack of the number of an entry of the list.
const LIST_NUMBER: i16 = -68;
/// The place on the stack of addresses of functions.
const FRAMES_READ: i16 = -136;
/// Ids of threads in a list, at most; a 0 ends it.
pub(super) const LISTED: u32 = 4096;
/// Beyond the largest id of a thread (`PID_MAX_LIMIT`): not the thread itself, but the one that runs on its CPU.
pub(super) const OF_CPU: u32 = 1 << 30;
/// Kinds of locks in the low bits of `blocker` (`include/linux/hung_task.h`).
const SEMAPHORE: i32 = 1;
const READ_WRITE: i32 = 2;
/// Flags in the low bits of a lock's owner, of a mutex and of a read-write semaphore.
const OWNER_FLAGS: i32 = 7;

/// Functions of the kernel that find threads by their ids.
#[derive(Clone, Debug)]
pub(super) struct ListedThreads {
    /// The functions that make, advance and end an iterator over numbers (Linux 6.4).
    numbers: [TypeId; 3],
    /// The functions that find a thread (Linux 6.2) and let it go.
    pub(super) find: TypeId,
    pub(super) release: TypeId,
    /// Where a thread has the id of the one that runs on its CPU.
    running: FieldLocation,
}

/// Facts about the kernel that the program needs, beside the fields.
#[derive(Debug)]
pub(super) struct SampledKernel {
    pub(super) filter: ChangeFilter,
    exit_state: Option<FieldLocation>,
    /// `None` for a kernel without `bpf_task_pt_regs` (Linux 5.15).
    registers: Option<[Option<FieldLocation>; OWNER]>,
    blocker: Option<FieldLocation>,
    /// Offsets of the owners of a mutex and of a read-write semaphore.
    owners: Option<[i32; 2]>,
}

/// Descriptors of the maps that the program uses.
#[derive(Clone, Copy)]
pub(super) struct SampleMaps {
    pub(super) ring: i32,
    pub(super) lost: i32,
    pub(super) filter: i32,
    pub(super) list: i32,
}

impl ListedThreads {
    /// Finds these facts; `None` for a kernel that lacks one.
    pub(super) fn find(btf: &Btf<'_>, task: TypeId) -> Option<Self> {
        let functions = ["bpf_iter_num_new", "bpf_iter_num_next", "bpf_iter_num_destroy"];
        let others = ["bpf_task_from_pid", "bpf_task_release"];
        let [new, next, end] = functions.map(|name| btf.find(kind::FUNC, name));
        let [find, release] = others.map(|name| btf.find(kind::FUNC, name));
        let running = path::resolve(btf, task, columns::RUNS_ON_ITS_CPU).filter(is_addressable)?;
        Some(Self { numbers: [new?, next?, end?], find: find?, release: release?, running })
    }
}

impl SampledKernel {
    pub(super) fn find(btf: &Btf<'_>, task: TypeId, slots: u32) -> Self {
        let field = |of, path| path::resolve(btf, of, path).filter(is_addressable);
        let of_structure = |name, path| field(btf.find(kind::STRUCT, name)?, path);
        let owner = |lock| i32::try_from(of_structure(lock, "owner")?.offset).ok();
        Self {
            filter: ChangeFilter::find(btf, task, slots),
            exit_state: field(task, columns::EXIT_STATE),
            registers: btf
                .find(kind::FUNC, "bpf_task_pt_regs")
                .map(|_| std::array::from_fn(|word| of_structure("pt_regs", register(word)))),
            blocker: field(task, columns::BLOCKER),
            owners: owner("mutex").and_then(|mutex| Some([mutex, owner("rw_semaphore")?])),
        }
    }
}

/// Where the register of a word is in `struct pt_regs`.
fn register(word: usize) -> &'static str {
    REGISTERS.get(word).copied().unwrap_or_else(|| SAMPLED[word - CODE].0)
}

/// Bytes of a record.
pub(super) fn record_bytes(emitter: &Emitter<'_>) -> i32 {
    i32::from(byte(emitter.layout.words(RecordScope::Thread) + EXTRA_WORDS))
}

impl Emitter<'_> {
    /// The program that samples all threads. It writes a record with the fields of a thread and [`EXTRA_WORDS`] for each thread to
    /// the ring, and adds 1 to the counter `lost` for each without room, which the next pass tries again.
    pub(super) fn sampler(&self, walk: TaskWalk, kernel: &SampledKernel, maps: SampleMaps) -> Assembled {
        self.each_thread(walk, |assembler, visited| self.sample(assembler, kernel, maps, visited))
    }

    /// Emits the program that samples the threads of a list, and running threads. The kernel's iterator runs it once.
    pub(super) fn listed_sampler(
        &self,
        threads: &ListedThreads,
        kernel: &SampledKernel,
        maps: SampleMaps,
    ) -> Assembled {
        let mut assembler = Assembler::default();
        let [next, visited, end, finished] = [(); 4].map(|()| assembler.label());
        find_listed(&mut assembler, threads, maps.list, [next, end, finished]);
        self.sample(&mut assembler, kernel, maps, visited);
        assembler.place(visited);
        assembler.mov(R1, R7);
        assembler.call_kernel_function(threads.release.0);
        assembler.jump(next);
        assembler.place(end);
        let [.., destroy] = threads.numbers;
        iterate(&mut assembler, destroy);
        assembler.place(finished);
        assembler.mov_immediate(R0, 0);
        assembler.exit();
        assembler.finish()
    }

    /// Writes the thread in `R7`, or jumps to `next`.
    fn sample(&self, assembler: &mut Assembler, kernel: &SampledKernel, maps: SampleMaps, next: Label) {
        let [full, active, written] = [assembler.label(), assembler.label(), assembler.label()];
        if let Some(place) = &kernel.exit_state {
            assembler.load(Width::from_bytes(place.size).unwrap_or(Width::U64), R1, R7, near(place.offset));
            assembler.jump_if_different(R1, 0, next);
        }
        kernel.filter.unless_changed(assembler, FilteredCounters::OfThread, maps.filter, next);
        assembler.load_map(R1, maps.ring);
        assembler.mov_immediate(R2, record_bytes(self));
        assembler.mov_immediate(R3, 0);
        assembler.call(Helper::RingbufReserve);
        assembler.jump_if_equal(R0, 0, full);
        assembler.mov(R8, R0);
        self.cast_to_untrusted(assembler);
        self.fill(assembler, RecordScope::Thread);
        let extra = self.layout.words(RecordScope::Thread);
        (extra..extra + EXTRA_WORDS)
            .for_each(|word| assembler.store_immediate(Width::U64, R8, byte(word), if word == extra { -1 } else { 0 }));
        // What the record says counts: the thread may have woken up since it passed the filter.
        assembler.load(Width::U64, R3, Frame, SLOT);
        if let Some(on_cpu) = self.layout.find(columns::ON_CPU) {
            assembler.load(Width::U64, R1, R8, byte(on_cpu.slot()));
            assembler.jump_if_different(R1, 0, active);
        }
        if let Some(state) = self.layout.find(columns::STATE) {
            assembler.load(Width::U64, R1, R8, byte(state.slot()));
            assembler.jump_if_equal(R1, 0, active);
        }
        assembler.load(Width::U64, R1, Frame, KEY);
        assembler.store(Width::U64, R3, 0, R1);
        self.sleeper(assembler, kernel, extra);
        assembler.jump(written);
        assembler.place(active);
        assembler.store_immediate(Width::U64, R3, 0, 0);
        assembler.place(written);
        assembler.mov(R1, R8);
        assembler.mov_immediate(R2, NO_WAKEUP);
        assembler.call(Helper::RingbufSubmit);
        assembler.jump(next);
        assembler.place(full);
        count(assembler, maps.lost, next);
    }

    /// Adds to the record in `R8` what only a thread has that is asleep: how it got into the kernel, where it is, and who
    /// owns the lock.
    fn sleeper(&self, assembler: &mut Assembler, kernel: &SampledKernel, extra: usize) {
        let kernel_thread = assembler.label();
        if let (Some(registers), Some(flags)) = (&kernel.registers, self.layout.find(columns::FLAGS)) {
            assembler.load(Width::U64, R1, R8, byte(flags.slot()));
            assembler.jump_if_set(R1, i32::try_from(PF_KTHREAD).expect("a flag of 32 bits"), kernel_thread);
            assembler.mov(R1, R7);
            assembler.call(Helper::TaskPtRegs);
            for (word, place) in registers.iter().enumerate() {
                let Some((place, width)) = place.as_ref().and_then(|at| Some((at, Width::from_bytes(at.size)?))) else {
                    continue;
                };
                assembler.load(width, R1, R0, near(place.offset));
                if place.signed {
                    assembler.sign_extend(R1, width);
                }
                assembler.store(Width::U64, R8, byte(extra + word), R1);
            }
        }
        assembler.place(kernel_thread);
        self.owner(assembler, kernel, byte(extra + OWNER));
        assembler.mov(R1, R7);
        // Not to the record: the kernel has to let go only one of the arguments.
        assembler.mov(R2, Frame);
        assembler.add_immediate(R2, FRAMES_READ.into());
        assembler.mov_immediate(R3, i32::from(byte(FRAMES)));
        assembler.mov_immediate(R4, 0);
        assembler.call(Helper::GetTaskStack);
        assembler.store(Width::U64, R8, byte(extra + STACK_BYTES), R0);
        for frame in 0..FRAMES {
            assembler.load(Width::U64, R1, Frame, FRAMES_READ + byte(frame));
            assembler.store(Width::U64, R8, byte(extra + STACK + frame), R1);
        }
    }

    /// Stores the id of the thread that owns the lock that the thread waits for, where the kernel says which lock that is
    /// (Linux 6.16, `CONFIG_DETECT_HUNG_TASK_BLOCKER`).
    fn owner(&self, assembler: &mut Assembler, kernel: &SampledKernel, at: i16) {
        let column = self.layout.filled().find(|(_, column)| column.path == columns::BLOCKER);
        let (Some((number, _)), Some(blocker), Some([mutex, read_write])) = (column, &kernel.blocker, kernel.owners)
        else {
            return;
        };
        assembler.mark(Some(number));
        let [none, of_semaphore, read] = [assembler.label(), assembler.label(), assembler.label()];
        assembler.load(Width::U64, R9, R7, near(blocker.offset));
        assembler.jump_if_equal(R9, 0, none);
        assembler.mov(R3, R9);
        assembler.and_immediate(R3, !(SEMAPHORE | READ_WRITE));
        assembler.jump_if_set(R9, READ_WRITE, of_semaphore);
        assembler.jump_if_set(R9, SEMAPHORE, none);
        assembler.add_immediate(R3, mutex);
        assembler.jump(read);
        assembler.place(of_semaphore);
        assembler.add_immediate(R3, read_write);
        assembler.place(read);
        let copy = |assembler: &mut Assembler, bytes| {
            assembler.mov(R1, R8);
            assembler.add_immediate(R1, at.into());
            assembler.mov_immediate(R2, bytes);
            assembler.call(Helper::ProbeReadKernel);
        };
        copy(assembler, 8);
        assembler.load(Width::U64, R3, R8, at);
        assembler.store_immediate(Width::U64, R8, at, 0);
        assembler.and_immediate(R3, !OWNER_FLAGS);
        assembler.jump_if_equal(R3, 0, none);
        assembler.add_immediate(R3, self.kernel.pid.into());
        copy(assembler, 4);
        assembler.place(none);
        assembler.mark(None);
    }
}

/// Begins a round with the next thread of the list, in `R7`.
fn find_listed(assembler: &mut Assembler, threads: &ListedThreads, list: i32, [next, end, finished]: [Label; 3]) {
    let [new, advance, _] = threads.numbers;
    // The kernel runs the program once more, in the end.
    assembler.load(Width::U64, R1, R1, CONTEXT_TASK);
    assembler.jump_if_equal(R1, 0, finished);
    let [of_cpu, nobody, found] = [(); 3].map(|()| assembler.label());
    assembler.mov_immediate(R2, 0);
    assembler.mov_immediate(R3, LISTED.cast_signed());
    iterate(assembler, new);
    begin_round(assembler, advance, [next, end]);
    assembler.load(Width::U32, R1, R0, 0);
    assembler.store(Width::U32, Frame, LIST_NUMBER, R1);
    assembler.load_map(R1, list);
    assembler.mov(R2, Frame);
    assembler.add_immediate(R2, LIST_NUMBER.into());
    assembler.call(Helper::MapLookupElem);
    assembler.jump_if_equal(R0, 0, end);
    assembler.load(Width::U64, R8, R0, 0);
    assembler.jump_if_equal(R8, 0, end);
    let find = |assembler: &mut Assembler| {
        assembler.call_kernel_function(threads.find.0);
        assembler.jump_if_equal(R0, 0, next);
        assembler.mov(R7, R0);
    };
    assembler.mov(R1, R8);
    assembler.and_immediate(R1, !OF_CPU.cast_signed());
    find(assembler);
    assembler.jump_if_set(R8, OF_CPU.cast_signed(), of_cpu);
    assembler.jump(found);
    assembler.place(of_cpu);
    assembler.mov(R1, R7);
    for hop in &threads.running.hops {
        assembler.load(Width::U64, R1, R1, near(*hop));
        assembler.jump_if_equal(R1, 0, nobody);
    }
    assembler.load(Width::U32, R9, R1, near(threads.running.offset));
    assembler.place(nobody);
    assembler.mov(R1, R7);
    assembler.call_kernel_function(threads.release.0);
    assembler.mov(R1, R9);
    find(assembler);
    assembler.place(found);
}
