//! The snapshots of a comparison, and the differences between their hosts.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::digest::Digest;
use super::options::{Options, Per};
use super::overview::{HostSize, Measure};
use super::runs::RunCount;
use super::sides::{Sides, joined};
use crate::diagnose::Warning;
use crate::model::{HostContext, SnapshotHead, WindowInfo};

/// Summary of one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Side {
    /// The file.
    pub file: String,
    /// Host name.
    pub hostname: Option<String>,
    /// Release of the kernel.
    pub kernel_release: Option<String>,
    /// Architecture, as `uname -m` prints it.
    pub arch: Option<String>,
    /// Start of the capture, in nanoseconds since 1970.
    pub captured_at_unix_ns: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of processes.
    pub processes: u64,
    /// The engine that read the threads.
    pub engine: Option<String>,
    /// The program that wrote it, and its version.
    pub tool: Option<String>,
    /// The runs, if there are several of which this is the first; `None` for a single capture.
    #[serde(flatten)]
    pub runs: Option<RunCount>,
    /// The window, if it is one; of the candidate, the window since a baseline of the same boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowSide>,
}

/// A window: what it covers, and what happened to threads in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WindowSide {
    /// The window.
    #[serde(flatten)]
    pub info: WindowInfo,
    /// Whether the values are those since the baseline, not those of the file.
    #[serde(skip)]
    pub since_baseline: bool,
    /// Threads that started in it.
    pub started: u64,
    /// Threads that exited in it.
    pub exited: u64,
    /// Totals of the command that ran; `None` if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_totals: Option<CommandTotals>,
}

/// What the threads of a command did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CommandTotals {
    /// Number of threads.
    pub threads: u64,
    /// CPU time in nanoseconds.
    pub run_time_ns: Option<u64>,
    /// Time runnable but waiting for a CPU, in nanoseconds.
    pub wait_time_ns: Option<u64>,
}

fn window_of(digest: &Digest) -> Option<WindowSide> {
    let info = digest.head.window.as_ref().or(digest.window.as_ref())?.clone();
    let census = &digest.census;
    let members = &digest.command;
    let command_totals = info.command.is_some().then(|| CommandTotals {
        threads: members.threads.saturating_add(members.turnover.exited),
        run_time_ns: members.totals.run_time_ns.sum(),
        wait_time_ns: members.totals.wait_time_ns.sum(),
    });
    Some(WindowSide {
        info,
        since_baseline: digest.window.is_some(),
        started: census.started,
        exited: census.exited,
        command_totals,
    })
}

/// A difference between the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Field of the host context.
    pub field: String,
    /// The values.
    #[serde(flatten)]
    pub values: Sides<Option<String>>,
}

/// The header of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Header {
    /// The snapshots.
    #[serde(flatten)]
    pub sides: Sides<Side>,
    /// From the baseline's capture to the candidate's, in nanoseconds; `None` if a file lacks the time.
    pub apart_ns: Option<i128>,
    /// What differs in the host context; `None` where a side has none.
    pub differences: Option<Vec<Difference>>,
    /// Why the snapshots may not be comparable.
    pub warnings: Vec<Warning>,
}

pub(super) fn header(digests: Sides<&Digest>, runs: Sides<Option<RunCount>>, options: &Options) -> Header {
    let snapshots = digests.map(|digest| &digest.head);
    let Sides { baseline, candidate } = snapshots;
    let times = snapshots.map(|snapshot| Some(i128::from(snapshot.captured_at_unix_ns)).filter(|time| *time > 0));
    let apart = times.candidate.zip(times.baseline).map(|(candidate, baseline)| candidate - baseline);
    let facts = snapshots.map(|snapshot| snapshot.host.as_ref().map(facts));
    let differences = match &facts {
        Sides { baseline: Some(a), candidate: Some(b) } => Some(differences(a, b)),
        _ => None,
    };
    let mut warnings = Vec::new();
    // Two runs have no order, and of one boot the time since boot decides, not the wall clock.
    let by_wall_clock = baseline.window.is_none() && candidate.window.is_none() && digests.candidate.window.is_none();
    warnings.extend(apart.is_some_and(|apart| apart < 0 && by_wall_clock).then_some(Warning::CandidateOlder));
    warnings.extend(differences.iter().flatten().filter_map(|difference| {
        let Sides { baseline, candidate } = difference.values.clone();
        Warning::for_host_field(&difference.field, baseline, candidate)
    }));
    warnings.extend(Warning::one_sided_sources(&digests.baseline.census, &digests.candidate.census));
    warnings.extend(Warning::different_options(baseline, candidate));
    let side = |digest: &Digest, label: &str, runs| Side { runs, ..side(digest, label) };
    Header {
        sides: Sides {
            baseline: side(digests.baseline, &options.labels.baseline, runs.baseline),
            candidate: side(digests.candidate, &options.labels.candidate, runs.candidate),
        },
        apart_ns: apart,
        differences,
        warnings,
    }
}

/// The size of the host that changes of the overview are measured by.
pub(super) fn size(snapshots: Sides<&SnapshotHead>, per: Per) -> HostSize {
    let cpus = |snapshot: &SnapshotHead| snapshot.host.as_ref()?.online_cpus;
    let length = |snapshot: &SnapshotHead| snapshot.window.as_ref().map(|window| window.duration_ns as f64 / 1e9);
    let lengths = snapshots.map(length);
    let seconds = lengths.baseline.zip(lengths.candidate).map(|(a, b)| a.max(b));
    HostSize {
        cpus: snapshots.map(cpus).into_iter().flatten().max().map(|cpus| cpus as f64),
        seconds: if per == Per::Run { seconds } else { Some(1.0) },
        measure: if seconds.is_some() { Measure::Totals } else { Measure::Changes },
    }
}

pub(super) fn side(digest: &Digest, file: &str) -> Side {
    let snapshot = &digest.head;
    let host = snapshot.host.as_ref();
    let capture = snapshot.capture.as_ref();
    Side {
        file: file.to_owned(),
        hostname: host.and_then(|host| host.hostname.clone()),
        kernel_release: host.and_then(|host| host.kernel_release.clone()),
        arch: host.and_then(|host| host.arch.clone()),
        captured_at_unix_ns: snapshot.captured_at_unix_ns,
        threads: digest.census.threads,
        processes: digest.census.processes,
        engine: capture.map(|capture| capture.engine.clone()).filter(|engine| !engine.is_empty()),
        tool: capture.map(|capture| format!("{} {}", capture.tool, capture.version)),
        runs: None,
        window: window_of(digest),
    }
}

/// The host context as names and texts, in the order of its fields, with one entry per key of a map.
pub(super) fn facts(host: &HostContext) -> Vec<(String, String)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(host) else { return Vec::new() };
    let spread = fields.into_iter().flat_map(|(field, value)| match value {
        Value::Object(map) => map.into_iter().map(|(key, value)| (format!("{field}.{key}"), text(value))).collect(),
        value => vec![(field, text(value))],
    });
    spread.collect()
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Fields that differ between any two captures: their difference has no meaning.
const ALWAYS_DIFFERENT: [&str; 2] = ["uptime_ns", "heap_state"];

fn differences(baseline: &[(String, String)], candidate: &[(String, String)]) -> Vec<Difference> {
    let by_field = |facts: &[(String, String)]| facts.iter().cloned().collect::<BTreeMap<_, _>>();
    let fields = joined(Sides { baseline: by_field(baseline), candidate: by_field(candidate) });
    let telling = |field: &str| !ALWAYS_DIFFERENT.contains(&field.split('.').next().unwrap_or(field));
    let differing = fields.into_iter().filter(|(field, values)| values.baseline != values.candidate && telling(field));
    differing.map(|(field, values)| Difference { field, values }).collect()
}
