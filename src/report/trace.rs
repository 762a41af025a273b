//! The steps of a series as a trace that Perfetto and the tracing page of Chrome open: the array of the Trace Event Format, with a
//! counter per group and column.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Value as Json, json};

use super::{cell_digits, escaped};
use crate::compare::{Quantity, Report, ReportSection, WindowSide};
use crate::model::sorted::CollectSorted;
use crate::model::{Section, Unit};

/// Writes a trace, step by step.
#[derive(Debug, Default)]
pub struct TraceWriter {
    /// Process ids in the trace, which stand for groups, by path.
    groups: BTreeMap<Vec<String>, usize>,
    /// The counters that have had a value, by group and name.
    seen_counters: BTreeSet<(usize, String)>,
    /// Last values of the counters that are not 0.
    counters: BTreeMap<(usize, String), f64>,
    /// The end of the last step, in microseconds since 1970.
    end_us: u64,
    has_events: bool,
}

impl TraceWriter {
    /// Adds a step to the trace. Errors come from `out`.
    pub fn add(&mut self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        let Some(WindowSide { info, .. }) = report.window() else { return Ok(()) };
        let start_us = info.started_at_unix_ns / 1000;
        self.end_us = start_us.saturating_add(info.duration_ns / 1000);
        // A counter keeps its value until it has another one: what a step does not have is 0, what it does not know stays.
        let mut now: BTreeMap<_, _> = self.counters.keys().map(|key| (key.clone(), 0.0)).into_map();
        for section in &report.sections {
            for (path, name, value) in counters(section, info.duration_ns) {
                let key = (self.group(out, path)?, name);
                if let Some(value) = value.or_else(|| self.counters.get(&key).copied()) {
                    now.insert(key, value);
                }
            }
        }
        self.set(out, start_us, now)
    }

    /// Ends the trace. Errors come from `out`.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        let last = self.counters.keys().map(|key| (key.clone(), 0.0)).into_map();
        self.set(out, self.end_us, last)?;
        writeln!(out, "{}]", if self.has_events { "\n" } else { "[" })
    }

    /// The number of a group, which is named when it is new.
    fn group(&mut self, out: &mut dyn Write, path: &[String]) -> io::Result<usize> {
        if let Some(group) = self.groups.get(path) {
            return Ok(*group);
        }
        let group = self.groups.len() + 1;
        self.groups.insert(path.to_vec(), group);
        let name = if path.is_empty() { "host".to_owned() } else { escaped(&path.join(" » ")).into_owned() };
        self.event(out, &json!({"ph": "M", "name": "process_name", "pid": group, "args": {"name": name}}))?;
        Ok(group)
    }

    fn set(&mut self, out: &mut dyn Write, ts: u64, now: BTreeMap<(usize, String), f64>) -> io::Result<()> {
        for (key, value) in &now {
            let before = self.counters.get(key).copied().unwrap_or(0.0);
            if self.seen_counters.insert(key.clone()) || before != *value {
                let (pid, name) = key;
                self.event(out, &json!({"ph": "C", "name": name, "pid": pid, "ts": ts, "args": {"value": value}}))?;
            }
        }
        // The time of a step does not grow with the counters of all steps before.
        self.counters = now;
        self.counters.retain(|_, value| *value != 0.0);
        Ok(())
    }

    fn event(&mut self, out: &mut dyn Write, event: &Json) -> io::Result<()> {
        let before = if std::mem::replace(&mut self.has_events, true) { ",\n" } else { "[\n" };
        write!(out, "{before}{event}")
    }
}

/// The counters of a section: path of the group, name with unit, and value; `None` if it is unknown.
fn counters(section: &ReportSection, duration_ns: u64) -> impl Iterator<Item = (&[String], String, Option<f64>)> {
    section.rows.iter().filter_map(move |row| {
        let group = &section.groups[row.group];
        let value: Option<f64> = row.values.baseline.as_ref().and_then(cell_digits).and_then(|text| text.parse().ok());
        match section.section {
            // What a group has changes a little in each step: that would be most of the trace.
            Section::Overview => {
                let is_ranked = matches!(row.quantity, Some(Quantity::Column(column)) if column.is_ranked());
                let unit = if row.unit == Unit::Percent { "%" } else { row.unit.name() };
                is_ranked.then(|| (&group.key[..], format!("{} ({unit})", row.name), value))
            }
            Section::HostPressure => {
                let what = row.name.strip_suffix(".total_usec")?;
                let of_total = row.unit.nanoseconds().map_or(1.0, |ns| ns * 100.0 / duration_ns.max(1) as f64);
                let share = value.map(|value| value * of_total);
                Some((&[][..], format!("{what} pressure (%)"), share))
            }
            _ => None,
        }
    })
}
