//! The types of values in records. A type determines the unit, the reduction over several cgroups, and
//! the [`ValueKind`]: how a value changes over time.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::limit::{LimitBytes, LimitCount, LimitUs, ProtectedBytes};
use super::reduce::{Cell, Largest, Maxable, Reduce, Reduction, Settable, Settings, Sum, Summable};
use super::section::Section;
use super::unit::{
    Bytes, ClockTicks, MonotonicCount, OrdinalI32, PeakBytes, Reading, Shape, StateWord, Unit, Whole, numbers,
};
use super::value::{Mismatch, Value};
use super::window_rule::WindowRule;

named! {
    /// How a value changes over time.
    pub enum ValueKind {
        /// Only increases during the lifetime of the counted object.
        Counter = "counter",
        /// An amount or an average at the instant of the capture.
        Gauge = "gauge",
        /// The largest value so far.
        Peak = "peak",
        /// A configured limit.
        Limit = "limit",
        /// A configured protection.
        Protection = "protection",
        /// Any other setting: a weight, a period.
        Setting = "setting",
        /// A state or a name.
        State = "state",
    }
}

impl ValueKind {
    /// The section of a cgroup's value of this kind: what is configured stands apart from what is measured.
    pub(super) fn cgroup_section(self) -> Section {
        match self {
            Self::Limit | Self::Protection | Self::Setting => Section::CgroupLimits,
            _ => Section::CgroupStats,
        }
    }
}

/// A type of values in records.
pub trait Recorded: Reading {
    /// How its values change over time.
    const KIND: ValueKind;
}

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
    PeriodUs(u64 as Whole) is Settable(u64): Settings, Us, Unsigned, Later;
    /// A share among siblings.
    Weight(u64 as Whole) is Settable(u64): Settings, Count, Unsigned, Later;
    /// A switch that the kernel prints as a number.
    SwitchNumber(u64 as Whole) is Maxable(u64): Largest, Count, Unsigned, Later;
    /// An average over the last seconds, in hundredths of a percent.
    Hundredths(u16 as u16) is Maxable(u64): Largest, Hundredths, Unsigned, Later;
}

macro_rules! kinds {
    ($($kind:ident: $($type:ident)+;)+) => { $($(
        impl Recorded for $type {
            const KIND: ValueKind = ValueKind::$kind;
        }
    )+)+ };
}

kinds! {
    Counter: CounterUs CounterBytes CounterEvents Bytes ClockTicks MonotonicCount;
    Gauge: CurrentBytes CurrentCount Hundredths;
    Peak: PeakBytes;
    Limit: LimitUs LimitBytes LimitCount;
    Protection: ProtectedBytes;
    Setting: PeriodUs Weight OrdinalI32 SwitchNumber;
    State: StateWord;
}
