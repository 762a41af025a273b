//! Samples only of threads that run, or did something lately.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::sample_program::{LISTED, OF_CPU};
use crate::model::ThreadSample;
use crate::sys::bpf::iterator;
use crate::sys::bpf::map::SharedWords;

/// Duration for which a thread counts as active after it did something.
const LATELY: Duration = Duration::from_secs(2);

/// New threads of one pass, at most.
const MAX_NEW: u32 = 512;

/// Threads whose switches are remembered. Others are active only while they do not sleep.
const MAX_KNOWN: usize = 1 << 18;

/// The kernel has a thread of this name on each CPU, which stays there.
const OF_EACH_CPU: &str = "ksoftirqd/";

/// A program that samples the threads of a list, and which threads those are.
pub(super) struct ActiveThreads {
    /// The kernel runs the program once, for a thread that lives as long as this one's process.
    link: OwnedFd,
    list: SharedWords,
    /// A kernel thread of each CPU.
    of_cpus: BTreeSet<u32>,
    /// When each thread was last sampled because it did something.
    active: HashMap<u32, Instant>,
    /// How often each thread had switched when it was last sampled.
    switches: HashMap<u32, u64>,
    /// `/proc/loadavg`, which ends with the id that was given out last, and that id.
    load: Option<File>,
    newest: u32,
}

impl ActiveThreads {
    pub(super) fn new(program: BorrowedFd<'_>, list: SharedWords) -> Result<Self, Errno> {
        let link = iterator::link(program, Some(std::process::id()))?;
        let load = File::open("/proc/loadavg").ok();
        let (of_cpus, active, switches) = (BTreeSet::new(), HashMap::new(), HashMap::new());
        let mut threads = Self { link, list, of_cpus, active, switches, load, newest: 0 };
        // From here on.
        threads.new_ids();
        Ok(threads)
    }

    /// The number of threads.
    pub(super) fn entries(&self) -> usize {
        self.of_cpus.len() + self.active.len() + self.switches.len()
    }

    /// Returns true if the list has room for all active threads.
    pub(super) fn fit(&self) -> bool {
        usize::try_from(LISTED - MAX_NEW).is_ok_and(|most| self.active.len() + self.of_cpus.len() < most)
    }

    /// Notes the active threads of a pass, which did something since their previous sample, and the threads that tell which CPU
    /// is which.
    pub(super) fn note(&mut self, samples: &[ThreadSample]) {
        let now = Instant::now();
        self.active.retain(|_, at| now.saturating_duration_since(*at) < LATELY);
        for sample in samples {
            // Two that share a slot of the filter are sampled in all passes, also if they sleep on.
            let before = self.switches.get(&sample.tid).copied();
            if before.is_some() || self.switches.len() < MAX_KNOWN {
                self.switches.insert(sample.tid, sample.switches);
            }
            if !sample.activity.is_sleep() || before.is_some_and(|before| before != sample.switches) {
                self.active.insert(sample.tid, now);
            }
            if sample.kernel_thread && sample.comm.starts_with(OF_EACH_CPU) {
                self.of_cpus.insert(sample.tid);
            }
        }
    }

    /// Forgets all threads but active ones: the next pass has all.
    pub(super) fn forget(&mut self) {
        if self.switches.len() == MAX_KNOWN {
            tracing::info!("more than {MAX_KNOWN} threads: others are sampled only in passes over all threads");
        }
        (self.switches, self.of_cpus) = (HashMap::new(), BTreeSet::new());
    }

    /// Whether the passes since the last one over all threads have looked at a thread.
    pub(super) fn has(&self, tid: u32) -> bool {
        self.active.contains_key(&tid)
    }

    /// Writes the list, and runs the program.
    pub(super) fn run(&mut self) -> Result<(), Errno> {
        let new = self.new_ids();
        // Those that run come first: this is what changes soonest.
        let cpus = self.of_cpus.iter().map(|tid| tid | OF_CPU);
        let words = cpus.chain(self.active.keys().copied()).chain(new).map(u64::from).chain([0]);
        (0..).zip(words).for_each(|(number, word)| self.list.set(number, word));
        iterator::read(iterator::open(self.link.as_fd())?, &mut [0; 64]).map(drop)
    }

    /// The ids that were given out since the pass before: new threads also wait where the sampler runs.
    fn new_ids(&mut self) -> RangeInclusive<u32> {
        let mut text = [0; 128];
        let length = self.load.as_ref().and_then(|load| load.read_at(&mut text, 0).ok()).unwrap_or(0);
        let newest = text[..length].trim_ascii().rsplit(|&byte| byte == b' ').next();
        let newest = newest.and_then(|id| str::from_utf8(id).ok()?.parse().ok()).unwrap_or(0);
        // After the largest id, small ones are given out again.
        let before = Some(std::mem::replace(&mut self.newest, newest)).filter(|&before| before > 0 && before <= newest);
        before.map_or(newest, |before| before + 1).max(newest.saturating_sub(MAX_NEW - 2))..=newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::bpf::samples::BpfSampler;
    use crate::model::{Activity, ThreadSample};
    use crate::skip::{Missing, skipped};

    /// The active threads of a sampler; `None` prints why the test is skipped.
    fn active_threads() -> Option<ActiveThreads> {
        let sampler = BpfSampler::load().map_err(|no_bpf| skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))));
        let active = sampler.ok()?.active;
        active.is_none().then(|| skipped(Missing::Kernel("to find threads by their ids (Linux 6.7)")));
        active
    }

    #[test]
    fn a_thread_that_is_sampled_again_in_the_same_sleep_is_not_active() {
        let Some(mut threads) = active_threads() else { return };
        let asleep = ThreadSample { tid: 1, activity: Activity::Asleep, switches: 5, ..ThreadSample::default() };
        threads.note(&[asleep.clone(), asleep.clone()]);
        assert!(!threads.has(1));
        threads.note(&[ThreadSample { switches: 6, ..asleep }]);
        assert!(threads.has(1));
    }

    #[test]
    fn new_ids_are_those_of_threads_that_started_since() {
        let Some(mut threads) = active_threads() else { return };
        threads.new_ids();
        let started = std::thread::spawn(|| nix::unistd::gettid().as_raw().cast_unsigned()).join().unwrap();
        let (new, later) = (threads.new_ids(), threads.new_ids());
        assert!(new.contains(&started) && new.clone().count() < 100 && !later.contains(&started), "{new:?} {later:?}");
    }
}
