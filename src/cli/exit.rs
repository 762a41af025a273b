//! Exit statuses.

/// The command failed. That of a usage error, 2, is clap's.
pub(super) const FAILED: u8 = 1;
