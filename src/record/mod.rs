//! Recorders of windows: a recorder takes windows, one after the other, each until a time is over or a command has exited. It
//! loads its BPF programs once, and prints nothing.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use ctprof::capture::{DEFAULT_RING_BYTES, Options};
//! use ctprof::process::Signals;
//! use ctprof::record::{Recorder, Until};
//!
//! // Before other threads start: they inherit the blocked signals.
//! let signals = Signals::for_pause()?;
//! let windows = 3;
//! let mut recorder = Recorder::new(Options::default(), windows, DEFAULT_RING_BYTES)?;
//! for _ in 0..windows {
//!     let window = recorder.open()?;
//!     let end = window.wait(&Until::Elapsed(Duration::from_secs(10)), &signals)?;
//!     let snapshot = window.close(end)?;
//!     println!("{} threads", snapshot.threads.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod exited_containers;
mod pass_rate;
mod recorder;
mod sampler;
mod step_length;
mod steps;
mod until;
mod zombies;

pub use self::error::RecordError;
pub use self::recorder::{OpenWindow, Recorder};
pub use self::steps::{OpenSeries, Preparation, RecordedStep};
pub use self::until::{Until, Waiting, WindowEnd};
