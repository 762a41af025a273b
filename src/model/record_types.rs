//! The types of values in records. A type determines the unit, and the reduction over several cgroups.

use serde::{Deserialize, Serialize};

use super::unit::{Reading, Shape, Unit, Whole, numbers};
use super::{Cell, Largest, Maxable, Mismatch, Range, Rangeable, Reduce, Reduction, Sum, Summable, Value, WindowRule};

numbers! {
    /// Microseconds since the counter started.
    CounterUs(u64 as Whole) is Summable(u64): Sum, Us, Unsigned, Increase;
    /// Bytes since the counter started.
    CounterBytes(u64 as Whole) is Summable(u64): Sum, Bytes, Unsigned, Increase;
    /// Events since the counter started.
    CounterEvents(u64 as Whole) is Summable(u64): Sum, Count, Unsigned, Increase;
    /// Bytes in use at an instant; summed over cgroups.
    CurrentBytes(u64 as Whole) is Summable(u64): Sum, Bytes, Unsigned, Later;
    /// Number of objects at an instant; summed over cgroups.
    CurrentCount(u64 as Whole) is Summable(u64): Sum, Count, Unsigned, Later;
    /// A configured period, in microseconds.
    PeriodUs(u64 as Whole) is Rangeable(u64): Range, Us, Unsigned, Later;
    /// A share among siblings.
    Weight(u64 as Whole) is Rangeable(u64): Range, Count, Unsigned, Later;
    /// A switch that the kernel prints as a number.
    SwitchNumber(u64 as Whole) is Maxable(u64): Largest, Count, Unsigned, Later;
    /// An average over the last seconds, in hundredths of a percent.
    Hundredths(u16 as u16) is Maxable(u64): Largest, Hundredths, Unsigned, Later;
}
