//! `smaps_rollup`: memory of a process by kind, for processes below a size limit.

use std::collections::BTreeMap;
use std::time::Instant;

use nix::errno::Errno;

use super::super::process::Process;
use super::super::procfs::text;
use super::super::tally::{File, Tally};
use crate::model::{ThreadState, printable};

/// When to read `smaps_rollup`. For it, the kernel walks all page tables of the process, and blocks its
/// page faults meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Smaps {
    /// For processes with at most this many resident bytes.
    Auto {
        /// The limit.
        max_rss_bytes: u64,
    },
    /// For every process.
    Always,
    /// For no process.
    Never,
}

impl Smaps {
    /// The limit of [`Smaps::default`]: 32 GiB.
    pub const DEFAULT_MAX_RSS_BYTES: u64 = 32 << 30;

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

/// Reads `smaps_rollup` of the processes that the limit allows.
pub(super) struct Rollups {
    when: Smaps,
    buffer: Vec<u8>,
}

impl Rollups {
    pub(super) fn new(when: Smaps) -> Self {
        Self { when, buffer: Vec::new() }
    }

    /// Adds the memory of a process to its leader. A process of unknown size may be over the limit. Kernel
    /// threads and exited processes have no memory map.
    pub(super) fn read(
        &mut self,
        process: &Process,
        leader: &mut ThreadState,
        resident_bytes: Option<u64>,
        tally: &mut Tally,
    ) {
        if !leader.has_memory() {
            return;
        }
        match self.when {
            Smaps::Never => return,
            Smaps::Auto { max_rss_bytes } if resident_bytes.is_none_or(|bytes| bytes > max_rss_bytes) => {
                tally.smaps_skipped += 1;
                return;
            }
            _ => {}
        }
        let begin = Instant::now();
        match process.folder.read(File::SmapsRollup.name(), &mut self.buffer) {
            // It has exited, or has freed its memory while exiting.
            Err(Errno::ESRCH) => {}
            Err(Errno::ENOENT) if !process.folder.has(File::Stat.name()) => {}
            Err(errno) => process.unread(process.id, File::SmapsRollup, errno, tally),
            Ok(text) => leader.smaps_rollup_kib = Some(parse(text)).filter(|map| !map.is_empty()),
        }
        tally.smaps_time += begin.elapsed();
    }
}

/// Lines of `key: number kB`. The first line is an address range.
fn parse(text: &[u8]) -> BTreeMap<String, u64> {
    let lines = text.split(|&b| b == b'\n');
    let entries = lines.filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let number = line[colon + 1..].trim_ascii().strip_suffix(b" kB")?;
        Some((printable(&line[..colon]).into_owned(), text::unsigned(number.trim_ascii())?))
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::procfs::folder::Folder;
    use super::*;

    /// Linux 7.3.
    const ROLLUP: &[u8] = b"00400000-7ffc40aab000 ---p 00000000 00:00 0                              [rollup]
Rss:                1736 kB
Pss:                 440 kB
Pss_Dirty:           440 kB
AnonHugePages:         0 kB
Some_Future_Key:       7 kB
";

    #[test]
    fn every_key_the_kernel_prints_is_kept() {
        let expected = [("AnonHugePages", 0), ("Pss", 440), ("Pss_Dirty", 440), ("Rss", 1736), ("Some_Future_Key", 7)];
        assert_eq!(parse(ROLLUP), expected.map(|(key, kib)| (key.to_owned(), kib)).into());
    }

    /// The process's `Rss` with 409,600 resident bytes, and what was counted.
    fn rss(when: Smaps, kernel_thread: bool, rollup: Option<&[u8]>) -> (Option<u64>, Tally) {
        rss_of(Some(409_600), when, kernel_thread, rollup)
    }

    fn rss_of(
        resident_bytes: Option<u64>,
        when: Smaps,
        kernel_thread: bool,
        rollup: Option<&[u8]>,
    ) -> (Option<u64>, Tally) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("stat"), b"").unwrap();
        rollup.inspect(|text| std::fs::write(dir.path().join("smaps_rollup"), text).unwrap());
        let mut leader = ThreadState { kernel_thread, ..ThreadState::default() };
        let mut tally = Tally::default();
        let process = Process::new(7, Folder::open(dir.path()).unwrap());
        Rollups::new(when).read(&process, &mut leader, resident_bytes, &mut tally);
        (leader.smaps_rollup_kib.map(|map| map["Rss"]), tally)
    }

    #[test]
    fn a_process_over_the_limit_is_skipped_and_counted() {
        let limit = |max_rss_bytes| rss(Smaps::Auto { max_rss_bytes }, false, Some(ROLLUP));
        assert_eq!(limit(409_600).0, Some(1736));
        let (skipped, tally) = limit(409_599);
        assert_eq!((skipped, tally.smaps_skipped), (None, 1));
        assert_eq!(rss(Smaps::Always, false, Some(ROLLUP)).0, Some(1736));
        assert_eq!(rss(Smaps::Never, false, Some(ROLLUP)).0, None);
    }

    #[test]
    fn a_process_of_unknown_size_counts_as_small() {
        let (skipped, tally) = rss_of(None, Smaps::default(), false, Some(ROLLUP));
        assert_eq!((skipped, tally.smaps_skipped), (None, 1));
        assert_eq!(rss_of(None, Smaps::Always, false, Some(ROLLUP)).0, Some(1736));
    }

    #[test]
    fn a_kernel_thread_without_a_memory_map_is_not_a_failure() {
        let (none, tally) = rss(Smaps::Always, true, None);
        assert_eq!((none, tally.summary().read_failures), (None, 0));
        let (none, tally) = rss(Smaps::Always, false, None);
        assert_eq!((none, tally.summary().read_failures), (None, 1));
    }
}
