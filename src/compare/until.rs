//! When a series ends: a value of a group in a step.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::{
    BoundAmount, CompareOptions, Digest, Gate, GateError, GateMetric, Grouped, Grouping, OverviewColumn, Per, Query,
    Row, Sides, beyond, number,
};
use crate::model::sorted::CollectSorted;
use crate::model::{CtprofSnapshot, Section, Unit};
use crate::statistics::{Bound, Design, Scale};

/// A gate on what groups did in a step, by column of the overview: `redis-server:wait>200%`. Its bound is a rate, not a
/// change.
#[derive(Clone, Debug)]
pub struct StepGate(Gate);

impl FromStr for StepGate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        Gate::parse(text, rate).map(Self)
    }
}

/// Returns the bound of a column's values per second; `text` is the bound as it was written. Only groups that did something in a
/// step are checked.
fn rate(amount: BoundAmount, metrics: &[GateMetric], text: &str) -> Result<Bound, GateError> {
    let columns = || OverviewColumn::of_groups().filter(|column| column.is_ranked());
    let column = match metrics {
        [metric] => columns().find(|column| column.name == metric.name),
        _ => None,
    };
    let column = column.ok_or_else(|| {
        let names: Vec<_> = columns().map(|column| column.name).collect();
        GateError(format!("a gate of steps needs a column of what groups did: {}", names.join(", ")))
    })?;
    let limit = amount.rate(column.unit).ok_or_else(|| {
        let example = match column.unit {
            Unit::Ns => "200%, where 100% is one CPU",
            Unit::Bytes => "10MiB, which is per second",
            _ => "1000, which is per second",
        };
        GateError(format!("`{text}` does not fit {}; write a bound such as {}>{example}", column.name, column.name))
    })?;
    Ok(Bound { scale: Scale::Difference, beyond: beyond(text), limit })
}

impl StepGate {
    /// The first group whose value in this window is beyond the bound.
    #[must_use]
    pub fn met_by(&self, window: &CtprofSnapshot, grouping: &Grouping) -> Option<String> {
        let Self(gate) = self;
        let options = &CompareOptions { grouping: grouping.clone(), ..CompareOptions::default() };
        let digests = Sides::one(vec![Digest::of_snapshot(window, options)]);
        let quantities: Vec<_> = gate.metrics.iter().filter_map(|metric| metric.quantity).collect();
        let query = Query { quantities: &quantities, ..Query::all(Section::Overview, Per::Second) };
        let section = Grouped::new(digests, Design::Independent, options).section(query)?;
        let groups: BTreeSet<usize> = gate.selected(&section).into_set();
        let is_met = |row: &&Row| {
            let value = row.values.baseline.as_ref().and_then(number);
            groups.contains(&row.group) && value.is_some_and(|value| gate.limit.is_exceeded(value))
        };
        let mut rows = section.rows.iter().filter(|row| gate.metrics.iter().any(|metric| metric.row == row.name));
        rows.find(is_met).map(|row| section.groups[row.group].label.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ALL_GROUPS;
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
        let met = |gate: &str, run_ms| gate.parse::<StepGate>().unwrap().met_by(&window(run_ms), &Grouping::default());
        assert_eq!(met("redis:run>50%", 510), Some("redis".to_owned()));
        assert_eq!([met("redis:run>50%", 490), met("other:run>1%", 510)], [None, None]);
        assert_eq!(met(" run < 50 %", 490), Some(ALL_GROUPS.to_owned()));
        // Whatever the screen divides by.
        let total = Grouping { per: Some(Per::Run), ..Grouping::default() };
        assert_eq!("run>200%".parse::<StepGate>().unwrap().met_by(&window(510), &total), None);
        for wrong in ["run", "rum>1%", "run>x", "[:run>1%", "elapsed>1s", "run>-1%", "rss>1MiB", "sleep>1%"] {
            assert!(wrong.parse::<StepGate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bound_of_steps_has_the_unit_of_its_column() {
        let bound = |gate: &str| gate.parse::<StepGate>().map(|StepGate(gate)| gate.limit.limit);
        assert_eq!(bound("read>10MiB"), Ok(10_485_760.0));
        assert_eq!([bound("wait>200%"), bound("csw>1000")], [Ok(200.0), Ok(1000.0)]);
        assert_eq!(
            bound("run > 1").unwrap_err().to_string(),
            "`> 1` does not fit run; write a bound such as run>200%, where 100% is one CPU"
        );
        for wrong in ["csw>10%", "read>10%", "wait>2s"] {
            assert!(bound(wrong).unwrap_err().to_string().contains(" does not fit "), "{wrong}");
        }
    }
}
