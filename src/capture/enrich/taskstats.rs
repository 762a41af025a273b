//! Delay accounting and memory high-water marks from the kernel's `struct taskstats`.

use nix::errno::Errno;

use super::super::tally::stored;
use crate::model::{
    Built, HostContext, METRICS, Metric, Metrics, Source, Switch, TaskstatsFamily, TaskstatsSummary, ThreadState, Value,
};
pub(in crate::capture) use crate::sys::taskstats::AT_ONCE;
use crate::sys::taskstats::Taskstats;

/// The families of fields that the kernel counts.
#[derive(Clone, Copy, Debug)]
pub(in crate::capture) struct Kept {
    delay: bool,
    watermarks: bool,
}

impl Kept {
    /// Disabled families are zero in the struct. Unknown counts as enabled.
    pub(in crate::capture) fn by(host: &HostContext) -> Self {
        let off = matches!(host.task_delayacct, Some(Switch::RuntimeOff | Switch::ConfigOff));
        Self { delay: !off, watermarks: host.config_task_xacct != Some(Built::Off) }
    }

    fn covers(self, family: TaskstatsFamily, threads: Threads) -> bool {
        match family {
            TaskstatsFamily::Delay => self.delay,
            TaskstatsFamily::Watermark => self.watermarks && threads == Threads::User,
            _ => true,
        }
    }
}

/// Whether the thread of a struct has user memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    /// It has user memory.
    User,
    /// It is a kernel thread.
    Kernel,
}

/// The socket of one worker, and counts of the answers.
pub(in crate::capture) struct Client {
    socket: Option<Taskstats>,
    kept: Kept,
    summary: TaskstatsSummary,
}

impl Client {
    pub(in crate::capture) fn open(kept: Kept) -> Self {
        let mut summary = TaskstatsSummary::default();
        let socket = Taskstats::open().map_err(|errno| summary.open_error = Some(stored(errno))).ok();
        Self { socket, kept, summary }
    }

    pub(in crate::capture) fn summary(self) -> TaskstatsSummary {
        self.summary
    }

    /// Queries `threads`, at most [`AT_ONCE`], and stores the fields of the answers.
    pub(in crate::capture) fn read(&mut self, threads: &mut [ThreadState]) {
        let Self { socket: Some(socket), kept, summary } = self else { return };
        // EPERM depends on ctprof's privileges, not on the thread: one is enough.
        if summary.eperm_count > 0 {
            summary.eperm_count += u64::try_from(threads.len()).unwrap_or(u64::MAX);
            return;
        }
        let tids: Vec<u32> = threads.iter().map(|thread| thread.tid).collect();
        socket.ask(&tids, |place, answer| match answer {
            Ok(stats) => {
                summary.ok_count += 1;
                summary.struct_version = version(stats);
                summary.struct_bytes = u64::try_from(stats.len()).ok();
                let thread = &mut threads[place];
                let kind = if thread.kernel_thread { Threads::Kernel } else { Threads::User };
                fill(stats, *kept, kind, &mut thread.metrics);
            }
            Err(Errno::EPERM) => summary.eperm_count += 1,
            Err(Errno::ESRCH) => summary.esrch_count += 1,
            Err(errno) => {
                let ThreadState { tgid, tid, comm, .. } = &threads[place];
                tracing::debug!(pid = tgid, tid, thread = ?comm, ?errno, "no answer from taskstats");
                summary.other_err_count += 1;
            }
        });
    }
}

/// Adds the counts of two workers.
pub(in crate::capture) fn merge(a: TaskstatsSummary, b: TaskstatsSummary) -> TaskstatsSummary {
    TaskstatsSummary {
        ok_count: a.ok_count + b.ok_count,
        eperm_count: a.eperm_count + b.eperm_count,
        esrch_count: a.esrch_count + b.esrch_count,
        other_err_count: a.other_err_count + b.other_err_count,
        struct_version: a.struct_version.or(b.struct_version),
        struct_bytes: a.struct_bytes.or(b.struct_bytes),
        open_error: a.open_error.or(b.open_error),
    }
}

/// The order of the struct's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldOrder {
    /// New fields at the end: every version but the next, and future ones.
    Appended,
    /// Version 15 (Linux 6.14) put maxima and minima beside their totals. Some kernels of that time
    /// report version 14.
    Beside,
}

/// Size of the struct in version 15; version 14 proper has 432 bytes.
const BESIDE_BYTES: usize = 560;

/// Reads fields from any bytes.
#[cfg(fuzzing)]
pub(in crate::capture) fn fuzz(stats: &[u8]) {
    fill(stats, Kept { delay: true, watermarks: true }, Threads::User, &mut Metrics::default());
}

fn version(stats: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(stats.get(..2)?.try_into().ok()?))
}

/// Stores every field of the struct.
fn fill(stats: &[u8], kept: Kept, threads: Threads, metrics: &mut Metrics) {
    let Some(version) = version(stats) else { return };
    let order = match version {
        14 | 15 if stats.len() == BESIDE_BYTES => FieldOrder::Beside,
        _ => FieldOrder::Appended,
    };
    for metric in METRICS {
        let Some(family) = metric.taskstats_family().filter(|family| kept.covers(*family, threads)) else { continue };
        // An exiting process has freed its memory and reset its high-water marks.
        let number = field(stats, version, order, metric).filter(|n| *n > 0 || family != TaskstatsFamily::Watermark);
        if let Some(number) = number {
            // A number that the metric cannot hold is absent.
            let _ = metric.set(metrics, Value::Unsigned(number));
        }
    }
}

fn field(stats: &[u8], version: u16, order: FieldOrder, metric: &Metric) -> Option<u64> {
    let [Source::Taskstats { at, since, scale, .. }] = *metric.sources.procfs else { return None };
    let at = match order {
        FieldOrder::Appended => (since <= version).then_some(at)?,
        FieldOrder::Beside => beside(at)?,
    };
    let at = usize::from(at);
    let bytes = stats.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_ne_bytes(bytes).saturating_mul(scale.into()))
}

/// Offset in version 15 of the field that is at `at` in version 16. There, the four fields of a category
/// are adjacent.
fn beside(at: u16) -> Option<u16> {
    // Offsets of a category's count and maximum in version 16, and of its count in version 15.
    const CATEGORIES: [[u16; 3]; 8] = [
        [16, 432, 16],
        [32, 448, 48],
        [48, 464, 80],
        [312, 480, 360],
        [328, 496, 392],
        [352, 512, 432],
        [400, 528, 496],
        [416, 544, 528],
    ];
    // Offsets of the high-water marks in version 16; in version 15 they are 48 bytes later.
    const WATERMARKS: std::ops::RangeInclusive<u16> = 200..=208;
    if WATERMARKS.contains(&at) {
        return Some(at + 48);
    }
    CATEGORIES.into_iter().find_map(|[count, max, to]| match at {
        _ if at == count || at == count + 8 => Some(to + (at - count)),
        _ if at == max || at == max + 8 => Some(to + 16 + (at - max)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Kept = Kept { delay: true, watermarks: true };

    /// A struct of that version and length in which the u64 at offset n is n + 1.
    fn numbered(version: u16, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length / 8).flat_map(|word| (word as u64 * 8 + 1).to_ne_bytes()).collect();
        bytes[..2].copy_from_slice(&version.to_ne_bytes());
        bytes
    }

    fn filled(version: u16, length: usize) -> Metrics {
        let mut metrics = Metrics::default();
        fill(&numbered(version, length), ALL, Threads::User, &mut metrics);
        metrics
    }

    fn number(metrics: &Metrics, name: &str) -> Option<u64> {
        let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
        metric.get(metrics).map(|value| u64::try_from(value).unwrap())
    }

    fn present(metrics: &Metrics) -> usize {
        METRICS.iter().filter(|metric| metric.get(metrics).is_some()).count()
    }

    #[test]
    fn every_version_has_its_fields_and_no_others() {
        // Counts and totals of the categories it has, and the two high-water marks.
        for (version, length, fields) in [
            (8, 328, 2 * 4 + 2),
            (9, 344, 2 * 5 + 2),
            (10, 352, 2 * 5 + 2),
            (11, 368, 2 * 6 + 2),
            (12, 400, 2 * 6 + 2),
            (13, 416, 2 * 7 + 2),
            (14, 432, 2 * 8 + 2),
            (15, 560, 4 * 8 + 2),
            (16, 560, 4 * 8 + 2),
            (17, 688, 4 * 8 + 2),
            (99, 4000, 4 * 8 + 2),
        ] {
            assert_eq!(present(&filled(version, length)), fields, "version {version}");
        }
    }

    #[test]
    fn fields_are_where_the_header_puts_them() {
        let v16 = filled(16, 560);
        for (name, at) in [
            ("cpu_delay_count", 16),
            ("blkio_delay_total_ns", 40),
            ("freepages_delay_count", 312),
            ("irq_delay_total_ns", 424),
            ("cpu_delay_max_ns", 432),
            ("irq_delay_min_ns", 552),
        ] {
            assert_eq!(number(&v16, name), Some(at + 1), "{name}");
        }
        assert_eq!(number(&v16, "hiwater_rss_bytes"), Some(201 * 1024));
    }

    #[test]
    fn version_15_has_maxima_and_minima_beside_the_totals() {
        for version in [14, 15] {
            let metrics = filled(version, 560);
            for (name, at) in [
                ("cpu_delay_count", 16),
                ("cpu_delay_max_ns", 32),
                ("cpu_delay_min_ns", 40),
                ("blkio_delay_count", 48),
                ("swapin_delay_total_ns", 88),
                ("freepages_delay_max_ns", 376),
                ("thrashing_delay_min_ns", 416),
                ("compact_delay_count", 432),
                ("wpcopy_delay_min_ns", 520),
                ("irq_delay_max_ns", 544),
            ] {
                assert_eq!(number(&metrics, name), Some(at + 1), "{name} of version {version}");
            }
            assert_eq!(number(&metrics, "hiwater_vm_bytes"), Some(257 * 1024));
        }
    }

    #[test]
    fn a_truncated_struct_has_the_fields_that_are_left() {
        assert_eq!(number(&filled(16, 440), "cpu_delay_max_ns"), Some(433));
        assert_eq!(number(&filled(16, 440), "cpu_delay_min_ns"), None);
        assert_eq!(present(&filled(16, 8)), 0);
        fill(&[1], ALL, Threads::User, &mut Metrics::default());
    }

    #[test]
    fn a_family_that_the_kernel_does_not_keep_is_absent_not_zero() {
        let with = |kept, threads| {
            let mut metrics = Metrics::default();
            fill(&[16, 0].into_iter().chain([0; 558]).collect::<Vec<u8>>(), kept, threads, &mut metrics);
            (metrics.cpu_delay_count, metrics.blkio_delay_count, metrics.hiwater_rss_bytes, metrics.cpu_delay_min_ns)
        };
        let zero = Some(0.into());
        assert_eq!(with(ALL, Threads::User), (zero, zero, None, None));
        assert_eq!(with(ALL, Threads::Kernel), (zero, zero, None, None));
        let off = Kept { delay: false, watermarks: false };
        assert_eq!(with(off, Threads::User), (zero, None, None, None));
    }

    #[test]
    fn an_exiting_process_has_no_marks_rather_than_marks_of_zero() {
        let mut stats = numbered(16, 560);
        stats[200..216].fill(0);
        let mut metrics = Metrics::default();
        fill(&stats, ALL, Threads::User, &mut metrics);
        assert_eq!((metrics.hiwater_rss_bytes, metrics.hiwater_vm_bytes), (None, None));
    }

    #[test]
    fn watermarks_saturate() {
        let mut stats = numbered(16, 560);
        stats[200..208].fill(0xff);
        let mut metrics = Metrics::default();
        fill(&stats, ALL, Threads::User, &mut metrics);
        assert_eq!(number(&metrics, "hiwater_rss_bytes"), Some(u64::MAX));
    }
}
