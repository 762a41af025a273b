//! When a series ends: a value of a group in a step.

use std::str::FromStr;

use super::{BoundAmount, CompareOptions, Group, GroupGlob, OverviewColumn, Per, Quantity, Row, number, show};
use crate::model::{CtprofSnapshot, Section, Unit};
use crate::statistics::{Beyond, Bound, Scale};

/// A bound on a column of the overview, of any group that matches or of all together: `redis-server:wait>200%`.
#[derive(Clone, Debug)]
pub struct StepGate {
    group: Option<GroupGlob>,
    column: &'static OverviewColumn,
    /// In percent, events per second or bytes per second.
    limit: Bound,
}

impl FromStr for StepGate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.rfind(['<', '>']).ok_or_else(|| "no bound; write COLUMN>BOUND, such as run>200%".to_owned())?;
        let (what, bound) = (&text[..at], &text[at + 1..]);
        let (group, column) = what.rsplit_once(':').map_or((None, what), |(group, column)| (Some(group), column));
        // Of threads that did nothing in a step, only what they did is known.
        let columns = || OverviewColumn::of_groups().filter(|column| column.is_ranked());
        let column = columns().find(|known| known.name == column).ok_or_else(|| {
            let names: Vec<_> = columns().map(|column| column.name).collect();
            format!("`{column}` is no column of what groups did in a step: {}", names.join(", "))
        })?;
        let group = group.map(GroupGlob::new).transpose()?;
        let amount = BoundAmount::parse(bound).map_err(|error| error.to_string())?;
        let limit = amount.rate(column.unit).ok_or_else(|| {
            let example = match column.unit {
                Unit::Ns => "200%, where 100% is one CPU",
                Unit::Bytes => "10MiB, which is per second",
                _ => "1000, which is per second",
            };
            format!("`{bound}` does not fit {}; write a bound such as {}>{example}", column.name, column.name)
        })?;
        let beyond = if text[at..].starts_with('>') { Beyond::Above } else { Beyond::Below };
        Ok(Self { group, column, limit: Bound { scale: Scale::Difference, beyond, limit } })
    }
}

impl StepGate {
    /// The first group whose value in this window is beyond the bound.
    #[must_use]
    pub fn met_by(&self, window: &CtprofSnapshot, options: &CompareOptions) -> Option<String> {
        let options = CompareOptions {
            sections: vec![Section::Overview],
            metrics: vec![Quantity::Column(self.column)],
            per: Some(Per::Second),
            ..options.clone()
        };
        let is_of_gate = |group: &Group| match &self.group {
            Some(glob) => !group.is_all() && glob.matches(&group.key),
            None => group.is_all(),
        };
        let is_met = |row: &Row| {
            row.values.baseline.as_ref().and_then(number).is_some_and(|value| self.limit.is_exceeded(value))
        };
        let report = show(window, &options);
        let mut met =
            report.rows().filter(|(group, row)| row.name == self.column.name && is_of_gate(group) && is_met(row));
        met.next().map(|(group, _)| group.label.clone())
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
        let met =
            |gate: &str, run_ms| gate.parse::<StepGate>().unwrap().met_by(&window(run_ms), &CompareOptions::default());
        assert_eq!(met("redis:run>50%", 510), Some("redis".to_owned()));
        assert_eq!([met("redis:run>50%", 490), met("other:run>1%", 510)], [None, None]);
        assert_eq!(met("run<50%", 490), Some(ALL_GROUPS.to_owned()));
        // Whatever the screen divides by.
        let total = CompareOptions { per: Some(Per::Run), ..CompareOptions::default() };
        let of_switches =
            CompareOptions { metrics: vec![Quantity::named("csw").unwrap()], ..CompareOptions::default() };
        assert!("run>50%".parse::<StepGate>().unwrap().met_by(&window(510), &of_switches).is_some(), "or shows");
        assert_eq!("run>200%".parse::<StepGate>().unwrap().met_by(&window(510), &total), None);
        for wrong in ["run", "rum>1%", "run>x", "[:run>1%", "elapsed>1s", "run>-1%", "rss>1MiB", "sleep>1%"] {
            assert!(wrong.parse::<StepGate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bound_of_steps_has_the_unit_of_its_column() {
        let bound = |gate: &str| gate.parse::<StepGate>().map(|gate| gate.limit.limit);
        assert_eq!(bound("read>10MiB"), Ok(10_485_760.0));
        assert_eq!([bound("wait>200%"), bound("csw>1000")], [Ok(200.0), Ok(1000.0)]);
        assert_eq!(
            bound("run>1").unwrap_err(),
            "`1` does not fit run; write a bound such as run>200%, where 100% is one CPU"
        );
        for wrong in ["csw>10%", "read>10%", "wait>2s"] {
            assert!(bound(wrong).unwrap_err().contains(" does not fit "), "{wrong}");
        }
    }
}
