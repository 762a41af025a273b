//! `smaps_rollup`: a process's memory by kind, within a budget.

use std::collections::BTreeMap;
use std::time::Instant;

use nix::errno::Errno;

use super::super::procfs::folder::Folder;
use super::super::procfs::tally::{File, Tally};
use super::super::procfs::task::Read;
use super::super::procfs::text;
use crate::model::printable;

/// When `smaps_rollup` is read. The kernel walks every page table of the process for it, and the
/// process's page faults wait meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Smaps {
    /// Of processes whose resident set is at most so many bytes.
    Auto {
        /// The limit.
        max_rss_bytes: u64,
    },
    /// Of every process.
    Always,
    /// Of none.
    Never,
}

impl Smaps {
    /// The limit that [`Smaps::default`] has: 32 GiB.
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

/// Reads the process's `smaps_rollup` onto its leader, if the budget allows. A kernel thread has
/// no memory map, nor has a process that is about to be reaped.
pub(in crate::capture) fn read(smaps: Smaps, page_size: u64, process: &Folder, leader: &mut Read, tally: &mut Tally) {
    let thread = &mut leader.thread;
    if thread.kernel_thread || matches!(thread.metrics.state, Some('Z' | 'X')) {
        return;
    }
    match smaps {
        Smaps::Never => return,
        Smaps::Auto { max_rss_bytes } if leader.rss_pages.saturating_mul(page_size) > max_rss_bytes => {
            tally.smaps_skipped += 1;
            return;
        }
        _ => {}
    }
    let begin = Instant::now();
    match process.read(File::SmapsRollup.name(), &mut Vec::new()) {
        // It has ended, or has let go of its memory on the way out.
        Err(Errno::ESRCH) => {}
        Err(Errno::ENOENT) if !process.has(File::Stat.name()) => {}
        Err(errno) => tally.failed(File::SmapsRollup, errno),
        Ok(text) => thread.smaps_rollup_kib = Some(parse(text)).filter(|map| !map.is_empty()),
    }
    tally.smaps_time += begin.elapsed();
}

/// Lines of `key: number kB`; the first line, an address range, is none.
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
    use super::*;
    use crate::model::ThreadState;

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

    fn reading(smaps: Smaps, kernel_thread: bool, rollup: Option<&[u8]>) -> (Option<u64>, Tally) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("stat"), b"").unwrap();
        rollup.inspect(|text| std::fs::write(dir.path().join("smaps_rollup"), text).unwrap());
        let thread = ThreadState { kernel_thread, ..ThreadState::default() };
        let mut leader = Read { thread, rss_pages: 100 };
        let mut tally = Tally::default();
        read(smaps, 4096, &Folder::open(dir.path()).unwrap(), &mut leader, &mut tally);
        (leader.thread.smaps_rollup_kib.map(|map| map["Rss"]), tally)
    }

    #[test]
    fn a_process_over_the_budget_is_skipped_and_counted() {
        let limit = |max_rss_bytes| reading(Smaps::Auto { max_rss_bytes }, false, Some(ROLLUP));
        assert_eq!(limit(409_600).0, Some(1736));
        let (skipped, tally) = limit(409_599);
        assert_eq!((skipped, tally.smaps_skipped), (None, 1));
        assert_eq!(reading(Smaps::Always, false, Some(ROLLUP)).0, Some(1736));
        assert_eq!(reading(Smaps::Never, false, Some(ROLLUP)).0, None);
    }

    #[test]
    fn a_kernel_thread_has_no_memory_map_and_that_is_no_failure() {
        let (none, tally) = reading(Smaps::Always, true, None);
        assert_eq!((none, tally.summary().read_failures), (None, 0));
        let (none, tally) = reading(Smaps::Always, false, None);
        assert_eq!((none, tally.summary().read_failures), (None, 1));
    }
}
