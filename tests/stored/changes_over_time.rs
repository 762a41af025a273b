//! Promises to users about reports on series.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ctprof::model::{CaptureInfo, ExitRecords, ExitedThread, HostContext, Reasons, SeriesInfo};
use ctprof::series::{Moment, StepExits};
use ctprof::store::{OutputTarget, SeriesWriter};
use ctprof::{CtprofSnapshot, ThreadState};
use serde_json::{Value, json};

use crate::stored::program::printed;

const SECOND: u64 = 1_000_000_000;
/// 2023-11-14 22:13:20 UTC.
const START: u64 = 1_700_000_000 * SECOND;

/// A capture at this second: `early` runs half of each of the first four seconds, `late` all of the others.
pub(crate) fn capture(second: u64) -> CtprofSnapshot {
    let mut snapshot = CtprofSnapshot::default();
    let (mut capture, mut host) = (CaptureInfo::default(), HostContext::default());
    let now = Some((second + 100) * SECOND);
    (capture.monotonic_ns, capture.boottime_ns, capture.walk_ns) = (now, now, Some(0));
    (host.boot_id, host.hostname) = (Some("b".to_owned()), Some("vm".to_owned()));
    let head = &mut snapshot.head;
    (head.series, head.format_version) = (Some(SeriesInfo::default()), Some(3));
    (head.capture, head.host) = (Some(capture), Some(host));
    head.captured_at_unix_ns = START + second * SECOND;
    let threads = [("early", second.min(4) * SECOND / 2), ("late", second.saturating_sub(4) * SECOND)];
    for (tid, (name, run)) in (1..).zip(threads) {
        let mut thread = ThreadState::default();
        (thread.tid, thread.tgid, thread.pcomm, thread.comm) = (tid, tid, name.into(), name.into());
        thread.start_time_clock_ticks = Some(0);
        (thread.metrics.run_time_ns, thread.metrics.wait_time_ns) = (Some(run.into()), Some((run / 10).into()));
        snapshot.threads.push(thread);
    }
    snapshot
}

/// Writes a series of so many steps of a second.
pub(crate) fn series(directory: &Path, steps: u64) -> String {
    series_of(directory, steps, capture)
}

/// The same with reasons: `early` waits while `late` runs, and `late` while it runs itself.
pub(crate) fn sampled_series(directory: &Path, steps: u64) -> String {
    let reasons = |second: u64| match second {
        ..=4 => [("early", "run", None, SECOND / 2), ("early", "wait", Some("late"), SECOND / 20)],
        _ => [("late", "run", None, SECOND), ("late", "wait", Some("late"), SECOND / 10)],
    };
    series_with(directory, steps, capture, |second| Some(sampled(&reasons(second))))
}

/// The same, and while `late` runs, `early` sleeps through whole steps: on what `late` holds, as it did before.
pub(crate) fn sleeping_series(directory: &Path, steps: u64) -> String {
    let reasons = |second: u64| match second {
        ..=4 => [("early", "run", None, SECOND / 2), ("early", "sleep", Some("late"), SECOND / 2)],
        _ => [("late", "run", None, SECOND), ("early", "idle", Some("late"), SECOND)],
    };
    series_with(directory, steps, capture, |second| Some(sampled(&reasons(second))))
}

/// Reasons of groups: names, classes, who ran instead, and times.
fn sampled(times: &[(&str, &str, Option<&str>, u64)]) -> Box<Reasons> {
    let thread = |name: &str| json!({"pcomm": name, "comm": name, "cgroup": "/"});
    let reason = |class: &str, by: Option<&str>| match by {
        Some(by) => json!({"class": class, "functions": [], "by": thread(by)}),
        None => json!({"class": class, "functions": []}),
    };
    let names: BTreeSet<_> = times.iter().map(|time| time.0).collect();
    let threads = |time: &(&str, _, _, u64)| names.iter().position(|name| *name == time.0);
    let time =
        |(place, time): (usize, &(&str, _, _, u64))| json!([threads(time), place, time.3, 1 + time.3 / (SECOND / 50)]);
    let reasons = json!({"sampling": {"source": "bpf", "passes": 50, "samples": 100, "period_ns": SECOND / 50},
        "threads": names.iter().map(|name| thread(name)).collect::<Vec<_>>(),
        "reasons": times.iter().map(|time| reason(time.1, time.2)).collect::<Vec<_>>(),
        "times": times.iter().enumerate().map(time).collect::<Vec<_>>()});
    Box::new(serde_json::from_value(reasons).unwrap())
}

pub(crate) fn series_of(directory: &Path, steps: u64, capture: impl Fn(u64) -> CtprofSnapshot) -> String {
    series_with(directory, steps, capture, |_| None)
}

fn series_with(
    directory: &Path,
    steps: u64,
    capture: impl Fn(u64) -> CtprofSnapshot,
    reasons: impl Fn(u64) -> Option<Box<Reasons>>,
) -> String {
    let path = directory.join("s.ctprof.zst");
    let mut moment = Moment::new(capture(0));
    let mut file = SeriesWriter::create(OutputTarget::create(&path).unwrap(), &capture(0), 1 << 28).unwrap();
    for second in 1..=steps {
        let mut step = moment.advance(capture(second), &StepExits::default()).0;
        step.reasons = reasons(second);
        file.add(step, &moment).unwrap();
    }
    file.finish().unwrap();
    path.to_str().unwrap().to_owned()
}

/// For tests of `export`: writes a segment of a series with the steps between these seconds, the last of which is below 40.
#[cfg(feature = "parquet")]
pub(crate) fn segment(directory: &Path, seconds: std::ops::Range<u64>) -> std::path::PathBuf {
    let file = series_of(directory, seconds.end - seconds.start, |second| capture(seconds.start + second));
    let segment = directory.join(format!("20231114T2213{}.000Z-b.segment.ctprof.zst", 20 + seconds.start));
    std::fs::rename(file, &segment).unwrap();
    segment
}

/// What ctprof does with a file as its standard input, through a pipe.
fn piped(file: &str, arguments: &[&str]) -> Output {
    let mut cat = Command::new("cat").arg(file).stdout(Stdio::piped()).spawn().unwrap();
    let mut ctprof = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    let output = ctprof.args(arguments).stdin(cat.stdout.take().unwrap()).output().unwrap();
    cat.wait().unwrap();
    output
}

#[test]
fn a_series_on_standard_input_is_that_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = series(directory.path(), 10);
    for (part, options) in [
        ("", &["--format", "csv"][..]),
        ("@2s..6s", &["--format", "csv"]),
        ("", &["--steps"]),
        ("@2s..6s", &["--steps"]),
    ] {
        let arguments =
            |path: &str| [options, &["--", path]].concat().iter().map(ToString::to_string).collect::<Vec<_>>();
        let of = |path: &str| [vec!["show".to_owned()], arguments(&format!("{path}{part}"))].concat();
        let expected = of(&file);
        let expected = printed(&expected.iter().map(String::as_str).collect::<Vec<_>>());
        for path in ["-", "/dev/stdin"] {
            let from_pipe = of(path);
            let output = piped(&file, &from_pipe.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{from_pipe:?}: {output:?}");
        }
    }
}

#[test]
fn a_part_that_begins_when_a_step_is_said_to_begin_begins_with_that_step() {
    let directory = tempfile::tempdir().unwrap();
    for ms in [0, 176, 499, 500, 824, 999] {
        let file = series_of(directory.path(), 5, |second| {
            let mut capture = capture(second);
            capture.head.captured_at_unix_ns += ms * 1_000_000;
            capture
        });
        let begins = |file: &str| {
            let shown = printed(&["show", "--steps", file]);
            let begin =
                |line: &str| line.get(.."22:13:20".len()).filter(|text| text.starts_with("22:13:"))?.parse().ok();
            shown.lines().filter_map(begin).collect::<Vec<String>>()
        };
        let all = begins(&file);
        assert_eq!(all.len(), 5, "{ms}");
        for (place, begin) in all.iter().enumerate() {
            assert_eq!(begins(&format!("{file}@{begin}..")), all[place..], "{ms}");
        }
    }
}

#[test]
fn a_part_without_a_step_is_wrong_usage_and_one_within_a_step_says_which() {
    let directory = tempfile::tempdir().unwrap();
    let file = series(directory.path(), 10);
    let covers = "The series is from 0s to 10.0s, or from 2023-11-14T22:13:20.0Z to 2023-11-14T22:13:30.0Z";
    for (part, why) in [
        ("5s..5s", "it does not end after it begins"),
        ("10s..5s", "it does not end after it begins"),
        ("20s..30s", "it has no step"),
    ] {
        let path = format!("{file}@{part}");
        for arguments in [&["show", &path][..], &["show", "--steps", &path], &["compare", &file, &path]] {
            let refused = crate::stored::program::run(arguments);
            let error = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{error}");
            assert_eq!(error, format!("ctprof: {file} has no part {part}: {why}. {covers}\n"));
        }
    }
    let shown = crate::stored::program::run(&["show", &format!("{file}@2.1s..2.3s")]);
    let note = "s.ctprof.zst: 2.1s..2.3s is less than a step; the whole step 2.0s..3.0s is shown";
    assert!(String::from_utf8_lossy(&shown.stderr).contains(note), "{shown:?}");
}

#[test]
fn values_over_time_have_the_times_of_their_parts() {
    let directory = tempfile::tempdir().unwrap();
    let json: Value =
        serde_json::from_str(&printed(&["show", &series(directory.path(), 10), "--format", "json"])).unwrap();
    let trend = &json["trend"];
    let starts: Vec<u64> = (0..10).map(|second| START + second * SECOND).collect();
    assert_eq!(trend["started_at_unix_ns"], serde_json::json!(starts));
    assert_eq!(trend["duration_ns"], serde_json::json!(vec![SECOND; 10]));
    let late = trend["groups"].as_array().unwrap().iter().find(|group| group["path"][0] == "late").unwrap();
    assert_eq!(late["values"].as_array().unwrap().iter().filter(|value| **value == 100.0).count(), 6, "{late}");
}

#[test]
fn steps_and_values_over_time_have_all_threads_of_a_group_also_those_that_slept() {
    let directory = tempfile::tempdir().unwrap();
    let file = series(directory.path(), 6);
    let steps = printed(&["show", "--steps", &file, "--format", "csv", "--metrics", "run,sleep", "--only", "early"]);
    let last: Vec<&str> = steps.lines().last().unwrap().split(',').collect();
    // Group, threads, run and sleep.
    assert_eq!([2, 3, 4, 9].map(|column| last[column]), ["early", "1", "0.000000", "100.000000"], "{steps}");
    let json: Value = serde_json::from_str(&printed(&["show", &file, "--format", "json"])).unwrap();
    let groups = json["trend"]["groups"].as_array().unwrap();
    let early = groups.iter().find(|group| group["path"][0] == "early").unwrap();
    assert_eq!(early["values"], serde_json::json!([50.0, 50.0, 50.0, 50.0, 0.0, 0.0]), "{early}");
}

#[test]
fn values_over_time_are_null_where_they_are_unknown_in_one_part_as_in_several() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v2-series-linux-6.18.ctprof");
    for (range, parts) in [("", 9), ("@0s..0.5s", 1)] {
        let json = printed(&["show", &format!("{FILE}{range}"), "--format", "json", "--sparkline", "alloc"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        let groups = json["trend"]["groups"].as_array().unwrap();
        let unknown = serde_json::json!(vec![Value::Null; parts]);
        assert!(!groups.is_empty() && groups.iter().all(|group| group["values"] == unknown), "{groups:?}");
    }
}

#[test]
fn steps_that_are_a_little_late_are_divided_into_parts_of_equal_length() {
    let directory = tempfile::tempdir().unwrap();
    let late = |second: u64| {
        let mut snapshot = capture(second);
        let head = snapshot.head.capture.as_mut().unwrap();
        let now = head.boottime_ns.map(|now| now + second * 7 % 10 * 1_000_000);
        (head.boottime_ns, head.monotonic_ns) = (now, now);
        snapshot
    };
    let file = series_of(directory.path(), 40, late);
    let json: Value = serde_json::from_str(&printed(&["show", &file, "--format", "json"])).unwrap();
    let lengths: Vec<f64> = serde_json::from_value(json["trend"]["duration_ns"].clone()).unwrap();
    assert!(lengths.len() == 20 && lengths.iter().all(|length| (1.9e9..2.1e9).contains(length)), "{lengths:?}");
}

#[test]
fn a_page_of_an_hour_of_steps_is_less_than_a_mebibyte() {
    let directory = tempfile::tempdir().unwrap();
    let page = printed(&["show", &series(directory.path(), 3600), "--format", "html"]);
    assert!(page.len() < 1 << 20, "{}", page.len());
    assert!(page.contains(r#""duration_ns":[15000000000,"#), "steps are merged");
}

#[test]
fn a_page_of_200_groups_with_their_reasons_is_less_than_two_mebibytes() {
    let directory = tempfile::tempdir().unwrap();
    let busy = |second: u64| {
        let mut snapshot = capture(second);
        snapshot.threads = (1..=200_u64).map(|number| thread(number, second)).collect();
        snapshot
    };
    let reasons = |second: u64| {
        let threads: Vec<_> = (1..=200).map(|number| thread(number, second).pcomm).collect();
        let mut times = Vec::new();
        for (place, further) in (0..200).flat_map(|place| (1..=5).map(move |further| (place, further))) {
            let time = (second * 7919 + u64::try_from(place * further).unwrap() * 104_729) % 10_007 * 6_997;
            times.push((&*threads[place], "wait", Some(&*threads[(place + further) % 200]), time));
        }
        Some(sampled(&times))
    };
    let page = printed(&["show", &series_with(directory.path(), 240, busy, reasons), "--format", "html"]);
    assert!(page.len() < 2 << 20, "{}", page.len());
    let left = page.split_once("\"groups_without_reasons\":").unwrap().1;
    assert!(left.starts_with("179"), "21 groups have all of their reasons: {}", &left[..20]);
}

/// A thread of its own group, with values that differ from second to second.
fn thread(number: u64, second: u64) -> ThreadState {
    let mut thread = ThreadState::default();
    (thread.tid, thread.tgid) = (u32::try_from(number).unwrap(), u32::try_from(number).unwrap());
    // A digit would make one group of all.
    let letters: String =
        [number / 26, number % 26].iter().map(|at| char::from(b'a' + u8::try_from(*at).unwrap())).collect();
    (thread.pcomm, thread.comm) = (format!("svc-{letters}").as_str().into(), format!("svc-{letters}").as_str().into());
    thread.start_time_clock_ticks = Some(0);
    let amount = (1..=second).map(|second| (second * 7919 + number * 104_729) % 10_007).sum::<u64>();
    let metrics = &mut thread.metrics;
    (metrics.run_time_ns, metrics.wait_time_ns) = (Some((amount * 9_973).into()), Some((amount * 7_001).into()));
    (metrics.utime_clock_ticks, metrics.stime_clock_ticks) = (Some((amount / 9).into()), Some((amount / 17).into()));
    (metrics.minflt, metrics.nonvoluntary_csw) = (Some((amount * 3).into()), Some(amount.into()));
    (metrics.read_bytes, metrics.write_bytes) = (Some((amount * 4_099).into()), Some((amount * 2_053).into()));
    thread
}

#[test]
fn a_trace_has_a_counter_per_group_and_column_which_is_zero_where_the_group_did_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = series(directory.path(), 10);
    let events: Vec<Value> = serde_json::from_str(&printed(&["show", &file, "--format", "perfetto"])).unwrap();
    let early = events.iter().find(|event| event["args"]["name"] == "early").unwrap();
    assert_eq!((&early["ph"], &early["name"]), (&"M".into(), &"process_name".into()));
    let of = |pid: &Value, name: &str| -> Vec<(u64, f64)> {
        let counters =
            events.iter().filter(|event| event["ph"] == "C" && event["pid"] == *pid && event["name"] == name);
        counters.map(|event| (event["ts"].as_u64().unwrap(), event["args"]["value"].as_f64().unwrap())).collect()
    };
    let at = |second: u64| (START + second * SECOND) / 1000;
    assert_eq!(of(&early["pid"], "run (%)"), [(at(0), 50.0), (at(4), 0.0)]);
    let host = events.iter().find(|event| event["args"]["name"] == "host").unwrap();
    assert_eq!(of(&host["pid"], "run (%)"), [(at(0), 50.0), (at(4), 100.0), (at(10), 0.0)]);
    let times: Vec<_> = events.iter().filter_map(|event| event["ts"].as_u64()).collect();
    assert!(times.is_sorted(), "in the order of time");
    let refused = crate::stored::program::run(&["show", "tests/fixtures/ktstr-a.ctprof.zst", "--format", "perfetto"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("has no steps; `ctprof record --every` records them"));
    let refused = crate::stored::program::run(&["compare", &file, &file, "--format", "perfetto"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--format perfetto has the steps of a series"));
}

#[test]
fn processes_that_started_and_exited_have_their_run_time_over_time_on_every_axis() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.ctprof.zst");
    // From 0.5 to 2.5 seconds after the beginning.
    let brief = |second: u64| {
        [50, 51].map(|tid| {
            let mut thread = ThreadState::default();
            (thread.tid, thread.tgid, thread.pcomm, thread.comm) = (tid, tid, "brief".into(), "brief".into());
            (thread.start_time_clock_ticks, thread.metrics.run_time_ns) =
                (Some(10_050), Some((second * SECOND / 4).into()));
            thread
        })
    };
    let mut moment = Moment::new(capture(0));
    let mut file = SeriesWriter::create(OutputTarget::create(&path).unwrap(), &capture(0), 1 << 28).unwrap();
    for second in 1..=4 {
        let (mut snapshot, mut exits) = (capture(second), StepExits::default());
        exits.records = Some(ExitRecords::default());
        snapshot.threads.extend(brief(second).into_iter().filter(|_| second < 3));
        exits.each.extend(brief(3).into_iter().filter(|_| second == 3).map(|state| {
            let mut exit = ExitedThread { state, ..ExitedThread::default() };
            (exit.started_monotonic_ns, exit.elapsed_ns) = (100 * SECOND + SECOND / 2, 2 * SECOND);
            exit
        }));
        file.add(moment.advance(snapshot, &exits).0, &moment).unwrap();
    }
    file.finish().unwrap();
    for axis in ["command", "pid", "tid"] {
        let report: Value =
            serde_json::from_str(&printed(&["show", path.to_str().unwrap(), "-g", axis, "-f", "json"])).unwrap();
        let of = |rows: &Value| rows.as_array().unwrap().iter().find(|row| row["path"] == json!(["brief"])).cloned();
        assert!(of(&report["rows"]).is_some(), "{axis}: one row, by their name");
        let trend = of(&report["trend"]["groups"]).map(|trend| trend["values"].clone());
        assert_eq!(trend, Some(json!([50.0, 50.0, 50.0, 0.0])), "{axis}");
    }
}

#[test]
fn options_that_steps_do_not_have_are_refused() {
    let fixture = "tests/fixtures/v2-series-linux-6.18.ctprof";
    for steps in [&["--steps"][..], &["--format", "perfetto"]] {
        for option in ["--why", "--why=python3", "--long", "--sections=primary", "--export=json=/nonexistent"] {
            let refused = crate::stored::program::run(&[&["show", fixture, option], steps].concat());
            assert_eq!(refused.status.code(), Some(2), "{steps:?} {option}");
            let said = String::from_utf8_lossy(&refused.stderr);
            assert!(said.contains(option.split('=').next().unwrap()), "{said}");
        }
    }
    let refused = crate::stored::program::run(&["show", fixture, "--steps", "--sparkline", "wait"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_command_that_is_advised_works() {
    let top = |file: &str| {
        let refused = crate::stored::program::run(&["top", file]);
        String::from_utf8_lossy(&refused.stderr).into_owned()
    };
    assert!(top("tests/fixtures/v2-series-linux-6.18.ctprof").contains("show --steps"));
    assert!(top("tests/fixtures/ktstr-a.ctprof.zst").contains("has no steps"));
    assert!(top("nope").contains("No such file"));
}

#[test]
fn a_selection_that_matches_no_group_of_any_step_is_an_error() {
    let steps = |only: &str| {
        let out = crate::stored::program::run(&[
            "show",
            "tests/fixtures/v2-series-linux-6.18.ctprof",
            "--steps",
            "--only",
            only,
        ]);
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    assert_eq!(steps("python3*"), (Some(0), String::new()), "not in every step");
    let (status, said) = steps("pyhton3");
    assert!(status == Some(1) && said.contains("no group matches `pyhton3`"), "{status:?} {said}");
}
