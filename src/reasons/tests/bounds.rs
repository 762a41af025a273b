//! Collectors have bounds, and count what has no room.

use super::*;

#[test]
fn threads_whose_names_have_no_room_are_others_and_not_the_first_one() {
    let mut collector = ReasonCollector::new(SAMPLER, ProcessSelection::default());
    let named = |tid: u32| ThreadSample { comm: format!("n{tid}").into(), ..sample(tid, Activity::Running, 5) };
    let samples: Vec<_> = (1001..=1000 + (1 << 16) + 3).map(named).collect();
    for pass in 0..2 {
        let moment = PassMoment { at_ns: 1000 * MS + 20 * MS * pass, ..PassMoment::default() };
        collector.add(moment, &samples, 0);
    }
    let reasons = concluded(collector, &[]);
    let of = |name: &str| reasons.threads.iter().filter(|threads| &*threads.comm == name).count();
    assert_eq!(
        (of("n1001"), of("(others)"), of(&format!("n{}", 1000 + (1 << 16))), of(&format!("n{}", 1001 + (1 << 16)))),
        (1, 1, 1, 0)
    );
    assert_eq!(reasons.sampling.merged, 6, "3 threads in each pass");
}

#[test]
fn too_many_kinds_of_exited_threads_count_as_lost_samples() {
    const MOST: u32 = 1 << 14;
    let exit = (2..=MOST + 2).map(|tid| sample(1000 + tid, Activity::Running, 5));
    let of_same_name = [2 * MOST, 3 * MOST].map(|tid| ThreadSample { tid, ..sample(1001, Activity::Running, 5) });
    let pass: Vec<_> = of_same_name.into_iter().chain(exit).collect();
    let reasons = concluded(collected(&[pass, Vec::new()]), &[]);
    assert_eq!((reasons.threads.len(), reasons.sampling.lost), (1 << 14, 2));
    assert_eq!(amounts(&reasons)["p1001 Run"], (20, 2), "two threads of one kind");
}

#[test]
fn too_many_reasons_are_merged_by_class_and_counted() {
    let named = |number: u32| ThreadSample {
        object: Some(format!("/file-{number}").into()),
        ..in_call(100 + number, Activity::Blocked, 6, libc::SYS_read, 2)
    };
    let pass: Vec<_> = (0..20_000).map(named).collect();
    let reasons = concluded(collected(&[pass.clone(), pass]), &[]);
    assert_eq!(reasons.sampling.merged, 20_000 - (1 << 14));
    let merged = reasons.reasons.iter().filter(|reason| reason.object.is_none()).collect::<Vec<_>>();
    assert_eq!(merged, [&Reason { class: ReasonClass::Block, ..Reason::default() }]);
}

#[test]
fn the_addresses_of_functions_are_those_of_all_stacks() {
    let stack = ThreadSample { stack: vec![7, 8], ..in_call(1, Activity::Asleep, 5, libc::SYS_read, 7) };
    let collector = collected(&[vec![stack, in_call(2, Activity::Asleep, 5, libc::SYS_read, 9)]]);
    assert_eq!(collector.addresses().collect::<Vec<_>>(), [7, 8, 9]);
}
