//! How the groups of the last minutes ran and waited: a few numbers per window, so that sparklines need no further look at it.

use std::collections::{BTreeMap, HashMap};

use crate::compare::{GroupTrend, Report, Trend};
use crate::model::Section;

/// The columns of the overview that have trends.
const COLUMNS: [&str; 2] = ["run", "wait"];
/// Windows that are kept: ten minutes of two seconds.
const MOST_WINDOWS: usize = 300;
/// Maximum number of groups of a window that are kept, from the first on. Other groups count as idle.
const MOST_GROUPS: usize = 500;
/// Length of a sparkline in nanoseconds: a minute.
const MINUTE_NS: u64 = 60_000_000_000;

/// The trends of columns, by the beginnings of windows in nanoseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct TrendHistory(BTreeMap<u64, TrendPoint>);

/// The columns of a window.
#[derive(Debug)]
struct TrendPoint {
    end_ns: u64,
    groups: HashMap<Vec<String>, [f64; COLUMNS.len()]>,
}

impl TrendHistory {
    /// Adds the window of a report.
    pub(super) fn add(&mut self, report: &Report) {
        let Some((window, section)) = report.window().zip(report.section(Section::Overview)) else { return };
        let mut groups = HashMap::new();
        for row in section.rows.iter().filter(|row| row.amount() > 0.0) {
            let Some(column) = COLUMNS.iter().position(|column| *column == row.name) else { continue };
            let path = &section.groups[row.group].key;
            if groups.len() < MOST_GROUPS || groups.contains_key(path) {
                groups.entry(path.clone()).or_insert([0.0; COLUMNS.len()])[column] = row.amount();
            }
        }
        let start_ns = window.info.started_at_unix_ns;
        let end_ns = start_ns.saturating_add(window.info.duration_ns);
        self.0.insert(start_ns, TrendPoint { end_ns, groups });
        if self.0.len() > MOST_WINDOWS {
            self.0.pop_first();
        }
    }

    /// The trends of the groups of a report over the minute that ends with its window, with so many bars each.
    pub(super) fn trends(&self, report: &Report, bars: usize) -> Vec<Trend> {
        let Some((window, section)) = report.window().zip(report.section(Section::Overview)) else { return Vec::new() };
        let end_ns = window.info.started_at_unix_ns.saturating_add(window.info.duration_ns);
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

    /// The mean of a column between two times; no number where no window is known.
    fn mean(&self, path: &[String], column: usize, [from_ns, to_ns]: [u64; 2]) -> f64 {
        let (mut sum, mut length) = (0.0, 0.0);
        for (start_ns, TrendPoint { end_ns, groups }) in self.0.range(..to_ns).rev() {
            if *end_ns <= from_ns {
                break;
            }
            let overlap = (to_ns.min(*end_ns) - from_ns.max(*start_ns)) as f64;
            sum += overlap * groups.get(path).map_or(0.0, |values| values[column]);
            length += overlap;
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

    fn report(started_at_unix_ns: u64, seconds: u64, run: u64) -> Report {
        let mut thread =
            ThreadState { pcomm: "job".into(), comm: "job".into(), tid: 7, tgid: 7, ..ThreadState::default() };
        thread.metrics.run_time_ns = Some((run * seconds * SECOND / 100).into());
        let mut window = CtprofSnapshot { threads: vec![thread], ..CtprofSnapshot::default() };
        let duration_ns = seconds * SECOND;
        window.head.window = Some(WindowInfo { started_at_unix_ns, duration_ns, ..WindowInfo::default() });
        show(&window, &CompareOptions::default())
    }

    #[test]
    fn a_bar_is_the_mean_of_its_time_and_none_where_no_window_is_known() {
        let (mut history, start) = (TrendHistory::default(), 1_000 * SECOND);
        // Windows of any length, in any order: the person may have gone back in time.
        for (second, seconds, run) in [(50, 10, 20), (30, 5, 10), (35, 5, 30), (40, 10, 0)] {
            history.add(&report(start + second * SECOND, seconds, run));
        }
        let trends = history.trends(&report(start + 50 * SECOND, 10, 20), 6);
        let job = trends[0].groups.iter().find(|group| group.path == ["job"]).unwrap();
        assert_eq!((&*trends[0].column, &job.values[3..]), ("run", &[20.0, 0.0, 20.0][..]));
        assert!(job.values[..3].iter().all(|value| value.is_nan()));
    }

    #[test]
    fn no_more_than_ten_minutes_are_kept() {
        let mut history = TrendHistory::default();
        (0..400).for_each(|second| history.add(&report((1 + second) * SECOND, 1, 50)));
        assert_eq!(history.0.len(), MOST_WINDOWS);
    }
}
