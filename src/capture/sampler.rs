//! Samplers of threads, and the meaning of their samples.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::time::Duration;

use nix::errno::Errno;

use super::bpf::samples::BpfSampler;
use super::error::finding_without_bpf;
use super::mutex_owners::MutexOwners;
use super::options::{CodeSampling, Engine, Options, Tree};
use super::procfs::directory::ProcDirectory;
use super::procfs::samples::ProcfsSampler;
use super::procfs::wait_functions::WaitFunctions;
use super::running::RunningSampler;
use super::sampled_stacks::SampledStacks;
use crate::diagnose::fix_of_descriptors;
use crate::model::{Activity, BpfObstacle, KernelEntry, Name, PassScope, RunSample, Sampling, ThreadEnd, ThreadSample};

/// Starts to sample what runs; says why that is not possible.
fn start_running() -> Option<RunningSampler> {
    RunningSampler::start()
        .inspect_err(|errno| {
            let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let is_paranoid = paranoid.is_ok_and(|level| level.trim().parse().is_ok_and(|level: i32| level > 2));
            let fix = match errno {
                // Of Debian and Ubuntu: only CAP_SYS_ADMIN is enough then, which ctprof has dropped.
                Errno::EACCES | Errno::EPERM if is_paranoid => ": sudo sysctl kernel.perf_event_paranoid=2",
                Errno::EACCES | Errno::EPERM => ": blocked by an LSM, seccomp or lockdown",
                Errno::EMFILE => &fix_of_descriptors(*errno),
                Errno::ENFILE | Errno::ENOMEM => "",
                _ => ": this kernel has no perf events of the CPU's clock",
            };
            tracing::warn!("--on-cpu: CPUs cannot be sampled ({errno}){fix}");
        })
        .ok()
}

/// Sampler of threads, one pass at a time: of all threads by BPF, or by procfs of threads that the caller may trace.
pub struct ThreadSampler {
    bpf: Option<Box<BpfSampler>>,
    /// Sampler that reads procfs, used without BPF.
    procfs: ProcfsSampler,
    mutex_owners: MutexOwners,
    /// Numbers of functions by `wchan`, used with BPF if no program may name functions of the kernel.
    wait_functions: WaitFunctions,
    /// `None` if stacks are not wanted, or if the kernel has no BPF programs that find threads by their ids.
    stacks: Option<SampledStacks>,
    /// Why there are no stacks; `None` if there are, or if BPF was not wanted.
    no_stacks: Option<&'static str>,
}

/// Files `wchan` that are read per pass and state, at most: each takes some 5 µs. A pass over all threads has a sample of each.
const MAX_WCHANS: usize = 1024;

/// Reason for the lack of stacks: no program can ask whether a thread still sleeps when its stack has been read.
const NO_THREADS_BY_ID: &str = "BPF programs can ask whether a thread still sleeps since Linux 6.10";
const NO_BPF_SAMPLES: &str = "threads are sampled without BPF";

/// Why threads cannot be sampled.
#[derive(Debug, thiserror::Error)]
#[error("no samples: {0}")]
pub struct NoSamples(String);

impl NoSamples {
    /// Because of an error.
    pub fn because(error: &dyn std::error::Error) -> Self {
        Self(error.to_string())
    }
}

impl ThreadSampler {
    /// Loads what is needed, with the capabilities that this needs.
    ///
    /// # Errors
    /// [`NoSamples`] if threads cannot be sampled here.
    pub fn load(options: &Options) -> Result<Self, NoSamples> {
        let tree = options.roots.tree();
        if tree == Tree::Elsewhere {
            return Err(NoSamples(finding_without_bpf(&BpfObstacle::NotLive.into()).to_string()));
        }
        let mut bpf = match options.engine {
            Engine::Procfs => None,
            _ if tree == Tree::OtherIds => None,
            _ => BpfSampler::load().inspect_err(|no_bpf| tracing::info!("{}", finding_without_bpf(no_bpf))).ok(),
        };
        let procfs = ProcDirectory::open(&options.roots.procfs).map_err(|errno| NoSamples::because(&errno))?;
        let is_wanted = options.code != CodeSampling::Never;
        let check = bpf.as_mut().filter(|_| is_wanted).and_then(BpfSampler::take_check);
        let wants_running = options.code == CodeSampling::WaitsAndRuns;
        if wants_running && check.is_none() {
            tracing::warn!("--on-cpu: CPUs are not sampled, since stacks cannot be read; `ctprof doctor` says why");
        }
        let stacks = check.map(|check| {
            let running = wants_running.then(start_running).flatten();
            SampledStacks::new(check, options.pids.clone(), running)
        });
        let no_stacks = match (is_wanted, &bpf) {
            (false, _) => Some(Sampling::STACKS_NOT_WANTED),
            (true, Some(_)) => Some(NO_THREADS_BY_ID).filter(|_| stacks.is_none()),
            (true, None) => Some(NO_BPF_SAMPLES).filter(|_| options.engine != Engine::Procfs),
        };
        let (procfs, mutex_owners, wait_functions) =
            (ProcfsSampler::new(procfs), MutexOwners::new(), WaitFunctions::default());
        Ok(Self { bpf: bpf.map(Box::new), procfs, mutex_owners, wait_functions, stacks, no_stacks })
    }

    /// Returns the source of the samples, as files name it.
    pub fn source(&self) -> &'static str {
        if self.bpf.is_some() { "bpf" } else { "procfs" }
    }

    /// The least that a pass can sample.
    pub fn narrowest_scope(&self) -> PassScope {
        self.bpf.as_ref().map_or(PassScope::All, |bpf| bpf.narrowest_scope())
    }

    /// Adds the samples of a pass, and returns how many were lost.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn pass(&mut self, scope: PassScope, samples: &mut Vec<ThreadSample>) -> Result<u64, Errno> {
        match self.bpf.as_mut().map(|bpf| bpf.pass(scope, samples)) {
            // Before Linux 5.19, each pass needs the capabilities that only loading has.
            Some(Err(Errno::EPERM)) => {
                tracing::info!("this kernel samples by BPF only with the capabilities that ctprof has dropped");
                self.bpf = None;
            }
            Some(by_bpf) => {
                self.replace_stacks(samples);
                return by_bpf;
            }
            None => {}
        }
        self.procfs.pass(samples).map(|()| 0)
    }

    /// Where BPF cannot name functions of the kernel, replaces the stacks of the first samples by the function that procfs names.
    /// Blocked threads come first.
    fn replace_stacks(&mut self, samples: &mut [ThreadSample]) {
        if self.bpf.as_ref().is_none_or(|bpf| !bpf.has_no_names()) {
            return;
        }
        samples.iter_mut().for_each(|sample| sample.stack.clear());
        for activity in [Activity::Blocked, Activity::Asleep] {
            let some = samples.iter_mut().filter(|sample| sample.activity == activity).take(MAX_WCHANS);
            for sample in some {
                let wchan = fs::read(format!("/proc/{}/task/{}/wchan", sample.tgid, sample.tid)).unwrap_or_default();
                sample.stack.extend(self.wait_functions.number(&wchan));
            }
        }
    }

    /// Threads that the last pass did not find any more, where passes find all that live. When they exited is unknown.
    pub fn take_ends(&mut self) -> Vec<ThreadEnd> {
        if self.bpf.is_some() { Vec::new() } else { self.procfs.take_ends() }
    }

    /// The processes whose threads may not be looked into, and are in no sample.
    pub fn unread(&self) -> HashSet<u32> {
        if self.bpf.is_some() { HashSet::new() } else { self.procfs.denied().clone() }
    }

    /// Adds the owners of the mutexes that `samples` wait for, by the address that each has.
    pub fn add_owners(&mut self, samples: &mut [ThreadSample], mutex: fn(KernelEntry) -> Option<u64>) {
        self.mutex_owners.add(samples, mutex);
    }

    /// Adds where in their code some of the threads sleep, as numbers that [`stacks`](Self::stacks) knows.
    pub fn add_stacks(&mut self, samples: &mut [ThreadSample]) {
        self.stacks.iter_mut().for_each(|stacks| stacks.add(samples));
    }

    /// Returns what the CPUs ran since the last call, and the time for which each sample stands. Nothing without `--on-cpu`.
    pub fn running(&mut self) -> (Vec<RunSample>, Duration) {
        self.stacks.as_mut().map_or_else(Default::default, SampledStacks::running)
    }

    /// The functions of programs in these stacks, as [`CodeFunction`](crate::model::CodeFunction) reads them, and why there are
    /// none.
    pub fn stacks(&mut self, numbers: &BTreeSet<u32>) -> (HashMap<u32, Name>, Option<&'static str>) {
        (self.stacks.as_mut().map_or_else(HashMap::new, |stacks| stacks.names(numbers)), self.no_stacks)
    }

    /// CPU time that stacks have taken so far, in threads of their own; while they are being read, what is known of it.
    pub fn time_of_stacks(&mut self) -> Duration {
        self.stacks.as_mut().map_or(Duration::ZERO, SampledStacks::used)
    }

    /// Makes the next pass sample all threads, including threads that sleep on.
    pub fn forget(&mut self) {
        self.stacks.iter_mut().for_each(SampledStacks::forget);
        match &mut self.bpf {
            Some(bpf) => {
                bpf.forget();
                self.wait_functions.forget();
            }
            None => self.procfs.forget(),
        }
    }

    /// How many entries each map has that outlives a pass.
    pub fn entries(&self) -> Vec<(&'static str, usize)> {
        let mut entries = self.bpf.as_ref().map_or_else(|| self.procfs.entries(), |bpf| bpf.entries());
        self.stacks.iter().for_each(|stacks| entries.extend(stacks.entries()));
        entries
    }

    /// The functions of the kernel that these addresses are in, and why there are none.
    pub fn functions(&mut self, addresses: &BTreeSet<u64>) -> (HashMap<u64, Name>, Option<String>) {
        match &mut self.bpf {
            Some(bpf) if bpf.has_no_names() && self.wait_functions.entries() > 0 => (self.wait_functions.names(), None),
            Some(bpf) => bpf.functions(addresses),
            None => (self.procfs.functions(), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn where_no_program_may_name_functions_procfs_does_for_sampled_threads() {
        let Ok(mut sampler) = ThreadSampler::load(&Options::default()) else { return };
        let Some(bpf) = sampler.bpf.as_mut() else { return };
        bpf.refuse_names();
        let mut sleep = Command::new("sleep").arg("100").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let mut samples = Vec::new();
        sampler.pass(PassScope::All, &mut samples).unwrap();
        let sample = samples.iter().find(|sample| sample.tid == sleep.id()).unwrap();
        let (functions, why) = sampler.functions(&BTreeSet::new());
        let names: Vec<_> = sample.stack.iter().map(|number| &*functions[number]).collect();
        assert!(matches!(names[..], [name] if name.contains("nanosleep")), "{names:?}");
        assert_eq!(why, None);
        sleep.kill().and_then(|()| sleep.wait()).unwrap();
    }
}
