//! Comparisons of snapshots and windows: hosts, the order of groups, notes, and several runs.

use ctprof::CtprofSnapshot;
use ctprof::compare::{
    CompareOptions, Digest, GroupBy, Order, Per, Report, Runs, RunsError, Sides, SortKey, compare, parse_metric,
    report, show,
};
use ctprof::diagnose::{Note, Warning};
use ctprof::model::Section;
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;

/// An object with the fields of both.
fn with(mut object: Value, fields: &Value) -> Value {
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

fn snapshot(fields: &Value, threads: &[Value]) -> CtprofSnapshot {
    let whole = json!({"format_version": 2, "captured_at_unix_ns": SECOND, "threads": threads});
    serde_json::from_value(with(whole, fields)).unwrap()
}

/// The only thread of a process.
fn process(pid: u32, name: &str, fields: &Value) -> Value {
    with(json!({"tid": pid, "tgid": pid, "pcomm": name, "comm": name}), fields)
}

/// A window of 10 s on two CPUs.
fn window(threads: &[Value]) -> CtprofSnapshot {
    snapshot(&json!({"window": {"duration_ns": 10 * SECOND}, "host": {"online_cpus": 2}}), threads)
}

fn options(change: impl FnOnce(&mut CompareOptions)) -> CompareOptions {
    let mut options = CompareOptions::default();
    change(&mut options);
    options
}

/// The groups of a section, in the order of their rows.
fn order(comparison: &Report, section: Section) -> Vec<String> {
    let table = comparison.sections.iter().find(|table| table.section == section).unwrap();
    let groups = table.rows.iter().map(|row| &table.groups[row.group]).filter(|group| !group.is_all());
    let mut names: Vec<_> = groups.map(|group| group.label.clone()).collect();
    names.dedup();
    names
}

fn notes(comparison: &Report, section: Section) -> Vec<&Note> {
    comparison.sections.iter().filter(|table| table.section == section).flat_map(|table| &table.notes).collect()
}

mod header {
    use super::*;

    fn of_hosts(a: &Value, b: &Value) -> Report {
        compare(&snapshot(a, &[]), &snapshot(b, &[]), &CompareOptions::default())
    }

    #[test]
    fn hosts_differ_by_fields_and_by_entries_but_not_in_what_always_differs() {
        let host = |release: &str, uptime: u64, tunables: Value| {
            let host = json!({"hostname": "db1", "kernel_release": release, "uptime_ns": uptime, "online_cpus": 2,
                              "heap_state": {"narenas": uptime}, "sched_tunables": tunables});
            json!({ "host": host })
        };
        let (a, b) =
            (host("6.1", 1, json!({"x": "1", "y": "2"})), host("6.12", 2, json!({"x": "1", "y": "3", "z": "4"})));
        let header = of_hosts(&a, &b).header.unwrap();
        let differences: Vec<_> = header
            .differences
            .iter()
            .flatten()
            .map(|difference| {
                let values = difference.values.as_ref().map(|value| value.as_deref().unwrap_or("-"));
                let (baseline, candidate) = values.both().unwrap();
                (difference.field.as_str(), baseline, candidate)
            })
            .collect();
        let expected =
            [("kernel_release", "6.1", "6.12"), ("sched_tunables.y", "2", "3"), ("sched_tunables.z", "-", "4")];
        assert_eq!(differences, expected);
        assert!(matches!(&header.warnings[..], [Warning::DifferentKernel { .. }]), "{:?}", header.warnings);
        assert_eq!(of_hosts(&a, &json!({})).header.unwrap().differences, None);
        let host = show(&snapshot(&a, &[]), &CompareOptions::default()).header.unwrap().host;
        for fact in [("kernel_release", "6.1"), ("online_cpus", "2"), ("sched_tunables.y", "2")] {
            assert!(host.contains(&(fact.0.to_owned(), fact.1.to_owned())), "{fact:?} in {host:?}");
        }
    }

    #[test]
    fn a_file_without_an_engine_has_none() {
        let engine = |capture: Value| {
            let side = snapshot(&json!({"capture": capture}), &[]);
            let sides = compare(&side, &side, &CompareOptions::default()).header.unwrap().sides;
            json!(sides.baseline)["engine"].clone()
        };
        assert_eq!(engine(json!({"tool": "other"})), Value::Null);
        assert_eq!(engine(json!({"engine": "bpf"})), "bpf");
    }

    #[test]
    fn only_two_captures_have_an_order_by_the_wall_clock() {
        let side = |ns: u64, is_window| {
            let window = if is_window { json!({"duration_ns": 1}) } else { Value::Null };
            json!({"captured_at_unix_ns": ns, "window": window})
        };
        for (a, b, apart, is_older) in [
            (side(5, false), side(7, false), Some(2), false),
            (side(5, false), side(5, false), Some(0), false),
            (side(7, false), side(5, false), Some(-2), true),
            (side(0, false), side(5, false), None, false),
            (side(7, false), side(0, false), None, false),
            (side(7, true), side(5, true), Some(-2), false),
            (side(7, true), side(5, false), Some(-2), false),
            (side(7, false), side(5, true), Some(-2), false),
        ] {
            let header = of_hosts(&a, &b).header.unwrap();
            assert_eq!(header.apart_ns, apart, "{a} {b}");
            assert_eq!(header.warnings.contains(&Warning::CandidateOlder), is_older, "{a} {b}");
        }
    }
}

mod order_of_groups {
    use super::*;

    fn ran(ms: u64) -> Value {
        json!({"run_time_ns": ms * SECOND / 1000})
    }

    /// Which of two groups is first: `cpu`, with 1 s more CPU time, 5 % of two CPUs for 10 s; or `disk`, which reads.
    fn first(host: &Value, per: Per, bytes: [u64; 2]) -> String {
        let side = |run: u64, bytes: u64| {
            let mut side = window(&[process(1, "cpu", &ran(run)), process(2, "disk", &json!({"read_bytes": bytes}))]);
            side.head.host = serde_json::from_value(host.clone()).unwrap();
            side
        };
        let comparison =
            compare(&side(1000, bytes[0]), &side(2000, bytes[1]), &options(|all| all.grouping.per = Some(per)));
        order(&comparison, Section::Overview)[0].clone()
    }

    #[test]
    fn changes_are_shares_of_the_cpus_and_of_all_bytes_but_at_least_of_10_mb_per_second() {
        const MB: u64 = 1_000_000;
        let host = json!({"online_cpus": 2});
        for per in [Per::Second, Per::Run] {
            // 3 / 10 of the share of bytes: 2.7 % of 110 MB/s, 3 % and 6.6 % of 10 MB/s, 15 %.
            for (bytes, is_disk) in [
                ([1000 * MB, 1100 * MB], false),
                ([0, 10 * MB], false),
                ([10 * MB, 0], false),
                ([0, 22 * MB], true),
                ([22 * MB, 0], true),
                ([0, 50 * MB], true),
            ] {
                assert_eq!(first(&host, per, bytes) == "disk", is_disk, "{per:?} {bytes:?}");
            }
            // Without the number of CPUs, CPU time is a share of all that changed.
            assert_eq!(first(&json!({}), per, [0, 50 * MB]), "cpu");
        }
    }

    #[test]
    fn of_totals_since_threads_started_only_the_changes_are_compared() {
        let side = |run: [u64; 2], bytes: u64| {
            let threads = [
                process(1, "a", &ran(run[0])),
                process(2, "b", &json!({"read_bytes": bytes})),
                process(3, "c", &ran(run[1])),
            ];
            snapshot(&json!({}), &threads)
        };
        // 80 % of the change of CPU time, 3 / 10 of all of the bytes, 20 %; of all bytes ever read, it is 1 %.
        let comparison = compare(&side([0, 0], 1_000_000), &side([1600, 400], 1_010_000), &CompareOptions::default());
        assert_eq!(order(&comparison, Section::Overview), ["a", "b", "c"]);
    }

    #[test]
    fn groups_are_sorted_by_the_rates_that_they_show() {
        let side = |[a, b]: [u64; 2]| {
            window(&[process(1, "a", &json!({"minflt": a})), process(2, "b", &json!({"minflt": b}))])
        };
        let by = parse_metric("minflt").unwrap();
        let options = options(|options| options.selection.sort_by = vec![SortKey { by, order: Order::Desc }]);
        let comparison = compare(&side([0, 0]), &side([7, 20]), &options);
        assert_eq!(order(&comparison, Section::Primary)[..2], ["b", "a"]);
    }

    #[test]
    fn the_capturing_process_is_last_and_others_named_like_it_are_not() {
        let side = |run: u64| {
            let own = with(ran(10 * run), &json!({"party": "ctprof"}));
            window(&[process(1, "recorder", &own), process(2, "ctprof", &ran(5 * run)), process(3, "app", &ran(run))])
        };
        let comparison = compare(&side(10), &side(20), &CompareOptions::default());
        assert_eq!(order(&comparison, Section::Overview), ["ctprof", "app", "recorder"]);
        let view = show(&side(10), &CompareOptions::default());
        assert_eq!(order(&view, Section::Overview), ["ctprof", "app", "recorder"]);
        // With a thread of another process of that name, it is a group like any other.
        let mixed = |run: u64| {
            let own = with(ran(10 * run), &json!({"party": "ctprof"}));
            window(&[process(1, "x", &own), process(2, "x", &ran(run)), process(3, "app", &ran(run))])
        };
        let comparison = compare(&mixed(10), &mixed(20), &CompareOptions::default());
        assert_eq!(order(&comparison, Section::Overview), ["x", "app"]);
    }

    /// The value that stands for each group.
    fn leaders(comparison: &Report) -> Vec<(String, String)> {
        let table = comparison.sections.iter().find(|table| table.section == Section::Overview).unwrap();
        let leading = table.rows.iter().filter(|row| row.headline.is_some() && !table.groups[row.group].is_all());
        leading.map(|row| (table.groups[row.group].label.clone(), row.name.to_string())).collect()
    }

    #[test]
    fn the_largest_change_stands_for_a_group_and_time_on_a_cpu_for_one_that_hardly_changed() {
        let side = |wait: u64, more: u64| {
            window(&[
                process(1, "waits", &json!({"run_time_ns": SECOND + more, "wait_time_ns": wait})),
                process(2, "idles", &json!({"run_time_ns": SECOND, "wait_time_ns": SECOND + more})),
            ])
        };
        let comparison = compare(&side(0, 0), &side(SECOND, 1000), &CompareOptions::default());
        let expected = [("waits", "wait"), ("idles", "run")].map(|(group, row)| (group.to_owned(), row.to_owned()));
        assert_eq!(leaders(&comparison), expected);
    }

    #[test]
    fn a_value_that_one_side_lacks_has_not_changed_and_leads_no_group() {
        let side = |wait: Value, more: u64| {
            window(&[
                process(1, "unknown", &json!({"run_time_ns": SECOND + more / 10, "wait_time_ns": wait})),
                process(2, "waits", &json!({"run_time_ns": SECOND, "wait_time_ns": more})),
            ])
        };
        let comparison = compare(&side(Value::Null, 0), &side(json!(9 * SECOND), SECOND), &CompareOptions::default());
        let expected = [("waits", "wait"), ("unknown", "run")].map(|(group, row)| (group.to_owned(), row.to_owned()));
        assert_eq!(leaders(&comparison), expected);
    }

    fn runs(of_run: impl Fn(u64) -> CtprofSnapshot, options: &CompareOptions) -> Runs {
        let mut runs = Runs::default();
        (0..8).for_each(|run| runs.add(Digest::of_snapshot(&of_run(run), options)));
        runs
    }

    /// The values of a group in the overview, by name.
    fn overview(snapshot: &CtprofSnapshot, group: &str, options: &CompareOptions) -> Vec<(String, Value)> {
        let view = show(snapshot, options);
        let tables = view.sections.iter().filter(|table| table.section == Section::Overview);
        let rows = tables.flat_map(|table| table.rows.iter().filter(|row| table.groups[row.group].label == group));
        rows.filter_map(|row| Some((row.name.to_string(), json!(row.values.baseline.as_ref()?)))).collect()
    }

    #[test]
    fn rates_of_a_snapshot_are_per_second_that_a_thread_has_existed_on_average() {
        let host = json!({"host": {"uptime_ns": 100 * SECOND, "clock_ticks_per_second": 100}});
        let thread = |tid, start| {
            let values =
                json!({"run_time_ns": 5 * SECOND, "minflt": 100, "majflt": 0, "start_time_clock_ticks": start});
            process(tid, "app", &values)
        };
        // They have existed for 100 and 60 s, 80 s on average.
        let values = overview(&snapshot(&host, &[thread(1, 0), thread(2, 4000)]), "app", &CompareOptions::default());
        assert!(values.contains(&("run".to_owned(), json!(12.5))), "{values:?}");
        assert!(values.contains(&("faults".to_owned(), json!(2.5))), "{values:?}");
    }

    #[test]
    fn a_window_without_length_has_no_rates() {
        let empty = snapshot(&json!({"window": {"duration_ns": 0}}), &[process(1, "app", &ran(5))]);
        assert_eq!(overview(&empty, "app", &options(|all| all.grouping.per = Some(Per::Second))), []);
    }

    #[test]
    fn exited_work_has_no_times_of_threads_and_is_own_if_its_group_is() {
        let side = |ms: u64| {
            let work = |pid, name, ms: u64, owner: Value| {
                let fields = with(ran(ms), &json!({"tid": 0, "exited_work": "threads", "party": owner}));
                process(pid, name, &fields)
            };
            let alive = json!({"alive_ns": 10 * SECOND, "block_sum": 5, "wait_time_ns": 5, "party": "ctprof"});
            window(&[
                process(1, "recorder", &with(ran(ms), &alive)),
                work(1, "recorder", 9 * ms, json!("ctprof")),
                process(2, "app", &ran(10)),
                work(2, "app", 0, Value::Null),
            ])
        };
        let names: Vec<_> = overview(&side(100), "(exited threads)", &CompareOptions::default())
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["run"]);
        let view = show(&side(100), &CompareOptions::default());
        let table = view.sections.iter().find(|table| table.section == Section::Overview).unwrap();
        let mut order: Vec<_> = table.rows.iter().map(|row| table.groups[row.group].key.join(" ")).collect();
        order.dedup();
        assert_eq!(order.remove(0), "", "all groups");
        assert_eq!(
            order,
            ["app", "recorder", "recorder (exited threads)"],
            "ctprof's own are last, and no line without work"
        );
    }

    #[test]
    fn exited_work_that_matters_on_one_side_has_its_value_on_both() {
        let side = |exited: u64| {
            let work = with(ran(exited), &json!({"tid": 0, "exited_work": "threads"}));
            window(&[process(1, "app", &ran(10_000 - exited)), process(1, "app", &work)])
        };
        let run = |before: u64, after: u64| {
            let comparison = compare(&side(before), &side(after), &options(|all| all.grouping.per = Some(Per::Run)));
            let table = comparison.sections.iter().find(|table| table.section == Section::Overview).unwrap();
            let mut rows = table.rows.iter().filter(|row| row.name == "run");
            let row = rows.find(|row| table.groups[row.group].label == "(exited threads)")?;
            Some(json!([row.values.baseline, row.values.candidate]))
        };
        let ms = 1_000_000;
        assert_eq!(run(400, 600), Some(json!([400 * ms, 600 * ms])));
        assert_eq!(run(400, 400), None);
    }

    #[test]
    fn only_cpu_time_in_ticks_is_imprecise_and_a_run_without_the_group_did_nothing() {
        let side = |values: Value| {
            let of_run = move |run: u64| {
                let app = (run > 1).then(|| process(1, "app", &values));
                let threads: Vec<_> = app.into_iter().chain([process(2, "other", &values)]).collect();
                window(&threads)
            };
            runs(of_run, &CompareOptions::default())
        };
        let quanta = |values: Value| {
            let sides = Sides::two(side(values.clone()), side(values));
            let comparison = report(sides, &CompareOptions::default(), &[]);
            let table = comparison.sections.iter().find(|table| table.section == Section::Overview).unwrap();
            let row = |name: &str| {
                table.rows.iter().find(|row| row.name == name && table.groups[row.group].label == "app").unwrap()
            };
            let run = row("run").runs.as_ref().unwrap();
            assert_eq!(run.values.baseline[..3], [0.0, 0.0, run.values.baseline[7]]);
            (run.quantum, row("faults").runs.as_ref().unwrap().quantum)
        };
        let events = json!({"minflt": 7, "majflt": 0});
        let ticks = with(json!({"utime_clock_ticks": 50, "stime_clock_ticks": 50}), &events);
        // A tick of 10 ms in 10 s is 0.1 %.
        assert_eq!(quanta(ticks), (0.1, 0.0));
        assert_eq!(quanta(with(ran(1000), &events)), (0.0, 0.0));
    }

    #[test]
    fn a_clear_change_comes_before_a_larger_unclear_one_and_stands_for_its_group() {
        // `noise` runs for 0 to 7 s in any order, or a second more; `clear` reads a little more, and waits in any order.
        let side = |bytes: u64, shift: u64| {
            let of_run = move |run: u64| {
                let any = (run * 5 + shift) % 8 * SECOND;
                window(&[
                    process(1, "noise", &json!({"run_time_ns": any + shift / 3 * SECOND})),
                    process(2, "clear", &json!({"read_bytes": bytes + run, "wait_time_ns": any})),
                    process(3, "same", &json!({"run_time_ns": SECOND})),
                ])
            };
            runs(of_run, &CompareOptions::default())
        };
        let sides = Sides::two(side(5_000_000, 0), side(9_000_000, 3));
        let comparison = report(sides, &CompareOptions::default(), &[]);
        assert!(comparison.is_repeated() && comparison.runs == Sides::two(8, 8));
        let order = order(&comparison, Section::Overview);
        assert_eq!(order[0], "clear", "{order:?}");
        assert!(leaders(&comparison).contains(&("clear".to_owned(), "read".to_owned())), "{:?}", leaders(&comparison));
    }
}

mod sections {
    use super::*;

    #[test]
    fn exited_children_have_no_names_unless_both_windows_have_exit_records() {
        let side = |has_records: bool| {
            let work = json!({"exited_work": "children", "run_time_ns": SECOND});
            let mut side = window(&[
                process(1, "sh", &json!({"run_time_ns": 1})),
                with(process(1, "sh", &work), &json!({"tid": 0})),
            ]);
            let records = has_records.then(|| serde_json::from_value(json!({})).unwrap());
            side.head.window.as_mut().unwrap().exit_records = records;
            side
        };
        let has_note = |a, b| {
            let comparison = compare(&side(a), &side(b), &CompareOptions::default());
            notes(&comparison, Section::Overview).contains(&&Note::ExitedChildrenUnnamed { no_bpf: None })
        };
        let all = [has_note(false, false), has_note(true, false), has_note(false, true), has_note(true, true)];
        assert_eq!(all, [true, true, true, false]);
        let nobody = compare(&window(&[]), &window(&[]), &CompareOptions::default());
        assert!(notes(&nobody, Section::Overview).is_empty());
    }

    #[test]
    fn the_note_on_exited_children_says_why_they_have_no_names_and_advises_what_helps() {
        let note = |capture: Value| {
            let mut side = window(&[with(
                process(1, "sh", &json!({"exited_work": "children", "run_time_ns": SECOND})),
                &json!({"tid": 0}),
            )]);
            side.head.capture = serde_json::from_value(capture).unwrap();
            let report = show(&side, &CompareOptions::default());
            notes(&report, Section::Overview)[0].to_string().split_once("BPF engine").unwrap().1.to_owned()
        };
        let of = |cause: &str| note(json!({"engine": "procfs", "no_bpf": {"cause": cause}}));
        let capability = ": as root, or with cap_bpf and cap_perfmon";
        assert_eq!([note(Value::Null), of("permission-denied")], [capability; 2]);
        assert!(
            of("no-btf").starts_with(", which was not used: the kernel lacks CONFIG_DEBUG_INFO_BTF"),
            "{}",
            of("no-btf")
        );
        assert!(of("pid-namespace").contains("Fix: run on the host"), "{}", of("pid-namespace"));
        let chosen = note(json!({"engine": "procfs", "options": {"engine": "procfs"}}));
        assert_eq!(chosen, ", which was not used: disabled by --engine procfs");
    }

    /// What a comparison with these sections and metrics notes about its counters of threads.
    fn note_names(a: &Value, b: &Value, metrics: &[&str], section: Section) -> Vec<String> {
        let options = options(|all| {
            all.selection.sections = vec![section];
            all.selection.metrics = metrics.iter().map(|name| parse_metric(name).unwrap()).collect();
        });
        let side = |fields: &Value| snapshot(&json!({}), &[process(1, "app", fields)]);
        let comparison = compare(&side(a), &side(b), &options);
        notes(&comparison, section)
            .iter()
            .map(|note| format!("{note:?}").split([' ', '{']).next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn a_selected_section_says_why_it_has_no_rows() {
        let (run, wait) = (json!({"run_time_ns": 5}), json!({"wait_time_ns": 5}));
        let note_names = |a: &Value, b: &Value, metrics: &[&str]| note_names(a, b, metrics, Section::Primary);
        assert_eq!(note_names(&run, &run, &[]), ["NothingChanged"]);
        assert_eq!(note_names(&run, &json!({"run_time_ns": 6}), &[]), Vec::<String>::new());
        assert_eq!(note_names(&run, &run, &["wait_time_ns"]), ["NoData"]);
        assert_eq!(note_names(&run, &run, &["wait_time_ns", "run_time_ns"]), ["MetricWithoutData"]);
        assert_eq!(note_names(&run, &wait, &["wait_time_ns", "run_time_ns"]), Vec::<String>::new());
        assert_eq!(
            note_names(&run, &run, &["run_time_ns", "cpu_delay_count"]),
            ["NothingChanged"],
            "of another section"
        );
        let io = super::sections::note_names(&run, &run, &[], Section::IoStat);
        assert_eq!(io, ["NeedsCgroupGrouping"]);
    }

    #[test]
    fn a_view_says_why_a_selected_metric_has_no_data_and_never_that_nothing_changed() {
        let note_names = |metrics: &[&str]| {
            let options = options(|all| {
                all.selection.sections = vec![Section::Primary];
                all.selection.metrics = metrics.iter().map(|name| parse_metric(name).unwrap()).collect();
            });
            let view = show(&snapshot(&json!({}), &[process(1, "app", &json!({"run_time_ns": 5}))]), &options);
            let notes = view.sections.iter().flat_map(|table| &table.notes);
            notes.map(|note| format!("{note:?}").split([' ', '{']).next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(note_names(&[]), Vec::<String>::new());
        assert_eq!(note_names(&["run_time_ns"]), Vec::<String>::new());
        assert_eq!(note_names(&["run_time_ns", "wait_time_ns"]), ["MetricWithoutData"]);
        assert_eq!(note_names(&["wait_time_ns"]), ["NoData"]);
    }

    #[test]
    fn reasons_that_differ_between_the_sides_are_named_for_each() {
        let sides = |versions: [u16; 2]| {
            let side = |version: u16| {
                let head = json!({"taskstats_summary": {"ok_count": 1, "struct_version": version}});
                snapshot(&head, &[process(1, "app", &json!({"run_time_ns": 5}))])
            };
            let [a, b] = versions.map(side);
            let options = options(|all| {
                all.selection.sections = vec![Section::TaskstatsDelay];
                all.selection.metrics = vec![parse_metric("cpu_delay_max_ns").unwrap()];
            });
            let comparison = compare(&a, &b, &options);
            notes(&comparison, Section::TaskstatsDelay).into_iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let same = sides([8, 8]);
        assert_eq!(same.len(), 1, "{same:?}");
        let different = sides([8, 10]);
        assert_eq!(different.len(), 2, "{different:?}");
        assert!(different[0].starts_with("baseline: ") && different[1].starts_with("candidate: "), "{different:?}");
        assert!(different[0].ends_with(&same[0]), "{different:?}");
    }

    #[test]
    fn what_a_capture_could_not_read_is_noted_with_its_cost() {
        let io = json!({"read_failures_by_errno": {"io": {"EACCES": 3}}});
        let side = snapshot(&json!({"parse_summary": io}), &[process(1, "app", &json!({"run_time_ns": 5}))]);
        let comparison = compare(&side, &side, &CompareOptions::default());
        let view = show(&side, &CompareOptions::default());
        let table = view.sections.iter().find(|table| table.section == Section::Capture).unwrap();
        for notes in [notes(&comparison, Section::Capture), table.notes.iter().collect()] {
            assert!(notes.iter().any(|note| matches!(note, Note::Missing { .. })), "{notes:?}");
        }
    }

    #[test]
    fn renamed_cgroups_are_marked_where_groups_are_cgroups() {
        let side = |cgroup: &str| {
            let threads: Vec<_> = ["accept", "parse", "reply"].iter().enumerate().map(|(place, comm)| {
                json!({"tid": place + 1, "tgid": 1, "pcomm": "web", "comm": comm, "cgroup": cgroup, "run_time_ns": 5})
            }).collect();
            let stats = json!({cgroup: {"cpu": {"usage_usec": 5}}});
            let psi = json!({"cpu": {"some": {"avg10": 1, "avg60": 0, "avg300": 0, "total_usec": 1}}});
            snapshot(&json!({"cgroup_stats": stats, "psi": psi}), &threads)
        };
        let comparison = compare(&side("/alpha"), &side("/omega"), &options(|all| all.grouping.axis = GroupBy::Cgroup));
        assert_eq!(comparison.renamed.len(), 1);
        let is_marked = |section: Section| {
            let table = comparison.sections.iter().find(|table| table.section == section).unwrap();
            table.groups.iter().filter(|group| !group.is_all()).map(|group| group.renamed).collect::<Vec<_>>()
        };
        for section in [Section::Overview, Section::Primary, Section::CgroupStats] {
            assert_eq!(is_marked(section), [true], "{section:?}");
        }
        assert_eq!(is_marked(Section::HostPressure), [false]);
    }

    #[test]
    fn sections_without_data_are_left_out_unless_they_are_selected() {
        let side = |run: u64| snapshot(&json!({}), &[process(1, "app", &json!({"run_time_ns": run}))]);
        let all = compare(&side(1), &side(2), &CompareOptions::default());
        let sections = |comparison: &Report| comparison.sections.iter().map(|table| table.section).collect::<Vec<_>>();
        assert_eq!(sections(&all), [Section::Overview, Section::Primary]);
        let chosen = options(|all| all.selection.sections = vec![Section::SchedExt, Section::Primary, Section::IoStat]);
        let chosen = compare(&side(1), &side(2), &chosen);
        assert_eq!(sections(&chosen), [Section::Primary, Section::IoStat, Section::SchedExt]);
    }

    #[test]
    fn the_tree_below_a_report_has_all_its_groups_and_no_selection_of_metrics() {
        let with_tree = |sections: &[Section]| {
            options(|all| {
                all.selection.sections = sections.to_vec();
                all.selection.metrics = ["run_time_ns", "csw"].map(|name| parse_metric(name).unwrap()).to_vec();
                all.grouping.per = Some(Per::Run);
                all.has_tree = true;
            })
        };
        let run = snapshot(&json!({}), &[process(1, "app", &json!({"run_time_ns": 5, "minflt": 1}))]);
        let report = show(&run, &with_tree(&[Section::Overview, Section::Primary, Section::Pressure]));
        let tree = report.tree.unwrap();
        assert_eq!((report.group_by, tree.group_by, tree.per), (GroupBy::Pcomm, GroupBy::All, Per::Run));
        let sections: Vec<_> = tree.sections.iter().map(|section| section.section).collect();
        assert_eq!(sections, [Section::Overview, Section::Pressure]);
        assert!(tree.sections[0].rows.iter().any(|row| row.name == "faults"));
        assert!(tree.tree.is_none(), "it is the tree");
        assert!(show(&run, &with_tree(&[Section::Primary])).tree.is_none());
    }

    #[test]
    fn pressure_and_sched_ext_have_a_group_of_the_host_and_say_when_they_were_reset() {
        let side = |total: u64, enable: u64, hotplug: u64| {
            let ext = json!({"state": "enabled", "enable_seq": enable, "hotplug_seq": hotplug, "nr_rejected": 1});
            snapshot(
                &json!({"psi": {"cpu": {"some": {"avg10": 100, "avg60": 0, "avg300": 0, "total_usec": total}}}, "sched_ext": ext}),
                &[],
            )
        };
        let comparison = compare(&side(5, 1, 1), &side(9, 1, 1), &CompareOptions::default());
        assert_eq!(order(&comparison, Section::HostPressure), ["host"]);
        assert_eq!(order(&comparison, Section::SchedExt), ["sched_ext"]);
        let pressure = comparison.sections.iter().find(|table| table.section == Section::HostPressure).unwrap();
        let changed: Vec<_> =
            pressure.rows.iter().filter(|row| row.hidden_reason().is_none()).map(|row| &*row.name).collect();
        assert_eq!(changed, ["cpu.some.total_usec"]);
        let sched_ext_notes = |enable, hotplug| {
            let comparison = compare(&side(5, 1, 1), &side(5, enable, hotplug), &CompareOptions::default());
            notes(&comparison, Section::SchedExt).into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(sched_ext_notes(1, 1), []);
        assert_eq!(sched_ext_notes(2, 1), [Note::SchedulerLoaded]);
        assert_eq!(sched_ext_notes(1, 2), [Note::CpusHotplugged]);
        assert_eq!(sched_ext_notes(2, 2), [Note::SchedulerLoaded, Note::CpusHotplugged]);
    }

    #[test]
    fn the_cost_of_a_capture_and_its_answers_are_rows() {
        let capture = json!({"engine": "procfs", "duration_ns": 70, "jobs": 2,
                             "self_cost": {"user_ns": 5, "system_ns": 6, "peak_rss_bytes": 7}});
        let head = json!({"capture": capture, "taskstats_summary": {"ok_count": 3, "esrch_count": 4, "struct_version": 16},
                           "psi": {}});
        let view = show(&snapshot(&head, &[]), &CompareOptions::default());
        let table = view.sections.iter().find(|table| table.section == Section::Capture).unwrap();
        let value = |name: &str| {
            table
                .rows
                .iter()
                .find(|row| row.name == name)
                .and_then(|row| row.values.baseline.as_ref())
                .map(|value| json!(value))
        };
        for (name, expected) in [
            ("duration", 70),
            ("jobs", 2),
            ("cost.user", 5),
            ("cost.system", 6),
            ("cost.peak_rss", 7),
            ("taskstats.answered", 3),
            ("taskstats.exited", 4),
            ("taskstats.denied", 0),
            ("taskstats.version", 16),
        ] {
            assert_eq!(value(name), Some(json!(expected)), "{name}");
        }
        assert_eq!((value("engine"), value("cost.smaps")), (Some(json!("procfs")), None));
        assert_eq!(table.groups[0].members(), Sides::one(Some(1)));
        let unknown = show(&snapshot(&json!({"capture": {"engine": ""}}), &[]), &CompareOptions::default());
        let table = unknown.sections.iter().find(|table| table.section == Section::Capture).unwrap();
        assert!(table.rows.iter().all(|row| row.name != "engine"));
    }
}

mod names {
    use super::*;

    /// Which groups have a name that the kernel may have cut.
    fn cut(group_by: GroupBy, threads: &[Value]) -> Vec<(String, bool)> {
        let view = show(&snapshot(&json!({}), threads), &options(|all| all.grouping.axis = group_by));
        let table = view.sections.iter().find(|table| table.section == Section::Primary).unwrap();
        let groups = table.groups.iter().filter(|group| !group.is_all());
        groups.map(|group| (group.key.join(" "), group.name_cut())).collect()
    }

    fn named(tid: u32, pcomm: &str, comm: &str, is_complete: bool) -> Value {
        json!({"tid": tid, "tgid": 1, "pcomm": pcomm, "comm": comm, "name_complete": is_complete, "minflt": 1, "cgroup": "/"})
    }

    #[test]
    fn names_as_long_as_the_kernel_allows_may_be_cut_unless_all_threads_have_whole_names() {
        let long = "abcdefghijklmno";
        let of = |threads: &[Value]| cut(GroupBy::Comm, threads)[0].1;
        assert!(of(&[named(2, "x", long, false)]));
        assert!(!of(&[named(2, "x", long, true), named(3, "x", long, true)]));
        assert!(of(&[named(2, "x", long, true), named(3, "x", long, false)]));
        assert!(!of(&[named(2, "x", &long[1..], false)]), "14 bytes");
        assert!(!of(&[named(2, "x", "kworker/u8:1-ab", false)]), "the kernel composes it");
        assert_eq!(cut(GroupBy::Cgroup, &[named(2, long, long, false)]), [("/".to_owned(), false)]);
        assert!(cut(GroupBy::Pcomm, &[named(1, long, "x", false)])[0].1);
        assert!(!cut(GroupBy::Pcomm, &[named(1, "x", long, false)])[0].1);
    }

    #[test]
    fn a_process_of_one_kind_of_threads_is_one_line_of_a_tree_and_has_the_name_of_its_threads() {
        let long = "abcdefghijklmno";
        let tree = |threads: &[Value]| cut(GroupBy::All, threads);
        let expected =
            |lines: &[(&str, bool)]| lines.iter().map(|(path, cut)| ((*path).to_owned(), *cut)).collect::<Vec<_>>();
        assert_eq!(
            tree(&[named(1, "p", long, false), named(2, "p", long, false)]),
            expected(&[("/", false), ("/ p", true)])
        );
        let two = tree(&[named(1, "p", long, false), named(2, "p", "b", false)]);
        assert_eq!(two, expected(&[("/", false), ("/ p", false), (&format!("/ p {long}"), true), ("/ p b", false)]));
        // A pattern is cut if any of its names may be.
        let similar =
            cut(GroupBy::Comm, &[named(1, "p", "abcdefghijkl-12", false), named(2, "p", "abcdefghijkl-3", false)]);
        assert_eq!(similar.iter().map(|(_, cut)| *cut).collect::<Vec<_>>(), [true]);
        let reversed =
            cut(GroupBy::Comm, &[named(1, "p", "abcdefghijkl-3", false), named(2, "p", "abcdefghijkl-12", false)]);
        assert_eq!(similar, reversed);
    }

    #[test]
    fn exact_names_and_literal_ones_are_groups_of_their_own() {
        let threads = [named(1, "p", "io-1", true), named(2, "p", "io-2", true)];
        assert_eq!(cut(GroupBy::Comm, &threads).len(), 1);
        assert_eq!(cut(GroupBy::CommExact, &threads).len(), 2);
        let literal = options(|all| {
            (all.grouping.axis, all.grouping.names) = (GroupBy::Comm, ctprof::compare::Names::Literal);
        });
        assert_eq!(show(&snapshot(&json!({}), &threads), &literal).sections[0].groups.len(), 3, "with all groups");
    }
}

mod gates {
    use super::*;
    use ctprof::compare::{Gate, GateOutcome, report};

    /// The outcomes of a gate on captures of two cgroups, of the host's pressure and of sched_ext.
    fn outcomes(gate: &str, baseline: u64, candidate: u64) -> Vec<GateOutcome> {
        let gate: Gate = gate.parse().unwrap();
        let options = options(|all| all.grouping.axis = GroupBy::Cgroup);
        let side = |value: u64| {
            let cgroups = json!({"/a": {"cpu": {"usage_usec": value}}, "/b": {"cpu": {"usage_usec": 10}}, "/c": {}});
            let psi = json!({"cpu": {"some": {"avg10": 1, "avg60": 0, "avg300": 0, "total_usec": value}}});
            let head =
                json!({"cgroup_stats": cgroups, "psi": psi, "sched_ext": {"state": "enabled", "nr_rejected": value}});
            let threads = ["/a", "/b", "/c"].map(|cgroup| process(1, "app", &json!({"cgroup": cgroup, "minflt": 1})));
            Runs::from(Digest::of_snapshot(&snapshot(&head, &threads), &options))
        };
        let sides = Sides::two(side(baseline), side(candidate));
        report(sides, &options, &[gate]).gates.into_iter().map(|result| result.outcome).collect()
    }

    #[test]
    fn a_gate_can_be_on_a_cgroup_on_all_cgroups_on_the_host_or_on_sched_ext() {
        use GateOutcome::{Failed, Passed};
        for (gate, most) in [
            ("/a:cpu.usage_usec>10%", 110),
            // With the 10 µs of the other cgroup, 10 % more are 11 µs.
            ("cpu.usage_usec>10%", 111),
            ("nr_rejected>10%", 110),
            ("cpu.some.total_usec>10%", 110),
        ] {
            assert_eq!([outcomes(gate, 100, most), outcomes(gate, 100, most + 1)], [[Passed], [Failed]], "{gate}");
        }
        assert_eq!(outcomes("/b:cpu.usage_usec>10%", 100, 900), [Passed]);
    }

    #[test]
    fn a_cgroup_that_only_one_side_has_used_nothing_on_the_other() {
        let options = options(|all| all.grouping.axis = GroupBy::Cgroup);
        let side = |cgroups: Value| {
            let threads = [process(1, "app", &json!({"cgroup": "/a"}))];
            Runs::from(Digest::of_snapshot(&snapshot(&json!({ "cgroup_stats": cgroups }), &threads), &options))
        };
        let outcome = |gate: &str, other: Value| {
            let used = json!({"/a": {"cpu": {"usage_usec": 7}}, "/new": {"cpu": {"usage_usec": 2000}}});
            let sides = Sides::two(side(other), side(used));
            report(sides, &options, &[gate.parse().unwrap()]).gates.remove(0).outcome
        };
        let others = json!({"/a": {"cpu": {"usage_usec": 7}}});
        assert_eq!(outcome("/new:cpu.usage_usec>1ms", others.clone()), GateOutcome::Failed);
        assert_eq!(outcome("/new:cpu.usage_usec>3ms", others), GateOutcome::Passed);
        for unknown in [json!({}), json!({"/a": {"memory": {"current": 7}}})] {
            assert!(
                matches!(outcome("/new:cpu.usage_usec>3ms", unknown), GateOutcome::Error(_)),
                "nobody knows what the baseline used"
            );
        }
    }

    #[test]
    fn a_cgroup_without_a_value_is_an_error() {
        for gate in ["/c:cpu.usage_usec>10%", "/a:memory.current>10%", "memory.current>10%"] {
            let [outcome] = outcomes(gate, 100, 900).try_into().unwrap();
            assert!(matches!(outcome, GateOutcome::Error(_)), "{gate}: {outcome:?}");
        }
    }

    #[test]
    fn a_bound_in_a_unit_is_on_amounts_of_a_run_and_one_in_points_on_shares_of_its_time() {
        // In windows of 10 and 20 s: 1 and 2 s of CPU time are as large a share, and twice as much.
        let side = |seconds: u64| {
            let fields = json!({"window": {"duration_ns": 10 * seconds * SECOND}});
            let threads = [process(1, "app", &json!({"run_time_ns": seconds * SECOND}))];
            Runs::from(Digest::of_snapshot(&snapshot(&fields, &threads), &CompareOptions::default()))
        };
        let outcome = |gate: &str| {
            let sides = Sides::two(side(1), side(2));
            report(sides, &CompareOptions::default(), &[gate.parse().unwrap()]).gates.remove(0).outcome
        };
        assert_eq!(outcome("app:run>10%"), GateOutcome::Passed, "a share of the time");
        assert_eq!(outcome("app:run>500ms"), GateOutcome::Failed);
        assert_eq!(outcome("app:run>1s"), GateOutcome::Passed);
        assert_eq!(outcome("app:run>1pp"), GateOutcome::Passed);
    }
}

mod runs {
    use super::*;

    fn digest(fields: &Value) -> Digest {
        Digest::of_snapshot(&snapshot(fields, &[]), &CompareOptions::default())
    }

    fn ran(status: i32) -> Value {
        json!({"window": {"duration_ns": 7, "command": {"elapsed_ns": 5, "status": status}}})
    }

    fn side(successes: usize, failures: usize) -> Runs {
        let mut side = Runs::default();
        (0..successes).for_each(|_| side.add(digest(&ran(0))));
        (0..failures).for_each(|_| side.add(digest(&ran(1))));
        side
    }

    #[test]
    fn at_most_a_tenth_of_the_commands_may_fail() {
        assert!(side(9, 1).checked().is_ok() && side(18, 2).checked().is_ok() && side(1, 0).checked().is_ok());
        let error = |successes, failures| side(successes, failures).checked().unwrap_err();
        assert_eq!(error(0, 0), RunsError::None);
        assert_eq!(error(8, 1), RunsError::Failed(1, 9));
        assert_eq!(error(0, 1), RunsError::Failed(1, 1));
    }

    #[test]
    fn only_windows_have_a_command_that_failed() {
        assert_eq!(side(0, 0).is_of_windows(), None);
        assert_eq!([side(0, 1), side(1, 0), side(1, 1)].map(|side| side.is_of_windows()), [Some(true); 3]);
        let mut captures = Runs::default();
        captures.add(digest(&json!({})));
        assert_eq!(captures.is_of_windows(), Some(false));
    }

    /// Whether runs that ended at these times are compared in pairs.
    fn are_pairs(baseline: &[u64], candidate: &[u64]) -> bool {
        let side = |times: &[u64]| {
            let mut side = Runs::default();
            for time in times {
                side.add(digest(&with(ran(0), &json!({"captured_at_unix_ns": time}))));
            }
            side
        };
        let sides = Sides::two(side(baseline), side(candidate));
        report(sides, &CompareOptions::default(), &[]).design == ctprof::statistics::Design::Paired
    }

    #[test]
    fn runs_in_turn_are_pairs_in_whichever_order_each_pair_was() {
        let (a, b) = ([10, 20, 30, 40, 50, 60], [11, 21, 29, 41, 49, 61]);
        assert!(are_pairs(&a, &b) && are_pairs(&b, &a));
        let mut shuffled = a;
        shuffled.reverse();
        assert!(are_pairs(&shuffled, &b), "files in any order");
        assert!(!are_pairs(&a[1..], &b[1..]), "five pairs are too few");
        assert!(!are_pairs(&a, &b[1..]) && are_pairs(&[&a[..], &[70]].concat(), &b), "the last run has no partner");
        assert!(!are_pairs(&[&a[..], &[70, 80]].concat(), &b), "too many have none");
        assert!(!are_pairs(&a, &[11, 21, 29, 50, 51, 61]), "a run at the time of the next pair");
        assert!(!are_pairs(&a, &[61, 62, 63, 64, 65, 66]), "one side after the other");
        assert!(!are_pairs(&a, &[10, 20, 30, 40, 60, 61]), "two pairs overlap");
    }

    #[test]
    fn runs_made_for_the_tree_are_those_of_the_other_groupings() {
        let of_run = |run: u64| {
            let thread = |tid: u32, comm: &str, cgroup: &str| json!({"tid": tid, "tgid": 1, "pcomm": "p", "comm": comm, "cgroup": cgroup, "minflt": run + u64::from(tid)});
            snapshot(&json!({}), &[thread(1, "a", "/x"), thread(2, "b", "/x"), thread(3, "a", "/y")])
        };
        for group_by in [GroupBy::Pcomm, GroupBy::Comm, GroupBy::Cgroup] {
            let rows = |made_for: GroupBy| {
                let side = || {
                    let mut side = Runs::default();
                    let options = options(|all| all.grouping.axis = made_for);
                    (0..4).for_each(|run| side.add(Digest::of_snapshot(&of_run(run), &options)));
                    if made_for == group_by { side } else { side.narrowed(group_by) }
                };
                let comparison = report(Sides::two(side(), side()), &options(|all| all.grouping.axis = group_by), &[]);
                let rows = comparison.sections.iter().flat_map(|table| {
                    table
                        .rows
                        .iter()
                        .map(|row| format!("{:?} {} {:?}", table.groups[row.group].key, row.name, row.values))
                });
                rows.collect::<Vec<_>>()
            };
            assert!(!rows(group_by).is_empty());
            assert_eq!(rows(GroupBy::All), rows(group_by), "{group_by:?}");
        }
    }

    #[test]
    fn a_value_that_one_run_counted_in_part_is_partial() {
        let compared = |lacks: [usize; 2]| {
            let side = |lacks: usize| {
                let mut side = Runs::default();
                for run in 0..4 {
                    let other = if run == lacks { json!({}) } else { json!({"run_time_ns": 5}) };
                    let threads = [process(1, "app", &json!({"run_time_ns": 5})), process(2, "app", &other)];
                    side.add(Digest::of_snapshot(&snapshot(&json!({}), &threads), &CompareOptions::default()));
                }
                side
            };
            let comparison = report(Sides::two(side(lacks[0]), side(lacks[1])), &CompareOptions::default(), &[]);
            let table = comparison.sections.iter().find(|table| table.section == Section::Primary).unwrap();
            let row = table.rows.iter().find(|row| row.name == "run_time_ns").unwrap();
            (row.partial, row.covered)
        };
        let whole = Sides::two(Some(2), Some(2));
        assert_eq!(compared([9, 9]), (false, whole));
        for run in 0..4 {
            assert_eq!(compared([run, 9]), (true, Sides { baseline: Some(1), ..whole }), "run {run}");
        }
    }
}

#[test]
fn a_comparison_of_single_captures_has_no_runs() {
    let one = || CtprofSnapshot::default();
    let comparison = compare(&one(), &one(), &CompareOptions::default());
    assert!(!comparison.is_repeated() && comparison.runs == Sides::two(1, 1));
}
