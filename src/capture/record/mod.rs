//! Work between two captures that neither of them sees: threads that exit.

mod decoder;
mod exited;
mod exits;
mod listener;
mod listener_error;
pub(in crate::capture) mod packed;
mod taskstats;

#[cfg(fuzzing)]
pub(super) use self::decoder::fuzz;
pub use self::exited::ExitedThread;
pub use self::exits::Exits;
pub use self::listener::{DEFAULT_RING_BYTES, ExitListener};
pub use self::listener_error::ExitListenerError;
