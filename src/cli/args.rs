//! What can be typed. These types are not seen outside the command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::capture::{Ask, Smaps};
use crate::compare::{Flatten, GroupBy, Options, Sides, SortKey, nearest, parse_metrics, parse_sections, parse_sort};
use crate::model::Section;
use crate::report::{Column, Unchanged};
use crate::store::MAX_DECOMPRESSED_SNAPSHOT_BYTES;

/// What did every thread on this host do, and what changed?
#[derive(Debug, Parser)]
#[command(name = "ctprof", version, disable_help_subcommand = false)]
#[command(
    after_help = "Example:\n  ctprof capture -o a.ctprof.zst; make; ctprof capture -o b.ctprof.zst\n  ctprof compare a.ctprof.zst b.ctprof.zst"
)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Say more on stderr; -vv names every file that could not be read
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Messages")]
    pub(super) verbose: u8,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true, help_heading = "Messages")]
    pub(super) quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  what moved, by process        ctprof compare a.ctprof.zst b.ctprof.zst
  who waited for a CPU          ctprof compare a b -m wait_time_ns,avg_wait_ns -s wait_time_ns
  thread pools, whatever runs   ctprof compare a b --group-by comm
  cgroups and their pressure    ctprof compare a b -g cgroup --sections host,cgroup-stats,pressure
  for a pull request            ctprof compare a b --format markdown --limit 20
  for a script                  ctprof compare a b --format json | jq '.rows[]'";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Capture every thread of this host into a file
    Capture(Capture),
    /// Show one snapshot, grouped
    Show(Show),
    /// Compare two snapshots: what moved, and by how much
    #[command(after_help = EXAMPLES)]
    Compare(Compare),
    /// Print completions for a shell
    Completions(Completions),
    /// Say what a capture here and now can't read, why, and what cures it
    Doctor(Doctor),
    /// List every metric: unit, reduction, source, kernel options, meaning
    #[command(alias = "metric-list")]
    Metrics(Metrics),
}

#[derive(Debug, ClapArgs)]
pub(super) struct Capture {
    /// File to write; `-` for stdout [default: ctprof-HOST-TIME.ctprof.zst]
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    /// Capture this process only; repeatable
    #[arg(short, long = "pid", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) pids: Vec<u32>,
    /// Workers [default: as many as CPUs are idle, at most half of them and one]
    #[arg(short, long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
    /// When to read smaps_rollup, which makes a process's page faults wait
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    smaps: SmapsWhen,
    /// Largest resident set for which auto reads smaps_rollup
    #[arg(long, value_name = "SIZE", default_value = "32G", value_parser = size)]
    smaps_max_rss: u64,
    /// Leave the counters of processes' allocators alone
    #[arg(long)]
    no_jemalloc: bool,
    /// Ask nothing of taskstats: no delay accounting, no memory high-water marks
    #[arg(long)]
    no_taskstats: bool,
    /// Replace names by hashes, equal names by equal ones, under the key in CTPROF_REDACT_KEY
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
    #[command(flatten)]
    pub(super) limits: Limits,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SmapsWhen {
    Auto,
    Always,
    Never,
}

impl Capture {
    pub(super) fn jemalloc(&self) -> Ask {
        if self.no_jemalloc { Ask::No } else { Ask::Yes }
    }

    pub(super) fn taskstats(&self) -> Ask {
        if self.no_taskstats { Ask::No } else { Ask::Yes }
    }

    pub(super) fn smaps(&self) -> Smaps {
        match self.smaps {
            SmapsWhen::Auto => Smaps::Auto { max_rss_bytes: self.smaps_max_rss },
            SmapsWhen::Always => Smaps::Always,
            SmapsWhen::Never => Smaps::Never,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct Limits {
    /// Largest snapshot, before compression
    #[arg(long, value_name = "SIZE", default_value_t = MAX_DECOMPRESSED_SNAPSHOT_BYTES, hide_default_value = true, value_parser = size)]
    pub(super) max_snapshot_bytes: u64,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Show {
    /// Snapshot; `-` for stdin
    pub(super) snapshot: PathBuf,
    #[command(flatten)]
    pub(super) view: View,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Compare {
    /// Snapshot to compare with; `-` for stdin
    pub(super) baseline: PathBuf,
    /// Snapshot to compare; `-` for stdin
    pub(super) candidate: PathBuf,
    #[command(flatten)]
    pub(super) view: View,
}

#[derive(Debug, ClapArgs)]
pub(super) struct View {
    /// What makes threads a group: process name, thread name, exactly that name, or cgroup
    #[arg(short, long, value_enum, value_name = "AXIS", default_value = "pcomm")]
    group_by: Axis,
    /// Metrics to show, separated by commas
    #[arg(short, long, value_name = "NAMES", value_parser = metrics)]
    metrics: Option<MetricList>,
    /// Order of groups: metric[:asc|desc|abs], separated by commas; also thread_count
    #[arg(short, long, value_name = "KEYS", value_parser = sort_keys)]
    sort_by: Option<SortList>,
    /// Rows a section; 0 for all [default: 50 on a terminal, else all]
    #[arg(short = 'n', long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Show rows too that say nothing
    #[arg(short, long)]
    unchanged: bool,
    /// Take names as they are: worker-1 and worker-2 are two groups
    #[arg(long)]
    no_thread_normalize: bool,
    /// Take cgroup paths as they are
    #[arg(long, help_heading = "Cgroups")]
    no_cgroup_normalize: bool,
    /// Make one of all cgroups that a glob matches: `*` within a segment, `**` across; repeatable
    #[arg(long, value_name = "GLOB", value_parser = flatten, help_heading = "Cgroups")]
    cgroup_flatten: Vec<Flatten>,
    /// Don't pair cgroups that came back under another name
    #[arg(long, help_heading = "Cgroups")]
    no_cgroup_match: bool,
    /// Columns to show, separated by commas
    #[arg(short, long, value_name = "NAMES", value_parser = columns)]
    columns: Option<ColumnList>,
    /// Sections to show, separated by commas; `ctprof metrics` lists them
    #[arg(long, value_name = "NAMES", value_parser = sections)]
    sections: Option<SectionList>,
    /// How to print
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(super) format: Format,
    /// When to make headings stand out
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(super) color: ColourWhen,
    #[command(flatten)]
    pub(super) limits: Limits,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Axis {
    Pcomm,
    Comm,
    CommExact,
    Cgroup,
    All,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Format {
    Table,
    Json,
    Csv,
    Markdown,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ColourWhen {
    Auto,
    Always,
    Never,
}

impl View {
    pub(super) fn options(&self, labels: Sides<String>) -> Options {
        Options {
            group_by: match self.group_by {
                Axis::Pcomm => GroupBy::Pcomm,
                Axis::Comm => GroupBy::Comm,
                Axis::CommExact => GroupBy::CommExact,
                Axis::Cgroup => GroupBy::Cgroup,
                Axis::All => GroupBy::All,
            },
            names: self.no_thread_normalize.into(),
            cgroups: self.no_cgroup_normalize.into(),
            flatten: self.cgroup_flatten.clone(),
            renamed_cgroups: self.no_cgroup_match.into(),
            sections: self.sections.clone().unwrap_or_default().0,
            metrics: self.metrics.clone().unwrap_or_default().0,
            sort_by: self.sort_by.clone().unwrap_or_default().0,
            labels,
        }
    }

    /// The columns asked for, which the report has to have.
    pub(super) fn columns(&self, is_view: fn(Column) -> bool) -> anyhow::Result<Vec<Column>> {
        let columns = self.columns.clone().unwrap_or_default().0;
        match columns.iter().find(|column| !is_view(**column)) {
            None => Ok(columns),
            Some(other) => {
                let message = format!("there is no column `{}` in this report", other.name());
                Err(Args::command().error(ErrorKind::InvalidValue, message).into())
            }
        }
    }

    pub(super) fn unchanged(&self) -> Unchanged {
        if self.unchanged { Unchanged::Shown } else { Unchanged::Hidden }
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct Doctor {
    /// How to print
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(super) format: DoctorFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum DoctorFormat {
    Table,
    Json,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Completions {
    /// Shell to complete for
    #[arg(value_enum)]
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Metrics {
    /// How to print
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(super) format: ListingFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ListingFormat {
    Table,
    Json,
    Markdown,
}

/// One argument's worth of metrics: clap takes a `Vec` for several arguments.
#[derive(Clone, Debug, Default)]
struct MetricList(Vec<&'static str>);

#[derive(Clone, Debug, Default)]
struct ColumnList(Vec<Column>);

#[derive(Clone, Debug, Default)]
struct SectionList(Vec<Section>);

#[derive(Clone, Default)]
struct SortList(Vec<SortKey>);

impl std::fmt::Debug for SortList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

fn metrics(names: &str) -> Result<MetricList, crate::compare::SelectError> {
    parse_metrics(names).map(MetricList)
}

fn flatten(glob: &str) -> Result<Flatten, String> {
    Flatten::new(glob).map_err(|error| error.kind().to_string())
}

fn columns(names: &str) -> Result<ColumnList, String> {
    let known = || Column::ALL.iter().copied();
    let column = |name: &str| {
        let found = known().find(|column| column.name() == name);
        found.ok_or_else(|| match nearest(name, known().map(Column::name)) {
            Some(near) => format!("no column is called `{name}`; did you mean `{near}`?"),
            None => format!("no column is called `{name}`"),
        })
    };
    names.split(',').map(|name| column(name.trim())).collect::<Result<_, _>>().map(ColumnList)
}

fn sections(names: &str) -> Result<SectionList, crate::compare::SelectError> {
    parse_sections(names).map(SectionList)
}

fn sort_keys(keys: &str) -> Result<SortList, crate::compare::SelectError> {
    parse_sort(keys).map(SortList)
}

/// A number of bytes, or one with a suffix K, M, G or T of powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KIB" => 10,
        "M" | "MIB" => 20,
        "G" | "GIB" => 30,
        "T" | "TIB" => 40,
        _ => return Err("a number of bytes is wanted, or one with a suffix K, M, G or T".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "a number of bytes is wanted".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
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
    fn sizes_have_the_usual_suffixes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("32G"), Ok(32 << 30));
        assert_eq!(size("1kib"), Ok(1024));
        for bad in ["", "G", "1X", "-1", "1.5G", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
