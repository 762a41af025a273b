//! How much a row, a group or a reason matters: the scores, and every bound on them with its reason.

use super::{BLOCK, Quantity, RUN, SLEEP, WAIT, plain_number};
use crate::model::{Cell, Unit};

/// Exited work below this share of its group's run time has no line: it would push groups that matter off the screen.
pub(super) const LEAST_EXITED_WORK: f64 = 0.05;
/// A change below this share of the host neither stands for its group nor puts it before others: what rests on a host changes by
/// as much.
pub(super) const LEAST_OF_HOST: f64 = 1e-3;
/// Share of a longer run below which an explanation does not matter: repeated runs differ by as much.
pub(super) const LEAST_OF_SLOWDOWN: f64 = 0.05;
/// The times of a group that can explain a longer run. The first is preferred: run time is the cause of sleep in others, and not
/// the reverse, and a wait for CPUs comes with the other times.
pub(super) const TIMES_OF_SLOWDOWN: [&str; 4] = [RUN, BLOCK, SLEEP, WAIT];
/// A time that explains at least this share of what the largest one does is preferred to it where it comes first.
pub(super) const PREFERRED_OF_SLOWDOWN: f64 = 0.5;
/// A reason for less than this share of a group's time is no answer to why it passes.
pub(super) const LEAST_REASON: f64 = 0.1;
/// Share from which further reasons are shown beside a larger one. Groups that are less active than this share of the busiest
/// group are not explained.
pub(super) const LEAST_OTHER_REASON: f64 = 0.01;
/// Maximum number of reasons in a line, and of lines with reasons of a group.
pub(super) const MOST_REASONS: usize = 3;
pub(super) const MOST_EXPLAINED_COLUMNS: usize = 2;
/// Percentages below this are shown as 0.
pub(super) const LEAST_SHOWN_PERCENT: f64 = 0.05;
/// A category that changed weighs as much as a number that grew e-fold.
const CATEGORY: f64 = 1.0;
/// A tenth of the whole weighs as much.
const RATIO: f64 = 10.0;
/// The state of a thread changes all the time.
const MOMENTARY: f64 = 0.01;
/// A step on a scale of priorities; the last CPU changes all the time.
const RANGE_STEP: f64 = 0.01;
/// Each capture is another process of ctprof, so that its differences have no meaning: it ranks last.
const OF_CTPROF: f64 = 1e-3;

/// How much a value changed: |ln((candidate + f) / (baseline + f))| with a floor `f` that is small
/// in the unit, so that 0 → 3 does not lead over 10 s → 20 s. An absent side counts as 0.
pub(super) fn score(quantity: Option<Quantity>, unit: Unit, baseline: Option<&Cell>, candidate: Option<&Cell>) -> f64 {
    match (baseline, candidate) {
        (Some(Cell::Range { min: a, max: b }), Some(Cell::Range { min: c, max: d })) => {
            RANGE_STEP * (a.abs_diff(*c).max(b.abs_diff(*d)) as f64).min(10.0)
        }
        (Some(Cell::Mode(a)), Some(Cell::Mode(b))) => {
            let is_momentary = matches!(quantity, Some(Quantity::Metric(metric)) if metric.is_instant());
            f64::from(u8::from(a.value != b.value)) * if is_momentary { MOMENTARY } else { CATEGORY }
        }
        (Some(a @ (Cell::Word(_) | Cell::Settings(_) | Cell::Cpus(_))), Some(b))
        | (Some(a), Some(b @ (Cell::Word(_) | Cell::Settings(_)))) => f64::from(u8::from(a != b)) * CATEGORY,
        (Some(Cell::Ratio(a)), Some(Cell::Ratio(b))) if !unit.is_rate() => (a - b).abs() * RATIO,
        (a, b) => ratio(unit, signed(a), signed(b)),
    }
}

/// The weight of a group's rows.
pub(super) fn weight(path: &[String]) -> f64 {
    if path.iter().any(|name| name == "ctprof") { OF_CTPROF } else { 1.0 }
}

fn signed(cell: Option<&Cell>) -> f64 {
    cell.and_then(plain_number).unwrap_or(0.0)
}

/// Returns the ratio of two values; for values of different signs, the distance between them counts.
fn ratio(unit: Unit, baseline: f64, candidate: f64) -> f64 {
    let floor = floor(unit);
    let (small, large) = if baseline.is_sign_negative() == candidate.is_sign_negative() {
        (baseline.abs().min(candidate.abs()), baseline.abs().max(candidate.abs()))
    } else {
        (0.0, (candidate - baseline).abs())
    };
    ((large + floor) / (small + floor)).ln()
}

/// A small value in each unit: 1 ms, 64 KiB, 100 events, 10 ticks, also per second.
fn floor(unit: Unit) -> f64 {
    match unit {
        Unit::Ns => 1e6,
        Unit::Us => 1e3,
        Unit::Bytes | Unit::BytesPerSecond | Unit::BytesPerUnit => 65_536.0,
        Unit::Percent => 0.1,
        Unit::Ticks => 10.0,
        _ => 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CpuSetSizes, MostFrequent};

    fn of_numbers(unit: Unit, baseline: u64, candidate: u64) -> f64 {
        let (baseline, candidate) = (Cell::Number(baseline), Cell::Number(candidate));
        score(None, unit, Some(&baseline), Some(&candidate))
    }

    #[test]
    fn a_few_events_do_not_lead_over_a_doubled_time() {
        let doubled = of_numbers(Unit::Ns, 10_000_000_000, 20_000_000_000);
        assert!(of_numbers(Unit::Count, 0, 3) < doubled);
        assert!(of_numbers(Unit::Ns, 0, 3) < 1e-5);
        assert!(of_numbers(Unit::Bytes, 0, 4096) < doubled);
        assert_eq!(of_numbers(Unit::Ns, 5, 5), 0.0);
    }

    #[test]
    fn halving_and_doubling_weigh_alike() {
        assert_eq!(
            of_numbers(Unit::Ns, 1_000_000_000, 2_000_000_000),
            of_numbers(Unit::Ns, 2_000_000_000, 1_000_000_000)
        );
    }

    #[test]
    fn a_signed_value_that_crosses_zero_leads_by_its_change_not_by_its_ends() {
        const MIB: i64 = 1 << 20;
        let heap = |a: i64, b: i64| {
            let (a, b) = (Cell::Signed(a * MIB), Cell::Signed(b * MIB));
            score(None, Unit::Bytes, Some(&a), Some(&b))
        };
        assert!(heap(-100, 100) > heap(100, 150) && heap(-100, 100) > heap(0, 100));
        assert_eq!(heap(-100, -100), 0.0);
        assert_eq!(heap(-1, -2), heap(1, 2));
    }

    #[test]
    fn a_category_that_changed_weighs_more_than_the_state_of_a_moment() {
        let mode = |value: &str| Cell::Mode(Box::new(MostFrequent { value: value.to_owned(), count: 1, total: 1 }));
        let of =
            |name: &str, a: &str, b: &str| score(Quantity::named(name), Unit::None, Some(&mode(a)), Some(&mode(b)));
        assert!(of("policy", "SCHED_OTHER", "SCHED_FIFO") > of("state", "S", "R"));
        assert!(of("state", "S", "R") > 0.0 && of("policy", "SCHED_OTHER", "SCHED_OTHER") == 0.0);
    }

    #[test]
    fn ranges_differ_by_their_ends_up_to_ten_steps() {
        let range = |min, max| Cell::Range { min, max };
        let of = |a: Cell, b: Cell| score(None, Unit::None, Some(&a), Some(&b));
        assert!(of(range(0, 0), range(0, 5)) > of(range(0, 0), range(0, 1)));
        assert_eq!(of(range(0, 0), range(0, 10)), of(range(0, 0), range(-100, 0)));
    }

    #[test]
    fn limits_that_appear_weigh_as_a_category() {
        let (max, number) = (Cell::Word("max".into()), Cell::Number(5));
        assert_eq!(score(None, Unit::Us, Some(&number), Some(&max)), CATEGORY);
        assert_eq!(score(None, Unit::Us, Some(&max), Some(&max)), 0.0);
    }

    #[test]
    fn groups_of_this_program_weigh_little() {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(weight(&path(&["/", "ctprof"])) < weight(&path(&["/", "ctprofd"])));
        assert!(weight(&path(&["ctprof-exporter"])) >= 1.0);
    }

    fn assert_score(score: f64, expected: f64) {
        assert!((score - expected).abs() < 1e-9, "{score} instead of {expected}");
    }

    #[test]
    fn a_small_amount_weighs_the_same_in_every_unit() {
        let small = [
            (Unit::Ns, 1_000_000),
            (Unit::Us, 1_000),
            (Unit::Bytes, 64 << 10),
            (Unit::Ticks, 10),
            (Unit::Count, 100),
            (Unit::CountPerSecond, 100),
        ];
        for (unit, amount) in small {
            assert_score(of_numbers(unit, 0, amount), 2_f64.ln());
            let amount = Cell::Number(amount);
            assert_score(score(None, unit, None, Some(&amount)), 2_f64.ln());
            assert_score(score(None, unit, Some(&amount), None), 2_f64.ln());
        }
    }

    #[test]
    fn kinds_of_changes_have_these_weights() {
        let mode = |value: &str| Cell::Mode(Box::new(MostFrequent { value: value.to_owned(), count: 1, total: 1 }));
        let range = |min, max| Cell::Range { min, max };
        let cpus = |cpus: &[u32]| Cell::Cpus(Box::new(CpuSetSizes { fewest: 2, most: 2, cpus: Some(cpus.into()) }));
        for (name, a, b, expected) in [
            ("policy", mode("SCHED_OTHER"), mode("SCHED_FIFO"), 1.0),
            ("state", mode("S"), mode("R"), 0.01),
            ("cpu_affinity", cpus(&[0, 1]), cpus(&[2, 3]), 1.0),
            ("cpu_affinity", cpus(&[0, 1]), cpus(&[0, 1]), 0.0),
            ("cpu_delay_max_ns", Cell::Word("max".into()), Cell::Word("5".into()), 1.0),
            ("affine_success_ratio", Cell::Ratio(0.5), Cell::Ratio(0.6), 1.0),
            ("affine_success_ratio", Cell::Ratio(0.6), Cell::Ratio(0.5), 1.0),
            ("nice", range(0, 0), range(0, 3), 0.03),
            ("nice", range(-2, 0), range(0, 0), 0.02),
            ("nice", range(0, 0), range(0, 50), 0.1),
        ] {
            assert_score(score(Quantity::named(name), Unit::None, Some(&a), Some(&b)), expected);
        }
    }

    #[test]
    fn a_tenth_of_a_whole_weighs_as_much_as_a_number_that_grew_e_fold() {
        let of_shares = |unit, a, b| score(None, unit, Some(&Cell::Ratio(a)), Some(&Cell::Ratio(b)));
        assert!((of_shares(Unit::Ratio, 0.2, 0.3) - 1.0).abs() < 1e-9);
        let doubled = of_shares(Unit::Percent, 40.0, 80.0);
        assert!((doubled - (80.1_f64 / 40.1).ln()).abs() < 1e-9, "a percent is a rate: {doubled}");
        let range = |min, max| Cell::Range { min, max };
        let moved = |a, b| score(None, Unit::Count, Some(&a), Some(&b));
        assert!((moved(range(0, 5), range(3, 6)) - 0.03).abs() < 1e-9);
        assert!((moved(range(0, 0), range(0, 5_000)) - 0.1).abs() < 1e-9, "ten steps at most");
    }
}
