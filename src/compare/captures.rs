//! The captures themselves: what they read, what they could not, what they cost.

use super::Sides;
use super::entry::{Entry, SideSection, one_group};
use crate::diagnose::{Finding, Note};
use crate::model::{Cell, CtprofSnapshot, Section, Unit};

/// The section on one side.
pub(super) fn section(snapshot: &CtprofSnapshot) -> SideSection {
    let mut entries = Vec::new();
    facts(snapshot, |name, unit, value| {
        entries.extend(value.map(|value| Entry::whole(name, unit, Cell::Number(value), 1)));
    });
    entries.sort_by(|a: &Entry, b: &Entry| a.name.cmp(&b.name));
    one_group("capture", entries)
}

fn facts(snapshot: &CtprofSnapshot, mut fact: impl FnMut(String, Unit, Option<u64>)) {
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
        fact("threads.exited".into(), Unit::Count, Some(summary.ghosts));
        fact("negative_times".into(), Unit::Count, Some(summary.negative_dotted_values));
        for (file, errnos) in &summary.read_failures_by_errno {
            for (errno, count) in errnos {
                fact(format!("not_read.{file}.{errno}"), Unit::Count, Some(*count));
            }
        }
    }
    if let Some(summary) = &snapshot.taskstats_summary {
        fact("taskstats.answered".into(), Unit::Count, Some(summary.ok_count));
        fact("taskstats.refused".into(), Unit::Count, Some(summary.eperm_count));
        fact("taskstats.exited".into(), Unit::Count, Some(summary.esrch_count));
        fact("taskstats.other".into(), Unit::Count, Some(summary.other_err_count));
        fact("taskstats.version".into(), Unit::None, summary.struct_version.map(u64::from));
    }
}

/// What was missing, and on which side of two.
pub(super) fn hints(gaps: Sides<&[Finding]>) -> Vec<Note> {
    let Sides { baseline, candidate } = gaps;
    let side = |gap| if candidate.contains(gap) { "both" } else { "baseline" };
    let first = baseline.iter().map(|gap| Note::Gap(Some(side(gap)), gap.clone()));
    let others = candidate.iter().filter(|gap| !baseline.contains(gap));
    first.chain(others.map(|gap| Note::Gap(Some("candidate"), gap.clone()))).collect()
}

/// Why a section that was asked for has nothing.
pub(super) fn why_nothing(section: Section, gaps: Sides<&[Finding]>) -> Note {
    let source = match section {
        Section::TaskstatsDelay => "taskstats",
        Section::HostPressure | Section::Pressure => "pressure",
        Section::SchedExt => "sched_ext",
        Section::SmapsRollup => "smaps_rollup",
        section if section.is_of_cgroups() => "cgroups",
        _ => "",
    };
    let known = gaps.into_iter().flatten().find(|gap| gap.source == source);
    known.map_or(Note::NoData, |gap| Note::Gap(None, gap.clone()))
}
