//! Where in the code threads wait, and where owners of locks do.

use super::*;

/// A thread that waits for a futex, with the number of its stack.
fn waits(tid: u32, switches: u64, code: Option<u32>, owner: Option<u32>) -> ThreadSample {
    ThreadSample { code, owner, ..in_call(tid, Activity::Asleep, switches, libc::SYS_futex, 0) }
}

/// Where the reasons of a process wait and where their locks are held, with milliseconds.
fn stacks(reasons: &Reasons, pcomm: &str) -> Vec<(Option<String>, Option<String>, u64)> {
    let place = |number: u64| usize::try_from(number).unwrap();
    let of_process = reasons.times.iter().filter(|time| &*reasons.threads[place(time.threads)].pcomm == pcomm);
    let row = |time: &crate::model::ReasonTime| {
        let Reason { stack, held_in, .. } = &reasons.reasons[place(time.reason)];
        let [stack, held_in] = [stack, held_in].map(|text| text.as_deref().map(str::to_owned));
        (stack, held_in, time.ns / MS)
    };
    of_process.map(row).collect()
}

#[test]
fn a_lock_is_held_where_its_owner_sleeps_at_the_same_moment() {
    let running = |tid, switches| sample(tid, Activity::Running, switches);
    // The owner's thread comes after the one that waits, and slept elsewhere before.
    let passes = [
        vec![running(1, 1), waits(2, 1, Some(1), None)],
        vec![waits(1, 2, Some(1), Some(2)), waits(2, 2, Some(2), None)],
        vec![],
        vec![running(1, 3), running(2, 3)],
    ];
    let reasons = concluded(collected(&passes), &[]);
    let held = stacks(&reasons, "p1").into_iter().find(|(stack, ..)| stack.is_some()).unwrap();
    assert_eq!((held.0.as_deref(), held.1.as_deref()), (Some("app:get"), Some("app:set")));
    let awake = [vec![running(2, 1), running(1, 1)], vec![waits(1, 2, Some(1), Some(2)), running(2, 1)], vec![]];
    let reasons = concluded(collected(&awake), &[]);
    assert!(stacks(&reasons, "p1").iter().all(|(_, held_in, _)| held_in.is_none()), "the owner did not sleep");
}

#[test]
fn sleeps_whose_stacks_were_not_read_are_divided_as_those_that_were() {
    let running = |switches| vec![sample(1, Activity::Running, switches)];
    let sleep = |switches, code| vec![waits(1, switches, code, None)];
    let passes = [running(1), sleep(2, Some(1)), running(3), sleep(4, None), running(5)];
    let all = stacks(&concluded(collected(&passes), &[]), "p1");
    let slept: Vec<_> = all.iter().filter(|(stack, ..)| stack.is_some()).collect();
    assert_eq!(slept, [&(Some("app:get".to_owned()), None, 40)], "{all:?}");
}

#[test]
fn who_sleeps_for_the_whole_window_is_idle_wherever_that_is() {
    let asleep = || vec![waits(1, 1, Some(1), None)];
    let passes = [asleep(), vec![], asleep()];
    assert_eq!(stacks(&concluded(collected(&passes), &[]), "p1"), [(None, None, 40)]);
}

#[test]
fn stacks_without_end_leave_the_reasons_that_they_are_part_of() {
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    let samples: Vec<_> = (0..20_000).map(|number| waits(number + 100, 1, Some(number), None)).collect();
    collector.add(PassMoment { at_ns: 1000 * MS, ..PassMoment::default() }, &[], 0);
    collector.add(PassMoment { at_ns: 1020 * MS, ..PassMoment::default() }, &samples, 0);
    let reasons = concluded(collector, &[]);
    assert!(reasons.reasons.iter().all(|reason| reason.entry.as_deref() == Some("futex")), "{:?}", reasons.reasons);
}
