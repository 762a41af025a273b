//! Writes the JSON of a snapshot.

use serde::Serialize;
use serde::ser::Serializer;

use super::defaults::Defaults;
use super::thread_list::ThreadList;
use crate::model::{CtprofSnapshot, FORMAT_VERSION, SnapshotHead};

impl Serialize for CtprofSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SnapshotDocument::new(self, &Defaults::default()).serialize(serializer)
    }
}

/// The keys of a snapshot. Readers need the head and the defaults before the threads.
#[derive(Serialize)]
struct SnapshotDocument<'s> {
    #[serde(flatten)]
    head: &'s SnapshotHead,
    #[serde(rename = "usual", skip_serializing_if = "Defaults::is_empty")]
    defaults: &'s Defaults,
    threads: ThreadList<'s>,
}

impl<'s> SnapshotDocument<'s> {
    fn new(snapshot: &'s CtprofSnapshot, defaults: &'s Defaults) -> Self {
        let CtprofSnapshot { head, threads } = snapshot;
        Self { head, defaults, threads: ThreadList { threads, defaults } }
    }
}

/// Writes a snapshot in less space: threads leave out their default values, unless the format is older than those.
pub(in crate::store) struct SnapshotWriter<'s> {
    snapshot: &'s CtprofSnapshot,
    defaults: Defaults,
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
}

impl Serialize for SnapshotWriter<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SnapshotDocument::new(self.snapshot, &self.defaults).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_version_1_is_written_without_default_values() {
        let mut snapshot: CtprofSnapshot =
            serde_json::from_str(r#"{"format_version":1,"threads":[{"tid":1,"tgid":1,"minflt":7}]}"#).unwrap();
        let has_usual = |snapshot: &_| serde_json::to_string(&SnapshotWriter::new(snapshot)).unwrap().contains("usual");
        assert!(!has_usual(&snapshot), "ctprof 0.1.0 would read default values as absent");
        snapshot.head.format_version = Some(2);
        assert!(has_usual(&snapshot));
    }
}
