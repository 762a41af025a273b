//! The largest contribution to the failure of a gate: a group, and the reason of its time.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::score::LEAST_OF_SLOWDOWN;
use super::{BLOCK, Delta, ELAPSED, GroupReason, Headline, Quantity, RUN, ReportSection, Row, SLEEP, WAIT, is_gated};
use crate::model::{Section, Unit};
use crate::statistics::Beyond;

/// The group that contributes most to the failure of a gate.
#[derive(Clone, Debug)]
pub(crate) struct GateCause {
    /// The path of the group.
    pub(crate) group: Vec<String>,
    /// The value of the group that changed: of a gate on elapsed time, the time that explains it.
    pub(crate) value: String,
    pub(crate) unit: Unit,
    pub(crate) delta: Option<Delta>,
    /// Reason of that time: what the group did or waited for; `None` without samples, or if nothing accounts for much of the
    /// change.
    pub(crate) reason: Option<Arc<GroupReason>>,
}

/// The sections in which causes are looked for.
#[derive(Clone, Copy)]
pub(super) struct CauseSections<'r> {
    /// The section that the gate looks at.
    pub(super) gated: &'r ReportSection,
    /// The overview with ranked groups.
    pub(super) overview: Option<&'r ReportSection>,
    pub(super) reasons: Option<&'r ReportSection>,
}

/// Returns why a gate on this value failed, which is one of the group with this path, or of all together; `None` for values that
/// groups do not add up to, and if no group explains much of the change.
pub(super) fn of_failed(
    (path, metric): (&[String], &str),
    beyond: Beyond,
    sections: CauseSections<'_>,
) -> Option<GateCause> {
    let section = if metric == ELAPSED { sections.overview? } else { sections.gated };
    let is_gated_value = |row: &&Row| row.name == metric && section.groups[row.group].key == path;
    let gated = section.rows.iter().find(is_gated_value)?;
    let least = LEAST_OF_SLOWDOWN * contribution(gated, beyond);
    let row = match path {
        [] if metric == ELAPSED => explanation(section, (beyond, least))?,
        [] => largest(section, metric, (beyond, least))?,
        _ => gated,
    };
    let group = section.groups[row.group].key.clone();
    let reasons = sections.reasons.filter(|_| section.section != Section::Reasons);
    let reason = reasons.zip(column(&row.name)).and_then(|(reasons, column)| reason(reasons, &group, column, beyond));
    // The gate itself says which group it is about.
    if reason.is_none() && group == path {
        return None;
    }
    Some(GateCause { group, value: row.name.to_string(), unit: row.unit, delta: row.delta(), reason })
}

/// Returns the change of a row in the direction that the bound forbids.
fn contribution(row: &Row, beyond: Beyond) -> f64 {
    let [before, after] = row.numbers();
    if beyond == Beyond::Above { after - before } else { before - after }
}

/// Returns the row that contributes most, if that is more than `least`.
fn most<'r>(rows: impl Iterator<Item = &'r Row>, (beyond, least): (Beyond, f64)) -> Option<&'r Row> {
    let most = rows.max_by(|a, b| contribution(a, beyond).total_cmp(&contribution(b, beyond)));
    most.filter(|row| contribution(row, beyond) > least)
}

/// The rows of the groups of a tree that no other groups are below.
fn rows_of_groups(section: &ReportSection) -> impl Iterator<Item = &Row> {
    let gated = section.groups.iter().filter(|group| is_gated(group));
    let above: BTreeSet<_> = gated.filter_map(|group| Some(group.key.split_last()?.1)).collect();
    let is_lowest = move |row: &&Row| {
        let group = &section.groups[row.group];
        is_gated(group) && !above.contains(&group.key[..])
    };
    section.rows.iter().filter(is_lowest)
}

/// Returns the row of the group whose value changed most; `None` if the value has no groups, as the host's values.
fn largest<'r>(section: &'r ReportSection, value: &str, bound: (Beyond, f64)) -> Option<&'r Row> {
    let is_total = |row: &Row| section.section == Section::Reasons || row.quantity.is_some_and(Quantity::is_total);
    most(rows_of_groups(section).filter(|row| row.name == value && is_total(row)), bound)
}

/// The time of a group that explains why commands take longer or shorter: of single runs, the one that changed most.
fn explanation(overview: &ReportSection, bound: (Beyond, f64)) -> Option<&Row> {
    let explains = |row: &&Row| matches!(row.headline, Some(Headline::Elapsed | Headline::OtherLoad));
    let is_busy = |row: &&Row| [RUN, WAIT, BLOCK].contains(&&*row.name);
    let is_repeated = overview.rows.iter().any(|row| row.verdict().is_some());
    if is_repeated {
        return rows_of_groups(overview).find(explains);
    }
    most(rows_of_groups(overview).filter(is_busy), bound)
}

/// The column of the overview that a value is the time of, if it is one.
fn column(value: &str) -> Option<&'static str> {
    match value {
        RUN | "run_time_ns" => Some(RUN),
        WAIT | "wait_time_ns" => Some(WAIT),
        BLOCK => Some(BLOCK),
        SLEEP => Some(SLEEP),
        _ => None,
    }
}

/// The known reason of a group whose time in a column changed most.
fn reason(reasons: &ReportSection, group: &[String], column: &str, beyond: Beyond) -> Option<Arc<GroupReason>> {
    let is_of_column = |row: &&Row| {
        let reason = row.reason.as_deref().filter(|reason| reason.is_known());
        reasons.groups[row.group].key == group && reason.and_then(GroupReason::column) == Some(column)
    };
    most(reasons.rows.iter().filter(is_of_column), (beyond, 0.0))?.reason.clone()
}
