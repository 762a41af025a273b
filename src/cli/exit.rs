//! Exit statuses, and what is left to the exit.

/// The command failed. That of a usage error, 2, is clap's.
pub(super) const FAILED: u8 = 1;

/// A gate of `--fail-on` failed.
pub(super) const GATE_FAILED: u8 = 3;

/// Leaves the memory of a value to the kernel, which frees all memory of the process at once: dropping 20,000 threads
/// one by one takes 4 ms, and their tree in a comparison 50 ms.
pub(super) fn free_at_exit<T>(value: T) {
    std::mem::forget(value);
}
