//! Work between two captures that neither of them sees: threads that exit.

mod exited;
mod exits;
mod packed;

#[cfg(fuzzing)]
pub(super) use self::exited::fuzz;
pub use self::exited::{ExitedThread, Exits};
pub use self::exits::{ExitListener, ExitListenerError};
