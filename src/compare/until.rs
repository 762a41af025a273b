//! When a series ends: a value of a group in a step.

use std::str::FromStr;

use super::globs::GroupGlob;
use super::options::{CompareOptions, Form};
use super::overview_columns::{GroupValue, OVERVIEW, OverviewColumn};
use super::{ALL_GROUPS, show};
use crate::model::{Cell, CtprofSnapshot, Section};

/// A bound on a column of the overview, of any group that matches or of all together: `redis-server:wait>200%`.
#[derive(Clone, Debug)]
pub struct StepGate {
    group: Option<GroupGlob>,
    column: &'static OverviewColumn,
    is_above: bool,
    /// In percent, events per second or bytes per second.
    bound: f64,
}

impl FromStr for StepGate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.rfind(['<', '>']).ok_or_else(|| format!("expected COLUMN>NUMBER, found `{text}`"))?;
        let (what, bound) = (&text[..at], &text[at + 1..]);
        let (group, column) = what.rsplit_once(':').map_or((None, what), |(group, column)| (Some(group), column));
        let names = || OVERVIEW.iter().filter(|column| column.is_of_groups()).map(|column| column.name);
        let column = OverviewColumn::named(column).filter(|column| column.is_of_groups()).ok_or_else(|| {
            format!("`{column}` is no column of the overview: {}", names().collect::<Vec<_>>().join(", "))
        })?;
        let group = group.map(|group| GroupGlob::new(group).map_err(|error| error.msg.to_owned())).transpose()?;
        let number = bound.strip_suffix('%').unwrap_or(bound).parse::<f64>().ok().filter(|bound| *bound >= 0.0);
        let bound = number.ok_or_else(|| format!("expected a number or a percentage, found `{bound}`"))?;
        Ok(Self { group, column, is_above: text.as_bytes()[at] == b'>', bound })
    }
}

impl StepGate {
    /// The first group whose value in this window is beyond the bound.
    #[must_use]
    pub fn met_by(&self, window: &CtprofSnapshot, options: &CompareOptions) -> Option<String> {
        let options = CompareOptions {
            form: Form::Overview,
            sections: vec![Section::Overview],
            metrics: vec![GroupValue::Column(self.column)],
            ..options.clone()
        };
        let report = show(window, &options);
        let rows = report.sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row)));
        let met = rows.filter(|(section, row)| {
            let group = &section.groups[row.group];
            let is_of_gate =
                self.group.as_ref().map_or(group.is_all(), |glob| !group.is_all() && glob.matches(&group.key));
            let value = match row.values.baseline {
                Some(Cell::Number(number)) => number as f64,
                Some(Cell::Ratio(ratio)) => ratio,
                _ => return false,
            };
            is_of_gate
                && row.name == self.column.name
                && if self.is_above { value > self.bound } else { value < self.bound }
        });
        let name = |group: &super::Group| if group.is_all() { ALL_GROUPS.to_owned() } else { group.label.clone() };
        met.map(|(section, row)| name(&section.groups[row.group])).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ThreadState, WindowInfo};

    #[test]
    fn a_gate_of_steps_is_a_bound_on_a_column() {
        let window = |run_ms: u64| {
            let mut thread = ThreadState { pcomm: "redis".into(), comm: "redis".into(), ..ThreadState::default() };
            thread.metrics.run_time_ns = Some((run_ms * 1_000_000).into());
            let mut window = CtprofSnapshot { threads: vec![thread], ..CtprofSnapshot::default() };
            window.head.window = Some(WindowInfo { duration_ns: 1_000_000_000, ..WindowInfo::default() });
            window
        };
        let met =
            |gate: &str, run_ms| gate.parse::<StepGate>().unwrap().met_by(&window(run_ms), &CompareOptions::default());
        assert_eq!(met("redis:run>50%", 510), Some("redis".to_owned()));
        assert_eq!([met("redis:run>50%", 490), met("other:run>1", 510)], [None, None]);
        assert_eq!(met("run<50", 490), Some(ALL_GROUPS.to_owned()));
        for wrong in ["run", "rum>1", "run>x", "[:run>1", "elapsed>1"] {
            assert!(wrong.parse::<StepGate>().is_err(), "{wrong}");
        }
    }
}
