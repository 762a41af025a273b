//! Writes the JSON of a snapshot.

use std::io::{self, Write};

use serde::Serialize;

use super::defaults::Defaults;
use super::thread::ThreadLine;
use crate::model::{CtprofSnapshot, FORMAT_VERSION, SnapshotHead};

/// Writes a snapshot in less space: threads leave out their default values, unless the format is older than those.
pub(in crate::store) struct SnapshotWriter<'s> {
    snapshot: &'s CtprofSnapshot,
    defaults: Defaults,
}

/// What precedes the threads: readers need it before them.
#[derive(Serialize)]
struct SnapshotStart<'s> {
    #[serde(flatten)]
    head: &'s SnapshotHead,
    #[serde(rename = "usual", skip_serializing_if = "Defaults::is_empty")]
    defaults: &'s Defaults,
}

impl<'s> SnapshotWriter<'s> {
    pub(in crate::store) fn new(snapshot: &'s CtprofSnapshot) -> Self {
        let has_defaults = snapshot.head.format_version == Some(FORMAT_VERSION);
        let defaults = if has_defaults { Defaults::of(&snapshot.threads) } else { Defaults::default() };
        Self { snapshot, defaults }
    }

    /// What readers that allow `max` threads and cgroups would refuse, and how many of it they allow.
    pub(in crate::store) fn too_many(&self, max: usize) -> Option<(&'static str, usize)> {
        let CtprofSnapshot { head, threads } = self.snapshot;
        let max_threads = self.defaults.max_threads(max);
        let counts = [("threads", threads.len(), max_threads), ("cgroups", head.cgroup_stats.len(), max)];
        counts.into_iter().find(|(_, number, max)| number > max).map(|(what, _, max)| (what, max))
    }

    /// Writes each thread on its own line, so that readers can parse them in parallel.
    pub(in crate::store) fn write(&self, mut out: impl Write) -> io::Result<()> {
        let Self { snapshot: CtprofSnapshot { head, threads }, defaults } = self;
        let start = serde_json::to_vec(&SnapshotStart { head, defaults })?;
        out.write_all(start.strip_suffix(b"}").expect("it is an object"))?;
        out.write_all(b",\"threads\":[")?;
        for (place, thread) in threads.iter().enumerate() {
            out.write_all(if place == 0 { "\n" } else { ",\n" }.as_bytes())?;
            serde_json::to_writer(&mut out, &ThreadLine { thread, defaults })?;
        }
        out.write_all(b"\n]}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_version_1_is_written_without_default_values() {
        let mut snapshot: CtprofSnapshot =
            serde_json::from_str(r#"{"format_version":1,"threads":[{"tid":1,"tgid":1,"minflt":7}]}"#).unwrap();
        let has_usual = |snapshot: &_| {
            let mut json = Vec::new();
            SnapshotWriter::new(snapshot).write(&mut json).unwrap();
            String::from_utf8(json).unwrap().contains("usual")
        };
        assert!(!has_usual(&snapshot), "ctprof 0.1.0 would read default values as absent");
        snapshot.head.format_version = Some(2);
        assert!(has_usual(&snapshot));
    }
}
