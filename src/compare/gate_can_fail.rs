//! Whether any candidate could fail a gate, whose baseline is known.

use super::{Quantity, Row, Sides, present};
use crate::model::{Cell, Formula};
use crate::statistics::{Beyond, Bound};

const CANNOT_FALL: &str = "this gate can never fail: the baseline is too small to fall by so much; use a smaller bound";
const CANNOT_RISE: &str =
    "this gate can never fail: the share cannot rise by so much, as it is at most 1; use a smaller bound";

/// Checks that a value that the candidate could have exceeds the bound: a gate that only passes looks like a check and is none.
pub(super) fn check(bound: Bound, row: &Row, values: &Sides<Box<[f64]>>) -> Result<(), &'static str> {
    let baseline = || present(&values.baseline);
    let is_signed = row.values.iter().flatten().any(|cell| matches!(cell, Cell::Signed(_)));
    let (farthest, reference, fault) = match bound.beyond {
        Beyond::Below if !is_signed => (0.0, baseline().fold(0.0, f64::max), CANNOT_FALL),
        Beyond::Above if row.quantity.is_some_and(Quantity::is_share) => {
            (1.0, baseline().fold(1.0, f64::min), CANNOT_RISE)
        }
        _ => return Ok(()),
    };
    let can_fail = baseline().next().is_none() || bound.is_exceeded(bound.scale.change(farthest, reference));
    if can_fail { Ok(()) } else { Err(fault) }
}

impl Quantity {
    /// Whether it is a part of a whole that contains the part, so that it is at most 1.
    fn is_share(self) -> bool {
        let Self::Derived(derived) = self else { return false };
        matches!(derived.formula, Formula::Ratio(part, whole) if whole.contains(&part))
    }
}

/// Whether that is why a gate cannot be judged.
pub(super) fn is_fault(fault: &str) -> bool {
    [CANNOT_FALL, CANNOT_RISE].contains(&fault)
}
