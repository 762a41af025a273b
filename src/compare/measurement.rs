//! Measurements of all groups on one side, before they are compared.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::{GroupReason, Quantity, number};
use crate::model::{Cell, ExitedWork, Name, ThreadSpan, Unit};

/// A measured value of a group, and how far it can be relied on.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    pub(super) name: Cow<'static, str>,
    pub(super) unit: Unit,
    /// `None` if no member has a value.
    pub(super) cell: Option<Cell>,
    /// How many members have a value, and whether some lack one that they should have.
    pub(super) covered: u64,
    pub(super) partial: bool,
    /// Whether work of exited threads or children is not in it, however little they ran.
    pub(super) lacks_exited_work: bool,
    pub(super) quantity: Option<Quantity>,
    /// The reason whose time it is, in the section of reasons.
    pub(super) reason: Option<Arc<GroupReason>>,
    /// Whether it is a total of the members, so that it is 0 without any.
    pub(super) is_total: bool,
    /// Whether it is a counter, so that in a window it is how much it rose, and depends on the length.
    pub(super) is_increase: bool,
    /// The unit in which the kernel counts it, in its own unit; 0 if it is exact.
    pub(super) quantum: f64,
    /// Numbers of all runs, NaN where a run has none; `None` if a run has another value than a number.
    pub(super) runs: Option<Box<[f64]>>,
}

impl Measurement {
    /// Whether it is a row: states that few threads are in are told of groups that have such threads.
    pub(super) fn is_shown(&self) -> bool {
        self.cell.is_some() || !self.is_of_rare_state()
    }

    /// Whether it is the time in a state that few threads are in.
    pub(super) fn is_of_rare_state(&self) -> bool {
        self.quantity.is_some_and(Quantity::is_rare_state)
    }

    /// Divides a counter's rise.
    pub(super) fn divide(&mut self, by: Divisor) {
        match by {
            Divisor::Seconds(seconds) => self.per_second(seconds),
            Divisor::Units(units) => self.per_unit(units),
        }
    }

    /// A counter's rise, or a column's amount, per unit of work. Times stay times, as a share of a CPU would be one of a second.
    fn per_unit(&mut self, units: f64) {
        let is_column = matches!(self.quantity, Some(Quantity::Column(column)) if column.is_amount());
        let Some((unit, scale)) = per_unit(self.unit).filter(|_| self.is_increase || is_column) else { return };
        let divided = |amount: f64| amount * scale / units;
        self.cell = self.cell.as_ref().and_then(number).map(|amount| Cell::Ratio(divided(amount)));
        (self.unit, self.quantum) = (unit, divided(self.quantum));
    }

    /// Turns a counter's increase into a rate, over a window of this many seconds.
    fn per_second(&mut self, seconds: f64) {
        let Some((unit, scale)) = rate_unit(self.unit).filter(|_| self.is_increase) else { return };
        let rate = |amount: f64| amount / scale / seconds;
        self.cell = self.cell.as_ref().and_then(number).map(|amount| Cell::Ratio(rate(amount)));
        (self.unit, self.quantum) = (unit, rate(self.quantum));
    }

    /// A value that so many members have, and no other should have.
    pub(super) fn new(
        name: impl Into<Cow<'static, str>>,
        unit: Unit,
        cell: impl Into<Option<Cell>>,
        covered: u64,
    ) -> Self {
        let quantum = if unit == Unit::Ticks { 1.0 } else { 0.0 };
        Self {
            name: name.into(),
            unit,
            cell: cell.into(),
            covered,
            partial: false,
            lacks_exited_work: false,
            quantity: None,
            reason: None,
            is_total: false,
            is_increase: false,
            quantum,
            runs: None,
        }
    }
}

/// Divisor of the increases of counters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Divisor {
    Seconds(f64),
    Units(f64),
}

/// A unit of amounts as one of amounts per unit of work, and how many of that are one of it.
fn per_unit(unit: Unit) -> Option<(Unit, f64)> {
    Some(match unit {
        Unit::Bytes => (Unit::BytesPerUnit, 1.0),
        Unit::Count => (Unit::CountPerUnit, 1.0),
        _ => (Unit::Ns, unit.nanoseconds()?),
    })
}

/// A unit of amounts as one of rates per second, and how many of it are one of the rate.
pub(super) fn rate_unit(unit: Unit) -> Option<(Unit, f64)> {
    Some(match unit {
        Unit::Bytes => (Unit::BytesPerSecond, 1.0),
        Unit::Count => (Unit::CountPerSecond, 1.0),
        _ => (Unit::Percent, 1e7 / unit.nanoseconds()?),
    })
}

/// Facts about a group on one side, besides its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GroupFacts {
    /// Number of threads; of cgroups in sections about cgroups, of processes in sections about memory.
    pub(crate) members: u64,
    /// In a window, how many of its threads were zombies all the time.
    pub(crate) zombies: u64,
    /// In a window, how many threads started and exited.
    pub(crate) turnover: Turnover,
    /// The average share of the time since boot that its threads have existed, 0 to 1.
    pub(crate) uptime: Option<f64>,
    pub(crate) own: bool,
    /// The process id, if all are threads of one process.
    pub(crate) pid: Option<u32>,
    /// The id of its thread, if it is one.
    pub(crate) tid: Option<u32>,
    /// The effective user id of its processes, if all have the same.
    pub(crate) euid: Option<u32>,
    /// In a window, how often their cgroups had used their CPU quotas, if they had.
    pub(crate) throttled: Option<Throttled>,
    /// In a window, for how long all its threads together can have waited for CPU quotas, in nanoseconds; `None` if it is unknown.
    pub(crate) longest_quota_ns: Option<u64>,
    /// The share of their run time that one of several threads took, 0 to 1, if that ran for much of its time.
    pub(crate) hottest: Option<f64>,
    /// The kind of exited work, if it is no group of threads but exited work of the group above.
    pub(crate) exited_work: Option<ExitedWork>,
    /// Whether it is exited work that took little of its group's run time.
    pub(crate) is_minor: bool,
    /// Whether the kernel may have cut a name in the group, so that different threads are one group.
    pub(crate) name_cut: bool,
    /// Ancestors of the group's processes that started and exited in the window, with the number of threads: the largest number
    /// first. With several runs, of all runs together.
    pub(crate) parents: Vec<(Name, u64)>,
    /// In a window, how long the group's threads were zombies, in nanoseconds, by the process that had not waited for them.
    pub(crate) zombie_parents: Vec<(Name, u64)>,
}

/// The periods of CPU quotas in a window, and those in which the quota ran out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Throttled {
    pub(crate) periods: u64,
    pub(crate) throttled: u64,
}

/// How many threads started and exited in a window. A thread can do both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Turnover {
    pub(crate) started: u64,
    pub(crate) exited: u64,
}

impl Turnover {
    pub(super) fn add(&mut self, span: ThreadSpan) {
        let counted = |happened| if happened { span.count } else { 0 };
        self.merge(Self { started: counted(span.started), exited: counted(span.exited) });
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.started = self.started.saturating_add(other.started);
        self.exited = self.exited.saturating_add(other.exited);
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct SideGroup {
    pub(super) group_facts: GroupFacts,
    /// Values of the keys that groups are sorted by.
    pub(super) sort_values: Vec<Option<Cell>>,
    pub(super) measurements: Vec<Measurement>,
}

impl SideGroup {
    /// A group whose members are not threads.
    pub(super) fn new(members: u64, measurements: Vec<Measurement>) -> Self {
        let group_facts = GroupFacts { members, ..GroupFacts::default() };
        Self { group_facts, measurements, ..Self::default() }
    }
}

/// The groups of a section by key, on one side. All groups together have an empty key.
pub(super) type SideSection = BTreeMap<Vec<String>, SideGroup>;
