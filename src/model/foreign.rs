//! Snapshots that ktstr wrote: there every field is present and a missing reading is 0.

use super::{CtprofSnapshot, METRICS, Metric, Source, TaskstatsFamily, ThreadState, Value};

/// What a ktstr file says of one thread's readings; all true where it says nothing.
#[derive(Default)]
pub(super) struct Flags([Option<bool>; Flags::NAMES.len()]);

impl Flags {
    pub(super) const NAMES: [&str; 5] =
        ["taskstats_measured", "cpu_delay_active", "delay_block_active", "xacct_active", "jemalloc_measured"];

    pub(super) fn set(&mut self, flag: usize, value: Option<bool>) {
        self.0[flag] = value;
    }

    /// Clears the families of metrics that the flags call unmeasured.
    pub(super) fn apply(&self, thread: &mut ThreadState) {
        if self.0.iter().all(Option::is_none) {
            return;
        }
        let [taskstats, cpu, block, xacct, jemalloc] = self.0.map(|flag| flag.unwrap_or(true));
        for metric in METRICS {
            let measured = match metric.taskstats_family() {
                None => jemalloc || !matches!(metric.source, Source::Tsd(_)),
                Some(TaskstatsFamily::Cpu) => taskstats && cpu,
                Some(TaskstatsFamily::Delay) => taskstats && block,
                Some(TaskstatsFamily::Watermark) => taskstats && xacct,
            };
            if !measured || (zero_is_impossible(metric) && is_zero(metric, thread)) {
                metric.clear(&mut thread.metrics);
            }
        }
        thread.smaps_rollup_kib.take_if(|map| map.is_empty());
    }
}

/// Where the kernel has no 0 to give: no process has no threads, no slice and no mapped memory is
/// empty, so the 0 stands for "not read".
fn zero_is_impossible(metric: &Metric) -> bool {
    let gauge = matches!(metric.source, Source::StatusOfLeader(_)) || metric.name == "fair_slice_ns";
    gauge || metric.name.starts_with("hiwater_")
}

fn is_zero(metric: &Metric, thread: &ThreadState) -> bool {
    matches!(metric.get(&thread.metrics), Some(Value::Unsigned(0) | Value::Flag(false)))
}

/// Clears every family behind a kernel option that is 0 in all threads of the file: the kernel
/// that it comes from had the option off.
pub(super) fn clear_families_off(snapshot: &mut CtprofSnapshot) {
    let families: [&[&str]; 3] = [&["SCHEDSTATS"], &["SCHEDSTATS", "SCHED_CORE"], &["TASK_IO_ACCOUNTING"]];
    for gates in families {
        let family = || METRICS.iter().filter(|metric| metric.gates == gates);
        if snapshot.threads.iter().all(|thread| family().all(|metric| is_zero(metric, thread))) {
            for thread in &mut snapshot.threads {
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
        let mut snapshot =
            CtprofSnapshot { threads: vec![thread(&zeros), thread(&zeros)], ..CtprofSnapshot::default() };
        let mut lively = snapshot.clone();
        lively.threads[1].metrics.wait_max = Some(5.into());

        clear_families_off(&mut snapshot);
        assert_eq!(snapshot.threads[0].metrics.nr_wakeups, None);
        clear_families_off(&mut lively);
        assert_eq!(lively.threads[0].metrics.nr_wakeups, Some(0.into()));
    }
}
