//! The snapshots of a comparison, and the differences between their hosts.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::exited_work::exited_that_matter;
use super::{Digest, Runs, Sides, joined};
use crate::diagnose::{Side, Warning};
use crate::model::{ExitedWork, HostContext, SnapshotHead, WindowInfo};

/// Summary of a side of a report. As JSON, docs/output.md describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SideSummary {
    pub(crate) file: String,
    pub(crate) hostname: Option<String>,
    pub(crate) kernel_release: Option<String>,
    pub(crate) arch: Option<String>,
    pub(crate) captured_at_unix_ns: u64,
    pub(crate) threads: u64,
    pub(crate) processes: u64,
    /// The engine that read the threads.
    pub(crate) engine: Option<String>,
    /// The program that wrote the file, and its version.
    pub(crate) tool: Option<String>,
    /// Number and results of all runs, if this is the first of several; `None` for a single capture.
    #[serde(flatten)]
    pub(crate) runs: Option<RunCount>,
    /// The window, if it is one; of the candidate, the window since a baseline of the same boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<WindowSide>,
}

/// Number of runs of a side, and the facts that concern all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RunCount {
    pub(crate) runs: usize,
    /// Number of runs left out because their command failed.
    pub(crate) excluded: usize,
    /// Number of runs left out because the run next to them failed or is missing, so that they are in no pair.
    pub(crate) unpaired: usize,
    /// How long they took, in nanoseconds: the commands, or the windows without a command; `None` for snapshots.
    pub(crate) elapsed_ns: Option<Elapsed>,
    /// Number of runs in which exit records were lost.
    pub(crate) lost_exit_records: usize,
}

/// How long the runs of a side took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Elapsed {
    pub(crate) least: u64,
    pub(crate) median: u64,
    pub(crate) most: u64,
}

impl RunCount {
    /// The runs of a side; `None` for a single capture.
    pub(super) fn new(Runs { digests, excluded, unpaired, is_single }: &Runs) -> Option<Self> {
        if *is_single {
            return None;
        }
        let windows = || digests.iter().filter_map(|digest| digest.head.window.as_ref());
        let elapsed = windows().map(|window| window.command.as_ref().map_or(window.duration_ns, |ran| ran.elapsed_ns));
        let mut elapsed: Vec<u64> = elapsed.collect();
        elapsed.sort_unstable();
        let elapsed_ns = elapsed.first().zip(elapsed.last()).map(|(&least, &most)| Elapsed {
            least,
            median: elapsed[(elapsed.len() - 1) / 2].midpoint(elapsed[elapsed.len() / 2]),
            most,
        });
        let lost = windows().filter_map(|window| window.exit_records.as_ref()).filter(|records| records.lost > 0);
        let (excluded, unpaired) = (*excluded, *unpaired);
        Some(Self { runs: digests.len(), excluded, unpaired, elapsed_ns, lost_exit_records: lost.count() })
    }
}

/// A window: what it covers, and what happened to threads in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct WindowSide {
    #[serde(flatten)]
    pub(crate) info: WindowInfo,
    /// True if the values are increases since the baseline, not the values of the file.
    #[serde(skip)]
    pub(crate) since_baseline: bool,
    /// How often its threads were looked at per second; `None` if they were not sampled.
    #[serde(skip)]
    pub(crate) passes_per_second: Option<f64>,
    pub(crate) started: u64,
    pub(crate) exited: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command_totals: Option<CommandTotals>,
}

/// Totals of the command's threads that ran in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CommandTotals {
    pub(crate) threads: u64,
    /// Whether children did some of it whose threads nobody counted.
    #[serde(skip)]
    pub(crate) has_exited_children: bool,
    pub(crate) run_time_ns: Option<u64>,
    pub(crate) wait_time_ns: Option<u64>,
}

fn window_of(digest: &Digest) -> Option<WindowSide> {
    let info = digest.head.window.as_ref().or(digest.window.as_ref())?.clone();
    let (census, command) = (&digest.threads.census, &digest.threads.command);
    let command_totals = info.command.is_some().then(|| CommandTotals {
        threads: command.threads.saturating_add(command.turnover.exited),
        has_exited_children: exited_that_matter(command).any(|(kind, _)| *kind == ExitedWork::Children),
        run_time_ns: command.totals.run_time_ns.sum(),
        wait_time_ns: command.totals.wait_time_ns.sum(),
    });
    let since_baseline = digest.window.is_some();
    let sampling = digest.head.reasons.as_ref().map(|reasons| &reasons.sampling).filter(|_| !since_baseline);
    let passes_per_second = sampling.map(|sampling| sampling.passes as f64 / info.duration_ns.max(1) as f64 * 1e9);
    let (started, exited) = (census.started, census.exited);
    Some(WindowSide { info, since_baseline, passes_per_second, started, exited, command_totals })
}

/// A difference between the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Field of the host context.
    pub field: String,
    /// Values of both sides.
    #[serde(flatten)]
    pub values: Sides<Option<String>>,
}

/// Lines before the sections of a report.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Header {
    /// Summaries of the sides.
    pub sides: Sides<SideSummary>,
    /// The baseline's host settings by name; empty if unknown.
    pub host: Vec<(String, String)>,
    /// Time from the baseline's capture to the candidate's, in nanoseconds; `None` if a file lacks the time.
    pub apart_ns: Option<i64>,
    /// Differences of the host contexts; `None` if a side has no host context.
    pub differences: Option<Vec<Difference>>,
    /// Why the snapshots may not be comparable.
    pub warnings: Vec<Warning>,
}

impl Header {
    /// `digests` are the runs of each side, at least one.
    pub(super) fn new(digests: Sides<&[Digest]>, runs: Sides<Option<RunCount>>, labels: &Sides<String>) -> Self {
        let first = digests.map(|runs| &runs[0]);
        let sides = first.zip(runs).zip(labels.as_ref());
        let sides = sides.map(|((digest, runs), label)| SideSummary { runs, ..side(digest, label) });
        let host = digests.map(facts_of_runs);
        let facts_of_baseline = host.baseline.clone().unwrap_or_default();
        let differences = host.both().and_then(|(a, b)| Some(differences(a?, b?)));
        let compared = first.both().map(|(before, after)| compared(before, after, differences.as_deref()));
        let (apart_ns, mut warnings) = compared.unwrap_or_default();
        let names = digests.zip(Sides::two(Side::Baseline, Side::Candidate));
        let is_one_side = digests.candidate.is_none();
        let mixed = names.into_iter().filter_map(|(runs, side)| mixed_runs(runs, Some(side).filter(|_| !is_one_side)));
        warnings.extend(mixed);
        Self { sides, host: facts_of_baseline, apart_ns, differences, warnings }
    }
}

/// Fields of the host that all runs of a side should share.
const SHARED: [&str; 8] = [
    "arch",
    "clock_ticks_per_second",
    "cpu_microcode",
    "cpu_model",
    "hostname",
    "hypervisor",
    "kernel_release",
    "online_cpus",
];

/// The fields of the first run's host, and of the fields that runs should share the values of all runs, each once.
fn fields_of_runs(runs: &[Digest]) -> Option<Vec<(String, Vec<String>)>> {
    let mut hosts = runs.iter().filter_map(|run| run.head.host.as_ref()).map(host_fields);
    let mut fields: Vec<_> = hosts.next()?.into_iter().map(|(field, value)| (field, vec![value])).collect();
    for (field, value) in hosts.flatten().filter(|(field, _)| SHARED.contains(&&**field)) {
        match fields.iter_mut().find(|(listed, _)| *listed == field) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => fields.push((field, vec![value])),
        }
    }
    Some(fields)
}

/// Fields of the host by which equal work takes another time.
const OF_SPEED: [&str; 3] = ["cpu_model", "cpu_microcode", "hypervisor"];

/// Returns why percentages of times would compare processors: no run of one side has the processor of any run of the other.
pub(super) fn other_processor(digests: Sides<&[Digest]>) -> Option<String> {
    let (baseline, candidate) = digests.map(fields_of_runs).both()?;
    let (baseline, candidate) = (baseline?, candidate?);
    let values = |side: &[(String, Vec<String>)], field: &str| {
        side.iter().find(|(name, _)| name == field).map(|(_, values)| values.clone())
    };
    let different = OF_SPEED.iter().find_map(|field| {
        let (before, after) = (values(&baseline, field)?, values(&candidate, field)?);
        let is_shared = before.iter().any(|value| after.contains(value));
        (!is_shared).then(|| format!("{field}: {} → {}", before.join(", "), after.join(", ")))
    })?;
    let fix = "compare on one host (ctprof ab), gate another value, or add --allow-different-hosts";
    Some(format!(
        "the sides ran on different processors ({different}), which take different times for equal work; {fix}"
    ))
}

fn facts_of_runs(runs: &[Digest]) -> Option<Vec<(String, String)>> {
    Some(fields_of_runs(runs)?.into_iter().map(|(field, values)| (field, values.join(", "))).collect())
}

fn mixed_runs(runs: &[Digest], side: Option<Side>) -> Option<Warning> {
    let mixed = fields_of_runs(runs)?.into_iter().filter(|(_, values)| values.len() > 1);
    let fields: Vec<_> = mixed.map(|(field, values)| format!("{field} {}", values.join(", "))).collect();
    (!fields.is_empty()).then_some(Warning::MixedRuns { side, fields })
}

/// The time between two captures, if it is known, and why they may not be comparable.
fn compared(before: &Digest, after: &Digest, differences: Option<&[Difference]>) -> (Option<i64>, Vec<Warning>) {
    let (baseline, candidate) = (&before.head, &after.head);
    let time = |snapshot: &SnapshotHead| Some(i128::from(snapshot.captured_at_unix_ns)).filter(|time| *time > 0);
    let apart_ns = time(candidate).zip(time(baseline)).map(|(candidate, baseline)| candidate - baseline);
    // Times that far apart are none.
    let apart_ns = apart_ns.and_then(|apart| i64::try_from(apart).ok());
    // Two runs have no order, and of one boot the time since boot decides, not the wall clock.
    let by_wall_clock = baseline.window.is_none() && candidate.window.is_none() && after.window.is_none();
    let is_older = apart_ns.is_some_and(|apart| apart < 0 && by_wall_clock);
    let mut warnings: Vec<_> = is_older.then_some(Warning::CandidateOlder).into_iter().collect();
    warnings.extend(differences.into_iter().flatten().filter_map(|difference| {
        let (baseline, candidate) = difference.values.clone().both()?;
        Warning::for_host_field(&difference.field, baseline, candidate)
    }));
    warnings.extend(Warning::one_sided_sources(&before.threads.census, &after.threads.census));
    warnings.extend(Warning::different_options(baseline, candidate));
    (apart_ns, warnings)
}

fn side(digest: &Digest, file: &str) -> SideSummary {
    let snapshot = &digest.head;
    let host = snapshot.host.as_ref();
    let capture = snapshot.capture.as_ref();
    SideSummary {
        file: file.to_owned(),
        hostname: host.and_then(|host| host.hostname.clone()),
        kernel_release: host.and_then(|host| host.kernel_release.clone()),
        arch: host.and_then(|host| host.arch.clone()),
        captured_at_unix_ns: snapshot.captured_at_unix_ns,
        threads: digest.threads.census.threads,
        processes: digest.threads.census.processes,
        engine: capture.map(|capture| capture.engine.clone()).filter(|engine| !engine.is_empty()),
        tool: capture.map(|capture| format!("{} {}", capture.tool, capture.version)),
        runs: None,
        window: window_of(digest),
    }
}

/// The host context as names and texts, in the order of its fields, with one entry per key of a map.
fn host_fields(host: &HostContext) -> Vec<(String, String)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(host) else { return Vec::new() };
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let spread = fields.into_iter().flat_map(|(field, value)| match value {
        Value::Object(map) => map.into_iter().map(|(key, value)| (format!("{field}.{key}"), text(value))).collect(),
        value => vec![(field, text(value))],
    });
    spread.collect()
}

/// Fields that differ between any two captures: their difference has no meaning.
const ALWAYS_DIFFERENT: [&str; 2] = ["uptime_ns", "heap_state"];

fn differences(baseline: Vec<(String, String)>, candidate: Vec<(String, String)>) -> Vec<Difference> {
    let fields = joined(Sides::two(BTreeMap::from_iter(baseline), BTreeMap::from_iter(candidate)));
    let telling = |field: &str| !ALWAYS_DIFFERENT.contains(&field.split('.').next().unwrap_or(field));
    let all = fields.into_iter().map(|(field, values)| Difference { field, values });
    let differs = |values: &Sides<_>| Some(&values.baseline) != values.candidate.as_ref();
    all.filter(|difference| differs(&difference.values) && telling(&difference.field)).collect()
}
