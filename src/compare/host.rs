//! What two snapshots are, what differs between their hosts, and what makes comparing them
//! doubtful.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::digest::Digest;
use super::{Sides, joined};
use crate::model::{Census, CtprofSnapshot, HostContext};

/// One snapshot, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Side {
    /// Its file.
    pub file: String,
    /// Host name.
    pub hostname: Option<String>,
    /// Release of the kernel.
    pub kernel_release: Option<String>,
    /// Machine.
    pub arch: Option<String>,
    /// When the capture began, in nanoseconds since 1970.
    pub captured_at_unix_ns: u64,
    /// Threads.
    pub threads: u64,
    /// Processes.
    pub processes: u64,
    /// What read the threads.
    pub engine: Option<String>,
    /// The program that wrote it, and its version.
    pub tool: Option<String>,
}

/// One thing that differs between the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Field of the host context.
    pub field: String,
    /// Its values.
    #[serde(flatten)]
    pub values: Sides<Option<String>>,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Header {
    /// The snapshots.
    #[serde(flatten)]
    pub sides: Sides<Side>,
    /// From the baseline's capture to the candidate's, in nanoseconds.
    pub apart_ns: i128,
    /// What differs in the host context; `None` where a side has none.
    pub differences: Option<Vec<Difference>>,
    /// What makes the comparison doubtful.
    pub warnings: Vec<String>,
}

pub(super) fn header(digests: Sides<&Digest>, labels: &Sides<String>) -> Header {
    let snapshots = digests.map(|digest| &digest.snapshot);
    let Sides { baseline, candidate } = snapshots;
    let apart = i128::from(candidate.captured_at_unix_ns) - i128::from(baseline.captured_at_unix_ns);
    let facts = snapshots.map(|snapshot| snapshot.host.as_ref().map(facts));
    let differences = match &facts {
        Sides { baseline: Some(a), candidate: Some(b) } => Some(differences(a, b)),
        _ => None,
    };
    let mut warnings = Vec::new();
    if apart < 0 {
        warnings.push("the candidate was captured before the baseline: are they the wrong way round?".to_owned());
    }
    warnings.extend(differences.iter().flatten().filter_map(doubt));
    warnings.extend(one_sided_sources(digests.map(|digest| &digest.census)));
    warnings.extend(options(snapshots));
    Header {
        sides: Sides {
            baseline: side(digests.baseline, &labels.baseline),
            candidate: side(digests.candidate, &labels.candidate),
        },
        apart_ns: apart,
        differences,
        warnings,
    }
}

pub(super) fn side(digest: &Digest, file: &str) -> Side {
    let snapshot = &digest.snapshot;
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
        engine: capture.map(|capture| capture.engine.clone()),
        tool: capture.map(|capture| format!("{} {}", capture.tool, capture.version)),
    }
}

/// The host context as names and texts, in the order of its fields; maps are spread out.
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

/// Fields that differ between any two captures, so that their difference says nothing.
const ALWAYS_DIFFERENT: [&str; 2] = ["uptime_ns", "heap_state"];

fn differences(baseline: &[(String, String)], candidate: &[(String, String)]) -> Vec<Difference> {
    let by_field = |facts: &[(String, String)]| facts.iter().cloned().collect::<BTreeMap<_, _>>();
    let fields = joined(Sides { baseline: by_field(baseline), candidate: by_field(candidate) });
    let telling = |field: &str| !ALWAYS_DIFFERENT.contains(&field.split('.').next().unwrap_or(field));
    let differing = fields.into_iter().filter(|(field, values)| values.baseline != values.candidate && telling(field));
    differing.map(|(field, values)| Difference { field, values }).collect()
}

/// What a difference between the hosts means for a comparison, where it means much.
fn doubt(difference: &Difference) -> Option<String> {
    let what = match difference.field.as_str() {
        "boot_id" => return Some("another boot: all counters began again in between".to_owned()),
        "hostname" => "another host",
        "kernel_release" => "another kernel",
        "arch" => "another architecture",
        "online_cpus" => "another number of CPUs",
        "clock_ticks_per_second" => "another tick rate: ticks can't be compared",
        _ => return None,
    };
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let Sides { baseline, candidate } = &difference.values;
    Some(format!("{what}: {} → {}", value(baseline), value(candidate)))
}

/// Sources that only one side could read.
fn one_sided_sources(census: Sides<&Census>) -> Vec<String> {
    let read = census.map(Census::sources);
    let one_sided = read.baseline.iter().filter(|(source, had)| read.candidate[*source] != **had);
    let warning = |(source, had): (&&str, &bool)| {
        let (has, lacks) = if *had { ("baseline", "candidate") } else { ("candidate", "baseline") };
        format!("{source} was read in the {has} only, not in the {lacks}")
    };
    one_sided.map(warning).collect()
}

/// Options of the captures that change what they hold.
fn options(snapshots: Sides<&CtprofSnapshot>) -> Option<String> {
    let Sides { baseline, candidate } = snapshots.map(|s| s.capture.as_ref().map(|capture| &capture.options));
    let differ = baseline.zip(candidate).is_some_and(|(a, b)| a != b);
    differ.then(|| "the captures were made with different options".to_owned())
}
