//! Findings: how much of each source a snapshot has, what is missing, why, and how to fix it.

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::{Affected, Cause, DataSource, Evidence, Fix, facilities, files, host};
use crate::model::{BpfObstacle, Census, CtprofSnapshot, SnapshotHead, named};

named! {
    /// How much of a source a snapshot has.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Coverage {
        /// All that it has.
        Complete = "ok",
        /// Some threads or processes lack it.
        Partial = "partial",
        /// Nothing: disabled or denied.
        Missing = "missing",
        /// Nothing: the kernel has no such source.
        Unavailable = "unavailable",
        /// The capture did not read it.
        NotRead = "not read",
        /// Another source with the same values was used instead.
        NotUsed = "not used",
    }
}

/// The coverage of one source in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The source that the finding is about.
    pub source: DataSource,
    /// How much of the source is there.
    pub coverage: Coverage,
    /// Why something is missing; `None` if nothing is.
    pub cause: Option<Cause>,
    /// How many threads, processes or cgroups lack it; `None` if the cause affects all.
    pub affected: Option<Affected>,
    /// Names of some of these processes; of containers, where names were looked for.
    pub names: Vec<String>,
    /// The command or setting that makes the source complete; `None` if no one is known.
    pub fix: Option<Fix>,
}

impl Finding {
    pub(super) fn full_coverage(source: DataSource) -> Self {
        Self { source, coverage: Coverage::Complete, cause: None, affected: None, names: Vec::new(), fix: None }
    }

    /// A finding with the fix that its cause implies.
    pub(super) fn new(source: DataSource, coverage: Coverage, cause: Cause) -> Self {
        let fix = cause.fix();
        Self { coverage, cause: Some(cause), fix, ..Self::full_coverage(source) }
    }

    /// Adds the number of affected things, out of a total if that is known.
    pub(super) fn affecting(self, count: u64, total: Option<u64>, noun: &'static str) -> Self {
        Self { affected: Some(Affected { count, total, noun }), ..self }
    }

    /// Returns the code of the cause; `None` if nothing is missing.
    pub fn code(&self) -> Option<&'static str> {
        self.cause.as_ref().map(Cause::code)
    }

    /// Returns the missing values and the cause, as a text; `None` if nothing is missing.
    pub fn reason(&self) -> Option<String> {
        let cause = self.cause.as_ref()?;
        let unaffected = match self.source {
            DataSource::Schedstats => "; run_time_ns and wait_time_ns are unaffected",
            _ => "",
        };
        Some(match (&self.affected, self.what()) {
            (Some(affected), what) => format!("{what} {affected}{}: {cause}", self.whose()),
            (None, "") => cause.to_string(),
            (None, what) => format!("{what} ({cause}){unaffected}"),
        })
    }

    fn what(&self) -> &'static str {
        match (&self.source, &self.cause) {
            (_, Some(Cause::DisabledByOption { .. } | Cause::NotLive)) => "",
            (_, Some(Cause::EnabledLate { .. } | Cause::PausesThreads)) => "",
            (DataSource::Processes, Some(Cause::HiddenByMount { .. })) => "other users' processes are hidden",
            (_, Some(Cause::TooLarge | Cause::OutOfTime)) => "skipped",
            (_, Some(Cause::Panicked)) => "values lost for",
            (_, Some(Cause::MissedByIterator)) => "procfs read",
            (DataSource::Bpf, Some(Cause::FieldsRejected)) | (_, Some(Cause::ImpossibleDelays)) => "no values for",
            (DataSource::Cgroups, Some(Cause::CgroupGone)) => "no statistics for",
            (DataSource::Containers, _) => "no names for",
            (DataSource::File(_) | DataSource::Jemalloc, _) => "not read for",
            (DataSource::Reasons, Some(Cause::Denied { .. })) => "only for threads that this user may trace",
            (DataSource::Reasons, Some(Cause::NoStacks { .. })) => "no functions of programs",
            (DataSource::Reasons, Some(Cause::StacksOfUserOnly)) => "functions of programs only for those of this user",
            (DataSource::Reasons, _) => "no kernel functions",
            (DataSource::Taskstats, Some(Cause::Failed { .. })) if self.affected.is_some() => "cannot be opened for",
            (DataSource::Taskstats, Some(Cause::Failed { .. })) => "cannot be opened",
            (DataSource::Taskstats, _) if self.affected.is_some() => "no data for",
            (DataSource::Schedstats, _) => "no nr_wakeups*, wait_*, block_*, sleep_*",
            (DataSource::DelayAccounting, Some(Cause::SysctlUnreadable { .. })) => "I/O and memory delays unknown",
            (DataSource::DelayAccounting, _) => "I/O and memory delays off",
            (DataSource::HighWaterMarks, _) => "no hiwater_*",
            _ => "",
        }
    }

    /// The source, and how many threads or processes lack it.
    pub(crate) fn extent(&self) -> String {
        match &self.affected {
            Some(affected) => format!("{}: not read for {affected}{}", self.source, self.whose()),
            None => self.source.to_string(),
        }
    }

    fn whose(&self) -> String {
        const SHOWN: usize = 3;
        let more = if self.names.len() > SHOWN { ", …" } else { "" };
        match &self.names[..self.names.len().min(SHOWN)] {
            [] => String::new(),
            names => format!(" ({}{more})", names.join(", ")),
        }
    }

    /// Whether something is missing that the capture should have read.
    pub fn is_gap(&self) -> bool {
        // Few kernels have sched_ext, and procfs read what the BPF iterator missed.
        let is_harmless = self.source == DataSource::SchedExt
            || matches!(self.cause, Some(Cause::MissedByIterator | Cause::PausesThreads));
        let is_wanted = !matches!(self.coverage, Coverage::NotRead | Coverage::NotUsed);
        self.cause.is_some() && is_wanted && !is_harmless
    }

    /// Whether reports list it: a gap, or why the engine was not BPF.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_gap() || matches!(self.cause, Some(Cause::NoBpf { .. } | Cause::MissedByIterator))
    }

    /// Whether it says why the engine was not BPF, and it is no lack of capabilities.
    pub(crate) fn is_other_obstacle(&self) -> bool {
        let is_capability =
            matches!(&self.cause, Some(Cause::NoBpf { no_bpf }) if no_bpf.cause == BpfObstacle::NoCapability);
        self.source == DataSource::Bpf && self.coverage == Coverage::NotUsed && !is_capability
    }

    /// Whether something is missing that can be fixed. What a capture leaves out by default, to spare the host, is
    /// not.
    pub fn is_fixable(&self) -> bool {
        let left_out = matches!(self.cause, Some(Cause::TooLarge | Cause::OutOfTime));
        !left_out && self.fix.is_some() && matches!(self.coverage, Coverage::Partial | Coverage::Missing)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason(), &self.fix) {
            (None, _) => write!(f, "{}: {}", self.source, self.coverage.name()),
            (Some(reason), None) => write!(f, "{}: {reason}", self.source),
            (Some(reason), Some(fix)) => write!(f, "{}: {reason}. Fix: {fix}", self.source),
        }
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Finding", 5)?;
        object.serialize_field("source", self.source.name())?;
        object.serialize_field("coverage", &self.coverage)?;
        object.serialize_field("code", &self.code())?;
        object.serialize_field("reason", &self.reason())?;
        object.serialize_field("fix", &self.fix.as_ref().map(ToString::to_string))?;
        object.end()
    }
}

/// At least one finding per source, and one more for each further cause.
pub fn findings(snapshot: &CtprofSnapshot) -> Vec<Finding> {
    findings_of(&snapshot.head, &Census::from_threads(&snapshot.threads))
}

/// The findings, from a census of the threads instead of the threads.
pub fn findings_of(head: &SnapshotHead, census: &Census) -> Vec<Finding> {
    let evidence = Evidence::new(head, census);
    let mut findings = facilities::engine(&evidence);
    let panics = host::panics(&evidence);
    // Not both complete and partial.
    findings.extend(Some(host::processes(&evidence)).filter(|finding| panics.is_none() || finding.cause.is_some()));
    findings.extend(panics);
    findings.extend(files::all(&evidence));
    findings.push(facilities::schedstats(&evidence));
    findings.push(facilities::taskstats(&evidence));
    findings.extend(facilities::delay_accounting(&evidence));
    findings.extend(facilities::impossible_delays(&evidence));
    findings.extend(facilities::high_water_marks(&evidence));
    findings.extend(facilities::jemalloc(&evidence));
    findings.extend(facilities::reasons(&evidence));
    findings.push(host::cgroups(&evidence));
    findings.extend(host::containers(&evidence));
    findings.push(host::pressure(&evidence));
    findings.push(host::sched_ext(&evidence));
    evidence.grant(findings.iter_mut().filter_map(|finding| finding.fix.as_mut()));
    findings
}

/// Returns the findings of a snapshot that say that something is missing.
pub fn gaps(head: &SnapshotHead, census: &Census) -> Vec<Finding> {
    findings_of(head, census).into_iter().filter(Finding::is_gap).collect()
}

/// Every fix once, with the sources it fixes.
pub fn fixes(findings: &[Finding]) -> Vec<(&Fix, Vec<&DataSource>)> {
    let mut fixes: Vec<(&Fix, Vec<&DataSource>)> = Vec::new();
    for (fix, source) in findings.iter().filter_map(|finding| Some((finding.fix.as_ref()?, &finding.source))) {
        match fixes.iter_mut().find(|(listed, _)| *listed == fix) {
            Some((_, sources)) if sources.contains(&source) => {}
            Some((_, sources)) => sources.push(source),
            None => fixes.push((fix, vec![source])),
        }
    }
    fixes
}
