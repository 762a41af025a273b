//! Arguments that choose what reports show.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ColorChoice, ValueEnum};

use super::{
    Format, METRICS, MetricChoice, NO_STEPS, SECTIONS, SORT_KEYS, exported_file, names, one_of_variants, size, units,
};
use crate::compare::{
    CompareOptions, Flatten, Form, GroupBy, GroupGlob, Grouping, Names, Per, Quantity, Scope, Selection, Sides,
    SortKey, Units,
};
use crate::model::Section;
use crate::report::Column;
use crate::store::MAX_DECOMPRESSED_SNAPSHOT_BYTES;

#[derive(Clone, Debug, ClapArgs)]
pub(super) struct LimitArgs {
    /// Refuse snapshots larger than this uncompressed
    ///
    /// By default 1G.
    #[arg(hide_short_help = true, help_heading = "Expert", long, value_name = "SIZE", default_value_t = MAX_DECOMPRESSED_SNAPSHOT_BYTES, hide_default_value = true, value_parser = size)]
    pub(super) max_snapshot_bytes: u64,
}

#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Report")]
pub(super) struct ViewArgs {
    /// Group by command, process, thread, pid, tid, cgroup, …
    ///
    /// Or by container, pod, all. command: process name, and script or main class of an interpreter. process, thread: name. pid, tid: one row each, but one per name of those that started and exited in the window. pod: workload. all: a tree of cgroups, processes and threads.
    #[arg(short, long, value_parser = one_of_variants(GroupBy::value_variants()), value_name = "AXIS", default_value = "command", hide_default_value = true, hide_possible_values = true)]
    group_by: GroupBy,
    /// Show these values, separated by commas: run,wait,majflt
    ///
    /// Columns of the overview, metrics (`ctprof metrics` lists them), or columns of --long: group, threads, pid, metric, baseline, candidate, delta, percent, interval, verdict, value, tags, coverage, uptime.
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', value_parser = METRICS, hide_possible_values = true)]
    metrics: Vec<MetricChoice>,
    /// Sort by these values: wait,run; wait:asc, wait:abs
    ///
    /// By default, show and record begin with the most CPU time, compare and ab with the largest change.
    #[arg(short, long, value_name = "KEYS", value_delimiter = ',', value_parser = SORT_KEYS, hide_possible_values = true)]
    sort_by: Vec<SortKey>,
    /// Show at most N rows per section, and N groups (0: all)
    ///
    /// By default, terminals have 50 rows in each section and as many groups as fit, Markdown has 10 rows and 20 groups, other tables have 20 groups, and other formats all.
    #[arg(short = 'n', long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Show all values, each in a row
    ///
    /// Implied by --metrics and --sections.
    #[arg(short, long)]
    long: bool,
    /// Show values per second, run or cpu-second
    ///
    /// run: totals. cpu-second: divided by the CPU time of all groups. By default, values are per second; metrics of a snapshot, and comparisons of commands without the host or of two snapshots, are totals.
    #[arg(long, value_parser = one_of_variants(Per::value_variants()), value_name = "UNIT", hide_short_help = true)]
    per: Option<Per>,
    /// Divide by the N units of work that a window did, such as requests
    ///
    /// N,M: the baseline did N units, the candidate M.
    #[arg(long, value_parser = units, value_name = "N[,M]", conflicts_with = "per", hide_short_help = true)]
    per_unit: Option<Units>,
    /// Show only a part: command, container:NAME, pod:NAME
    ///
    /// `host` is everything, `command` the recorded command and its descendants. By default, comparisons and runs of recorded commands show the command, all else the host.
    #[arg(long, value_parser = Scope::parse, value_name = "SCOPE")]
    pub(super) scope: Option<Scope>,
    /// Only groups whose name matches: 'make*' (repeatable)
    #[arg(long, value_name = "GLOB", value_parser = GroupGlob::new)]
    pub(super) only: Vec<GroupGlob>,
    /// Show all reasons why threads waited [of GROUP]
    #[arg(long, value_name = "GROUP", value_parser = GroupGlob::new, num_args = 0..=1, require_equals = true)]
    why: Option<Option<GroupGlob>>,
    /// Also show unchanged rows, idle groups and rows without data
    #[arg(short, long, hide_short_help = true)]
    pub(super) unchanged: bool,
    /// Print a table, or json, csv, markdown, html, folded, …
    ///
    /// Or jsonl, perfetto. jsonl has the rows of JSON, one per line; html is one file for a browser, with charts; folded is for flame graphs; perfetto has the steps of a series as counters, for ui.perfetto.dev.
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(super) format: Format,
    /// When to use color: auto, always, never
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_short_help = true,
        hide_possible_values = true
    )]
    pub(super) color: ColorChoice,
    /// Show names of threads and cgroups as they are, or merged where only digits or ids of instances differ
    ///
    /// With `exact`, renamed cgroups are not matched.
    #[arg(long, value_name = "WHICH", default_value = "merged", value_parser = names(), hide_short_help = true, help_heading = "Expert")]
    names: Names,
    /// Merge all cgroups matching GLOB into one group: `*` within a segment, `**` across (repeatable)
    #[arg(long, value_name = "GLOB", value_parser = Flatten::new, hide_short_help = true, help_heading = "Expert")]
    cgroup_flatten: Vec<Flatten>,
    /// Show these sections, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = SECTIONS, hide_short_help = true, help_heading = "Expert")]
    sections: Vec<Section>,
    /// Also write the report to a file: html=report.html (repeatable)
    ///
    /// FORMAT is a format of --format, except perfetto. The printed report stays the same.
    #[arg(long, value_name = "FORMAT=FILE", value_parser = exported_file, hide_short_help = true)]
    pub(super) export: Vec<(Format, PathBuf)>,
    /// The file of `--export` that this view is for; `None` for what is printed.
    #[arg(skip)]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
}

impl ViewArgs {
    /// The same view in the formats, and for the files, of `--export`.
    pub(super) fn exported(&self) -> impl Iterator<Item = Self> {
        let view =
            |(format, file): &(Format, PathBuf)| Self { format: *format, file: Some(file.clone()), ..self.clone() };
        self.export.iter().map(view)
    }

    pub(super) fn options(&self, labels: Sides<String>) -> CompareOptions {
        let grouping = Grouping {
            axis: self.group_by,
            names: self.names,
            flatten: self.cgroup_flatten.clone(),
            scope: self.scope.clone(),
            per: (self.format == Format::Folded).then_some(Per::Run).or(self.per_unit.map(|_| Per::Unit)).or(self.per),
            units: self.per_unit,
        };
        let selection = Selection {
            only: self.named_groups().cloned().collect(),
            form: self.form(),
            sections: self.sections().into_iter().collect(),
            metrics: self.metrics(),
            sort_by: self.sort_by.clone(),
        };
        CompareOptions {
            grouping,
            selection,
            has_whole_stacks: self.format == Format::Folded,
            has_reason_trees: matches!(self.why, Some(Some(_)))
                && matches!(self.format, Format::Table | Format::Markdown),
            labels,
            has_tree: self.format.is_interactive(),
            // Rows are made when the files have been read.
            max_bytes: usize::try_from(self.limits.max_snapshot_bytes).ok().map(|bytes| bytes.saturating_mul(2)),
            ..CompareOptions::default()
        }
    }

    /// Whether neither the number nor the order of groups is chosen.
    pub(super) fn has_usual_order(&self) -> bool {
        self.limit.is_none() && self.sort_by.is_empty()
    }

    /// The groups that are named.
    pub(super) fn named_groups(&self) -> impl Iterator<Item = &GroupGlob> {
        self.only.iter().chain(self.why.iter().flatten())
    }

    fn form(&self) -> Form {
        let is_long = self.long || self.why.is_some() || !self.metrics.is_empty() || !self.sections.is_empty();
        self.format.form(is_long)
    }

    /// The selected values of groups.
    fn metrics(&self) -> Vec<Quantity> {
        let of_groups = |choice: &_| if let MetricChoice::OfGroups(quantity) = choice { Some(*quantity) } else { None };
        self.metrics.iter().filter_map(of_groups).collect()
    }

    /// The selected columns of tables with a row per value. None in `threads,run`, which selects values: the overview always has the
    /// columns `group` and `threads`, and tables without their other columns would not say what a number is.
    pub(super) fn table_columns(&self) -> Vec<Column> {
        let of_table = |choice: &_| if let MetricChoice::OfTable(column) = choice { Some(*column) } else { None };
        let columns: Vec<_> = self.metrics.iter().filter_map(of_table).collect();
        let are_of_overview = columns.iter().all(|column| matches!(column, Column::Group | Column::Threads));
        if are_of_overview && !self.metrics().is_empty() { Vec::new() } else { columns }
    }

    /// Returns the sections to report: the selected ones, or the sections of the selected metrics.
    fn sections(&self) -> BTreeSet<Section> {
        let reasons: &[Section] = match (self.format, &self.why) {
            (Format::Folded, _) => return [Section::Reasons].into(),
            (_, Some(_)) => &[Section::Host, Section::Reasons],
            _ => &[],
        };
        let mut sections: BTreeSet<_> = self.sections.iter().chain(reasons).copied().collect();
        let metrics = self.metrics();
        if self.sections.is_empty() && !metrics.is_empty() && !self.format.is_interactive() {
            sections.extend([Section::Host].into_iter().chain(metrics.into_iter().map(Quantity::section)));
        }
        sections
    }

    /// Checks that nothing is selected that only whole windows have: a step is an overview.
    pub(super) fn check_steps(&self) -> Result<(), String> {
        let of_windows = [
            ("--export", !self.export.is_empty()),
            ("--long", self.long),
            ("--sections", !self.sections.is_empty()),
            ("--why", self.why.is_some()),
        ];
        let given = of_windows.iter().find(|(_, is_given)| *is_given);
        given.map_or(Ok(()), |(option, _)| {
            Err(format!("{option} is for a whole window, not for its steps: remove it, or --steps (--format perfetto)"))
        })
    }

    /// Checks that a report of one side has one number of units.
    pub(super) fn check_units(&self) -> Result<(), String> {
        let are_two = self.per_unit.is_some_and(|units| units.baseline != units.candidate);
        if are_two { Err("--per-unit N,M is for comparisons; write one number".to_owned()) } else { Ok(()) }
    }

    /// Checks that the report has the selected columns; if not, the error says what it lacks.
    pub(super) fn check_columns(&self, has: fn(Column) -> bool) -> Result<(), String> {
        if self.format == Format::Perfetto {
            return Err(NO_STEPS.to_owned());
        }
        if self.format == Format::Folded && (self.per.is_some() || self.per_unit.is_some()) {
            return Err("folded stacks are microseconds of the whole window; remove --per or --per-unit".to_owned());
        }
        let missing = self.table_columns().into_iter().find(|column| !has(*column));
        missing.map_or(Ok(()), |other| Err(format!("this report has no column `{}`", other.name())))
    }
}
