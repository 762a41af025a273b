//! Windows between two snapshots: which threads they have, and whose work the values are.

use crate::stored::windows::*;
use ctprof::model::Threads;
use ctprof::window::{EarlierThreads, Exits, NoWindow, between};
use ctprof::{CtprofSnapshot, ThreadState};
use serde_json::{Value, json};

mod threads {
    use super::*;

    #[test]
    fn a_value_is_an_increase_a_new_peak_or_the_later_state_according_to_its_type() {
        let side = |run: u64, wait_max: u64, slice_max: u64, nice: i32, policy: &str| {
            let values = json!({"run_time_ns": run, "wait_max": wait_max, "slice_max": slice_max, "nice": nice,
                                "policy": policy});
            thread(1, 1, 1, &values)
        };
        let window = between(
            snapshot(10, &[side(300, 70, 5, 0, "SCHED_OTHER")]),
            snapshot(15, &[side(1000, 90, 5, -5, "SCHED_FIFO")]),
        );
        let window = window.unwrap();
        let row = row(&window, 1);
        let values = ["run_time_ns", "wait_max", "slice_max", "nice", "policy"].map(|name| row[name].clone());
        assert_eq!(values, [json!(700), json!(90), Value::Null, json!(-5), json!("SCHED_FIFO")]);
        assert_eq!((window.head.format_version, window.head.window.unwrap().duration_ns), (Some(2), 5 * SECOND));
    }

    #[test]
    fn a_value_that_one_capture_lacks_is_absent_and_not_the_total() {
        let a = snapshot(10, &[thread(1, 1, 1, &json!({"minflt": 3}))]);
        let b = snapshot(15, &[thread(1, 1, 1, &json!({"rchar": 5000}))]);
        let row = row(&between(a, b).unwrap(), 1);
        assert_eq!((&row["minflt"], &row["rchar"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_thread_is_alive_in_the_part_of_the_window_after_its_start() {
        let a = snapshot(10, &[thread(1, 1, 1, &json!({"read_at_ns": 200 * MS}))]);
        let b = snapshot(
            15,
            &[
                thread(1, 1, 1, &json!({"read_at_ns": 500 * MS})),
                thread(2, 2, 12, &json!({"read_at_ns": 600 * MS, "minflt": 9})),
                thread(3, 3, 9, &json!({"minflt": 9})),
            ],
        );
        let window = between(a, b).unwrap();
        assert_eq!(row(&window, 1)["alive_ns"], 5300 * MS);
        let started = row(&window, 2);
        assert_eq!(
            (&started["alive_ns"], &started["started"], &started["minflt"]),
            (&json!(3600 * MS), &json!(true), &json!(9))
        );
        // Thread 3 is older than the window, but was not captured at its start: its counters are of any time.
        assert_eq!((rows_of(&window, 3).len(), window.head.window.unwrap().missed), (0, 1));
    }

    #[test]
    fn a_thread_that_exited_is_counted_and_has_no_values() {
        let a = snapshot(10, &[thread(1, 1, 1, &json!({})), thread(1, 2, 2, &json!({"minflt": 7, "cgroup": "/a"}))]);
        let window = between(a, snapshot(15, &[thread(1, 1, 1, &json!({}))])).unwrap();
        let exited = row(&window, 2);
        assert_eq!((&exited["exited"], &exited["cgroup"]), (&json!(true), &json!("/a")));
        assert_eq!((&exited["minflt"], &exited["started"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_thread_whose_cgroup_the_kernel_no_longer_shows_is_where_it_was_before_it_exited() {
        let process = |cgroups: &Value, exited_work: u64| {
            let state = json!({"process": {"utime_clock_ticks": exited_work, "stime_clock_ticks": 0}});
            with(with(thread(1, 1, 1, &state), cgroups), &json!({"run_time_ns": 0}))
        };
        let a = snapshot(10, &[process(&json!({"cgroup": "/job", "cpu_cgroup": "/limited"}), 0)]);
        let window = between(a, snapshot(15, &[process(&json!({"state": "Z"}), 50)])).unwrap();
        let thread = window.threads.iter().find(|thread| thread.exited_work.is_none()).unwrap();
        let cgroups = [&thread.cgroup, &thread.cpu_cgroup].map(|path| path.as_deref());
        assert_eq!(cgroups, [Some("/job"), Some("/limited")]);
        let exited_work = window.threads.iter().find(|thread| thread.exited_work.is_some()).unwrap();
        assert_eq!(exited_work.cgroup.as_deref(), Some("/job"));
    }

    #[test]
    fn a_process_whose_cgroup_was_never_shown_is_where_its_parent_was_when_it_started() {
        let parent = with(thread(1, 1, 1, &json!({})), &json!({"cgroup": "/job"}));
        let child = |ppid| with(process(2, 12, MS, ppid, &json!({})), &json!({"state": "Z"}));
        let cgroup = |ppid| {
            let later = snapshot(15, &[parent.clone(), child(ppid)]);
            row(&between(snapshot(10, std::slice::from_ref(&parent)), later).unwrap(), 2)["cgroup"].clone()
        };
        assert_eq!([1, 9].map(cgroup), [json!("/job"), Value::Null], "of a parent that is not known, none");
    }

    #[test]
    fn a_reused_id_is_an_exit_and_a_start() {
        let a = snapshot(10, &[thread(7, 7, 1, &json!({"minflt": 100}))]);
        let b = snapshot(15, &[thread(7, 7, 12, &json!({"minflt": 3}))]);
        let window = between(a, b).unwrap();
        let [new, old] = rows_of(&window, 7).try_into().unwrap();
        assert_eq!((&new["minflt"], &new["started"], &new["exited"]), (&json!(3), &json!(true), &Value::Null));
        assert_eq!((&old["minflt"], &old["exited"]), (&Value::Null, &json!(true)));
    }

    #[test]
    fn a_counter_that_went_backwards_is_absent_and_counted_by_metric() {
        let side = |second, run: u64| {
            let values = json!({"run_time_ns": run, "minflt": second});
            snapshot(second, &[thread(1, 1, 1, &values), thread(2, 2, 1, &values)])
        };
        let window = between(side(10, 500), side(15, 400)).unwrap();
        assert_eq!((&row(&window, 1)["run_time_ns"], &row(&window, 1)["minflt"]), (&Value::Null, &json!(5)));
        assert_eq!(json!(window.head.window.unwrap().backwards), json!({"run_time_ns": 2}));
    }

    #[test]
    fn a_thread_whose_start_is_unknown_has_not_exited() {
        let without_start =
            |tid: u32| json!({"tgid": tid, "tid": tid, "start_time_clock_ticks": null, "minflt": 10 * tid});
        let with_start = |tid, start| thread(tid, tid, start, &json!({"minflt": 64}));
        let a = snapshot(10, &[without_start(1), with_start(2, 1), without_start(4), without_start(5)]);
        let later = with(without_start(1), &json!({"minflt": 14}));
        let b = snapshot(15, &[later, without_start(2), without_start(3), with_start(4, 1), with_start(5, 12)]);
        let window = between(a, b).unwrap();
        let faults = [1, 2, 4].map(|tid| (row(&window, tid)["minflt"].as_u64(), row(&window, tid)["exited"].as_bool()));
        assert_eq!(faults, [(Some(4), None), (None, None), (Some(24), None)]);
        assert_eq!(rows_of(&window, 5).len(), 2, "what started in the window is another thread");
        let info = window.head.window.unwrap();
        assert_eq!((info.unread, info.missed), (1, 1), "2 can be the one that was there, and 3 cannot");
    }

    #[test]
    fn a_thread_that_the_second_capture_could_not_read_has_no_values_and_has_not_exited() {
        let ran = |tid, run: u64| thread(7, tid, 1, &json!({"run_time_ns": run, "minflt": 9}));
        let earlier = || snapshot(10, &[ran(7, 5), ran(8, 5), ran(9, 5)]);
        for (unread, exited) in
            [(json!({"7": []}), vec![]), (json!({"7": [7, 8]}), vec![9]), (json!({}), vec![7, 8, 9])]
        {
            let later = snapshot_with(15, &[], &json!({"unread_threads": unread}));
            let window = between(earlier(), later).unwrap();
            let is_exited = |tid: &u32| row(&window, *tid)["exited"].as_bool() == Some(true);
            assert_eq!([7, 8, 9].into_iter().filter(is_exited).collect::<Vec<_>>(), exited, "{unread}");
            assert!(window.threads.iter().all(|thread| thread.metrics.run_time_ns.is_none()), "{unread}");
            assert_eq!(window.head.window.unwrap().unread, 3 - exited.len() as u64);
        }
    }

    #[test]
    fn the_later_names_count() {
        let side = |second, name: &str, cgroup: &str, faults: u64| {
            let fields = json!({"comm": name, "pcomm": name, "cgroup": cgroup, "minflt": faults});
            snapshot(second, &[thread(1, 1, 1, &fields)])
        };
        let row = row(&between(side(10, "sh", "/a", 1), side(15, "make", "/b", 4)).unwrap(), 1);
        assert_eq!((&row["comm"], &row["cgroup"], &row["minflt"]), (&json!("make"), &json!("/b"), &json!(3)));
    }

    #[test]
    fn only_two_captures_of_one_boot_in_order_are_a_window() {
        let other = |fields: Value| {
            let host = with(json!({"boot_id": "b", "uptime_ns": 15 * SECOND}), &fields);
            snapshot_with(15, &[], &json!({"host": host}))
        };
        let no_window = |a: CtprofSnapshot, b: CtprofSnapshot| between(a, b).unwrap_err();
        let early = || snapshot(10, &[]);
        assert_eq!(no_window(early(), other(json!({"boot_id": "c"}))), NoWindow::DifferentBoots);
        assert_eq!(no_window(early(), other(json!({"boot_id": null}))), NoWindow::UnknownBoot);
        assert_eq!(no_window(early(), other(json!({"uptime_ns": null}))), NoWindow::UnknownBoot);
        assert_eq!(no_window(other(json!({})), early()), NoWindow::NotLater);
        let window = || between(early(), snapshot(15, &[])).unwrap();
        assert_eq!(no_window(early(), window()), NoWindow::IsWindow);
        assert_eq!(no_window(window(), snapshot(20, &[])), NoWindow::IsWindow);
    }
}

mod exited_work {
    use super::*;

    /// A process with a living thread and counters of the whole process.
    fn pool(run_ns: u64, all_ticks: u64, counters: &Value) -> Value {
        let all = with(json!({"ppid": 1, "utime_clock_ticks": all_ticks, "stime_clock_ticks": 0}), counters);
        thread(5, 5, 1, &json!({"run_time_ns": run_ns, "minflt": 0, "rchar": 0, "process": all}))
    }

    #[test]
    fn what_a_process_counts_beyond_its_living_threads_is_of_exited_threads() {
        let a = snapshot(10, &[pool(50 * MS, 40, &json!({"minflt": 1000, "rchar": 10}))]);
        let b = snapshot(15, &[pool(150 * MS, 440, &json!({"minflt": 5000, "rchar": 90}))]);
        let window = between(a, b).unwrap();
        assert_eq!(exited_run(&window), [(5, "threads".to_owned(), 3900)]);
        let work = exited(&window, 5, "threads");
        assert_eq!((&work["minflt"], &work["rchar"], &work["pcomm"]), (&json!(4000), &json!(80), &json!("p5")));
        assert_eq!(work["wait_time_ns"], Value::Null, "processes do not count it");
        assert!(window.head.window.unwrap().process_counters);
    }

    #[test]
    fn differences_within_the_precision_of_ticks_and_of_the_time_between_reads_are_no_exited_work() {
        let window = |later_ticks, later_faults: u64| {
            let side = |run, ticks, faults: u64, all: u64| {
                with(pool(run, ticks, &json!({"minflt": all})), &json!({"minflt": faults}))
            };
            let a = snapshot(10, &[side(0, 0, 0, 0)]);
            between(a, snapshot(15, &[side(1000 * MS, later_ticks, 10_000, later_faults)])).unwrap()
        };
        assert!(exited(&window(101, 10_099), 5, "threads").is_null());
        assert_eq!(exited(&window(101, 10_100), 5, "threads")["minflt"], 100);
        assert_eq!(exited_run(&window(102, 10_099)), [(5, "threads".to_owned(), 20)]);
    }

    #[test]
    fn work_of_children_is_that_of_the_process_that_waited_for_them() {
        let shell = |cutime, read: u64, second| {
            let counters = json!({"cutime_clock_ticks": cutime, "cminflt": 10 * cutime, "read_bytes": read});
            snapshot(second, &[process(5, 1, 0, 1, &counters)])
        };
        let window = between(shell(100, 1000, 10), shell(510, 9000, 15)).unwrap();
        assert_eq!(exited_run(&window), [(5, "children".to_owned(), 4100)]);
        let work = exited(&window, 5, "children");
        // The kernel adds the I/O of children to that of the process: nothing else tells whose it is.
        assert_eq!((&work["minflt"], &work["read_bytes"]), (&json!(4100), &json!(8000)));
        assert!(exited(&window, 5, "threads").is_null());
    }

    #[test]
    fn what_a_child_did_before_the_window_is_no_work_of_the_window() {
        // The child ran 2 s, and its own children 1 s, before the window; 0.5 s in it.
        let child = process(6, 2, 2 * SECOND, 5, &json!({"cutime_clock_ticks": 100}));
        let parent = |cutime: u64| process(5, 1, 0, 1, &json!({"cutime_clock_ticks": cutime}));
        let window = between(snapshot(10, &[parent(40), child]), snapshot(15, &[parent(390)])).unwrap();
        assert_eq!(exited_run(&window), [(5, "children".to_owned(), 500)]);
    }

    #[test]
    fn what_an_orphan_did_before_the_window_is_taken_from_init() {
        let init = |cutime: u64| process(1, 0, 0, 0, &json!({"cutime_clock_ticks": cutime}));
        let shell = |cutime: u64| process(4, 0, 0, 1, &json!({"cutime_clock_ticks": cutime}));
        let parent = || process(5, 1, 0, 4, &json!({}));
        let orphan = || process(6, 2, 2 * SECOND, 5, &json!({}));
        // Both exit. The parent's end makes the child an orphan, which init waits for.
        let a = snapshot(10, &[init(0), shell(0), parent(), orphan()]);
        let window = between(a.clone(), snapshot(15, &[init(210), shell(0)])).unwrap();
        assert_eq!(exited_run(&window), [(1, "children".to_owned(), 100)]);
        // Or the parent waited for it, and the shell for the parent.
        let window = between(a, snapshot(15, &[init(0), shell(210)])).unwrap();
        assert_eq!(exited_run(&window), [(4, "children".to_owned(), 100)]);
    }

    #[test]
    fn all_counters_of_a_process_that_started_are_of_the_window() {
        let new = process(9, 12, 100 * MS, 1, &json!({"utime_clock_ticks": 60, "cutime_clock_ticks": 70}));
        let window = between(snapshot(10, &[process(1, 0, 0, 0, &json!({}))]), snapshot(15, &[new])).unwrap();
        assert_eq!(row(&window, 9)["process"], Value::Null, "a window has no totals");
        assert_eq!(exited_run(&window), [(9, "threads".to_owned(), 500), (9, "children".to_owned(), 700)]);
    }

    #[test]
    fn a_process_without_counters_has_no_exited_work_and_other_processes_have() {
        let side = |second, ticks: u64| {
            let counted = process(5, 1, 0, 1, &json!({"cutime_clock_ticks": ticks}));
            snapshot(second, &[counted, thread(6, 6, 1, &json!({"run_time_ns": ticks}))])
        };
        let window = between(side(10, 0), side(15, 200)).unwrap();
        assert_eq!(exited_run(&window), [(5, "children".to_owned(), 2000)]);
    }

    #[test]
    fn exited_work_is_unknown_if_a_snapshot_has_no_counters_of_processes() {
        let old = |second| snapshot(second, &[thread(5, 5, 1, &json!({}))]);
        let new = |second| snapshot(second, &[process(5, 1, 0, 1, &json!({"cutime_clock_ticks": second * 100}))]);
        for (a, b) in [(old(10), old(15)), (new(10), old(15)), (old(10), new(15))] {
            let window = between(a, b).unwrap();
            assert_eq!((window.head.window.as_ref().unwrap().process_counters, exited_run(&window).len()), (false, 0));
        }
    }

    #[test]
    fn a_reused_process_id_does_not_inherit_the_counters_of_the_process_before() {
        let a = snapshot(10, &[process(5, 1, 0, 1, &json!({"cutime_clock_ticks": 500}))]);
        let b = snapshot(15, &[process(5, 12, 0, 1, &json!({"cutime_clock_ticks": 600}))]);
        assert_eq!(exited_run(&between(a, b).unwrap()), [(5, "children".to_owned(), 6000)]);
    }
}

mod exit_records {
    use super::*;

    fn run_of(window: &CtprofSnapshot) -> u64 {
        rows(window).iter().filter_map(|row| row["run_time_ns"].as_u64()).sum::<u64>() / MS
    }

    #[test]
    fn a_process_may_have_the_largest_counters() {
        let leader = |ticks: u64| process(5, 1, 0, 1, &json!({"utime_clock_ticks": ticks}));
        let (a, b) = sides(&[leader(0)], &[leader(u64::MAX)]);
        assert_eq!(rows_of(&ctprof::window::between(a, b).unwrap(), 5).len(), 1);
    }

    #[test]
    fn with_records_only_they_say_what_exited_whatever_processes_count() {
        let pool = |ticks: u64| process(5, 1, 0, 1, &json!({"utime_clock_ticks": ticks, "cutime_clock_ticks": ticks}));
        let (a, b) = sides(&[pool(0)], &[pool(400)]);
        // The record of process 6, the child of 5 and the parent of 7, is lost.
        let records = [exit(5, 51, 1, (11, 12), &ran(3000)), exit(7, 7, 6, (11, 12), &ran(2000))];
        let window = with_records(a, b, &records);
        assert_eq!(exited_run(&window), []);
        assert_eq!(run_of(&window), 5000);
        let row = row(&window, 51);
        assert_eq!((&row["pcomm"], &row["comm"]), (&json!("p5"), &json!("t51")));
        assert_eq!((&row["started"], &row["exited"], &row["alive_ns"]), (&json!(true), &json!(true), &json!(SECOND)));
    }

    #[test]
    fn only_the_work_in_the_window_counts_of_a_thread_that_was_alive_at_its_start() {
        let shell = |ticks: u64| process(5, 1, 0, 1, &json!({"cutime_clock_ticks": ticks}));
        let child = process(6, 2, 2 * SECOND, 5, &json!({}));
        let (a, b) = sides(&[shell(0), child], &[shell(250)]);
        let window = with_records(a, b, &[exit(6, 6, 5, (2, 12), &ran(2500))]);
        assert_eq!((exited_run(&window).len(), run_of(&window)), (0, 500));
        let row = row(&window, 6);
        assert_eq!(
            (&row["started"], &row["exited"], &row["run_time_ns"]),
            (&Value::Null, &json!(true), &json!(500 * MS))
        );
    }

    #[test]
    fn a_thread_that_is_still_listed_is_not_added_again() {
        let (a, b) = sides(
            &[process(5, 1, SECOND, 1, &json!({}))],
            &[process(5, 1, 2 * SECOND, 1, &json!({})), process(6, 12, SECOND, 1, &json!({}))],
        );
        let records = [exit(5, 5, 1, (1, 15), &ran(2100)), exit(6, 6, 1, (12, 15), &ran(1100))];
        let window = with_records(a, b, &records);
        assert_eq!((run_of(&window), rows(&window).len()), (2000, 2));
    }

    #[test]
    fn a_delay_that_is_longer_than_an_exited_thread_lived_is_absent_and_counted() {
        let (a, b) = sides(&[], &[]);
        let blocked = |ms: u64| with(ran(1), &json!({"blkio_delay_count": 1, "blkio_delay_total_ns": ms * MS}));
        // `kernel.task_delayacct` was 0 when the wait of 7 began, and 1 when it ended.
        let records = [exit(6, 6, 1, (11, 12), &blocked(900)), exit(7, 7, 1, (11, 12), &blocked(45_000_000))];
        let window = with_records(a, b, &records);
        assert_eq!(row(&window, 6)["blkio_delay_total_ns"], json!(900 * MS));
        let row = row(&window, 7);
        assert_eq!((&row["blkio_delay_total_ns"], &row["blkio_delay_count"]), (&Value::Null, &json!(1)));
        assert_eq!(window.head.parse_summary.unwrap().impossible_delays, 1);
    }

    #[test]
    fn an_exit_under_a_reused_id_has_nothing_of_the_process_before_or_after() {
        let own = with(process(9, 1, 0, 1, &json!({})), &json!({"party": "ctprof"}));
        let other = |start: u64| with(process(30, start, 0, 1, &json!({})), &json!({"cgroup": "/other"}));
        let (a, b) = sides(&[own.clone(), other(2)], &[own, other(14)]);
        // Process 9 ran 20, which ran 30 and 31 in turn.
        let records = [
            exit(30, 30, 1, (2, 11), &ran(1)),
            exit(30, 30, 20, (12, 13), &ran(1)),
            exit(30, 301, 20, (12, 13), &ran(1)),
            exit(31, 31, 30, (12, 13), &ran(1)),
            exit(20, 20, 9, (11, 13), &ran(1)),
        ];
        let window = with_records(a, b, &records);
        let command = json!("command");
        let described = |row: &Value| (row["party"].clone(), row["cgroup"].clone());
        let exits: Vec<_> = rows_of(&window, 30).iter().filter(|row| row["exited"] == true).map(described).collect();
        assert_eq!(exits, [(command.clone(), Value::Null), (Value::Null, json!("/other"))]);
        for tid in [301, 31, 20] {
            assert_eq!(described(&row(&window, tid)), (command.clone(), Value::Null), "{tid}");
        }
    }

    #[test]
    fn records_are_of_the_thread_with_their_start_time() {
        let listed = process(6, 14, SECOND, 1, &json!({}));
        let (a, b) =
            sides(&[process(5, 2, 2 * SECOND, 1, &json!({})), process(6, 2, SECOND, 1, &json!({}))], &[listed]);
        let records = [
            exit(5, 5, 1, (11, 12), &ran(100)),
            exit(5, 5, 1, (2, 11), &ran(2300)),
            exit(6, 6, 1, (2, 13), &ran(1200)),
            exit(6, 6, 1, (14, 16), &ran(1100)),
            exit(7, 7, 1, (9, 11), &ran(5000)),
        ];
        let window = with_records(a, b, &records);
        let run = |tid| {
            let runs = rows_of(&window, tid).into_iter().map(|row| row["run_time_ns"].as_u64().unwrap() / MS);
            let mut runs: Vec<_> = runs.collect();
            runs.sort_unstable();
            runs
        };
        assert_eq!([run(5), run(6), run(7)], [vec![100, 300], vec![200, 1000], vec![]]);
        let alive: Vec<_> = rows_of(&window, 5).iter().map(|row| row["alive_ns"].as_u64().unwrap() / SECOND).collect();
        assert_eq!(alive, [1, 1], "the process that was alive at the start exited after a second");
    }

    #[test]
    fn a_record_that_comes_twice_is_of_one_thread() {
        let (a, b) = sides(&[process(5, 2, 2 * SECOND, 1, &json!({}))], &[]);
        let record = || exit(5, 5, 1, (2, 12), &ran(2300));
        assert_eq!(row(&with_records(a, b, &[record(), record()]), 5)["run_time_ns"], 300 * MS);
    }

    #[test]
    fn the_work_of_a_record_is_not_cut_to_what_its_process_counts_in_ticks() {
        let pool = |ticks: u64| process(5, 1, 0, 1, &json!({"utime_clock_ticks": ticks}));
        let (a, b) = sides(&[pool(0)], &[pool(100)]);
        assert_eq!(run_of(&with_records(a, b, &[exit(5, 51, 1, (11, 12), &ran(1300))])), 1300);
    }

    #[test]
    fn names_and_cgroup_of_an_exited_thread_are_those_of_its_record() {
        let parent = with(process(5, 1, 0, 9, &json!({})), &json!({"cgroup": "/a", "start_time_clock_ticks": 1100}));
        let (a, b) = sides(&[], &[parent]);
        let own = with(ran(1), &json!({"cgroup": "/b", "pcomm": "make"}));
        let records = [exit(6, 6, 5, (11, 12), &own), exit(7, 7, 5, (11, 12), &ran(1))];
        let window = with_records(a, b, &records);
        assert_eq!((&row(&window, 6)["cgroup"], &row(&window, 6)["pcomm"]), (&json!("/b"), &json!("make")));
        assert_eq!((&row(&window, 7)["cgroup"], &row(&window, 7)["pcomm"]), (&Value::Null, &json!("p7")));
    }

    #[test]
    fn equal_records_make_equal_windows() {
        let (a, b) = sides(&[], &[]);
        let name = |tid: u32| json!({"pcomm": "p", "comm": format!("t{}", tid % 20), "run_time_ns": tid});
        let records: Vec<_> = (10..50).map(|tid| exit(tid, tid, 1, (11, 12), &name(tid))).collect();
        let window = with_records(a.clone(), b.clone(), &records);
        assert_eq!(window.threads.len(), 20);
        assert_eq!(window, with_records(a, b, &records));
    }

    #[test]
    fn a_thread_that_exited_before_it_could_be_captured_is_no_part_of_the_window() {
        let (a, b) = sides(&[], &[]);
        let window = with_records(a, b, &[exit(6, 6, 1, (2, 10), &ran(2300))]);
        assert_eq!(rows(&window).len(), 0);
    }

    #[test]
    fn the_party_of_an_exited_thread_is_that_of_its_process_or_of_an_ancestor() {
        let parent = with(process(5, 1, 0, 9, &json!({})), &json!({"party": "command"}));
        let (a, b) = sides(&[], &[with(parent, &json!({"start_time_clock_ticks": 1100}))]);
        let records = [
            exit(5, 51, 9, (11, 12), &ran(1)),
            exit(7, 7, 6, (11, 12), &ran(1)),
            exit(6, 6, 5, (11, 12), &ran(1)),
            exit(8, 8, 1, (11, 12), &ran(1)),
        ];
        let window = with_records(a, b, &records);
        for tid in [51, 6, 7] {
            assert_eq!(row(&window, tid)["party"], "command", "{tid}");
        }
        assert_eq!(row(&window, 8)["party"], Value::Null);
    }
}

mod command {
    use super::*;

    /// The owner of each process.
    fn owners(window: &CtprofSnapshot) -> Vec<(u64, Value)> {
        rows(window).into_iter().map(|row| (row["tgid"].as_u64().unwrap(), row["party"].clone())).collect()
    }

    #[test]
    fn descendants_of_the_recorder_are_the_command_and_it_is_ctprof_itself() {
        let own = |second| with(process(9, 1, second * MS, 4, &json!({})), &json!({"party": "ctprof"}));
        let other = process(4, 0, 0, 1, &json!({}));
        let a = snapshot(10, &[other.clone(), own(10)]);
        // 22 is an orphan of the command: the recorder is its subreaper.
        let b = snapshot(
            15,
            &[
                other,
                own(15),
                process(20, 11, 0, 9, &json!({})),
                process(21, 11, 0, 20, &json!({})),
                process(22, 12, 0, 9, &json!({})),
            ],
        );
        let window = record(a, b, Exits::default());
        let command = json!("command");
        let expected =
            [(4, Value::Null), (9, json!("ctprof")), (20, command.clone()), (21, command.clone()), (22, command)];
        assert_eq!(owners(&window), expected);
    }

    #[test]
    fn children_that_the_recorder_waited_for_are_orphans_of_the_command() {
        let own = |second, ticks: u64| {
            let counters = json!({"cutime_clock_ticks": ticks});
            snapshot(second, &[with(process(9, 1, 0, 4, &counters), &json!({"party": "ctprof"}))])
        };
        let window = record(own(10, 0), own(15, 300), Exits::default());
        let work = exited(&window, 9, "children");
        assert_eq!((&work["party"], &work["run_time_ns"]), (&json!("command"), &json!(3 * SECOND)));
    }

    #[test]
    fn orphans_that_the_recorder_waited_for_are_shown_with_the_command() {
        let own = |ticks: u64| {
            let counters = json!({"cutime_clock_ticks": ticks});
            with(process(9, 1, 0, 4, &counters), &json!({"party": "ctprof"}))
        };
        let of_command = |process: Value, state: &str| with(process, &json!({"comm": "make", "state": state}));
        // 21 is an orphan, which lives on.
        let command = of_command(process(22, 11, 0, 9, &json!({})), "Z");
        let later = [own(300), process(21, 12, 0, 9, &json!({})), command];
        let window = record(snapshot(10, &[own(0)]), snapshot(15, &later), Exits::default());
        let work = exited(&window, 22, "children");
        assert_eq!((&work["pcomm"], &work["party"]), (&json!("make"), &json!("command")));
        assert_eq!(work["run_time_ns"], json!(3 * SECOND));
    }
}

mod accounting {
    use super::*;

    fn window_of(clocks: (Value, Value), cpu_time: (Value, Value), ran: u64) -> ctprof::model::WindowInfo {
        let side = |second, capture: Value, cpu_time: Value, ran: u64| {
            let threads = [process(5, 1, ran, 1, &json!({}))];
            snapshot_with(second, &threads, &json!({"capture": capture, "cpu_time": cpu_time}))
        };
        let end = clocks.1["boottime_ns"].as_u64().map_or(15, |ns| ns / SECOND);
        let (a, b) = (side(10, clocks.0, cpu_time.0, 0), side(end, clocks.1, cpu_time.1, ran));
        between(a, b).unwrap().head.window.unwrap()
    }

    #[test]
    fn the_window_says_how_much_of_the_hosts_cpu_time_it_explains() {
        let time = |idle: u64, run: Value| json!({"cpus": 2, "idle_ticks": idle, "iowait_ticks": 0, "steal_ticks": 0, "run_ns": run, "started": idle});
        let cpu = |run: [Value; 2]| {
            let [a, b] = run;
            let info = window_of((json!({}), json!({})), (time(100, a), time(500, b)), 3 * SECOND);
            let cpu = json!(info.cpu);
            [cpu["source"].clone(), cpu["busy_ns"].clone(), cpu["explained_ns"].clone(), cpu["started"].clone()]
        };
        // 5 s of 2 CPUs, of which 4 s were idle.
        let idle = [json!("idle"), json!(6 * SECOND), json!(3 * SECOND), json!(400)];
        assert_eq!(cpu([json!(null), json!(null)]), idle);
        assert_eq!(cpu([json!(SECOND), json!(2 * SECOND)]), idle, "less than the threads have");
        let exact = [json!("schedstat"), json!(4 * SECOND), json!(3 * SECOND), json!(400)];
        assert_eq!(cpu([json!(SECOND), json!(5 * SECOND)]), exact);
        assert_eq!(window_of((json!({}), json!({})), (json!(null), time(500, json!(null))), 1).cpu, None);
    }

    /// The CPU time of a recorded tree, whose two CPUs have these ticks of tasks and of idle time.
    fn recorded([first, second]: [[u64; 2]; 2]) -> Value {
        let dir = tempfile::tempdir().unwrap();
        let line = |name: &str, [task, idle]: [u64; 2]| format!("{name} {task} 0 0 {idle} 0 0 0 0 0 0\n");
        let all = [first[0] + second[0], first[1] + second[1]];
        let stat = [line("cpu ", all), line("cpu0", first), line("cpu1", second)].concat();
        let task = dir.path().join("7/task/7");
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(task.join("stat"), "7 (x) S 0 0 0 0 -1 0 7 0").unwrap();
        std::fs::write(dir.path().join("stat"), stat).unwrap();
        let mut options = ctprof::capture::Options::default();
        options.roots.procfs = dir.path().to_owned();
        json!(ctprof::capture::capture_with(&options).unwrap().head.cpu_time.unwrap())
    }

    #[test]
    fn the_cpu_time_of_a_host_is_unknown_if_a_cpu_was_away_for_a_part_of_the_window() {
        let busy = |a, b| {
            let info = window_of((json!({}), json!({})), (recorded(a), recorded(b)), SECOND);
            info.cpu.map(|cpu| cpu.busy_ns)
        };
        // 5 s of 2 CPUs, of which tasks ran for 1 s.
        let begin = [[100, 1000], [100, 1000]];
        assert_eq!(busy(begin, [[150, 1450], [150, 1450]]), Some(SECOND));
        assert_eq!(busy(begin, [[150, 1450], [150, 1340]]), Some(SECOND * 21 / 10), "ticks were lost in interrupts");
        assert_eq!(busy(begin, [[150, 1450], [150, 1200]]), None, "away for 2.5 s");
        assert_eq!(busy(begin, [[150, 1450], [150, 100]]), None, "its idle time began at 0, and the sum fell");
        assert_eq!(busy([[100, 1000], [100, 300]], [[150, 1450], [150, 50]]), None, "and the sum rose less");
    }

    #[test]
    fn time_suspended_is_no_part_of_the_window() {
        let clocks = |monotonic: u64, boottime: u64| json!({"monotonic_ns": monotonic * SECOND, "boottime_ns": boottime * SECOND});
        let info = window_of((clocks(8, 10), clocks(13, 75)), (json!(null), json!(null)), 1);
        assert_eq!((info.duration_ns, info.suspended_ns), (5 * SECOND, Some(60 * SECOND)));
        assert_eq!(window_of((json!({}), json!({})), (json!(null), json!(null)), 1).suspended_ns, None);
    }
}

/// The same collection of threads, whatever they are joined with.
#[test]
fn threads_streamed_to_a_vector_are_those_of_the_window() {
    let threads = |second: u64| vec![process(5, 1, second * MS, 1, &json!({})), process(6, second, 0, 5, &json!({}))];
    let (mut a, mut b) = (snapshot(10, &threads(9)), snapshot(15, &threads(12)));
    let whole = between(a.clone(), b.clone()).unwrap();
    let earlier = EarlierThreads::of_threads(std::mem::take(&mut a.threads));
    let all = std::mem::take(&mut b.threads);
    let mut join =
        ctprof::window::join(&a.head, earlier, &b.head, &Vec::new(), ctprof::window::JoinedValues::Increases).unwrap();
    all.into_iter().for_each(|thread| join.add(thread));
    let ends = join.finish(&b.head, &Exits::default());
    let mut threads = ends.threads;
    threads.sort_by_key(ThreadState::id);
    assert_eq!((threads, Some(ends.window)), (whole.threads, whole.head.window));
}

#[test]
fn a_zombie_has_the_parent_that_has_not_waited_for_it() {
    let parent = |child: Value, parent_pid: u32| {
        let state = json!({"state": "Z", "process": {"ppid": parent_pid}});
        let program = json!({"program": "spawn.py"});
        let all = [thread(5, 5, 1, &program), thread(7, 7, 1, &state), child, thread(9, 9, 1, &json!({}))];
        let (a, b) = sides(&all, &all);
        row(&with_records(a, b, &[]), 7)["parent"].clone()
    };
    let other = || thread(8, 8, 1, &json!({}));
    assert_eq!(parent(other(), 5), "p5 spawn.py");
    assert_eq!(parent(other(), 6), Value::Null, "of another namespace");
    assert_eq!(parent(other(), 9), Value::Null, "the recorder waits for its command at the end");
    assert_eq!(parent(thread(7, 8, 1, &json!({})), 5), Value::Null, "nobody can wait while another thread lives");
}

#[test]
fn a_process_that_was_forked_in_the_window_has_not_allocated_what_its_parent_has() {
    let heap = |allocated: u64| json!({"allocated_bytes": allocated, "deallocated_bytes": 0});
    let forked = |allocated: u64| with(heap(allocated), &json!({"forked": true}));
    let before = [thread(5, 5, 1, &heap(1000)), thread(6, 6, 1, &forked(1000))];
    let after = [
        thread(5, 5, 1, &heap(1007)),
        thread(6, 6, 1, &forked(1003)),
        thread(7, 7, 12, &forked(1005)),
        thread(7, 8, 12, &heap(2)),
        thread(9, 9, 12, &heap(4)),
    ];
    let (a, b) = sides(&before, &after);
    let window = with_records(a, b, &[]);
    let allocated = [5, 6, 7, 8, 9].map(|tid| row(&window, tid)["allocated_bytes"].as_u64());
    assert_eq!(allocated, [Some(7), Some(3), None, Some(2), Some(4)]);
}
