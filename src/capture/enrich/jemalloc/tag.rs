//! Why a process or a thread has no jemalloc counters.

pub use crate::model::ProbeFailure as Tag;
