//! Emits programs that copy a thread's fields into a record.
//!
//! `R6` holds the context, `R7` the thread, `R8` the record, and `R9` the thread once more, for pointers: a copy
//! that `bpf_rdonly_cast` has made is not trusted, and the verifier needs a fiftieth of the time for pointers that are
//! loaded from it.

use super::assemble::{Assembled, Assembler, Helper, Label, Register, Width};
use super::btf::{Btf, TypeId, kind};
use super::layout::{FOLLOWED, LENGTH, Layout, RecordColumn, RecordScope, TIME, near};
use super::path;

use Register::{Frame, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};

/// Registers for the pointers on the way to a field.
const POINTERS: [Register; 5] = [R1, R2, R3, R4, R5];
/// Offset of the thread in the context of an iterator (`struct bpf_iter__task`).
pub(super) const CONTEXT_TASK: i16 = 8;
/// Offset of the thread in the context of a tracepoint: it is the first argument.
pub(super) const FIRST_ARGUMENT: i16 = 0;
pub(super) const SECOND_ARGUMENT: i16 = 8;
/// Words after the record of an iterator: which first thread it has written last.
pub(super) const LAST_WRITTEN_WORDS: usize = 1;

/// Event of a record in the ring buffer of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadEvent {
    /// The thread was freed while the record was written, which has nothing to say.
    Nothing,
    Exit,
    Freed,
    /// The thread was freed before, and nothing is left of it.
    Gone,
    /// The first thread of a process gets another name. The record has the one before.
    Rename,
    /// A process has executed a file.
    Exec,
}

impl ThreadEvent {
    /// The parts of the record.
    fn parts(self) -> &'static [RecordScope] {
        match self {
            Self::Exit | Self::Rename => &[RecordScope::Thread, RecordScope::Process],
            Self::Freed | Self::Gone | Self::Exec | Self::Nothing => &[RecordScope::Thread],
        }
    }
}

/// Words after the record of a thread in the ring buffer of tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventTrailer {
    /// The address of the thread.
    pub(super) thread: u64,
    /// A number of [`ThreadEvent`].
    pub(super) event: u64,
    /// The id that the thread had before it executed a file.
    pub(super) old_id: u64,
}

/// Words of an [`EventTrailer`].
const TRAILER_WORDS: usize = 3;

impl EventTrailer {
    /// The record and what follows it.
    pub(super) fn split(words: &[u64]) -> Option<(&[u64], Self)> {
        let (record, &[thread, event, old_id]) = words.split_last_chunk::<TRAILER_WORDS>()?;
        Some((record, Self { thread, event, old_id }))
    }
}

/// Facts about the kernel that programs need, beside the fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    pub(super) task: TypeId,
    /// The function whose arguments the program of a task iterator gets.
    pub(super) iterator: TypeId,
    /// `bpf_rdonly_cast` (Linux 6.2).
    pub(super) cast: Option<TypeId>,
    /// Offset of `seq` in `struct bpf_iter_meta`.
    pub(super) seq: i16,
    pub(super) group_leader: i16,
    pub(super) pid: i16,
    pub(super) tgid: i16,
}

impl Kernel {
    /// `None` for a kernel without task iterators.
    pub(super) fn find(btf: &Btf<'_>) -> Option<Self> {
        let (task, iterator) = (btf.find(kind::STRUCT, "task_struct")?, btf.find(kind::FUNC, "bpf_iter_task")?);
        let offset = |of: TypeId, member: &str| i16::try_from(path::resolve(btf, of, member)?.offset).ok();
        let cast = btf.find(kind::FUNC, "bpf_rdonly_cast");
        let meta = btf.find(kind::STRUCT, "bpf_iter_meta")?;
        let seq = offset(meta, "seq")?;
        let [pid, tgid, group_leader] = ["pid", "tgid", "group_leader"].map(|member| offset(task, member));
        Some(Self { task, iterator, cast, seq, group_leader: group_leader?, pid: pid?, tgid: tgid? })
    }
}

/// Emits programs for one layout.
pub(super) struct Emitter<'a> {
    pub(super) kernel: Kernel,
    pub(super) layout: &'a Layout,
}

impl Emitter<'_> {
    /// A program that a task iterator runs for each thread. It fills `record`, a per-CPU array with one element, and
    /// writes it to the reader.
    pub(super) fn iterator(&self, record: i32) -> Assembled {
        self.each_thread(TaskWalk::Iterator, |assembler, visited| {
            self.whole_record(assembler, record, visited);
            self.write_to_reader(assembler);
        })
    }

    /// A program that does what `visit` emits with each thread. `R7` has its address, and `visit` jumps to the label, or ends, to
    /// go on with the next one.
    pub(super) fn each_thread(&self, walk: TaskWalk, visit: impl FnOnce(&mut Assembler, Label)) -> Assembled {
        let mut assembler = Assembler::default();
        let [next, visited, end] = [(); 3].map(|()| assembler.label());
        match walk {
            TaskWalk::OpenCoded([new, advance, _]) => {
                begin_open_coded(&mut assembler, new);
                begin_round(&mut assembler, advance, [next, end]);
                assembler.mov(R7, R0);
                // The kernel's iterator begins behind the idle thread.
                assembler.load(Width::U32, R1, R7, self.kernel.pid);
                assembler.jump_if_equal(R1, 0, visited);
            }
            TaskWalk::Iterator => {
                assembler.mov(R6, R1);
                assembler.load(Width::U64, R7, R6, CONTEXT_TASK);
                assembler.jump_if_equal(R7, 0, visited);
            }
        }
        visit(&mut assembler, visited);
        assembler.place(visited);
        if let TaskWalk::OpenCoded([.., destroy]) = walk {
            assembler.jump(next);
            assembler.place(end);
            iterate(&mut assembler, destroy);
        }
        assembler.mov_immediate(R0, 0);
        assembler.exit();
        assembler.finish()
    }

    /// Fills the element of `record` from the thread in `R7`. `R8` has its address then, and `R3` its bytes.
    pub(super) fn whole_record(&self, assembler: &mut Assembler, record: i32, end: Label) {
        let filled = assembler.label();
        first_element(assembler, record);
        assembler.jump_if_equal(R0, 0, end);
        assembler.mov(R8, R0);
        self.cast_to_untrusted(assembler);
        self.fill(assembler, RecordScope::Thread);
        assembler.mov_immediate(R3, self.bytes(RecordScope::Thread));
        self.unless_leader(assembler, filled);
        self.fill(assembler, RecordScope::Process);
        assembler.mov_immediate(R3, self.bytes(RecordScope::Process));
        assembler.place(filled);
    }

    /// Writes the record in `R8`, of as many bytes as `R3` says, to the reader of the iterator with the context in `R6`.
    pub(super) fn write_to_reader(&self, assembler: &mut Assembler) {
        assembler.load(Width::U64, R1, R6, 0);
        assembler.load(Width::U64, R1, R1, self.kernel.seq);
        assembler.mov(R2, R8);
        assembler.call(Helper::SeqWrite);
    }

    /// A program for the tracepoint of an event, with a thread as its first argument. It writes the thread's fields to the
    /// ring buffer `ring`, followed by an [`EventTrailer`]. If there is no room, it adds 1 to the counter `lost`.
    pub(super) fn tracepoint(&self, event: ThreadEvent, ring: i32, lost: i32) -> Assembled {
        let mut assembler = Assembler::default();
        assembler.mov(R6, R1);
        assembler.load(Width::U64, R7, R6, FIRST_ARGUMENT);
        if event == ThreadEvent::Rename {
            end_if(&mut assembler, |assembler, other| self.unless_leader(assembler, other));
        }
        self.cast_to_untrusted(&mut assembler);
        self.event_in_ring(assembler, event, (ring, lost), |assembler| {
            event.parts().iter().for_each(|&part| self.fill(assembler, part));
        })
    }

    /// Emits the rest of a program that writes a record of an event with the thread in `R7`: its [`EventTrailer`], and the record,
    /// which `fill` fills.
    pub(super) fn event_in_ring(
        &self,
        assembler: Assembler,
        event: ThreadEvent,
        ring_and_lost: (i32, i32),
        fill: impl FnOnce(&mut Assembler),
    ) -> Assembled {
        let words = self.words(event);
        record_in_ring(assembler, words + TRAILER_WORDS, ring_and_lost, |assembler| {
            assembler.store(Width::U64, R8, byte(words), R7);
            assembler.store_immediate(Width::U64, R8, byte(words + 1), event as i32);
            assembler.mov_immediate(R0, 0);
            if event == ThreadEvent::Exec {
                assembler.load(Width::U64, R0, R6, SECOND_ARGUMENT);
            }
            assembler.store(Width::U64, R8, byte(words + 2), R0);
            fill(assembler);
        })
    }

    fn bytes(&self, part: RecordScope) -> i32 {
        i32::try_from(8 * self.layout.words(part)).expect("a record has a few hundred words")
    }

    /// Copies the thread in `R7` to `R9`.
    pub(super) fn cast_to_untrusted(&self, assembler: &mut Assembler) {
        let Some(cast) = self.kernel.cast else { return assembler.mov(R9, R7) };
        assembler.mov(R1, R7);
        assembler.mov_immediate(R2, self.kernel.task.0.cast_signed());
        assembler.call_kernel_function(cast.0);
        assembler.mov(R9, R0);
    }

    /// Jumps if the thread in `R7` is not the first of its process.
    pub(super) fn unless_leader(&self, assembler: &mut Assembler, to: Label) {
        assembler.load(Width::U32, R0, R7, self.kernel.pid);
        assembler.load(Width::U32, R1, R7, self.kernel.tgid);
        assembler.jump_if_registers_differ(R0, R1, to);
    }

    /// Fills this part of the record in `R8` from the thread in `R7` and `R9`.
    pub(super) fn fill(&self, assembler: &mut Assembler, part: RecordScope) {
        let columns = self.begin_record(assembler, part);
        self.load_behind(assembler, &columns, &[]);
        // Calls clobber the registers with pointers, so copies are last.
        copy_all(assembler, columns.into_iter().filter(|(_, column)| column.place.copied));
    }

    /// Makes the record of an event in `R8` one of the event whose number is in this register.
    pub(super) fn replace_event(&self, assembler: &mut Assembler, event: ThreadEvent, number: Register) {
        assembler.store(Width::U64, R8, byte(self.words(event) + 1), number);
    }

    fn words(&self, event: ThreadEvent) -> usize {
        event.parts().iter().map(|&part| self.layout.words(part)).max().unwrap_or(0)
    }

    /// Fills this part of the record in `R8` from the thread at the address in `R9`, which the kernel does not know to be one.
    pub(super) fn copy(&self, assembler: &mut Assembler, part: RecordScope) {
        let columns = self.begin_record(assembler, part);
        copy_all(assembler, columns.into_iter());
    }

    /// Fills what comes before the fields, and clears fields that may be skipped. Returns the columns of the part.
    fn begin_record(&self, assembler: &mut Assembler, part: RecordScope) -> Vec<(u16, &RecordColumn)> {
        assembler.store_immediate(Width::U64, R8, byte(LENGTH), self.bytes(part) / 8);
        if part == RecordScope::Thread {
            (FOLLOWED..TIME).for_each(|word| assembler.store_immediate(Width::U64, R8, byte(word), 0));
            assembler.call(Helper::KtimeGetNs);
            assembler.store(Width::U64, R8, byte(TIME), R0);
        }
        let columns: Vec<_> = self.layout.filled().filter(|(_, column)| column.part == part).collect();
        for (_, column) in columns.iter().filter(|(_, column)| may_be_skipped(column)) {
            slots(column).for_each(|slot| assembler.store_immediate(Width::U64, R8, byte(slot), 0));
        }
        columns
    }

    /// Loads the columns behind these pointers and follows more pointers from there. The last pointer is in its register.
    fn load_behind(&self, assembler: &mut Assembler, columns: &[(u16, &RecordColumn)], way: &[u32]) {
        let base = way.len().checked_sub(1).map(|depth| POINTERS[depth]);
        // Pointers of the thread itself come from the copy without trust.
        let (values, pointers) = (base.unwrap_or(R7), base.unwrap_or(R9));
        let is_here = |column: &RecordColumn| !column.place.copied && column.place.hops == way;
        for (number, column) in columns.iter().filter(|(_, column)| is_here(column)) {
            assembler.mark(Some(*number));
            load(assembler, column, if column.place.pointer { pointers } else { values });
        }
        for (index, next) in self.layout.pointers.iter().enumerate() {
            let [offset] = next.strip_prefix(way).unwrap_or_default() else { continue };
            let used = columns.iter().find(|(_, column)| column.place.hops.starts_with(next));
            let (Some((number, _)), Some(&register)) = (used, POINTERS.get(way.len())) else { continue };
            assembler.mark(Some(*number));
            let skip = assembler.label();
            assembler.load(Width::U64, register, pointers, near(*offset));
            assembler.jump_if_equal(register, 0, skip);
            let followed = byte(FOLLOWED) + i16::try_from(index).expect("a record has room for a few pointers");
            assembler.store_immediate(Width::U8, R8, followed, 1);
            self.load_behind(assembler, columns, next);
            assembler.place(skip);
        }
    }
}

/// Emits what jumps to a label if the program has nothing to do, and ends the program there.
pub(super) fn end_if(assembler: &mut Assembler, is_done: impl FnOnce(&mut Assembler, Label)) {
    let [end, go_on] = [(); 2].map(|()| assembler.label());
    is_done(assembler, end);
    assembler.jump(go_on);
    assembler.place(end);
    assembler.mov_immediate(R0, 0);
    assembler.exit();
    assembler.place(go_on);
}

/// Emits the rest of a program that writes a record of this many words: `fill` fills the record in `R8`. Without room in the ring
/// buffer, it adds 1 to the counter `lost`.
pub(super) fn record_in_ring(
    mut assembler: Assembler,
    words: usize,
    (ring, lost): (i32, i32),
    fill: impl FnOnce(&mut Assembler),
) -> Assembled {
    let [full, end] = [assembler.label(), assembler.label()];
    assembler.load_map(R1, ring);
    assembler.mov_immediate(R2, i32::from(byte(words)));
    assembler.mov_immediate(R3, 0);
    assembler.call(Helper::RingbufReserve);
    assembler.jump_if_equal(R0, 0, full);
    assembler.mov(R8, R0);
    fill(&mut assembler);
    assembler.mov(R1, R8);
    // The kernel wakes the reader for the first record only, if it has taken all before.
    assembler.mov_immediate(R2, 0);
    assembler.call(Helper::RingbufSubmit);
    assembler.jump(end);
    assembler.place(full);
    count(&mut assembler, lost, end);
    assembler.place(end);
    assembler.mov_immediate(R0, 0);
    assembler.exit();
    assembler.finish()
}

/// The place on the stack of `struct bpf_iter_task`.
const ITERATOR: i16 = -64;
/// Flag of iterators over tasks: `BPF_TASK_ITER_ALL_THREADS`.
const ALL_THREADS: i32 = 1;
/// `BPF_RB_NO_WAKEUP`: the reader starts the pass itself.
pub(super) const NO_WAKEUP: i32 = 1;

/// Program that goes over the threads.
#[derive(Clone, Copy)]
pub(super) enum TaskWalk {
    /// The program, by the functions that make, advance and end an iterator (Linux 6.7).
    OpenCoded([TypeId; 3]),
    /// The kernel, which runs the program for each thread.
    Iterator,
}

impl TaskWalk {
    /// Open-coded, if the kernel has the functions for it.
    pub(super) fn open_coded(btf: &Btf<'_>) -> Option<Self> {
        let functions = ["bpf_iter_task_new", "bpf_iter_task_next", "bpf_iter_task_destroy"];
        let [new, next, end] = functions.map(|name| btf.find(kind::FUNC, name));
        Some(Self::OpenCoded([new?, next?, end?]))
    }
}

/// Begins to go over all threads, with this function of the open-coded iterator.
fn begin_open_coded(assembler: &mut Assembler, new: TypeId) {
    assembler.mov_immediate(R2, 0);
    assembler.mov_immediate(R3, ALL_THREADS);
    iterate(assembler, new);
}

/// Calls a function of the iterator on the stack.
pub(super) fn iterate(assembler: &mut Assembler, function: TypeId) {
    assembler.mov(R1, Frame);
    assembler.add_immediate(R1, ITERATOR.into());
    assembler.call_kernel_function(function.0);
}

/// Advances the iterator at the place `next`, and jumps to `end` after its last element. Else `R0` has the address of one.
pub(super) fn begin_round(assembler: &mut Assembler, advance: TypeId, [next, end]: [Label; 2]) {
    assembler.place(next);
    [R7, R8, R9].into_iter().for_each(|register| assembler.mov_immediate(register, 0));
    iterate(assembler, advance);
    assembler.jump_if_equal(R0, 0, end);
}

/// The address of the first element of a map, or 0, in `R0`.
pub(super) fn first_element(assembler: &mut Assembler, map: i32) {
    element(assembler, map, 0);
}

/// The address of the element of a map with this number, or 0, in `R0`.
pub(super) fn element(assembler: &mut Assembler, map: i32, number: i32) {
    assembler.store_immediate(Width::U32, Frame, -4, number);
    assembler.load_map(R1, map);
    assembler.mov(R2, Frame);
    assembler.add_immediate(R2, -4);
    assembler.call(Helper::MapLookupElem);
}

/// Adds 1 to the first element of a map, or jumps to `end` if there is none.
pub(super) fn count(assembler: &mut Assembler, map: i32, end: Label) {
    first_element(assembler, map);
    assembler.jump_if_equal(R0, 0, end);
    assembler.mov_immediate(R1, 1);
    assembler.atomic_add(R0, 0, R1);
}

/// Loads a column from the structure at `base`, word by word.
fn load(assembler: &mut Assembler, column: &RecordColumn, base: Register) {
    let place = &column.place;
    let width = Width::from_bytes(place.size).unwrap_or(Width::U64);
    for (word, slot) in slots(column).enumerate() {
        assembler.load(width, R0, base, near(place.offset) + byte(word));
        if place.signed {
            assembler.sign_extend(R0, width);
        }
        assembler.store(Width::U64, R8, byte(slot), R0);
    }
}

fn copy_all<'c>(assembler: &mut Assembler, columns: impl Iterator<Item = (u16, &'c RecordColumn)>) {
    for (number, column) in columns {
        assembler.mark(Some(number));
        copy(assembler, column);
    }
    assembler.mark(None);
}

/// Copies a column that cannot be loaded.
fn copy(assembler: &mut Assembler, column: &RecordColumn) {
    let skip = assembler.label();
    let slot = byte(column.slot);
    assembler.mov(R3, R9);
    for &hop in &column.place.hops {
        assembler.add_immediate(R3, near(hop).into());
        copy_bytes(assembler, R8, slot, 8);
        assembler.load(Width::U64, R3, R8, slot);
        assembler.jump_if_equal(R3, 0, skip);
    }
    assembler.add_immediate(R3, near(column.place.offset).into());
    let bytes = usize::try_from(column.place.size).unwrap_or(usize::MAX).min(8 * column.words);
    copy_bytes(assembler, R8, slot, i32::try_from(bytes).expect("a column has a few words"));
    // A value of less than a word becomes one.
    if let Some(width) = Width::from_bytes(column.place.size).filter(|&width| width != Width::U64) {
        assembler.load(width, R0, R8, slot);
        if column.place.signed {
            assembler.sign_extend(R0, width);
        }
        assembler.store(Width::U64, R8, slot, R0);
    }
    assembler.place(skip);
}

/// Copies bytes from the address in `R3`, which may be any, to a place behind `base`. They are 0 if they cannot be read.
pub(super) fn copy_bytes(assembler: &mut Assembler, base: Register, at: i16, bytes: i32) {
    assembler.mov(R1, base);
    assembler.add_immediate(R1, at.into());
    assembler.mov_immediate(R2, bytes);
    assembler.call(Helper::ProbeReadKernel);
}

/// Whether the program may skip the column. If so, the value of the record before must be cleared.
fn may_be_skipped(column: &RecordColumn) -> bool {
    column.place.copied || !column.place.hops.is_empty()
}

fn slots(column: &RecordColumn) -> std::ops::Range<usize> {
    column.slot..column.slot + column.words
}

pub(super) fn byte(word: usize) -> i16 {
    i16::try_from(8 * word).expect("a record has a few hundred words")
}
