//! The process of ctprof: workers, capabilities, progress, signals, and the command that it runs.

mod child;
mod command_end;
mod cpus;
mod hung;
mod invocation;
mod lock;
mod panics;
mod priority;
mod privileges;
mod progress;
mod reader_pool;
mod signals;
mod stdout;
mod terminal;
mod watchdog;
mod worker;
mod workers;

pub use self::child::{Child, UsedByCommand};
pub use self::command_end::{CommandEnd, EndedUnrecorded, RECORD_FAILED, SpawnError, killed};
pub use self::cpus::{allowed_cpus, run_on};
pub(crate) use self::hung::{CanHang, Subject};
pub use self::invocation::{Invocation, Streams};
pub(crate) use self::lock::lock;
#[cfg(feature = "cli")]
pub(crate) use self::panics::end_at_panics;
pub(crate) use self::panics::{contained, fail_now};
pub(crate) use self::priority::{RaisedPriority, is_crowded};
#[cfg(test)]
pub(crate) use self::privileges::CAPABILITIES;
pub use self::privileges::{CannotDrop, Privileges};
pub(crate) use self::privileges::{
    as_caller, drop_file_capabilities, held, is_confined, names_of_ambient, start_reader, with_file_capabilities,
};
pub use self::progress::Progress;
pub(crate) use self::reader_pool::ReaderPool;
pub(crate) use self::signals::without_stops;
pub use self::signals::{ScreenEvent, Signals, Stopped, fail_writes_beyond_limit};
pub(crate) use self::stdout::check_stdout;
pub(crate) use self::terminal::{MessageWriter, NoScreen, TerminalScreen, last_message};
pub use self::workers::{no_workers, worker_per_cpu, workers};
#[cfg(feature = "cli")]
pub use crate::sys::allocator::Allocator;
