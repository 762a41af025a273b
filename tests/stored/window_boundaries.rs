//! Windows: when they begin and end, to whom work belongs, and that they can be made in parts.

use crate::stored::windows::*;
use ctprof::model::{Accounting, Threads};
use ctprof::window::{self, EarlierThreads, ExitedThread, Exits, between};
use ctprof::{CtprofSnapshot, ThreadState};
use serde_json::{Value, json};

mod moments {
    use super::*;

    /// A capture that read the host's CPU time before and after its threads.
    fn capture(second: u64, idle_ticks: [u64; 2], walk_ns: u64, threads: &[Value]) -> CtprofSnapshot {
        let time = |idle: u64| json!({"cpus": 2, "idle_ticks": idle, "iowait_ticks": 0, "steal_ticks": 0});
        let clocks = json!({"monotonic_ns": second * SECOND, "boottime_ns": second * SECOND, "walk_ns": walk_ns});
        let [before, after] = idle_ticks.map(time);
        snapshot_with(second, threads, &json!({"capture": clocks, "cpu_time": before, "cpu_time_after": after}))
    }

    /// A thread that was read so many milliseconds after the start of its capture.
    fn read_at(tid: u32, ms: u64, run_ns: u64) -> Value {
        thread(tid, tid, 1, &json!({"read_at_ns": ms * MS, "run_time_ns": run_ns}))
    }

    #[test]
    fn a_window_lasts_between_the_times_at_which_busy_threads_were_read_on_average() {
        let ends = |walk: [u64; 2]| {
            let a = capture(10, [100, 200], walk[0], &[read_at(1, 100, 0), read_at(2, 500, 0)]);
            let later = [read_at(1, 300, 3 * SECOND), read_at(2, 900, SECOND)];
            let info = between(a, capture(15, [500, 600], walk[1], &later)).unwrap().head.window.unwrap();
            (info.duration_ns / MS, info.cpu.unwrap().busy_ns / (10 * MS))
        };
        // 3 s of run time were read at 100 and 300 ms, 1 s at 500 and 900 ms: on average at 200 and 450 ms.
        assert_eq!(ends([SECOND, SECOND]), (5250, 2 * 525 - (545 - 120)));
        let whole = (5000, 2 * 500 - 400);
        let without = [ends([0, SECOND]), ends([SECOND, 0]), ends([0, 0])];
        assert_eq!(without, [whole; 3], "the CPU time at these times is unknown");
    }

    #[test]
    fn a_thread_that_slept_in_an_earlier_step_does_not_say_when_this_one_began() {
        let a = capture(10, [100, 200], 10 * MS, &[read_at(1, 900, 0)]);
        let window = between(a, capture(15, [500, 600], 10 * MS, &[read_at(1, 5, SECOND)])).unwrap();
        assert_eq!(window.head.window.unwrap().duration_ns, 4995 * MS);
    }

    #[test]
    fn idle_threads_say_when_a_window_was_if_all_are_idle() {
        let side = |second, idle, read: [u64; 2]| {
            capture(second, [idle, idle + 100], SECOND, &[read_at(1, read[0], 7), read_at(2, read[1], 7)])
        };
        let window = between(side(10, 100, [100, 300]), side(15, 500, [300, 700])).unwrap();
        assert_eq!(window.head.window.unwrap().duration_ns, 5300 * MS);
    }

    #[test]
    fn a_window_without_the_second_cpu_time_of_a_capture_lasts_from_start_to_start() {
        let side = |second, idle, read| capture(second, [idle, idle + 100], SECOND, &[read_at(1, read, 0)]);
        for lacking in ["cpu_time", "cpu_time_after"] {
            for side_without in 0..2 {
                let mut sides = [side(10, 100, 100), side(15, 500, 300)];
                let side = &mut sides[side_without];
                *(if lacking == "cpu_time" { &mut side.head.cpu_time } else { &mut side.head.cpu_time_after }) = None;
                let [a, b] = sides;
                assert_eq!(
                    between(a, b).unwrap().head.window.unwrap().duration_ns,
                    5 * SECOND,
                    "{lacking} {side_without}"
                );
            }
        }
    }

    #[test]
    fn a_record_is_of_the_window_if_its_thread_started_at_its_start_or_later_but_before_its_end() {
        let (a, b) = sides(&[], &[]);
        let records: Vec<_> = (9..17).map(|second| exit(second, second, 1, (second.into(), 17), &ran(1))).collect();
        let window = with_records(a, b, &records);
        let started: Vec<_> = rows(&window).iter().map(|row| row["tid"].as_u64().unwrap()).collect();
        assert_eq!(started, [10, 11, 12, 13, 14]);
        assert_eq!(window.head.window.unwrap().cpu, None);
    }
}

mod parts_of_the_host {
    use super::*;

    /// The window of a shell, whose children ran for a second, and of the host.
    fn window(fields: &Value) -> CtprofSnapshot {
        let side = |second: u64, children: u64| {
            let shell = process(5, 1, 0, 1, &json!({"cutime_clock_ticks": children}));
            let host = json!({"boot_id": "b", "uptime_ns": second * SECOND, "clock_ticks_per_second": 100});
            let time = json!({"cpus": 2, "idle_ticks": 0, "iowait_ticks": 0, "steal_ticks": 0});
            let parts = json!({"host": with(host, &fields["host"]), "cpu_time": time, "capture": fields["capture"]});
            snapshot_with(second, &[shell], &parts)
        };
        between(side(10, 0), side(15, 100)).unwrap()
    }

    #[test]
    fn a_window_of_a_container_or_of_some_processes_has_a_part_of_the_cpu_time() {
        let of_namespace = |is_initial: bool| json!({"host": {"pid_namespace_initial": is_initial}});
        let of_selected = json!({"host": {}, "capture": {"options": {"pids": [5]}}});
        let is_partial = |fields: &Value| window(fields).head.window.unwrap().cpu.unwrap().partial;
        assert_eq!([of_namespace(true), of_namespace(false)].map(|fields| is_partial(&fields)), [false, true]);
        assert!(is_partial(&of_selected));
        let children = |fields: &Value| exited_run(&window(fields));
        assert_eq!(children(&json!({"host": {}})), [(5, "children".to_owned(), 1000)]);
        assert_eq!(children(&of_selected), [], "what they had done before is unknown");
    }

    #[test]
    fn a_window_without_an_impossible_delay_says_nothing_of_them() {
        assert!(window(&json!({"host": {}})).head.parse_summary.is_none());
    }
}

mod identity {
    use super::*;

    #[test]
    fn a_thread_that_is_gone_keeps_all_of_its_names() {
        let names = json!({"pcomm": "a", "comm": "b", "cgroup": "/c", "kernel_thread": true, "party": "command"});
        let exited = with(thread(1, 2, 3, &json!({})), &names);
        let window = between(snapshot(10, std::slice::from_ref(&exited)), snapshot(15, &[])).unwrap();
        let row = row(&window, 2);
        for (field, value) in exited.as_object().unwrap() {
            assert_eq!(&row[field], value, "{field}");
        }
        assert_eq!(row["exited"], true);
    }

    #[test]
    fn exited_work_has_the_names_of_its_process() {
        let side = |second, ticks: u64| {
            let names = json!({"pcomm": "make", "comm": "make", "cgroup": "/c"});
            snapshot(second, &[with(process(5, 1, 0, 1, &json!({"cutime_clock_ticks": ticks})), &names)])
        };
        let work = exited(&between(side(10, 0), side(15, 300)).unwrap(), 5, "children");
        let names = ["pcomm", "comm", "cgroup"].map(|field| work[field].clone());
        assert_eq!(names, [json!("make"), json!("make"), json!("/c")]);
        assert_eq!((&work["tid"], &work["start_time_clock_ticks"]), (&json!(0), &Value::Null));
    }

    /// The threads of the baseline, as a comparison of totals has them.
    #[test]
    fn the_baseline_of_a_comparison_of_totals_has_the_values_of_its_capture() {
        let values = |run: u64| {
            json!({"run_time_ns": run, "nice": -3, "policy": "SCHED_FIFO", "cpu_affinity": [0, 2],
            "cgroup": "/c", "kernel_thread": true, "party": "ctprof", "read_at_ns": run, "name_complete": true,
            "smaps_rollup_kib": {"Rss": run}, "program": "run.py"})
        };
        let threads = |run: u64| [thread(1, 1, 2, &values(run)), thread(1, 3, 4, &values(run + 1))];
        let (mut a, mut b) = (snapshot(10, &threads(40)), snapshot(15, &threads(90)));
        let (before, after) = (std::mem::take(&mut a.threads), std::mem::take(&mut b.threads));
        let mut join = window::join(
            &a.head,
            EarlierThreads::of_threads(before.clone()),
            &b.head,
            &Vec::new(),
            window::JoinedValues::Totals,
        )
        .unwrap();
        after.iter().cloned().for_each(|thread| join.add(thread));
        let ends = join.finish(&b.head, &Exits::default());
        assert_eq!((ends.before, ends.threads), (before, after));
    }
}

mod owners {
    use super::*;

    #[test]
    fn only_children_of_a_recorder_with_a_command_are_of_the_command() {
        let own = |second, ticks: u64| {
            let counters = json!({"utime_clock_ticks": ticks, "cutime_clock_ticks": ticks});
            let own = with(process(9, 1, 0, 4, &counters), &json!({"party": "ctprof"}));
            snapshot(second, &[process(5, 1, 0, 1, &counters), own])
        };
        let owner = |window: &CtprofSnapshot, pid, kind| exited(window, pid, kind)["party"].clone();
        let owners = |window: &CtprofSnapshot| {
            [(5, "threads"), (5, "children"), (9, "threads"), (9, "children")]
                .map(|(pid, kind)| owner(window, pid, kind))
        };
        let (ctprof, command) = (json!("ctprof"), json!("command"));
        let recorded = record(own(10, 0), own(15, 300), Exits::default());
        assert_eq!(owners(&recorded), [Value::Null, Value::Null, ctprof.clone(), command]);
        let window = between(own(10, 0), own(15, 300)).unwrap();
        assert_eq!(owners(&window), [Value::Null, Value::Null, ctprof.clone(), ctprof]);
    }

    #[test]
    fn more_cpu_time_of_children_than_the_cpus_had_is_from_before_the_window() {
        let children = |ticks: u64| {
            let side = |second, ticks: u64| {
                let time = json!({"cpus": 2, "idle_ticks": 0, "iowait_ticks": 0, "steal_ticks": 0});
                let shell = process(5, 1, 0, 1, &json!({"cutime_clock_ticks": ticks}));
                snapshot_with(second, &[shell], &json!({"cpu_time": time}))
            };
            exited(&between(side(10, 0), side(15, ticks)).unwrap(), 5, "children")["utime_clock_ticks"].clone()
        };
        assert_eq!([children(1000), children(1001)], [json!(1000), Value::Null], "5 s of 2 CPUs");
    }
}

mod parts {
    use super::*;

    fn host(fields: &Value) -> Value {
        let time = |ns: u64| json!({"cpus": 4, "idle_ticks": ns / (10 * MS), "iowait_ticks": 0, "steal_ticks": 0, "started": ns / SECOND, "own_ns": ns / 100});
        let second = fields["second"].as_u64().unwrap();
        let clocks = json!({"monotonic_ns": second * SECOND, "boottime_ns": second * SECOND, "walk_ns": SECOND});
        json!({"capture": clocks, "cpu_time": time(second * SECOND), "cpu_time_after": time((second + 1) * SECOND)})
    }

    /// Processes with two threads each: busy, of the recorder, with counters that went backwards, started in the window,
    /// and started before it but not in its earlier capture.
    fn capture(second: u64) -> CtprofSnapshot {
        let is_later = second > 10;
        let mut threads = Vec::new();
        for tgid in 10..22_u32 {
            let start_second = [1, 1, 1, 12, 9][tgid as usize % 5];
            let is_listed = is_later || start_second < 9;
            for tid in [tgid * 10, tgid * 10 + 1].into_iter().filter(|_| is_listed) {
                let done = second * u64::from(tid);
                let faults = if tgid % 5 == 2 { 1_000_000 - done } else { done };
                let owner = if tgid % 5 == 1 { json!("ctprof") } else { Value::Null };
                let ticks = second * 20;
                let counters =
                    json!({"ppid": 1, "utime_clock_ticks": ticks, "stime_clock_ticks": 0, "cutime_clock_ticks": ticks});
                let leader = if tid == tgid * 10 { json!({"process": counters}) } else { json!({}) };
                let read_ms = u64::from(tid) * if is_later { 2 } else { 1 };
                let values = json!({"run_time_ns": done * MS / 5, "minflt": faults, "party": owner,
                                    "read_at_ns": read_ms * MS});
                threads.push(with(thread(tgid * 10, tid, start_second, &values), &leader));
            }
        }
        snapshot_with(second, &threads, &host(&json!({"second": second})))
    }

    /// The window made of a part before `cut` and one after it.
    fn window_cut_at(cut: usize, records: &[ExitedThread]) -> (Vec<ThreadState>, window::Joined<Vec<ThreadState>>) {
        let (mut a, mut b) = (capture(10), capture(15));
        let earlier = EarlierThreads::of_threads(std::mem::take(&mut a.threads));
        let mut all = std::mem::take(&mut b.threads);
        let mut join = window::join(&a.head, earlier, &b.head, &Vec::new(), window::JoinedValues::Increases).unwrap();
        let mut part = join.another();
        let rest = all.split_off(cut);
        all.into_iter().for_each(|thread| join.add(thread));
        rest.into_iter().for_each(|thread| part.add(thread));
        join.append(part);
        let each = |add: &mut dyn FnMut(ExitedThread)| records.iter().cloned().for_each(add);
        let mut ends = join.finish(&b.head, &Exits { each: Some(&each), ..Exits::default() });
        let mut threads = std::mem::take(&mut ends.threads);
        threads.sort_by_key(|thread| (thread.id(), thread.exited_work));
        (threads, ends)
    }

    #[test]
    fn wherever_a_window_is_cut_its_parts_are_the_same_window() {
        let records = [2, 3, 4].map(|pid| exit(pid, pid, 1, (12, 13), &ran(u64::from(pid))));
        let threads = capture(15).threads;
        let (whole, ends) = window_cut_at(threads.len(), &records);
        let Accounting { explained_ns, started_seen, .. } = ends.window.cpu.unwrap();
        assert_eq!(started_seen, 3 + 4, "three with records, and the threads of two processes");
        assert_eq!((ends.window.missed, ends.window.backwards.get("minflt")), (4, Some(&4)));
        let run =
            |thread: &ThreadState| thread.metrics.run_time_ns.filter(|_| thread.owner.is_none()).map_or(0, u64::from);
        // The host's own CPU time of the capturing process, in proportion between its values.
        let own = explained_ns - whole.iter().map(run).sum::<u64>();
        assert!((40 * MS..60 * MS).contains(&own), "{own}");
        for cut in 0..threads.len() {
            let (parts, in_parts) = window_cut_at(cut, &records);
            assert_eq!((&parts, &in_parts.window), (&whole, &ends.window), "cut at {cut}");
        }
    }
}
