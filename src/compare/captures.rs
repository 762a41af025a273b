//! The captures themselves: what they read, what they could not, what they cost; and why a section
//! has nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Sides;
use super::group::Group;
use super::rows::{Row, Table};
use crate::diagnose::Finding;
use crate::model::{Cell, CtprofSnapshot, Section, Unit};

type Facts = BTreeMap<Cow<'static, str>, (Unit, Cell)>;

/// The section on the captures.
pub(super) fn table(snapshots: Sides<Option<&CtprofSnapshot>>, gaps: Sides<&Vec<Finding>>) -> Table {
    let facts = snapshots.map(|snapshot| snapshot.map(facts).unwrap_or_default());
    let exists = snapshots.map(|snapshot| snapshot.is_some());
    let mut names: Vec<_> = facts.baseline.keys().chain(facts.candidate.keys()).cloned().collect();
    names.sort();
    names.dedup();
    let row = |name: Cow<'static, str>| {
        let found = facts.as_ref().map(|facts| facts.get(&name));
        let unit = found.into_iter().flatten().map(|(unit, _)| *unit).next().unwrap_or(Unit::None);
        Row::new(0, name, unit, found.map(|fact| fact.map(|(_, cell)| cell.clone())), exists)
    };
    let name = "capture".to_owned();
    let members = exists.map(|there| there.then_some(1));
    let group = Group { path: vec![name.clone()], name, members, ..Group::default() };
    Table {
        section: Section::Capture,
        groups: vec![group],
        rows: names.into_iter().map(row).collect(),
        notes: hints(gaps, exists.candidate),
    }
}

fn facts(snapshot: &CtprofSnapshot) -> Facts {
    let mut facts = Facts::new();
    let mut fact = |name: Cow<'static, str>, unit, value: Option<u64>| {
        facts.extend(value.map(|value| (name, (unit, Cell::Number(value)))));
    };
    if let Some(capture) = &snapshot.capture {
        fact("duration".into(), Unit::Ns, Some(capture.duration_ns));
        fact("jobs".into(), Unit::Count, Some(capture.jobs));
        let cost = capture.self_cost.as_ref();
        fact("cost.user".into(), Unit::Ns, cost.and_then(|cost| cost.user_ns));
        fact("cost.system".into(), Unit::Ns, cost.and_then(|cost| cost.system_ns));
        fact("cost.peak_rss".into(), Unit::Bytes, cost.and_then(|cost| cost.peak_rss_bytes));
    }
    if let Some(summary) = &snapshot.parse_summary {
        fact("threads.walked".into(), Unit::Count, Some(summary.tids_walked));
        fact("threads.ended".into(), Unit::Count, Some(summary.ghosts));
        fact("negative_times".into(), Unit::Count, Some(summary.negative_dotted_values));
        for (file, errnos) in &summary.read_failures_by_errno {
            for (errno, count) in errnos {
                fact(format!("not_read.{file}.{errno}").into(), Unit::Count, Some(*count));
            }
        }
    }
    if let Some(summary) = &snapshot.taskstats_summary {
        fact("taskstats.answered".into(), Unit::Count, Some(summary.ok_count));
        fact("taskstats.refused".into(), Unit::Count, Some(summary.eperm_count));
        fact("taskstats.ended".into(), Unit::Count, Some(summary.esrch_count));
        fact("taskstats.other".into(), Unit::Count, Some(summary.other_err_count));
        fact("taskstats.version".into(), Unit::None, summary.struct_version.map(u64::from));
    }
    facts
}

/// What was missing, on which side, and what cures it.
fn hints(gaps: Sides<&Vec<Finding>>, two_sided: bool) -> Vec<String> {
    let Sides { baseline, candidate } = gaps;
    let both = |gap| if candidate.contains(gap) { "both" } else { "baseline" };
    let sided = baseline.iter().map(|gap| (if two_sided { both(gap) } else { "" }, gap));
    let others = candidate.iter().filter(|gap| !baseline.contains(gap)).map(|gap| ("candidate", gap));
    let line = |(side, gap): (&str, &Finding)| {
        let side = if side.is_empty() { String::new() } else { format!("{side}: ") };
        let remedy = if gap.remedy.is_empty() { String::new() } else { format!("; {}", gap.remedy) };
        format!("{side}{}: {}{remedy}", gap.source, gap.reason)
    };
    sided.chain(others).map(line).collect()
}

/// Why a section that was asked for has nothing.
pub(super) fn why_nothing(section: Section, gaps: Sides<&Vec<Finding>>) -> String {
    let source = match section {
        Section::TaskstatsDelay => "taskstats",
        Section::HostPressure | Section::Pressure => "pressure",
        Section::SchedExt => "sched_ext",
        Section::SmapsRollup => "smaps_rollup",
        section if section.is_of_cgroups() => "cgroups",
        _ => "",
    };
    let known = gaps.into_iter().flatten().find(|gap| gap.source == source);
    known.map_or_else(
        || "nothing was recorded".to_owned(),
        |gap| if gap.remedy.is_empty() { gap.reason.clone() } else { format!("{}; {}", gap.reason, gap.remedy) },
    )
}

/// Sections about cgroups are shown when threads are grouped so too.
pub(super) fn only_by_cgroup(section: Section) -> Table {
    let note = "shown with --group-by cgroup".to_owned();
    Table { section, groups: Vec::new(), rows: Vec::new(), notes: vec![note] }
}
