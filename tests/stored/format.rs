//! docs/format.md is enough to read series of any length.

use std::path::Path;

use ctprof::model::{CaptureInfo, ExitedThread, HostContext, Reasons, SeriesInfo};
use ctprof::series::{Moment, StepExits};
use ctprof::store::{OutputTarget, SeriesWriter};
use ctprof::{CtprofSnapshot, ThreadState};
use serde_json::json;

use crate::format_reader;

const SECOND: u64 = 1_000_000_000;

fn thread(tid: u32, name: &str, started: u64, run_ns: u64) -> ThreadState {
    let mut thread = ThreadState::default();
    (thread.tid, thread.tgid, thread.pcomm, thread.comm) = (tid, tid, name.into(), name.into());
    thread.start_time_clock_ticks = Some(started * 100);
    (thread.metrics.run_time_ns, thread.metrics.voluntary_csw) = (Some(run_ns.into()), Some((run_ns / 7).into()));
    thread.metrics.state = Some('S');
    thread
}

/// One that is there for three of seven seconds, if it is at this one.
fn short(second: u64) -> Option<ThreadState> {
    let age = second % 7;
    (age < 3).then(|| thread(9, &format!("short-{}", second % 2), 100 + second - age, age * SECOND / 3))
}

fn capture(second: u64) -> CtprofSnapshot {
    let mut snapshot = CtprofSnapshot::default();
    let (mut capture, mut host) = (CaptureInfo::default(), HostContext::default());
    let now = Some((second + 100) * SECOND + SECOND / 2);
    (capture.monotonic_ns, capture.boottime_ns, capture.walk_ns) = (now, now, Some(0));
    (host.boot_id, host.hostname) = (Some("b".to_owned()), Some(format!("vm-{}", second / 5)));
    let head = &mut snapshot.head;
    (head.series, head.format_version) = (Some(SeriesInfo::default()), Some(4));
    (head.capture, head.host) = (Some(capture), Some(host));
    head.captured_at_unix_ns = 1_700_000_000 * SECOND + second * SECOND;
    let sleeper = thread(1, "sleeper", 0, 5);
    let runner = thread(2, "runner", 0, second * SECOND / 2);
    snapshot.threads.extend([sleeper, runner].into_iter().chain(short(second)));
    snapshot
}

fn exits(second: u64) -> StepExits {
    let exit = |mut state: ThreadState| {
        let start = state.start_time_clock_ticks.unwrap() / 100 * SECOND;
        state.metrics.run_time_ns = Some(SECOND.into());
        let mut exit = ExitedThread::default();
        (exit.state, exit.started_monotonic_ns, exit.elapsed_ns) = (state, start, 5 * SECOND / 2);
        exit
    };
    let each = (second % 7 == 3).then(|| short(second - 1)).flatten().map(exit).into_iter().collect();
    StepExits { records: Some(Default::default()), each, ..StepExits::default() }
}

/// `sleeper` has one reason in all steps but each tenth, `runner` has two.
fn reasons(second: u64) -> Option<Box<Reasons>> {
    let threads = json!([{"pcomm": "sleeper", "comm": "sleeper"}, {"pcomm": "runner", "comm": "runner"}]);
    let causes = json!([{"class": "sleep", "entry": "read"}, {"class": "run"}, {"class": "sleep", "entry": "poll"}]);
    let of_sleeper = if second.is_multiple_of(10) { json!([0, 2, SECOND, 50]) } else { json!([0, 0, SECOND, 50]) };
    let times = json!([of_sleeper, [1, 1, SECOND / 2, 25], [1, 2, SECOND / 2, 25]]);
    let sampling = json!({"source": "bpf", "passes": 50, "samples": 100, "period_ns": SECOND / 50});
    let all = json!({"sampling": sampling, "threads": threads, "reasons": causes, "times": times});
    Some(Box::new(serde_json::from_value(all).unwrap()))
}

#[test]
fn a_reader_of_the_documented_format_reads_any_part_of_a_series() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.ctprof.zst");
    let mut moment = Moment::new(capture(0));
    let mut file = SeriesWriter::create(OutputTarget::create(&path).unwrap(), &capture(0), 1 << 28).unwrap();
    for second in 1..=100 {
        let mut step = moment.advance(capture(second), &exits(second)).0;
        step.reasons = reasons(second);
        file.add(step, &moment).unwrap();
    }
    file.finish().unwrap();
    assert!(captures_in(&path) > 2, "parts are read from captures in the middle");
    let file = path.to_str().unwrap();
    format_reader::check(file, None, |_| true);
    for from in (0..95).step_by(19).map(f64::from) {
        [1.0, 4.6, 30.0]
            .into_iter()
            .for_each(|length| format_reader::check(file, Some([from, from + length]), |_| true));
    }
}

/// How many captures the file says that it has, after the first one.
fn captures_in(path: &Path) -> usize {
    let follows = [0x5C, 0x2A, 0x4D, 0x18, 8, 0, 0, 0];
    std::fs::read(path).unwrap().windows(follows.len()).filter(|bytes| *bytes == follows).count()
}
