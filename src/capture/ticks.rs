//! Times of many short threads, in ticks.

use crate::model::ClockTicks;
pub(super) use crate::model::NS_PER_TICK;

/// Converts times to ticks. Most threads run for less than a tick, so that rounding each would lose their
/// time: the remainder is carried to the next thread.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    carry_ns: u64,
}

impl Ticks {
    pub(super) fn add(&mut self, ns: u64) -> ClockTicks {
        let ns = self.carry_ns.saturating_add(ns);
        self.carry_ns = ns % NS_PER_TICK;
        ClockTicks(ns / NS_PER_TICK)
    }
}
