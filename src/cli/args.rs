//! Command-line arguments. These types are private to the command line.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args as ClapArgs, ColorChoice, CommandFactory, Parser, Subcommand, ValueEnum};

use super::{
    COLUMNS, ColumnChoice, CpuList, Format, METRICS, NO_STEPS, SECTIONS, SORT_KEYS, cpu_list, duration, keep,
    one_of_variants, overview_column, pid, ring_size, share, size, smaps, threshold, units, why_rate,
};
use crate::capture::{Engine, Options, Smaps};
use crate::compare::{
    CompareOptions, DifferentHosts, Flatten, Form, Gate, GroupBy, GroupGlob, Grouping, Names, NewGroups,
    OverviewColumn, Per, Quantity, Scope, Selection, Sides, SortKey, StepGate, Threshold, Units,
};
use crate::model::Section;
use crate::process::{Privileges, Streams};
use crate::record::Recorder;
use crate::report::Column;
use crate::store::{Keep, MAX_DECOMPRESSED_SNAPSHOT_BYTES};

/// Show where every thread's time went, and why
#[derive(Debug, Parser)]
#[command(name = "ctprof", version)]
#[command(
    after_help = "Examples:\n  ctprof record -d 10s\n  ctprof record -- make -j8\n  ctprof capture -o a.ctprof.zst; make; ctprof capture -o b.ctprof.zst\n  ctprof show a.ctprof.zst b.ctprof.zst"
)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Log more; -vv names each file that could not be read
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Messages")]
    pub(super) verbose: u8,
    /// Only print errors
    #[arg(short, long, global = true, help_heading = "Messages")]
    pub(super) quiet: bool,
}

/// An error that is printed with the usage of the subcommand.
pub(super) fn usage_error(message: impl Display) -> anyhow::Error {
    let mut command = Args::command();
    command.build();
    let subcommand = subcommand().and_then(|name| command.find_subcommand_mut(name));
    let error = |command: &mut clap::Command| command.error(ErrorKind::ValueValidation, &message);
    subcommand.map(error).unwrap_or_else(|| error(&mut Args::command())).into()
}

/// The name of the subcommand. Options before it have no values.
pub(super) fn subcommand() -> Option<OsString> {
    std::env::args_os().skip(1).find(|argument| !argument.as_encoded_bytes().starts_with(b"-"))
}

/// The error about an argument of `record` that no option takes, with what makes it the command.
pub(super) fn with_separator(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return error };
    let is_word = error.kind() == ErrorKind::UnknownArgument && !unknown.starts_with('-');
    if is_word && subcommand().is_some_and(|name| name == "record") {
        let words = std::env::args_os().skip_while(|word| *word != **unknown).map(|word| word.display().to_string());
        let tip = format!("a command follows `--`: ctprof record -- {}", words.collect::<Vec<_>>().join(" "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Which messages go to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Messages {
    All,
    ErrorsOnly,
}

impl Args {
    pub(super) fn messages(&self) -> Messages {
        if self.quiet { Messages::ErrorsOnly } else { Messages::All }
    }
}

const EXAMPLES: &str = "\
Examples:
  two runs of a command         ctprof record -o a -- make; ctprof record -o b -- make; ctprof compare a b
  what changed, by process      ctprof compare a.ctprof.zst b.ctprof.zst
  who waited for a CPU          ctprof compare a b -m wait,run -s wait
  thread pools, whatever runs   ctprof compare a b --group-by comm
  cgroups and their pressure    ctprof compare a b -g cgroup --sections host,cgroup-stats,pressure
  for a pull request            ctprof compare a b --format markdown --limit 20
  for a browser                 ctprof compare a b --format html > report.html
  for a script                  ctprof compare a b --format json | jq '.rows[]'
  fail if a program gets slower ctprof compare a b --fail-on 'make*:run>10%'

Exit status: 0 success, 1 failure (also if a gate has no data), 2 wrong usage, 3 a gate of --fail-on failed";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Capture every thread of this host into a file
    Capture(CaptureArgs),
    /// Record what happens over a period, or while a command runs, and show it
    Record(Box<RecordArgs>),
    /// Run two commands in turn, several times, and compare what they do
    Ab(Box<AbArgs>),
    /// Show a window, a snapshot, or what happened between two snapshots
    Show(ShowArgs),
    /// Compare two windows or two snapshots and list what changed
    #[command(after_help = EXAMPLES)]
    Compare(CompareArgs),
    /// Export snapshots and windows to Parquet, for DuckDB, Spark and other query engines
    Export(ExportArgs),
    /// Print a shell completion script
    Completions {
        /// Shell to print the script for
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the JSON Schema of what other commands print
    Schema {
        /// Output to describe [default: all]
        #[arg(value_enum)]
        output: Option<JsonOutput>,
    },
    /// Check which counters cannot be captured here, why, and how to fix it
    #[command(after_help = "Exit status: 0 if nothing fixable is missing, 1 if something is, 2 for a usage error")]
    Doctor {
        #[command(flatten)]
        engine: EngineChoice,
        /// Output format
        #[arg(short, long, value_parser = one_of_variants(&[Format::Table, Format::Json]), value_name = "FORMAT", default_value = "table")]
        format: Format,
    },
    /// List every metric: unit, reduction, source, kernel options, meaning
    #[command(alias = "metric-list")]
    Metrics {
        /// Output format
        #[arg(short, long, value_parser = one_of_variants(&[Format::Table, Format::Json, Format::Markdown]), value_name = "FORMAT", default_value = "table")]
        format: Format,
    },
}

/// What commands print as JSON: its name is that of its definition in the schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum JsonOutput {
    /// Output of show and record
    Show,
    /// Output of compare and ab
    Compare,
    /// A line of --format jsonl
    Row,
    Doctor,
    Metrics,
}

#[derive(Debug, ClapArgs)]
pub(super) struct CaptureArgs {
    /// File to write; `-` for stdout [default: ctprof-HOST-TIME.ctprof.zst]
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) processes: ProcessChoice,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
}

/// The processes that are captured.
#[derive(Debug, ClapArgs)]
pub(super) struct ProcessChoice {
    /// Capture only these processes, separated by commas (repeatable), without those that they start
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',', value_parser = pid)]
    pub(super) pids: Vec<u32>,
}

/// The engine that reads the threads.
#[derive(Debug, ClapArgs)]
pub(super) struct EngineChoice {
    /// How to read threads. Both engines give the same values, BPF in a fraction of the CPU time
    #[arg(long, value_enum, value_name = "ENGINE", default_value = "auto")]
    pub(super) engine: Engine,
}

/// What captures read, and how.
#[derive(Debug, ClapArgs)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    pub(super) engine: EngineChoice,
    /// Worker threads, at most 4 per CPU [default: idle CPUs by the 1-minute load, at most half of all CPUs + 1, and at most 8]
    #[arg(short, long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
    /// When to read smaps_rollup (blocks the process's page faults meanwhile); auto: smallest first, for at most 20 ms
    #[arg(long, value_parser = smaps(), value_name = "WHEN", default_value = "auto")]
    pub(super) smaps: Smaps,
    /// With --smaps auto, skip processes with a larger resident set
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub(super) smaps_max_rss: u64,
    /// Do not read jemalloc counters (without BPF, this pauses threads that glibc did not start)
    #[arg(long)]
    pub(super) no_jemalloc: bool,
    /// Do not use taskstats (with --engine procfs no delay accounting and no peak memory)
    #[arg(long)]
    pub(super) no_taskstats: bool,
    /// Replace names with hashes keyed by $CTPROF_REDACT_KEY; equal names get equal hashes
    #[arg(long)]
    pub(super) redact: bool,
    /// Root of procfs
    #[arg(long, value_name = "PATH", default_value = "/proc", help_heading = "Roots")]
    pub(super) procfs: PathBuf,
    /// Root of sysfs
    #[arg(long, value_name = "PATH", default_value = "/sys", help_heading = "Roots")]
    pub(super) sysfs: PathBuf,
    /// Root of cgroup version 2 [default: where it is mounted]
    #[arg(long, value_name = "PATH", help_heading = "Roots")]
    pub(super) cgroupfs: Option<PathBuf>,
}

/// How windows are recorded.
#[derive(Debug, ClapArgs)]
pub(super) struct RecorderArgs {
    /// Buffer for BPF records of exiting threads, 1.5K each; enlarge it if records are lost
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = ring_size)]
    ring: u32,
    /// Do not sample why threads wait
    #[arg(long)]
    no_why: bool,
    /// Samples per second of why threads wait; fewer where they would take more than 1% of one CPU
    #[arg(long, value_name = "HZ", default_value = "50", value_parser = why_rate)]
    why_rate: f64,
}

impl RecorderArgs {
    /// A recorder of so many windows, or of a series, with reasons unless they are not wanted. Of these privileges, those for
    /// loading its programs are dropped.
    pub(super) fn recorder(
        &self,
        options: &Options,
        windows: Option<u32>,
        privileges: Privileges,
    ) -> anyhow::Result<Recorder> {
        let recorder = match windows {
            Some(windows) => Recorder::new(options.clone(), usize::try_from(windows)?, self.ring)?,
            None => Recorder::of_series(options.clone(), self.ring)?,
        };
        let recorder = if self.no_why { recorder } else { recorder.with_reasons(options, self.why_rate) };
        privileges.keep_after_loading()?;
        Ok(recorder)
    }
}

#[derive(Debug, ClapArgs)]
#[command(after_help = RECORD_HELP)]
pub(super) struct RecordArgs {
    /// Record for this long: 10s, 500ms, 2m [default: until Ctrl-C, or until COMMAND exits]
    #[arg(short, long, value_name = "TIME", value_parser = duration, conflicts_with = "command")]
    pub(super) duration: Option<Duration>,
    /// Record in steps of this length: print the busiest groups of each step, and write what changed in it to the file
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "runs")]
    pub(super) every: Option<Duration>,
    /// Keep only the last part of a series, of this time or size, in a directory (-o): 1h, 200MiB
    #[arg(long, value_name = "TIME|SIZE", value_parser = keep, requires_all = ["every", "output"])]
    pub(super) keep: Option<Keep>,
    /// End a series when a step of it meets a bound: 'redis-server:wait>200%', 'run<10%'. COMMAND keeps running
    #[arg(long, value_name = "GATE", requires = "every")]
    pub(super) until: Option<StepGate>,
    /// Continue for this long after the bound of --until was met
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "until")]
    pub(super) after: Option<Duration>,
    /// File to write the window to, instead of printing it; `-` for stdout, where a command writes, too. With --runs, a directory
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    /// Record N windows, one after another, into a directory (-o) that `compare` reads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "output")]
    pub(super) runs: Option<u32>,
    /// Command to run and record
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "pids")]
    pub(super) command: Vec<OsString>,
    #[command(flatten)]
    pub(super) recorder: RecorderArgs,
    #[command(flatten)]
    pub(super) processes: ProcessChoice,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    #[command(flatten)]
    pub(super) view: ViewArgs,
}

impl RecordArgs {
    /// Privileges that the recording needs.
    pub(super) fn privileges(&self) -> Privileges {
        if self.command.is_empty() { Privileges::Record } else { Privileges::RecordCommand }
    }
}

const RECORD_HELP: &str = "\
Exit status: that of COMMAND, 128 + signal if a signal ended it; 125 if ctprof failed or was used wrongly, 126 if COMMAND cannot be executed, 127 if it was not found. With --runs, that of the first run that failed, and 0 if none did. Ctrl-C keeps the runs so far

Examples:
  what runs here now            ctprof record -d 10s
  what a build does             ctprof record -- make -j8
  one process                   ctprof record -d 10s -p 1234 --group-by comm
  only the build                ctprof record --scope command -- make -j8
  into a file                   ctprof record -o w.ctprof.zst -- make; ctprof show w.ctprof.zst
  before and after a change     ctprof record -o a -- make; ctprof record -o b -- make; ctprof compare a b
  with several runs of each     ctprof record --runs 10 -o a -- make; ctprof record --runs 10 -o b -- make; ctprof compare a b";

#[derive(Debug, ClapArgs)]
#[command(after_help = AB_HELP)]
pub(super) struct AbArgs {
    /// Command to compare with, run by `sh -c`
    #[arg(long, value_name = "COMMAND")]
    pub(super) baseline: String,
    /// Command to compare, run by `sh -c`
    #[arg(long, value_name = "COMMAND")]
    pub(super) candidate: String,
    /// Number of runs of each command; intervals and verdicts need 4, and where runs vary by 5%, a rise of 10% needs 20
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value = "20")]
    pub(super) runs: u32,
    /// Keep the windows in baseline/ and candidate/ of this directory
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Do not run each command once before the recorded runs
    #[arg(long)]
    pub(super) no_warmup: bool,
    /// Run this before each run, by `sh -c`, without recording it
    #[arg(long, value_name = "COMMAND")]
    pub(super) prepare: Option<String>,
    /// Run the commands on these CPUs, for example 0,2-3, and ctprof on others
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Show the output of the commands on stderr instead of discarding it
    #[arg(long)]
    show_output: bool,
    #[command(flatten)]
    pub(super) recorder: RecorderArgs,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    #[command(flatten)]
    pub(super) comparing: Comparing,
}

impl AbArgs {
    /// The CPUs of the commands; empty for all.
    pub(super) fn cpus(&self) -> &[u32] {
        self.cpus.as_deref().unwrap_or_default()
    }

    /// The standard streams of the commands.
    pub(super) fn streams(&self) -> Streams {
        if self.show_output { Streams::ToStderr } else { Streams::Discarded }
    }
}

const AB_HELP: &str = "\
The commands run in the order A B B A A B B A …, so host drift affects both sides equally. A run whose command fails is kept, and left out of the comparison; it is an error if more than a tenth of a side fail. Ctrl-C compares the runs so far

Exit status: 0 success, 1 failure, 2 wrong usage, 3 if a gate (--fail-on) failed, 130 after Ctrl-C

Examples:
  which one is faster           ctprof ab --baseline 'gzip -kf data' --candidate 'pigz -kf data'
  keep the runs                 ctprof ab -o runs --baseline ./old --candidate ./new; ctprof compare runs
  on one CPU, less noise        ctprof ab --cpus 1 --baseline ./old --candidate ./new
  fail if it is slower          ctprof ab --fail-on 'elapsed>10%' --baseline ./old --candidate ./new
  from a clean state            ctprof ab --prepare 'make clean' --baseline 'make' --candidate 'make -j8'";

#[derive(Debug, ClapArgs)]
pub(super) struct LimitArgs {
    /// Refuse snapshots larger than this uncompressed [default: 1G]
    #[arg(long, value_name = "SIZE", default_value_t = MAX_DECOMPRESSED_SNAPSHOT_BYTES, hide_default_value = true, value_parser = size)]
    pub(super) max_snapshot_bytes: u64,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ShowArgs {
    /// Snapshot, or window that `record` wrote; FILE@10s..20s for a part of a series; a directory of runs; `-` for stdin
    pub(super) snapshot: PathBuf,
    /// Later snapshot of the same boot: shows what happened in between
    pub(super) later: Option<PathBuf>,
    /// Show the busiest groups of each step of a series that `record --every` wrote
    #[arg(long, conflicts_with = "later")]
    pub(super) steps: bool,
    /// Show this column over time, for a series
    #[arg(long, value_name = "COLUMN", value_parser = overview_column(), hide_possible_values = true, default_value = "run")]
    pub(super) sparkline: &'static OverviewColumn,
    #[command(flatten)]
    pub(super) view: ViewArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct CompareArgs {
    /// Earlier snapshot, or window that `record` wrote; FILE@10s..20s for a part of a series; a directory of runs; `-` for stdin
    pub(super) baseline: PathBuf,
    /// Later snapshot or window; omit it if BASELINE is a directory that `ab` wrote
    pub(super) candidate: Option<PathBuf>,
    #[command(flatten)]
    pub(super) comparing: Comparing,
}

/// How two sides are compared and shown.
#[derive(Debug, ClapArgs)]
pub(super) struct Comparing {
    /// Change below which several runs count as the same
    #[arg(long, value_name = "PERCENT", value_parser = threshold, default_value = "5%")]
    pub(super) threshold: Threshold,
    /// Give no verdict for groups with less of the CPU time, and leave them out of gates on `*`
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "1%")]
    pub(super) min_time: f64,
    /// Exit with status 3 if a metric of all groups or of each matching group rises by more than a bound: 'run>10%', 'wait>2s', 'make*:majflt>1000'; `<` if it falls (repeatable)
    #[arg(long, value_name = "GATE", help_heading = "Gates")]
    pub(super) fail_on: Vec<Gate>,
    /// Also exit with status 3 if a gate is unclear because the runs vary too much
    #[arg(long, requires = "fail_on", help_heading = "Gates")]
    pub(super) fail_on_unclear: bool,
    /// Let groups pass that only the candidate has. Gates on `*` compare them with a baseline of 0
    #[arg(long, requires = "fail_on", help_heading = "Gates")]
    allow_new: bool,
    /// Judge percentages of times although the sides ran on different processors, which take different times for equal work
    #[arg(long, requires = "fail_on", help_heading = "Gates")]
    allow_different_hosts: bool,
    #[command(flatten)]
    pub(super) view: ViewArgs,
}

impl Comparing {
    pub(super) fn options(&self, labels: Sides<String>) -> CompareOptions {
        CompareOptions {
            threshold: self.threshold,
            min_time: self.min_time,
            new_groups: if self.allow_new { NewGroups::Pass } else { NewGroups::Judge },
            different_hosts: if self.allow_different_hosts { DifferentHosts::Allow } else { DifferentHosts::Refuse },
            ..self.view.options(labels)
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct ViewArgs {
    /// Group threads by command (process name, and the script or main class that an interpreter runs), process name (process), process (pid), thread name (thread), thread (tid), cgroup, container, pod (of one workload), or all (tree)
    #[arg(short, long, value_parser = one_of_variants(GroupBy::value_variants()), value_name = "AXIS", default_value = "command")]
    group_by: GroupBy,
    /// Show these columns of the overview or metrics (listed by `ctprof metrics`), separated by commas
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', value_parser = METRICS, hide_possible_values = true)]
    metrics: Vec<Quantity>,
    /// Sort groups by column or metric[:asc|desc|abs], separated by commas [default: show, record: most CPU time first; compare, ab: largest change first]
    #[arg(short, long, value_name = "KEYS", value_delimiter = ',', value_parser = SORT_KEYS, hide_possible_values = true)]
    sort_by: Vec<SortKey>,
    /// Maximum rows per section, and groups of the overview (0: all) [default: Markdown: 10 rows, 20 groups; terminal: 50 rows, as many groups as fit; else: all rows, 20 groups]
    #[arg(short = 'n', long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Show one row per metric instead of one per group; implied by --metrics, --sections and --columns
    #[arg(short, long)]
    long: bool,
    /// Show values per second, per run (or total: not divided), or per second of CPU time of all groups [default: second; run to compare commands without the host, and for two snapshots]
    #[arg(long, value_parser = one_of_variants(Per::value_variants()), value_name = "UNIT")]
    per: Option<Per>,
    /// Divide by the work that was done in a window: N units, or N units of the baseline and M of the candidate
    #[arg(long, value_parser = units, value_name = "N[,M]", conflicts_with = "per")]
    per_unit: Option<Units>,
    /// Show the whole host, or only the recorded command and its descendants, containers or pods: host, command, container:NAME, pod:NAME [default: command to compare commands and for a directory of their runs, else host]
    #[arg(long, value_parser = Scope::parse, value_name = "SCOPE")]
    pub(super) scope: Option<Scope>,
    /// Show only groups whose name matches GLOB: `*` matches any characters (repeatable)
    #[arg(long, value_name = "GLOB", value_parser = GroupGlob::new)]
    only: Vec<GroupGlob>,
    /// Show all reasons why threads waited, of all groups or of those whose name matches GROUP
    #[arg(long, value_name = "GROUP", value_parser = GroupGlob::new, num_args = 0..=1, require_equals = true)]
    why: Option<Option<GroupGlob>>,
    /// Also show unchanged rows and rows without data
    #[arg(short, long)]
    pub(super) unchanged: bool,
    /// Do not merge names that differ only in digits
    #[arg(long)]
    no_thread_normalize: bool,
    /// Do not merge cgroup paths that differ only in instance ids
    #[arg(long, help_heading = "Cgroups")]
    no_cgroup_normalize: bool,
    /// Merge all cgroups matching GLOB into one group: `*` within a segment, `**` across (repeatable)
    #[arg(long, value_name = "GLOB", value_parser = Flatten::new, help_heading = "Cgroups")]
    cgroup_flatten: Vec<Flatten>,
    /// Do not match renamed cgroups
    #[arg(long, help_heading = "Cgroups")]
    no_cgroup_match: bool,
    /// Show these columns of the overview or of --long, separated by commas; percent is %
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', value_parser = COLUMNS)]
    columns: Vec<ColumnChoice>,
    /// Show these sections, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = SECTIONS)]
    sections: Vec<Section>,
    /// Output format; html is one file for a browser, with charts
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(super) format: Format,
    /// When to use color
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(super) color: ColorChoice,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
}

impl ViewArgs {
    pub(super) fn options(&self, labels: Sides<String>) -> CompareOptions {
        let grouping = Grouping {
            axis: self.group_by,
            names: if self.no_thread_normalize { Names::Literal } else { Names::Patterns },
            cgroups: if self.no_cgroup_normalize { Names::Literal } else { Names::Patterns },
            flatten: self.cgroup_flatten.clone(),
            renamed_cgroups: if self.no_cgroup_match { Names::Literal } else { Names::Patterns },
            scope: self.scope.clone(),
            per: self.per_unit.map(|_| Per::Unit).or(self.per).or((self.format == Format::Folded).then_some(Per::Run)),
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
        let is_long = self.long
            || self.why.is_some()
            || !self.metrics.is_empty()
            || !self.sections.is_empty()
            || !self.columns.is_empty();
        self.format.form(is_long)
    }

    /// The selected metrics, and columns of the overview.
    fn metrics(&self) -> Vec<Quantity> {
        let of_overview = |column: &_| if let ColumnChoice::Overview(column) = column { Some(*column) } else { None };
        self.metrics.iter().copied().chain(self.columns.iter().filter_map(of_overview)).collect()
    }

    /// The selected columns of tables with a row per value.
    pub(super) fn table_columns(&self) -> Vec<Column> {
        let of_table = |column: &_| if let ColumnChoice::Table(column) = column { Some(*column) } else { None };
        self.columns.iter().filter_map(of_table).collect()
    }

    /// The sections to report: the selected ones, or those of the selected metrics.
    fn sections(&self) -> BTreeSet<Section> {
        let reasons: &[Section] = match (self.format, &self.why) {
            (Format::Folded, _) => return [Section::Reasons].into(),
            (_, Some(_)) => &[Section::Host, Section::Reasons],
            _ => &[],
        };
        let metrics = self.metrics();
        let is_selected = !reasons.is_empty() || !self.sections.is_empty();
        if !is_selected && !metrics.is_empty() && !self.format.is_interactive() {
            return [Section::Host].into_iter().chain(metrics.into_iter().map(Quantity::section)).collect();
        }
        self.sections.iter().chain(reasons).copied().collect()
    }

    /// Checks that the report has the selected columns.
    pub(super) fn check_columns(&self, has: fn(Column) -> bool) -> anyhow::Result<()> {
        if self.format == Format::Perfetto {
            return Err(usage_error(NO_STEPS));
        }
        let missing = self.table_columns().into_iter().find(|column| !has(*column));
        missing.map_or(Ok(()), |other| Err(usage_error(format!("this report has no column `{}`", other.name()))))
    }
}

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit status: 1 if a snapshot could not be read; the others are exported\n\nExamples:\n  all threads in one file        ctprof export a.ctprof.zst b.ctprof.zst -o threads.parquet\n  a fleet, by day and host       ctprof export snapshots/ -o fleet/"
)]
pub(super) struct ExportArgs {
    /// Snapshots, windows, or directories to search for *.ctprof.zst and *.json
    #[arg(required = true, value_name = "PATH")]
    pub(super) inputs: Vec<PathBuf>,
    /// Directory for the datasets threads, cgroups, captures and reasons, partitioned by day and host; or a file *.parquet for threads only
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn a_ring_has_the_default_size_of_the_library() {
        use clap::Parser;
        let Command::Record(record) = Args::parse_from(["ctprof", "record"]).command else { panic!() };
        assert_eq!(record.recorder.ring, crate::capture::DEFAULT_RING_BYTES);
    }
}
