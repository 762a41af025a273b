//! The sentence that begins a page: what gates say, what changed most, or who is busiest and what it waits for.

use super::super::{cell_text, gates, group_change, of_headline, short_text, why};
use super::rows::PageSection;
use crate::compare::{ELAPSED, GateResult, Headline, RUN, Report, Row, plain_number};

/// The answer; empty for a report without an overview and gates. A group is not named twice.
pub(super) fn sentence(report: &Report, overview: Option<&PageSection<'_>>) -> String {
    let has_elapsed_gate = report.gates.iter().any(|result| result.metric == ELAPSED);
    let elapsed = report.elapsed().filter(|_| !has_elapsed_gate).map(|row| short_text(row, Headline::Elapsed));
    let worst = gates::worst_first(&report.gates).into_iter().next().filter(|result| gates::needs_attention(result));
    let leader = overview.filter(|page| {
        let leading = page.shown.rows.first().map(|row| &page.shown.group(row).key);
        worst.is_none_or(|worst| Some(&worst.group) != leading)
    });
    let leader = leader.map(|page| leading(report, page));
    let parts = [gated(report, worst), elapsed.unwrap_or_default(), leader.unwrap_or_default()];
    parts.iter().filter(|part| !part.is_empty()).map(|part| format!("{part}.")).collect::<Vec<_>>().join(" ")
}

/// `1 gate failed, 1 passed: make run +16.7%, bound >10%`.
fn gated(report: &Report, worst: Option<&GateResult>) -> String {
    let worst = worst.map(gates::cells).map(|[_, group, metric, _, _, change, _, bound, _]| match &*change {
        "-" => format!(": {group} {metric}{bound}"),
        change => format!(": {group} {metric} {change}, bound {bound}"),
    });
    gates::counts(&report.gates) + &worst.unwrap_or_default()
}

/// The group that ran or changed most, with what it waits for: `w is the busiest: run 53%, wait 449% (v ran 70%)`. Empty if the
/// overview is in another order, or without run time.
fn leading(report: &Report, page: &PageSection<'_>) -> String {
    let groups = page.shown.rows_of_groups().into_iter().filter(|rows| !page.shown.is_idle(rows)).collect::<Vec<_>>();
    if groups.is_empty() {
        let what = if report.is_comparison() { "changed" } else { "did anything" };
        return format!("No group {what}");
    }
    if report.is_comparison() { changed(report, page, groups[0]) } else { busiest(report, page, &groups) }
}

fn busiest(report: &Report, page: &PageSection<'_>, groups: &[&[&Row]]) -> String {
    let runs = groups.iter().flat_map(|rows| rows.iter().filter(|row| row.name == RUN));
    let time = |row: &Row| row.values.baseline.as_ref().and_then(plain_number);
    // Of a tree, a group before those below it, which may be all that it ran.
    let most = runs.reduce(|most, row| if time(row) > time(most) { row } else { most });
    let Some(row) = most.filter(|row| time(row).is_some()) else { return String::new() };
    let name = page.shown.group(row).full_label();
    let run = cell_text(row.values.baseline.as_ref(), row.unit);
    format!("{name} is the busiest: run {run}{}", delay(report, page, row))
}

fn changed(report: &Report, page: &PageSection<'_>, rows: &[&Row]) -> String {
    let section = page.shown.section;
    let headline = of_headline(section, rows[0]).filter(|_| !section.order.starts_with("sorted by"));
    let Some((headline, _)) = headline else { return String::new() };
    if headline.verdict().is_some_and(|verdict| !verdict.is_clear()) {
        return "No group changed clearly".to_owned();
    }
    let name = page.shown.group(rows[0]).full_label();
    match group_change(section, rows[0]).replacen(": ", " ", 1) {
        change if change.is_empty() => String::new(),
        change => {
            let delay = delay(report, page, rows[0]);
            let why = delay.strip_prefix(&format!(", {change}")).unwrap_or(&delay);
            format!("{name} changed most: {change}{why}")
        }
    }
}

/// `, wait 449% (v ran 70%)`: what the group of a row waits for, or is blocked by; empty if that is unknown.
fn delay(report: &Report, page: &PageSection<'_>, row: &Row) -> String {
    let lines = why::lines(report, &page.shown).into_iter().find(|(group, _)| *group == row.group);
    let lines = lines.map(|(_, lines)| lines).unwrap_or_default();
    let delay = lines.iter().find(|line| line.starts_with("wait") || line.starts_with("block"));
    let parts = delay.and_then(|line| line.split_once(": "));
    parts.map(|(time, why)| format!(", {time} ({why})")).unwrap_or_default()
}
