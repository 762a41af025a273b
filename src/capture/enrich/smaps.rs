//! When to read `smaps_rollup`.

use std::time::Duration;

/// When to read `smaps_rollup`. For it, the kernel walks all page tables of the process, and blocks its
/// page faults meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Smaps {
    /// Reads processes with at most this many resident bytes, smallest first, until [`Smaps::TIME`] is over.
    Auto {
        /// Maximum resident memory, in bytes.
        max_rss_bytes: u64,
    },
    /// Reads every process, however large.
    Always,
    /// Reads no process at all.
    Never,
}

impl Smaps {
    /// The limit of [`Smaps::default`]: 1 GiB.
    pub const DEFAULT_MAX_RSS_BYTES: u64 = 1 << 30;

    /// How long [`Smaps::Auto`] reads, summed over all workers.
    pub const TIME: Duration = Duration::from_millis(20);

    /// The name of the choice.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto { .. } => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

impl Default for Smaps {
    fn default() -> Self {
        Self::Auto { max_rss_bytes: Self::DEFAULT_MAX_RSS_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_the_names_of_the_option() {
        let names = [Smaps::default(), Smaps::Always, Smaps::Never].map(Smaps::name);
        assert_eq!(names, ["auto", "always", "never"]);
    }
}
