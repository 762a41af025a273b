//! Steps are read as they were recorded, and add up to the window.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Applied, Changes, Moment, Part, Step, StepExits};
use crate::model::{
    CaptureInfo, CgroupStats, CtprofSnapshot, ExitRecords, ExitedThread, HostContext, HostCpuTime, Metrics, Owner,
    ProcessState, Reason, ReasonTime, Reasons, SampledThreads, SnapshotHead, ThreadSpan, ThreadState,
};
use crate::window::FoldedPart;

const SECOND: u64 = 1_000_000_000;

/// Event of a thread in a step: its id, how long it runs, and whether it exits. The thread starts if it does not exist.
type Event = (u32, u64, bool);

/// Run time, the values of the last capture included, and start of living threads.
#[derive(Default)]
struct Host {
    threads: BTreeMap<u32, (u64, u64)>,
    step: u64,
}

impl Host {
    fn thread(tid: u32, (run, start): (u64, u64)) -> ThreadState {
        let name = format!("t{}", tid % 3);
        let mut thread =
            ThreadState { tid, tgid: tid, pcomm: (&*name).into(), comm: name.into(), ..ThreadState::default() };
        thread.start_time_clock_ticks = Some(start / 10_000_000);
        thread.metrics.run_time_ns = Some(run.into());
        thread.metrics.minflt = (run % 5 != 0).then_some((run / 2).into());
        thread.metrics.cpu_delay_min_ns = (run % 3 == 0).then_some((run + 1).into());
        thread.metrics.nice = Some((-3 + i32::try_from(run % 7).unwrap()).into());
        thread.metrics.state = Some(if run % 2 == 0 { 'S' } else { 'R' });
        thread.process = Some(Box::new(ProcessState { ppid: Some(1), ..ProcessState::default() }));
        thread
    }

    fn capture(&self) -> CtprofSnapshot {
        let now = Some((self.step + 1) * SECOND);
        let capture = CaptureInfo { monotonic_ns: now, boottime_ns: now, walk_ns: Some(0), ..CaptureInfo::default() };
        let host = HostContext { boot_id: Some("b".to_owned()), ..HostContext::default() };
        let mut cgroup = CgroupStats::default();
        cgroup.cpu.usage_usec = Some(self.step.into());
        let head = SnapshotHead {
            capture: Some(capture),
            host: Some(host),
            cgroup_stats: BTreeMap::from([(format!("/{}", self.step / 2), cgroup)]),
            ..SnapshotHead::default()
        };
        let threads = self.threads.iter().map(|(tid, values)| Self::thread(*tid, *values)).collect();
        CtprofSnapshot { head, threads }
    }

    /// The exits of a step.
    fn pass(&mut self, events: &[Event]) -> StepExits {
        let start = (self.step + 1) * SECOND + SECOND / 2;
        let mut exits = StepExits::default();
        for (tid, run, exit) in events {
            let values = self.threads.entry(*tid).or_insert((0, start));
            values.0 += run;
            let values = *values;
            if *exit {
                self.threads.remove(tid);
                let (state, started_monotonic_ns) = (Self::thread(*tid, values), values.1);
                let elapsed_ns = start + 7 - started_monotonic_ns;
                exits.each.push(ExitedThread {
                    state,
                    ppid: 1,
                    started_monotonic_ns,
                    elapsed_ns,
                    ..ExitedThread::default()
                });
            }
        }
        exits.records =
            Some(ExitRecords { received: u64::try_from(exits.each.len()).unwrap(), ..ExitRecords::default() });
        self.step += 1;
        exits
    }
}

/// Returns the run time and the number of all threads of a window, and of the exited threads.
fn sums(window: &CtprofSnapshot) -> (u64, u64) {
    let run = window.threads.iter().filter_map(|thread| thread.metrics.run_time_ns).map(u64::from).sum();
    let spans = window.threads.iter().filter_map(|thread| thread.span).filter(|span| span.exited);
    (run, spans.map(|span| span.count).sum())
}

fn events() -> impl Strategy<Value = Vec<Vec<Event>>> {
    let step = prop::collection::btree_map(1_u32..9, (0_u64..1000, prop::bool::weighted(0.3)), 0..6);
    let step = step.prop_map(|events| events.into_iter().map(|(tid, (run, exit))| (tid, run, exit)).collect());
    prop::collection::vec(step, 1..8)
}

proptest! {
    #[test]
    fn a_step_has_all_threads_as_the_window_between_its_captures(steps in events()) {
        let mut host = Host { threads: BTreeMap::from([(20, (5, 0)), (21, (6, 0))]), step: 0 };
        let mut moment = Moment::new(host.capture());
        for events in &steps {
            let mut whole = Part::begin(&moment).unwrap();
            let earlier = moment.head().unwrap();
            let exits = host.pass(events);
            let later = host.capture();
            let (_, Applied { before, changed, .. }) = moment.advance(later.clone(), &exits);
            let mut part = Part::with(earlier, before);
            [&mut part, &mut whole].into_iter().for_each(|part| part.add(exits.clone(), None));
            let threads = moment.some_threads(&changed);
            let mut step = part.end(CtprofSnapshot { head: later.head.clone(), threads }, None, None).unwrap();
            moment.add_unchanged(&mut step);
            let whole = whole.end(later, None, None).unwrap();
            // The name of a parent that slept is not known to a step.
            let without_parents = |threads: Vec<ThreadState>| -> Vec<_> {
                threads.into_iter().map(|thread| ThreadState { parent: None, ..thread }).collect()
            };
            prop_assert_eq!(without_parents(step.threads), without_parents(whole.threads));
        }
    }

    #[test]
    fn a_file_has_what_was_recorded_and_its_steps_add_up_to_the_window(steps in events()) {
        let mut host = Host { threads: BTreeMap::from([(20, (5, 0)), (21, (6, 0))]), step: 0 };
        let first = host.capture();
        let [mut recorded, mut read] = [(); 2].map(|()| Moment::new(first.clone()));
        let mut whole = Part::begin(&read).unwrap();
        let (mut all, mut added) = (Vec::new(), (0, 0));
        for events in &steps {
            let exits = host.pass(events);
            all.extend(exits.each.clone());
            let later = host.capture();
            let earlier = recorded.head().unwrap();
            let (step, changed) = recorded.advance(later.clone(), &exits);
            let json = serde_json::to_vec(&step).unwrap();
            let mut step: Step = serde_json::from_slice(&json).unwrap();
            let applied = read.apply(&mut step).unwrap();
            prop_assert_eq!(read.capture().unwrap(), later.clone());
            prop_assert_eq!(recorded.capture().unwrap(), later.clone());
            prop_assert_eq!(&applied.before, &changed.before);
            prop_assert_eq!(&applied.changed, &changed.changed);
            prop_assert_eq!(&applied.exits.each, &exits.each);
            prop_assert_eq!(&applied.exits.records, &exits.records);
            let mut part = Part::with(earlier, applied.before);
            part.add(applied.exits.clone(), None);
            let threads = read.some_threads(&applied.changed);
            let window = part.end(CtprofSnapshot { head: later.head, threads }, None, None).unwrap();
            let (run, exited) = sums(&window);
            added = (added.0 + run, added.1 + exited);
            whole.add(applied.exits, None);
        }
        let window = whole.end(host.capture(), None, None).unwrap();
        let for_each = |add: &mut dyn FnMut(ExitedThread)| all.iter().cloned().for_each(add);
        let exits = crate::window::Exits { each: Some(&for_each), ..crate::window::Exits::default() };
        let recording = crate::window::Recording { exits, ..crate::window::Recording::default() };
        let packed = crate::window::EarlierThreads::of_threads(first.threads);
        let direct = crate::window::recorded(&first.head, packed, host.capture(), recording).unwrap();
        prop_assert_eq!(sums(&window), sums(&direct));
        prop_assert_eq!(sums(&window), added);
    }
}

#[test]
fn a_step_of_another_capture_is_refused() {
    let mut host = Host { threads: BTreeMap::from([(20, (5, 0))]), step: 0 };
    let mut recorded = Moment::new(host.capture());
    let exits = host.pass(&[(20, 3, false)]);
    let (mut step, _) = recorded.advance(host.capture(), &exits);
    assert!(Moment::new(CtprofSnapshot::default()).apply(&mut step).is_err());
}

#[test]
fn counters_of_processes_and_of_their_exits_are_read_as_they_were_recorded() {
    let capture = |tid, utime: u64, io: Option<u64>| {
        let process = ProcessState {
            utime_clock_ticks: Some(utime.into()),
            stime_clock_ticks: Some(7.into()),
            read_bytes: io.map(Into::into),
            ..ProcessState::default()
        };
        let stayed = ThreadState { tid: 1, tgid: 1, process: Some(Box::new(process)), ..ThreadState::default() };
        let other = ThreadState { tid, tgid: tid, ..stayed.clone() };
        CtprofSnapshot { threads: vec![stayed, other], ..CtprofSnapshot::default() }
    };
    let (first, later) = (capture(2, 5, Some(9)), capture(3, 8, None));
    let exit = ExitedThread { state: first.threads[1].clone(), ..ExitedThread::default() };
    let row = ExitedThread { state: capture(4, 2, None).threads.remove(1), ..ExitedThread::default() };
    let folded = vec![(1, FoldedPart::Children, row)];
    let exits = StepExits { each: vec![exit], folded, impossible_delays: 4, ..StepExits::default() };
    let (step, _) = Moment::new(first.clone()).advance(later.clone(), &exits);
    let mut step: Step = serde_json::from_slice(&serde_json::to_vec(&step).unwrap()).unwrap();
    let mut read = Moment::new(first);
    let applied = read.apply(&mut step).unwrap();
    assert_eq!(read.capture().unwrap(), later);
    assert_eq!((&applied.exits.each, &applied.exits.folded), (&exits.each, &exits.folded));
    assert_eq!(applied.exits.impossible_delays, 4);
    assert_eq!(applied.exits.states().map(|state| state.tid).collect::<Vec<_>>(), [2, 4]);
    let mut changes = Changes::default();
    changes.add(step, applied);
    assert_eq!(changes.kept(), 2);
}

/// A thread of process 1 that exited after a second.
fn exited(tid: u32, started_monotonic_ns: u64) -> ExitedThread {
    let mut state = Host::thread(tid, (6, started_monotonic_ns));
    state.tgid = 1;
    ExitedThread { state, ppid: 1, started_monotonic_ns, elapsed_ns: SECOND, ..ExitedThread::default() }
}

#[test]
fn of_exits_only_those_that_were_there_before_are_kept_one_by_one() {
    let host = Host { threads: BTreeMap::from([(1, (5, 0))]), step: 0 };
    let mut part = Part::begin(&Moment::new(host.capture())).unwrap();
    // Threads 32 and 35 have the same name.
    let each = [(30, 0), (31, 0), (32, 2), (35, 3), (34, 2)].map(|(tid, second)| exited(tid, second * SECOND));
    part.add(StepExits { each: each.into(), ..StepExits::default() }, None);
    assert_eq!(part.kept(), 4);
}

#[test]
fn exits_with_any_number_of_names_and_cgroups_take_bounded_memory() {
    const NAMES: u32 = 60_000;
    let mut part = Part::begin(&Moment::new(Host::default().capture())).unwrap();
    let exited = |number: u32| {
        let mut exited = exited(number + 2, SECOND);
        exited.state.comm = number.to_string().into();
        exited.state.cgroup = Some(format!("/{number}").into());
        exited
    };
    let folded = (0..NAMES).map(|number| (1, FoldedPart::Threads, exited(number)));
    part.add(StepExits { folded: folded.collect(), ..StepExits::default() }, None);
    let most = part.kept();
    assert!(most < 50_010, "{most} rows");
    part.add(StepExits { each: (NAMES..2 * NAMES).map(exited).collect(), ..StepExits::default() }, None);
    assert!(part.kept() < most + 10, "{} rows", part.kept());
}

#[test]
fn a_zombie_that_has_not_changed_says_who_does_not_wait_for_it() {
    let named = |tid: u32, name: &str, state: char, ppid: u32| ThreadState {
        tid,
        tgid: tid,
        comm: name.into(),
        pcomm: name.into(),
        process: Some(Box::new(ProcessState { ppid: Some(ppid), ..ProcessState::default() })),
        metrics: Box::new(Metrics { state: Some(state), ..Metrics::default() }),
        ..ThreadState::default()
    };
    let mut capture = Host::default().capture();
    capture.threads = vec![named(5, "spawn", 'S', 1), named(6, "child", 'Z', 5)];
    let moment = Moment::new(capture);
    let mut window = CtprofSnapshot::default();
    moment.add_unchanged(&mut window);
    let parents: Vec<_> = window.threads.iter().map(|thread| thread.parent.as_deref()).collect();
    assert_eq!(parents, [None, Some("spawn")]);
}

#[test]
fn a_process_that_executes_programs_in_one_step_and_exits_in_another_has_its_work_by_program() {
    let named = |name: &str, run: u64, exit: ExitedThread, second: u64| {
        let mut exit = ExitedThread { elapsed_ns: second * SECOND - exit.started_monotonic_ns, ..exit };
        (exit.state.comm, exit.state.metrics.run_time_ns) = (name.into(), Some(run.into()));
        exit
    };
    let left = |name, run, exit, second| ExitedThread { executed: true, ..named(name, run, exit, second) };
    let process = |tid: u32, second: u64| {
        let mut exit = exited(tid, second * SECOND);
        exit.state.tgid = tid;
        exit
    };
    // Thread 51 of process 50 calls execve(2), not the first one, and then thread 52.
    let other = |tid, name, run, second| {
        let mut left = left(name, run, process(50, 1), second);
        left.state.tid = tid;
        left
    };
    let replaced =
        |name, run, by, second| ExitedThread { replaced_by: Some(by), ..named(name, run, process(50, 1), second) };
    let host = Host { threads: BTreeMap::from([(1, (5, 0)), (30, (3, 0))]), step: 0 };
    let first = host.capture();
    let steps = [
        vec![left("a", 9, process(30, 0), 2), left("c", 4, process(40, 1), 2), other(51, "e", 7, 2)],
        vec![
            left("b", 10, process(30, 0), 3),
            other(52, "g", 20, 4),
            named("last", 16, process(30, 0), 4),
            named("d", 6, process(40, 1), 4),
            replaced("first", 3, 51, 2),
            replaced("f", 12, 52, 3),
            named("h", 31, process(50, 1), 5),
        ],
    ];
    let mut part = Part::begin(&Moment::new(first.clone())).unwrap();
    let mut moment = Moment::new(first);
    for each in steps {
        let later = moment.capture().unwrap();
        let (step, _) = moment.advance(later, &StepExits { each, ..StepExits::default() });
        let mut step: Step = serde_json::from_slice(&serde_json::to_vec(&step).unwrap()).unwrap();
        part.add(Moment::new(moment.capture().unwrap()).apply(&mut step).unwrap().exits, None);
    }
    assert_eq!(part.kept(), 3 + 2 + 5, "of the second process, only names are left");
    let later = Host { threads: BTreeMap::from([(1, (5, 0))]), step: 8 }.capture();
    let window = part.end(later, None, None).unwrap();
    let run = |name: &str| {
        let all = window.threads.iter().filter(|thread| &*thread.comm == name);
        all.map(|thread| thread.metrics.run_time_ns.unwrap().number()).collect::<Vec<_>>()
    };
    assert_eq!(["a", "b", "last", "c", "d"].map(run), [[6], [1], [6], [4], [2]]);
    assert_eq!(["first", "e", "f", "g", "h"].map(run), [[3], [7], [5], [20], [11]]);
}

#[test]
fn what_started_while_threads_were_read_and_was_not_listed_is_of_the_part() {
    let capture = |step| {
        let mut capture = Host { threads: BTreeMap::from([(1, (step, 0))]), step }.capture();
        capture.head.capture.as_mut().unwrap().walk_ns = Some(SECOND);
        (capture.head.cpu_time, capture.head.cpu_time_after) =
            (Some(HostCpuTime::default()), Some(HostCpuTime::default()));
        // The only thread was read at the end.
        capture.threads[0].read_at_ns = Some(SECOND);
        capture
    };
    let mut part = Part::begin(&Moment::new(capture(0))).unwrap();
    // No capture has seen its process: who has recorded it knows whose it was.
    let mut during = exited(30, SECOND * 3 / 2);
    during.state.owner = Some(Owner::Command);
    part.add(StepExits { each: vec![during, exited(31, SECOND / 2)], ..StepExits::default() }, None);
    let window = part.end(capture(5), None, None).unwrap();
    let exited = window.threads.iter().filter(|thread| thread.span.is_some_and(|span: ThreadSpan| span.exited));
    assert_eq!(exited.map(|thread| (thread.tid, thread.owner)).collect::<Vec<_>>(), [(30, Some(Owner::Command))]);
}

#[test]
fn a_part_has_no_reasons_of_threads_that_exited_without_a_record() {
    let processes_with_reasons = |records: Option<ExitRecords>, each: Vec<ExitedThread>| {
        let mut host = Host { threads: BTreeMap::from([(1, (5, 0)), (30, (3, 0))]), step: 0 };
        let mut part = Part::begin(&Moment::new(host.capture())).unwrap();
        let of = |tgid: u32| {
            let (name, pcomm) = (Host::thread(tgid, (0, 0)).comm, Host::thread(1, (0, 0)).pcomm);
            SampledThreads { tgid: Some(tgid), pcomm, comm: name, ..SampledThreads::default() }
        };
        // Process 30 exits, and process 31, of the name of process 1, starts and exits.
        let threads = vec![of(1), of(30), of(31)];
        let times = (0..3).map(|threads| ReasonTime { threads, reason: 0, ns: 1, samples: 1 }).collect();
        let reasons = Reasons { threads, reasons: vec![Reason::default()], times, ..Reasons::default() };
        part.add(StepExits { records, each, ..StepExits::default() }, Some(reasons));
        host.threads.remove(&30);
        host.step = 5;
        let reasons = part.end_with_all(host.capture(), None).unwrap().head.reasons.unwrap();
        let of = |time: &ReasonTime| reasons.threads[usize::try_from(time.threads).unwrap()].tgid;
        reasons.times.iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(processes_with_reasons(None, Vec::new()), [1]);
    let records = || Some(ExitRecords::default());
    assert_eq!(processes_with_reasons(records(), Vec::new()), [1, 31], "the record of 30 was lost");
    // The first capture read it before, and was noted after.
    let exited = ExitedThread { state: Host::thread(30, (4, 0)), elapsed_ns: SECOND / 2, ..ExitedThread::default() };
    assert_eq!(processes_with_reasons(records(), vec![exited]), [1, 30, 31]);
}

#[test]
fn a_step_that_names_a_thread_twice_is_refused_before_it_takes_memory() {
    let first = CtprofSnapshot {
        threads: vec![ThreadState { tid: 1, tgid: 1, ..ThreadState::default() }],
        ..CtprofSnapshot::default()
    };
    for (rows, is_refused) in [("[[1,1]]", false), ("[[1,1],[1,1]]", true), ("[[2,2],[1,1]]", true)] {
        let times = vec!["0"; rows.matches("],").count() + 1].join(",");
        let step = format!(r#"{{"threads":{{"rows":{rows},"read_at_ns":[{times}]}}}}"#);
        let mut step: Step = serde_json::from_str(&step).unwrap();
        let applied = Moment::new(first.clone()).apply(&mut step);
        assert_eq!(matches!(applied, Err(super::SeriesError::Columns)), is_refused, "{rows}: {:?}", applied.err());
    }
}

#[test]
fn a_cgroup_that_came_or_went_counts_in_the_steps_that_have_it_at_both_ends() {
    let capture = |step: u64, cgroups: &[(&str, u64)]| {
        let mut capture = Host { step, ..Host::default() }.capture();
        let stats = |usage: u64| {
            let json = format!(r#"{{"cpu":{{"usage_usec":{usage},"max_quota_us":9}},"memory":{{"current":1}}}}"#);
            serde_json::from_str::<CgroupStats>(&json).unwrap()
        };
        capture.head.cgroup_stats = cgroups.iter().map(|(path, usage)| ((*path).to_owned(), stats(*usage))).collect();
        capture
    };
    let captures: [&[_]; 5] = [
        &[("/gone", 10), ("/stay", 1)],
        &[("/gone", 14), ("/stay", 2), ("/short", 5)],
        &[("/new", 7), ("/stay", 3), ("/short", 8)],
        &[("/new", 9), ("/stay", 4)],
        &[("/new", 12), ("/stay", 5), ("/last", 3)],
    ];
    // The usage, whether there is memory in use, and whether that is known of a part only.
    let window = |first: usize, last: usize| {
        let at = |place: usize| capture(u64::try_from(place).unwrap(), captures[place]);
        let [mut recorded, mut read] = [(); 2].map(|()| Moment::new(at(first)));
        let mut part = Part::begin(&read).unwrap();
        for place in first + 1..=last {
            let (mut step, _) = recorded.advance(at(place), &StepExits::default());
            part.add_cgroups(&read.apply(&mut step).unwrap().cgroups);
        }
        let stats = part.end(at(last), None, None).unwrap().head.cgroup_stats;
        let known = stats.into_iter().filter_map(|(path, stats)| {
            let usage = u64::from(stats.cpu.usage_usec?);
            Some((path, (usage, stats.memory.current.is_some(), stats.partial)))
        });
        known.collect::<BTreeMap<_, _>>()
    };
    let expected = [
        ("/gone", (4, false, true)),
        ("/new", (5, true, true)),
        ("/short", (3, false, true)),
        ("/stay", (4, true, false)),
    ];
    assert_eq!(window(0, 4), expected.map(|(path, values)| (path.to_owned(), values)).into());
    assert_eq!(
        window(0, 1).into_keys().collect::<Vec<_>>(),
        ["/gone", "/stay"],
        "a new one may be older than the step"
    );
    assert_eq!(
        window(1, 2).into_keys().collect::<Vec<_>>(),
        ["/short", "/stay"],
        "its last values are those before the step"
    );
}
