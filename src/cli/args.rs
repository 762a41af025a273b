//! Command-line arguments. These types are private to the command line.

use std::ffi::OsString;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args as ClapArgs, ColorChoice, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};

use super::{
    CpuList, Format, LimitArgs, SORT_KEYS, ViewArgs, cpu_list, duration, keep, multiple, named_path, one_of_variants,
    overview_column, pid, ring_size, share, size, smaps, threshold, weight, why_rate,
};
use crate::capture::{CodeSampling, Engine, Options, Smaps};
use crate::compare::{
    CompareOptions, DifferentHosts, Gate, GroupBy, GroupGlob, NewGroups, OverviewColumn, Scope, Sides, SortKey,
    StepGate, Threshold, tests_of,
};
use crate::process::{Privileges, Streams};
use crate::record::Recorder;
use crate::statistics::Looks;
use crate::store::Keep;

/// Show where every thread's time went, and why
#[derive(Debug, Parser)]
#[command(name = "ctprof", version, disable_help_flag = true)]
#[command(
    after_help = "Examples:\n  ctprof record -d 10s\n  ctprof record -- make -j8\n  ctprof capture -o a.ctprof.zst; make; ctprof capture -o b.ctprof.zst\n  ctprof show a.ctprof.zst b.ctprof.zst"
)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Print help: -h the usual options, --help all
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = "Messages", hide_short_help = true)]
    help: Option<bool>,
    /// Log more; -vv names each file that could not be read
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Messages", hide_short_help = true)]
    pub(super) verbose: u8,
    /// Print only errors, no other messages
    #[arg(short, long, global = true, help_heading = "Messages", hide_short_help = true)]
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

/// Options of earlier versions, and what to write instead.
const RENAMED: [(&str, &str); 7] = [
    ("--baseline", "ctprof ab OLD NEW"),
    ("--candidate", "ctprof ab OLD NEW"),
    ("--columns", "--metrics NAMES"),
    ("-c", "-m NAMES"),
    ("--no-thread-normalize", "--names exact"),
    ("--no-cgroup-normalize", "--names exact"),
    ("--no-cgroup-match", "--names exact"),
];

/// The error about an argument that no option takes, with what to write instead, if that is known.
pub(super) fn with_tip(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let renamed = RENAMED.iter().find(|(option, _)| option == unknown).map(|(_, now)| format!("it is now: {now}"));
    let is_word = !unknown.starts_with('-') && subcommand().is_some_and(|name| name == "record");
    let words = || std::env::args_os().skip_while(|word| *word != **unknown).map(|word| word.display().to_string());
    let command = || format!("a command follows `--`: ctprof record -- {}", words().collect::<Vec<_>>().join(" "));
    if let Some(tip) = renamed.or_else(|| is_word.then(command)) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Messages that go to standard error.
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

const COMPARE_EXAMPLES: &str = "\
Examples:
  what changed           ctprof compare a.ctprof.zst b.ctprof.zst
  fail if it is slower   ctprof compare a b --fail-on 'make*:run>10%'
  for a pull request     ctprof compare a b --format markdown
All options: ctprof compare --help";

const COMPARE_HELP: &str = "\
Examples:
  what changed           ctprof compare a.ctprof.zst b.ctprof.zst
  who waited for a CPU   ctprof compare a b -m wait,run -s wait
  thread pools           ctprof compare a b --group-by thread
  cgroups                ctprof compare a b -g cgroup --sections cgroup-stats
  for a pull request     ctprof compare a b --format markdown --limit 20
  for a browser          ctprof compare a b --format html > report.html
  for a script           ctprof compare a b --format json | jq '.rows[]'
  fail if it is slower   ctprof compare a b --fail-on 'make*:run>10%'

Exit status: 0 success, 1 failure (also if a gate has no data), 2 wrong usage, 3 a gate of --fail-on failed";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Capture every thread of this host into a file
    #[command(after_help = CAPTURE_EXAMPLES)]
    Capture(CaptureArgs),
    /// Record what happens over a period, or while a command runs, and show it
    Record(Box<RecordArgs>),
    /// Show what every pool of threads does now, and why, on a full screen
    #[command(after_help = TOP_EXAMPLES)]
    Top(Box<TopArgs>),
    /// Run two commands in turn, several times, and compare what they do
    Ab(Box<AbArgs>),
    /// Show a window, a snapshot, or what happened between two snapshots
    Show(ShowArgs),
    /// Compare two windows or two snapshots and list what changed
    #[command(after_help = COMPARE_EXAMPLES, after_long_help = COMPARE_HELP)]
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
        /// Format of the output
        #[arg(short, long, value_parser = one_of_variants(&[Format::Table, Format::Json]), value_name = "FORMAT", default_value = "table")]
        format: Format,
    },
    /// List every metric: unit, reduction, source, kernel options, meaning
    #[command(alias = "metric-list")]
    Metrics {
        /// Format of the output
        #[arg(short, long, value_parser = one_of_variants(&[Format::Table, Format::Json, Format::Markdown]), value_name = "FORMAT", default_value = "table")]
        format: Format,
    },
}

/// Outputs in JSON. Their names are the names of their definitions in the schema.
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

const CAPTURE_EXAMPLES: &str = "\
Examples:
  every thread now       ctprof capture -o a.ctprof.zst
  and what is in it      ctprof show a.ctprof.zst";

#[derive(Debug, ClapArgs)]
pub(super) struct CaptureArgs {
    /// Write to this file
    ///
    /// `-` is standard output. By default, ctprof-HOST-TIME.ctprof.zst.
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
    /// Only these processes, separated by commas (repeatable)
    ///
    /// Processes that they start are not included.
    #[arg(help_heading = "Recording", short, long = "pid", value_name = "PID", value_delimiter = ',', value_parser = pid)]
    pub(super) pids: Vec<u32>,
}

/// The engine that reads the threads.
#[derive(Debug, ClapArgs)]
pub(super) struct EngineChoice {
    /// How to read threads: auto, bpf or procfs
    ///
    /// Both engines give the same values, BPF in a fraction of the CPU time.
    #[arg(
        long,
        value_enum,
        value_name = "ENGINE",
        default_value = "auto",
        hide_possible_values = true,
        hide_short_help = true,
        help_heading = "Expert"
    )]
    pub(super) engine: Engine,
}

/// Options on what captures read, and how.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Expert")]
pub(super) struct SourceArgs {
    #[command(flatten)]
    pub(super) engine: EngineChoice,
    /// Worker threads, at most 4 per CPU
    ///
    /// By default, one per idle CPU, by the 1-minute load: up to 8, and up to half of all CPUs + 1.
    #[arg(hide_short_help = true, short, long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
    /// When to read smaps_rollup
    ///
    /// Reading it blocks the page faults of the process. `auto` reads the smallest first, for at most 20 ms, and none for `ab`.
    #[arg(hide_short_help = true, long, value_parser = smaps(), value_name = "WHEN", default_value = "auto")]
    pub(super) smaps: Smaps,
    /// Skip processes with a larger resident set, with --smaps auto
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub(super) smaps_max_rss: u64,
    /// Do not read jemalloc counters
    ///
    /// Without BPF, reading them pauses threads that glibc did not start.
    #[arg(hide_short_help = true, long)]
    pub(super) no_jemalloc: bool,
    /// Do not use taskstats
    ///
    /// With --engine procfs, delay accounting and peak memory are then missing.
    #[arg(hide_short_help = true, long)]
    pub(super) no_taskstats: bool,
    /// Replace names with hashes keyed by $CTPROF_REDACT_KEY
    ///
    /// Equal names get equal hashes.
    #[arg(hide_short_help = true, long)]
    pub(super) redact: bool,
    /// Read procfs from this directory
    #[arg(hide_short_help = true, long, value_name = "PATH", default_value = "/proc")]
    pub(super) procfs: PathBuf,
    /// Read sysfs from this directory
    #[arg(hide_short_help = true, long, value_name = "PATH", default_value = "/sys")]
    pub(super) sysfs: PathBuf,
    /// Root of cgroup version 2
    ///
    /// By default, where it is mounted.
    #[arg(hide_short_help = true, long, value_name = "PATH")]
    pub(super) cgroupfs: Option<PathBuf>,
}

/// How windows are recorded.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Expert")]
pub(super) struct RecorderArgs {
    /// Buffer for BPF records of exiting threads, 1.5K each
    ///
    /// Enlarge it if records are lost.
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "8M", value_parser = ring_size)]
    ring: u32,
    /// Do not sample why threads wait
    #[arg(long, hide_short_help = true)]
    no_why: bool,
    /// Samples per second of why threads wait
    ///
    /// ctprof takes fewer if sampling would need more than 1% of one CPU.
    #[arg(hide_short_help = true, long, value_name = "HZ", default_value = "50", value_parser = why_rate)]
    why_rate: f64,
    /// Do not sample where in their code threads wait
    #[arg(hide_short_help = true, long, conflicts_with = "no_why")]
    no_stacks: bool,
    /// Also sample where in their code threads run
    ///
    /// 49 times a second on each CPU, and at most 800 times on all.
    #[arg(hide_short_help = true, long, conflicts_with_all = ["no_why", "no_stacks"])]
    on_cpu: bool,
}

impl RecorderArgs {
    /// Returns a recorder of this number of windows, or of a series, with reasons unless an option excludes them. Drops the
    /// privileges, out of these, that load BPF programs.
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
        let mut sampled = options.clone();
        sampled.code = match (self.no_stacks, self.on_cpu) {
            (true, _) => CodeSampling::Never,
            (_, true) => CodeSampling::WaitsAndRuns,
            _ => CodeSampling::Waits,
        };
        let recorder = if self.no_why { recorder } else { recorder.with_reasons(&sampled, self.why_rate) };
        privileges.keep_after_loading()?;
        Ok(recorder)
    }
}

#[derive(Debug, ClapArgs)]
#[command(after_help = RECORD_EXAMPLES, after_long_help = RECORD_HELP, next_help_heading = "Recording")]
pub(super) struct RecordArgs {
    /// Record for this long: 10s, 500ms, 2m
    ///
    /// By default, until Ctrl-C, or until COMMAND exits. A COMMAND that runs longer is not stopped.
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub(super) duration: Option<Duration>,
    /// Begin at the next multiple of a time by the wall clock, in UTC: /10s
    ///
    /// So the windows of many hosts are of the same seconds. Runs and steps follow one another from there.
    #[arg(hide_short_help = true, long, value_name = "/TIME", value_parser = multiple)]
    pub(super) at: Option<Duration>,
    /// Record a series, in steps of this length
    ///
    /// Prints the busiest groups of each step, and writes to the file what changed in it.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["runs", "export"])]
    pub(super) every: Option<Duration>,
    /// Keep the last part of a series, in a directory: 1h
    ///
    /// A time, or a size such as 200MiB. -o names the directory.
    #[arg(long, value_name = "TIME|SIZE", value_parser = keep, requires_all = ["every", "output"])]
    pub(super) keep: Option<Keep>,
    /// End the series when a step meets this bound: 'redis-server:wait>200%', 'run<10%'
    ///
    /// COMMAND keeps running.
    #[arg(hide_short_help = true, long, value_name = "GATE", requires = "every")]
    pub(super) until: Option<StepGate>,
    /// Continue for this long after the bound of --until was met
    #[arg(hide_short_help = true, long, value_name = "TIME", value_parser = duration, requires = "until")]
    pub(super) after: Option<Duration>,
    /// Write to this file instead of printing
    ///
    /// `-` is standard output, to which COMMAND writes, too. With --runs or --keep, PATH is a directory.
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    /// Record N windows into a directory, for `compare`
    ///
    /// The runs follow one another. -o names the directory.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "output", conflicts_with = "export")]
    pub(super) runs: Option<u32>,
    /// Start no run of --runs that would end after this time: 60s
    ///
    /// ctprof expects a run to take as long as the longest one so far. The first one always runs.
    #[arg(hide_short_help = true, long, value_name = "TIME", value_parser = duration, requires = "runs")]
    pub(super) max_time: Option<Duration>,
    /// Command to run and record
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "pids", value_hint = ValueHint::AnyPath)]
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

/// Options of `top`: the content of the screen, and the source of the windows.
#[derive(Debug, ClapArgs)]
pub(super) struct TopArgs {
    /// Series that `record --every -o` wrote, to replay [default: this host]
    ///
    /// FILE@10m..20m shows only that part.
    #[arg(value_name = "FILE", conflicts_with = "pids")]
    pub(super) file: Option<PathBuf>,
    /// Time from one screen to the next: 500ms, 10s
    #[arg(short, long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub(super) delay: Duration,
    /// Group by command, process, thread, pid, tid, cgroup, …
    ///
    /// Or by container, pod, all, as `record` does.
    #[arg(help_heading = "Report", short, long, value_parser = one_of_variants(GroupBy::value_variants()), value_name = "AXIS", default_value = "command", hide_default_value = true, hide_possible_values = true)]
    group_by: GroupBy,
    /// Only groups whose name matches: 'make*' (repeatable)
    #[arg(help_heading = "Report", long, value_name = "GLOB", value_parser = GroupGlob::new)]
    only: Vec<GroupGlob>,
    /// Show only a part: container:NAME, pod:NAME
    #[arg(help_heading = "Report", long, value_parser = Scope::parse, value_name = "SCOPE")]
    scope: Option<Scope>,
    /// When to use color: auto, always, never
    #[arg(
        help_heading = "Report",
        long,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_short_help = true,
        hide_possible_values = true
    )]
    pub(super) color: ColorChoice,
    /// Sort by these values: wait,run; wait:asc
    ///
    /// By default, groups with the most CPU time are first.
    #[arg(help_heading = "Report", short, long, value_name = "KEYS", value_delimiter = ',', value_parser = SORT_KEYS, hide_possible_values = true)]
    sort_by: Vec<SortKey>,
    #[command(flatten)]
    pub(super) processes: ProcessChoice,
    #[command(flatten)]
    pub(super) recorder: RecorderArgs,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
}

impl TopArgs {
    /// Privileges that the recording, or reading the file, needs.
    pub(super) fn privileges(&self) -> Privileges {
        if self.file.is_some() { Privileges::Files } else { Privileges::Record }
    }

    pub(super) fn options(&self) -> CompareOptions {
        let mut options = CompareOptions { labels: Sides::one("top".to_owned()), ..CompareOptions::default() };
        (options.grouping.axis, options.grouping.scope) = (self.group_by, self.scope.clone());
        (options.selection.only, options.selection.sort_by) = (self.only.clone(), self.sort_by.clone());
        options
    }
}

const TOP_EXAMPLES: &str = "\
Keys: ? lists them

Examples:
  what runs here now     ctprof top
  the pools of a server  ctprof top -p 1234 -g thread
  what happened before   ctprof top series.ctprof.zst";

const RECORD_EXAMPLES: &str = "\
Examples:
  what runs here now     ctprof record -d 10s
  what a build does      ctprof record -- make -j8
  into a file            ctprof record -o w.ctprof.zst -- make
All options: ctprof record --help";

const RECORD_HELP: &str = "\
Exit status: that of COMMAND, 128 + signal if a signal ended it; 125 if ctprof failed or was used wrongly, 126 if COMMAND cannot be executed, 127 if it was not found. With --runs, that of the first run that failed, and 0 if none did. Ctrl-C keeps the runs so far; the status is then 130

Examples:
  what runs here now     ctprof record -d 10s
  what a build does      ctprof record -- make -j8
  one process            ctprof record -d 10s -p 1234 -g thread
  only the build         ctprof record --scope command -- make -j8
  into a file, to show   ctprof record -o w.ctprof.zst -- make
  several runs           ctprof record --runs 10 -o before -- make
  the last hour, always  ctprof record --every 1s --keep 1h -o last/";

#[derive(Debug, ClapArgs)]
#[command(after_help = AB_EXAMPLES, after_long_help = AB_HELP, next_help_heading = "Recording")]
pub(super) struct AbArgs {
    /// Command to compare with, in quotes
    ///
    /// Run by `sh -c`, unless with --no-shell.
    #[arg(value_name = "OLD")]
    pub(super) baseline: String,
    /// Command to compare, in quotes
    ///
    /// Run by `sh -c`, unless with --no-shell.
    #[arg(value_name = "NEW")]
    pub(super) candidate: String,
    /// Number of runs of each command [default: up to 20]
    ///
    /// Intervals and verdicts need 4. If runs vary by 5%, a rise of 10% needs 20.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Make at most N runs, and end once gates and elapsed are decided
    ///
    /// From 18 on, ctprof also judges the runs after 40% and after 60%; from 12 on, after 60%. Over 64 gates need more. Intervals
    /// are a little wider, so that no more gates fail by chance.
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value = "20", conflicts_with = "runs")]
    max_runs: u32,
    /// Start no pair of runs that would end after this time: 60s
    ///
    /// ctprof expects a pair to take as long as the longest one so far. The first pair always runs.
    #[arg(hide_short_help = true, long, value_name = "TIME", value_parser = duration)]
    pub(super) max_time: Option<Duration>,
    /// Keep the windows in this directory
    ///
    /// In baseline/ and candidate/ below it.
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Do not run each command once before the recorded runs
    #[arg(long, hide_short_help = true)]
    pub(super) no_warmup: bool,
    /// Run this before each run, without recording it
    ///
    /// By `sh -c`.
    #[arg(long, value_name = "COMMAND")]
    pub(super) prepare: Option<String>,
    /// Run the commands on these CPUs: 0,2-3
    ///
    /// ctprof runs on others.
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Run the words of OLD and NEW without `sh`
    ///
    /// Words are split at blanks outside of quotes. A shell takes about 1 ms of each run.
    #[arg(long, hide_short_help = true)]
    pub(super) no_shell: bool,
    /// Show the output of the commands on stderr instead of discarding it
    #[arg(long, hide_short_help = true)]
    show_output: bool,
    #[command(flatten)]
    pub(super) recorder: RecorderArgs,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    #[command(flatten)]
    pub(super) comparing: Comparing,
}

impl AbArgs {
    /// How often each command runs, at most.
    pub(super) fn most_runs(&self) -> u32 {
        self.runs.unwrap_or(self.max_runs)
    }

    /// When the runs are judged.
    pub(super) fn looks(&self) -> Looks {
        let most = usize::try_from(self.max_runs).unwrap_or(usize::MAX);
        if self.runs.is_some() { Looks::once() } else { Looks::early(most, tests_of(&self.comparing.fail_on)) }
    }

    /// The CPUs of the commands; empty for all.
    pub(super) fn cpus(&self) -> &[u32] {
        self.cpus.as_deref().unwrap_or_default()
    }

    /// The standard streams of the commands.
    pub(super) fn streams(&self) -> Streams {
        if self.show_output { Streams::ToStderr } else { Streams::Discarded }
    }
}

const AB_EXAMPLES: &str = "\
Examples:
  which is faster   ctprof ab 'gzip -kf x' 'pigz -kf x'
  if it is slower   ctprof ab --fail-on 'run>10%' ./a ./b
All options: ctprof ab --help";

const AB_HELP: &str = "\
The commands run in the order A B B A A B B A …, so host drift affects both sides equally. A run whose command fails is kept, and left out of the comparison; it is an error if more than a tenth of a side fail. Ctrl-C compares the runs so far. Without --runs, the runs end once all gates and elapsed are decided, after at most 20

Exit status: 0 success, 1 failure, 2 wrong usage, 3 if a gate (--fail-on) failed, 130 after Ctrl-C

Examples:
  which is faster   ctprof ab 'gzip -kf x' 'pigz -kf x'
  keep the runs     ctprof ab -o runs ./a ./b
  see them again    ctprof compare runs
  with less noise   ctprof ab --cpus 1 ./a ./b
  fail if slower    ctprof ab --fail-on 'run>10%' ./a ./b";

#[derive(Debug, ClapArgs)]
#[command(after_help = SHOW_EXAMPLES)]
pub(super) struct ShowArgs {
    /// File that `record` or `capture` wrote, or directory of runs
    ///
    /// FILE@10s..20s is a part of a series, `-` is stdin.
    pub(super) snapshot: PathBuf,
    /// Later snapshot, to see what happened in between
    ///
    /// It must be of the same boot.
    pub(super) later: Option<PathBuf>,
    /// Show the busiest groups of each step of a series
    #[arg(help_heading = "Report", long, conflicts_with_all = ["later", "sparkline"])]
    pub(super) steps: bool,
    /// Show this column over time, for a series
    #[arg(hide_short_help = true, help_heading = "Report", long, value_name = "COLUMN", value_parser = overview_column(), hide_possible_values = true, default_value = "run")]
    pub(super) sparkline: &'static OverviewColumn,
    #[command(flatten)]
    pub(super) view: ViewArgs,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  a recording            ctprof show w.ctprof.zst
  why threads waited     ctprof show w.ctprof.zst --why
  its first ten seconds  ctprof show series.ctprof.zst@0s..10s
  between two snapshots  ctprof show a.ctprof.zst b.ctprof.zst";

#[derive(Debug, ClapArgs)]
pub(super) struct CompareArgs {
    /// File that `record` or `capture` wrote, or directory of runs
    ///
    /// FILE@10s..20s is a part of a series, `-` is stdin.
    pub(super) baseline: PathBuf,
    /// The other side, of the same kind
    ///
    /// Omit it if BASELINE is a directory that `ab` wrote.
    pub(super) candidate: Option<PathBuf>,
    #[command(flatten)]
    pub(super) comparing: Comparing,
}

/// How two sides are compared and shown.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Gates")]
pub(super) struct Comparing {
    /// Smallest change that counts as one, for sides of several runs
    #[arg(hide_short_help = true, long, value_name = "PERCENT", value_parser = threshold, default_value = "5%")]
    pub(super) threshold: Threshold,
    /// Give no verdict to groups with less of the CPU time, and leave them out of percentage gates on globs
    #[arg(hide_short_help = true, long, value_name = "PERCENT", value_parser = share, default_value = "1%")]
    pub(super) min_time: f64,
    /// Exit with status 3 if this rises by more: 'run>10%'
    ///
    /// A metric of all groups, or of each matching group: 'wait>2s', 'make*:majflt>1000'; `<` if it falls (repeatable).
    #[arg(long, value_name = "GATE")]
    pub(super) fail_on: Vec<Gate>,
    /// Also exit with status 3 if a gate is unclear because the runs vary too much
    #[arg(hide_short_help = true, long, requires = "fail_on")]
    pub(super) fail_on_unclear: bool,
    /// Pass groups that only the candidate has
    ///
    /// Gates on `*` compare them with a baseline of 0.
    #[arg(hide_short_help = true, long, requires = "fail_on")]
    allow_new: bool,
    /// Judge percentages of times although the sides ran on different processors
    ///
    /// Different processors take different times for equal work.
    #[arg(hide_short_help = true, long, requires = "fail_on")]
    allow_different_hosts: bool,
    #[command(flatten)]
    pub(super) view: ViewArgs,
}

impl Comparing {
    pub(super) fn options(&self, labels: Sides<String>) -> CompareOptions {
        self.options_of(&self.view, labels)
    }

    /// The options of another view of the comparison.
    pub(super) fn options_of(&self, view: &ViewArgs, labels: Sides<String>) -> CompareOptions {
        CompareOptions {
            threshold: self.threshold,
            min_time: self.min_time,
            new_groups: if self.allow_new { NewGroups::Pass } else { NewGroups::Judge },
            different_hosts: if self.allow_different_hosts { DifferentHosts::Allow } else { DifferentHosts::Refuse },
            ..view.options(labels)
        }
    }
}

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit status: 1 if a snapshot could not be read; the others are exported\n\nExamples:\n  all threads in one file   ctprof export a.ctprof.zst -o threads.parquet\n  a fleet, by day           ctprof export snapshots/ -o fleet/"
)]
pub(super) struct ExportArgs {
    /// Snapshots, windows, or directories to search for *.ctprof.zst and *.json
    #[arg(required = true, value_name = "PATH", value_parser = PathBufValueParser::new().try_map(named_path))]
    pub(super) inputs: Vec<PathBuf>,
    /// Directory to write to, or a file *.parquet for threads only
    ///
    /// The directory has the datasets threads, cgroups, reasons and captures, partitioned by day. Each call writes one file per
    /// dataset and day, with the captures that the directory does not have.
    #[arg(short, long, value_name = "PATH", value_parser = PathBufValueParser::new().try_map(named_path))]
    pub(super) output: PathBuf,
    /// How many captures of the fleet each of these stands for
    ///
    /// 100 for a sample of 1% of the hosts or windows. Queries multiply values by the column weight.
    #[arg(long, value_name = "N", default_value = "1", value_parser = weight)]
    pub(super) weight: f64,
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

    #[test]
    fn short_help_fits_a_terminal_and_no_example_wraps() {
        let mut command = Args::command().term_width(80);
        command.build();
        for subcommand in command.get_subcommands_mut().filter(|subcommand| subcommand.get_name() != "help") {
            let name = subcommand.get_name().to_owned();
            let [short, long] = [subcommand.render_help(), subcommand.render_long_help()].map(|help| help.to_string());
            assert!(short.lines().count() <= 30, "{name}: {}", short.lines().count());
            assert!(short.lines().all(|line| line.chars().count() <= 80), "{name}");
            let examples = long.split("Examples:\n").nth(1).unwrap_or_default().lines();
            let is_whole = |line: &str| line.starts_with("  ") && line.contains("ctprof ");
            assert!(examples.take_while(|line| !line.is_empty()).all(is_whole), "{name}:\n{long}");
        }
    }

    #[test]
    fn the_help_says_from_how_many_runs_on_they_are_judged_early() {
        use clap::CommandFactory;
        let looks = |runs: usize, gates| {
            let looks = Looks::early(runs, gates);
            (1..runs).filter(|pairs| looks.is_early(*pairs)).count()
        };
        let from = |count, gates| (1..100).find(|runs| looks(*runs, gates) == count).unwrap();
        let most_gates = (1..100).take_while(|gates| from(1, *gates) == from(1, 1)).last().unwrap();
        let says = format!(
            "From {} on, ctprof also judges the runs after 40% and after 60%; from {} on, after 60%. Over {most_gates} gates need more.",
            from(2, 1),
            from(1, 1)
        );
        let help = Args::command().find_subcommand_mut("ab").unwrap().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(&says), "{says}\n{help}");
        assert_eq!((12..18).map(|runs| looks(runs, most_gates)).max(), Some(1));
    }
}
