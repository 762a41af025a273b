//! The course of a group's values as a row of bars.

use crate::compare::{Group, Trend};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar per part of the series; blank before the group started and after it exited.
pub(super) fn sparkline(trend: &Trend, group: &Group) -> String {
    let Ok(place) = trend.groups.binary_search_by(|of| of.path.cmp(&group.key)) else { return String::new() };
    let values = &trend.groups[place].values;
    let most = values.iter().copied().fold(0.0, f64::max);
    let is_something = |value: &f64| *value > 0.0;
    let turnover = group.turnover().baseline.unwrap_or_default();
    let members = group.members().baseline.unwrap_or(0);
    let has_started = turnover.started > 0 && turnover.started >= members.saturating_add(turnover.exited);
    let first = values.iter().position(is_something).filter(|_| has_started).unwrap_or(0);
    let last = values.iter().rposition(is_something).filter(|_| members == 0).unwrap_or(values.len());
    let bar = |(place, value): (usize, &f64)| match value {
        _ if place < first || place > last => ' ',
        value => {
            let is_above = |eighth: &usize| *value > most * *eighth as f64 / BARS.len() as f64;
            BARS[(1..BARS.len()).filter(is_above).count()]
        }
    };
    values.iter().enumerate().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, Digest, OverviewColumn, Runs, show, trends};
    use crate::model::Section;
    use crate::model::{CtprofSnapshot, ThreadSpan, ThreadState, WindowInfo};

    /// A window with a thread of this name that ran so long, in tenths of a second.
    fn window(run: u64, span: ThreadSpan) -> CtprofSnapshot {
        let mut thread = ThreadState { pcomm: "job".into(), comm: "job".into(), ..ThreadState::default() };
        thread.metrics.run_time_ns = Some((run * 100_000_000).into());
        thread.span = Some(span);
        let mut window = CtprofSnapshot { threads: vec![thread], ..CtprofSnapshot::default() };
        window.head.window = Some(WindowInfo { duration_ns: 1_000_000_000, ..WindowInfo::default() });
        window
    }

    #[test]
    fn a_sparkline_is_blank_before_the_group_started_and_after_it_exited() {
        let column = OverviewColumn::named("run").unwrap();
        let of = |runs: &[u64], span: ThreadSpan| {
            let options = CompareOptions::default();
            let mut parts = Runs::default();
            runs.iter().for_each(|run| parts.add(Digest::of_snapshot(&window(*run, ThreadSpan::default()), &options)));
            let report = show(&window(5, span), &options);
            let section = report.sections.iter().find(|section| section.section == crate::model::Section::Overview);
            let group = section.unwrap().groups.iter().find(|group| group.label == "job").unwrap();
            sparkline(&trends(parts, &[column], &[Section::Overview], &options)[0], group)
        };
        assert_eq!(of(&[0, 1, 4, 8, 0], ThreadSpan::default()), "▁▁▄█▁");
        assert_eq!(of(&[0, 1, 4, 8, 0], ThreadSpan { started: true, exited: true, ..ThreadSpan::default() }), " ▁▄█ ");
    }
}
