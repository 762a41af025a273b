//! Metrics derived from the totals of a group. They are absent if an input is absent or a denominator is 0.

use std::fmt;

use super::table::{METRICS, Metric, MetricId, MetricId as M, Totals};
use super::{Cell, Direction, Section, Unit};

/// Whether a version of the kernel's `struct taskstats`, if it is known, is too old for the metric.
fn predates(version: Option<u16>, metric: &Metric) -> bool {
    version.zip(metric.taskstats_since()).is_some_and(|(version, since)| version < since)
}

/// The formula of a derived metric. `Display` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Formula {
    /// A total, divided by a sum of totals.
    Ratio(MetricId, &'static [MetricId]),
    /// A total, divided by the number of events.
    Average(MetricId, MetricId),
    /// The first minus the second; may be negative.
    Difference(MetricId, MetricId),
    /// A sum of terms. Each term is the largest of its inputs. An input newer than the kernel's `struct
    /// taskstats` counts as 0.
    SumOfLargest(&'static [&'static [MetricId]]),
    /// The longest single wait: the largest of these metrics, of each thread the first that it has. Samples can know of a longer one.
    LongestWait(&'static [MetricId]),
}

use Formula::{Average, Difference, LongestWait, Ratio, SumOfLargest};

impl Formula {
    /// The metrics that the formula reads.
    pub fn inputs(&self) -> impl Iterator<Item = MetricId> + '_ {
        let (pair, lists): ([Option<MetricId>; 2], &[&[MetricId]]) = match self {
            Ratio(part, whole) => ([Some(*part), None], std::slice::from_ref(whole)),
            LongestWait(metrics) => ([None, None], std::slice::from_ref(metrics)),
            Average(a, b) | Difference(a, b) => ([Some(*a), Some(*b)], &[]),
            SumOfLargest(terms) => ([None, None], terms),
        };
        pair.into_iter().flatten().chain(lists.iter().copied().flatten().copied())
    }

    fn value(self, totals: &Totals, taskstats: Option<u16>) -> Option<Cell> {
        let sum = |id: MetricId| id.metric().sum(totals);
        let all = |ids: &[MetricId]| ids.iter().try_fold(0, |all: u64, id| Some(all.saturating_add(sum(*id)?)));
        match self {
            Ratio(part, whole) => {
                let (part, whole) = (sum(part)?, all(whole).filter(|whole| *whole > 0)?);
                Some(Cell::Ratio(part as f64 / whole as f64))
            }
            Average(total, count) => sum(total)?.checked_div(sum(count)?).map(Cell::Number),
            Difference(more, less) => {
                let difference = i128::from(sum(more)?) - i128::from(sum(less)?);
                let end = if difference < 0 { i64::MIN } else { i64::MAX };
                Some(Cell::Signed(i64::try_from(difference).unwrap_or(end)))
            }
            SumOfLargest(terms) => {
                let value = |id: &MetricId| if predates(taskstats, id.metric()) { Some(0) } else { sum(*id) };
                let largest = |ids: &[MetricId]| ids.iter().try_fold(0, |most, id| Some(value(id)?.max(most)));
                let total = terms.iter().try_fold(0, |all: u64, ids| Some(all.saturating_add(largest(ids)?)))?;
                Some(Cell::Number(total))
            }
            LongestWait(metrics) => metrics.iter().filter_map(|id| sum(*id)).max().map(Cell::Number),
        }
    }

    const fn unit(self) -> Unit {
        match self {
            Ratio(..) => Unit::Ratio,
            Average(total, _) | Difference(total, _) => METRICS[total as usize].unit,
            SumOfLargest(terms) => METRICS[terms[0][0] as usize].unit,
            LongestWait(metrics) => METRICS[metrics[0] as usize].unit,
        }
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |id: &MetricId| id.metric().name;
        let joined = |ids: &[MetricId], by| ids.iter().map(name).collect::<Vec<_>>().join(by);
        match self {
            Ratio(part, [whole]) | Average(part, whole) => write!(f, "{} / {}", name(part), name(whole)),
            Ratio(part, whole) => write!(f, "{} / ({})", name(part), joined(whole, " + ")),
            Difference(more, less) => write!(f, "{} − {}", name(more), name(less)),
            LongestWait(metrics) => write!(f, "{}; ≥ the longest in samples", joined(metrics, ", else ")),
            SumOfLargest(terms) => {
                let term = |ids: &&[MetricId]| match ids {
                    [id] => name(id).to_owned(),
                    ids => format!("max({})", joined(ids, ", ")),
                };
                f.write_str(&terms.iter().map(term).collect::<Vec<_>>().join(" + "))
            }
        }
    }
}

/// Row of the table of derived metrics.
#[derive(Debug)]
pub struct Derived {
    /// Public name of the metric.
    pub name: &'static str,
    /// The meaning, in a sentence.
    pub doc: &'static str,
    /// Formula over the totals of a group.
    pub formula: Formula,
    /// Unit of the result.
    pub unit: Unit,
    /// The section that reports it.
    pub section: Section,
    /// Whether a larger value is worse.
    pub direction: Direction,
}

impl Derived {
    /// The value of a group, if all inputs have one. `taskstats` is the version of the kernel's struct, if it is known.
    pub fn total(&self, totals: &Totals, taskstats: Option<u16>) -> Option<Cell> {
        self.formula.value(totals, taskstats)
    }

    /// The number of threads with a value, of the input with the fewest.
    pub fn covered(&self, totals: &Totals, taskstats: Option<u16>) -> u64 {
        self.known_inputs(taskstats).map(|metric| metric.covered(totals)).min().unwrap_or(0)
    }

    /// Whether some of a group's `threads` lack a value of an input that they should have.
    pub fn is_partial(&self, totals: &Totals, taskstats: Option<u16>, threads: u64) -> bool {
        self.known_inputs(taskstats).any(|metric| metric.is_partial(metric.covered(totals), threads))
    }

    fn known_inputs(&self, taskstats: Option<u16>) -> impl Iterator<Item = &'static Metric> + '_ {
        self.formula.inputs().map(MetricId::metric).filter(move |metric| !predates(taskstats, metric))
    }
}

/// Turns rows under their section, whose rows usually have a direction in common, into [`DERIVED`].
macro_rules! derived {
    ($($section:ident $common_direction:ident {
        $(#[doc = $doc:literal] $name:ident = $formula:expr $(, $direction:ident)?;)+
    })+) => {
        /// Every derived metric, in the order of listings.
        pub static DERIVED: &[Derived] = &[$($(Derived {
            name: stringify!($name),
            doc: $doc.trim_ascii(),
            formula: $formula,
            unit: $formula.unit(),
            section: Section::$section,
            direction: [$(Direction::$direction,)? Direction::$common_direction][0],
        },)+)+];
    };
}

derived! {
    Derived Neither {
        /// Share of tries in which the cache-affine heuristic placed a wake-up.
        affine_success_ratio = Ratio(M::nr_wakeups_affine, &[M::nr_wakeups_affine_attempts]);
        /// Average run-queue wait.
        avg_wait_ns = Average(M::wait_sum, M::wait_count), MoreIsWorse;
        /// Longest single wait for a CPU; `≥` if a thread may have waited longer.
        longest = LongestWait(&[M::cpu_delay_max_ns, M::wait_max]), MoreIsWorse;
        /// Time on a CPU as a share of the time on or waiting for one.
        cpu_efficiency = Ratio(M::run_time_ns, &[M::run_time_ns, M::wait_time_ns]), LessIsWorse;
        /// Average time on a CPU per timeslice.
        avg_slice_ns = Average(M::run_time_ns, M::timeslices);
        /// Share of context switches that were involuntary.
        involuntary_csw_ratio = Ratio(M::nonvoluntary_csw, &[M::nonvoluntary_csw, M::voluntary_csw]), MoreIsWorse;
        /// Bytes fetched from storage per byte requested; above 1 with read-ahead.
        disk_io_fraction = Ratio(M::read_bytes, &[M::rchar]), MoreIsWorse;
        /// Bytes allocated and not yet freed by the group's threads.
        live_heap_estimate = Difference(M::allocated_bytes, M::deallocated_bytes), MoreIsWorse;
        /// Average I/O wait.
        avg_iowait_ns = Average(M::iowait_sum, M::iowait_count), MoreIsWorse;
    }
    TaskstatsDelay MoreIsWorse {
        /// Average run-queue wait.
        avg_cpu_delay_ns = Average(M::cpu_delay_total_ns, M::cpu_delay_count);
        /// Average wait for block I/O.
        avg_blkio_delay_ns = Average(M::blkio_delay_total_ns, M::blkio_delay_count);
        /// Average wait for swap-in.
        avg_swapin_delay_ns = Average(M::swapin_delay_total_ns, M::swapin_delay_count);
        /// Average time per direct reclaim.
        avg_freepages_delay_ns = Average(M::freepages_delay_total_ns, M::freepages_delay_count);
        /// Average time per refault of a page just evicted.
        avg_thrashing_delay_ns = Average(M::thrashing_delay_total_ns, M::thrashing_delay_count);
        /// Average time per memory compaction.
        avg_compact_delay_ns = Average(M::compact_delay_total_ns, M::compact_delay_count);
        /// Average time per write-protect copy (copy on write).
        avg_wpcopy_delay_ns = Average(M::wpcopy_delay_total_ns, M::wpcopy_delay_count);
        /// Average time per interrupt charged to the thread.
        avg_irq_delay_ns = Average(M::irq_delay_total_ns, M::irq_delay_count);
        // Every thrashing event is also a swap-in event, so only the larger of the two counts.
        /// Total of all delays that taskstats counts.
        total_offcpu_delay_ns = SumOfLargest(&[
            &[M::cpu_delay_total_ns],
            &[M::blkio_delay_total_ns],
            &[M::freepages_delay_total_ns],
            &[M::compact_delay_total_ns],
            &[M::wpcopy_delay_total_ns],
            &[M::irq_delay_total_ns],
            &[M::swapin_delay_total_ns, M::thrashing_delay_total_ns],
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Metrics;
    use super::*;

    fn derived_total(name: &str, totals: &Totals, version: Option<u16>) -> Option<Cell> {
        let derived = DERIVED.iter().find(|derived| derived.name == name).unwrap();
        derived.total(totals, version)
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
        assert!(DERIVED.iter().all(|derived| derived.total(&none, None).is_none()));
        let zero = totals(|m| (m.wait_sum, m.wait_count) = (Some(0.into()), Some(0.into())));
        assert_eq!(derived_total("avg_wait_ns", &zero, None), None);
        let some = totals(|m| (m.wait_sum, m.wait_count) = (Some(0.into()), Some(4.into())));
        assert_eq!(derived_total("avg_wait_ns", &some, None), Some(Cell::Number(0)));
    }

    #[test]
    fn formulas_hold() {
        let t = totals(|m| {
            (m.run_time_ns, m.wait_time_ns, m.timeslices) = (Some(30.into()), Some(10.into()), Some(4.into()));
            (m.allocated_bytes, m.deallocated_bytes) = (Some(5.into()), Some(9.into()));
        });
        assert_eq!(derived_total("cpu_efficiency", &t, None), Some(Cell::Ratio(0.75)));
        assert_eq!(derived_total("avg_slice_ns", &t, None), Some(Cell::Number(7)));
        assert_eq!(derived_total("live_heap_estimate", &t, None), Some(Cell::Signed(-4)));
    }

    #[test]
    fn time_off_the_cpu_counts_swap_once_and_knows_old_kernels() {
        let ns = |ns: u64| Some(ns.into());
        let old = totals(|m| {
            (m.cpu_delay_total_ns, m.blkio_delay_total_ns, m.freepages_delay_total_ns) = (ns(1), ns(2), ns(4));
            (m.swapin_delay_total_ns, m.thrashing_delay_total_ns) = (ns(8), ns(16));
        });
        assert_eq!(derived_total("total_offcpu_delay_ns", &old, Some(10)), Some(Cell::Number(23)));
        assert_eq!(derived_total("total_offcpu_delay_ns", &old, Some(11)), None);
        assert_eq!(derived_total("total_offcpu_delay_ns", &old, None), None);
    }

    #[test]
    fn partial_inputs_are_not_hidden() {
        let context = Some(8);
        let derived = |name| DERIVED.iter().find(|derived| derived.name == name).unwrap();
        let mut totals = totals(|m| (m.run_time_ns, m.wait_time_ns) = (Some(30.into()), Some(10.into())));
        totals.add(&Metrics { run_time_ns: Some(30.into()), ..Metrics::default() });
        let efficiency = derived("cpu_efficiency");
        assert_eq!((efficiency.covered(&totals, context), efficiency.is_partial(&totals, context, 2)), (1, true));
        let slice = derived("avg_slice_ns");
        assert_eq!((slice.covered(&totals, context), slice.is_partial(&totals, context, 2)), (0, false));
    }

    #[test]
    fn what_an_old_struct_lacks_does_not_make_a_total_partial() {
        let context = Some(8);
        let ns = |ns: u64| Some(ns.into());
        let old = totals(|m| {
            (m.cpu_delay_total_ns, m.blkio_delay_total_ns) = (ns(1), ns(2));
            (m.freepages_delay_total_ns, m.swapin_delay_total_ns) = (ns(4), ns(8));
        });
        let off_cpu = DERIVED.last().unwrap();
        assert_eq!(off_cpu.total(&old, context), Some(Cell::Number(15)));
        assert_eq!((off_cpu.covered(&old, context), off_cpu.is_partial(&old, context, 1)), (1, false));
    }

    #[test]
    fn a_formula_reads_as_it_is_computed() {
        let text = |name| DERIVED.iter().find(|derived| derived.name == name).unwrap().formula.to_string();
        assert_eq!(text("cpu_efficiency"), "run_time_ns / (run_time_ns + wait_time_ns)");
        assert_eq!(text("avg_slice_ns"), "run_time_ns / timeslices");
        assert_eq!(text("live_heap_estimate"), "allocated_bytes − deallocated_bytes");
        assert!(text("total_offcpu_delay_ns").ends_with(" + max(swapin_delay_total_ns, thrashing_delay_total_ns)"));
    }

    #[test]
    fn a_difference_beyond_signed_numbers_is_the_largest_of_them() {
        let estimate = |allocated: u64, deallocated: u64| {
            let t = totals(|m| {
                (m.allocated_bytes, m.deallocated_bytes) = (Some(allocated.into()), Some(deallocated.into()));
            });
            derived_total("live_heap_estimate", &t, None)
        };
        assert_eq!(estimate(u64::MAX, 0), Some(Cell::Signed(i64::MAX)));
        assert_eq!(estimate(0, u64::MAX), Some(Cell::Signed(i64::MIN)));
        assert_eq!(estimate(u64::MAX, u64::MAX), Some(Cell::Signed(0)));
    }
}
