//! Whether any candidate could fail a gate, whose baseline is known.

use super::{Per, Quantity, RUN, Row};
use crate::model::{Cell, Formula, Unit};
use crate::statistics::Beyond;

const CANNOT_FALL: &str = "this gate can never fail: the baseline is too small to fall by so much; use a smaller bound";
const CANNOT_RISE: &str =
    "this gate can never fail: the share cannot rise by so much, as it is at most 1; use a smaller bound";
const CANNOT_CHANGE: &str = "this gate can never fail: per CPU-second, the run time of all groups is always 100%; use --per run or --per second";

/// Checks that the farthest value that the candidate could have fails the gate, as `fails` says: a gate that only passes looks
/// like a check and is none. The path of all groups together is empty.
pub(super) fn check(
    beyond: Beyond,
    (row, path, per): (&Row, &[String], Per),
    fails: impl Fn(f64) -> bool,
) -> Result<(), &'static str> {
    let is_signed = row.values.iter().flatten().any(|cell| matches!(cell, Cell::Signed(_)));
    let is_share = row.quantity.is_some_and(Quantity::is_share);
    let is_cpu_share = per == Per::CpuSecond && row.unit == Unit::Percent && [RUN, "run_time_ns"].contains(&&*row.name);
    let (farthest, fault) = match beyond {
        _ if is_cpu_share && path.is_empty() => return Err(CANNOT_CHANGE),
        Beyond::Above if is_cpu_share => (100.0, CANNOT_RISE),
        Beyond::Above if is_share => (1.0, CANNOT_RISE),
        Beyond::Below if !is_signed => (0.0, CANNOT_FALL),
        _ => return Ok(()),
    };
    if fails(farthest) { Ok(()) } else { Err(fault) }
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
    [CANNOT_FALL, CANNOT_RISE, CANNOT_CHANGE].contains(&fault)
}
