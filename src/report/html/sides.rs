//! Facts about captures on a page: its title, how busy CPUs were, and rows of texts.

use std::borrow::Cow;

use serde::Serialize;

use super::super::{described, window::local_clock};
use super::sections::SectionData;
use super::shared::Shared;
use crate::compare::{Header, Report, SideSummary};

/// `redis-server, 2026-01-31 12:00 CET`: the commands, else the files, and when the last capture was made, in local time.
pub(super) fn title(report: &Report) -> String {
    let sides: Vec<_> = report.header.iter().flat_map(|header| header.sides.iter()).collect();
    let mut names: Vec<_> = sides.iter().map(|side| name(side)).filter(|name| !name.is_empty()).collect();
    names.dedup();
    let names = if names.is_empty() { "ctprof".to_owned() } else { names.join(" → ") };
    let when = sides.last().and_then(|side| local_clock(side.captured_at_unix_ns, "%Y-%m-%d %H:%M"));
    format!("{names}{}", when.map(|when| format!(", {when}")).unwrap_or_default())
}

fn name(side: &SideSummary) -> String {
    let command = side.window.as_ref().and_then(|window| window.info.command.as_ref());
    let arguments = command.map(|command| command.arguments.join(" ")).filter(|arguments| !arguments.is_empty());
    arguments.unwrap_or_else(|| side.file.rsplit('/').next().unwrap_or_default().to_owned())
}

/// The shares of a host's CPU time: what threads explain, and what was busy.
#[derive(Serialize)]
pub(super) struct CpuBar {
    explained: f64,
    busy: f64,
    text: String,
    /// Whether the CPUs had no time left.
    saturated: bool,
}

/// CPUs that are busy for more of their time have none left, in percent.
const SATURATED: f64 = 95.0;

impl CpuBar {
    /// `None` for several runs, and where a container or selected processes are only a part of what the host did.
    pub(super) fn new(side: &SideSummary) -> Option<Self> {
        let window = side.window.as_ref().filter(|_| side.runs.is_none())?;
        let cpu = window.info.cpu.as_ref().filter(|cpu| !cpu.partial)?;
        let capacity = cpu.cpus as f64 * window.info.duration_ns as f64;
        let share = |ns: u64| (ns as f64 / capacity * 100.0).min(100.0);
        let [explained, busy] = [cpu.explained_ns, cpu.busy_ns].map(share);
        let [least, most] = [busy, share(cpu.busy_most_ns.unwrap_or(cpu.busy_ns))].map(|share| format!("{share:.0}"));
        let range = if least == most { most } else { format!("{least} to {most}") };
        let saturated = busy >= SATURATED;
        let text = format!("CPUs {range}% busy{}", if saturated { ": saturated" } else { "" });
        (capacity > 0.0).then_some(Self { explained, busy, text, saturated })
    }
}

/// Facts about the captures and their hosts, as sections of texts.
pub(super) fn sections<'p>(report: &'p Report, shared: &mut Shared<'p>) -> Vec<SectionData<'p>> {
    let Some(header) = &report.header else { return Vec::new() };
    let name = if header.sides.baseline.runs.is_some() { "first run" } else { "capture" };
    let captures = [(name.into(), header.sides.iter().map(described).collect())];
    let renamed = report.renamed.iter().map(|renamed| {
        let alike = format!("renamed, {:.0}% of threads alike", renamed.similarity * 100.0);
        (alike.into(), vec![renamed.baseline.clone(), renamed.candidate.clone()])
    });
    let missing = report.gaps.iter().map(|gap| {
        let fix = gap.fix.as_ref().map(|fix| format!(". Fix: {fix}")).unwrap_or_default();
        let reason = gap.reason().unwrap_or_else(|| "-".to_owned());
        (gap.source.to_string().into(), vec![format!("{reason}{fix}")])
    });
    vec![
        SectionData::of_texts("settings", settings(header), shared),
        SectionData::of_texts("renamed cgroups", renamed, shared),
        SectionData::of_texts("captures", captures, shared),
        SectionData::of_texts("missing data", missing, shared),
    ]
}

/// A name, and its text of each side.
type Texts<'p> = (Cow<'p, str>, Vec<String>);

/// The settings of the only host, or what differs between two.
fn settings(header: &Header) -> Vec<Texts<'_>> {
    let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    if header.sides.candidate.is_none() {
        return header.host.iter().map(|(field, value)| (field.into(), vec![value.clone()])).collect();
    }
    let differences = header.differences.iter().flatten();
    differences.map(|one| ((&*one.field).into(), one.values.iter().map(or_dash).collect())).collect()
}
