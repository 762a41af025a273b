//! The trend of a group as a row of bars.

use crate::compare::{Group, Trend};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Share of the median part, as a divisor, below which the rate of a part is left out: short parts, such as the recorder's last
/// one, show a moment. The longest part can be a time in which nothing was recorded.
const SHORTEST_PART: u64 = 10;

/// A bar per part of the series; blank before the group started, after it exited, and for parts that are too short or whose
/// value is unknown.
pub(super) fn sparkline(trend: &Trend, group: &Group) -> String {
    let Ok(place) = trend.groups.binary_search_by(|of| of.path.cmp(&group.key)) else { return String::new() };
    let values = &trend.groups[place].values;
    let mut lengths = trend.duration_ns.clone();
    lengths.sort_unstable();
    let median_ns = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let is_short = |place| trend.duration_ns.get(place).is_some_and(|part_ns| *part_ns < median_ns / SHORTEST_PART);
    let whole = values.iter().enumerate().filter(|(place, _)| !is_short(*place));
    let most = whole.map(|(_, value)| *value).fold(0.0, f64::max);
    let is_something = |value: &f64| *value > 0.0;
    let turnover = group.turnover().baseline.unwrap_or_default();
    let members = group.members().baseline.unwrap_or(0);
    let has_started = turnover.started > 0 && turnover.started >= members.saturating_add(turnover.exited);
    let first = values.iter().position(is_something).filter(|_| has_started).unwrap_or(0);
    let last = values.iter().rposition(is_something).filter(|_| members == 0).unwrap_or(values.len());
    let bar = |(place, value): (usize, &f64)| match value {
        value if value.is_nan() || place < first || place > last || is_short(place) => ' ',
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

    const SECOND: u64 = 1_000_000_000;

    /// A second with a thread of this name that ran so long, in tenths of a second.
    fn window(run: u64, span: ThreadSpan) -> CtprofSnapshot {
        window_of(SECOND, run, span)
    }

    fn window_of(duration_ns: u64, run: u64, span: ThreadSpan) -> CtprofSnapshot {
        let mut thread = ThreadState { pcomm: "job".into(), comm: "job".into(), ..ThreadState::default() };
        thread.metrics.run_time_ns = Some((run * 100_000_000).into());
        thread.span = Some(span);
        let mut window = CtprofSnapshot { threads: vec![thread], ..CtprofSnapshot::default() };
        window.head.window = Some(WindowInfo { duration_ns, ..WindowInfo::default() });
        window
    }

    /// The sparkline of these parts of a group that was alive for so long.
    fn of_parts(parts: &[CtprofSnapshot], span: ThreadSpan) -> String {
        let column = OverviewColumn::named("run").unwrap();
        let options = CompareOptions::default();
        let mut runs = Runs::default();
        parts.iter().for_each(|part| runs.add(Digest::of_snapshot(part, &options)));
        let report = show(&window(5, span), &options);
        let section = report.section(Section::Overview);
        let group = section.unwrap().groups.iter().find(|group| group.label == "job").unwrap();
        sparkline(&trends(runs, &[column], &[Section::Overview], &options)[0], group)
    }

    #[test]
    fn a_sparkline_is_blank_before_the_group_started_and_after_it_exited() {
        let of = |runs: &[u64], span: ThreadSpan| {
            let parts: Vec<_> = runs.iter().map(|run| window(*run, ThreadSpan::default())).collect();
            of_parts(&parts, span)
        };
        assert_eq!(of(&[0, 1, 4, 8, 0], ThreadSpan::default()), "▁▁▄█▁");
        assert_eq!(of(&[0, 1, 4, 8, 0], ThreadSpan { started: true, exited: true, ..ThreadSpan::default() }), " ▁▄█ ");
    }

    #[test]
    fn processes_that_share_a_row_as_they_started_and_exited_share_its_bars() {
        use crate::compare::GroupBy;
        let process = |tgid: u32, run| {
            let mut part = window(run, ThreadSpan { started: true, exited: true, ..ThreadSpan::default() });
            (part.threads[0].tid, part.threads[0].tgid) = (tgid, tgid);
            part
        };
        let column = OverviewColumn::named("run").unwrap();
        for axis in [GroupBy::Pid, GroupBy::Tid] {
            let mut options = CompareOptions::default();
            options.grouping.axis = axis;
            let mut whole = process(0, 5);
            let own = ThreadState { tid: 9, tgid: 9, ..process(9, 3).threads.remove(0) };
            whole.threads.push(ThreadState { span: None, ..own });
            let mut runs = Runs::default();
            [process(7, 4), process(9, 3), process(8, 8)]
                .iter()
                .for_each(|part| runs.add(Digest::of_snapshot(part, &options)));
            let runs = runs.with_ids_of(&Digest::of_snapshot(&whole, &options));
            let report = show(&whole, &options);
            let trend = &trends(runs, &[column], &[Section::Overview], &options)[0];
            let groups = &report.section(Section::Overview).unwrap().groups;
            let bars = |label: &str| sparkline(trend, groups.iter().find(|group| group.label == label).unwrap());
            assert_eq!([bars("job"), bars("job[9]")], ["▄▁█", "▁█▁"], "{axis:?}");
        }
    }

    #[test]
    fn a_part_whose_value_is_unknown_has_no_bar() {
        let mut parts: Vec<_> = [8, 1, 8].map(|run| window(run, ThreadSpan::default())).into();
        parts[1].threads[0].metrics.run_time_ns = None;
        assert_eq!(of_parts(&parts, ThreadSpan::default()), "█ █");
        assert_eq!(of_parts(&parts[..1], ThreadSpan::default()), "█", "a series of one part");
    }

    #[test]
    fn a_last_part_of_a_moment_is_no_peak() {
        let part = |duration_ns, run| window_of(duration_ns, run, ThreadSpan::default());
        let last =
            |duration_ns| of_parts(&[part(SECOND, 1), part(SECOND, 2), part(duration_ns, 2)], ThreadSpan::default());
        assert_eq!(last(SECOND / 100), "▄█ ");
        assert_eq!(last(SECOND / 2), "▂▄█", "of half the length");
    }

    #[test]
    fn parts_before_and_after_a_gap_have_their_bars() {
        let part = |duration_ns| window_of(duration_ns, 4, ThreadSpan::default());
        let parts = [SECOND, 15 * SECOND, SECOND, SECOND].map(part);
        assert_eq!(of_parts(&parts, ThreadSpan::default()), "█▁██");
    }
}
