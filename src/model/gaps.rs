//! Gaps: which sources a snapshot lacks, wholly or in part, why, and what cures it.

use std::collections::BTreeMap;

use super::{CtprofSnapshot, METRICS, Switch};

/// One source that could not be read, or not of every thread.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Gap {
    /// The file or facility.
    pub source: String,
    /// What is missing and why.
    pub reason: String,
    /// What cures it; empty where nothing does.
    pub remedy: String,
}

const PRIVILEGES: &str = "run as root, or once: sudo setcap cap_sys_ptrace,cap_dac_read_search+ep $(command -v ctprof)";
/// Whoever holds this may read any process, unless something else than privileges stands in the way.
const CAP_SYS_PTRACE: &str = "cap_sys_ptrace";

/// The gaps of a snapshot, by source.
#[must_use]
pub fn gaps(snapshot: &CtprofSnapshot) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = read_failures(snapshot).collect();
    gaps.extend(schedstats(snapshot));
    gaps.extend(smaps_skipped(snapshot));
    gaps.sort_by(|a, b| a.source.cmp(&b.source));
    gaps
}

fn read_failures(snapshot: &CtprofSnapshot) -> impl Iterator<Item = Gap> {
    let summary = snapshot.parse_summary.iter();
    let files = summary.flat_map(|summary| &summary.read_failures_by_errno);
    files.flat_map(|(file, errnos)| errnos.iter().map(move |(errno, &count)| (file, errno, count))).map(
        |(file, errno, count)| {
            let all = if file == "smaps_rollup" { snapshot.processes() } else { snapshot.threads.len() };
            let of_what = if file == "smaps_rollup" { "processes" } else { "threads" };
            let (why, remedy) = cause(snapshot, file, errno);
            Gap { source: file.clone(), reason: format!("not read of {count} of {all} {of_what}: {why}"), remedy }
        },
    )
}

fn cause(snapshot: &CtprofSnapshot, file: &str, errno: &str) -> (String, String) {
    let held = snapshot.capture.iter().any(|capture| capture.capabilities.iter().any(|cap| cap == CAP_SYS_PTRACE));
    match (file, errno) {
        (_, "EACCES" | "EPERM") if held => (
            format!("refused ({errno}) in spite of {CAP_SYS_PTRACE}: by a security module or another user namespace"),
            String::new(),
        ),
        (_, "EACCES" | "EPERM") => (format!("permission denied ({errno})"), PRIVILEGES.to_owned()),
        (_, "EMFILE") => ("too many open files (EMFILE)".to_owned(), "raise the limit: ulimit -n 1024".to_owned()),
        (_, "ENOENT") => {
            let gate = METRICS.iter().find(|m| m.source.file() == file).and_then(|m| m.gates.first());
            let option = match file {
                "smaps_rollup" => Some("PROC_PAGE_MONITOR"),
                "cgroup" => Some("CGROUPS"),
                "sched" => Some("SCHED_DEBUG"),
                _ => gate.copied(),
            };
            let option = option.map_or_else(String::new, |option| format!(", built without CONFIG_{option}"));
            (format!("this kernel has no such file{option}"), String::new())
        }
        _ => (errno.to_owned(), String::new()),
    }
}

fn schedstats(snapshot: &CtprofSnapshot) -> Option<Gap> {
    let read = |t: &super::ThreadState| t.metrics.wait_max.is_some() || t.metrics.nr_wakeups.is_some();
    if snapshot.threads.iter().any(read) || snapshot.threads.iter().all(|t| t.metrics.nr_migrations.is_none()) {
        return None;
    }
    let (reason, remedy) = match snapshot.host.as_ref()?.sched_schedstats? {
        Switch::On => return None,
        Switch::RuntimeOff => (
            "wake-ups, waits, sleeps and blocks are not counted: kernel.sched_schedstats is 0",
            "sudo sysctl kernel.sched_schedstats=1 (they count from then on)",
        ),
        Switch::ConfigOff => {
            ("wake-ups, waits, sleeps and blocks are not counted: the kernel was built without CONFIG_SCHEDSTATS", "")
        }
        Switch::Unknown => ("wake-ups, waits, sleeps and blocks are not counted", ""),
    };
    Some(Gap { source: "schedstats".to_owned(), reason: reason.to_owned(), remedy: remedy.to_owned() })
}

fn smaps_skipped(snapshot: &CtprofSnapshot) -> Option<Gap> {
    let skipped = snapshot.parse_summary.as_ref()?.smaps_skipped;
    (skipped > 0).then(|| Gap {
        source: "smaps_rollup".to_owned(),
        reason: format!("not read of {skipped} processes: they are so large that reading would stall them"),
        remedy: "read it all the same with --smaps always, or raise --smaps-max-rss".to_owned(),
    })
}

/// Which sources any thread of the snapshot has a reading of.
#[must_use]
pub(crate) fn sources(snapshot: &CtprofSnapshot) -> BTreeMap<&'static str, bool> {
    let mut sources = BTreeMap::new();
    for metric in METRICS {
        let source = if metric.gates.first() == Some(&"SCHEDSTATS") { "schedstats" } else { metric.source.file() };
        let read = sources.entry(source).or_insert(false);
        *read = *read || snapshot.threads.iter().any(|t| metric.get(&t.metrics).is_some());
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::super::{CaptureInfo, CtprofParseSummary, HostContext, ThreadState};
    use super::*;

    fn snapshot(file: &str, errno: &str) -> CtprofSnapshot {
        let by_errno = BTreeMap::from([(file.to_owned(), BTreeMap::from([(errno.to_owned(), 2)]))]);
        let summary = CtprofParseSummary { read_failures_by_errno: by_errno, ..CtprofParseSummary::default() };
        CtprofSnapshot {
            threads: vec![ThreadState::default(); 3],
            parse_summary: Some(summary.concluded()),
            ..CtprofSnapshot::default()
        }
    }

    #[test]
    fn a_refusal_is_cured_by_privilege_and_a_missing_file_by_a_kernel() {
        let refused = &gaps(&snapshot("io", "EACCES"))[0];
        assert_eq!(refused.reason, "not read of 2 of 3 threads: permission denied (EACCES)");
        assert!(refused.remedy.contains("cap_sys_ptrace"), "{}", refused.remedy);
        let missing = &gaps(&snapshot("io", "ENOENT"))[0];
        assert!(missing.reason.contains("CONFIG_TASK_IO_ACCOUNTING"), "{}", missing.reason);
        assert_eq!(missing.remedy, "");
    }

    #[test]
    fn privileges_that_are_held_are_not_asked_for() {
        let mut snapshot = snapshot("io", "EACCES");
        let capabilities = vec![CAP_SYS_PTRACE.to_owned()];
        snapshot.capture = Some(CaptureInfo { capabilities, ..CaptureInfo::default() });
        let refused = &gaps(&snapshot)[0];
        assert!(refused.reason.contains("security module"), "{}", refused.reason);
        assert_eq!(refused.remedy, "");
    }

    #[test]
    fn schedstats_that_are_off_name_their_switch() {
        let mut snapshot = CtprofSnapshot::default();
        let mut thread = ThreadState::default();
        thread.metrics.nr_migrations = Some(1.into());
        snapshot.threads.push(thread);
        let off = HostContext { sched_schedstats: Some(Switch::RuntimeOff), ..HostContext::default() };
        snapshot.host = Some(off);
        assert!(gaps(&snapshot)[0].remedy.contains("kernel.sched_schedstats=1"));
        snapshot.threads[0].metrics.wait_max = Some(0.into());
        assert_eq!(gaps(&snapshot), []);
    }
}
