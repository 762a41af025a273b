//! Fields of `struct taskstats`, by the version and the length that the kernel gives.

use crate::model::{
    Built, HostContext, METRICS, MetricId, Switch, TaskstatsFamily, TaskstatsField, ThreadState, Value,
};

/// The families of fields that the kernel counts. Families that it does not count are zero in the struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedFamilies {
    /// Delay accounting as a whole. If unknown, each thread proves it by its number of waits for a CPU.
    built: Built,
    /// Delays of I/O and memory.
    delay: bool,
    irq: bool,
    watermarks: bool,
}

impl CountedFamilies {
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) const ALL: Self = Self { built: Built::On, delay: true, irq: true, watermarks: true };

    pub(crate) fn from_host(host: &HostContext) -> Self {
        let built = match host.task_delayacct {
            Some(Switch::On | Switch::RuntimeOff) => Built::On,
            Some(Switch::ConfigOff) => Built::Off,
            Some(Switch::Unknown) | None => Built::Unknown,
        };
        Self {
            built,
            delay: host.measures_delays(),
            irq: host.measures_irq_delays(),
            watermarks: host.config_task_xacct != Some(Built::Off),
        }
    }

    /// Whether the kernel counts a family for the thread with this struct. Kernel threads have no memory.
    fn covers(self, family: TaskstatsFamily, stats: &[u8], thread: &ThreadState) -> bool {
        let is_built = match self.built {
            Built::On => true,
            Built::Off => false,
            Built::Unknown => {
                let waits = MetricId::cpu_delay_count.metric().taskstats().and_then(|field| value(stats, field));
                matches!(waits, Some(Value::Unsigned(1..)))
            }
        };
        match family {
            TaskstatsFamily::Cpu => is_built,
            TaskstatsFamily::Delay => is_built && self.delay,
            TaskstatsFamily::Irq => is_built && self.irq,
            TaskstatsFamily::Watermark => self.watermarks && !thread.kernel_thread,
        }
    }
}

/// Size of the struct in version 15 (Linux 6.14), which has maxima and minima beside their totals. All other
/// versions append new fields. Some kernels of that time report version 14, which has 432 bytes otherwise.
const BESIDE_BYTES: usize = 560;

/// Reads fields from any bytes.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(stats: &[u8]) {
    fill(stats, CountedFamilies::ALL, &mut ThreadState::default());
}

pub(crate) fn version(stats: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(stats.get(..2)?.try_into().ok()?))
}

/// Stores the values of the metrics that are read from the struct.
pub(crate) fn fill(stats: &[u8], counted: CountedFamilies, thread: &mut ThreadState) {
    for metric in METRICS {
        let Some(field) = metric.taskstats().filter(|field| counted.covers(field.family, stats, thread)) else {
            continue;
        };
        if let Some(value) = value(stats, field) {
            // A number that the metric cannot hold is absent.
            let _ = metric.set(&mut thread.metrics, value);
        }
    }
}

/// The value of a field in the unit of its metric.
fn value(stats: &[u8], field: TaskstatsField) -> Option<Value<'static>> {
    let at = usize::from(offset(stats, field)?);
    let number = u64::from_ne_bytes(stats.get(at..at + 8)?.try_into().ok()?);
    match field.family {
        TaskstatsFamily::Cpu | TaskstatsFamily::Delay | TaskstatsFamily::Irq => Some(Value::Unsigned(number)),
        // An exiting process has freed its memory and reset its high-water marks.
        TaskstatsFamily::Watermark => (number > 0).then_some(Value::Unsigned(number.saturating_mul(1024))),
    }
}

/// The offset of a field in the kernel's struct, which may be shorter; `None` if the struct lacks it.
fn offset(stats: &[u8], TaskstatsField { at, since, .. }: TaskstatsField) -> Option<u16> {
    match version(stats)? {
        14 | 15 if stats.len() == BESIDE_BYTES => beside(at),
        version => (since <= version).then_some(at),
    }
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
    let in_category = CATEGORIES.into_iter().find_map(|[count, max, to]| match at {
        _ if at == count || at == count + 8 => Some(to + (at - count)),
        _ if at == max || at == max + 8 => Some(to + 16 + (at - max)),
        _ => None,
    });
    // The other fields are later by 16 bytes for each category before them.
    in_category.or(match at {
        ..16 => Some(at),
        64..312 => Some(at + 3 * 16),
        368..400 => Some(at + 6 * 16),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Metrics;

    /// A struct of that version and length in which the u64 at offset n is n + 1.
    fn numbered(version: u16, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length / 8).flat_map(|word| (word as u64 * 8 + 1).to_ne_bytes()).collect();
        bytes[..2].copy_from_slice(&version.to_ne_bytes());
        bytes
    }

    fn filled_from(stats: &[u8], counted: CountedFamilies, kernel_thread: bool) -> Box<Metrics> {
        let mut thread = ThreadState { kernel_thread, ..ThreadState::default() };
        fill(stats, counted, &mut thread);
        thread.metrics
    }

    fn filled(version: u16, length: usize) -> Box<Metrics> {
        filled_from(&numbered(version, length), CountedFamilies::ALL, false)
    }

    fn stored(metrics: &Metrics, name: &str) -> Option<u64> {
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
            assert_eq!(stored(&v16, name), Some(at + 1), "{name}");
        }
        assert_eq!(stored(&v16, "hiwater_rss_bytes"), Some(201 * 1024));
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
                assert_eq!(stored(&metrics, name), Some(at + 1), "{name} of version {version}");
            }
            assert_eq!(stored(&metrics, "hiwater_vm_bytes"), Some(257 * 1024));
        }
    }

    #[test]
    fn a_truncated_struct_has_the_fields_that_are_left() {
        assert_eq!(stored(&filled(16, 440), "cpu_delay_max_ns"), Some(433));
        assert_eq!(stored(&filled(16, 440), "cpu_delay_min_ns"), None);
        assert_eq!(present(&filled(16, 8)), 0);
        filled_from(&[1], CountedFamilies::ALL, false);
    }

    #[test]
    fn a_family_that_the_kernel_does_not_keep_is_absent_not_zero() {
        let with = |counted, kernel_thread| {
            let zeros: Vec<u8> = [16, 0].into_iter().chain([0; 558]).collect();
            let metrics = filled_from(&zeros, counted, kernel_thread);
            let counts = [metrics.cpu_delay_count, metrics.blkio_delay_count, metrics.irq_delay_count];
            (counts, metrics.hiwater_rss_bytes, metrics.cpu_delay_min_ns)
        };
        let zero = Some(0.into());
        assert_eq!(with(CountedFamilies::ALL, false), ([zero; 3], None, None));
        assert_eq!(with(CountedFamilies::ALL, true), ([zero; 3], None, None));
        let off = CountedFamilies { delay: false, irq: false, watermarks: false, ..CountedFamilies::ALL };
        assert_eq!(with(off, false), ([zero, None, None], None, None));
    }

    #[test]
    fn delays_by_interrupts_count_where_the_kernel_measures_interrupts_and_delays() {
        let counts = |task_delayacct, config_irq_time_accounting| {
            let host = HostContext { task_delayacct, config_irq_time_accounting, ..HostContext::default() };
            CountedFamilies::from_host(&host).irq
        };
        assert!(counts(Some(Switch::On), Some(Built::On)));
        for unknown in [Some(Built::Off), Some(Built::Unknown), None] {
            assert!(!counts(Some(Switch::On), unknown), "{unknown:?}");
        }
        assert!(!counts(Some(Switch::RuntimeOff), Some(Built::On)));
    }

    #[test]
    fn an_exiting_process_has_no_marks_rather_than_marks_of_zero() {
        let mut stats = numbered(16, 560);
        stats[200..216].fill(0);
        let metrics = filled_from(&stats, CountedFamilies::ALL, false);
        assert_eq!((metrics.hiwater_rss_bytes, metrics.hiwater_vm_bytes), (None, None));
    }

    #[test]
    fn watermarks_saturate() {
        let mut stats = numbered(16, 560);
        stats[200..208].fill(0xff);
        let metrics = filled_from(&stats, CountedFamilies::ALL, false);
        assert_eq!(stored(&metrics, "hiwater_rss_bytes"), Some(u64::MAX - 1));
    }

    #[test]
    fn delays_that_are_not_proved_to_be_measured_are_unknown_and_not_zero() {
        let on = |release: Option<&str>, task_delayacct, cmdline: Option<&str>| HostContext {
            task_delayacct,
            kernel_release: release.map(str::to_owned),
            kernel_cmdline: cmdline.map(str::to_owned),
            ..HostContext::default()
        };
        // The thread has waited for a CPU, but for nothing else.
        let mut waited = vec![0; 560];
        (waited[0], waited[16]) = (16, 9);
        let never_ran = [&[16], &[0; 559][..]].concat();
        let has = |host: &HostContext, stats: &[u8]| {
            let metrics = filled_from(stats, CountedFamilies::from_host(host), false);
            (metrics.cpu_delay_total_ns.is_some(), metrics.blkio_delay_total_ns.is_some())
        };
        let (release, unknown) = (Some("6.12"), Some(Switch::Unknown));
        for (host, expected) in [
            (on(release, Some(Switch::On), None), (true, true)),
            (on(release, Some(Switch::RuntimeOff), None), (true, false)),
            (on(release, Some(Switch::ConfigOff), None), (false, false)),
            (on(release, unknown, Some("quiet")), (true, false)),
            (on(release, None, Some("quiet")), (true, false)),
            (on(None, unknown, Some("quiet")), (true, false)),
            (on(Some("5.10"), unknown, Some("quiet")), (true, true)),
            (on(Some("5.10"), unknown, None), (true, false)),
        ] {
            assert_eq!(has(&host, &waited), expected, "{host:?}");
        }
        assert_eq!(has(&on(release, Some(Switch::On), None), &never_ran), (true, true));
        assert_eq!(has(&on(Some("5.10"), unknown, Some("quiet")), &never_ran), (false, false));
    }

    #[test]
    fn peaks_of_memory_are_those_that_the_kernel_keeps_and_kernel_threads_have_none() {
        let watermarks = |config_task_xacct| {
            CountedFamilies::from_host(&HostContext { config_task_xacct, ..HostContext::default() }).watermarks
        };
        assert_eq!([None, Some(Built::Unknown), Some(Built::Off)].map(watermarks), [true, true, false]);
        let peak = |counted, kernel_thread| {
            filled_from(&numbered(16, 560), counted, kernel_thread).hiwater_rss_bytes.is_some()
        };
        assert!(peak(CountedFamilies::ALL, false) && !peak(CountedFamilies::ALL, true));
        assert!(!peak(CountedFamilies { watermarks: false, ..CountedFamilies::ALL }, false));
    }
}
