//! Which metrics a snapshot has readings of at all.

use std::collections::BTreeMap;

use super::{CtprofSnapshot, METRICS, Metric, TaskstatsFamily};

/// The metrics that any thread of a snapshot has a reading of.
pub(crate) struct Present(Vec<&'static Metric>);

impl Present {
    pub(crate) fn of(snapshot: &CtprofSnapshot) -> Self {
        let mut absent: Vec<&'static Metric> = METRICS.iter().collect();
        let mut present = Vec::new();
        // Threads outside, metrics within: each thread is looked up in memory once.
        for thread in &snapshot.threads {
            present.extend(absent.extract_if(.., |metric| metric.get(&thread.metrics).is_some()));
        }
        Self(present)
    }

    /// Whether there is one of these.
    pub(crate) fn any(&self, which: impl Fn(&'static Metric) -> bool) -> bool {
        self.0.iter().any(|metric| which(metric))
    }

    /// Every source, and whether there is anything from it.
    pub(crate) fn sources(&self) -> BTreeMap<&'static str, bool> {
        let mut sources = BTreeMap::new();
        for metric in METRICS {
            let source = match metric.taskstats_family() {
                Some(TaskstatsFamily::Delay) => "delay accounting",
                _ if metric.gates.first() == Some(&"SCHEDSTATS") => "schedstats",
                _ => metric.source.file(),
            };
            *sources.entry(source).or_insert(false) |= self.any(|one| std::ptr::eq(one, metric));
        }
        sources
    }
}
