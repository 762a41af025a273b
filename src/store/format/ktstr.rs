//! Snapshots written by ktstr: every field is present, and a missing value is 0.

use std::collections::BTreeSet;

use crate::model::sorted::CollectSorted;
use crate::model::{Class, METRICS, Metric, Source, TaskstatsFamily, ThreadState, Value};

/// The flags of a thread in a ktstr file; true if absent.
#[derive(Default)]
pub(super) struct MeasuredFlags(pub(super) [Option<bool>; MeasuredFlags::NAMES.len()]);

impl MeasuredFlags {
    pub(super) const NAMES: [&str; 5] =
        ["taskstats_measured", "cpu_delay_active", "delay_block_active", "xacct_active", "jemalloc_measured"];

    /// Clears the families of metrics that were not measured, according to the flags.
    pub(super) fn apply(&self, thread: &mut ThreadState) {
        if self.0.iter().all(Option::is_none) {
            return;
        }
        let [taskstats, cpu, block, xacct, jemalloc] = self.0.map(|flag| flag.unwrap_or(true));
        for metric in METRICS {
            let measured = match metric.taskstats_family() {
                None => jemalloc || !matches!(metric.sources.procfs, [Source::Tsd(_)]),
                Some(TaskstatsFamily::Cpu) => taskstats && cpu,
                Some(TaskstatsFamily::Delay | TaskstatsFamily::Irq) => taskstats && block,
                Some(TaskstatsFamily::Watermark) => taskstats && xacct,
            };
            if !measured || (is_never_zero(metric) && is_zero(metric, thread)) {
                metric.clear(&mut thread.metrics);
            }
        }
        thread.smaps_rollup_kib.take_if(|map| map.is_empty());
    }
}

/// Whether a 0 in the file can only mean an absent value: every process has threads and mapped memory,
/// and values that the kernel prints for fair policies only are 0 for other threads.
fn is_never_zero(metric: &Metric) -> bool {
    let watermark = metric.taskstats_family() == Some(TaskstatsFamily::Watermark);
    watermark || metric.is_leader_only() || metric.class == Some(Class::FairPolicy)
}

fn is_zero(metric: &Metric, thread: &ThreadState) -> bool {
    matches!(metric.get(&thread.metrics), Some(Value::Unsigned(0)))
}

/// Clears what is 0 in all threads of the file because the kernel does not have it.
pub(super) fn clear_unsupported(threads: &mut [ThreadState]) {
    clear_families_off(threads);
    clear_newer_delays(threads);
}

/// The version of `struct taskstats` in Linux 5.10.
const OLDEST_TASKSTATS: u16 = 10;

/// Clears fields of `struct taskstats` that are newer than all fields with a value. Those of the oldest kernels stay 0.
fn clear_newer_delays(threads: &mut [ThreadState]) {
    let is_used = |metric: &Metric| {
        threads.iter().any(|thread| !is_zero(metric, thread) && metric.get(&thread.metrics).is_some())
    };
    let used = METRICS.iter().filter(|metric| metric.taskstats_since() > Some(OLDEST_TASKSTATS) && is_used(metric));
    let version = used.filter_map(Metric::taskstats_since).max().unwrap_or(OLDEST_TASKSTATS);
    for metric in METRICS.iter().filter(|metric| metric.taskstats_since() > Some(version)) {
        threads.iter_mut().for_each(|thread| metric.clear(&mut thread.metrics));
    }
}

/// Clears every family of a kernel option that is 0 in all threads, because the kernel had the option disabled. Families with
/// a flag of their own are not affected.
fn clear_families_off(threads: &mut [ThreadState]) {
    let gated = METRICS.iter().filter(|metric| !metric.gates.is_empty() && metric.taskstats_family().is_none());
    let families: BTreeSet<_> = gated.map(|metric| metric.gates).into_set();
    for gates in families {
        let family = || METRICS.iter().filter(|metric| metric.gates == gates);
        if threads.iter().all(|thread| family().all(|metric| is_zero(metric, thread))) {
            for thread in &mut *threads {
                family().for_each(|metric| metric.clear(&mut thread.metrics));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(fields: &str) -> ThreadState {
        serde_json::from_str(&format!(r#"{{"tid":2,"tgid":1,{fields}}}"#)).unwrap()
    }

    #[test]
    fn flags_turn_unmeasured_families_into_absence() {
        let readings = r#""cpu_delay_count":0,"irq_delay_count":0,"hiwater_rss_bytes":9,"allocated_bytes":0"#;
        let all = thread(&format!(r#"{readings},"taskstats_measured":true,"jemalloc_measured":true"#)).metrics;
        assert_eq!((all.cpu_delay_count, all.irq_delay_count), (Some(0.into()), Some(0.into())));
        assert_eq!((all.hiwater_rss_bytes, all.allocated_bytes), (Some(9.into()), Some(0.into())));

        let none = thread(&format!(r#"{readings},"taskstats_measured":false,"jemalloc_measured":false"#)).metrics;
        assert_eq!((none.cpu_delay_count, none.irq_delay_count), (None, None));
        assert_eq!((none.hiwater_rss_bytes, none.allocated_bytes), (None, None));

        let off = thread(&format!(r#"{readings},"taskstats_measured":true,"delay_block_active":false"#)).metrics;
        assert_eq!((off.cpu_delay_count, off.irq_delay_count), (Some(0.into()), None));
        let no_xacct = thread(&format!(r#"{readings},"taskstats_measured":true,"xacct_active":false"#)).metrics;
        assert_eq!((no_xacct.irq_delay_count, no_xacct.hiwater_rss_bytes), (Some(0.into()), None));
    }

    #[test]
    fn impossible_zeros_and_empty_maps_are_absent() {
        let t = thread(r#""nr_threads":0,"fair_slice_ns":0,"minflt":0,"smaps_rollup_kib":{},"jemalloc_measured":true"#);
        assert_eq!((t.metrics.nr_threads, t.metrics.fair_slice_ns), (None, None));
        assert_eq!((t.metrics.minflt, t.smaps_rollup_kib), (Some(0.into()), None));
    }

    #[test]
    fn a_family_that_is_zero_everywhere_is_absent_everywhere() {
        let gated = METRICS.iter().filter(|m| m.gates == ["SCHEDSTATS"]);
        let zeros = gated.map(|m| format!(r#""{}":0"#, m.name)).collect::<Vec<_>>().join(",");
        let mut off = vec![thread(&zeros), thread(&zeros)];
        let mut on = off.clone();
        on[1].metrics.wait_max = Some(5.into());

        clear_families_off(&mut off);
        assert_eq!(off[0].metrics.nr_wakeups, None);
        clear_families_off(&mut on);
        assert_eq!(on[0].metrics.nr_wakeups, Some(0.into()));
    }

    #[test]
    fn delays_are_zero_if_the_kernel_has_them_and_absent_if_it_is_older() {
        // `struct taskstats` has compaction since version 11, interrupts since 14, maxima since 16.
        let delays = |compact, irq, max: Option<u64>| {
            let json = serde_json::json!({"tid": 2, "tgid": 1, "blkio_delay_count": 0, "compact_delay_count": compact,
                "irq_delay_count": irq, "cpu_delay_max_ns": max, "taskstats_measured": true});
            let mut threads = [serde_json::from_value::<ThreadState>(json).unwrap()];
            clear_unsupported(&mut threads);
            let metrics = &threads[0].metrics;
            let counts = [metrics.blkio_delay_count, metrics.compact_delay_count, metrics.irq_delay_count];
            counts.map(|count| count.map(u64::from))
        };
        assert_eq!(delays(0, 0, Some(0)), [Some(0), None, None]);
        assert_eq!(delays(3, 0, Some(0)), [Some(0), Some(3), None]);
        assert_eq!(delays(0, 7, Some(0)), [Some(0), Some(0), Some(7)]);
        assert_eq!(delays(0, 0, Some(9)), [Some(0), Some(0), Some(0)]);
    }
}
