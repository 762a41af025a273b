//! Why the time of groups passes, in words: lines below the groups of an overview.

use super::scale::{cell_text, delta_text};
use super::selection::ShownSection;
use crate::compare::{Report, Row, Why, shortened};

/// Groups that have such lines: the first ones.
const MOST_GROUPS: usize = 5;
/// Longest name of an object, in characters.
const LONGEST_OBJECT: usize = 40;

/// The lines of the groups that lead an overview, with the index of each.
pub(super) fn lines(report: &Report, section: &ShownSection<'_>) -> Vec<(usize, Vec<String>)> {
    let groups = section.rows_of_groups().into_iter().filter(|rows| !section.is_idle(rows));
    let told = groups.filter_map(|rows| {
        let of_group = report.why.iter().filter(|why| why.group == rows[0].group);
        let lines: Vec<_> = of_group.map(|why| line(why, rows)).collect();
        (!lines.is_empty()).then_some((rows[0].group, lines))
    });
    told.take(MOST_GROUPS).collect()
}

/// `block 11%: fdatasync → submit_bio_wait on …/wal 9.5%, folio_wait_bit 1.2%`.
fn line(why: &Why, overview: &[&Row]) -> String {
    let total = overview.iter().find(|row| row.name == why.column && row.values.iter().any(Option::is_some));
    let total = total.map_or_else(String::new, |row| format!(" {}", amount(row)));
    let mut before = None;
    let reasons = why.rows.iter().filter_map(|row| {
        let reason = row.reason.as_deref()?;
        let (place, target) = (reason.place(), reason.target(object));
        // What the reason before it has too is not repeated.
        let shared = Some((reason.entry.clone(), target.clone()));
        let text = match reason.functions.first() {
            Some(function) if reason.entry.is_some() && before == shared => function.to_string(),
            _ => place + &target,
        };
        before = shared;
        Some(format!("{text} {}", amount(row)))
    });
    format!("{}{total}: {}", why.column, reasons.collect::<Vec<_>>().join(", "))
}

/// A value, or how much it changed.
fn amount(row: &Row) -> String {
    if row.values.candidate.is_some() {
        delta_text(row.delta().as_ref(), row.unit)
    } else {
        cell_text(row.values.baseline.as_ref(), row.unit)
    }
}

/// The name of an object; of a path only its last part.
fn object(name: &str) -> String {
    let last = name.rsplit_once('/').filter(|(front, last)| !front.is_empty() && !last.is_empty());
    shortened(&last.map_or_else(|| name.to_owned(), |(_, last)| format!("…/{last}")), LONGEST_OBJECT)
}
