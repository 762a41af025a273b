//! Failures of a capture, counted by reason.

use std::collections::BTreeMap;

use super::{Errno, ProbeFailure, SourceFile};

stored! {
    /// Failures to read procfs. A thread that exits during the capture is not a failure.
    #[derive(Eq)]
    pub struct CtprofParseSummary {
        /// Number of threads listed.
        pub tids_walked: u64,
        /// Number of threads that exited before they could be read.
        pub ghosts: u64,
        /// Number of files that could not be read, of threads that did not exit.
        pub read_failures: u64,
        /// Number of files that could not be read, by file.
        pub read_failures_by_file: BTreeMap<SourceFile, u64>,
        /// Number of files that could not be read, by file, then by error.
        pub read_failures_by_errno: BTreeMap<SourceFile, BTreeMap<Errno, u64>>,
        /// Names of a few processes whose file could not be read, by file: at most
        /// [`MAX_UNREAD_NAMES`](Self::MAX_UNREAD_NAMES) per file, in alphabetical order.
        optional unread_names: BTreeMap<SourceFile, Vec<String>>,
        /// The file that failed most often.
        pub dominant_read_failure: Option<SourceFile>,
        /// Whether at least half of the failures are a missing `schedstat` or `io`.
        pub kernel_config_dominant: bool,
        /// Whether at least half of the failures are permission errors.
        pub permission_dominant: bool,
        /// Number of times that the kernel printed as negative, after a clock step.
        pub negative_dotted_values: u64,
        /// Number of threads that lack delays because the kernel's are longer than they have lived.
        optional impossible_delays: u64,
        /// Number of processes whose `smaps_rollup` was not read because they exceed the size limit.
        pub smaps_skipped: u64,
        /// Number of processes whose `smaps_rollup` was not read, because smaller processes took all the time.
        pub smaps_out_of_time: u64,
        /// Number of processes, or parts of large ones, that lost values to a panic of this program.
        pub worker_panics: u64,
    }
}

impl CtprofParseSummary {
    /// Maximum number of names per file in [`unread_names`](Self::unread_names): one more than reports
    /// print, to show that there are more.
    pub const MAX_UNREAD_NAMES: usize = 4;

    /// Computes the other fields from [`read_failures_by_errno`](Self::read_failures_by_errno).
    pub fn concluded(mut self) -> Self {
        let by_file = self.read_failures_by_errno.iter();
        self.read_failures_by_file = by_file.map(|(file, errnos)| (file.clone(), errnos.values().sum())).collect();
        self.read_failures = self.read_failures_by_file.values().sum();
        self.dominant_read_failure = dominant(&self.read_failures_by_file).cloned();
        let half = |part: u64| is_half(part, self.read_failures);
        let missing = |file: &SourceFile, errno: &Errno| {
            matches!(file, SourceFile::Schedstat | SourceFile::Io) && *errno == Errno::ENOENT
        };
        self.kernel_config_dominant = half(self.failures(missing));
        self.permission_dominant = half(self.failures(|_, errno| errno.is_denial()));
        self
    }

    fn failures(&self, matches: impl Fn(&SourceFile, &Errno) -> bool) -> u64 {
        let by_file = self.read_failures_by_errno.iter();
        let flat = by_file.flat_map(|(file, errnos)| errnos.iter().map(move |(errno, count)| (file, errno, count)));
        flat.filter(|(file, errno, _)| matches(file, errno)).map(|(.., count)| count).sum()
    }
}

stored! {
    /// Results of the jemalloc probe.
    #[derive(Eq)]
    pub struct CtprofProbeSummary {
        /// Number of processes examined.
        pub tgids_walked: u64,
        /// Number of processes that use jemalloc.
        pub jemalloc_detected: u64,
        /// Number of threads whose counters were read.
        pub probed_ok: u64,
        /// Number of processes and threads with an unexpected failure.
        pub failed: u64,
        /// The most frequent of these reasons.
        pub dominant_failure: Option<ProbeFailure>,
        /// Whether at least half of the failures are denials.
        pub privilege_dominant: bool,
        /// How often each reason occurred, including routine ones.
        pub failures: BTreeMap<ProbeFailure, u64>,
    }
}

impl CtprofProbeSummary {
    /// Computes the other fields from [`failures`](Self::failures).
    pub fn concluded(mut self) -> Self {
        let mut failures = self.failures.clone();
        failures.retain(|failure, _| !failure.is_routine());
        self.failed = failures.values().sum();
        self.dominant_failure = dominant(&failures).cloned();
        let denied: u64 = failures.iter().filter(|(failure, _)| failure.is_denial()).map(|(_, count)| count).sum();
        self.privilege_dominant = is_half(denied, self.failed);
        self
    }
}

stored! {
    /// How many taskstats queries succeeded and failed.
    #[derive(Eq)]
    pub struct TaskstatsSummary {
        /// Number of threads with an answer.
        pub ok_count: u64,
        /// Number of threads denied, including those not queried after the first denial.
        pub eperm_count: u64,
        /// Number of threads that had exited.
        pub esrch_count: u64,
        /// Number of threads without an answer for another reason.
        pub other_err_count: u64,
        /// Version of the kernel's struct.
        optional struct_version: Option<u16>,
        /// Length of the kernel's struct, in bytes.
        optional struct_bytes: Option<u64>,
        /// Why taskstats could not be opened.
        optional open_error: Option<Errno>,
    }
}

/// Whether a part, if there is one, is at least half of the whole.
fn is_half(part: u64, whole: u64) -> bool {
    part > 0 && part >= whole.div_ceil(2)
}

/// The key with the highest count, the first of equal ones.
pub fn dominant<K: Ord>(counts: &BTreeMap<K, u64>) -> Option<&K> {
    let most = counts.iter().rev().max_by_key(|(_, count)| **count)?;
    Some(most.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(failures: &[(SourceFile, Errno, u64)]) -> CtprofParseSummary {
        let mut summary = CtprofParseSummary::default();
        for (file, errno, count) in failures.iter().cloned() {
            summary.read_failures_by_errno.entry(file).or_default().insert(errno, count);
        }
        summary.concluded()
    }

    #[test]
    fn permission_errors_are_never_blamed_on_the_kernel_configuration() {
        let denied = summary(&[
            (SourceFile::Io, Errno::EACCES, 90),
            (SourceFile::SmapsRollup, Errno::EPERM, 9),
            (SourceFile::Schedstat, Errno::ENOENT, 1),
        ]);
        assert_eq!(denied.read_failures, 100);
        assert!(denied.permission_dominant && !denied.kernel_config_dominant);
        assert_eq!(denied.dominant_read_failure, Some(SourceFile::Io));
    }

    #[test]
    fn a_kernel_without_schedstat_and_io_is_recognized() {
        let missing = |file, count| (file, Errno::ENOENT, count);
        let bare = summary(&[
            missing(SourceFile::Io, 10),
            missing(SourceFile::Schedstat, 10),
            missing(SourceFile::Cgroup, 20),
        ]);
        assert!(bare.kernel_config_dominant && !bare.permission_dominant);
        let cgroups = summary(&[missing(SourceFile::Io, 1), missing(SourceFile::Cgroup, 2)]);
        assert!(!cgroups.kernel_config_dominant);
    }

    #[test]
    fn routine_reasons_are_no_failures() {
        let probe = |failures: &[(ProbeFailure, u64)]| {
            let failures = failures.iter().cloned().collect();
            CtprofProbeSummary { failures, ..CtprofProbeSummary::default() }.concluded()
        };
        let routine = probe(&[(ProbeFailure::JemallocNotFound, 90), (ProbeFailure::ReadlinkFailure, 60)]);
        assert_eq!((routine.failed, routine.dominant_failure, routine.privilege_dominant), (0, None, false));
        let denied =
            probe(&[(ProbeFailure::JemallocNotFound, 90), (ProbeFailure::PtraceSeize, 2), (ProbeFailure::Waitpid, 2)]);
        assert_eq!((denied.failed, denied.dominant_failure), (4, Some(ProbeFailure::PtraceSeize)));
        assert!(denied.privilege_dominant);
        assert!(!probe(&[(ProbeFailure::PtraceSeize, 1), (ProbeFailure::Waitpid, 2)]).privilege_dominant);
    }

    #[test]
    fn nothing_failed_is_no_verdict() {
        let clean = summary(&[]);
        assert!(!clean.permission_dominant && !clean.kernel_config_dominant);
        assert_eq!(clean.dominant_read_failure, None);
    }

    #[test]
    fn a_tie_goes_to_the_alphabetically_first() {
        let tie = summary(&[(SourceFile::Stat, Errno::EIO, 3), (SourceFile::Io, Errno::EIO, 3)]);
        assert_eq!(tie.dominant_read_failure, Some(SourceFile::Io));
    }

    #[test]
    fn summaries_of_older_files_are_read() {
        let json = r#"{"read_failures_by_errno":{"io":{"EACCES":2}},"dominant_read_failure":"io"}"#;
        let old: CtprofParseSummary = serde_json::from_str(json).unwrap();
        assert_eq!(old.read_failures_by_errno[&SourceFile::Io][&Errno::EACCES], 2);
        assert!(!serde_json::to_string(&old).unwrap().contains("unread_names"));
    }
}
