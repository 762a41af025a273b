//! Properties of all names and snapshots.

use std::collections::BTreeMap;

use ctprof::compare::{CompareOptions, Delta, GroupBy, Report, show};
use ctprof::model::Threads;
use ctprof::model::{METRICS, Metric, Metrics, Value as Held, WindowRule};
use ctprof::names::{cgroup_pattern, pattern_key};
use ctprof::report::{DisplayOptions, Terminal};
use ctprof::window::{self, EarlierThreads, Exits};
use ctprof::{CtprofSnapshot, ThreadState, compare, report};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Ordinary and hostile names.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,6}[-/:#_ ]?[0-9]{0,3}",
        "(worker|io|GC Thread)[-#]?[0-9]{1,2}",
        "\\PC{0,15}",
        Just("\u{1b}[31m\0\n".to_owned()),
    ]
}

/// A thread with some values, of any size.
fn thread() -> impl Strategy<Value = Value> {
    let number = prop_oneof![Just(0), 0..1000u64, any::<u64>()];
    let numbers = prop::collection::btree_map(
        prop::sample::select(vec![
            "run_time_ns",
            "wait_time_ns",
            "timeslices",
            "voluntary_csw",
            "nonvoluntary_csw",
            "wait_max",
            "wait_sum",
            "wait_count",
            "minflt",
            "rchar",
            "read_bytes",
            "allocated_bytes",
            "deallocated_bytes",
            "cpu_delay_count",
            "cpu_delay_total_ns",
            "cpu_delay_min_ns",
            "utime_clock_ticks",
            "nr_threads",
        ]),
        number,
        0..8,
    );
    let rest = (prop::option::of(-20..20i32), prop::option::of("[RSD]"), prop::option::of(any::<bool>()));
    let cpus = prop::option::of(prop::collection::btree_set(0..8u32, 0..4));
    (name(), name(), prop::option::of("(/[a-c]{1,2}){1,3}|/"), numbers, rest, cpus).prop_map(
        |(pcomm, comm, cgroup, numbers, (nice, state, ext), cpus)| {
            let mut thread = Map::new();
            thread.extend([("pcomm".to_owned(), json!(pcomm)), ("comm".to_owned(), json!(comm))]);
            thread.extend(numbers.into_iter().map(|(name, number)| (name.to_owned(), json!(number))));
            thread.insert("cgroup".to_owned(), json!(cgroup));
            thread.insert("nice".to_owned(), json!(nice));
            thread.insert("state".to_owned(), json!(state));
            thread.insert("ext_enabled".to_owned(), json!(ext));
            thread.insert("cpu_affinity".to_owned(), json!(cpus));
            Value::Object(thread)
        },
    )
}

fn snapshot() -> impl Strategy<Value = CtprofSnapshot> {
    snapshot_of(thread(), 12)
}

fn snapshot_of(thread: impl Strategy<Value = Value>, most: usize) -> impl Strategy<Value = CtprofSnapshot> {
    prop::collection::vec(thread, 0..most).prop_map(|mut threads| {
        for (at, thread) in threads.iter_mut().enumerate() {
            thread["tid"] = json!(at + 1);
            thread["tgid"] = json!(at / 3 * 3 + 1);
        }
        serde_json::from_value(json!({ "format_version": 2, "threads": threads })).unwrap()
    })
}

/// A thread whose metrics often have the same value.
fn even_thread() -> impl Strategy<Value = Value> {
    (1..4u64).prop_flat_map(|usual| {
        let value = |others: &[Value]| prop_oneof![6 => Just(json!(usual)), 1 => prop::sample::select(others.to_vec())];
        let wide = || value(&[json!(null), json!(0), json!(u64::MAX)]);
        let narrow = || value(&[json!(null), json!(0)]);
        let values = (wide(), wide(), wide(), wide(), narrow(), narrow(), wide(), wide(), narrow());
        values.prop_map(|(wait, delay, min, slices, real_time, priority, start, read, alive)| {
            let mut thread = json!({
                "wait_time_ns": wait, "cpu_delay_total_ns": delay, "cpu_delay_min_ns": min, "timeslices": slices,
                "rt_priority": real_time, "priority": priority, "start_time_clock_ticks": start, "read_at_ns": read,
            });
            if !alive.is_null() {
                thread["alive_ns"] = alive;
            }
            thread
        })
    })
}

/// Captures of one boot, a second apart. Some of the threads are in all of them.
fn captures(number: usize) -> impl Strategy<Value = Vec<CtprofSnapshot>> {
    let sides = prop::collection::vec(snapshot(), number);
    sides.prop_map(|mut captures| {
        for (second, snapshot) in captures.iter_mut().enumerate() {
            let ns = 1_000_000_000 * (second as u64 + 1);
            let host = json!({"boot_id": "b", "uptime_ns": ns, "clock_ticks_per_second": 100});
            snapshot.head.host = serde_json::from_value(host).unwrap();
            snapshot.head.captured_at_unix_ns = ns;
            for thread in &mut snapshot.threads {
                thread.start_time_clock_ticks = Some(u64::from(thread.tid % 4) * 90);
            }
        }
        captures
    })
}

/// The counter's value, if there is one.
fn count(metric: &Metric, metrics: &Metrics) -> Option<u64> {
    match metric.get(metrics) {
        Some(Held::Unsigned(count)) => Some(count),
        _ => None,
    }
}

fn counters() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(|metric| metric.window == WindowRule::Increase)
}

/// The captures, with counters that go on where they were in the capture before.
fn counting_on(mut captures: Vec<CtprofSnapshot>) -> Vec<CtprofSnapshot> {
    for later in 1..captures.len() {
        let before = captures[later - 1].threads.clone();
        for (earlier, thread) in before.iter().zip(&mut captures[later].threads) {
            for metric in counters() {
                if let Some(counted_before) = count(metric, &earlier.metrics) {
                    let more = count(metric, &thread.metrics).unwrap_or(0);
                    metric.set(&mut thread.metrics, Held::Unsigned(counted_before.saturating_add(more))).unwrap();
                }
            }
        }
    }
    captures
}

/// The threads alive at both ends of a window.
fn alive_throughout(window: &CtprofSnapshot) -> impl Iterator<Item = &ThreadState> {
    window
        .threads
        .iter()
        .filter(|thread| thread.exited_work.is_none() && thread.span.is_some_and(|span| !span.started && !span.exited))
}

fn by(group_by: GroupBy) -> CompareOptions {
    let mut options = CompareOptions::default();
    options.grouping.axis = group_by;
    options
}

const AXES: [GroupBy; 5] = [GroupBy::Pcomm, GroupBy::Comm, GroupBy::CommExact, GroupBy::Cgroup, GroupBy::All];

/// The numeric deltas of a comparison, by section, group and metric.
fn deltas(comparison: &Report) -> BTreeMap<(String, Vec<String>, String), i128> {
    let mut deltas = BTreeMap::new();
    for table in &comparison.sections {
        for row in &table.rows {
            if let Some(Delta::Number(delta)) = row.delta() {
                let place =
                    (table.section.name().to_owned(), table.groups[row.group].key.clone(), row.name.to_string());
                deltas.insert(place, delta);
            }
        }
    }
    deltas
}

/// The threads of a file with all their values by name, as docs/format.md describes it for other tools.
fn expanded(mut file: Value) -> Value {
    let mut usual = file.as_object_mut().unwrap().remove("usual").unwrap_or(json!({}));
    let columns = usual.as_object_mut().unwrap().remove("columns").unwrap_or(json!([]));
    for thread in file["threads"].as_array_mut().unwrap() {
        let own = thread.as_object_mut().unwrap();
        let listed = own.remove("values").unwrap_or(json!([]));
        let mut whole = usual.as_object().unwrap().clone();
        for (names, value) in columns.as_array().unwrap().iter().zip(listed.as_array().unwrap()) {
            for name in names.as_array().unwrap() {
                whole.insert(name.as_str().unwrap().to_owned(), value.clone());
            }
        }
        whole.append(own);
        whole.retain(|_, value| !value.is_null());
        *thread = Value::Object(whole);
    }
    file
}

/// The snapshot that a file of this one holds, for the parallel reader, the sequential one, and other tools.
fn stored(snapshot: &CtprofSnapshot) -> [CtprofSnapshot; 3] {
    let file = tempfile::NamedTempFile::new().unwrap();
    snapshot.write(file.path()).unwrap();
    let read = CtprofSnapshot::load(file.path()).unwrap();
    let json = String::from_utf8(zstd::decode_all(std::fs::File::open(file.path()).unwrap()).unwrap()).unwrap();
    std::fs::write(file.path(), json.replace('\n', "")).unwrap();
    let whole = serde_json::from_value(expanded(serde_json::from_str(&json).unwrap())).unwrap();
    [read, CtprofSnapshot::load(file.path()).unwrap(), whole]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn files_hold_any_snapshot(mixed in snapshot(), even in snapshot_of(even_thread(), 100)) {
        for snapshot in [mixed, even] {
            for read in stored(&snapshot) {
                prop_assert_eq!(&read, &snapshot);
            }
        }
    }

    #[test]
    fn patterns_are_their_own_patterns(name in name()) {
        let pattern = pattern_key(&name);
        prop_assert_eq!(pattern_key(&pattern), pattern.clone());
        let path = cgroup_pattern(&name);
        prop_assert_eq!(cgroup_pattern(&path), path.clone());
    }

    #[test]
    fn nothing_changes_between_a_snapshot_and_itself(a in snapshot(), axis in select(&AXES)) {
        for table in compare(&a, &a, &by(axis)).sections {
            prop_assert!(table.rows.iter().all(|row| row.change >= Some(ctprof::compare::Change::Unchanged)));
        }
    }

    #[test]
    fn swapping_the_sides_negates_every_delta(a in snapshot(), b in snapshot()) {
        for axis in [GroupBy::Pcomm, GroupBy::Comm, GroupBy::CommExact] {
            let (forward, backward) = (deltas(&compare(&a, &b, &by(axis))), deltas(&compare(&b, &a, &by(axis))));
            let negated: BTreeMap<_, _> = backward.into_iter().map(|(place, delta)| (place, -delta)).collect();
            prop_assert_eq!(forward, negated);
        }
    }

    #[test]
    fn totals_do_not_depend_on_the_order_of_threads(a in snapshot(), axis in select(&AXES)) {
        let mut reversed = a.clone();
        reversed.threads.reverse();
        let json = |snapshot| {
            let (view, mut out) = (show(snapshot, &by(axis)), Vec::new());
            report::write_json(&mut out, &view, &DisplayOptions::default()).unwrap();
            serde_json::from_slice::<Value>(&out).unwrap()["rows"].clone()
        };
        prop_assert_eq!(json(&a), json(&reversed));
    }

    #[test]
    fn nothing_happens_between_a_snapshot_and_itself(captures in captures(1)) {
        let window = window::between(captures[0].clone(), captures[0].clone()).unwrap();
        prop_assert_eq!(alive_throughout(&window).count(), captures[0].threads.len());
        for thread in &window.threads {
            prop_assert!(counters().all(|metric| count(metric, &thread.metrics).is_none_or(|count| count == 0)));
        }
    }

    #[test]
    fn consecutive_windows_add_up_to_the_whole(captures in captures(3)) {
        let [a, b, c] = counting_on(captures).try_into().unwrap();
        let between = |from: &CtprofSnapshot, to: &CtprofSnapshot| window::between(from.clone(), to.clone()).unwrap();
        let (first, second, whole) = (between(&a, &b), between(&b, &c), between(&a, &c));
        for thread in alive_throughout(&whole) {
            let part = |window| alive_throughout(window).find(|part| part.id() == thread.id());
            let (Some(first), Some(second)) = (part(&first), part(&second)) else { continue };
            for metric in counters() {
                let parts = count(metric, &first.metrics).zip(count(metric, &second.metrics));
                if let Some((first, second)) = parts {
                    prop_assert_eq!(count(metric, &thread.metrics), Some(first + second), "{}", metric.name);
                }
            }
        }
    }

    #[test]
    fn no_increase_exceeds_the_later_value(captures in captures(2)) {
        let [a, b] = captures.try_into().unwrap();
        let window = window::between(a, b.clone()).unwrap();
        for thread in window.threads.iter().filter(|thread| !thread.span.is_some_and(|span| span.exited)) {
            let later = b.threads.iter().find(|later| later.id() == thread.id()).unwrap();
            for metric in counters() {
                prop_assert!(count(metric, &thread.metrics) <= count(metric, &later.metrics), "{}", metric.name);
            }
        }
    }

    #[test]
    fn a_window_made_in_parts_is_the_whole(captures in captures(2), cuts in (0..13usize, 0..13usize)) {
        let [mut a, mut b] = captures.try_into().unwrap();
        let whole = window::between(a.clone(), b.clone()).unwrap();
        let (mut before, mut after) = (std::mem::take(&mut a.threads), std::mem::take(&mut b.threads));
        let rest = before.split_off(cuts.0.min(before.len()));
        let mut earlier = EarlierThreads::of_threads(before);
        earlier.append(EarlierThreads::of_threads(rest));
        let mut join = window::join(&a.head, earlier, &b.head, &Vec::new(), window::JoinedValues::Increases).unwrap();
        let mut part = join.another();
        let rest = after.split_off(cuts.1.min(after.len()));
        after.into_iter().for_each(|thread| join.add(thread));
        rest.into_iter().for_each(|thread| part.add(thread));
        join.append(part);
        let mut ends = join.finish(&b.head, &Exits::default());
        ends.threads.sort_by_key(ThreadState::id);
        prop_assert_eq!((ends.threads, Some(ends.window)), (whole.threads, whole.head.window));
    }

    #[test]
    fn no_format_prints_what_is_no_number_or_steers_a_terminal(a in snapshot(), b in snapshot(), axis in select(&AXES)) {
        let comparison = compare(&a, &b, &by(axis));
        let view = show(&a, &by(axis));
        let selection = DisplayOptions::default();
        for report in [comparison, view] {
            let mut out = Vec::new();
            for width in [None, Some(60)] {
                let terminal = Terminal { width, ..Terminal::default() };
                report::write_table(&mut out, &report, &selection, terminal).unwrap();
            }
            report::write_markdown(&mut out, &report, &selection).unwrap();
            report::write_csv(&mut out, &report, &selection).unwrap();
            report::write_json(&mut out, &report, &selection).unwrap();
            clean(&out)?;
        }
    }
}

/// No NUL, no escape sequence, and no NaN.
fn clean(out: &[u8]) -> Result<(), TestCaseError> {
    prop_assert!(!out.contains(&0) && !out.contains(&0x1b));
    let text = std::str::from_utf8(out).unwrap();
    let words = text.split(|c: char| c.is_whitespace() || ",:|".contains(c));
    for word in words {
        prop_assert!(!matches!(word.trim_start_matches(['-', '+', '−']), "NaN" | "inf" | "NaN%" | "inf%"), "{word}");
    }
    Ok(())
}
