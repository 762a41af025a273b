//! Data about a host and its threads. No I/O, no system calls, no printing.

/// A record whose fields are all optional: absent in memory is absent in the file.
macro_rules! optional_record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)+
        }
    };
}

mod census;
mod cgroup;
mod cgroup_source;
mod cpu_time;
mod cpus;
mod delay;
mod derived;
mod direction;
mod engine;
mod failure;
mod heap;
mod host;
mod kernel_field;
mod limit;
mod metrics;
mod name;
mod process;
mod psi;
#[doc(hidden)]
mod record;
mod record_listing;
mod record_types;
mod reduce;
mod sched_ext;
mod section;
mod snapshot;
mod source;
mod stored_name;
mod summary;
mod table;
mod thread;
mod threads;
mod total;
mod unit;
mod value;
mod window;
mod window_rule;

pub use census::Census;
pub(crate) use cgroup::{
    CGROUP_CPU, CGROUP_DEVICE, CGROUP_MEMORY, CGROUP_PIDS, MEMORY_EVENTS, MEMORY_EVENTS_V1, memory_stat_type,
};
pub use cgroup::{CgroupCpuStats, CgroupDeviceStats, CgroupIoStats, CgroupMemoryStats, CgroupPidsStats, CgroupStats};
pub(crate) use cgroup_source::{CgroupFile, Conversion, Place};
pub use cpu_time::HostCpuTime;
pub use cpus::{CpuSet, CpuSets, cpu_ranges};
pub use derived::{Context, DERIVED, Derived, Formula};
pub use direction::Direction;
pub use engine::{BpfObstacle, BpfUse, NoBpf};
pub use failure::{Errno, ProbeFailure, SourceFile};
pub use heap::HostHeapState;
pub(crate) use host::at_least;
pub use host::{Built, CgroupLayout, HostContext, Switch};
pub(crate) use kernel_field::{FieldForm, KernelField, RESIDENT};
pub use limit::{Limit, LimitBytes, LimitCount, LimitUs, ProtectedBytes};
pub use name::{Name, kernel_bytes, may_be_cut, printable};
pub use process::{Includes, PROCESS, ProcessSource, ProcessState};
pub(crate) use psi::PSI_HALF;
pub use psi::{Psi, PsiHalf, PsiResource};
pub use record::{RecordField, RecordValue, ValueScope, ValueType};
pub(crate) use record_listing::{RecordRow, record_rows};
pub use record_types::{
    CounterBytes, CounterEvents, CounterUs, CurrentBytes, CurrentCount, Hundredths, PeriodUs, Recorded, SwitchNumber,
    ValueKind, Weight,
};
pub use reduce::{
    Cell, Largest, Maxable, Minable, Mode, Modeable, Range, Rangeable, Reduce, Reduction, Smallest, Sum, Summable,
};
pub(crate) use sched_ext::SCHED_EXT;
pub use sched_ext::SchedExtSysfs;
pub use section::Section;
pub use snapshot::{CaptureInfo, CaptureOptions, CtprofSnapshot, FORMAT_VERSION, SelfCost, SnapshotHead};
pub use source::{Class, Source, Sources, TaskstatsFamily, TaskstatsField, TaskstatsForm};
pub(crate) use stored_name::stored_names;
pub use summary::{CtprofParseSummary, CtprofProbeSummary, TaskstatsSummary, dominant};
pub(crate) use table::METRIC_COUNT;
pub use table::{METRICS, Metric, MetricId, Metrics, Totals, procfs_sources};
pub(crate) use thread::read_time;
pub use thread::{ExitedThread, ExitedWork, Owner, ThreadId, ThreadSpan, ThreadState};
pub use threads::Threads;
pub use total::Total;
pub(crate) use unit::NS_PER_TICK;
pub use unit::{
    Bytes, CategoricalString, ClockTicks, FloorNs, GaugeBytes, GaugeCount, GaugeNs, MonotonicCount, MonotonicNs,
    OrdinalI32, OrdinalU32, PeakBytes, PeakNs, Reading, Shape, StateWord, Unit,
};
pub use value::{Mismatch, Value};
pub use window::{Accounting, BusySource, ExitRecords, RecordedCommand, WindowInfo};
pub use window_rule::{InWindow, WindowRule};
