//! The state of `sched_ext` (`Documentation/scheduler/sched-ext.rst`).

use super::record::{RecordField, RecordValue, ValueScope, ValueType, record};
use super::{CategoricalString, CounterEvents, Reading, SwitchNumber};

record! {
    /// `/sys/kernel/sched_ext/`. The source of a value is its file there.
    pub struct SchedExtSysfs, "" in pub(crate) SCHED_EXT: &str {
        /// `enabled`, `disabled` or a state in between.
        state: CategoricalString = "state";
        /// Name of the loaded scheduler.
        ops: CategoricalString = "root/ops";
        /// 1 if the scheduler runs all normal threads, 0 if only threads that ask for it.
        switch_all: SwitchNumber = "switch_all";
        /// Threads that were refused SCHED_EXT since a scheduler was loaded.
        nr_rejected: CounterEvents = "nr_rejected";
        /// Times that CPUs were added or removed.
        hotplug_seq: CounterEvents = "hotplug_seq";
        /// Times that a scheduler was loaded.
        enable_seq: CounterEvents = "enable_seq";
    }
}

impl SchedExtSysfs {
    /// Returns all values of the record.
    pub fn values(&self) -> Vec<RecordValue<'_>> {
        SCHED_EXT.iter().filter_map(|field| field.described(self)).collect()
    }
}
