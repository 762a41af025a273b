//! What could not be read, counted by reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What could not be read of procfs. Threads that ended on the way are not failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct CtprofParseSummary {
    /// Threads listed.
    pub tids_walked: u64,
    /// Threads that ended before they could be read.
    pub ghosts: u64,
    /// Files that could not be read, of threads that could.
    pub read_failures: u64,
    /// The same by file: stat, schedstat, io, status, sched, cgroup, smaps_rollup.
    pub read_failures_by_file: BTreeMap<String, u64>,
    /// The same by file, then by errno name.
    pub read_failures_by_errno: BTreeMap<String, BTreeMap<String, u64>>,
    /// The file that failed most often.
    pub dominant_read_failure: Option<String>,
    /// Whether at least half of the failures say that the kernel has no `schedstat` or `io`.
    pub kernel_config_dominant: bool,
    /// Whether at least half of the failures are refusals.
    pub permission_dominant: bool,
    /// Times that the kernel printed as negative, after a clock step.
    pub negative_dotted_values: u64,
    /// Processes whose `smaps_rollup` was not read because they are over the size limit.
    pub smaps_skipped: u64,
    /// Names of processes that were still alive when a file of theirs could not be read: by file, as in
    /// [`read_failures_by_errno`](Self::read_failures_by_errno), sorted, at most
    /// [`MAX_UNREAD_NAMES`](Self::MAX_UNREAD_NAMES).
    pub unread_names: BTreeMap<String, Vec<String>>,
    /// Processes, or parts of large ones, that lost values to a panic of this program.
    pub worker_panics: u64,
}

impl CtprofParseSummary {
    /// Most names per file in [`unread_names`](Self::unread_names): a full list means that there may be more.
    pub const MAX_UNREAD_NAMES: usize = 4;

    /// Fills the totals and verdicts from [`read_failures_by_errno`](Self::read_failures_by_errno).
    #[must_use]
    pub fn concluded(mut self) -> Self {
        let by_file = self.read_failures_by_errno.iter();
        self.read_failures_by_file = by_file.map(|(file, errnos)| (file.clone(), errnos.values().sum())).collect();
        self.read_failures = self.read_failures_by_file.values().sum();
        self.dominant_read_failure = dominant(&self.read_failures_by_file).map(str::to_owned);
        let failures = |wanted: fn(&str, &str) -> bool| -> u64 {
            let all = self.read_failures_by_errno.iter();
            let flat = all.flat_map(|(file, errnos)| errnos.iter().map(move |(errno, n)| (file, errno, n)));
            flat.filter(|(file, errno, _)| wanted(file, errno)).map(|(.., n)| n).sum()
        };
        let half = |part: u64| part > 0 && part >= self.read_failures.div_ceil(2);
        let config = failures(|file, errno| matches!(file, "schedstat" | "io") && errno == "ENOENT");
        let permission = failures(|_, errno| matches!(errno, "EACCES" | "EPERM"));
        (self.kernel_config_dominant, self.permission_dominant) = (half(config), half(permission));
        self
    }

    /// What to do about the kernel's configuration, if that is what most failures come from.
    #[must_use]
    pub fn kernel_config_hint(&self) -> Option<&'static str> {
        self.kernel_config_dominant.then_some(
            "the kernel was built without CONFIG_SCHED_INFO (schedstat) or CONFIG_TASK_IO_ACCOUNTING (io): \
             boot a kernel that has both",
        )
    }
}

/// What came of looking for jemalloc's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct CtprofProbeSummary {
    /// Processes looked at.
    pub tgids_walked: u64,
    /// Those with jemalloc.
    pub jemalloc_detected: u64,
    /// Threads whose counters were read.
    pub probed_ok: u64,
    /// Processes and threads that failed for other reasons than the routine ones.
    pub failed: u64,
    /// The reason that most of those have.
    pub dominant_failure: Option<String>,
    /// Whether at least half of the failures are refusals.
    pub privilege_dominant: bool,
    /// How often each reason occurred, the routine ones included.
    pub failures: BTreeMap<String, u64>,
}

impl CtprofProbeSummary {
    /// Reasons that are no failures: most programs have another allocator, kernel threads none.
    const ROUTINE: [&str; 2] = ["jemalloc-not-found", "readlink-failure"];

    /// Fills totals and verdicts from [`failures`](Self::failures).
    #[must_use]
    pub fn concluded(mut self) -> Self {
        let mut real = self.failures.clone();
        real.retain(|tag, _| !Self::ROUTINE.contains(&tag.as_str()));
        self.failed = real.values().sum();
        self.dominant_failure = dominant(&real).map(str::to_owned);
        let refused: u64 = ["ptrace-seize", "ptrace-interrupt"].iter().filter_map(|tag| real.get(*tag)).sum();
        self.privilege_dominant = self.failed > 0 && refused >= self.failed.div_ceil(2);
        self
    }

    /// What to do about refusals, if that is what most failures come from.
    #[must_use]
    pub fn remediation_hint(&self) -> Option<&'static str> {
        self.privilege_dominant.then_some(
            "run as root, or once: sudo setcap cap_sys_ptrace+ep $(command -v ctprof); for your own processes \
             sudo sysctl kernel.yama.ptrace_scope=0 is enough",
        )
    }
}

/// How taskstats answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct TaskstatsSummary {
    /// Threads answered for.
    pub ok_count: u64,
    /// Threads refused, those included that were not asked for after the first refusal.
    pub eperm_count: u64,
    /// Threads that had ended.
    pub esrch_count: u64,
    /// Threads without an answer for another reason.
    pub other_err_count: u64,
    /// Version of the kernel's struct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub struct_version: Option<u16>,
    /// Its length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub struct_bytes: Option<u64>,
    /// Why the kernel could not be asked at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_error: Option<String>,
}

/// The tag with the highest count; a tie goes to the alphabetically first.
#[must_use]
pub fn dominant(counts: &BTreeMap<String, u64>) -> Option<&str> {
    let most = counts.iter().rev().max_by_key(|(_, count)| **count)?;
    Some(most.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(failures: &[(&str, &str, u64)]) -> CtprofParseSummary {
        let mut summary = CtprofParseSummary::default();
        for &(file, errno, count) in failures {
            let errnos = summary.read_failures_by_errno.entry(file.to_owned()).or_default();
            errnos.insert(errno.to_owned(), count);
        }
        summary.concluded()
    }

    #[test]
    fn refusals_are_never_blamed_on_the_kernels_configuration() {
        let refused = summary(&[("io", "EACCES", 90), ("smaps_rollup", "EPERM", 9), ("schedstat", "ENOENT", 1)]);
        assert_eq!(refused.read_failures, 100);
        assert!(refused.permission_dominant && !refused.kernel_config_dominant);
        assert_eq!(refused.kernel_config_hint(), None);
        assert_eq!(refused.dominant_read_failure.as_deref(), Some("io"));
    }

    #[test]
    fn a_kernel_without_the_files_is_named() {
        let bare = summary(&[("io", "ENOENT", 10), ("schedstat", "ENOENT", 10), ("cgroup", "ENOENT", 20)]);
        assert!(bare.kernel_config_dominant && !bare.permission_dominant);
        assert!(bare.kernel_config_hint().unwrap().contains("CONFIG_SCHED_INFO"));
        assert!(!summary(&[("io", "ENOENT", 1), ("cgroup", "ENOENT", 2)]).kernel_config_dominant);
    }

    #[test]
    fn routine_reasons_are_no_failures() {
        let probe = |failures: &[(&str, u64)]| {
            let failures = failures.iter().map(|(tag, count)| ((*tag).to_owned(), *count)).collect();
            CtprofProbeSummary { failures, ..CtprofProbeSummary::default() }.concluded()
        };
        let routine = probe(&[("jemalloc-not-found", 90), ("readlink-failure", 60)]);
        assert_eq!((routine.failed, routine.dominant_failure.as_deref(), routine.remediation_hint()), (0, None, None));
        let refused = probe(&[("jemalloc-not-found", 90), ("ptrace-seize", 2), ("waitpid", 2)]);
        assert_eq!((refused.failed, refused.dominant_failure.as_deref()), (4, Some("ptrace-seize")));
        assert!(refused.remediation_hint().unwrap().contains("cap_sys_ptrace"));
        assert!(!probe(&[("ptrace-seize", 1), ("waitpid", 2)]).privilege_dominant);
    }

    #[test]
    fn nothing_failed_is_no_verdict() {
        let clean = summary(&[]);
        assert!(!clean.permission_dominant && !clean.kernel_config_dominant);
        assert_eq!(clean.dominant_read_failure, None);
    }

    #[test]
    fn a_tie_goes_to_the_alphabetically_first() {
        assert_eq!(summary(&[("stat", "EIO", 3), ("io", "EIO", 3)]).dominant_read_failure.as_deref(), Some("io"));
    }
}
