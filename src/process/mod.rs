//! The process of ctprof: workers, capabilities, progress.

mod privileges;
mod progress;
mod workers;

#[cfg(test)]
pub(crate) use self::privileges::CAPABILITIES;
pub use self::privileges::Privileges;
pub(crate) use self::privileges::held;
pub use self::progress::Progress;
pub use self::workers::workers;
