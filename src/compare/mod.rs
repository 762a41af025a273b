//! Comparison: from two snapshots to the changes between them, or from one to its groups. All functions are pure: everything that
//! a report shows is in the value that they return.

mod captures;
mod cgroup_keys;
mod code_site;
mod delta;
mod digest;
mod exited_work;
mod gaps;
mod gate;
mod gate_can_fail;
mod gate_cause;
mod gate_metric;
mod gate_outcome;
mod globs;
mod group;
mod group_keys;
mod grouped;
mod halted;
mod headline;
mod host;
mod longest_wait;
mod measure;
mod measurement;
mod notes;
mod options;
mod overview;
mod overview_columns;
mod quantity;
mod reason;
mod reason_tree;
mod reasons;
mod records;
mod report;
mod rows;
mod runs;
mod runtimes;
mod scope;
mod score;
mod select;
mod shared_waits;
mod shortened;
mod sides;
mod slowdown;
mod smaps;
mod static_libc;
mod totals;
mod trend;
mod until;
mod why;

use self::group::{Groups, Naming};
pub(crate) use self::overview::word;
use self::reasons::{GroupedReasons, ReasonRows, Wanted};
use self::smaps::ProcessMemory;
pub use self::smaps::collect_smaps_rollup;
pub use self::{
    cgroup_keys::*, code_site::CodeSite, delta::*, digest::*, gate::*, gate_outcome::*, globs::*, group_keys::*,
    grouped::*, host::*, options::*, overview_columns::*, quantity::*, reason::*, report::*, rows::*, runs::*,
    scope::*, select::*, sides::*, trend::*, until::*,
};
pub(crate) use self::{gate_cause::GateCause, measurement::*, shortened::*, why::*};
use self::{gate_metric::*, notes::*, slowdown::*, totals::*};
