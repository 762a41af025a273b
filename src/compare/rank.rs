//! How much a row really moved: the order of rows that nobody has asked another order of.

use crate::model::{Cell, MetricId, Unit};

/// How much a reading moved: |ln((candidate + f) / (baseline + f))| with a floor `f` that is small
/// in the metric's unit, so that 0 → 3 does not lead over 10 s → 20 s. An absent side counts as 0.
pub(super) fn moved(name: &str, unit: Unit, baseline: Option<&Cell>, candidate: Option<&Cell>) -> f64 {
    match (baseline, candidate) {
        (Some(Cell::Range { min: a, max: b }), Some(Cell::Range { min: c, max: d })) => {
            RANGE_STEP * (a.abs_diff(*c).max(b.abs_diff(*d)) as f64).min(10.0)
        }
        (Some(Cell::Mode { value: a, .. }), Some(Cell::Mode { value: b, .. })) if a == b => 0.0,
        (Some(Cell::Mode { .. }), Some(Cell::Mode { .. })) if name == MetricId::state.metric().name => INSTANT,
        (Some(Cell::Mode { .. }), Some(Cell::Mode { .. })) => CATEGORY,
        (Some(a), Some(b)) if matches!((a, b), (Cell::Word(_), _) | (_, Cell::Word(_))) => {
            f64::from(u8::from(a != b)) * CATEGORY
        }
        (Some(a @ Cell::Cpus { .. }), Some(b @ Cell::Cpus { .. })) => f64::from(u8::from(a != b)) * CATEGORY,
        (Some(Cell::Ratio(a)), Some(Cell::Ratio(b))) => (a - b).abs() * RATIO,
        _ => ratio(unit, number(baseline), number(candidate)),
    }
}

/// A category that changed weighs as much as a number that grew e-fold.
const CATEGORY: f64 = 1.0;
/// A tenth of the whole weighs as much.
const RATIO: f64 = 10.0;
/// The state of a moment changes all the time.
const INSTANT: f64 = 0.01;
/// A step on a scale of priorities; the last CPU changes all the time.
const RANGE_STEP: f64 = 0.01;

fn number(cell: Option<&Cell>) -> f64 {
    match cell {
        Some(Cell::Number(number)) => *number as f64,
        Some(Cell::Signed(number)) => number.unsigned_abs() as f64,
        _ => 0.0,
    }
}

fn ratio(unit: Unit, baseline: f64, candidate: f64) -> f64 {
    let floor = floor(unit);
    ((baseline.max(candidate) + floor) / (baseline.min(candidate) + floor)).ln()
}

/// What is small in a unit: 1 ms, 64 KiB, 100 events, 10 ticks.
fn floor(unit: Unit) -> f64 {
    match unit {
        Unit::Ns => 1e6,
        Unit::Us => 1e3,
        Unit::Bytes => 65_536.0,
        Unit::Ticks => 10.0,
        _ => 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::metric;

    #[test]
    fn a_few_events_do_not_lead_over_a_doubled_time() {
        let of =
            |name: &str, a, b| moved(name, metric(name).unwrap().unit, Some(&Cell::Number(a)), Some(&Cell::Number(b)));
        let doubled = of("run_time_ns", 10_000_000_000, 20_000_000_000);
        assert!(of("majflt", 0, 3) < doubled);
        assert!(of("run_time_ns", 0, 3) < 1e-5);
        assert!(of("rchar", 0, 4096) < doubled);
        assert_eq!(of("wait_max", 5, 5), 0.0);
    }

    #[test]
    fn halving_and_doubling_move_alike() {
        let of = |a, b| ratio(Unit::Ns, a, b);
        assert_eq!(of(1e9, 2e9), of(2e9, 1e9));
    }
}
