//! Why the time of each group of an overview passes, where a reason accounts for much of it.

use std::collections::{HashMap, HashSet};

use super::score::{LEAST_OTHER_REASON, LEAST_REASON, MOST_EXPLAINED_COLUMNS, MOST_REASONS};
use super::{BLOCK, GroupReason, RUN, ReportSection, Row, SLEEP, WAIT, ZOMBIE, sum};
use crate::model::ReasonClass;
use crate::model::sorted::Arrange;

/// Why the time of a group passes in a column of the overview.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    /// Index of the group in the overview.
    pub(crate) group: usize,
    pub(crate) column: &'static str,
    /// Rows of reasons, the longest first; with two sides, the largest changes first.
    pub(crate) rows: Vec<Row>,
}

/// Why the time of the groups of an overview passes, in their order; in a tree, of the lowest groups only.
pub(super) fn lines(overview: &ReportSection, reasons: &ReportSection) -> Vec<Why> {
    let mut by_key: HashMap<&[String], Vec<&Row>> = HashMap::new();
    for row in &reasons.rows {
        by_key.entry(&reasons.groups[row.group].key).or_default().push(row);
    }
    let above: HashSet<&[String]> = reasons.groups.iter().filter_map(|group| Some(group.key.split_last()?.1)).collect();
    let groups = || overview.rows.chunk_by(|a, b| a.group == b.group);
    let of_groups = groups().filter(|rows| !overview.groups[rows[0].group].is_all());
    let busiest = of_groups.map(|rows| most_of(rows, &[RUN, WAIT, BLOCK])).fold(0.0, f64::max);
    // Threads of the kernel sleep in no system call, until there is work.
    let has_entries = reasons.rows.iter().filter_map(|row| row.reason.as_ref()).any(|reason| reason.entry.is_some());
    let of_group = |rows: &[Row]| {
        let group = &overview.groups[rows[0].group];
        let is_explained = !group.is_all() && !group.is_own() && !above.contains(&group.key[..]);
        let reasons = is_explained.then(|| by_key.get(&group.key[..])).flatten()?;
        Some(of_columns(rows, reasons, (busiest, has_entries)))
    };
    groups().filter_map(of_group).flatten().collect()
}

/// The sum of the rows with these names, of the side that has more.
fn most_of(rows: &[Row], names: &[&str]) -> f64 {
    let [a, b] = sum(rows.iter().filter(|row| names.contains(&&*row.name)));
    a.max(b)
}

fn of_columns(overview: &[Row], reasons: &[&Row], (busiest, has_entries): (f64, bool)) -> Vec<Why> {
    let idle = reasons.iter().copied().filter(|row| is_of(row, |class| class == ReasonClass::Idle));
    let times = overview.iter().filter(|row| [RUN, WAIT, BLOCK, SLEEP].contains(&&*row.name));
    let ([a, b], [c, d]) = (sum(times), sum(idle));
    let awake = (a - c).max(b - d);
    let active = most_of(overview, &[RUN, WAIT, BLOCK]);
    // Why a group sleeps that hardly does anything is of no interest.
    let is_busy = active >= busiest * LEAST_OTHER_REASON;
    let is_mentioned = |row: &Row, column: &str| {
        let is_of_column = row.reason.as_ref().and_then(|reason| reason.column()) == Some(column);
        let is_at_place = |reason: &GroupReason| reason.entry.is_some() || reason.class == ReasonClass::Unread;
        let is_in_call = !has_entries || row.reason.as_ref().is_some_and(|reason| is_at_place(reason));
        is_of_column && is_cause(row) && (column != SLEEP || (is_busy && is_in_call))
    };
    let mut lines: Vec<(f64, Why)> = [RUN, WAIT, BLOCK, SLEEP, ZOMBIE]
        .into_iter()
        .filter_map(|column| {
            // Of the time in which a group had something to do, or of all but what it was idle.
            let whole = if column == SLEEP { awake } else { active.max(most_of(overview, &[column])) };
            let mentioned = reasons.iter().filter(|row| is_mentioned(row, column));
            let mut rows: Vec<Row> = mentioned.map(|row| (*row).clone()).collect();
            let is_much = rows.iter().any(|row| row.amount() > 0.0 && row.amount() >= whole * LEAST_REASON);
            rows.retain(|row| row.amount() >= whole * LEAST_OTHER_REASON);
            // The threads that runtimes have for themselves sleep for long: what the program's own functions wait for comes first.
            let is_in_program = |row: &Row| row.reason.as_ref().is_some_and(|reason| reason.at.is_some());
            rows.arrange_by(|a, b| b.amount().total_cmp(&a.amount()));
            rows.arrange_by_key(|row| !is_in_program(row));
            rows.truncate(MOST_REASONS);
            rows.arrange_by(|a, b| b.amount().total_cmp(&a.amount()));
            let all = rows.iter().map(Row::amount).sum();
            is_much.then_some((all, Why { group: overview[0].group, column, rows }))
        })
        .collect();
    lines.arrange_by(|(a, _), (b, _)| b.total_cmp(a));
    lines.into_iter().map(|(_, why)| why).take(MOST_EXPLAINED_COLUMNS).collect()
}

fn is_of(row: &Row, is: impl Fn(ReasonClass) -> bool) -> bool {
    row.reason.as_ref().is_some_and(|reason| is(reason.class))
}

/// Whether a row is a reason that a reader can do something about: known, and of several runs clearly another than before.
fn is_cause(row: &Row) -> bool {
    let is_known = row.reason.as_ref().is_some_and(|reason| reason.is_known());
    let is_unclear = row.verdict().is_some_and(|verdict| !verdict.is_clear());
    let is_nobody =
        row.reason.as_ref().is_some_and(|reason| reason.class == ReasonClass::Zombie && reason.by.is_none());
    is_known && !is_unclear && !is_nobody && !is_of(row, |class| class == ReasonClass::Idle)
}
