//! Why the time of groups passes, in words: lines below the groups of an overview.

use super::{ShownSection, cell_text, delta_text, most_hindered};
use crate::compare::{Group, GroupReason, Report, Row, Throttled, Why, shortened};

/// Number of leading groups with such lines, besides the groups that waited or were blocked most.
const LEADING_GROUPS: usize = 5;
const VICTIMS: usize = 3;
/// Longest name of an object, in characters.
const LONGEST_OBJECT: usize = 40;

/// The lines of the groups that lead an overview, with the index of each.
pub(super) fn lines(report: &Report, section: &ShownSection<'_>) -> Vec<(usize, Vec<String>)> {
    let groups = section.rows_of_groups().into_iter().filter(|rows| !section.is_idle(rows));
    let explained = groups.filter_map(|rows| {
        let of_group = report.why.iter().filter(|why| why.group == rows[0].group);
        let quota = quota(section.group(rows[0]), rows).filter(|_| report.why.is_empty());
        let lines: Vec<_> = of_group.map(|why| line(why, rows)).chain(quota).collect();
        (!lines.is_empty()).then_some((rows, lines))
    });
    let explained: Vec<_> = explained.collect();
    let others: Vec<_> = explained.iter().skip(LEADING_GROUPS).map(|(rows, _)| *rows).collect();
    let victims = most_hindered(&others, VICTIMS);
    let by_group = explained.into_iter().map(|(rows, lines)| (rows[0].group, lines)).enumerate();
    by_group
        .filter(|(place, (group, _))| *place < LEADING_GROUPS || victims.contains(group))
        .map(|(_, lines)| lines)
        .collect()
}

/// `wait 80%: CPU quota (throttled in 38 of 40 periods)`, where no samples say how much of the wait is due to it.
fn quota(group: &Group, overview: &[&Row]) -> Option<String> {
    let wait = overview.iter().find(|row| row.name == "wait" && !row.is_next_to_nothing())?;
    let of_side = |throttled: Option<Throttled>| match throttled {
        Some(Throttled { periods, throttled }) => format!("{throttled} of {periods}"),
        None => "0".to_owned(),
    };
    let sides: Vec<_> = group.of_members(|members| members.throttled).into_iter().collect();
    let texts = sides.iter().copied().map(of_side).collect::<Vec<_>>().join(" → ");
    let text = format!("wait {}: CPU quota (throttled in {texts} periods)", amount(wait));
    sides.iter().any(Option::is_some).then_some(text)
}

/// `block 11%: fdatasync → submit_bio_wait on …/wal 9.5%, folio_wait_bit 1.2%`.
fn line(why: &Why, overview: &[&Row]) -> String {
    let total = overview.iter().find(|row| row.name == why.column && row.values.iter().any(Option::is_some));
    let total = total.map_or_else(String::new, |row| format!(" {}", amount(row)));
    let mut before = None;
    let reasons = why.rows.iter().filter_map(|row| {
        let reason = row.reason.as_deref()?;
        let reason = &GroupReason { by: reason.by.as_ref().map(|by| culprit(by).into()), ..reason.clone() };
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

/// The name of another group; of the path of a cgroup its last two parts.
fn culprit(name: &str) -> String {
    let cut = name.rmatch_indices('/').nth(1).filter(|(at, _)| name.starts_with('/') && *at > 0);
    cut.map_or_else(|| name.to_owned(), |(at, _)| format!("…{}", &name[at..]))
}

/// The name of an object; of a path only its last part.
fn object(name: &str) -> String {
    let last = name.rsplit_once('/').filter(|(front, last)| !front.is_empty() && !last.is_empty());
    shortened(&last.map_or_else(|| name.to_owned(), |(_, last)| format!("…/{last}")), LONGEST_OBJECT)
}
