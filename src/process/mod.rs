//! This process: its workers and its privileges.

mod privileges;
mod workers;

pub use self::privileges::Privileges;
pub(crate) use self::privileges::held;
pub use self::workers::workers;
