//! The columns that every dataset has, so that queries about one dataset need no join.

use std::path::Path;
use std::sync::Arc;

use super::Column;
use super::column::columns;
use crate::model::{SnapshotHead, Value};

#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// BLAKE3 hash of the file or the segments, in hexadecimal digits, with the part of a series.
    pub(super) capture_id: String,
    pub(super) host: Option<String>,
    /// When it was captured, in nanoseconds since 1970. The end of a window.
    pub(super) captured_at_unix_ns: Option<u64>,
    pub(super) window_ns: Option<u64>,
    /// Number of the step, if the rows are a step of a series.
    pub(super) step: Option<u64>,
    /// How many captures like it it stands for.
    pub(super) weight: f64,
    /// The file or directory with the capture, for messages.
    pub(super) file: Arc<Path>,
}

impl Identity {
    pub(super) fn new(capture_id: String, head: &SnapshotHead, weight: f64, file: &Path) -> Self {
        Self {
            capture_id,
            host: head.host.as_ref().and_then(|host| host.hostname.clone()),
            captured_at_unix_ns: known_time(head.captured_at_unix_ns),
            window_ns: head.window.as_ref().map(|window| window.duration_ns),
            step: None,
            weight,
            file: file.into(),
        }
    }

    /// The identity of a step of this series. Each step has an id, so that joins by the id of a capture are joins by step.
    pub(super) fn of_step(&self, step: u64, head: &SnapshotHead) -> Self {
        let capture_id = format!("{}/{step}", self.capture_id);
        Self { step: Some(step), ..Self::new(capture_id, head, self.weight, &self.file) }
    }

    /// Returns the host, the time and the length of this step, which no other step has; `None` if this is no step.
    pub(super) fn step_time(&self) -> Option<StepTime> {
        let (host, time) = (self.host.clone(), self.microseconds());
        self.step.and(self.window_ns).map(|window_ns| StepTime { host, time, window_ns })
    }

    /// The time of the capture in microseconds, as files have it. That of a series is its start.
    pub(super) fn microseconds(&self) -> u64 {
        self.captured_at_unix_ns.unwrap_or_default() / 1000
    }

    /// The order of captures, whatever the order and the names of their files.
    pub(super) fn order(&self) -> (Option<&str>, Option<u64>) {
        (self.host.as_deref(), self.captured_at_unix_ns)
    }
}

/// The host and the time of a step: the same in all parts of a series that have the step.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepTime {
    pub(super) host: Option<String>,
    /// The end of the step in microseconds since 1970: files have no more digits.
    pub(super) time: u64,
    pub(super) window_ns: u64,
}

/// The id of the file of a capture: the steps of a series share it.
pub(super) fn id_of_file(capture_id: &str) -> &str {
    capture_id.split('/').next().unwrap_or_default()
}

/// A wall clock time of a file, in nanoseconds since 1970; 0 is unknown.
pub(super) fn known_time(unix_ns: u64) -> Option<u64> {
    Some(unix_ns).filter(|ns| *ns > 0)
}

/// The value of a column of times.
pub(super) fn microseconds(unix_ns: u64) -> Value<'static> {
    (unix_ns / 1000).into()
}

pub(super) fn columns() -> Vec<Column<Identity>> {
    columns! { Identity;
        capture_id: Text in "" = |row| Some((&*row.capture_id).into()), "Capture: BLAKE3 hash of its file or segments, of a part of a series with its times after `@`, and of a step its number after a slash.";
        host: Text in "" = |row| row.host.as_deref().map(Into::into), "Host name.";
        time: Time in "" = |row| row.captured_at_unix_ns.map(microseconds), "When it was captured; the end of a window.";
        window_ns: Integer in "ns" = |row| row.window_ns.map(Into::into), "Length of the window. NULL in snapshots, whose counters are totals since each thread started; in windows, counters are increases.";
        step: Integer in "" = |row| row.step.map(Into::into), "Number of the step of a series, from 0 on; it is a window, of the threads that changed. NULL in other captures.";
        weight: Real in "" = |row| row.weight, "How many captures of the fleet this one stands for, by `--weight`. Multiply sums by it.";
    }
}
