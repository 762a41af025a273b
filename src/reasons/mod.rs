//! Why threads waited: passes of samples to amounts of time by reason. Pure functions.
//!
//! A pass has the threads that run, are ready to run, or have slept since the pass before. A thread is taken to have done what
//! its sample says from halfway between that pass and the one before until halfway to the pass that says otherwise. What is
//! not in a pass is in the same sleep as before, or has exited.

mod collector;
mod conclude;
mod moment;
mod pass_times;
mod raw_reason;
mod system_call;
mod window_reasons;

pub use self::collector::ReasonCollector;
pub use self::conclude::Conclusion;
pub use self::moment::PassMoment;
pub use self::system_call::{waits_for_file_lock, waits_for_mutex, works_on_descriptor};

#[cfg(test)]
mod tests;
