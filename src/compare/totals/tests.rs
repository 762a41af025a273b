//! Digests and their totals.

use super::*;
use crate::compare::Grouping;
use crate::compare::{CompareOptions, Digest, ThreadTotals};
use crate::model::{CtprofSnapshot, HostContext, ThreadSpan, Threads};

fn by(axis: GroupBy) -> CompareOptions {
    CompareOptions { grouping: Grouping { axis, ..Grouping::default() }, ..CompareOptions::default() }
}

fn thread(tid: u32, comm: &str, start: u64) -> ThreadState {
    let mut thread = ThreadState { tid, tgid: 1, comm: comm.into(), ..ThreadState::default() };
    thread.start_time_clock_ticks = Some(start);
    thread.metrics.minflt = Some(u64::from(tid).into());
    thread
}

/// A snapshot 100 seconds after boot.
fn after_100_seconds() -> CtprofSnapshot {
    let host =
        HostContext { uptime_ns: Some(100_000_000_000), clock_ticks_per_second: Some(100), ..HostContext::default() };
    CtprofSnapshot { head: SnapshotHead { host: Some(host), ..SnapshotHead::default() }, ..CtprofSnapshot::default() }
}

#[test]
fn a_digest_made_in_parts_is_the_digest_of_the_whole() {
    let threads: Vec<_> = (1..=10_000).map(|tid| thread(tid, ["a", "b", "c"][tid as usize % 3], 5)).collect();
    let snapshot = CtprofSnapshot { threads, ..CtprofSnapshot::default() };
    let options = by(GroupBy::Comm);
    let digest = Digest::of_snapshot(&snapshot, &options);
    let mut whole = ThreadTotals::new(&options, &[]);
    snapshot.threads.iter().for_each(|thread| whole.count(thread));
    assert_eq!((digest.threads.by_names.len(), digest.threads.census.threads), (3, 10_000));
    for (names, members) in whole.by_names {
        let part = &digest.threads.by_names[&names];
        assert_eq!((part.threads, part.lifetimes, &part.totals), (members.threads, members.lifetimes, &members.totals));
    }
}

#[test]
fn uptime_is_the_part_of_the_time_since_boot_that_threads_have_lived() {
    let snapshot = after_100_seconds();
    let mut lifetimes = Lifetimes::default();
    assert_eq!(lifetimes.share_of_uptime(&snapshot.head), None);
    lifetimes.add(&thread(1, "a", 0));
    assert_eq!(lifetimes.share_of_uptime(&snapshot.head), Some(1.0));
    lifetimes.add(&thread(2, "b", 10_000));
    assert_eq!(lifetimes.share_of_uptime(&snapshot.head), Some(0.5));
    assert_eq!(lifetimes.share_of_uptime(&CtprofSnapshot::default().head), None);
}

#[test]
fn threads_under_sched_ext_are_blocked_for_as_long_as_taskstats_says() {
    let mut dd = thread(1, "dd", 0);
    dd.metrics.block_sum = Some(0.into());
    dd.metrics.blkio_delay_total_ns = Some(7.into());
    dd.metrics.swapin_delay_total_ns = Some(0.into());
    assert_eq!(blocked_ns(&dd), Some(0));
    dd.metrics.ext_enabled = Some(true);
    assert_eq!(blocked_ns(&dd), Some(7));
    dd.metrics.blkio_delay_total_ns = None;
    assert_eq!(blocked_ns(&dd), None);
}

/// A leader with every property that members count, alive at the end of a window.
fn leader(tid: u32) -> ThreadState {
    let mut leader = ThreadState { tgid: tid, name_complete: true, ..thread(tid, "fifteen-letters", 7) };
    leader.span = Some(ThreadSpan { alive_ns: 40, started: true, ..ThreadSpan::default() });
    leader.owner = Some(Owner::Ctprof);
    leader.read_at_ns = Some(3);
    leader.metrics.block_sum = Some(5.into());
    leader
}

/// Two leaders, a thread that is none, three exited threads as one, and work of exited threads.
fn crowd() -> Vec<ThreadState> {
    let worker = ThreadState { name_complete: false, owner: None, tgid: 1, ..leader(3) };
    let span = ThreadSpan { alive_ns: 20, zombie_ns: 0, count: 3, exited: true, started: false };
    let exited = ThreadState { span: Some(span), ..leader(4) };
    let work = ThreadState { exited_work: Some(ExitedWork::Threads), span: None, ..leader(5) };
    vec![leader(1), leader(2), worker, exited, work]
}

fn members(threads: &[ThreadState]) -> GroupTotals {
    let mut members = GroupTotals::default();
    threads.iter().for_each(|thread| members.add(thread));
    members
}

#[test]
fn members_count_living_threads_apart_from_exited_ones_and_from_exited_work() {
    let crowd = members(&crowd());
    assert_eq!(crowd.threads, 3, "alive at the end");
    assert_eq!(crowd.turnover, Turnover { started: 3, exited: 3 });
    assert_eq!((crowd.alive_ns, crowd.blocked_ns), (140, Some(20)), "without exited work");
    assert_eq!((crowd.own, crowd.whole_names), (6, 2), "two leaders, three exited threads, and exited work");
    assert_eq!((crowd.leaders, crowd.leaders_with_whole_names), (2, 2));
    assert_eq!(crowd.lifetimes, Lifetimes { threads: 3, older: 0, start_ticks: 21, read_at_ns: 9 });
    let faults = |totals: &Totals| totals.minflt.sum();
    assert_eq!(faults(&crowd.totals), Some(15));
    assert_eq!(crowd.exited_work.values().map(|totals| faults(totals)).collect::<Vec<_>>(), [Some(5)]);
    assert_eq!(crowd.totals.minflt.covered(), 3, "exited threads are not among the members");
}

#[test]
fn a_total_lacks_what_a_process_that_exited_without_a_record_did_unless_its_parent_counts_it() {
    let span = ThreadSpan { exited: true, ..ThreadSpan::default() };
    let lost = |tgid, tid| ThreadState { tgid, tid, span: Some(span), ..ThreadState::default() };
    let work = |kind| ThreadState { exited_work: Some(kind), span: None, ..leader(5) };
    let lacks = |threads: &[ThreadState]| {
        [MetricId::minflt, MetricId::voluntary_csw, MetricId::hiwater_rss_bytes, MetricId::rss_anon_bytes]
            .map(|id| members(threads).lacks_exited_work(id))
    };
    assert_eq!(lacks(&[leader(1), lost(2, 2)]), [true, true, true, false]);
    assert!(lacks(&[leader(1), lost(2, 2), work(ExitedWork::Threads)])[0], "not of its parent");
    assert!(!lacks(&[leader(1), lost(2, 2), work(ExitedWork::Children)])[0]);
    assert_eq!(lacks(&[leader(1), lost(1, 2)]), [false, true, true, false], "its process counts it");
    assert_eq!(lacks(&crowd()[..4]), [false; 4], "with a record");
    let allocated = members(&crowd()).lacks_exited_work(MetricId::allocated_bytes);
    assert!(allocated, "records have nothing of allocators");
}

#[test]
fn merged_members_are_the_members_of_all_their_threads() {
    let threads = [crowd(), vec![thread(6, "unlike", 1)], crowd()].concat();
    for cut in 0..=threads.len() {
        let (first, second) = threads.split_at(cut);
        let mut merged = members(first);
        merged.merge(&members(second));
        assert_eq!(format!("{merged:?}"), format!("{:?}", members(&threads)), "cut at {cut}");
    }
}

#[test]
fn members_are_own_only_if_all_of_them_are() {
    assert!(!members(&[]).are_own());
    assert!(members(&[leader(1), leader(2)]).are_own());
    let other = ThreadState { owner: None, ..leader(3) };
    assert!(!members(std::slice::from_ref(&other)).are_own());
    assert!(!members(&[leader(1), leader(2), other]).are_own());
    let exited = ThreadState { owner: None, ..crowd().swap_remove(3) };
    assert!(!members(&[leader(1), exited]).are_own());
}

#[test]
fn names_are_whole_if_those_that_decide_the_group_are() {
    let cut = |tid, tgid| ThreadState { tgid, name_complete: false, ..leader(tid) };
    for (threads, by_process, by_thread) in [
        (vec![], false, false),
        (vec![leader(1)], true, true),
        (vec![leader(1), cut(2, 1)], true, false),
        (vec![leader(1), cut(2, 2)], false, false),
        (vec![cut(2, 1)], false, false),
    ] {
        let members = members(&threads);
        assert_eq!(members.has_whole_names(GroupBy::Pcomm), by_process, "{} threads", threads.len());
        assert_eq!(members.has_whole_names(GroupBy::Comm), by_thread, "{} threads", threads.len());
    }
}

#[test]
fn threads_are_not_alive_for_longer_than_the_window() {
    let mut crowd = members(&crowd());
    assert_eq!(crowd.alive_within(1_000), 140);
    assert_eq!(crowd.alive_within(20), 6 * 20, "three threads and three exited ones");
    let span = ThreadSpan { alive_ns: 15, count: 0, exited: true, ..ThreadSpan::default() };
    crowd.add(&ThreadState { span: Some(span), ..ThreadState::default() });
    assert_eq!(crowd.alive_within(20), 6 * 20 + 15, "what another was in a program that it left");
}

#[test]
fn a_digest_narrowed_to_cgroups_has_the_threads_by_which_renamed_ones_are_matched() {
    let with_cgroup = |tid, comm| ThreadState { cgroup: Some("/a".into()), ..thread(tid, comm, 0) };
    let threads = vec![with_cgroup(1, "a"), with_cgroup(2, "b"), with_cgroup(3, "b")];
    let snapshot = CtprofSnapshot { threads, ..CtprofSnapshot::default() };
    let made_for = |group_by| Digest::of_snapshot(&snapshot, &by(group_by));
    let whole = made_for(GroupBy::All);
    for axis in [GroupBy::Pcomm, GroupBy::Comm, GroupBy::CommExact, GroupBy::Cgroup] {
        let (narrowed, expected) = (whole.narrowed(axis), made_for(axis));
        assert_eq!(narrowed.threads.tasks, expected.threads.tasks, "{axis:?}");
        assert_eq!(narrowed.threads.by_names.len(), expected.threads.by_names.len(), "{axis:?}");
    }
    assert_eq!(whole.narrowed(GroupBy::Cgroup).threads.tasks.len(), 2);
}

#[test]
fn without_a_clock_there_is_no_share_of_uptime() {
    let share = |uptime_ns, clock_ticks_per_second| {
        let host = HostContext { uptime_ns, clock_ticks_per_second, ..HostContext::default() };
        let snapshot = CtprofSnapshot {
            head: SnapshotHead { host: Some(host), ..SnapshotHead::default() },
            ..CtprofSnapshot::default()
        };
        let mut lifetimes = Lifetimes::default();
        lifetimes.add(&thread(1, "a", 0));
        (lifetimes.share_of_uptime(&snapshot.head), lifetimes.lived(&snapshot.head))
    };
    assert_eq!(share(Some(10), Some(100)), (Some(1.0), Some((10, 1))));
    assert_eq!([share(None, Some(100)), share(Some(10), None), share(Some(10), Some(0))], [(None, None); 3]);
    assert_eq!(share(Some(0), Some(100)).0, None);
}

#[test]
fn threads_have_lived_from_their_start_until_they_were_read() {
    let snapshot = after_100_seconds();
    let mut lifetimes = Lifetimes::default();
    assert_eq!(lifetimes.lived(&snapshot.head), None);
    for start in [2_000, 9_000] {
        lifetimes.add(&ThreadState { read_at_ns: Some(20_000_000_000), ..thread(1, "a", start) });
    }
    lifetimes.add(&ThreadState { start_time_clock_ticks: None, ..thread(2, "unknown", 0) });
    assert_eq!(lifetimes.lived(&snapshot.head), Some((130_000_000_000, 2)), "100 s and 30 s");
    let share = lifetimes.share_of_uptime(&snapshot.head).unwrap();
    assert!((share - 65.0 / 120.0).abs() < 1e-9, "{share}");
    assert_eq!(lifetimes.lived(&CtprofSnapshot::default().head), None);
    // Of a thread that started 10 s before the clock of this time namespace, procfs has 2^64 ns - 10 s.
    let before_the_clock = (-10_000_000_000_i64).cast_unsigned() / 10_000_000;
    lifetimes.add(&thread(3, "older", before_the_clock));
    assert_eq!((lifetimes.lived(&snapshot.head), lifetimes.share_of_uptime(&snapshot.head)), (None, None));
}

#[test]
fn a_thread_is_blocked_as_the_scheduler_says_and_a_kernel_thread_while_it_waits_for_io() {
    let mut thread = thread(1, "dd", 0);
    assert_eq!(blocked_ns(&thread), None);
    let ns = |ns: u64| Some(ns.into());
    let metrics = &mut thread.metrics;
    (metrics.blkio_delay_total_ns, metrics.swapin_delay_total_ns) = (ns(100), ns(20));
    (metrics.thrashing_delay_total_ns, metrics.freepages_delay_total_ns) = (ns(30), ns(4));
    metrics.compact_delay_total_ns = ns(1);
    assert_eq!(blocked_ns(&thread), Some(135), "thrashing is part of swapping in, or the reverse");
    (thread.metrics.block_sum, thread.metrics.iowait_sum) = (ns(9), ns(7));
    assert_eq!(blocked_ns(&thread), Some(9));
    thread.kernel_thread = true;
    assert_eq!(blocked_ns(&thread), Some(7));
}

#[test]
fn memory_is_summed_per_kind_with_the_number_of_processes_that_have_it() {
    let process = |tgid: u32, kinds: &[(&str, u64)]| ThreadState {
        tgid,
        pcomm: "app".into(),
        smaps_rollup_kib: Some(kinds.iter().map(|(kind, kib)| ((*kind).to_owned(), *kib)).collect()),
        ..thread(tgid, "app", 0)
    };
    let threads = [process(1, &[("Rss", 3), ("Swap", 1)]), process(2, &[("Rss", 4)]), thread(3, "bare", 0)];
    let snapshot = CtprofSnapshot { threads: threads.to_vec(), ..CtprofSnapshot::default() };
    let kinds = BTreeMap::from([("Rss".to_owned(), (7 * 1024, 2)), ("Swap".to_owned(), (1024, 1))]);
    let digest = Digest::of_snapshot(&snapshot, &CompareOptions::default());
    let mut memory = digest.threads.by_names.values().filter_map(|members| members.memory.as_deref());
    assert_eq!(memory.next(), Some(&ProcessMemory { processes: 2, kinds }));
    assert_eq!(memory.next(), None, "processes without it have none");
}

#[test]
fn totals_take_more_for_other_kinds_of_memory_and_not_for_more_processes() {
    let process = |tgid: u32, kind: &str| {
        let smaps_rollup_kib = Some(BTreeMap::from([(kind.to_owned(), 1)]));
        ThreadState { tgid, smaps_rollup_kib, ..thread(tgid, "web", 0) }
    };
    let mut totals = ThreadTotals::new(&CompareOptions::default(), &[]);
    let mut after = |process: ThreadState| {
        totals.count(&process);
        totals.bytes()
    };
    let [one, same, another] = [process(1, "Pss"), process(2, "Pss"), process(3, "Swap")].map(&mut after);
    assert!(one == same && another > same, "{one} {same} {another}");
}

#[test]
fn quotas_matter_to_threads_that_waited() {
    let cgroups = |wait: u64| {
        let mut thread = ThreadState { cgroup: Some("/limited".into()), ..thread(1, "a", 0) };
        thread.metrics.wait_time_ns = Some(wait.into());
        let mut members = GroupTotals::default();
        members.add(&thread);
        members.cgroups.len()
    };
    assert_eq!([0, 1].map(cgroups), [0, 1]);
}
