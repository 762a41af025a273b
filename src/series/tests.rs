//! What is read from steps is what was recorded, and steps add up to the window.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Moment, Part, Step, StepExits};
use crate::model::{
    CaptureInfo, CgroupStats, CtprofSnapshot, ExitedThread, HostContext, ProcessState, SnapshotHead, ThreadState,
};

const SECOND: u64 = 1_000_000_000;

/// What happens to a thread in a step: it runs so long, and may exit. It is started if it is not there.
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
        self.step += 1;
        exits
    }
}

/// Run time and number of all threads of a window, and of those that exited.
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
    fn a_file_has_what_was_recorded_and_its_steps_add_up_to_the_window(steps in events()) {
        let mut host = Host { threads: BTreeMap::from([(20, (5, 0)), (21, (6, 0))]), step: 0 };
        let first = host.capture();
        let (mut recorded, mut read) = (Moment::new(first.clone()), Moment::new(first.clone()));
        let mut whole = Part::begin(&read).unwrap();
        let (mut all, mut added) = (Vec::new(), (0, 0));
        for events in &steps {
            let exits = host.pass(events);
            all.extend(exits.each.clone());
            let later = host.capture();
            let earlier = recorded.head().unwrap();
            let (step, changed) = recorded.advance(later.clone(), &exits);
            let mut step: Step = serde_json::from_slice(&serde_json::to_vec(&step).unwrap()).unwrap();
            let applied = read.apply(&mut step).unwrap();
            prop_assert_eq!(read.capture().unwrap(), later.clone());
            prop_assert_eq!(recorded.capture().unwrap(), later.clone());
            prop_assert_eq!(&applied.before, &changed.before);
            prop_assert_eq!(&applied.exits.each, &exits.each);
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
