//! What can be typed. These types are not seen outside the command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::capture::{Ask, Smaps};
use crate::compare::{GroupBy, Names, Options, Sides, SortKey, parse_metrics, parse_sections, parse_sort};
use crate::model::Section;
use crate::report::Unchanged;
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

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Capture every thread of this host into a file
    Capture(Capture),
    /// Show one snapshot, grouped
    Show(Show),
    /// Compare two snapshots: what moved, and by how much
    Compare(Compare),
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
    #[arg(long)]
    no_cgroup_normalize: bool,
    /// Sections to show, separated by commas; `ctprof metrics` lists them
    #[arg(long, value_name = "NAMES", value_parser = sections)]
    sections: Option<SectionList>,
    /// How to print
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) limits: Limits,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Axis {
    Pcomm,
    Comm,
    CommExact,
    Cgroup,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Format {
    Table,
    Json,
}

impl View {
    pub(super) fn options(&self, labels: Sides<String>) -> Options {
        Options {
            group_by: match self.group_by {
                Axis::Pcomm => GroupBy::Pcomm,
                Axis::Comm => GroupBy::Comm,
                Axis::CommExact => GroupBy::CommExact,
                Axis::Cgroup => GroupBy::Cgroup,
            },
            names: if self.no_thread_normalize { Names::Literal } else { Names::Patterns },
            cgroups: if self.no_cgroup_normalize { Names::Literal } else { Names::Patterns },
            sections: self.sections.clone().unwrap_or_default().0,
            metrics: self.metrics.clone().unwrap_or_default().0,
            sort_by: self.sort_by.clone().unwrap_or_default().0,
            labels,
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
    pub(super) format: Format,
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
