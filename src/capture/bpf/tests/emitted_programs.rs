//! The programs that are emitted for recorded kernels, run in a machine.
#![cfg(target_endian = "little")]

use std::os::fd::AsRawFd;

use super::super::assemble::Assembled;
use super::super::btf::{Btf, TypeId};
use super::super::change_filter::ChangeFilter;
use super::super::change_program::ChangeOutput;
use super::super::columns;
use super::super::dead_threads::DeathFields;
use super::super::layout::{FieldRequest, Layout, RecordColumn, RecordScope, TIME, ThreadRecord};
use super::super::load::{Attach, ProgramSpec, load};
use super::super::path::resolve;
use super::super::program::{Emitter, EventTrailer, Kernel, TaskWalk, ThreadEvent};
use super::super::shape::TypeShape;
use super::listing::listing;
use super::machine::{BpfMachine, FILTER_MAP, NOW, RECORD_MAP, SLOTS, STALE};
use super::recorded_types::each_kernel;
use super::type_builder::TypeBuilder;
use crate::model::BpfObstacle;
use crate::skip::{Missing, skipped};
use crate::sys::bpf::kernel_btf::KernelBtf;
use crate::sys::bpf::map::per_cpu_array;

/// Memory with a kernel's structures, and the addresses to which pointers lead.
struct KernelMemory {
    machine: BpfMachine,
    task: u64,
    addresses: Vec<u64>,
}

/// The structure that each pointer on the way to a column leads to.
fn structures(btf: &Btf<'_>, task: TypeId, column: &RecordColumn) -> Vec<TypeId> {
    let is_used = |path: &&str| resolve(btf, task, path).as_ref() == Some(&column.place);
    let path = column.path.split('|').map(str::trim).find(is_used).unwrap();
    let (pointers, _) = path.rsplit_once("->").unwrap_or_default();
    let target = |from: TypeId, member: &str| {
        let (path, _) = member.split_once('[').unwrap_or((member, ""));
        let (outer, name) = path.rsplit_once('.').unwrap_or(("", path));
        let inside = |from, name| btf.member(from, name).unwrap().id;
        let from = outer.split('.').filter(|name| !name.is_empty()).fold(from, inside);
        let shape = btf.elements(btf.member(from, name).unwrap().id).unwrap().0;
        let TypeShape::Pointer(target) = shape else { panic!("{member}: {shape:?}") };
        target
    };
    let pointers = pointers.split("->").filter(|member| !member.is_empty());
    pointers.scan(task, |at, member| Some(std::mem::replace(at, target(*at, member))).map(|_| *at)).collect()
}

impl KernelMemory {
    /// Every structure has other bytes, and every pointer of `layout` leads to one.
    fn new(btf: &Btf<'_>, task: TypeId, layout: &Layout) -> Self {
        let mut machine = BpfMachine::default();
        let mut add = |id: TypeId, seed: usize| {
            let declared = usize::try_from(btf.size(id).unwrap()).unwrap();
            machine.add((0..declared).map(|at| u8::try_from((at * 7 + seed * 31 + 128) % 251).unwrap()).collect())
        };
        let address = add(task, 0);
        let target = |way: &Vec<u32>| {
            let column = layout.columns.iter().find(|column| column.place.hops.starts_with(way)).unwrap();
            structures(btf, task, column)[way.len() - 1]
        };
        let addresses = (1..).zip(&layout.pointers).map(|(seed, way)| add(target(way), seed)).collect();
        let mut memory = Self { machine, task: address, addresses };
        for (way, &address) in layout.pointers.iter().zip(&memory.addresses.clone()) {
            let at = memory.pointer(layout, way);
            memory.machine.write(at, address);
        }
        memory
    }

    /// The address of the structure that these hops lead to.
    fn structure(&self, layout: &Layout, hops: &[u32]) -> u64 {
        let index = layout.pointers.iter().position(|way| way == hops);
        index.map_or(self.task, |index| self.addresses[index])
    }

    /// Where a pointer is.
    fn pointer(&self, layout: &Layout, way: &[u32]) -> u64 {
        let (last, before) = way.split_last().unwrap();
        self.structure(layout, before) + u64::from(*last)
    }

    /// Adds the first thread of the process of the thread, and returns its address. Both sleep.
    fn with_leader(&mut self, btf: &Btf<'_>, kernel: Kernel) -> u64 {
        self.set_leader(kernel, false);
        let asleep = [(columns::ON_CPU, 0), (columns::STATE, 1)];
        asleep.into_iter().for_each(|(path, value)| self.set(btf, kernel, path, value));
        let size = usize::try_from(btf.size(kernel.task).unwrap()).unwrap();
        let bytes = self.machine.bytes(self.task, size).to_vec();
        let leader = self.machine.add(bytes);
        let at = leader + u64::try_from(kernel.pid).unwrap();
        self.machine.bytes(at, 4).copy_from_slice(&700_u32.to_le_bytes());
        let pointer = self.task + u64::from(resolve(btf, kernel.task, "group_leader").unwrap().offset);
        self.machine.write(pointer, leader);
        leader
    }

    /// Sets a number of the thread.
    fn set(&mut self, btf: &Btf<'_>, kernel: Kernel, path: &str, value: u64) {
        let place = resolve(btf, kernel.task, path).unwrap();
        let size = usize::try_from(place.size).unwrap();
        let at = self.task + u64::from(place.offset);
        self.machine.bytes(at, size).copy_from_slice(&value.to_le_bytes()[..size]);
    }

    fn set_leader(&mut self, kernel: Kernel, is_leader: bool) {
        for (offset, id) in [(kernel.pid, if is_leader { 700 } else { 701 }), (kernel.tgid, 700_u32)] {
            let at = self.task + u64::try_from(offset).unwrap();
            self.machine.bytes(at, 4).copy_from_slice(&id.to_le_bytes());
        }
    }

    /// The words that a record has to have of a column.
    fn expected(&mut self, layout: &Layout, column: &RecordColumn) -> Vec<u64> {
        let at = self.structure(layout, &column.place.hops) + u64::from(column.place.offset);
        let size = usize::try_from(column.place.size).unwrap().min(8 * column.words);
        let bytes = self.machine.bytes(at, size).to_vec();
        let word = |word: &[u8]| {
            let extension = if column.place.signed && word[word.len() - 1] >= 0x80 { 0xff } else { 0 };
            let mut number = [extension; 8];
            number[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(number)
        };
        bytes.chunks(8).map(word).collect()
    }
}

/// Calls `check` with the layout of each kernel.
fn each_layout(mut check: impl FnMut(&str, &Btf<'_>, Kernel, &mut Layout)) {
    each_kernel(|version, btf| {
        let kernel = Kernel::find(btf).unwrap();
        check(version, btf, kernel, &mut Layout::resolve(btf, kernel.task, columns::all(2)));
    });
}

fn emitted(kernel: Kernel, layout: &Layout) -> Assembled {
    Emitter { kernel, layout }.iterator(RECORD_MAP)
}

/// Runs the program and compares every column. Those behind `missing` must be absent, and their words 0.
fn check(
    name: &str,
    memory: &mut KernelMemory,
    layout: &Layout,
    words: &[u64],
    part: RecordScope,
    missing: Option<&[u32]>,
) {
    let (record, rest) = ThreadRecord::split(words).unwrap();
    assert_eq!((words.len(), rest.len(), record.time()), (layout.words(part), 0, NOW), "{name}");
    for column in &layout.columns {
        let words = record.words(layout.find(column.path).unwrap());
        let is_absent = column.part > part || missing.is_some_and(|way| column.place.hops.starts_with(way));
        let expected = (!is_absent).then(|| memory.expected(layout, column));
        let path = column.path;
        assert_eq!(words, expected.as_deref(), "{name}: {path}");
    }
}

#[test]
fn records_have_the_values_of_every_column_on_every_kernel() {
    each_layout(|name, btf, kernel, layout| {
        let mut memory = KernelMemory::new(btf, kernel.task, layout);
        let program = emitted(kernel, layout);
        for (part, is_leader) in [(RecordScope::Thread, false), (RecordScope::Process, true)] {
            memory.set_leader(kernel, is_leader);
            let words = memory.machine.run(&program, memory.task);
            check(name, &mut memory, layout, &words, part, None);
            assert!(!words.contains(&STALE), "{name}: a word is not written");
        }
    });
}

#[test]
fn values_behind_a_null_pointer_are_absent_and_not_those_of_the_thread_before() {
    each_layout(|name, btf, kernel, layout| {
        let program = emitted(kernel, layout);
        for way in &layout.pointers {
            let mut memory = KernelMemory::new(btf, kernel.task, layout);
            memory.set_leader(kernel, true);
            let at = memory.pointer(layout, way);
            memory.machine.write(at, 0);
            let words = memory.machine.run(&program, memory.task);
            check(name, &mut memory, layout, &words, RecordScope::Process, Some(way));
            assert!(!words.contains(&STALE), "{name}: a word is not written");
        }
    });
}

#[test]
fn a_dropped_column_leaves_all_others() {
    each_layout(|name, btf, kernel, layout| {
        let mut memory = KernelMemory::new(btf, kernel.task, layout);
        memory.set_leader(kernel, true);
        for (number, column) in (0..).zip(layout.columns.clone()) {
            layout.dropped = [number].into();
            let program = emitted(kernel, layout);
            assert!(!program.columns.contains(&Some(number)), "{name}: {}", column.path);
            let words = memory.machine.run(&program, memory.task);
            let slots = column.slot..column.slot + column.words;
            assert!(words[slots].iter().all(|&word| word == STALE), "{name}: {}", column.path);
            assert_eq!(layout.find(column.path), None);
            layout.dropped.clear();
            let (record, _) = ThreadRecord::split(&words).unwrap();
            for other in layout.columns.iter().filter(|other| other.path != column.path) {
                let words = record.words(layout.find(other.path).unwrap());
                let expected = memory.expected(layout, other);
                assert_eq!(words, Some(&expected[..]), "{name}: {} without {}", other.path, column.path);
            }
        }
    });
}

#[test]
fn a_pointer_without_columns_is_not_followed() {
    each_layout(|name, _, kernel, layout| {
        let is_behind = |column: &RecordColumn| !column.place.hops.is_empty();
        let dropped = (0..).zip(&layout.columns).filter(|(_, column)| is_behind(column)).map(|(number, _)| number);
        layout.dropped = dropped.collect();
        let program = emitted(kernel, layout);
        // Of the thread and of the element; none of a pointer.
        let jumps = listing(&program, |_| "").matches("== 0x0").count();
        assert_eq!(jumps, 2, "{name}");
    });
}

#[test]
fn passes_of_changes_write_what_did_something_and_the_first_thread_of_its_process_on_every_kernel() {
    each_layout(|name, btf, kernel, layout| {
        let filter = ChangeFilter::find(btf, kernel.task, SLOTS);
        let program = Emitter { kernel, layout }.changes(
            (TaskWalk::Iterator, ChangeOutput::Reader),
            RECORD_MAP,
            (&filter, FILTER_MAP),
        );
        let mut memory = KernelMemory::new(btf, kernel.task, layout);
        let leader = memory.with_leader(btf, kernel);
        let (task, maps) = (memory.task, memory.machine.maps());
        let [thread_words, process_words] = [RecordScope::Thread, RecordScope::Process].map(|part| layout.words(part));
        let mut pass = 0;
        let mut run = |memory: &mut KernelMemory| {
            pass += 1;
            memory.machine.begin_pass(&maps, pass);
            let written = [leader, task].map(|task| memory.machine.run_with(&program, task, &maps));
            assert_eq!(memory.machine.met(&maps), 2, "{name}: of pass {pass}");
            written.map(|records| records.iter().map(Vec::len).collect::<Vec<_>>())
        };
        let nothing: Vec<usize> = Vec::new();
        assert_eq!(run(&mut memory), [vec![process_words], vec![thread_words]], "{name}: the first pass");
        assert_eq!(run(&mut memory), [nothing.clone(), nothing.clone()], "{name}: both slept on");
        memory.set(btf, kernel, columns::VOLUNTARY_SWITCHES, 5);
        assert_eq!(run(&mut memory), [nothing.clone(), vec![thread_words, process_words]], "{name}: it ran");
        assert_eq!(run(&mut memory), [nothing.clone(), nothing.clone()], "{name}: it sleeps again");
        memory.set(btf, kernel, columns::ON_CPU, 1);
        assert_eq!(run(&mut memory), [nothing.clone(), vec![thread_words, process_words]], "{name}: it runs");
        memory.set(btf, kernel, columns::ON_CPU, 0);
        let exited = resolve(btf, kernel.task, columns::RUN_TIME_OF_EXITED).unwrap();
        let at = memory.structure(layout, &exited.hops) + u64::from(exited.offset);
        memory.machine.write(at, 77);
        assert_eq!(run(&mut memory), [vec![process_words], nothing.clone()], "{name}: a thread of the process exited");
        let times: Vec<_> = memory.machine.run_with(&program, task, &maps).concat();
        assert!(times.is_empty(), "{name}");
        memory.set(btf, kernel, columns::VOLUNTARY_SWITCHES, 9);
        memory.machine.begin_pass(&maps, pass + 1);
        memory.machine.is_full = true;
        assert!(memory.machine.run_with(&program, task, &maps).is_empty());
        memory.machine.is_full = false;
        let again = memory.machine.run_with(&program, task, &maps);
        assert_eq!(
            (again.len(), memory.machine.met(&maps)),
            (2, 1),
            "{name}: it is written and counted when there is room"
        );
    });
}

/// The record that the program for dead threads writes of the thread of `memory`, which is known to have this start.
fn recorded_dead(
    memory: &mut KernelMemory,
    (btf, kernel): (&Btf<'_>, Kernel),
    layout: &Layout,
    start_ns: u64,
) -> Option<Vec<u64>> {
    let fields = DeathFields::find(btf, kernel.task).unwrap();
    let program = Emitter { kernel, layout }.dead_thread(&fields, FILTER_MAP, (RECORD_MAP, RECORD_MAP));
    let maps = memory.machine.maps();
    memory.machine.set_words(&maps, [memory.task, start_ns]);
    memory.machine.run_with(&program, 0, &maps).pop()
}

#[test]
fn only_a_dead_thread_is_copied_with_the_values_of_every_column_on_every_kernel() {
    each_kernel(|name, btf| {
        let kernel = Kernel::find(btf).unwrap();
        let layout = Layout::resolve(btf, kernel.task, columns::exits());
        let mut memory = KernelMemory::new(btf, kernel.task, &layout);
        memory.set(btf, kernel, columns::START_TIME, 77);
        memory.set_leader(kernel, false);
        let mut written = |on_cpu, state, start_ns| {
            memory.set(btf, kernel, columns::ON_CPU, on_cpu);
            memory.set(btf, kernel, columns::STATE, state);
            recorded_dead(&mut memory, (btf, kernel), &layout, start_ns)
        };
        assert_eq!(written(1, 0x80, 77), None, "{name}: it leaves its CPU");
        assert_eq!([written(0, 2, 77), written(0, 0, 77)], [None, None], "{name}: it exits, and sleeps or waits");
        let event = |words: &[u64]| EventTrailer::split(words).unwrap().1.event;
        assert_eq!(event(&written(1, 0, 78).unwrap()), ThreadEvent::Gone as u64, "{name}: another thread is there");
        let words = written(0, 0x80, 77).unwrap();
        let (record, trailer) = EventTrailer::split(&words).unwrap();
        let freed = EventTrailer { thread: memory.task, event: ThreadEvent::Freed as u64, old_id: 0 };
        assert_eq!((record.len(), record[TIME], trailer), (layout.words(RecordScope::Thread), NOW, freed), "{name}");
        for column in layout.columns.iter().filter(|column| column.part == RecordScope::Thread) {
            let slots = layout.find(column.path).unwrap().slots();
            assert_eq!(record[slots], memory.expected(&layout, column), "{name}: {}", column.path);
        }
        let state = resolve(btf, kernel.task, columns::STATE).unwrap();
        memory.machine.meanwhile = Some((memory.task + u64::from(state.offset), 0));
        let words = recorded_dead(&mut memory, (btf, kernel), &layout, 77).unwrap();
        assert_eq!(event(&words), ThreadEvent::Nothing as u64, "{name}: another thread got the memory meanwhile");
    });
}

/// A dead thread that started at 77, its process with so many threads, and the event that the program records.
fn event_of_dead(bytes: &[u8], threads: u32, change: impl FnOnce(&mut KernelMemory)) -> Option<u64> {
    let btf = Btf::parse(bytes).unwrap();
    let kernel = Kernel::find(&btf).unwrap();
    let layout = Layout::resolve(&btf, kernel.task, columns::exits());
    let mut memory = KernelMemory::new(&btf, kernel.task, &layout);
    let fields = [(columns::ON_CPU, 0), (columns::STATE, 0x80), (columns::START_TIME, 77), ("usage.refs.counter", 1)];
    fields.into_iter().for_each(|(path, value)| memory.set(&btf, kernel, path, value));
    memory.set_leader(kernel, true);
    let signal = memory.machine.add(threads.to_ne_bytes().to_vec());
    memory.set(&btf, kernel, "signal", signal);
    change(&mut memory);
    let words = recorded_dead(&mut memory, (&btf, kernel), &layout, 77)?;
    Some(EventTrailer::split(&words)?.1.event)
}

#[test]
fn a_thread_to_which_nothing_refers_is_gone_and_one_that_is_freed_meanwhile_or_leads_others_is_not_recorded() {
    let mut built = TypeBuilder::new();
    let (int, long) = (built.signed("int", 4), built.unsigned("unsigned long", 8));
    let counter = built.structure("atomic_t", 4, &[("counter", int, 0)]);
    let refs = built.structure("refcount_struct", 4, &[("refs", counter, 0)]);
    let signal = built.structure("signal_struct", 4, &[("nr_threads", int, 0)]);
    let signal = built.pointer(signal);
    let numbers = [("pid", int, 0), ("tgid", int, 4), ("on_cpu", int, 8), ("__state", int, 12)];
    let others =
        [("start_boottime", long, 16), ("usage", refs, 24), ("group_leader", long, 32), ("signal", signal, 40)];
    built.structure("task_struct", 48, &[&numbers[..], &others].concat());
    built.structure("bpf_iter_meta", 16, &[("seq", long, 0)]);
    built.add(12, "bpf_iter_task", 0, int, &[]);
    let bytes = built.finish();
    let usage = |memory: &KernelMemory| memory.task + 24;
    let freed = |memory: &mut KernelMemory| memory.machine.write(usage(memory), 0);
    let freed_meanwhile = |memory: &mut KernelMemory| memory.machine.meanwhile = Some((usage(memory), 0));
    let of_others = |memory: &mut KernelMemory| memory.machine.write(memory.task, 701 | 700 << 32);
    assert_eq!(event_of_dead(&bytes, 1, |_| ()), Some(ThreadEvent::Freed as u64));
    assert_eq!(event_of_dead(&bytes, 0, |_| ()), Some(ThreadEvent::Freed as u64));
    assert_eq!(event_of_dead(&bytes, 2, |_| ()), None);
    assert_eq!(event_of_dead(&bytes, 2, of_others), Some(ThreadEvent::Freed as u64));
    assert_eq!(event_of_dead(&bytes, 1, freed), Some(ThreadEvent::Gone as u64));
    assert_eq!(event_of_dead(&bytes, 1, freed_meanwhile), Some(ThreadEvent::Nothing as u64));
}

/// A small kernel: one column of each kind.
fn small() -> Vec<u8> {
    let mut built = TypeBuilder::new();
    let (int, long) = (built.signed("int", 4), built.unsigned("unsigned long", 8));
    let atomic = built.structure("", 8, &[("counter", long, 0)]);
    let atomic = built.typedef("atomic_long_t", atomic);
    let counts = built.array(atomic, 2);
    let mm = built.structure("mm_struct", 24, &[("total_vm", long, 0), ("count", counts, 8)]);
    let signal = built.structure("signal_struct", 16, &[("nr_threads", int, 4), ("utime", long, 8)]);
    let (mm, signal) = (built.pointer(mm), built.pointer(signal));
    let character = built.signed("char", 1);
    let comm = built.array(character, 16);
    let members = [("pid", int, 0), ("tgid", int, 4), ("comm", comm, 8), ("mm", mm, 24), ("signal", signal, 32)];
    built.structure("task_struct", 48, &[&members[..], &[("group_leader", mm, 40)]].concat());
    built.structure("bpf_iter_meta", 16, &[("session_id", long, 8), ("seq", mm, 0)]);
    built.add(12, "bpf_iter_task", 0, int, &[]);
    built.add(12, "bpf_rdonly_cast", 0, int, &[]);
    built.finish()
}

#[test]
fn the_program_of_a_small_layout_is_this_one() {
    let bytes = small();
    let btf = Btf::parse(&bytes).unwrap();
    let kernel = Kernel::find(&btf).unwrap();
    let thread = |path, max_words| FieldRequest { path, part: RecordScope::Thread, max_words };
    let wanted = vec![
        FieldRequest::number(RecordScope::Process, "signal->utime"),
        thread("comm", 2),
        thread("mm->count[1].counter", 1),
        thread("pid", 1),
        thread("absent", 1),
        thread("signal->nr_threads", 1),
        thread("pid", 1),
    ];
    let layout = Layout::resolve(&btf, kernel.task, wanted);
    let program = emitted(kernel, &layout);
    let listing = listing(&program, |column| layout.columns[usize::from(column)].path);
    assert_eq!(listing, SMALL);
}

/// The kernel loads the program with and without `bpf_rdonly_cast`.
#[test]
fn the_kernel_loads_the_program() {
    let Ok(bytes) = KernelBtf::open() else { return skipped(Missing::Kernel("BTF")) };
    let btf = Btf::parse(&bytes).unwrap();
    let kernel = Kernel::find(&btf).unwrap();
    let record = match per_cpu_array(4096) {
        Ok(record) => record,
        Err(errno) => return skipped(Missing::Privilege(format!("BPF maps: {errno}"))),
    };
    let mut layout = Layout::resolve(&btf, kernel.task, columns::all(2));
    for cast in [kernel.cast, None] {
        let mut kernel = kernel;
        kernel.cast = cast;
        let spec = ProgramSpec { name: "test_record", attach: Attach::Iterator, btf_id: kernel.iterator.0 };
        match load(&spec, &mut layout, |layout| Emitter { kernel, layout }.iterator(record.as_raw_fd())) {
            Ok(_) => assert!(layout.dropped.is_empty(), "{cast:?}: {:?}", layout.dropped),
            Err(no_bpf) if no_bpf.cause == BpfObstacle::Verifier => panic!("{cast:?}: {no_bpf:?}"),
            Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
        }
    }
}

/// Program for the columns `comm`, `mm->count[1].counter`, `pid` and `signal->nr_threads`, and for processes `signal->utime`.
const SMALL: &str = "\
0: (bf) r6 = r1
1: (79) r7 = *(u64 *)(r6 +8)
2: (15) if r7 == 0x0 goto pc+67
3: (62) *(u32 *)(r10 -4) = 0
4: (18) r1 = map[fd:3]
6: (bf) r2 = r10
7: (07) r2 += -4
8: (85) call bpf_map_lookup_elem#1
9: (15) if r0 == 0x0 goto pc+60
10: (bf) r8 = r0
11: (bf) r1 = r7
12: (b7) r2 = 12
13: (85) call kernel-function#15
14: (bf) r9 = r0
15: (7a) *(u64 *)(r8 +0) = 10
16: (7a) *(u64 *)(r8 +8) = 0
17: (7a) *(u64 *)(r8 +16) = 0
18: (7a) *(u64 *)(r8 +24) = 0
19: (85) call bpf_ktime_get_ns#5
20: (7b) *(u64 *)(r8 +32) = r0
21: (7a) *(u64 *)(r8 +56) = 0
22: (7a) *(u64 *)(r8 +72) = 0
23: (79) r0 = *(u64 *)(r7 +8)  ; comm
24: (7b) *(u64 *)(r8 +40) = r0  ; comm
25: (79) r0 = *(u64 *)(r7 +16)  ; comm
26: (7b) *(u64 *)(r8 +48) = r0  ; comm
27: (61) r0 = *(u32 *)(r7 +0)  ; pid
28: (67) r0 <<= 32  ; pid
29: (c7) r0 s>>= 32  ; pid
30: (7b) *(u64 *)(r8 +64) = r0  ; pid
31: (79) r1 = *(u64 *)(r9 +24)  ; mm->count[1].counter
32: (15) if r1 == 0x0 goto pc+1  ; mm->count[1].counter
33: (72) *(u8 *)(r8 +8) = 1  ; mm->count[1].counter
34: (79) r1 = *(u64 *)(r9 +32)  ; signal->nr_threads
35: (15) if r1 == 0x0 goto pc+5  ; signal->nr_threads
36: (72) *(u8 *)(r8 +9) = 1  ; signal->nr_threads
37: (61) r0 = *(u32 *)(r1 +4)  ; signal->nr_threads
38: (67) r0 <<= 32  ; signal->nr_threads
39: (c7) r0 s>>= 32  ; signal->nr_threads
40: (7b) *(u64 *)(r8 +72) = r0  ; signal->nr_threads
41: (bf) r3 = r9  ; mm->count[1].counter
42: (07) r3 += 24  ; mm->count[1].counter
43: (bf) r1 = r8  ; mm->count[1].counter
44: (07) r1 += 56  ; mm->count[1].counter
45: (b7) r2 = 8  ; mm->count[1].counter
46: (85) call bpf_probe_read_kernel#113  ; mm->count[1].counter
47: (79) r3 = *(u64 *)(r8 +56)  ; mm->count[1].counter
48: (15) if r3 == 0x0 goto pc+5  ; mm->count[1].counter
49: (07) r3 += 16  ; mm->count[1].counter
50: (bf) r1 = r8  ; mm->count[1].counter
51: (07) r1 += 56  ; mm->count[1].counter
52: (b7) r2 = 8  ; mm->count[1].counter
53: (85) call bpf_probe_read_kernel#113  ; mm->count[1].counter
54: (b7) r3 = 80
55: (61) r0 = *(u32 *)(r7 +0)
56: (61) r1 = *(u32 *)(r7 +4)
57: (5d) if r0 != r1 goto pc+8
58: (7a) *(u64 *)(r8 +0) = 11
59: (7a) *(u64 *)(r8 +80) = 0
60: (79) r1 = *(u64 *)(r9 +32)  ; signal->utime
61: (15) if r1 == 0x0 goto pc+3  ; signal->utime
62: (72) *(u8 *)(r8 +9) = 1  ; signal->utime
63: (79) r0 = *(u64 *)(r1 +8)  ; signal->utime
64: (7b) *(u64 *)(r8 +80) = r0  ; signal->utime
65: (b7) r3 = 88
66: (79) r1 = *(u64 *)(r6 +0)
67: (79) r1 = *(u64 *)(r1 +0)
68: (bf) r2 = r8
69: (85) call bpf_seq_write#127
70: (b7) r0 = 0
71: (95) exit
";
