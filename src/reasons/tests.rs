//! Passes of samples, and what the reasons are.

use std::collections::{BTreeMap, HashMap, HashSet};

use nix::libc;
use proptest::collection::vec;
use proptest::{prop_assert, proptest};

use super::{Conclusion, PassMoment, ReasonCollector};
use crate::model::{
    Activity, KernelEntry, Name, Owner, PassScope, ProcessSelection, Reason, ReasonClass, Reasons, SampledThreads,
    ThreadEnd, ThreadSample, ThreadState,
};

mod bounds;
mod ids;
mod names;
mod stacks;

const SAMPLER: u32 = 99;
/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;

/// A thread on CPU 0 that has switched so often.
fn sample(tid: u32, activity: Activity, switches: u64) -> ThreadSample {
    ThreadSample {
        tid,
        tgid: tid,
        pcomm: format!("p{tid}").into(),
        comm: format!("t{tid}").into(),
        start_time_clock_ticks: 7,
        process_started: Some(7),
        switches,
        activity,
        cpu: Some(0),
        ..ThreadSample::default()
    }
}

/// A thread that sleeps in a system call, in a function.
fn in_call(tid: u32, activity: Activity, switches: u64, number: libc::c_long, function: u64) -> ThreadSample {
    let entry = KernelEntry::SystemCall(number.try_into().unwrap(), [3, 0]);
    ThreadSample { entry, stack: vec![function], ..sample(tid, activity, switches) }
}

/// Passes every 20 ms.
fn collected(passes: &[Vec<ThreadSample>]) -> ReasonCollector {
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    for (pass, samples) in (0..).zip(passes) {
        collector.add(PassMoment { at_ns: 1000 * MS + 20 * MS * pass, ..PassMoment::default() }, samples, 0);
    }
    collector
}

fn concluded(collector: ReasonCollector, threads: &[ThreadState]) -> Reasons {
    concluded_without(collector, threads, &HashSet::new())
}

/// Concludes a window without samples of some processes.
fn concluded_without(collector: ReasonCollector, threads: &[ThreadState], unread: &HashSet<u32>) -> Reasons {
    let functions = [(1, "do_epoll_wait"), (2, "submit_bio_wait"), (3, "handle_mm_fault"), (4, "bit_wait_io")];
    let functions: HashMap<u64, Name> = functions.map(|(address, name)| (address, name.into())).into();
    let cgroup = |key: u64| (key == 5).then(|| "/db".into());
    let threads = &*Vec::from_iter(threads);
    let stacks = [(1, "app:get"), (2, "app:set")].map(|(number, stack)| (number, stack.into())).into();
    let (functions, stacks) = (&functions, &stacks);
    collector.conclude(&Conclusion { threads, has_exited: true, functions, stacks, unread, cgroup: &cgroup })
}

/// Milliseconds and samples by process, class, system call and innermost function.
fn amounts(reasons: &Reasons) -> BTreeMap<String, (u64, u64)> {
    let place = |number: u64| usize::try_from(number).unwrap();
    let each = reasons.times.iter().map(|time| {
        let Reason { class, entry, functions, object, by, .. } = &reasons.reasons[place(time.reason)];
        let by = by.as_ref().map(|by| format!("by {}", by.comm));
        let parts = [entry.as_deref(), functions.first().map(|name| &**name), object.as_deref(), by.as_deref()];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        let name = &reasons.threads[place(time.threads)].pcomm;
        (format!("{name} {class:?} {}", parts.join(" ")).trim_end().to_owned(), (time.ns / MS, time.samples))
    });
    each.collect()
}

fn shown(passes: &[Vec<ThreadSample>]) -> BTreeMap<String, (u64, u64)> {
    amounts(&concluded(collected(passes), &[]))
}

fn map<const N: usize>(rows: [(&str, (u64, u64)); N]) -> BTreeMap<String, (u64, u64)> {
    rows.map(|(name, amount)| (name.to_owned(), amount)).into()
}

#[test]
fn a_thread_did_what_its_samples_say_from_halfway_to_halfway() {
    let passes = [
        vec![sample(1, Activity::Running, 5)],
        vec![in_call(1, Activity::Blocked, 6, libc::SYS_fdatasync, 2)],
        vec![],
        vec![sample(1, Activity::Running, 7)],
        vec![sample(1, Activity::Running, 7)],
    ];
    assert_eq!(shown(&passes), map([("p1 Run", (40, 3)), ("p1 Block fdatasync submit_bio_wait", (40, 2))]));
}

#[test]
fn a_sleep_that_lasts_for_the_whole_window_is_idle_and_a_later_one_is_not() {
    let idle = in_call(1, Activity::Asleep, 5, libc::SYS_epoll_wait, 1);
    let waits = in_call(2, Activity::Asleep, 6, libc::SYS_epoll_wait, 1);
    let blocked = in_call(3, Activity::Blocked, 6, libc::SYS_fsync, 2);
    let passes = [
        vec![idle.clone(), sample(2, Activity::Running, 5), blocked.clone()],
        vec![waits.clone()],
        vec![idle, waits, blocked],
    ];
    let reasons = concluded(collected(&passes), &[]);
    assert_eq!(
        amounts(&reasons),
        map([
            ("p1 Idle epoll_wait do_epoll_wait", (40, 3)),
            ("p2 Run", (10, 1)),
            ("p2 Sleep epoll_wait do_epoll_wait", (30, 2)),
            ("p3 Block fsync submit_bio_wait", (40, 3)),
        ])
    );
    assert_eq!(reasons.sampling.samples, 6, "idle ones do not count");
}

#[test]
fn windows_that_follow_each_other_add_up_to_one_without_passes_over_all_threads() {
    let idle = in_call(1, Activity::Asleep, 5, libc::SYS_epoll_wait, 1);
    let blocked = |switches| in_call(2, Activity::Blocked, switches, libc::SYS_fsync, 2);
    let runs = sample(3, Activity::Running, 5);
    let exits = in_call(4, Activity::Asleep, 5, libc::SYS_epoll_wait, 1);
    let passes = [
        vec![idle.clone(), sample(2, Activity::Running, 5), runs.clone(), exits.clone()],
        vec![blocked(6), runs.clone()],
        vec![runs.clone()],
        vec![runs.clone()],
        vec![sample(2, Activity::Running, 7), runs.clone()],
        vec![blocked(8), runs.clone()],
    ];
    let add = |collector: &mut ReasonCollector, passes: &[(u64, &Vec<ThreadSample>)]| {
        for (pass, samples) in passes {
            collector.add(PassMoment { at_ns: 1000 * MS + 20 * MS * pass, ..PassMoment::default() }, samples, 0);
        }
    };
    let all: Vec<_> = (0..).zip(&passes).collect();
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    add(&mut collector, &all[..3]);
    let first = amounts(&concluded(collector.next_window(), &[]));
    add(&mut collector, &all[3..]);
    collector.end(&ThreadEnd {
        tid: 4,
        start_time_clock_ticks: 7,
        monotonic_ns: 1090 * MS,
        pcomm: "p4".into(),
        comm: "t4".into(),
        ..ThreadEnd::default()
    });
    let second = concluded(collector.next_window(), &[]);
    assert_eq!(second.sampling.passes, 3);
    let second = amounts(&second);
    let ns = |amounts: &BTreeMap<String, (u64, u64)>, name: &str| amounts.get(name).map_or(0, |(ns, _)| *ns);
    let each = [
        ("p1 Idle epoll_wait do_epoll_wait", [40, 60]),
        ("p2 Run", [10, 20]),
        ("p2 Block fsync submit_bio_wait", [30, 40]),
        ("p3 Run", [40, 60]),
        ("p4 Idle epoll_wait do_epoll_wait", [40, 0]),
        ("p4 Sleep epoll_wait do_epoll_wait", [0, 50]),
    ];
    assert_eq!(each.map(|(name, _)| [ns(&first, name), ns(&second, name)]), each.map(|(_, expected)| expected));
    assert_eq!(second["p1 Idle epoll_wait do_epoll_wait"].1, 3, "one sample per pass, though it is left out");
    assert_eq!(first.len() + second.len(), 5 + 5, "{first:?} {second:?}");
}

#[test]
fn what_only_passes_over_all_threads_see_counts_for_the_time_between_them() {
    let rare = |sample| ThreadSample { rarely_sampled: true, ..sample };
    let asleep = |tid| in_call(tid, Activity::Asleep, 5, libc::SYS_epoll_wait, 1);
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    let mut add = |at: u64, scope, samples: &[ThreadSample]| {
        collector.add(PassMoment { at_ns: at * MS, scope, ..PassMoment::default() }, samples, 0);
    };
    add(1000, PassScope::All, &[asleep(1), asleep(2)]);
    let runs = sample(3, Activity::Running, 5);
    (1..50).for_each(|pass| add(1000 + 20 * pass, PassScope::Active, std::slice::from_ref(&runs)));
    let blocked = in_call(1, Activity::Blocked, 6, libc::SYS_fsync, 2);
    // Passes over active threads have those that run: this one has just begun.
    let found = [rare(blocked.clone()), rare(sample(2, Activity::Running, 6)), sample(3, Activity::Blocked, 6)];
    add(2000, PassScope::All, &found);
    add(2020, PassScope::Active, &[sample(2, Activity::Running, 6)]);
    add(2040, PassScope::All, &[blocked, sample(2, Activity::Running, 6)]);
    let amounts = amounts(&concluded(collector, &[]));
    let ms = |name: &str| amounts[name].0;
    assert_eq!(
        ["p1 Sleep epoll_wait do_epoll_wait", "p1 Block fsync submit_bio_wait", "p2 Run", "p3 Run"].map(ms),
        [500, 540, 50, 980],
        "{amounts:?}"
    );
}

#[test]
fn a_thread_that_is_sampled_after_its_end_was_noted_has_no_reason_in_the_next_window() {
    let asleep = in_call(1, Activity::Asleep, 5, libc::SYS_epoll_wait, 1);
    let exits = ThreadSample { exiting: true, ..in_call(1, Activity::Blocked, 6, libc::SYS_epoll_wait, 2) };
    let mut collector = collected(&[vec![asleep]]);
    let end = ThreadEnd { tid: 1, start_time_clock_ticks: 7, monotonic_ns: 1005 * MS, ..ThreadEnd::default() };
    collector.end(&end);
    let add = |collector: &mut ReasonCollector, pass: u64, samples: &[ThreadSample]| {
        collector.add(PassMoment { at_ns: 1000 * MS + 20 * MS * pass, ..PassMoment::default() }, samples, 0);
    };
    add(&mut collector, 1, &[exits]);
    (2..50).for_each(|pass| add(&mut collector, pass, &[]));
    let first = amounts(&concluded(collector.next_window(), &[]));
    let blocked: u64 = first.iter().filter(|(name, _)| name.contains("Block")).map(|(_, (ns, _))| ns).sum();
    assert!(blocked <= 20, "{first:?}");
    (50..100).for_each(|pass| add(&mut collector, pass, &[]));
    assert_eq!(amounts(&concluded(collector.next_window(), &[])), map([]));
}

#[test]
fn who_runs_on_the_cpu_of_a_thread_that_is_ready_is_why_it_waits() {
    let on = |cpu, sample| ThreadSample { cpu: Some(cpu), ..sample };
    let pass = vec![
        on(0, sample(1, Activity::Runnable, 5)),
        on(0, sample(2, Activity::Running, 5)),
        on(1, sample(3, Activity::Running, 5)),
        on(2, sample(4, Activity::Runnable, 5)),
        on(0, sample(5, Activity::Throttled, 5)),
    ];
    let shown = shown(&[pass.clone(), pass]);
    assert_eq!(shown["p1 Wait by t2"], (20, 2));
    assert_eq!(shown["p4 Wait"], (20, 2), "nobody was seen there");
    assert_eq!(shown["p5 CpuQuota"], (20, 2), "no other thread is why its cgroup has used its quota");
}

#[test]
fn the_thread_whose_cpu_the_sampler_took_runs() {
    let queued = |tid, last_queued| ThreadSample { last_queued, ..sample(tid, Activity::Runnable, 5) };
    let sampler = ThreadSample { last_arrival: 70, ..sample(SAMPLER, Activity::Running, 5) };
    let elsewhere = ThreadSample { cpu: Some(1), ..queued(3, 70) };
    let pass = vec![sampler, queued(1, 70), queued(2, 60), elsewhere];
    assert_eq!(
        shown(&[pass.clone(), pass]),
        map([("p1 Run", (20, 2)), ("p2 Wait by t1", (20, 2)), ("p3 Wait", (20, 2))])
    );
}

/// The longest waits by process, in milliseconds.
fn longest_waits(reasons: &Reasons) -> Vec<(&str, u64)> {
    let named = |(place, ns): (&u64, &u64)| (&*reasons.threads[usize::try_from(*place).unwrap()].pcomm, ns / MS);
    reasons.longest_waits.iter().map(named).collect()
}

#[test]
fn a_thread_has_waited_for_a_cpu_at_least_until_a_pass_that_saw_it_waiting_could_begin() {
    let sampler = |last_arrival| ThreadSample { last_arrival, ..sample(SAMPLER, Activity::Running, 5) };
    let queued = |tid, activity, last_queued| ThreadSample { last_queued, ..sample(tid, activity, 5) };
    let waits = |tid, last_queued| queued(tid, Activity::Runnable, last_queued);
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    let mut pass = |at, samples: Vec<ThreadSample>| {
        let moment = PassMoment { at_ns: at, took_ns: 2 * MS, ..PassMoment::default() };
        collector.add(moment, &[samples, vec![sampler(at)]].concat(), 0);
    };
    // The sampler took the CPU of 3, and 4 sleeps. Nobody knows since when 5 waits.
    let (displaced, asleep) = (waits(3, 100 * MS), queued(4, Activity::Asleep, 50 * MS));
    pass(100 * MS, vec![waits(1, 90 * MS), waits(2, 70 * MS), displaced, asleep, waits(5, 0)]);
    pass(200 * MS, vec![waits(1, 60 * MS), queued(2, Activity::Throttled, 190 * MS), sample(6, Activity::Running, 1)]);
    let end = ThreadEnd {
        tid: 1,
        start_time_clock_ticks: 7,
        monotonic_ns: 210 * MS,
        pcomm: "p1".into(),
        ..ThreadEnd::default()
    };
    collector.end(&end);
    let ended = collector.next_window();
    assert_eq!(longest_waits(&concluded(ended, &[])), [("p1", 138), ("p2", 28)]);
    let moment = PassMoment { at_ns: 300 * MS, took_ns: 2 * MS, ..PassMoment::default() };
    collector.add(moment, &[sampler(300 * MS), waits(2, 150 * MS)], 0);
    assert_eq!(longest_waits(&concluded(collector, &[])), [("p2", 148)], "it began before the window");
    let unknown_clock = collected(&[vec![waits(1, 60 * MS)]]);
    assert!(concluded(unknown_clock, &[]).longest_waits.is_empty());
}

#[test]
fn a_thread_that_never_sleeps_has_waited_for_the_cpu_that_it_got_while_it_was_sampled() {
    let sampler = || ThreadSample { last_arrival: 70, ..sample(SAMPLER, Activity::Running, 5) };
    let spins = |last_arrival| ThreadSample { cpu: Some(1), last_arrival, ..sample(1, Activity::Running, 5) };
    let passes = [vec![sampler(), spins(60)], vec![sampler(), spins(75)]];
    assert_eq!(shown(&passes), map([("p1 Run", (10, 1)), ("p1 Wait", (10, 1))]));
}

#[test]
fn a_thread_that_fell_asleep_while_it_was_sampled_ran_and_then_sleeps() {
    let sampler = || ThreadSample { last_arrival: 70, ..sample(SAMPLER, Activity::Running, 5) };
    // Between two passes, samplers leave out who sleeps on.
    let asleep = || ThreadSample {
        cpu: Some(1),
        last_arrival: 60,
        ran_ns: 15,
        ..in_call(1, Activity::Asleep, 6, libc::SYS_read, 2)
    };
    let passes = [vec![sampler(), asleep()], vec![sampler()], vec![sampler(), asleep()]];
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    for (pass, samples) in (0..).zip(&passes) {
        let moment = PassMoment {
            at_ns: 20 * MS * pass,
            late_ns: 0,
            took_ns: if pass == 0 { 10 } else { 1 },
            ..PassMoment::default()
        };
        collector.add(moment, samples, 0);
    }
    let expected = map([("p1 Run", (10, 1)), ("p1 Sleep read submit_bio_wait", (30, 2))]);
    assert_eq!(amounts(&concluded(collector, &[])), expected);
}

#[test]
fn a_thread_that_was_woken_up_while_it_was_sampled_slept_as_before() {
    let sampler = || ThreadSample { last_arrival: 70, ..sample(SAMPLER, Activity::Running, 5) };
    let woken = || ThreadSample { last_queued: 75, ..sample(1, Activity::Runnable, 6) };
    let passes = [vec![sampler(), in_call(1, Activity::Asleep, 5, libc::SYS_read, 2)], vec![sampler(), woken()]];
    assert_eq!(shown(&passes), map([("p1 Sleep read submit_bio_wait", (20, 2))]));
    let [before, after] = passes;
    let again = vec![sampler(), ThreadSample { voluntary_switches: 1, ..woken() }];
    let is_known_later = [after, again, before.clone(), before];
    assert_eq!(shown(&is_known_later), map([("p1 Sleep read submit_bio_wait", (60, 4))]));
}

#[test]
fn a_thread_that_was_woken_up_waits_for_a_cpu_until_it_switches() {
    let asleep = in_call(1, Activity::Asleep, 5, libc::SYS_read, 2);
    let woken = || vec![sample(1, Activity::Runnable, 5)];
    let expected = map([("p1 Sleep read submit_bio_wait", (10, 1)), ("p1 Wait", (30, 2))]);
    assert_eq!(shown(&[vec![asleep], woken(), woken()]), expected);
}

#[test]
fn the_last_sleep_of_a_thread_ends_when_it_exits() {
    let waits = || in_call(1, Activity::Asleep, 6, libc::SYS_wait4, 1);
    let passes = [vec![], vec![waits()], vec![], vec![], vec![], vec![]];
    let end = |ms| ThreadEnd {
        tid: 1,
        start_time_clock_ticks: 7,
        monotonic_ns: ms * MS,
        pcomm: "cc1".into(),
        comm: "cc1".into(),
        ..ThreadEnd::default()
    };
    let with = |end: &ThreadEnd| {
        let mut collector = collected(&passes);
        collector.end(end);
        amounts(&concluded(collector, &[]))
    };
    assert_eq!(with(&end(1065)), map([("cc1 Sleep wait4 do_epoll_wait", (60, 3))]));
    assert_eq!(with(&end(1150)), map([("cc1 Sleep wait4 do_epoll_wait", (90, 5))]), "after the last pass");
    let of_another = ThreadEnd { start_time_clock_ticks: 8, ..end(1065) };
    let unknown = map([("p1 Sleep wait4 do_epoll_wait", (10, 1))]);
    assert_eq!((with(&of_another), shown(&passes)), (unknown.clone(), unknown));
}

#[test]
fn a_thread_that_is_no_longer_ready_has_exited() {
    let passes = [vec![sample(1, Activity::Running, 5)], vec![], vec![sample(2, Activity::Running, 5)]];
    assert_eq!(shown(&passes), map([("p1 Run", (10, 1)), ("p2 Run", (10, 1))]));
}

#[test]
fn nobody_knows_what_a_thread_did_while_the_sampler_was_stopped() {
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    let sleep = || in_call(2, Activity::Asleep, 5, libc::SYS_epoll_wait, 1);
    for at in [0, 20, 40, 60, 5060, 5080] {
        let mut samples = vec![sample(1, Activity::Running, 5)];
        samples.extend([0, 5080].contains(&at).then(sleep));
        collector.add(PassMoment { at_ns: at * MS, ..PassMoment::default() }, &samples, 0);
    }
    let shown = amounts(&concluded(collector, &[]));
    assert_eq!(shown["p1 Run"], (100, 6));
    assert_eq!(shown["p2 Idle epoll_wait do_epoll_wait"].0, 5080, "its switches say that it slept on");
}

#[test]
fn a_thread_that_fell_asleep_slept_also_while_the_sampler_was_stopped() {
    let sampler = || ThreadSample { last_arrival: 70, ..sample(SAMPLER, Activity::Running, 5) };
    let falls_asleep = ThreadSample {
        cpu: Some(1),
        last_arrival: 60,
        ran_ns: 15,
        ..in_call(1, Activity::Asleep, 6, libc::SYS_read, 2)
    };
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    for at in [0, 20, 40, 60, 5060, 5080] {
        let mut samples = vec![sampler()];
        samples.extend((at == 60).then(|| falls_asleep.clone()));
        let moment = PassMoment { at_ns: at * MS, took_ns: 10, ..PassMoment::default() };
        collector.add(moment, &samples, 0);
    }
    let reasons = concluded(collector.next_window(), &[]);
    let expected = map([("p1 Run", (20, 1)), ("p1 Sleep read submit_bio_wait", (5010, 2))]);
    assert_eq!(amounts(&reasons), expected);
}

#[test]
fn a_window_says_how_often_it_was_sampled_and_what_was_lost() {
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    for (at, lost) in [(0, 0), (20, 2), (40, 3)] {
        collector.add(PassMoment { at_ns: at * MS, ..PassMoment::default() }, &[], lost);
    }
    let sampling = |window| concluded(window, &[]).sampling;
    let first = sampling(collector.next_window());
    assert_eq!((first.passes, first.period_ns, first.lost), (3, 20 * MS, 5));
    assert_eq!(sampling(collector.next_window()).lost, 0, "of the next window");
}

#[test]
fn a_page_fault_is_told_by_its_functions() {
    let fault = |tid, function| ThreadSample {
        entry: KernelEntry::Exception,
        stack: vec![4, function],
        ..sample(tid, Activity::Blocked, 6)
    };
    let pass = vec![fault(1, 3), fault(2, 2)];
    assert_eq!(
        shown(&[pass.clone(), pass]),
        map([("p1 Block page fault handle_mm_fault", (20, 2)), ("p2 Block submit_bio_wait", (20, 2))])
    );
}

#[test]
fn a_thread_that_is_blocked_outside_of_system_calls_has_a_page_fault_if_only_wchan_is_known() {
    let outside = |tid, activity, stack: &[u64]| ThreadSample {
        entry: KernelEntry::Exception,
        stack: stack.to_vec(),
        ..sample(tid, activity, 6)
    };
    let pass = vec![outside(1, Activity::Blocked, &[2]), outside(2, Activity::Asleep, &[2])];
    let shown = shown(&[pass.clone(), pass]);
    assert_eq!(shown["p1 Block page fault submit_bio_wait"], (20, 2));
    assert!(shown.keys().all(|name| !name.starts_with("p2 ") || !name.contains("page fault")), "{shown:?}");
}

#[test]
fn the_owner_of_a_lock_is_named_if_it_is_known() {
    let waits =
        |tid, owner| ThreadSample { owner: Some(owner), ..in_call(tid, Activity::Blocked, 6, libc::SYS_read, 2) };
    let pass = vec![sample(1, Activity::Running, 5), waits(2, 1), waits(3, 1234)];
    let shown = shown(&[pass.clone(), pass]);
    assert_eq!(shown["p2 Block read submit_bio_wait by t1"], (20, 2));
    assert_eq!(shown["p3 Block read submit_bio_wait"], (20, 2));
}

/// A process of an interpreter that runs this script.
fn script(tid: u32, script: &str) -> ThreadState {
    let (pcomm, program) = ("python3".into(), Some(script.into()));
    ThreadState { tid, tgid: tid, pcomm, program, ..ThreadState::default() }
}

#[test]
fn owners_of_locks_and_what_runs_on_a_cpu_are_told_apart_by_their_programs() {
    let python =
        |tid, cpu| ThreadSample { pcomm: "python3".into(), cpu: Some(cpu), ..sample(tid, Activity::Running, 5) };
    let waits =
        |tid, owner| ThreadSample { owner: Some(owner), ..in_call(tid, Activity::Blocked, 6, libc::SYS_read, 2) };
    let ready = |tid, cpu| ThreadSample { cpu: Some(cpu), ..sample(tid, Activity::Runnable, 5) };
    for victims in [[waits(3, 1), waits(4, 2)], [ready(3, 7), ready(4, 8)]] {
        let [three, four] = victims;
        let pass = vec![python(1, 7), python(2, 8), three, four];
        // The first pass knows no thread from before.
        let reasons = concluded(
            collected(&[vec![python(1, 7), python(2, 8)], pass.clone(), pass]),
            &[script(1, "a.py"), script(2, "b.py")],
        );
        let others = reasons.reasons.iter().filter_map(|reason| reason.by.as_ref()?.program.as_deref());
        assert_eq!(others.collect::<Vec<_>>(), ["a.py", "b.py"]);
    }
}

#[test]
fn a_sleep_that_began_in_the_window_before_is_idle_in_the_next_one() {
    let asleep = in_call(1, Activity::Asleep, 6, libc::SYS_read, 2);
    let mut collector = collected(&[vec![sample(1, Activity::Running, 5)], vec![asleep]]);
    let first = amounts(&concluded(collector.next_window(), &[]));
    assert_eq!(first, map([("p1 Run", (10, 1)), ("p1 Sleep read submit_bio_wait", (10, 1))]));
    collector.add(PassMoment { at_ns: 1040 * MS, ..PassMoment::default() }, &[], 0);
    let second = amounts(&concluded(collector.next_window(), &[]));
    assert_eq!(second, map([("p1 Idle read submit_bio_wait", (20, 1))]));
}

#[test]
fn the_next_window_has_the_names_and_reasons_of_its_threads_and_no_others() {
    let waits = |names: &str| ThreadSample {
        pcomm: names.into(),
        cpu: None,
        ..in_call(1, Activity::Asleep, 6, libc::SYS_read, 2)
    };
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    let add = |collector: &mut ReasonCollector, pass: u64, samples: &[ThreadSample]| {
        collector.add(PassMoment { at_ns: 1000 * MS + 20 * MS * pass, ..PassMoment::default() }, samples, 0);
    };
    // Threads with names and reasons that no other thread has, and one that sleeps on.
    for window in 0..50 {
        let starts = in_call(100 + u32::try_from(window).unwrap(), Activity::Asleep, 5, libc::SYS_read, 100 + window);
        let first = if window == 0 { vec![waits("p1")] } else { Vec::new() };
        add(&mut collector, 2 * window, &[first, vec![starts.clone()]].concat());
        collector.end(&ThreadEnd {
            tid: starts.tid,
            start_time_clock_ticks: 7,
            monotonic_ns: 1010 * MS + 40 * MS * window,
            pcomm: starts.pcomm,
            comm: starts.comm,
            ..ThreadEnd::default()
        });
        add(&mut collector, 2 * window + 1, &[]);
        let shown = amounts(&concluded(collector.next_window(), &[]));
        let idle = if window == 0 { (20, 2) } else { (40, 2) };
        assert_eq!(shown.get("p1 Idle read submit_bio_wait"), Some(&idle), "{shown:?}");
    }
    let entries: HashMap<_, _> = collector.entries().into_iter().collect();
    assert_eq!(
        (entries["names of threads with reasons"], entries["reasons"], entries["threads with reasons"]),
        (1, 1, 1)
    );
}

/// Returns the process of each exited thread, by the name of the thread.
fn processes(window: ReasonCollector, tgids: &[u32]) -> BTreeMap<String, Option<u32>> {
    let threads: Vec<_> = tgids.iter().map(|&tgid| ThreadState { tgid, ..ThreadState::default() }).collect();
    concluded(window, &threads).threads.into_iter().map(|thread| (thread.comm.to_string(), thread.tgid)).collect()
}

#[test]
fn an_exited_thread_is_of_a_process_that_was_there_before_the_window() {
    let of = |tgid, tid| ThreadSample { tgid, ..sample(tid, Activity::Running, 5) };
    let passes = [vec![of(1, 1), of(3, 3)], vec![of(1, 1), of(1, 11), of(2, 2), of(2, 12)], vec![of(1, 1)]];
    let mut collector = collected(&passes);
    let expected = [("t1", Some(1)), ("t11", Some(1)), ("t12", None), ("t2", None), ("t3", Some(3))];
    // Another process has the id of the one that started and exited.
    let first = processes(collector.next_window(), &[1, 2, 3]);
    assert_eq!(first, expected.map(|(name, tgid)| (name.to_owned(), tgid)).into());
    for (pass, samples) in [(3, vec![of(1, 1), of(2, 2)]), (4, vec![of(2, 2)])] {
        collector.add(PassMoment { at_ns: 1000 * MS + 20 * MS * pass, ..PassMoment::default() }, &samples, 0);
    }
    collector.next_window();
    collector.add(PassMoment { at_ns: 1100 * MS, ..PassMoment::default() }, &[], 0);
    let later = processes(collector.next_window(), &[2]);
    assert_eq!(later, [("t2".to_owned(), Some(2))].into(), "it started in an earlier window");
}

proptest! {
    /// Times run backwards, ids are used again, threads appear and vanish, and the sampler may or may not be among them.
    #[test]
    fn whatever_a_kernel_says_no_thread_has_more_time_than_the_window(
        passes in vec((0..60u64, vec((0..4u32, 0..6u8, 0..3u64, 0..4u64, 0..3u64), 0..6)), 1..12),
        ends in vec((0..4u32, 0..3u64, 0..600u64), 0..4),
    ) {
        let activities = [
            Activity::Running, Activity::Runnable, Activity::Throttled, Activity::Blocked, Activity::Asleep, Activity::Stopped,
        ];
        let mut collector = ReasonCollector::new(0, ProcessSelection::default());
        let mut at = 0;
        for (later, samples) in &passes {
            at += later;
            let samples = samples.iter().map(|&(tid, activity, switches, times, start)| ThreadSample {
                start_time_clock_ticks: start,
                last_arrival: times * 100,
                last_queued: times * 50,
                ran_ns: times * 70,
                cpu: u32::try_from(times).ok(),
                ..in_call(tid, activities[usize::from(activity)], switches, libc::SYS_read, 2)
            });
            let moment = PassMoment { at_ns: at * MS, late_ns: later * 3, took_ns: 100, ..PassMoment::default() };
            collector.add(moment, &samples.collect::<Vec<_>>(), 0);
        }
        for (tid, start_time_clock_ticks, ms) in ends {
            let [pcomm, comm] = ["p", "t"].map(|kind| format!("{kind}{tid}").into());
            let end = ThreadEnd { tid, start_time_clock_ticks, monotonic_ns: ms * MS, pcomm, comm, ..ThreadEnd::default() };
            collector.end(&end);
        }
        let window = at.saturating_sub(passes[0].0) * MS;
        let reasons = concluded(collector, &[]);
        let mut times = BTreeMap::<u64, u64>::new();
        reasons.times.iter().for_each(|time| *times.entry(time.threads).or_default() += time.ns);
        // Half a period more where the end of a thread is unknown.
        prop_assert!(times.values().all(|&ns| ns <= window + 60 * MS), "{times:?} of {window}");
    }
}
