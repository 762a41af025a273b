//! The names that reasons have.

use super::*;

#[test]
fn threads_that_may_not_be_looked_into_say_so_for_all_of_the_time() {
    let passes = [1, 2, 3, 4].map(|_| vec![in_call(7, Activity::Asleep, 1, libc::SYS_futex, 1)]);
    let thread = |tgid, tid| ThreadState {
        start_time_clock_ticks: Some(7),
        pcomm: "same".into(),
        comm: "same".into(),
        ..ThreadState { tgid, tid, ..ThreadState::default() }
    };
    let threads = [thread(7, 7), thread(8, 8), thread(8, 9)];
    let reasons = concluded_without(collected(&passes), &threads, &[8].into());
    let times: Vec<_> = reasons
        .times
        .iter()
        .map(|time| {
            let place = |at: u64| usize::try_from(at).unwrap();
            let threads = &reasons.threads[place(time.threads)];
            (threads.tgid, reasons.reasons[place(time.reason)].class, time.ns / MS, time.samples)
        })
        .collect();
    assert_eq!(times, [(Some(7), ReasonClass::Idle, 60, 4), (Some(8), ReasonClass::Unread, 120, 8)]);
    assert_eq!(reasons.sampling.samples, 0, "nothing was looked at in them");
}

#[test]
fn threads_have_the_names_of_the_window() {
    let thread = ThreadState {
        tid: 1,
        tgid: 1,
        pcomm: "redis-server".into(),
        comm: "bio_aof".into(),
        cgroup: Some("/redis".into()),
        start_time_clock_ticks: Some(7),
        owner: Some(Owner::Command),
        ..ThreadState::default()
    };
    let other = ThreadSample { cgroup: Some(5), ..sample(2, Activity::Running, 1) };
    let pass = vec![sample(1, Activity::Running, 5), other];
    let threads = concluded(collected(&[pass.clone(), pass]), &[thread]).threads;
    let captured = SampledThreads {
        tgid: Some(1),
        pcomm: "redis-server".into(),
        comm: "bio_aof".into(),
        cgroup: Some("/redis".into()),
        owner: Some(Owner::Command),
        ..SampledThreads::default()
    };
    let sampled = SampledThreads {
        pcomm: "p2".into(),
        comm: "t2".into(),
        cgroup: Some("/db".into()),
        ..SampledThreads::default()
    };
    assert_eq!(threads, [sampled, captured]);
}

#[test]
fn all_threads_of_an_interpreter_that_has_exited_are_of_its_script() {
    let of_python = |tid: u32, tgid: u32| {
        let names = ["python3"; 2].map(Name::from);
        let [pcomm, comm] = names;
        ThreadSample { tgid, pcomm, comm, ..sample(tid, Activity::Running, 5) }
    };
    let both: Vec<_> = [(10, 10), (11, 10), (20, 20), (21, 20)].map(|(tid, tgid)| of_python(tid, tgid)).into();
    let mut collector = collected(&[vec![], both.clone(), both, vec![]]);
    for (tgid, program) in [(10, "a.py"), (20, "b.py")] {
        collector.end(&ThreadEnd {
            tid: tgid,
            start_time_clock_ticks: 7,
            monotonic_ns: 1050 * MS,
            pcomm: "python3".into(),
            comm: "python3".into(),
            program: Some((tgid, program.into())),
            ..ThreadEnd::default()
        });
    }
    // A window has the threads of a name as one.
    let merged = |program: &str| ThreadState {
        pcomm: "python3".into(),
        comm: "python3".into(),
        program: Some(program.into()),
        ..ThreadState::default()
    };
    let reasons = concluded(collector, &[merged("a.py"), merged("b.py")]);
    let programs: Vec<_> = reasons.threads.iter().map(|threads| threads.program.as_deref().unwrap()).collect();
    assert_eq!(programs, ["a.py", "b.py"]);
    assert_eq!(reasons.times.iter().map(|time| time.samples).sum::<u64>(), 8);
}

#[test]
fn a_process_that_executed_another_program_has_the_name_that_it_has_since() {
    let named = |name: &str| ThreadState {
        tid: 1,
        tgid: 1,
        pcomm: name.into(),
        start_time_clock_ticks: Some(7),
        ..ThreadState::default()
    };
    let pass = vec![sample(1, Activity::Running, 5)];
    let reasons = concluded(collected(&[pass.clone(), pass]), &[named("next"), named("left")]);
    assert_eq!(reasons.threads.iter().map(|threads| &*threads.pcomm).collect::<Vec<_>>(), ["next"]);
}

#[test]
fn of_processes_that_exited_without_a_record_zombies_and_those_of_a_name_of_their_own_have_reasons() {
    let waits = |tid| ThreadSample {
        pcomm: if tid == 14 { "other" } else { "app" }.into(),
        tgid: if tid == 12 { 10 } else { tid },
        ..in_call(tid, Activity::Asleep, 6, libc::SYS_read, 2)
    };
    let mut collector = collected(&[vec![], [10, 11, 12, 13, 14].map(waits).into(), vec![], vec![]]);
    // Processes 11 and 14 were waited for, and 12 was another thread of process 10.
    for tid in [10, 11, 12, 14] {
        collector.end(&ThreadEnd {
            tid,
            start_time_clock_ticks: 7,
            monotonic_ns: 1050 * MS,
            pcomm: if tid == 14 { "other" } else { "app" }.into(),
            comm: "app".into(),
            ..ThreadEnd::default()
        });
    }
    let listed = |tid| ThreadState {
        tid,
        tgid: tid,
        pcomm: "app".into(),
        comm: "app".into(),
        start_time_clock_ticks: Some(7),
        ..ThreadState::default()
    };
    let (functions, stacks, unread) = (HashMap::new(), HashMap::new(), HashSet::new());
    let [mut zombie, lost, lives] = [10, 11, 13].map(listed);
    zombie.metrics.state = Some('Z');
    let reasons = collector.next_window().conclude(&Conclusion {
        threads: &[&zombie, &lost, &lives],
        has_exited: false,
        functions: &functions,
        stacks: &stacks,
        unread: &unread,
        cgroup: &|_| None,
    });
    assert_eq!(reasons.threads.iter().map(|threads| threads.tgid).collect::<Vec<_>>(), [None, Some(10), Some(13)]);
    assert_eq!(reasons.times.iter().map(|time| time.ns / MS).collect::<Vec<_>>(), [40, 40, 50]);
}

#[test]
fn what_a_process_did_before_it_executed_another_program_is_a_reason_of_the_program_that_it_left() {
    let of = |tid, names: &str, call, switches| ThreadSample {
        tgid: 1,
        pcomm: names.into(),
        comm: names.into(),
        ..in_call(tid, Activity::Asleep, switches, call, 1)
    };
    let before = || vec![of(1, "left", libc::SYS_wait4, 5), of(2, "left", libc::SYS_read, 5)];
    let named = |tid, name: &str, owner| ThreadState {
        tid,
        tgid: 1,
        pcomm: name.into(),
        comm: name.into(),
        start_time_clock_ticks: Some(7),
        owner,
        ..ThreadState::default()
    };
    // Other processes have these names.
    let mut other = named(9, "left", None);
    other.tgid = 9;
    // The record of the execve(2) is received before or after a pass that has the next program.
    for (caller, passes_before_record) in [(1, 2), (1, 3), (2, 2), (2, 3)] {
        let after = || vec![of(1, "next", libc::SYS_poll, 6)];
        let passes = [before(), vec![], after(), after()];
        let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
        for (pass, samples) in (0..).zip(&passes) {
            if pass == passes_before_record {
                collector.end(&ThreadEnd {
                    tid: caller,
                    start_time_clock_ticks: 7,
                    monotonic_ns: 1025 * MS,
                    pcomm: "left".into(),
                    comm: "left".into(),
                    executed_in: Some(1),
                    ..ThreadEnd::default()
                });
            }
            collector.add(PassMoment { at_ns: 1000 * MS + 20 * MS * pass, ..PassMoment::default() }, samples, 0);
        }
        let rows = [
            named(1, "next", None),
            other.clone(),
            named(caller, "left", Some(Owner::Command)),
            named(1, "next", None),
        ];
        let reasons = concluded(collector, &rows);
        let mut times = amounts(&reasons);
        assert_eq!(times.remove("next Sleep poll do_epoll_wait"), Some((30, 2)), "{caller} {passes_before_record}");
        let ms = |call: &str| times[&format!("left Sleep {call} do_epoll_wait")].0;
        // A record that is received in time says when the sleep ended: the next pass is later.
        assert!((20..=40).contains(&ms("wait4")), "{times:?}");
        assert!(caller == 1 || (20..=40).contains(&ms("read")), "{times:?}");
        let left = reasons.threads.iter().filter(|threads| &*threads.pcomm == "left");
        assert!(left.clone().count() > 0 && left.clone().all(|threads| threads.tgid == Some(1)));
        assert!(left.clone().all(|threads| threads.owner == Some(Owner::Command)), "{reasons:?}");
    }
}

#[test]
fn a_sleeper_that_is_frozen_or_thawed_without_a_wake_up_is_so_from_then_on() {
    let sleeps = |activity| in_call(1, activity, 5, libc::SYS_clock_nanosleep, 1);
    let [asleep, frozen] = [Activity::Asleep, Activity::Frozen].map(sleeps);
    let shown = |first: &ThreadSample, then: &ThreadSample| {
        shown(&[vec![first.clone()], vec![first.clone()], vec![then.clone()], vec![then.clone()]])
    };
    let ms = |shown: &BTreeMap<String, (u64, u64)>, class| {
        shown.iter().filter(|(name, _)| name.contains(class)).map(|(_, (ms, _))| *ms).sum::<u64>()
    };
    for both in [shown(&asleep, &frozen), shown(&frozen, &asleep)] {
        assert_eq!([ms(&both, "Sleep"), ms(&both, "Frozen")], [30, 30], "{both:?}");
    }
}
