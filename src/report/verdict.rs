//! Verdicts of several runs, as text.

use serde_json::{Value, json};

use super::{delta_text, percent_text};
use crate::compare::{Headline, Row, RowRuns, RunsNeeded, word};
use crate::model::Direction;
use crate::statistics::{Estimate, Interval, Verdict};

/// The interval of the change in percent: `+8.2..+11.5%`; empty if there is none.
pub(super) fn interval_text(runs: Option<&RowRuns>) -> String {
    let Some(Estimate { interval: Interval { low, high }, .. }) = runs.and_then(|runs| runs.estimate) else {
        return String::new();
    };
    range_text([low, high].map(change_text))
}

pub(super) fn interval_json(Interval { low, high }: Interval) -> Value {
    json!({"low": low, "high": high})
}

/// Returns both ends of an interval as text; a unit that both have is only at the end.
pub(super) fn range_text([low, high]: [String; 2]) -> String {
    let unit = ["%", "pp"].into_iter().find(|unit| high.ends_with(unit)).unwrap_or_default();
    let low = low.strip_suffix(unit).unwrap_or(&low);
    format!("{low}..{high}")
}

/// The verdict: `worse`, `more`, or `unclear: ±31%; about 60 runs would decide`; empty if there is none.
pub(super) fn verdict_text(row: &Row) -> String {
    let Some((runs, verdict)) = row.runs.as_deref().and_then(|runs| Some((runs, runs.verdict?))) else {
        return String::new();
    };
    if verdict != Verdict::Unclear {
        return word(verdict, row.direction()).to_owned();
    }
    let needed = |RunsNeeded { runs, .. }| format!("; {} runs would decide", runs_text(runs));
    match half_width(runs) {
        Some(half_width) => {
            format!("unclear: {}{}", half_width_text(half_width), runs.needed.map(needed).unwrap_or_default())
        }
        None if runs.quantum > 0.0 => "unclear: too few clock ticks".to_owned(),
        None => "unclear: 0 in some runs".to_owned(),
    }
}

/// The verdict on the value that stands for a group: `run: 9.8% worse`, `run: unclear (±31%)`, `wait: 60% more by other load`.
pub(super) fn short_text(row: &Row, headline: Headline) -> String {
    let Some((runs, verdict)) = row.runs.as_deref().and_then(|runs| Some((runs, runs.verdict?))) else {
        let delta = row.delta().filter(|delta| row.runs.is_none() && delta.number() != Some(0.0));
        return delta.map(|delta| format!("{} {}", row.name, delta_text(Some(&delta), row.unit))).unwrap_or_default();
    };
    let (name, word) = (&row.name, word(verdict, direction(row, headline)));
    let change = match runs.estimate.map(|estimate| estimate.change) {
        // A percentage says nothing of what was 0, or is.
        Some(0.0 | f64::INFINITY) if verdict.is_clear() => {
            return format!("{name}: {} {word}", delta_text(row.delta().as_ref(), row.unit));
        }
        change => change.map(change_text).unwrap_or_default(),
    };
    match verdict {
        Verdict::More | Verdict::Less => {
            let by = if headline == Headline::OtherLoad { " by other load" } else { "" };
            format!("{name}: {} {word}{by}", change.trim_start_matches(['+', '−']))
        }
        Verdict::Same => format!("{name}: {word} ({change})"),
        Verdict::Unclear => match half_width(runs) {
            Some(half_width) => format!("{name}: {word} ({})", half_width_text(half_width)),
            None => format!("{name}: {word}"),
        },
    }
}

/// Returns the direction in which a headline gets worse. Longer sleep is neither, unless the command takes longer because of it.
fn direction(row: &Row, headline: Headline) -> Direction {
    match headline {
        Headline::OtherLoad => Direction::Neither,
        Headline::Elapsed => Direction::MoreIsWorse,
        Headline::Change => row.direction(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Worse,
    Better,
    Neither,
}

/// Returns the outcome of a group, from the value that decides its verdict.
pub(super) fn outcome(row: &Row, headline: Headline) -> Outcome {
    let by_sign = |number: f64| if number > 0.0 { Verdict::More } else { Verdict::Less };
    let verdict = match &row.runs {
        Some(runs) => runs.verdict,
        None => row.delta().and_then(|delta| delta.number()).filter(|number| *number != 0.0).map(by_sign),
    };
    match verdict.map(|verdict| word(verdict, direction(row, headline))) {
        Some("worse") => Outcome::Worse,
        Some("better") => Outcome::Better,
        _ => Outcome::Neither,
    }
}

fn half_width(runs: &RowRuns) -> Option<f64> {
    runs.estimate?.interval.half_width()
}

/// A ratio as a change in percent; a large one as a factor.
pub(super) fn change_text(ratio: f64) -> String {
    match ratio {
        f64::INFINITY => "∞".to_owned(),
        LEAST_FACTOR.. => format!("×{ratio:.0}"),
        _ => percent_text(Some((ratio - 1.0) * 100.0)),
    }
}

const LEAST_FACTOR: f64 = 10.0;

fn half_width_text(half_width: f64) -> String {
    let percent = half_width * 100.0;
    match percent {
        ..9.95 => format!("±{}%", (percent * 10.0).round() / 10.0),
        ..999.5 => format!("±{percent:.0}%"),
        _ => ">±999%".to_owned(),
    }
}

/// Runs that nobody does.
const MANY_RUNS: usize = 1000;

/// About how many runs, with two digits.
pub(super) fn runs_text(runs: usize) -> String {
    match runs {
        ..100 => format!("about {runs}"),
        100..MANY_RUNS => format!("about {}", runs.div_ceil(10) * 10),
        _ => format!("over {MANY_RUNS}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_percentages_up_to_a_factor_of_ten() {
        let texts = [0.0, 0.9, 1.0, 1.098, 9.0, 53.8, f64::INFINITY].map(change_text);
        assert_eq!(texts, ["−100.0%", "−10.0%", "+0.0%", "+9.8%", "+800.0%", "×54", "∞"]);
        assert_eq!([0.05, 0.0123, 0.314, 12.0].map(half_width_text), ["±5%", "±1.2%", "±31%", ">±999%"]);
        assert_eq!([60, 233, 1000].map(runs_text), ["about 60", "about 240", "over 1000"]);
    }
}
