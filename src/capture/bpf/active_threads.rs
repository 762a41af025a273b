//! Samples only the threads that did something lately, and those that run.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::sample_program::{LISTED, OF_CPU};
use crate::model::ThreadSample;
use crate::sys::bpf::iterator;
use crate::sys::bpf::map::SharedWords;

/// For how long a thread is taken to be active after it did something.
const LATELY: Duration = Duration::from_secs(2);

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
}

impl ActiveThreads {
    pub(super) fn new(program: BorrowedFd<'_>, list: SharedWords) -> Result<Self, Errno> {
        let link = iterator::link(program, Some(std::process::id()))?;
        Ok(Self { link, list, of_cpus: BTreeSet::new(), active: HashMap::new() })
    }

    /// Whether the list has room for all of them.
    pub(super) fn fit(&self) -> bool {
        usize::try_from(LISTED).is_ok_and(|room| self.active.len() + self.of_cpus.len() < room)
    }

    /// Notes threads of a pass: those that did something since the one before, and those that tell which CPU is which.
    pub(super) fn note(&mut self, samples: &[ThreadSample], did_something: impl Fn(&ThreadSample) -> bool) {
        let now = Instant::now();
        self.active.retain(|_, at| now.saturating_duration_since(*at) < LATELY);
        self.active.extend(samples.iter().filter(|sample| did_something(sample)).map(|sample| (sample.tid, now)));
        let of_cpus = samples.iter().filter(|sample| sample.kernel_thread && sample.comm.starts_with(OF_EACH_CPU));
        self.of_cpus.extend(of_cpus.map(|sample| sample.tid));
    }

    /// Whether the passes since the last one over all threads have looked at a thread.
    pub(super) fn has(&self, tid: u32) -> bool {
        self.active.contains_key(&tid)
    }

    /// Writes the list, and runs the program.
    pub(super) fn run(&self) -> Result<(), Errno> {
        // Those that run come first: this is what changes soonest.
        let cpus = self.of_cpus.iter().map(|tid| tid | OF_CPU);
        let words = cpus.chain(self.active.keys().copied()).map(u64::from).chain([0]);
        (0..).zip(words).for_each(|(number, word)| self.list.set(number, word));
        iterator::read(iterator::open(self.link.as_fd())?, &mut [0; 64]).map(drop)
    }
}
