//! Where in their code sampled threads sleep.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::bpf::sleep_check::SleepCheck;
use super::patient_reader::PatientReader;
use super::running::RunningSampler;
use super::stack::stacks::{RunningThread, Sleeper, Stacks};
use crate::model::{KernelEntry, Name, RunSample, ThreadSample};
use crate::process::{as_caller, lock};

/// Threads whose stacks are looked for in a pass, at most: reading one takes some 10 µs.
const MAX_STACKS: usize = 8;
/// Sleeps whose stacks are remembered, at most.
const MAX_KNOWN: usize = 1 << 15;
/// How long the names of a window may take.
const PATIENCE_FOR_NAMES: Duration = Duration::from_millis(800);

/// Reads the stacks of some threads, with the rights of the caller.
fn numbers<T>(
    stacks: Arc<Mutex<Stacks>>,
    number: fn(&mut Stacks, &T) -> Option<u32>,
) -> impl Fn(Vec<T>) -> Vec<Option<u32>> {
    move |threads| {
        let read = || {
            let mut stacks = lock(&stacks);
            threads.iter().map(|thread| number(&mut stacks, thread)).collect()
        };
        as_caller(read).unwrap_or_default()
    }
}

/// Reads stacks in threads of their own: files and memory of a process can keep a reader waiting for any time. They read with
/// the rights of the caller alone: what others' stacks say is more than `ctprof` with file capabilities tells its users.
pub(super) struct SampledStacks {
    stacks: Arc<Mutex<Stacks>>,
    /// Only threads of these processes have stacks, if there are any.
    pids: Vec<u32>,
    numbers: PatientReader<Vec<Sleeper>, Vec<Option<u32>>>,
    /// Sampler of running threads; `None` without `--on-cpu`.
    running: Option<RunningSampler>,
    numbers_of_running: PatientReader<Vec<RunningThread>, Vec<Option<u32>>>,
    names: PatientReader<Vec<u32>, HashMap<u32, Name>>,
    /// True if the next pass is the first one: it has all sleeping threads, and most sleep for long.
    is_first: bool,
    random: u64,
    /// Last sleep whose stack was read, with that stack, by thread. The stack stays the same as long as the thread sleeps.
    last_sleeps: HashMap<u32, (Sleeper, u32)>,
    used: Duration,
}

impl SampledStacks {
    pub(super) fn new(check: SleepCheck, pids: Vec<u32>, running: Option<RunningSampler>) -> Self {
        let stacks = Arc::new(Mutex::new(Stacks::new(check)));
        let [of_numbers, of_running, of_names] = [(); 3].map(|()| Arc::clone(&stacks));
        let names = move |numbers: Vec<u32>| as_caller(|| lock(&of_names).names(&numbers)).unwrap_or_default();
        Self {
            stacks,
            pids,
            numbers: PatientReader::new("ctprof-stacks", numbers(of_numbers, Stacks::number)),
            running,
            numbers_of_running: PatientReader::new("ctprof-running", numbers(of_running, Stacks::number_of_running)),
            names: PatientReader::new("ctprof-code", names),
            is_first: true,
            random: 0x9e37_79b9_7f4a_7c15,
            last_sleeps: HashMap::new(),
            used: Duration::ZERO,
        }
    }

    /// Adds the stacks of some of the `samples` that sleep in a system call or an exception. Which ones is left to chance: of
    /// those without a stack, the same part has each one.
    pub(super) fn add(&mut self, samples: &mut [ThreadSample]) {
        if std::mem::take(&mut self.is_first) {
            return;
        }
        let mut asleep: Vec<_> =
            samples.iter_mut().filter_map(|sample| Some((self.sleeper(sample)?, sample))).collect();
        for chosen in 0..asleep.len().min(MAX_STACKS) {
            let other = self.below(asleep.len() - chosen);
            asleep.swap(chosen, chosen + other);
        }
        asleep.truncate(MAX_STACKS);
        asleep.retain_mut(|(sleeper, sample)| {
            sample.code =
                self.last_sleeps.get(&sleeper.tid).filter(|(last, _)| last == sleeper).map(|(_, number)| *number);
            sample.code.is_none()
        });
        if asleep.is_empty() {
            return;
        }
        let unread = asleep.iter().map(|(sleeper, _)| *sleeper).collect();
        let numbers = self.numbers.answers(vec![unread]).and_then(|numbers| numbers.into_iter().next());
        for ((sleeper, sample), number) in asleep.into_iter().zip(numbers.unwrap_or_default()) {
            sample.code = number;
            let has_room = self.last_sleeps.len() < MAX_KNOWN || self.last_sleeps.contains_key(&sleeper.tid);
            if let Some(number) = number.filter(|_| has_room) {
                self.last_sleeps.insert(sleeper.tid, (sleeper, number));
            }
        }
    }

    /// The thread of a sample, if it sleeps in a system call or an exception and its stack is wanted.
    fn sleeper(&self, sample: &ThreadSample) -> Option<Sleeper> {
        let ThreadSample { tid, tgid, switches, registers, .. } = *sample;
        let is_native = matches!(sample.entry, KernelEntry::SystemCall(..) | KernelEntry::Exception);
        let is_wanted = is_native && self.has(tgid);
        Some(Sleeper { tid, tgid, switches, registers: registers.filter(|_| is_wanted)? })
    }

    /// Whether stacks of a process are wanted.
    fn has(&self, tgid: u32) -> bool {
        tgid != std::process::id() && (self.pids.is_empty() || self.pids.contains(&tgid))
    }

    /// Returns what the CPUs ran since the last call, as far as the stacks can be read, and the time for which each sample
    /// stands.
    pub(super) fn running(&mut self) -> (Vec<RunSample>, Duration) {
        let Some(running) = &mut self.running else { return Default::default() };
        let (period, mut threads) = (running.period, running.take());
        threads.retain(|thread| self.has(thread.tgid));
        if threads.is_empty() {
            return (Vec::new(), period);
        }
        let of: Vec<_> = threads.iter().map(|thread| (thread.tid, thread.tgid)).collect();
        let numbers = self.numbers_of_running.answers(vec![threads]).and_then(|numbers| numbers.into_iter().next());
        let numbered = of.into_iter().zip(numbers.unwrap_or_default());
        (numbered.filter_map(|((tid, tgid), code)| Some(RunSample { tid, tgid, code: code? })).collect(), period)
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
        self.last_sleeps.clear();
        // What ran before the window is not of it.
        self.running.iter_mut().for_each(|running| drop(running.take()));
        if let Ok(mut stacks) = self.stacks.try_lock() {
            stacks.forget();
        }
    }

    /// CPU time that stacks have taken. While they are being read, what is known of it.
    pub(super) fn used(&mut self) -> Duration {
        if let Ok(stacks) = self.stacks.try_lock() {
            self.used = stacks.used();
        }
        self.used
    }

    /// How many entries each map has that outlives a pass; none while they are being read.
    pub(super) fn entries(&self) -> Vec<(&'static str, usize)> {
        let sleepers = ("threads with stacks", self.last_sleeps.len());
        self.stacks.try_lock().map_or_else(|_| Vec::new(), |stacks| [stacks.entries(), vec![sleepers]].concat())
    }

    /// A number below another one (xorshift64).
    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % u64::try_from(end).unwrap_or(1).max(1)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread::sleep;

    use super::super::bpf::samples::BpfSampler;
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn what_cpus_ran_before_a_window_is_not_of_it() {
        let check = BpfSampler::load().ok().and_then(|mut sampler| sampler.take_check());
        let (Some(check), Ok(running)) = (check, RunningSampler::start()) else {
            return skipped(Missing::Privilege("BPF, and perf events of all CPUs"));
        };
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        let mut stacks = SampledStacks::new(check, vec![child.id()], Some(running));
        let until_sampled = (0..100).find(|_| {
            sleep(Duration::from_millis(100));
            !stacks.running().0.is_empty()
        });
        sleep(Duration::from_millis(500));
        // From here on, it does not run.
        child.kill().unwrap();
        child.wait().unwrap();
        stacks.forget();
        let (later, _) = stacks.running();
        assert!(until_sampled.is_some() && later.is_empty(), "{until_sampled:?}, then {}", later.len());
    }
}
