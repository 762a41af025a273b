//! The CPUs that ctprof may run on.

use std::io;

use crate::sys::affinity;

/// The CPUs that the calling thread may run on, ascending.
///
/// # Errors
/// Errors of `sched_getaffinity(2)`.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    Ok(affinity::cpus(0, &mut Vec::new())?)
}

/// Limits the calling thread, and threads that it starts later, to `cpus`.
///
/// # Errors
/// Errors of `sched_setaffinity(2)`: none of the CPUs is available.
pub fn run_on(cpus: &[u32]) -> io::Result<()> {
    Ok(affinity::limit(cpus)?)
}
