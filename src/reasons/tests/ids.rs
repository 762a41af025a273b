//! Ids of threads and processes are used again.

use super::*;

#[test]
fn an_id_that_is_used_again_is_another_thread() {
    let again = ThreadSample {
        start_time_clock_ticks: 9,
        pcomm: "new".into(),
        ..in_call(1, Activity::Asleep, 6, libc::SYS_epoll_wait, 1)
    };
    let old = in_call(1, Activity::Asleep, 6, libc::SYS_epoll_wait, 1);
    let passes = [vec![old], vec![again.clone()], vec![again]];
    let row = "Sleep epoll_wait do_epoll_wait";
    assert_eq!(shown(&passes), map([(&format!("p1 {row}"), (10, 1)), (&format!("new {row}"), (30, 2))]));
}

#[test]
fn a_later_process_with_the_id_of_a_selected_one_has_no_reasons() {
    let selection = ProcessSelection { pids: vec![1], found_at_ns: 100 * MS };
    let mut collector = ReasonCollector::new(SAMPLER, selection);
    let later = |tid| {
        let of_process = ThreadSample { tgid: 1, process_started: Some(102), ..sample(tid, Activity::Running, 0) };
        ThreadSample { start_time_clock_ticks: 103, comm: "later".into(), ..of_process }
    };
    let first = in_call(1, Activity::Asleep, 5, libc::SYS_read, 2);
    for (at, samples) in [(1000, vec![first]), (1020, vec![later(1), later(2)]), (1040, vec![later(2)])] {
        collector.add(PassMoment { at_ns: at * MS, ..PassMoment::default() }, &samples, 0);
    }
    let reasons = concluded(collector.next_window(), &[]);
    assert_eq!(amounts(&reasons), map([("p1 Sleep read submit_bio_wait", (10, 1))]), "it slept until then");
}
