//! How threads are grouped, and what is reported.

use serde::Serialize;

use super::{Flatten, GroupGlob, Quantity, Scope, Sides, SortKey};
use crate::diagnose::Side;
use crate::model::{Section, SnapshotHead};
use crate::statistics::TAIL;

/// How threads are grouped. By process or thread id only for captures of one boot, because ids differ between others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GroupBy {
    /// Groups by process name, with the name of the program that an interpreter or loader runs.
    Command,
    /// Groups by process name.
    #[default]
    #[cfg_attr(feature = "cli", value(name = "process", alias = "pcomm"))]
    Pcomm,
    /// Groups by thread name: a pool, across programs.
    #[cfg_attr(feature = "cli", value(name = "thread", alias = "comm"))]
    Comm,
    /// Groups by exact thread name.
    #[cfg_attr(feature = "cli", value(hide = true))]
    CommExact,
    /// Groups by process, with its id.
    Pid,
    /// Groups by thread, with its id and its process.
    Tid,
    /// Groups by cgroup path.
    Cgroup,
    /// Groups by container: containers of one workload are one group; without a container, by systemd service.
    Container,
    /// Groups by pod: pods of one workload are one group; without a pod, by container or service.
    Pod,
    /// A tree by cgroup, process and thread.
    All,
}

impl GroupBy {
    /// Whether this grouping includes the sections about cgroups.
    pub(crate) fn is_by_cgroup(self) -> bool {
        matches!(self, Self::Cgroup | Self::Container | Self::Pod | Self::All)
    }
}

/// Whether names are replaced by patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Names that differ only in instance numbers are one group.
    #[default]
    Patterns,
    /// Every name is its own group.
    Literal,
}

/// Whether groups have one line each, or one per value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The overview and all sections.
    #[default]
    Both,
    /// The overview only: one line per group.
    Overview,
    /// Only lines with one value each.
    Long,
}

/// Divisor of the values in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Per {
    /// Seconds of the window; of a snapshot, seconds that threads have existed.
    Second,
    /// Nothing: the whole run.
    #[cfg_attr(feature = "cli", value(alias = "total"))]
    Run,
    /// CPU-seconds of all threads in scope.
    CpuSecond,
    /// Units of work, as many as [`Grouping::units`] says: requests that a service answered, for example.
    #[cfg_attr(feature = "cli", value(skip))]
    Unit,
}

/// How many units of work were done in a window of each side, above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Units {
    /// Units of the baseline, or of the only side.
    pub baseline: f64,
    /// Units of the candidate.
    pub candidate: f64,
}

impl Units {
    pub(super) fn on_side(self, side: Side) -> f64 {
        match side {
            Side::Baseline => self.baseline,
            Side::Candidate => self.candidate,
        }
    }
}

/// A relative change below which sides count as the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Threshold(pub f64);

impl Default for Threshold {
    fn default() -> Self {
        Self(0.05)
    }
}

/// Treatment of groups that only the candidate has, by gates on several groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewGroups {
    /// Compare them with a baseline of 0.
    #[default]
    Judge,
    /// Leave these groups out.
    Pass,
}

/// Treatment of percentages of times by gates, if the sides ran on different processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DifferentHosts {
    /// Refuse them: they would compare the processors.
    #[default]
    Refuse,
    /// Judge percentages as on equal processors.
    Allow,
}

/// Runs that ended before as many were made as were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedEarly {
    /// Runs per side that were planned.
    pub planned: u32,
    /// Event that ended the runs.
    pub by: EndOfRuns,
}

/// Event that ends the runs before the planned number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndOfRuns {
    /// The time that they may take is over.
    Time,
    /// Every gate is decided, and so is how long the commands take.
    Decided,
}

/// Options that decide which groups there are, and what their values are.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Grouping {
    /// How threads are grouped.
    pub axis: GroupBy,
    /// Whether names of processes, threads and cgroups are replaced by patterns, and renamed cgroups matched with their old names.
    pub names: Names,
    /// Globs that merge cgroups. They apply before patterns.
    pub flatten: Vec<Flatten>,
    /// The threads that are looked at; `None` for [`Scope::Host`], or what [`CompareOptions::for_captures`] says.
    pub scope: Option<Scope>,
    /// Divisor of the overview's values; `None` for what suits the snapshots.
    pub per: Option<Per>,
    /// Number of units by which [`Per::Unit`] divides.
    pub units: Option<Units>,
}

/// Selection of the groups and values that are reported. It changes neither the values nor what gates, headlines and why lines
/// say.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Selection {
    /// Globs of the groups that are reported; empty for all groups.
    pub only: Vec<GroupGlob>,
    /// Whether groups have one line each, or one per value, if no sections are selected.
    pub form: Form,
    /// Sections to report; empty for all with data that suit the form.
    pub sections: Vec<Section>,
    /// Columns of the overview, metrics, derived metrics and the number of threads to report; empty for all. A column selects
    /// its inputs in other sections.
    pub metrics: Vec<Quantity>,
    /// Order of the groups; empty for the largest change first, or the most CPU time first in a view.
    pub sort_by: Vec<SortKey>,
}

/// How to group threads, and what to report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompareOptions {
    /// Options that decide which groups there are.
    pub grouping: Grouping,
    /// Options that decide what is reported.
    pub selection: Selection,
    /// Whether reasons have whole stacks of functions, however few samples they have.
    pub has_whole_stacks: bool,
    /// Whether reasons are trees of the functions that led to them, if captures have stacks.
    pub has_reason_trees: bool,
    /// The relative change below which several runs count as the same.
    pub threshold: Threshold,
    /// The share of the CPU time of all groups below which a group of several runs has no verdict, 0 to 1.
    pub min_time: f64,
    /// Treatment of groups that only the candidate has, by gates on several groups.
    pub new_groups: NewGroups,
    /// Treatment of percentages of times by gates, if the sides ran on different processors.
    pub different_hosts: DifferentHosts,
    /// How often an end of an interval may miss the true change: [`TAIL`], or less if these runs may have been looked at before.
    pub tail: f64,
    /// Event that ended the runs, if fewer were made than planned.
    pub ended_early: Option<EndedEarly>,
    /// Whether the report has the tree of cgroups, processes and threads below its groups.
    pub has_tree: bool,
    /// Labels of the sides: their paths.
    pub labels: Sides<String>,
    /// Bytes of memory that rows may take while they are made and written; `None` for any number.
    pub max_bytes: Option<usize>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            grouping: Grouping::default(),
            selection: Selection::default(),
            has_whole_stacks: false,
            has_reason_trees: false,
            threshold: Threshold::default(),
            min_time: 0.0,
            new_groups: NewGroups::default(),
            different_hosts: DifferentHosts::default(),
            tail: TAIL,
            ended_early: None,
            has_tree: false,
            labels: Sides::default(),
            max_bytes: None,
        }
    }
}

/// Returns true if the globs select a group; without globs, all are selected.
pub(super) fn includes_group(only: &[GroupGlob], path: &[String]) -> bool {
    only.is_empty() || only.iter().any(|glob| glob.includes(path))
}

const SECTIONS_OF_TREE: &[Section] = &[
    Section::Overview,
    Section::CgroupStats,
    Section::CgroupLimits,
    Section::MemoryEvents,
    Section::IoStat,
    Section::Pressure,
];

impl CompareOptions {
    /// Returns the options for a comparison of these captures. If all are windows of commands, and no scope is selected, the
    /// scope is the commands: the rest of the host is noise. If one capture does not know what interpreters run, groups are
    /// process names.
    #[must_use]
    pub fn for_captures<'h>(self, captures: impl Iterator<Item = &'h SnapshotHead> + Clone) -> Self {
        let is_of_command = |head: &SnapshotHead| head.window.as_ref().is_some_and(|window| window.command.is_some());
        let default_scope = if captures.clone().all(is_of_command) { Scope::Command } else { Scope::Host };
        let has_programs = |head: &SnapshotHead| head.capture.as_ref().is_some_and(|capture| capture.programs);
        let axis = match self.grouping.axis {
            GroupBy::Command if !captures.clone().all(has_programs) => GroupBy::Pcomm,
            axis => axis,
        };
        let scope = self.grouping.scope.or(Some(default_scope));
        Self { grouping: Grouping { scope, axis, ..self.grouping }, ..self }
    }

    /// The options for the tree below the groups; `None` without one, if the groups are such a tree, or if the overview is not
    /// selected.
    pub(super) fn tree(&self) -> Option<Self> {
        let wanted = SECTIONS_OF_TREE.iter().copied().filter(|section| self.selection.wants(*section));
        let sections: Vec<_> = wanted.collect();
        let has_tree = self.has_tree
            && !matches!(self.grouping.axis, GroupBy::All | GroupBy::Pid | GroupBy::Tid)
            && sections.contains(&Section::Overview);
        has_tree.then(|| Self {
            grouping: Grouping { axis: GroupBy::All, ..self.grouping.clone() },
            selection: Selection { sections, metrics: Vec::new(), ..self.selection.clone() },
            has_tree: false,
            ..self.clone()
        })
    }
}

impl Selection {
    pub(super) fn wants(&self, section: Section) -> bool {
        match self.form {
            _ if !self.sections.is_empty() => self.sections.contains(&section),
            Form::Both => true,
            Form::Overview => matches!(section, Section::Host | Section::Overview),
            Form::Long => section != Section::Overview,
        }
    }

    pub(super) fn wants_group(&self, path: &[String]) -> bool {
        includes_group(&self.only, path)
    }

    /// Whether the overview has a column, by its name: all if none is selected.
    pub(super) fn wants_column(&self, name: &str) -> bool {
        let mut columns = self.metrics.iter().filter(|metric| metric.section() == Section::Overview).peekable();
        columns.peek().is_none() || columns.any(|column| column.name() == name)
    }
}
