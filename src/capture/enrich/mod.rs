//! What is added to threads that an engine has read.

pub(super) mod jemalloc;
pub(super) mod smaps;
pub(super) mod taskstats;
