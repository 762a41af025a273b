//! The process of ctprof: workers, capabilities, progress, signals, and the command that it runs.

mod child;
mod command_end;
mod privileges;
mod progress;
mod signals;
mod workers;

pub use self::child::{Child, StorageIo};
pub use self::command_end::{CommandEnd, RECORD_FAILED, SpawnError};
#[cfg(test)]
pub(crate) use self::privileges::CAPABILITIES;
pub use self::privileges::Privileges;
pub(crate) use self::privileges::held;
pub use self::progress::Progress;
pub use self::signals::{Ended, Signals};
pub use self::workers::workers;
