//! Promises to users about reports on series.

use std::path::Path;

use ctprof::model::{CaptureInfo, HostContext, SeriesInfo};
use ctprof::series::{Moment, StepExits};
use ctprof::store::{OutputTarget, SeriesWriter};
use ctprof::{CtprofSnapshot, ThreadState};
use serde_json::Value;

use crate::program::printed;

const SECOND: u64 = 1_000_000_000;
/// 2023-11-14 22:13:20 UTC.
const START: u64 = 1_700_000_000 * SECOND;

/// A capture at this second: `early` runs half of each of the first four seconds, `late` all of the others.
fn capture(second: u64) -> CtprofSnapshot {
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
    let path = directory.join("s.ctprof.zst");
    let mut moment = Moment::new(capture(0));
    let mut file = SeriesWriter::create(OutputTarget::create(&path).unwrap(), &capture(0), 1 << 24).unwrap();
    for second in 1..=steps {
        file.add(&moment.advance(capture(second), &StepExits::default()).0).unwrap();
    }
    file.finish().unwrap();
    path.to_str().unwrap().to_owned()
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
fn a_page_of_an_hour_of_steps_is_less_than_a_mebibyte() {
    let directory = tempfile::tempdir().unwrap();
    let page = printed(&["show", &series(directory.path(), 3600), "--format", "html"]);
    assert!(page.len() < 1 << 20, "{}", page.len());
    assert!(page.contains(r#""duration_ns":[15000000000,"#), "steps are merged");
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
    let refused = crate::program::run(&["show", "tests/fixtures/ktstr-a.ctprof.zst", "--format", "perfetto"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("has no steps; `ctprof record --every` records them"));
    let refused = crate::program::run(&["compare", &file, &file, "--format", "perfetto"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--format perfetto has the steps of a series"));
}
