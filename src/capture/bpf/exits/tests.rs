//! Words of a ring buffer, and the threads that they are of.

use super::super::super::cgroup_ids::{UNIFIED, key};
use super::super::columns;
use super::super::layout::{FOLLOWED, HEAD, RecordColumn};
use super::super::packed_records::MAX_WORDS;
use super::super::path::FieldLocation;
use super::*;

/// A layout in which every field has a place, each with a pointer of its own if its path has one.
fn fields() -> Layout {
    let mut layout = Layout::default();
    let mut slot = HEAD;
    let mut wanted = columns::exits();
    wanted.sort_by_key(|wanted| wanted.part);
    for wanted in wanted {
        let pointer = wanted.path.split_once("->").map(|(pointer, _)| pointer.bytes().map(u32::from).sum());
        let hops = Vec::from_iter(pointer);
        if !hops.is_empty() && !layout.pointers.contains(&hops) {
            layout.pointers.push(hops.clone());
        }
        if layout.columns.iter().all(|column| column.path != wanted.path) {
            let place = FieldLocation { hops, size: 8, ..FieldLocation::default() };
            let words = wanted.max_words;
            layout.columns.push(RecordColumn { path: wanted.path, part: wanted.part, place, slot, words });
            slot += words;
        }
    }
    layout
}

/// A record with fields by their paths, in which every pointer was followed, and the address of its thread.
fn record(fields: &Layout, (part, time, address): (RecordScope, u64, u64), values: &[(&str, u64)]) -> Vec<u64> {
    let Layout { columns, pointers, .. } = fields;
    let mut words = vec![0; fields.words(part)];
    words[0] = fields.words(part).try_into().unwrap();
    for column in columns.iter().filter(|column| column.part <= part && !column.place.hops.is_empty()) {
        let pointer = pointers.iter().position(|way| *way == column.place.hops).unwrap();
        words[FOLLOWED + pointer / 8] |= 1 << (8 * (pointer % 8));
    }
    words[TIME] = time;
    for (path, value) in values {
        let column = columns.iter().find(|column| column.path == *path).unwrap();
        words[column.slot] = *value;
    }
    let event = if part == RecordScope::Process { ThreadEvent::Exit } else { ThreadEvent::Freed };
    words.extend([address, event as u64, 0]);
    words
}

impl ExitReceiver {
    /// Adds the words of a ring buffer.
    fn take(&mut self, words: &[u64]) {
        let Some((record, trailer)) = EventTrailer::split(words) else { return };
        match trailer.event == ThreadEvent::Exec as u64 {
            true => self.execute(trailer, None),
            false => self.add(record, trailer),
        }
    }

    /// Takes the records of all threads that have exited.
    fn drain_all(&mut self, counted: WithoutRecord) -> (Vec<u8>, ExitRecords) {
        self.store_before(u64::MAX);
        self.drain(counted)
    }
}

fn name(text: &[u8; 8]) -> u64 {
    u64::from_ne_bytes(*text)
}

/// The record of thread 41, which started at second 2, at its exit.
fn exiting(fields: &Layout, run_ns: u64) -> Vec<u64> {
    let values = [
        ("pid", 41),
        ("tgid", 40),
        ("comm", name(b"worker\0\0")),
        ("group_leader->comm", name(b"cc1\0\0\0\0\0")),
        (columns::PROCESS_START, 1_500_000_000),
        ("real_parent->tgid", 7),
        (columns::START_TIME, 2_000_000_000),
        (columns::START_MONOTONIC, 1_900_000_000),
        (columns::CGROUPS[UNIFIED], 0xff00),
        (columns::CGROUP_LEVELS[UNIFIED], 2),
        ("se.sum_exec_runtime", run_ns),
        ("min_flt", 5),
        ("delays->blkio_count", 3),
    ];
    record(fields, (RecordScope::Process, 5_000_000_000, 0xabc), &values)
}

fn freed(fields: &Layout, start_ns: u64, run_ns: u64) -> Vec<u64> {
    let values = [
        ("pid", 41),
        ("tgid", 40),
        ("comm", name(b"worker\0\0")),
        (columns::START_TIME, start_ns),
        (columns::START_MONOTONIC, start_ns - 100_000_000),
        ("se.sum_exec_runtime", run_ns),
        ("min_flt", 9),
        ("delays->blkio_count", 4),
    ];
    record(fields, (RecordScope::Thread, 6_000_000_000, 0xabc), &values)
}

fn without_record(no_room: u64, not_run: u64) -> WithoutRecord {
    WithoutRecord { no_room, not_run, execs: 0 }
}

#[test]
fn what_was_drained_is_neither_received_nor_lost_again() {
    let fields = fields();
    let mut received = ExitReceiver::new(&fields);
    received.take(&exiting(&fields, 100));
    let (_, ExitRecords { received: first, lost, not_run, .. }) = received.drain_all(without_record(4, 3));
    assert_eq!((first, lost, not_run), (1, 7, 3));
    received.take(&freed(&fields, 2_000_000_000, 130));
    let (_, ExitRecords { received: second, lost, not_run, .. }) = received.drain_all(without_record(4, 5));
    assert_eq!((second, lost, not_run), (0, 2, 2));
}

#[test]
fn a_thread_that_exits_while_others_are_taken_is_taken_with_all_of_its_work_by_the_next_call() {
    let fields = fields();
    let mut received = ExitReceiver::new(&fields);
    let taken = |received: &mut ExitReceiver, now_ns| {
        received.store_before(now_ns);
        received.drain(WithoutRecord::default()).1.received
    };
    received.take(&exiting(&fields, 100));
    assert_eq!([5_000_000_000, 5_000_000_001].map(|now_ns| taken(&mut received, now_ns)), [0, 1]);
    received.take(&exiting(&fields, 100));
    assert_eq!(taken(&mut received, 5_000_000_000), 0);
    received.take(&freed(&fields, 2_000_000_000, 130));
    assert_eq!(taken(&mut received, 5_000_000_000), 1);
}

#[test]
fn a_thread_that_was_freed_while_it_was_recorded_has_the_counters_of_the_tracepoint() {
    let fields = fields();
    let mut while_freed = freed(&fields, 2_000_000_000, 7);
    *while_freed.iter_mut().nth_back(1).unwrap() = ThreadEvent::Nothing as u64;
    let [exit] = exits(&[exiting(&fields, 100), while_freed, freed(&fields, 2_000_000_000, 130)]).try_into().unwrap();
    assert_eq!(exit.state.metrics.run_time_ns.unwrap().number(), 130);
}

#[test]
fn a_thread_that_is_gone_without_a_record_of_that_has_the_counters_of_its_exit() {
    let fields = fields();
    let mut gone = freed(&fields, 2_000_000_000, 7);
    *gone.iter_mut().nth_back(1).unwrap() = ThreadEvent::Gone as u64;
    let [exit] = exits(&[exiting(&fields, 100), gone]).try_into().unwrap();
    assert_eq!(exit.state.metrics.run_time_ns.unwrap().number(), 100);
}

#[test]
fn threads_that_exited_before_a_time_are_asked_whether_they_are_dead() {
    let fields = fields();
    let mut received = ExitReceiver::new(&fields);
    received.take(&exiting(&fields, 100));
    let asked = |received: &ExitReceiver, now_ns, id| received.exiting_in(0..now_ns, |one| one != id);
    assert_eq!(asked(&received, 5_000_000_001, 40), [ExitedAt { address: 0xabc, start_ns: 2_000_000_000 }]);
    assert!(asked(&received, 5_000_000_000, 40).is_empty(), "it exited later");
    assert!(asked(&received, u64::MAX, 41).is_empty(), "it was read");
    received.take(&freed(&fields, 2_000_000_000, 130));
    assert!(asked(&received, u64::MAX, 40).is_empty(), "it was freed, or found dead");
}

#[test]
fn a_first_thread_that_others_outlive_has_the_record_of_its_exit_each_time_until_they_have_exited() {
    let fields = fields();
    let mut received = ExitReceiver::new(&fields);
    received.take(&exiting(&fields, 100));
    for _ in 0..2 {
        assert_eq!(received.drain(WithoutRecord::default()).1.received, 0);
        assert_eq!([40, 41].map(|id| received.exits_of(|one| one == id).len()), [0, 1]);
    }
    received.take(&freed(&fields, 2_000_000_000, 130));
    assert!(received.exits_of(|_| true).is_empty());
}

/// The threads of these records.
fn exits(records: &[Vec<u64>]) -> Vec<ExitedThread> {
    exits_of(fields(), records)
}

fn exits_of(fields: Layout, records: &[Vec<u64>]) -> Vec<ExitedThread> {
    let mut received = ExitReceiver::new(&fields);
    records.iter().for_each(|record| received.take(record));
    let (records, summary) = received.drain_all(WithoutRecord::default());
    let left = received.left;
    let cgroup_names = Arc::new(CgroupNames::default());
    cgroup_names.add(key(UNIFIED, 0xff00).get(), "/build".into());
    let parameters = HostParameters { delays: true, ..HostParameters::default() };
    let containers = NamedContainers::default();
    let names = ExitNames { cgroups: cgroup_names, ..ExitNames::default() };
    let exits = RecordedExits {
        summary,
        records,
        zombies: Vec::new(),
        left,
        parameters,
        layout: Arc::new(fields),
        names,
        containers,
    };
    exits.all().collect()
}

#[test]
fn a_freed_thread_has_its_last_counters_and_what_it_lost_after_its_exit() {
    let fields = fields();
    let [exit] = exits(&[exiting(&fields, 100), freed(&fields, 2_000_000_000, 130)]).try_into().unwrap();
    let ExitedThread { state, ppid, started_monotonic_ns, elapsed_ns, .. } = exit;
    assert_eq!((state.tid, state.tgid, &*state.comm, &*state.pcomm, ppid), (41, 40, "worker", "cc1", 7));
    assert_eq!((started_monotonic_ns, elapsed_ns), (1_900_000_000, 3_100_000_000));
    assert_eq!((state.start_time_clock_ticks, exit.process_started), (Some(200), Some(150)));
    let metrics = &state.metrics;
    assert_eq!((metrics.run_time_ns, metrics.minflt), (Some(130.into()), Some(9.into())));
    assert_eq!((metrics.blkio_delay_count, state.cgroup.as_deref()), (Some(4.into()), Some("/build")));
    assert_eq!((state.read_at_ns, &metrics.state, metrics.nr_threads), (None, &None, None));
}

#[test]
fn a_kernel_whose_threads_have_no_cgroups_has_exits() {
    let mut fields = fields();
    let is_of_cgroups = |column: &RecordColumn| column.path.starts_with("cgroups");
    fields.dropped = (0..).zip(&fields.columns).filter(|(_, column)| is_of_cgroups(column)).map(|(at, _)| at).collect();
    let record = exiting(&fields, 100);
    let [exit] = exits_of(fields, &[record]).try_into().unwrap();
    assert_eq!((exit.state.tid, exit.state.cgroup), (41, None));
}

#[test]
fn a_thread_whose_address_another_has_without_being_freed_has_the_counters_of_its_exit() {
    let fields = fields();
    let runs = |records: &[Vec<u64>]| {
        exits(records).iter().map(|exit| exit.state.metrics.run_time_ns.unwrap().number()).collect::<Vec<_>>()
    };
    let freed_as_it_was = freed(&fields, 2_000_000_000, 230);
    assert_eq!(runs(&[exiting(&fields, 100), exiting(&fields, 200), freed_as_it_was]), [100, 230]);
    assert_eq!(runs(&[exiting(&fields, 100), freed(&fields, 3_000_000_000, 7)]), [100], "its exit was lost");
}

#[test]
fn more_zombies_than_fit_have_the_counters_of_their_exit() {
    let fields = fields();
    let mut received = ExitReceiver::new(&fields);
    for address in 0..=MAX_EXITING as u64 {
        let mut exit = exiting(&fields, 100);
        *exit.iter_mut().nth_back(2).unwrap() = address;
        received.take(&exit);
    }
    assert_eq!((received.exiting.len(), received.received), (MAX_EXITING, 1));
}

#[test]
fn a_thread_that_exited_before_is_not_known_by_being_freed() {
    assert_eq!(exits(&[freed(&fields(), 2_000_000_000, 7), vec![], vec![1, 2, 3]]), []);
}

#[test]
fn a_record_with_every_field_is_stored_whole() {
    let words = fields().words(RecordScope::Process);
    assert!(words <= MAX_WORDS, "{words}");
}

#[test]
fn user_and_system_time_are_those_of_ticks_however_long_the_thread_ran() {
    let fields = fields();
    let mut freed = freed(&fields, 2_000_000_000, 1_234_567);
    let [user, system, ..] = columns::CPU_TIME.map(|path| fields.find(path).unwrap().slot());
    (freed[user], freed[system]) = (8_000_000, 4_000_000);
    let [exit] = exits(&[exiting(&fields, 1), freed]).try_into().unwrap();
    assert_eq!(exit.cpu_time_ns, Some([8_000_000, 4_000_000]));
}

#[test]
fn a_first_thread_whose_ids_another_got_has_its_own_and_names_the_other() {
    let fields = fields();
    let slot = |path| fields.find(path).unwrap().slot();
    let mut exit = exiting(&fields, 100);
    exit[slot("pid")] = 40;
    let [exit] = exits(&[exit, freed(&fields, 2_000_000_000, 130)]).try_into().unwrap();
    assert_eq!((exit.state.tid, exit.ppid, exit.replaced_by), (40, 7, Some(41)));
}

#[test]
fn threads_that_start_and_exit_while_records_are_folded_are_not_kept() {
    let fields = fields();
    let mut received = ExitReceiver::new(&fields);
    let (passed, taken) = std::sync::mpsc::channel();
    let exited = Box::new(move |exit: ExitedThread, _| passed.send(exit.started_monotonic_ns).unwrap());
    let sink = ExitSink { exited, executed: Box::new(|_| ()) };
    let decoder = Decoder::new(&fields, &HostParameters::default(), &ExitNames::default());
    received.folding = Some(Folding { since_monotonic_ns: 1_900_000_000, decoder, sink });
    for start_ns in [1_999_999_999, 2_000_000_000] {
        let mut exit = exiting(&fields, 100);
        exit[fields.find(columns::START_TIME).unwrap().slot()] = start_ns;
        exit[fields.find(columns::START_MONOTONIC).unwrap().slot()] = start_ns - 100_000_000;
        received.take(&exit);
        received.take(&freed(&fields, start_ns, 130));
    }
    // The kernel uses the memory of the first one for the second one.
    [100; 2].into_iter().for_each(|thread| received.take(&exiting(&fields, thread)));
    let (records, summary) = received.drain_all(WithoutRecord::default());
    assert_eq!((unpacked(&records).count(), summary.received), (2, 4), "an older one, and one that is not freed");
    assert_eq!(taken.try_iter().collect::<Vec<_>>(), [1_900_000_000; 2], "one whose last record was lost, too");
}

/// Returns the records of process 40 in the ring buffer when it executes a file: its state under the name before, and the
/// execution.
fn executing(fields: &Layout, run_ns: u64, caller: u64) -> [Vec<u64>; 2] {
    let mut renamed = exiting(fields, run_ns);
    let slot = |path| fields.find(path).unwrap().slot();
    (renamed[slot("pid")], renamed[slot("group_leader->comm")]) = (40, name(b"caller\0\0"));
    *renamed.iter_mut().nth_back(1).unwrap() = ThreadEvent::Rename as u64;
    [renamed, vec![5, 0, 0, 0, 0, 0xabc, ThreadEvent::Exec as u64, caller]]
}

#[test]
fn a_process_that_executes_a_file_leaves_what_it_has_done_under_its_name() {
    let fields = fields();
    let left = |records: &[Vec<u64>]| {
        let left = exits_of(self::fields(), records).into_iter().filter(|exit| exit.executed);
        left.map(|left| (left.state.tid, left.state.pcomm.to_string(), left.elapsed_ns)).collect::<Vec<_>>()
    };
    let first = || executing(&fields, 2_000_000, 40);
    assert_eq!(left(&first()), [(40, "caller".to_owned(), 3_100_000_000)]);
    let other = executing(&fields, 2_000_000, 41);
    let mut leader = exiting(&fields, 100);
    leader[fields.find("pid").unwrap().slot()] = 40;
    *leader.iter_mut().nth_back(2).unwrap() = 0xdef;
    assert_eq!(left(&[&[leader][..], &other].concat()), [(41, "cc1".to_owned(), 3_100_000_000)]);
    assert_eq!(left(&first()[..1]), [], "it has only changed its name");
    assert_eq!(left(&[&first()[..1], &[exiting(&fields, 1)], &first()[1..]].concat()), [], "another thread");
}

#[test]
fn programs_that_a_folded_process_has_left_are_folded_with_it_and_others_are_kept() {
    let fields = fields();
    let mut received = ExitReceiver::new(&fields);
    let (passed, taken) = std::sync::mpsc::channel();
    let (noted, executed) = std::sync::mpsc::channel();
    let sink = ExitSink {
        exited: Box::new(move |_, left| passed.send(left.len()).unwrap()),
        executed: Box::new(move |left| noted.send((left.state.tid, left.executed)).unwrap()),
    };
    let decoder = Decoder::new(&fields, &HostParameters::default(), &ExitNames::default());
    received.folding = Some(Folding { since_monotonic_ns: 1_900_000_000, decoder, sink });
    let execute = |received: &mut ExitReceiver, waited_ns| {
        let [mut renamed, executed] = executing(&fields, 2_000_000, 40);
        renamed[fields.find(columns::WAIT_TIME).unwrap().slot()] = waited_ns;
        [renamed, executed].iter().for_each(|record| received.take(record));
    };
    // Of 3.1 seconds, it has waited for nearly all.
    [3_090_000_001, 3_090_000_000, 0].into_iter().for_each(|waited_ns| execute(&mut received, waited_ns));
    assert_eq!(executed.try_iter().collect::<Vec<_>>(), [(40, true); 2], "samples need them at once");
    received.take(&exiting(&fields, 2_000_000));
    received.take(&freed(&fields, 2_000_000_000, 130));
    assert_eq!(taken.try_iter().collect::<Vec<_>>(), [2]);
    execute(&mut received, 0);
    assert_eq!(received.left.len(), 0);
    received.keep_all();
    assert_eq!((received.left.len(), received.left_by.len()), (1, 0), "it lives on");
}

#[test]
fn programs_that_were_left_without_a_record_are_counted() {
    let fields = fields();
    let mut received = ExitReceiver::new(&fields);
    let [renamed, executed] = executing(&fields, 2_000_000, 40);
    received.take(&executed);
    for _ in 0..=MAX_LEFT {
        [&renamed, &executed].into_iter().for_each(|record| received.take(record));
    }
    let without_room = WithoutRecord { execs: 5, ..WithoutRecord::default() };
    let lost = |(_, ExitRecords { execs_lost, .. })| execs_lost;
    assert_eq!(lost(received.drain_all(without_room)), 1 + 1 + 5, "no name before, no room here, and none in the ring");
    assert_eq!(lost(received.drain_all(without_room)), 0);
}
