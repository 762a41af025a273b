//! Where in their code sampled threads sleep.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::bpf::sleep_check::SleepCheck;
use super::patient_reader::PatientReader;
use super::stack::stacks::{Sleeper, Stacks};
use crate::model::{KernelEntry, Name, ThreadSample};
use crate::process::{as_caller, lock};

/// Stacks that are read per pass, at most: each takes some 10 µs.
const MAX_STACKS: usize = 8;
/// How long the names of a window may take.
const PATIENCE_FOR_NAMES: Duration = Duration::from_millis(800);

/// Reads stacks in threads of their own: files and memory of a process can keep a reader waiting for any time. They read with
/// the rights of the caller alone: what others' stacks say is more than `ctprof` with file capabilities tells its users.
pub(super) struct SampledStacks {
    stacks: Arc<Mutex<Stacks>>,
    numbers: PatientReader<Sleeper, Option<u32>>,
    names: PatientReader<Vec<u32>, HashMap<u32, Name>>,
    /// Whether the next pass is the first one: it has all threads that sleep, most of them for long.
    is_first: bool,
    random: u64,
}

impl SampledStacks {
    pub(super) fn new(check: SleepCheck) -> Self {
        let stacks = Arc::new(Mutex::new(Stacks::new(check)));
        let [of_numbers, of_names] = [(); 2].map(|()| Arc::clone(&stacks));
        let number = move |sleeper| as_caller(|| lock(&of_numbers).number(&sleeper)).ok().flatten();
        let names = move |numbers: Vec<u32>| as_caller(|| lock(&of_names).names(&numbers)).unwrap_or_default();
        Self {
            stacks,
            numbers: PatientReader::new("ctprof-stacks", number),
            names: PatientReader::new("ctprof-code", names),
            is_first: true,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Adds the stacks of some of the `samples` that sleep in a system call or an exception. Which ones is left to chance: of
    /// those without a stack, the same part has each one.
    pub(super) fn add(&mut self, samples: &mut [ThreadSample]) {
        if std::mem::take(&mut self.is_first) {
            return;
        }
        let is_asleep = |sample: &ThreadSample| {
            let is_native = matches!(sample.entry, KernelEntry::SystemCall(..) | KernelEntry::Exception);
            is_native && sample.registers.is_some() && sample.tgid != std::process::id()
        };
        let mut places: Vec<_> = (0..samples.len()).filter(|&place| is_asleep(&samples[place])).collect();
        for chosen in 0..places.len().min(MAX_STACKS) {
            let other = self.below(places.len() - chosen);
            places.swap(chosen, chosen + other);
        }
        places.truncate(MAX_STACKS);
        let sleeper = |&place: &usize| {
            let ThreadSample { tid, tgid, switches, registers, .. } = samples[place];
            Some(Sleeper { tid, tgid, switches, registers: registers? })
        };
        let sleepers: Vec<_> = places.iter().filter_map(sleeper).collect();
        if !sleepers.is_empty() {
            let numbers = self.numbers.answers(sleepers).unwrap_or_default();
            places.into_iter().zip(numbers).for_each(|(place, number)| samples[place].code = number);
        }
    }

    /// The functions of stacks by number, as [`CodeFunction`](crate::model::CodeFunction) reads them.
    pub(super) fn names(&mut self, numbers: &BTreeSet<u32>) -> HashMap<u32, Name> {
        if numbers.is_empty() {
            return HashMap::new();
        }
        let numbers = vec![numbers.iter().copied().collect()];
        let names = self.names.answers_within(PATIENCE_FOR_NAMES, numbers);
        names.and_then(|names| names.into_iter().next()).unwrap_or_default()
    }

    /// Forgets all stacks, unless they are being read.
    pub(super) fn forget(&mut self) {
        self.is_first = true;
        if let Ok(mut stacks) = self.stacks.try_lock() {
            stacks.forget();
        }
    }

    /// CPU time that stacks have taken; `None` while they are being read.
    pub(super) fn used(&self) -> Option<Duration> {
        Some(self.stacks.try_lock().ok()?.used())
    }

    /// How many entries each map has that outlives a pass; none while they are being read.
    pub(super) fn entries(&self) -> Vec<(&'static str, usize)> {
        self.stacks.try_lock().map_or_else(|_| Vec::new(), |stacks| stacks.entries())
    }

    /// A number below another one (xorshift64).
    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % u64::try_from(end).unwrap_or(1).max(1)).unwrap_or(0)
    }
}
