//! Parsers of the files of a thread, which store values in metrics. Nothing here opens a file.

use std::borrow::Cow;
use std::collections::HashMap;

use super::cgroup_paths::CgroupPaths;
use super::text::{self, Keyed, StatFields};
use crate::model::{METRICS, Metric, Metrics, Name, Source, SourceFile, Value, printable, procfs_sources};

/// Fields of `stat` are numbered below this (proc_pid_stat(5)).
const STAT_FIELDS: usize = 53;

/// Parsers of one worker, with learned line layouts and names.
pub(in crate::capture) struct Parsers {
    names: HashMap<Box<[u8]>, Name>,
    pub(super) cgroups: CgroupPaths,
    stat: [Option<&'static Metric>; STAT_FIELDS],
    schedstat: Vec<(usize, &'static Metric)>,
    status: Keyed,
    sched: Keyed,
    io: Keyed,
    /// Number of times that the kernel printed as negative.
    pub(super) negative_times: u64,
}

impl Default for Parsers {
    fn default() -> Self {
        Self::new()
    }
}

impl Parsers {
    pub(in crate::capture) fn new() -> Self {
        let keyed = |key_in: fn(Source) -> Option<&'static str>| {
            Keyed::new(procfs_sources().filter_map(move |(source, metric)| Some((key_in(source)?, metric))))
        };
        let mut stat = [None; STAT_FIELDS];
        let mut schedstat = Vec::new();
        for (source, metric) in procfs_sources() {
            match source {
                Source::Stat(field) | Source::StatPolicy(field) => stat[usize::from(field)] = Some(metric),
                Source::Schedstat(column) => schedstat.push((usize::from(column) - 1, metric)),
                _ => {}
            }
        }
        Self {
            names: HashMap::new(),
            cgroups: CgroupPaths::default(),
            stat,
            schedstat,
            status: keyed(|source| match source {
                Source::Status(key) | Source::StatusOfLeader(key) => Some(key),
                _ => None,
            }),
            sched: keyed(|source| match source {
                Source::Sched(key) | Source::SchedDifference(key, _) => Some(key),
                _ => None,
            }),
            io: keyed(|source| match source {
                Source::Io(key) => Some(key),
                _ => None,
            }),
            negative_times: 0,
        }
    }

    /// The name for these bytes. Threads with equal names share one allocation.
    pub(super) fn name(&mut self, bytes: &[u8]) -> Name {
        if let Some(name) = self.names.get(bytes) {
            return name.clone();
        }
        let name: Name = printable(bytes).into();
        self.names.insert(bytes.into(), name.clone());
        name
    }

    /// Stores the values of `stat`. Returns the name, or `None` if `comm` has to be read for it, and the other fields.
    pub(super) fn stat(&mut self, text: &[u8], metrics: &mut Metrics) -> (Option<Name>, StatFields) {
        let parsed = StatFields::parse(text, |(number, field)| self.stat_field(number, field, metrics));
        let Some((name, fields)) = parsed else { return Default::default() };
        // Kernels before 4.18 escape the name here, but not in `comm`.
        let is_plain = memchr::memchr(b'\\', name).is_none();
        (is_plain.then(|| self.name(name)), fields)
    }

    fn stat_field(&self, field: u8, text: &[u8], metrics: &mut Metrics) {
        let Some(Some(metric)) = self.stat.get(usize::from(field)) else { return };
        let value = match metric.sources.procfs {
            [Source::StatPolicy(_)] => text::unsigned(text).map(policy),
            _ => text::value(metric, text),
        };
        put(metric, metrics, value);
    }

    /// Stores the values of any file but `stat` and `cgroup`.
    pub(in crate::capture) fn put_all(&mut self, file: &SourceFile, text: &[u8], metrics: &mut Metrics) {
        match file {
            SourceFile::Status => self.status(text, metrics),
            SourceFile::Schedstat => self.schedstat(text, metrics),
            SourceFile::Sched => self.sched(text, metrics),
            SourceFile::Io => self.io(text, metrics),
            _ => {}
        }
    }

    fn status(&mut self, text: &[u8], metrics: &mut Metrics) {
        self.status.each(text, |metric, text| {
            // The first source with a value counts: for the affinity, that is `sched_getaffinity`.
            if metric.get(metrics).is_none() {
                put(metric, metrics, text::value(metric, text));
            }
        });
    }

    fn schedstat(&self, text: &[u8], metrics: &mut Metrics) {
        let columns = text.trim_ascii().split(|&b| b == b' ');
        for (column, text) in columns.enumerate() {
            if let Some((_, metric)) = self.schedstat.iter().find(|(place, _)| *place == column) {
                put(metric, metrics, text::value(metric, text));
            }
        }
    }

    fn sched(&mut self, text: &[u8], metrics: &mut Metrics) {
        let negative = &mut self.negative_times;
        self.sched.each(text::after_heading(text), |metric, text| {
            *negative += u64::from(text.starts_with(b"-"));
            put(metric, metrics, text::value(metric, text));
        });
        // The kernel's sum of sleeps includes blocks.
        let slept = metrics.voluntary_sleep_ns.zip(metrics.block_sum);
        metrics.voluntary_sleep_ns = slept.map(|(sleep, block)| sleep.number().saturating_sub(block.number()).into());
    }

    /// Stores all keys of `io` or none.
    fn io(&mut self, text: &[u8], metrics: &mut Metrics) {
        self.io.each(text, |metric, text| put(metric, metrics, text::value(metric, text)));
        let io_metrics = || METRICS.iter().filter(|metric| matches!(metric.sources.procfs, [Source::Io(_)]));
        if io_metrics().any(|metric| metric.get(metrics).is_none()) {
            io_metrics().for_each(|metric| metric.clear(metrics));
        }
    }
}

/// Stores a value. One that the metric cannot hold is absent, like one that cannot be parsed.
fn put(metric: &Metric, metrics: &mut Metrics, value: Option<Value<'static>>) {
    if let Some(value) = value {
        let _ = metric.set(metrics, value);
    }
}

/// Scheduling policies of `include/uapi/linux/sched.h`, by name.
pub(in crate::capture) fn policy(number: u64) -> Value<'static> {
    Value::Name(match number {
        0 => "SCHED_OTHER",
        1 => "SCHED_FIFO",
        2 => "SCHED_RR",
        3 => "SCHED_BATCH",
        5 => "SCHED_IDLE",
        6 => "SCHED_DEADLINE",
        7 => "SCHED_EXT",
        _ => return Value::Text(Cow::Owned(format!("SCHED_UNKNOWN({number})"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(files: &[(SourceFile, &[u8])]) -> (Metrics, u64) {
        let (mut parsers, mut metrics) = (Parsers::new(), Metrics::default());
        for (file, text) in files {
            match file {
                SourceFile::Stat => drop(parsers.stat(text, &mut metrics)),
                _ => parsers.put_all(file, text, &mut metrics),
            }
        }
        (metrics, parsers.negative_times)
    }

    #[test]
    fn a_field_of_stat_that_does_not_parse_is_absent_and_the_others_remain() {
        let text = b"7 (x) S 0 0 0 0 -1 0 nine 0 5 0 2 96 1 13 20 99999999999 1 0 42";
        let mut metrics = Metrics::default();
        let (_, stat) = Parsers::new().stat(text, &mut metrics);
        assert_eq!((metrics.minflt, metrics.majflt), (None, Some(5.into())));
        assert_eq!((metrics.priority, metrics.nice), (Some(20.into()), None));
        assert_eq!(stat.start, Some(42));
    }

    #[test]
    fn each_negative_time_is_absent_and_counted() {
        let sched = b"wait_max : -5.000001\nwait_sum : -0.000001\nexec_max : 1.000000\nse.exec_start : -1.0\n";
        let (metrics, negative_times) = metrics(&[(SourceFile::Sched, sched)]);
        assert_eq!((metrics.wait_max, metrics.wait_sum), (None, None));
        assert_eq!(metrics.exec_max, Some(1_000_000.into()));
        assert_eq!(negative_times, 2);
    }

    #[test]
    fn voluntary_sleep_is_sleep_less_blocking_and_needs_both() {
        let sleep = |sched: &[u8]| metrics(&[(SourceFile::Sched, sched)]).0.voluntary_sleep_ns;
        let both = b"sum_sleep_runtime : 50.751655\nsum_block_runtime : 4.867026\n";
        assert_eq!(sleep(both), Some(45_884_629.into()));
        // Linux 5.10 prints the sleep sum only.
        assert_eq!(sleep(b"se.statistics.sum_sleep_runtime : 39.630148\n"), None);
        assert_eq!(sleep(b"sum_sleep_runtime : 1.0\nsum_block_runtime : 2.0\n"), Some(0.into()));
    }

    #[test]
    fn io_is_read_whole_or_not_at_all() {
        let whole: &[u8] =
            b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
        assert_eq!(metrics(&[(SourceFile::Io, whole)]).0.cancelled_write_bytes, Some(7.into()));
        assert_eq!(metrics(&[(SourceFile::Io, &whole[..30])]).0.rchar, None);
    }

    #[test]
    fn policies_have_the_kernels_names() {
        let policy_name = |number: &str| {
            let stat = format!("7 (x) S{} {number} 0", " 0".repeat(37));
            metrics(&[(SourceFile::Stat, stat.as_bytes())]).0.policy.unwrap().0
        };
        // include/uapi/linux/sched.h, Linux 6.12.
        let names = ["SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "SCHED_UNKNOWN(4)", "SCHED_IDLE"];
        let names = names.into_iter().chain(["SCHED_DEADLINE", "SCHED_EXT", "SCHED_UNKNOWN(8)"]);
        for (number, name) in names.enumerate() {
            assert_eq!(policy_name(&number.to_string()), name);
        }
    }

    #[test]
    fn fields_that_a_newer_kernel_adds_to_stat_are_ignored() {
        let stat = |fields: usize| {
            let text = format!("7 (x) S{}", " 3".repeat(fields - 3));
            let mut metrics = Metrics::default();
            let (_, stat) = Parsers::new().stat(text.as_bytes(), &mut metrics);
            (metrics, stat.start, stat.rss_pages)
        };
        assert_eq!(stat(52).1, Some(3));
        for more in 53..70 {
            assert_eq!(stat(more), stat(52));
        }
    }

    #[test]
    fn columns_of_schedstat_after_those_that_are_known_are_ignored() {
        let times = |text: &[u8]| {
            let metrics = metrics(&[(SourceFile::Schedstat, text)]).0;
            (metrics.run_time_ns, metrics.wait_time_ns, metrics.timeslices)
        };
        let times_ns = (Some(11.into()), Some(22.into()), Some(33.into()));
        assert_eq!([times(b"11 22 33\n"), times(b"11 22 33 44\n")], [times_ns; 2]);
        assert_eq!(times(b"11 x 33\n"), (times_ns.0, None, times_ns.2));
        assert_eq!(times(b"11"), (times_ns.0, None, None));
    }
}
