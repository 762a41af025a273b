//! Metrics derived from a group's totals. Any absent input, and a denominator of 0, gives absent.

use super::metrics::Totals;
use super::reduce::Cell;
use super::section::Section;
use super::unit::Unit;

/// What a formula has to know besides the totals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// Version of the kernel's `struct taskstats`, where it is known.
    pub taskstats_version: Option<u16>,
}

/// One derived metric.
pub struct Derived {
    /// Public name.
    pub name: &'static str,
    /// What it means, in a sentence.
    pub doc: &'static str,
    /// The formula, for people.
    pub formula: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Where it is reported.
    pub section: Section,
    value: fn(&Totals, Context) -> Option<Cell>,
}

impl std::fmt::Debug for Derived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Context {
    /// What a snapshot says.
    #[must_use]
    pub fn of(snapshot: &super::CtprofSnapshot) -> Self {
        let summary = snapshot.taskstats_summary.as_ref();
        Self { taskstats_version: summary.and_then(|summary| summary.struct_version) }
    }
}

impl Derived {
    /// TEMPORARY
    pub fn covered(&self, _: &Totals) -> u64 {
        0
    }

    /// TEMPORARY
    pub fn is_partial(&self, _: &Totals, _: u64) -> bool {
        false
    }

    /// The group's value, if all inputs are there.
    #[must_use]
    pub fn total(&self, totals: &Totals, context: Context) -> Option<Cell> {
        (self.value)(totals, context)
    }
}

fn ratio(part: Option<u64>, whole: Option<u64>) -> Option<Cell> {
    let (part, whole) = (part?, whole.filter(|whole| *whole > 0)?);
    Some(Cell::Ratio(part as f64 / whole as f64))
}

fn plus(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

fn average(total: Option<u64>, count: Option<u64>) -> Option<Cell> {
    let (total, count) = (total?, count.filter(|count| *count > 0)?);
    Some(Cell::Number(total / count))
}

/// Time off the CPU by taskstats. Every thrashing event is a swap-in event too, so the larger of the
/// two stands for both. What this kernel's struct does not have yet counts as none.
fn off_cpu(t: &Totals, context: Context) -> Option<Cell> {
    let since = |version: u16, total: Option<u64>| match context.taskstats_version {
        Some(known) if known < version => Some(0),
        _ => total,
    };
    let swap = t.swapin_delay_total_ns.sum()?.max(since(9, t.thrashing_delay_total_ns.sum())?);
    let parts = [
        t.cpu_delay_total_ns.sum(),
        t.blkio_delay_total_ns.sum(),
        t.freepages_delay_total_ns.sum(),
        since(11, t.compact_delay_total_ns.sum()),
        since(13, t.wpcopy_delay_total_ns.sum()),
        since(14, t.irq_delay_total_ns.sum()),
    ];
    parts.into_iter().try_fold(swap, |sum, part| plus(Some(sum), part)).map(Cell::Number)
}

/// Every derived metric, in the order of listings.
pub static DERIVED: &[Derived] = &[
    Derived {
        name: "affine_success_ratio",
        doc: "How often the cache-affine heuristic placed a wake-up when tried.",
        formula: "nr_wakeups_affine / nr_wakeups_affine_attempts",
        unit: Unit::Ratio,
        section: Section::Derived,
        value: |t, _| ratio(t.nr_wakeups_affine.sum(), t.nr_wakeups_affine_attempts.sum()),
    },
    Derived {
        name: "avg_wait_ns",
        doc: "Average run-queue wait.",
        formula: "wait_sum / wait_count",
        unit: Unit::Ns,
        section: Section::Derived,
        value: |t, _| average(t.wait_sum.sum(), t.wait_count.sum()),
    },
    Derived {
        name: "cpu_efficiency",
        doc: "Share of the time on a CPU in the time on or waiting for one.",
        formula: "run_time_ns / (run_time_ns + wait_time_ns)",
        unit: Unit::Ratio,
        section: Section::Derived,
        value: |t, _| ratio(t.run_time_ns.sum(), plus(t.run_time_ns.sum(), t.wait_time_ns.sum())),
    },
    Derived {
        name: "avg_slice_ns",
        doc: "Average time on a CPU at a stretch.",
        formula: "run_time_ns / timeslices",
        unit: Unit::Ns,
        section: Section::Derived,
        value: |t, _| average(t.run_time_ns.sum(), t.timeslices.sum()),
    },
    Derived {
        name: "involuntary_csw_ratio",
        doc: "Share of the switches that were forced.",
        formula: "nonvoluntary_csw / (nonvoluntary_csw + voluntary_csw)",
        unit: Unit::Ratio,
        section: Section::Derived,
        value: |t, _| ratio(t.nonvoluntary_csw.sum(), plus(t.nonvoluntary_csw.sum(), t.voluntary_csw.sum())),
    },
    Derived {
        name: "disk_io_fraction",
        doc: "Bytes fetched from storage for each byte asked for; read-ahead can pass 1.",
        formula: "read_bytes / rchar",
        unit: Unit::Ratio,
        section: Section::Derived,
        value: |t, _| ratio(t.read_bytes.sum(), t.rchar.sum()),
    },
    Derived {
        name: "live_heap_estimate",
        doc: "Bytes allocated and not yet freed by the group's threads.",
        formula: "allocated_bytes − deallocated_bytes",
        unit: Unit::Bytes,
        section: Section::Derived,
        value: |t, _| {
            let difference = i128::from(t.allocated_bytes.sum()?) - i128::from(t.deallocated_bytes.sum()?);
            Some(Cell::Signed(i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })))
        },
    },
    Derived {
        name: "avg_iowait_ns",
        doc: "Average I/O wait.",
        formula: "iowait_sum / iowait_count",
        unit: Unit::Ns,
        section: Section::Derived,
        value: |t, _| average(t.iowait_sum.sum(), t.iowait_count.sum()),
    },
    Derived {
        name: "avg_cpu_delay_ns",
        doc: "Average run-queue wait.",
        formula: "cpu_delay_total_ns / cpu_delay_count",
        unit: Unit::Ns,
        section: Section::TaskstatsDelay,
        value: |t, _| average(t.cpu_delay_total_ns.sum(), t.cpu_delay_count.sum()),
    },
    Derived {
        name: "avg_blkio_delay_ns",
        doc: "Average wait for block I/O.",
        formula: "blkio_delay_total_ns / blkio_delay_count",
        unit: Unit::Ns,
        section: Section::TaskstatsDelay,
        value: |t, _| average(t.blkio_delay_total_ns.sum(), t.blkio_delay_count.sum()),
    },
    Derived {
        name: "avg_swapin_delay_ns",
        doc: "Average wait for swap-in.",
        formula: "swapin_delay_total_ns / swapin_delay_count",
        unit: Unit::Ns,
        section: Section::TaskstatsDelay,
        value: |t, _| average(t.swapin_delay_total_ns.sum(), t.swapin_delay_count.sum()),
    },
    Derived {
        name: "avg_freepages_delay_ns",
        doc: "Average direct reclaim.",
        formula: "freepages_delay_total_ns / freepages_delay_count",
        unit: Unit::Ns,
        section: Section::TaskstatsDelay,
        value: |t, _| average(t.freepages_delay_total_ns.sum(), t.freepages_delay_count.sum()),
    },
    Derived {
        name: "avg_thrashing_delay_ns",
        doc: "Average wait for a page just evicted.",
        formula: "thrashing_delay_total_ns / thrashing_delay_count",
        unit: Unit::Ns,
        section: Section::TaskstatsDelay,
        value: |t, _| average(t.thrashing_delay_total_ns.sum(), t.thrashing_delay_count.sum()),
    },
    Derived {
        name: "avg_compact_delay_ns",
        doc: "Average memory compaction.",
        formula: "compact_delay_total_ns / compact_delay_count",
        unit: Unit::Ns,
        section: Section::TaskstatsDelay,
        value: |t, _| average(t.compact_delay_total_ns.sum(), t.compact_delay_count.sum()),
    },
    Derived {
        name: "avg_wpcopy_delay_ns",
        doc: "Average copy on write.",
        formula: "wpcopy_delay_total_ns / wpcopy_delay_count",
        unit: Unit::Ns,
        section: Section::TaskstatsDelay,
        value: |t, _| average(t.wpcopy_delay_total_ns.sum(), t.wpcopy_delay_count.sum()),
    },
    Derived {
        name: "avg_irq_delay_ns",
        doc: "Average interrupt.",
        formula: "irq_delay_total_ns / irq_delay_count",
        unit: Unit::Ns,
        section: Section::TaskstatsDelay,
        value: |t, _| average(t.irq_delay_total_ns.sum(), t.irq_delay_count.sum()),
    },
    Derived {
        name: "total_offcpu_delay_ns",
        doc: "Time lost to all that taskstats counts.",
        formula: "cpu + blkio + freepages + compact + wpcopy + irq + max(swapin, thrashing), totals",
        unit: Unit::Ns,
        section: Section::TaskstatsDelay,
        value: off_cpu,
    },
];

#[cfg(test)]
mod tests {
    use super::super::{Metrics, MonotonicNs};
    use super::*;

    fn of(name: &str, totals: &Totals, version: Option<u16>) -> Option<Cell> {
        let derived = DERIVED.iter().find(|derived| derived.name == name).unwrap();
        derived.total(totals, Context { taskstats_version: version })
    }

    fn totals(fill: impl FnOnce(&mut Metrics)) -> Totals {
        let (mut metrics, mut totals) = (Metrics::default(), Totals::default());
        fill(&mut metrics);
        totals.add(&metrics);
        totals
    }

    #[test]
    fn absent_inputs_and_zero_denominators_give_absent_and_never_a_zero() {
        let none = Totals::default();
        assert!(DERIVED.iter().all(|derived| derived.total(&none, Context::default()).is_none()));
        let zero = totals(|m| (m.wait_sum, m.wait_count) = (Some(0.into()), Some(0.into())));
        assert_eq!(of("avg_wait_ns", &zero, None), None);
        let some = totals(|m| (m.wait_sum, m.wait_count) = (Some(0.into()), Some(4.into())));
        assert_eq!(of("avg_wait_ns", &some, None), Some(Cell::Number(0)));
    }

    #[test]
    fn formulas_hold() {
        let t = totals(|m| {
            (m.run_time_ns, m.wait_time_ns, m.timeslices) = (Some(30.into()), Some(10.into()), Some(4.into()));
            (m.allocated_bytes, m.deallocated_bytes) = (Some(5.into()), Some(9.into()));
        });
        assert_eq!(of("cpu_efficiency", &t, None), Some(Cell::Ratio(0.75)));
        assert_eq!(of("avg_slice_ns", &t, None), Some(Cell::Number(7)));
        assert_eq!(of("live_heap_estimate", &t, None), Some(Cell::Signed(-4)));
    }

    #[test]
    fn time_off_the_cpu_counts_swap_once_and_knows_old_kernels() {
        let ns = |ns| Some(MonotonicNs(ns));
        let old = totals(|m| {
            (m.cpu_delay_total_ns, m.blkio_delay_total_ns, m.freepages_delay_total_ns) = (ns(1), ns(2), ns(4));
            (m.swapin_delay_total_ns, m.thrashing_delay_total_ns) = (ns(8), ns(16));
        });
        assert_eq!(of("total_offcpu_delay_ns", &old, Some(10)), Some(Cell::Number(23)));
        assert_eq!(of("total_offcpu_delay_ns", &old, Some(11)), None);
        assert_eq!(of("total_offcpu_delay_ns", &old, None), None);
    }
}
