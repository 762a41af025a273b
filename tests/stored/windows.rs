//! Captures, records of exits and their windows for tests.
#![allow(dead_code, reason = "every test needs some of them")]

use ctprof::model::{ExitRecords, RecordedCommand};
use ctprof::window::{EarlierThreads, ExitedThread, Exits, Recording, recorded};
use ctprof::{CtprofSnapshot, ThreadState};
use serde_json::{Value, json};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MS: u64 = 1_000_000;

/// An object with the fields of both.
pub(crate) fn with(mut object: Value, fields: &Value) -> Value {
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

/// A snapshot some seconds after boot.
pub(crate) fn snapshot(second: u64, threads: &[Value]) -> CtprofSnapshot {
    snapshot_with(second, threads, &json!({}))
}

pub(crate) fn snapshot_with(second: u64, threads: &[Value], fields: &Value) -> CtprofSnapshot {
    let ns = second * SECOND;
    let host = json!({"boot_id": "b", "uptime_ns": ns, "clock_ticks_per_second": 100, "online_cpus": 2});
    let whole = json!({"format_version": 1, "captured_at_unix_ns": ns, "host": host, "threads": threads});
    serde_json::from_value(with(whole, fields)).unwrap()
}

/// A thread that started some seconds after boot.
pub(crate) fn thread(tgid: u32, tid: u32, start_second: u64, fields: &Value) -> Value {
    let ids = json!({"tgid": tgid, "tid": tid, "start_time_clock_ticks": start_second * 100});
    with(with(ids, &json!({"pcomm": format!("p{tgid}"), "comm": format!("p{tgid}")})), fields)
}

/// The only thread of a process, with counters of the process.
pub(crate) fn process(pid: u32, start_second: u64, ran_ns: u64, ppid: u32, counters: &Value) -> Value {
    let own = json!({"ppid": ppid, "utime_clock_ticks": ran_ns / (10 * MS), "stime_clock_ticks": 0});
    thread(pid, pid, start_second, &json!({"run_time_ns": ran_ns, "process": with(own, counters)}))
}

/// The threads of a window as JSON.
pub(crate) fn rows(window: &CtprofSnapshot) -> Vec<Value> {
    window.threads.iter().map(|thread| json!(thread)).collect()
}

/// The threads with this id that are not exited work.
pub(crate) fn rows_of(window: &CtprofSnapshot, tid: u32) -> Vec<Value> {
    rows(window).into_iter().filter(|row| row["tid"] == tid && row["exited_work"].is_null()).collect()
}

/// The only thread with this id.
pub(crate) fn row(window: &CtprofSnapshot, tid: u32) -> Value {
    let [row] = rows_of(window, tid).try_into().unwrap_or_else(|rows| panic!("not one {tid}: {rows:?}"));
    row
}

/// Exited work of a process: `threads` or `children`; null if there is none.
pub(crate) fn exited(window: &CtprofSnapshot, pid: u32, kind: &str) -> Value {
    rows(window).into_iter().find(|row| row["tgid"] == pid && row["exited_work"] == kind).unwrap_or_default()
}

/// CPU time of exited work, by process and kind.
pub(crate) fn exited_run(window: &CtprofSnapshot) -> Vec<(u64, String, u64)> {
    let is_exited = |row: &Value| !row["exited_work"].is_null();
    let part = |row: Value| {
        let kind = row["exited_work"].as_str().unwrap().to_owned();
        (row["tgid"].as_u64().unwrap(), kind, row["run_time_ns"].as_u64().unwrap() / MS)
    };
    rows(window).into_iter().filter(is_exited).map(part).collect()
}

/// The window of two snapshots with records of exited threads, and of a command that process 9 ran.
pub(crate) fn with_records(a: CtprofSnapshot, b: CtprofSnapshot, records: &[ExitedThread]) -> CtprofSnapshot {
    let each = |add: &mut dyn FnMut(ExitedThread)| records.iter().cloned().for_each(add);
    let mut summary = ExitRecords::default();
    summary.source = "bpf".to_owned();
    summary.received = records.len().try_into().unwrap();
    record(a, b, Exits { summary: Some(summary), each: Some(&each), ..Exits::default() })
}

pub(crate) fn record(a: CtprofSnapshot, b: CtprofSnapshot, exits: Exits<'_>) -> CtprofSnapshot {
    let mut recording = Recording::default();
    (recording.exits, recording.recorder) = (exits, Some(9));
    recording.command = Some(RecordedCommand::default());
    recorded(&a.head, EarlierThreads::of_threads(a.threads), b, recording).unwrap()
}

/// The record of a thread that started and exited some seconds after boot.
pub(crate) fn exit(tgid: u32, tid: u32, ppid: u32, (start, end): (u64, u64), fields: &Value) -> ExitedThread {
    let names = json!({"comm": format!("t{tid}")});
    let state = thread(tgid, tid, start, &with(names, fields));
    let state: ThreadState = serde_json::from_value(state).unwrap();
    ExitedThread {
        state,
        ppid,
        started_monotonic_ns: start * SECOND,
        elapsed_ns: (end - start) * SECOND,
        ..ExitedThread::default()
    }
}

pub(crate) fn ran(ms: u64) -> Value {
    json!({"run_time_ns": ms * MS, "utime_clock_ticks": ms / 10, "stime_clock_ticks": 0})
}

/// Two captures whose monotonic clock is known.
pub(crate) fn sides(a: &[Value], b: &[Value]) -> (CtprofSnapshot, CtprofSnapshot) {
    let side = |second: u64, threads: &[Value]| {
        let clocks = json!({"monotonic_ns": second * SECOND, "boottime_ns": second * SECOND});
        snapshot_with(second, threads, &json!({"capture": clocks}))
    };
    (side(10, a), side(15, b))
}
