//! The values that gates look at, of one run.

use std::collections::BTreeMap;

use super::digest::Members;
use super::entry::{Entry, SideGroup, SideSection};
use super::gate::Gate;
use super::gate_metric::{GateMetric, MetricSource};
use super::group::{self, Groups};
use super::options::{Options, Per};
use super::{overview, records};
use crate::model::{Section, SnapshotHead};

/// What gates look at in a run.
pub(super) struct GatedRun<'r> {
    pub(super) head: &'r SnapshotHead,
    pub(super) groups: &'r Groups,
    /// Maps the path of a cgroup to the key of its group.
    pub(super) key: &'r (dyn Fn(&str) -> String + Sync),
    /// What values of the overview are divided by, if the gate does not say.
    pub(super) per: Per,
    pub(super) options: &'r Options,
}

/// The values of one metric in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupValues {
    /// The values by the path of the group; that of all groups together has an empty path.
    pub(super) by_group: BTreeMap<Vec<String>, Option<Entry>>,
    /// Whether any group of the run has a value.
    pub(super) known: bool,
}

/// The values of all gates in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct RunValues {
    /// Per gate, per metric of the gate.
    pub(super) by_gate: Vec<Vec<GroupValues>>,
    /// The names of all groups, if a gate selects some.
    pub(super) names: Vec<String>,
}

impl GatedRun<'_> {
    /// The values of all gates.
    pub(super) fn values(&self, gates: &[Gate]) -> RunValues {
        let of_gate = |gate: &Gate| gate.metrics.iter().map(|metric| self.of_metric(gate, metric)).collect();
        let names = self.groups.keys().filter(|path| self.options.wants_group(path)).filter_map(|path| path.last());
        RunValues {
            by_gate: gates.iter().map(of_gate).collect(),
            names: names.filter(|_| gates.iter().any(|gate| gate.group.is_some())).cloned().collect(),
        }
    }

    fn of_metric(&self, gate: &Gate, metric: &GateMetric) -> GroupValues {
        match &metric.source {
            MetricSource::Record(section, name) => self.of_record(gate, *section, name),
            MetricSource::Quantity(quantity) => {
                let context = group::context(self.head);
                self.of_threads(gate, |members| Some(group::entry(*quantity, members, context)))
            }
            MetricSource::Overview(column) => {
                let divisor = overview::divisor(self.head, self.groups, gate.per.unwrap_or(self.per));
                self.of_threads(gate, |members| overview::value(self.head, members, divisor, column))
            }
        }
    }

    fn of_threads(&self, gate: &Gate, value: impl Fn(&Members) -> Option<Entry>) -> GroupValues {
        let by_group: BTreeMap<_, _> = match &gate.group {
            None => BTreeMap::from([(Vec::new(), value(&self.total()))]),
            Some(glob) => {
                let chosen = |path: &[String]| glob.matches(path) && self.options.wants_group(path);
                let groups = self.groups.iter().filter(|(path, _)| chosen(path));
                groups.map(|(path, group)| (path.clone(), value(&group.members))).collect()
            }
        };
        let has_value = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.cell.is_some());
        let known =
            by_group.values().any(has_value) || self.groups.values().any(|group| has_value(&value(&group.members)));
        GroupValues { by_group, known }
    }

    /// All threads of the selected groups. In a tree, a group contains those below it.
    fn total(&self) -> Members {
        let wants = |path: &[String]| self.options.wants_group(path);
        let mut total = Members::default();
        for (path, group) in self.groups {
            let is_in_another = path.len() > 1 && wants(&path[..path.len() - 1]);
            if wants(path) && !is_in_another {
                total.merge(&group.members);
            }
        }
        total
    }

    fn of_record(&self, gate: &Gate, section: Section, name: &str) -> GroupValues {
        let value = |group: SideGroup| group.entries.into_iter().find(|entry| entry.name == name);
        let wants = |path: &[String]| self.options.wants_group(path);
        let by_group: BTreeMap<_, _> = if let Some(glob) = &gate.group {
            let groups = records::cgroup_section(self.head, section, self.key).into_iter();
            let chosen = groups.filter(|(path, _)| glob.matches(path) && wants(path));
            chosen.map(|(path, group)| (path, value(group))).collect()
        } else {
            let only = |section: SideSection| section.into_values().next();
            let group = match section {
                Section::HostPressure => only(records::host_pressure(self.head)),
                Section::SchedExt => only(records::sched_ext(self.head)),
                _ => Some(records::cgroup_total(self.head, section, |path| wants(&[(self.key)(path)]))),
            };
            BTreeMap::from([(Vec::new(), group.and_then(value))])
        };
        let known = by_group.values().any(Option::is_some)
            || self
                .head
                .cgroup_stats
                .values()
                .any(|stats| stats.values(section).iter().any(|value| value.name == name));
        GroupValues { by_group, known }
    }
}
