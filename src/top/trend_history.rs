//! How the groups of the last minutes ran and waited: a few numbers per window, so that sparklines need no further look at it.

use std::collections::{BTreeMap, HashMap};

use crate::compare::{GroupTrend, Report, Trend};
use crate::model::Section;

/// The columns of the overview that have trends.
const COLUMNS: [&str; 2] = ["run", "wait"];
/// Maximum number of groups of a window that are kept, from the first on.
const MOST_GROUPS: usize = 500;
/// Length of a sparkline in nanoseconds: a minute.
const MINUTE_NS: u64 = 60_000_000_000;

/// Maximum number of groups, summed over all windows: enough for ten minutes of windows, unless hundreds of groups are busy.
const MOST_OF_ALL: usize = 150_000;

/// The trends of columns, by the ends of windows in nanoseconds since boot.
#[derive(Debug, Default)]
pub(super) struct TrendHistory(BTreeMap<u64, TrendPoint>);

/// The columns of a window.
#[derive(Debug)]
struct TrendPoint {
    begin_ns: u64,
    /// Values of the columns by path of the group; NaN where a value is unknown.
    groups: HashMap<Vec<String>, [f64; COLUMNS.len()]>,
    /// The value of other groups: 0, or NaN if some were not kept.
    others: f64,
}

impl TrendHistory {
    /// Adds the window of a report, which ends at this time.
    pub(super) fn add(&mut self, report: &Report, end_ns: u64) {
        let Some((window, section)) = report.window().zip(report.section(Section::Overview)) else { return };
        let (mut groups, mut others) = (HashMap::new(), 0.0);
        for row in &section.rows {
            let value = row.values.baseline.as_ref().map_or(f64::NAN, |_| row.amount());
            let Some(column) = COLUMNS.iter().position(|column| *column == row.name && value != 0.0) else { continue };
            let path = &section.groups[row.group].key;
            if groups.len() < MOST_GROUPS || groups.contains_key(path) {
                groups.entry(path.clone()).or_insert([0.0; COLUMNS.len()])[column] = value;
            } else {
                others = f64::NAN;
            }
        }
        self.0.insert(end_ns, TrendPoint { begin_ns: end_ns.saturating_sub(window.info.duration_ns), groups, others });
        self.keep_near(end_ns);
    }

    /// Drops the windows that are furthest from this time, if there are too many.
    fn keep_near(&mut self, end_ns: u64) {
        let size = |point: &TrendPoint| point.groups.len() + 1;
        let mut all: usize = self.0.values().map(size).sum();
        while let Some((first, last)) = self.0.keys().next().zip(self.0.keys().next_back())
            && all > MOST_OF_ALL
        {
            let is_first = first.abs_diff(end_ns) > last.abs_diff(end_ns);
            let dropped = if is_first { self.0.pop_first() } else { self.0.pop_last() };
            all -= dropped.map_or(0, |(_, point)| size(&point));
        }
    }

    /// The trends of the groups of a report over the minute that ends at a time, with so many bars each.
    pub(super) fn trends(&self, report: &Report, end_ns: u64, bars: usize) -> Vec<Trend> {
        let Some(section) = report.section(Section::Overview) else { return Vec::new() };
        let bar_ns = MINUTE_NS / u64::try_from(bars.max(1)).unwrap_or(1);
        let starts: Vec<u64> = (1..=bars as u64).rev().map(|bar| end_ns.saturating_sub(bar * bar_ns)).collect();
        let mut paths: Vec<_> = section.groups.iter().map(|group| &group.key).collect();
        paths.sort();
        let trend = |(column, name): (usize, &&'static str)| {
            let group = |path: &&Vec<String>| {
                let values = starts.iter().map(|start| self.mean(path, column, [*start, start + bar_ns]));
                GroupTrend { path: (*path).clone(), values: values.collect() }
            };
            let groups = paths.iter().map(group).collect();
            Trend { column: (*name).into(), groups, ..Trend::default() }
        };
        COLUMNS.iter().enumerate().map(trend).collect()
    }

    /// The mean of a column between two times; no number where no window, or no value, is known.
    fn mean(&self, path: &[String], column: usize, [from_ns, to_ns]: [u64; 2]) -> f64 {
        let (mut sum, mut length) = (0.0, 0.0);
        let later = self.0.range(from_ns.saturating_add(1)..);
        for (end_ns, TrendPoint { begin_ns, groups, others }) in later.take_while(|(_, point)| point.begin_ns < to_ns) {
            let value = groups.get(path).map_or(*others, |values| values[column]);
            if !value.is_nan() {
                let overlap = (to_ns.min(*end_ns) - from_ns.max(*begin_ns)) as f64;
                sum += overlap * value;
                length += overlap;
            }
        }
        sum / length
    }

    /// The beginning of what the next sparklines need, if the window ends then.
    pub(super) fn needed_from(end_ns: u64) -> u64 {
        end_ns.saturating_sub(MINUTE_NS)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, show};
    use crate::model::{CtprofSnapshot, ThreadState, WindowInfo};

    const SECOND: u64 = 1_000_000_000;

    /// A window in which a thread ran in so many percent of the time, if that is known.
    fn report(seconds: u64, run: Option<u64>) -> Report {
        let mut thread =
            ThreadState { pcomm: "job".into(), comm: "job".into(), tid: 7, tgid: 7, ..ThreadState::default() };
        thread.metrics.run_time_ns = run.map(|run| (run * seconds * SECOND / 100).into());
        let mut window = CtprofSnapshot { threads: vec![thread], ..CtprofSnapshot::default() };
        window.head.window = Some(WindowInfo { duration_ns: seconds * SECOND, ..WindowInfo::default() });
        show(&window, &CompareOptions::default())
    }

    /// The trend of the thread's run time after windows that end in these seconds, in bars of ten seconds.
    fn bars(windows: impl IntoIterator<Item = (u64, u64, Option<u64>)>) -> Vec<f64> {
        let mut history = TrendHistory::default();
        for (end, seconds, run) in windows {
            history.add(&report(seconds, run), (1_000 + end) * SECOND);
        }
        let trends = history.trends(&report(10, Some(20)), 1_060 * SECOND, 6);
        assert_eq!(trends[0].column, "run");
        trends[0].groups.iter().find(|group| group.path == ["job"]).unwrap().values.clone()
    }

    #[test]
    fn a_bar_is_the_mean_of_its_time_and_none_where_no_window_is_known() {
        // Windows of any length, in any order: the person may have gone back in time.
        let bars = bars([(60, 10, Some(20)), (35, 5, Some(10)), (40, 5, Some(30)), (50, 10, Some(0))]);
        assert_eq!(bars[3..], [20.0, 0.0, 20.0]);
        assert!(bars[..3].iter().all(|value| value.is_nan()));
    }

    #[test]
    fn what_is_unknown_is_no_zero_in_a_bar() {
        let bars = bars([(40, 10, None), (45, 5, None), (50, 5, Some(30)), (60, 10, Some(20))]);
        assert_eq!(bars[4..], [30.0, 20.0]);
        assert!(bars[3].is_nan());
    }

    #[test]
    fn ten_minutes_of_short_windows_are_kept_and_of_too_many_groups_the_nearest() {
        let mut history = TrendHistory::default();
        let report = report(1, Some(50));
        (1..=1200).for_each(|half| history.add(&report, half * SECOND / 2));
        assert_eq!(history.0.len(), 1200);
        let groups: HashMap<_, _> = (0..MOST_OF_ALL / 2).map(|id| (vec![id.to_string()], [1.0; 2])).collect();
        for end_ns in [700 * SECOND, 800 * SECOND] {
            history.0.insert(end_ns, TrendPoint { begin_ns: end_ns - SECOND, groups: groups.clone(), others: 0.0 });
        }
        history.add(&report, 20 * SECOND);
        assert_eq!(history.0.keys().next_back(), Some(&(700 * SECOND)), "the person went back in time");
        history.add(&report, 600 * SECOND);
        assert!(history.0.contains_key(&(20 * SECOND)));
    }

    #[test]
    fn a_group_that_was_not_kept_is_unknown_and_one_that_was_not_there_did_nothing() {
        let window = |names: usize| {
            let thread = |id: usize| {
                let id = u32::try_from(id).unwrap() + 1;
                // Names that differ by digits are one group.
                let name: String = char::from_u32(0x4e00 + id).into_iter().collect();
                let pcomm = name.as_str().into();
                let mut thread = ThreadState { pcomm, tid: id, tgid: id, ..ThreadState::default() };
                thread.metrics.run_time_ns = Some((SECOND / 2).into());
                thread
            };
            let mut window =
                CtprofSnapshot { threads: (0..names).map(thread).collect::<Vec<_>>(), ..CtprofSnapshot::default() };
            window.head.window = Some(WindowInfo { duration_ns: SECOND, ..WindowInfo::default() });
            show(&window, &CompareOptions::default())
        };
        let mean = |groups: usize| {
            let mut history = TrendHistory::default();
            history.add(&window(groups), SECOND);
            history.mean(&["no job".to_owned()], 0, [0, SECOND])
        };
        assert_eq!(mean(3), 0.0);
        assert!(mean(MOST_GROUPS + 1).is_nan());
    }
}
