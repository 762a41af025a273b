//! Windows in which processes exit that had worked before, or that started and exited while it was open.

use crate::stored::windows::*;
use ctprof::CtprofSnapshot;
use ctprof::model::ExitedThread;
use ctprof::window::{Exits, FoldedExits, between};
use serde_json::{Value, json};

fn shell(pid: u32, ppid: u32, children_ms: u64) -> Value {
    process(pid, 1, 0, ppid, &json!({"cutime_clock_ticks": children_ms / 10, "cstime_clock_ticks": 0}))
}

mod before_the_window {
    use super::*;

    /// What the kernel's counters of shell 5 say of children that ran so long before the window and in it.
    fn children(count: u32, before_us: u64, in_window_us: u64, are_recorded: bool) -> Vec<(u64, String, u64)> {
        let child = |pid: u32| {
            let counters = json!({"utime_clock_ticks": before_us / 10_000, "stime_clock_ticks": 0, "ppid": 5});
            thread(pid, pid, 2, &json!({"run_time_ns": before_us * 1000, "process": counters}))
        };
        let counted_ms = u64::from(count) * (before_us + in_window_us) / 1000;
        let earlier: Vec<_> = std::iter::once(shell(5, 1, 0)).chain((10..10 + count).map(child)).collect();
        let (a, b) = sides(&earlier, &[shell(5, 1, counted_ms)]);
        let ran = json!({"run_time_ns": (before_us + in_window_us) * 1000});
        let records: Vec<_> = (10..10 + count).map(|pid| exit(pid, pid, 5, (2, 12), &ran)).collect();
        exited_run(&if are_recorded { with_records(a, b, &records) } else { between(a, b).unwrap() })
    }

    #[test]
    fn run_time_of_children_shorter_than_a_tick_is_not_that_of_the_window() {
        for are_recorded in [false, true] {
            assert_eq!(children(100, 9_000, 60, are_recorded), [], "100 of 9 ms, recorded: {are_recorded}");
            assert_eq!(children(500, 2_000, 0, are_recorded), [], "500 of 2 ms, recorded: {are_recorded}");
        }
    }

    #[test]
    fn children_that_work_in_the_window_keep_it() {
        assert_eq!(children(10, 9_000, 50_000, false), [(5, "children".to_owned(), 500)]);
        assert_eq!(children(10, 9_000, 50_000, true), []);
    }

    /// What children of shell 5 ran and read, which it counts with a second and a gigabyte at the end.
    fn counted(earlier: &[Value]) -> [Value; 2] {
        let counters = json!({"cutime_clock_ticks": 100, "cstime_clock_ticks": 0, "read_bytes": 1_000_000_000});
        let (a, b) = sides(earlier, &[process(5, 1, 0, 1, &counters)]);
        let row = exited(&between(a, b).unwrap(), 5, "children");
        ["run_time_ns", "read_bytes"].map(|metric| row[metric].clone())
    }

    #[test]
    fn bytes_that_could_not_be_read_before_the_window_are_unknown_in_it() {
        let readable = |pid, ppid, bytes| process(pid, 1, 0, ppid, &json!({"read_bytes": bytes}));
        assert_eq!(counted(&[readable(5, 1, 400_000_000)]), [json!(SECOND), json!(600_000_000)]);
        assert_eq!(counted(&[shell(5, 1, 0)]), [json!(SECOND), Value::Null], "of the process itself");
        let exits = |child| counted(&[readable(5, 1, 0), child]);
        assert_eq!(exits(readable(10, 5, 400_000_000)), [json!(SECOND), json!(600_000_000)]);
        assert_eq!(exits(shell(10, 5, 0)), [json!(SECOND), Value::Null], "of a child of another user that has exited");
    }

    /// What is left of the children of shell 5, of which three had worked before and are gone, if it counts so much more.
    fn left(child: &Value, before_ms: u64, more_ms: u64) -> Vec<(u64, String, u64)> {
        let exited = (10..13).map(|pid| thread(pid, pid, 2, child));
        let earlier: Vec<_> = std::iter::once(shell(5, 1, 0)).chain(exited).collect();
        let (a, b) = sides(&earlier, &[shell(5, 1, 3 * before_ms + more_ms)]);
        exited_run(&between(a, b).unwrap())
    }

    #[test]
    fn two_ticks_and_two_for_each_rounded_time_of_an_exited_process_are_no_work() {
        let child =
            |children: u64| json!({"process": {"ppid": 5, "utime_clock_ticks": 50, "cutime_clock_ticks": children}});
        let exact = |child: Value| with(child, &json!({"run_time_ns": 500 * MS}));
        let least = |child: &Value, before_ms: u64, ms: u64| {
            assert_eq!(left(child, before_ms, ms - 10), [], "{child}");
            assert_eq!(left(child, before_ms, ms), [(5, "children".to_owned(), ms)], "{child}");
        };
        least(&exact(child(0)), 500, 20);
        least(&child(0), 500, 80);
        least(&exact(child(10)), 600, 80);
        least(&child(10), 600, 140);
    }

    #[test]
    fn what_an_adopted_process_did_before_the_window_is_taken_from_the_one_that_adopted_it() {
        let orphan = process(20, 2, 600 * MS, 5, &json!({}));
        let (a, b) = sides(&[shell(4, 1, 0), shell(5, 1, 0), orphan], &[shell(4, 1, 600), shell(5, 1, 0)]);
        let record = exit(20, 20, 4, (2, 12), &json!({"run_time_ns": 600 * MS}));
        assert_eq!(exited_run(&with_records(a, b, &[record])), []);
    }

    /// Init counts what an orphan had done, and the shell what the orphan's parent had: in whichever order their ids are.
    #[test]
    fn the_work_of_an_orphan_before_the_window_is_not_of_it_whatever_its_id() {
        for orphan in [15, 25] {
            let exited = |pid: u32, ppid, ran_ms: u64| process(pid, 2, ran_ms * MS, ppid, &json!({}));
            let earlier = [shell(1, 0, 0), shell(5, 1, 0), exited(20, 5, 1000), exited(orphan, 20, 990)];
            let (a, b) = sides(&earlier, &[shell(1, 0, 990), shell(5, 1, 1000)]);
            assert_eq!(exited_run(&between(a, b).unwrap()), [], "its parent is 20, it is {orphan}");
        }
    }

    /// Of a series, a process that sleeps or is a zombie has the parent that it had when it was read, which exited before the window.
    #[test]
    fn the_work_of_an_orphan_whose_parent_exited_earlier_is_not_of_the_window() {
        let zombie = process(15, 2, 600 * MS, 20, &json!({}));
        let side = |[init, make, reaper]: [u64; 3]| [shell(1, 0, init), shell(5, 1, make), shell(6, 1, reaper)];
        for counted in [[600, 0, 0], [0, 0, 600]] {
            let (a, b) = sides(&[side([0; 3]).to_vec(), vec![zombie.clone()]].concat(), &side(counted));
            assert_eq!(exited_run(&between(a, b).unwrap()), [], "counted by init, or by a process that adopts orphans");
        }
    }

    #[test]
    fn what_a_process_had_done_before_the_window_is_not_taken_from_one_that_has_started_since() {
        let exited = process(15, 2, 600 * MS, 20, &json!({}));
        let command = process(30, 11, 0, 5, &json!({"cutime_clock_ticks": 90, "cstime_clock_ticks": 0}));
        let (a, b) = sides(&[shell(1, 0, 0), shell(5, 1, 0), exited], &[shell(1, 0, 0), shell(5, 1, 0), command]);
        assert_eq!(exited_run(&between(a, b).unwrap()), [(30, "children".to_owned(), 900)]);
    }

    /// The parent 20 waits for 25 and exits, and 5 waits for it, before the earlier capture reads 5.
    #[test]
    fn what_was_counted_while_the_earlier_capture_was_taken_is_taken_from_no_other_process() {
        let mut parent = process(20, 1, 0, 5, &json!({}));
        parent.as_object_mut().unwrap().remove("process");
        let exited = process(25, 2, 600 * MS, 20, &json!({}));
        let (a, b) = sides(&[shell(1, 0, 0), shell(6, 1, 0), parent, exited], &[shell(1, 0, 0), shell(6, 1, 900)]);
        assert_eq!(exited_run(&between(a, b).unwrap()), [(6, "children".to_owned(), 900)]);
    }

    #[test]
    fn the_work_of_an_orphan_whose_parent_is_a_zombie_is_not_of_the_window() {
        let parent = |state| with(process(20, 2, 0, 5, &json!({})), &json!({"state": state}));
        let side = |reaper, state| vec![shell(4, 1, reaper), shell(5, 4, 0), parent(state)];
        let (a, b) = sides(&[side(0, "S"), vec![process(25, 2, 600 * MS, 20, &json!({}))]].concat(), &side(600, "Z"));
        assert_eq!(exited_run(&between(a, b).unwrap()), []);
    }

    /// 20 is a child of the shell, which is below a process that adopts orphans, and exits before its child 25.
    #[test]
    fn an_orphan_does_not_hide_what_the_children_of_a_living_process_did() {
        let exited = |pid: u32, ppid, ran_ms: u64| process(pid, 2, ran_ms * MS, ppid, &json!({}));
        let side =
            |[init, reaper, shell_5]: [u64; 3]| vec![shell(1, 0, init), shell(4, 1, reaper), shell(5, 4, shell_5)];
        for counted in [[1000, 0, 1500], [0, 1000, 1500], [0, 0, 2500]] {
            let orphans = vec![exited(20, 5, 0), exited(25, 20, 1000), exited(30, 5, 0)];
            let (a, b) = sides(&[side([0; 3]), orphans].concat(), &side(counted));
            let window = with_records(a, b, &[exit(30, 30, 5, (2, 12), &ran(1500))]);
            assert_eq!(exited_run(&window), [], "{counted:?}");
        }
    }

    #[test]
    fn ticks_of_threads_that_were_there_are_those_of_the_window() {
        let leader = process(7, 1, 0, 1, &json!({}));
        let threads = (100..200).map(|tid| thread(7, tid, 2, &json!({"run_time_ns": 9 * MS, "utime_clock_ticks": 0})));
        let (a, b) = sides(&std::iter::once(leader.clone()).chain(threads).collect::<Vec<_>>(), &[leader]);
        let record = |tid| {
            let values = json!({"run_time_ns": 9_060_000, "utime_clock_ticks": 0, "stime_clock_ticks": 0});
            let exited = exit(7, tid, 1, (2, 12), &with(values, &json!({"comm": "worker"})));
            ExitedThread { cpu_time_ns: Some([9_000_000, 60_000]), ..exited }
        };
        let window = with_records(a, b, &(100..200).map(record).collect::<Vec<_>>());
        let row = rows(&window).into_iter().find(|row| row["comm"] == "worker").unwrap();
        assert_eq!((&row["run_time_ns"], &row["count"]), (&json!(6_000_000), &json!(100)));
        assert_eq!((&row["utime_clock_ticks"], &row["stime_clock_ticks"]), (&json!(0), &json!(0)), "6 ms are no tick");
    }
}

/// Thread 2 of process 1 calls execve(2): it continues as thread 1, with its own counters.
mod executed {
    use super::*;

    fn leader(run_ms: u64, csw: u64, all_ms: u64) -> Value {
        let counters = json!({"utime_clock_ticks": all_ms / 10, "stime_clock_ticks": 0});
        thread(1, 1, 1, &json!({"run_time_ns": run_ms * MS, "voluntary_csw": csw, "process": counters}))
    }

    fn other(tid: u32, run_ms: u64, csw: u64) -> Value {
        thread(1, tid, 2, &json!({"run_time_ns": run_ms * MS, "voluntary_csw": csw}))
    }

    /// Run time in milliseconds and context switches of the process's only thread.
    fn increase(earlier: &[Value], later: Value, records: &[ExitedThread]) -> [Value; 2] {
        let (a, b) = sides(earlier, &[later]);
        let window = with_records(a, b, records);
        let is_leader = |row: &Value| row["tid"] == 1 && row["exited"].is_null() && row["exited_work"].is_null();
        let [row] = rows(&window).into_iter().filter(is_leader).collect::<Vec<_>>().try_into().unwrap();
        [json!(row["run_time_ns"].as_u64().map(|ns| ns / MS)), row["voluntary_csw"].clone()]
    }

    #[test]
    fn the_thread_whose_counters_fit_is_continued() {
        let threads = [leader(30, 7, 930), other(2, 900, 50)];
        assert_eq!(
            increase(&threads, leader(950, 60, 980), &[]),
            [json!(50), json!(10)],
            "its work before is not added"
        );
        assert_eq!(increase(&threads, leader(45, 9, 990), &[]), [json!(15), json!(2)], "the first one itself");
        let two = [leader(30, 7, 1830), other(2, 900, 50), other(3, 900, 50)];
        assert_eq!(increase(&two, leader(950, 60, 1880), &[]), [Value::Null, Value::Null], "one of two: unknown");
    }

    #[test]
    fn a_lone_thread_keeps_what_it_did_however_late_it_was_read() {
        assert_eq!(increase(&[leader(30, 7, 30)], leader(530, 9, 130), &[]), [json!(500), json!(2)]);
    }

    #[test]
    fn a_first_thread_that_did_no_more_than_its_process_is_continued_itself() {
        let threads = [leader(30, 7, 930), other(2, 900, 50)];
        let within_two_ticks = increase(&threads, leader(90, 9, 970), &[]);
        assert_eq!(within_two_ticks, [json!(60), json!(2)], "ticks are rounded");
        assert_eq!(
            increase(&threads, leader(91, 9, 970), &[]),
            [Value::Null, Value::Null],
            "it is no other one either"
        );
    }

    #[test]
    fn a_process_that_executed_a_program_has_not_exited() {
        let threads = |run_ms, csw, all_ms: u64| {
            let counters = json!({"ppid": 5, "utime_clock_ticks": all_ms / 10, "stime_clock_ticks": 0});
            thread(6, 6, 2, &json!({"run_time_ns": run_ms * MS, "voluntary_csw": csw, "process": counters}))
        };
        let worker = thread(6, 7, 2, &json!({"run_time_ns": 900 * MS, "voluntary_csw": 50}));
        let (a, b) = sides(&[shell(5, 1, 0), threads(30, 7, 930), worker], &[shell(5, 1, 1000), threads(950, 60, 980)]);
        let of_others = [(5, "children".to_owned(), 1000)];
        assert_eq!(exited_run(&between(a, b).unwrap()), of_others, "the shell did not wait for it");
    }

    #[test]
    fn the_thread_that_the_kernel_names_is_continued_however_little_it_had_done() {
        let of_first = |replaced_by| {
            let record = exit(1, 1, 1, (1, 12), &json!({"run_time_ns": 40 * MS, "voluntary_csw": 8, "comm": "first"}));
            ExitedThread { replaced_by: Some(replaced_by), ..record }
        };
        let threads = [leader(30, 7, 50), other(2, 20, 3)];
        let later = || leader(95, 13, 145);
        assert_eq!(increase(&threads, later(), &[of_first(2)]), [json!(75), json!(10)]);
        assert_eq!(increase(&threads, later(), &[of_first(9)]), [json!(95), json!(13)], "it started in the window");
        let (a, b) = sides(&threads, &[later()]);
        let window = with_records(a, b, &[of_first(2)]);
        let first = rows(&window).into_iter().find(|row| row["comm"] == "first").unwrap();
        assert_eq!((&first["run_time_ns"], &first["exited"]), (&json!(10 * MS), &json!(true)));
    }

    #[test]
    fn a_thread_that_executed_a_program_and_exited_has_its_work_in_the_window() {
        let record = |run_ms: u64, name: &str, replaced_by| {
            let exited = exit(1, 1, 1, (1, 12), &json!({"run_time_ns": run_ms * MS, "comm": name}));
            ExitedThread { replaced_by, ..exited }
        };
        let runs = |executed: u32| {
            let (a, b) = sides(&[leader(30, 7, 50), other(2, 20, 3)], &[]);
            let window = with_records(a, b, &[record(40, "first", Some(executed)), record(95, "second", None)]);
            ["first", "second"].map(|name| {
                let row = rows(&window).into_iter().find(|row| row["comm"] == name).unwrap();
                row["run_time_ns"].as_u64().unwrap() / MS
            })
        };
        assert_eq!((runs(2), runs(9)), ([10, 75], [10, 95]));
    }

    /// The record of the thread with the first ids, until another one continued with them at that second.
    fn replaced_at(second: u64, run_ms: u64, name: &str, by: Option<u32>) -> ExitedThread {
        let exited = exit(1, 1, 1, (1, second), &json!({"run_time_ns": run_ms * MS, "comm": name}));
        ExitedThread { replaced_by: by, ..exited }
    }

    #[test]
    fn threads_that_execute_programs_one_after_the_other_have_their_own_work_each() {
        let runs = |second: u32, third: u32| {
            let (a, b) = sides(&[leader(30, 7, 55), other(2, 20, 3), other(3, 5, 2)], &[leader(50, 7, 200)]);
            let records = [replaced_at(12, 40, "first", Some(second)), replaced_at(13, 95, "second", Some(third))];
            let window = with_records(a, b, &records);
            let rows = rows(&window);
            let run = |row: Option<&Value>| row.unwrap()["run_time_ns"].as_u64().unwrap() / MS;
            let [first, second] = ["first", "second"].map(|name| run(rows.iter().find(|row| row["comm"] == name)));
            [first, second, run(rows.iter().find(|row| row["exited"].is_null()))]
        };
        assert_eq!(runs(2, 3), [10, 75, 45]);
        assert_eq!(
            (runs(9, 3), runs(2, 9), runs(8, 9)),
            ([10, 95, 45], [10, 75, 50], [10, 95, 50]),
            "others started since"
        );
    }

    #[test]
    fn a_thread_whose_ids_change_while_it_is_captured_is_the_one_that_was_read() {
        let of_listed = |second, read_ms: u64, threads: &[Value]| {
            let mut threads = threads.to_vec();
            threads[0]["read_at_ns"] = json!(read_ms * MS);
            let (a, b) = sides(&[leader(30, 7, 50), other(2, 20, 3)], &threads);
            let window = with_records(a, b, &[replaced_at(second, 40, "first", Some(2))]);
            let all = rows(&window).into_iter().map(|row| row["run_time_ns"].as_u64().unwrap() / MS);
            all.collect::<Vec<_>>()
        };
        assert_eq!(of_listed(15, 10, &[leader(95, 9, 145)]), [75, 10], "read after its ids had changed");
        assert_eq!(of_listed(16, 10, &[leader(38, 9, 145), other(2, 95, 9)]), [8, 75], "read before");
        assert_eq!(of_listed(15, 10, &[leader(38, 9, 145), other(2, 95, 9)]), [8, 75], "a zombie, until they change");
    }
}

/// Process 1 executes other programs: until a second, it is what the record of that second says.
mod left {
    use super::*;

    fn executed(tid: u32, (start, second): (u64, u64), run_ms: u64, name: &str) -> ExitedThread {
        let values = json!({"run_time_ns": run_ms * MS, "comm": name, "pcomm": name});
        let record = exit(1, tid, 9, (start, second), &values);
        ExitedThread { executed: true, cpu_time_ns: Some([run_ms * MS, 0]), ..record }
    }

    fn listed(tid: u32, start: u64, run_ms: u64) -> Value {
        thread(
            1,
            tid,
            start,
            &json!({"run_time_ns": run_ms * MS, "read_at_ns": 10 * MS, "comm": "last", "pcomm": "last"}),
        )
    }

    /// Name, run time in milliseconds, number of threads, and milliseconds alive of the rows.
    fn programs(window: &CtprofSnapshot) -> Vec<(String, u64, u64, u64)> {
        let number = |row: &Value, key: &str, missing| row[key].as_u64().unwrap_or(missing);
        let row = |row: &Value| {
            let [run, alive] = ["run_time_ns", "alive_ns"].map(|key| number(row, key, 0) / MS);
            (row["comm"].as_str().unwrap().to_owned(), run, number(row, "count", 1), alive)
        };
        let mut all: Vec<_> = rows(window).iter().map(row).collect();
        all.sort_by_key(|(name, ..)| name.clone());
        all
    }

    fn named(rows: &[(&str, u64, u64, u64)]) -> Vec<(String, u64, u64, u64)> {
        rows.iter().map(|(name, run, count, alive)| ((*name).to_owned(), *run, *count, *alive)).collect()
    }

    #[test]
    fn each_program_of_a_process_has_what_was_done_in_it() {
        let (a, b) = sides(&[listed(1, 1, 30)], &[listed(1, 1, 95)]);
        let records = [executed(1, (1, 12), 50, "first"), executed(1, (1, 13), 60, "next")];
        let expected = named(&[("first", 20, 0, 2000), ("last", 35, 1, 2000), ("next", 10, 0, 1000)]);
        let window = with_records(a, b, &records);
        let alive_after = |(name, run, count, alive): (String, u64, u64, u64)| (name, run, count, alive / 1000 * 1000);
        assert_eq!(programs(&window).into_iter().map(alive_after).collect::<Vec<_>>(), expected);
        assert_eq!(window.head.window.unwrap().missed, 0);
    }

    #[test]
    fn a_process_that_exits_later_has_only_what_it_did_in_its_last_program() {
        let exited = exit(1, 1, 9, (1, 14), &json!({"run_time_ns": 95 * MS, "comm": "last"}));
        let started = exit(1, 1, 9, (11, 14), &json!({"run_time_ns": 95 * MS, "comm": "last"}));
        let programs = |earlier: &[Value], start, exit: &ExitedThread| {
            let (a, b) = sides(earlier, &[]);
            programs(&with_records(a, b, &[executed(1, (start, 12), 50, "first"), exit.clone()]))
        };
        let expected = named(&[("first", 20, 0, 2000), ("last", 45, 1, 2000)]);
        assert_eq!(programs(&[listed(1, 1, 30)], 1, &exited), expected);
        let expected = named(&[("first", 50, 0, 1000), ("last", 45, 1, 2000)]);
        assert_eq!(programs(&[], 11, &started), expected, "it started in the window");
        let mut folded = FoldedExits::default();
        folded.add_after(vec![executed(1, (11, 12), 50, "first")], started);
        let (a, b) = sides(&[], &[]);
        assert_eq!(self::programs(&record(a, b, Exits { folded, ..Exits::default() })), expected, "and was folded");
    }

    #[test]
    fn another_thread_that_executes_a_program_has_done_what_it_did_itself() {
        let first = exit(1, 1, 9, (1, 12), &json!({"run_time_ns": 40 * MS, "comm": "gone"}));
        let first = ExitedThread { replaced_by: Some(2), ..first };
        let run = |earlier: &[Value]| {
            let (a, b) = sides(earlier, &[listed(1, 1, 95)]);
            let rows = programs(&with_records(a, b, &[executed(2, (1, 12), 50, "caller"), first.clone()]));
            rows.into_iter().map(|(name, run, ..)| (name, run)).collect::<Vec<_>>()
        };
        let named = |caller| [("caller", caller), ("gone", 10), ("last", 45)].map(|(name, run)| (name.to_owned(), run));
        assert_eq!(run(&[listed(1, 1, 30), listed(2, 3, 20)]), named(30));
        assert_eq!(run(&[listed(1, 1, 30)]), named(50), "it started in the window");
        let (a, b) = sides(&[listed(1, 1, 30), listed(2, 3, 20)], &[listed(1, 1, 95)]);
        let records = [executed(2, (1, 12), 50, "caller"), first.clone(), executed(1, (1, 13), 60, "next")];
        let rows = programs(&with_records(a, b, &records));
        let runs: Vec<_> = rows.iter().map(|(name, run, ..)| (&**name, *run)).collect();
        assert_eq!(runs, [("caller", 30), ("gone", 10), ("last", 35), ("next", 10)], "and then another program");
    }

    #[test]
    fn a_program_that_a_process_left_after_it_was_read_is_the_last_one() {
        let run = |second: u64, start| {
            let (a, b) = sides(&[listed(1, 1, 30)], &[listed(1, 1, 95)]);
            let rows = programs(&with_records(a, b, &[executed(1, (start, second), 95, "first")]));
            rows.into_iter().map(|(name, run, ..)| (name, run)).collect::<Vec<_>>()
        };
        assert_eq!(run(16, 1), [("last".to_owned(), 65)]);
        assert_eq!(run(14, 2), [("last".to_owned(), 65)], "another process had the id");
    }
}

mod listed {
    use super::*;

    #[test]
    fn a_thread_that_waits_for_its_parent_to_reap_it_has_exited() {
        let in_state = |tid: u32, start, state: &str| thread(tid, tid, start, &json!({"state": state}));
        let earlier = [in_state(1, 2, "S"), in_state(2, 2, "Z"), in_state(3, 2, "S")];
        let later = [in_state(1, 2, "Z"), in_state(2, 2, "Z"), in_state(3, 2, "R"), in_state(4, 12, "Z")];
        let (a, b) = sides(&earlier, &later);
        let window = between(a, b).unwrap();
        let span = |tid| [&row(&window, tid)["started"], &row(&window, tid)["exited"]].map(|flag| flag == true);
        assert_eq!([1, 2, 3, 4].map(span), [[false, true], [false, false], [false, false], [true, true]]);
    }
}

mod folded {
    use ctprof::model::ExitRecords;

    use super::*;

    /// A tree of processes that start and exit in the window under shell 5: 20 with a thread 21, its children 30 and 31,
    /// which is freed after it, and the child 40 of 30; an orphan, for which init waits, and a thread of the shell.
    fn tree() -> Vec<ExitedThread> {
        let in_order = [(40, 40, 30), (30, 30, 20), (20, 21, 5), (20, 20, 5), (31, 31, 20), (50, 50, 1), (5, 6, 1)];
        let exit_of = |(tgid, tid, ppid): (u32, u32, u32)| {
            let values = with(ran(100), &json!({"cgroup": format!("/{tid}")}));
            let exited = exit(tgid, tid, ppid, (11, 14), &values);
            ExitedThread { cpu_time_ns: Some([100 * MS, 0]), ..exited }
        };
        in_order.map(exit_of).into()
    }

    #[test]
    fn exits_that_are_folded_while_they_arrive_are_the_same_window() {
        let leader = |threads_ms: u64, children_ms: u64| {
            let counters = json!({"utime_clock_ticks": threads_ms / 10, "cutime_clock_ticks": children_ms / 10});
            process(5, 1, 0, 1, &counters)
        };
        let captures = || sides(&[shell(1, 0, 0), leader(0, 0)], &[shell(1, 0, 100), leader(400, 800)]);
        let (a, b) = captures();
        let whole = with_records(a, b, &tree());
        assert_eq!(exited_run(&whole), []);
        let mut folded = FoldedExits::default();
        tree().into_iter().for_each(|exit| folded.add(exit));
        let (a, b) = captures();
        let window = record(a, b, Exits { summary: Some(ExitRecords::default()), folded, ..Exits::default() });
        assert_eq!(rows(&window), rows(&whole));
    }

    #[test]
    fn descendants_of_the_recorder_that_were_folded_are_of_the_command() {
        let recorder = || process(9, 1, 0, 4, &json!({}));
        let mut folded = FoldedExits::default();
        for (pid, ppid) in [(12, 11), (11, 10), (10, 9), (13, 5)] {
            folded.add(exit(pid, pid, ppid, (11, 14), &ran(100)));
        }
        let (a, b) = sides(&[recorder(), shell(5, 1, 0)], &[recorder(), shell(5, 1, 100)]);
        let window = record(a, b, Exits { folded, ..Exits::default() });
        let owner = |name: &str| rows(&window).into_iter().find(|row| row["comm"] == name).unwrap()["party"].clone();
        assert_eq!(["t10", "t11", "t12"].map(owner), [json!("command"), json!("command"), json!("command")]);
        assert_eq!(owner("t13"), Value::Null);
    }

    #[test]
    fn records_that_are_kept_belong_to_the_command_of_folded_ancestors() {
        let recorder = || process(9, 1, 0, 4, &json!({}));
        let mut folded = FoldedExits::default();
        folded.add(exit(11, 11, 10, (11, 14), &ran(100)));
        // The kernel freed a child, and a thread, later than the process.
        let kept = [
            exit(12, 12, 11, (11, 14), &ran(100)),
            exit(11, 15, 10, (11, 14), &ran(100)),
            exit(10, 10, 9, (11, 14), &ran(100)),
        ];
        let each = |found: &mut dyn FnMut(ExitedThread)| kept.iter().cloned().for_each(found);
        let (a, b) = sides(&[recorder()], &[recorder()]);
        let window = record(a, b, Exits { folded, each: Some(&each), ..Exits::default() });
        let owners: Vec<_> =
            rows(&window).into_iter().filter(|row| row["party"] != "ctprof").map(|row| row["party"].clone()).collect();
        assert_eq!(owners, [json!("command"), json!("command"), json!("command"), json!("command")]);
    }

    #[test]
    fn folded_exits_count_as_started_with_their_impossible_delays() {
        let mut folded = FoldedExits::default();
        let delayed = |ms: u64| with(ran(10), &json!({"blkio_delay_count": 1, "blkio_delay_total_ns": ms * MS}));
        for (pid, ms) in [(6, 900), (7, 45_000_000), (8, 45_000_000)] {
            folded.add(exit(pid, pid, 5, (11, 12), &delayed(ms)));
        }
        let (mut a, mut b) = sides(&[], &[]);
        for side in [&mut a, &mut b] {
            side.head.cpu_time =
                serde_json::from_value(json!({"cpus": 2, "idle_ticks": 0, "iowait_ticks": 0, "steal_ticks": 0}))
                    .unwrap();
        }
        let window = record(a, b, Exits { folded, ..Exits::default() });
        assert_eq!(window.head.window.unwrap().cpu.unwrap().started_seen, 3);
        assert_eq!(window.head.parse_summary.unwrap().impossible_delays, 2);
    }

    #[test]
    fn a_storm_of_processes_takes_the_memory_of_its_names() {
        let mut folded = FoldedExits::default();
        for name in 0..60_000 {
            folded.add(exit(6, 6, 5, (11, 12), &json!({"comm": name.to_string()})));
        }
        folded.add(exit(6, 6, 5, (11, 12), &json!({"comm": "7"})));
        let rows: Vec<_> = folded.rows(|_| None).map(|(.., row)| row.state).collect();
        let others = rows.iter().find(|row| &*row.comm == "(others)").unwrap();
        assert_eq!((rows.len(), others.span.unwrap().count), (50_001, 10_000), "of more names, all are one");
        let counted_before = rows.iter().find(|row| &*row.comm == "7").unwrap();
        assert_eq!(counted_before.span.unwrap().count, 2, "names of before are kept");
    }
}

/// What captures say about the processes of records.
mod known_processes {
    use super::*;

    fn script(pid: u32, program: Option<&str>, owner: Option<&str>) -> Value {
        with(process(pid, 1, 0, 1, &json!({})), &json!({"pcomm": "python3", "program": program, "party": owner}))
    }

    fn said(window: &CtprofSnapshot, tid: u32) -> [Value; 3] {
        let row = row(window, tid);
        ["program", "party", "parent"].map(|key| row[key].clone())
    }

    #[test]
    fn an_exited_thread_has_the_program_and_the_owner_of_its_process() {
        let early = [script(20, Some("early.py"), None), script(30, Some("gone.py"), Some("command"))];
        let (a, b) = sides(&early, &[script(20, Some("late.py"), Some("ctprof"))]);
        let of_living = exit(20, 21, 1, (11, 12), &ran(10));
        let of_gone = [exit(30, 30, 1, (1, 13), &ran(10)), exit(30, 31, 1, (11, 12), &ran(10))];
        let [leader, worker] = of_gone;
        let window = with_records(a, b, &[of_living, worker, leader]);
        assert_eq!(said(&window, 21), [json!("late.py"), json!("ctprof"), json!(null)], "as the later capture says");
        assert_eq!(said(&window, 31), [json!("gone.py"), json!("command"), json!(null)], "as the earlier one says");
        assert_eq!(said(&window, 30), [json!("gone.py"), json!("command"), json!(null)]);
    }

    #[test]
    fn only_processes_of_which_no_capture_has_anything_have_a_starter() {
        let script = |pid| script(pid, None, None);
        let started = with(script(60), &json!({"start_time_clock_ticks": 1200}));
        let (a, b) = sides(&[script(20), script(30)], &[script(20), started]);
        let records = [exit(30, 31, 20, (11, 12), &ran(10)), exit(60, 61, 20, (12, 13), &ran(10))];
        let window = with_records(a, b, &records);
        assert_eq!([31, 61].map(|tid| said(&window, tid)[2].clone()), [json!(null), json!(null)]);
    }

    #[test]
    fn a_process_of_the_window_has_its_nearest_living_ancestor_as_its_starter() {
        let living = [script(9, None, Some("ctprof")), script(20, Some("build.py"), None)];
        let (a, b) = sides(&living, &living);
        let records = [
            exit(41, 41, 40, (12, 13), &ran(10)),
            exit(40, 40, 20, (11, 14), &ran(10)),
            exit(50, 50, 9, (11, 12), &ran(10)),
        ];
        let window = with_records(a, b, &records);
        assert_eq!(said(&window, 40)[2], "p20 build.py");
        assert_eq!(said(&window, 41)[2], "p20 build.py", "its parent has exited");
        assert_eq!(said(&window, 50)[2], json!(null), "the recorder starts nothing by itself");
    }
}
