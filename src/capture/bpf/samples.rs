//! Samples of all threads, by a BPF program.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

use super::super::cgroup_ids::Hierarchies;
use super::super::thread_flags::{PF_EXITING, PF_KTHREAD};
use super::active_threads::ActiveThreads;
use super::assemble::Assembled;
use super::cgroup_fields::{CgroupFields, of_mounted};
use super::change_filter::slots_of_host;
use super::columns;
use super::function_names::FunctionNames;
use super::layout::{Field, Layout, ThreadRecord};
use super::load::{Attach, ProgramSpec, load};
use super::name_cache::NameCache;
use super::obstacle;
use super::program::{Emitter, TaskWalk};
use super::record_ring::RecordRing;
use super::sample_program::{
    CODE, EXTRA_WORDS, FRAMES, LISTED, ListedThreads, OWNER, STACK, STACK_BYTES, SampleMaps, SampledKernel,
    USER_REGISTERS,
};
use super::setup::with_kernel;
use super::sleep_check::{self, SleepCheck};
use super::thread_walk::ThreadWalk;
use crate::model::{Activity, CODE_REGISTERS, KernelEntry, NS_PER_TICK, Name, NoBpf, PassScope, ThreadSample};
use crate::sys::bpf::iterator;
use crate::sys::bpf::map::SharedWords;

/// Room for 25,000 samples, or 20,000 where each controller has a hierarchy of its own.
const RING_BYTES: u32 = 8 << 20;
/// How often a pass runs the program, at most, until all samples have had room.
const MAX_RUNS: u32 = 16;

/// Loaded programs that sample threads.
pub(in crate::capture) struct BpfSampler {
    walk: ThreadWalk,
    /// `None` for a kernel that finds no threads by their ids.
    pub(super) active: Option<ActiveThreads>,
    ring: RecordRing,
    /// In which sleep each thread was written.
    filter: SharedWords,
    fields: SampleFields,
    /// Or why functions have no names.
    functions: Result<FunctionNames, NoBpf>,
    check: Option<SleepCheck>,
}

impl BpfSampler {
    pub(in crate::capture) fn load() -> Result<Self, NoBpf> {
        Self::with_ring(RING_BYTES)
    }

    fn with_ring(bytes: u32) -> Result<Self, NoBpf> {
        with_kernel(|btf, kernel| {
            let ring = RecordRing::new(bytes).map_err(obstacle::of_errno)?;
            let sampled = SampledKernel::find(btf, kernel.task, slots_of_host());
            let filter = SharedWords::new(sampled.filter.words()).map_err(obstacle::of_errno)?;
            let list = SharedWords::new(LISTED).map_err(obstacle::of_errno)?;
            let [of_ring, lost] = ring.maps();
            let maps = SampleMaps { ring: of_ring, lost, filter: filter.map.as_raw_fd(), list: list.map.as_raw_fd() };
            let mut layout =
                Layout::resolve(btf, kernel.task, of_mounted(&Hierarchies::of_this_host(), columns::samples()));
            let by_iterator = (Attach::Iterator, kernel.iterator.0);
            let mut load_with = |(attach, btf_id), emit: &dyn Fn(Emitter<'_>) -> Assembled| {
                let spec = ProgramSpec { name: "ctprof_samples", attach, btf_id };
                load(&spec, &mut layout, |layout| emit(Emitter { kernel, layout }))
            };
            let iterator = load_with(by_iterator, &|emitter| emitter.sampler(TaskWalk::Iterator, &sampled, maps))?;
            let program = TaskWalk::open_coded(btf).and_then(|walk| {
                load_with((Attach::Nowhere, 0), &|emitter| emitter.sampler(walk, &sampled, maps)).ok()
            });
            let walk = ThreadWalk::new(&iterator, program, 0).map_err(obstacle::of_errno)?;
            let refused = |no_bpf: &NoBpf| tracing::info!("threads are not found by their ids: {:?}", no_bpf.detail);
            let listed = ListedThreads::find(btf, kernel.task);
            let check = listed.as_ref().zip(sleep_check::fields(btf, kernel.task));
            let check = check.zip(SharedWords::new(1).ok()).and_then(|((threads, fields), word)| {
                let program = load_with((Attach::SystemCall, 0), &|_| sleep_check::program(threads, &fields, &word));
                Some(SleepCheck::new(program.inspect_err(refused).ok()?, word))
            });
            let program = listed.and_then(|threads| {
                let emit = |emitter: Emitter<'_>| emitter.listed_sampler(&threads, &sampled, maps);
                load_with(by_iterator, &emit).inspect_err(refused).ok()
            });
            let active = program.and_then(|program| ActiveThreads::new(program.as_fd(), list).ok());
            let fields = SampleFields::new(&layout);
            let functions = FunctionNames::load(btf, kernel);
            Ok(Self { walk, active, ring, filter, fields, functions, check })
        })
    }

    /// The least that a pass can sample.
    pub(in crate::capture) fn narrowest_scope(&self) -> PassScope {
        let fits = self.active.as_ref().is_some_and(ActiveThreads::fit);
        if fits { PassScope::Active } else { PassScope::All }
    }

    /// Adds the samples of one pass to `samples`, and returns how many had no room.
    pub(in crate::capture) fn pass(&mut self, scope: PassScope, samples: &mut Vec<ThreadSample>) -> Result<u64, Errno> {
        let from = samples.len();
        let mut lost = self.run_once(scope, samples)?;
        // What had no room is written in the next run.
        let mut runs = 1;
        while lost > 0 && runs < MAX_RUNS {
            lost = self.run_once(scope, samples)?;
            runs += 1;
        }
        if scope == PassScope::Active && samples.len() == from {
            // They have the calling thread at least.
            self.active = None;
            return self.pass(PassScope::All, samples);
        }
        // One that is listed and runs is written twice, and one that does not sleep in each run.
        let mut seen_threads = HashSet::new();
        let pass = samples.split_off(from);
        samples.extend(pass.into_iter().filter(|sample| seen_threads.insert(sample.tid)));
        if let Some(active) = &mut self.active {
            if scope == PassScope::All {
                samples[from..].iter_mut().for_each(|sample| sample.rarely_sampled = !active.has(sample.tid));
            }
            active.note(&samples[from..]);
        }
        Ok(lost)
    }

    fn run_once(&mut self, scope: PassScope, samples: &mut Vec<ThreadSample>) -> Result<u64, Errno> {
        match &mut self.active {
            Some(active) if scope == PassScope::Active => active.run()?,
            _ if self.walk.run_program()? => {}
            _ => while iterator::read(self.walk.open()?, &mut [0; 64])? > 0 {},
        }
        let before = samples.len();
        let fields = &mut self.fields;
        let lost = self.ring.take(|record| samples.extend(fields.sample(record)));
        if scope == PassScope::All {
            self.walk.end_pass(samples.len() - before);
        }
        // The filter takes the threads of records that were skipped for written: the next run has to write them again.
        Ok(lost.unwrap_or_else(|_| {
            self.write_all_again();
            1
        }))
    }

    /// The functions of the kernel that these addresses are in, and why there are none.
    pub(in crate::capture) fn functions(&mut self, addresses: &BTreeSet<u64>) -> (HashMap<u64, Name>, Option<String>) {
        let names = self.functions.as_mut().map(|names| names.functions_of(addresses));
        match names {
            Ok(Ok(names)) if names.is_empty() && !addresses.is_empty() => {
                (names, Some("kernel lacks CONFIG_KALLSYMS".to_owned()))
            }
            Ok(Ok(names)) => (names, None),
            Ok(Err(errno)) => (HashMap::new(), Some(errno.to_string())),
            Err(no_bpf) => (HashMap::new(), Some(no_bpf.to_string())),
        }
    }

    /// Whether nothing can name functions of the kernel: a security module refuses the program that does.
    pub(in crate::capture) fn has_no_names(&self) -> bool {
        self.functions.is_err()
    }

    /// Program that asks once whether a thread still sleeps; `None` for a kernel on which a program that is called once finds no thread by
    /// its id (before Linux 6.10).
    pub(in crate::capture) fn take_check(&mut self) -> Option<SleepCheck> {
        self.check.take()
    }

    /// How many entries each map has that outlives a pass.
    pub(in crate::capture) fn entries(&self) -> Vec<(&'static str, usize)> {
        let names = self.fields.name_cache.entries();
        let functions = self.functions.as_ref().map_or(0, FunctionNames::entries);
        let threads = self.active.as_ref().map_or(0, ActiveThreads::entries);
        vec![("sampled threads", threads), ("sampled names", names), ("functions", functions)]
    }

    /// Makes the next pass sample all threads, and forgets what is no longer used.
    pub(in crate::capture) fn forget(&mut self) {
        self.write_all_again();
        self.fields.name_cache.forget();
        self.functions.iter_mut().for_each(FunctionNames::forget);
        self.active.iter_mut().for_each(ActiveThreads::forget);
    }

    /// Makes the next pass write all threads.
    fn write_all_again(&mut self) {
        self.filter.clear();
        self.walk.forget();
    }
}

/// Where records have what samples need.
pub(super) struct SampleFields {
    /// Number of words before the ones that are not fields.
    words: usize,
    /// In the order of [`columns::OF_SAMPLES`].
    numbers: [Option<Field>; columns::OF_SAMPLES.len()],
    names: [Option<Field>; 2],
    cgroups: CgroupFields,
    name_cache: NameCache,
}

impl SampleFields {
    pub(super) fn new(layout: &Layout) -> Self {
        Self {
            words: layout.words(super::layout::RecordScope::Thread),
            numbers: columns::OF_SAMPLES.map(|path| layout.find(path)),
            names: [columns::COMM, columns::PROCESS_NAME].map(|path| layout.find(path)),
            cgroups: CgroupFields::find(layout),
            name_cache: NameCache::default(),
        }
    }

    /// The sample of a record; `None` if it is none, or of a thread that has exited.
    pub(super) fn sample(&mut self, words: &[u64]) -> Option<ThreadSample> {
        let (record, extra) = ThreadRecord::split(words)?;
        let extra = extra.first_chunk::<EXTRA_WORDS>().filter(|_| record.len() == self.words)?;
        let [
            on_cpu,
            state,
            tid,
            tgid,
            flags,
            start,
            process_start,
            voluntary,
            involuntary,
            cpu,
            throttled,
            arrival,
            queued,
            run,
            run_before,
            call_status,
        ] = self.numbers.map(|field| record.number(field));
        let id = |number: Option<u64>| u32::try_from(number?).ok().filter(|&id| id > 0);
        let activity = match Activity::of_state(state?)? {
            _ if on_cpu.unwrap_or(0) != 0 => Activity::Running,
            Activity::Runnable if throttled.unwrap_or(0) != 0 => Activity::Throttled,
            activity => activity,
        };
        let is_user = flags? & PF_KTHREAD == 0;
        let asleep = activity.is_sleep();
        let [comm, pcomm] = self.names.map(|field| self.name_cache.name(record, field));
        Some(ThreadSample {
            tid: id(tid)?,
            tgid: id(tgid)?,
            start_time_clock_ticks: start? / NS_PER_TICK,
            process_started: process_start.map(|ns| ns / NS_PER_TICK),
            pcomm,
            comm,
            kernel_thread: !is_user,
            exiting: flags? & PF_EXITING != 0,
            rarely_sampled: false,
            cgroup: self.cgroups.keys(record).group.map(NonZeroU64::get),
            switches: voluntary?.wrapping_add(involuntary?),
            voluntary_switches: voluntary?,
            activity,
            cpu: cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            last_arrival: arrival.unwrap_or(0),
            last_queued: queued.unwrap_or(0),
            ran_ns: run.zip(run_before).map_or(0, |(run, before)| run.saturating_sub(before)),
            entry: if asleep && is_user { entry(extra, call_status) } else { KernelEntry::Unknown },
            stack: if asleep { stack(extra) } else { Vec::new() },
            registers: Some(code_registers(extra)).filter(|[instruction, ..]| asleep && is_user && *instruction > 0),
            code: None,
            object: None,
            owner: id(Some(extra[OWNER])).filter(|_| asleep),
            owner_process: None,
        })
    }
}

/// How a thread got into the kernel, by its registers in user mode and the flags of its system call.
fn entry(extra: &[u64; EXTRA_WORDS], call_status: Option<u64>) -> KernelEntry {
    let [number, first, second, mode]: [u64; USER_REGISTERS] = std::array::from_fn(|word| extra[word]);
    // The kernel sets -1 for exceptions.
    match u32::try_from(number) {
        Err(_) => KernelEntry::Exception,
        Ok(number) if is_compatible(mode, call_status) => KernelEntry::Compatible(number),
        Ok(number) => KernelEntry::SystemCall(number, [first, second]),
    }
}

/// Whether a system call is of the 32-bit table: by `TS_COMPAT` of x86, as programs of 64 bits can call it too, else by the mode
/// of the program (`__USER32_CS` of x86, `PSR_MODE32_BIT` of arm64).
fn is_compatible(mode: u64, call_status: Option<u64>) -> bool {
    const TS_COMPAT: u64 = 0x2;
    match call_status {
        _ if cfg!(not(target_arch = "x86_64")) => mode & 0x10 != 0,
        Some(status) => status & TS_COMPAT != 0,
        None => mode == 0x23,
    }
}

/// Returns the registers of a thread in its own code.
fn code_registers(extra: &[u64; EXTRA_WORDS]) -> [u64; CODE_REGISTERS] {
    std::array::from_fn(|word| extra[CODE + word])
}

fn stack(extra: &[u64; EXTRA_WORDS]) -> Vec<u64> {
    let frames = usize::try_from(extra[STACK_BYTES].cast_signed()).unwrap_or(0) / 8;
    extra[STACK..][..frames.min(FRAMES)].iter().copied().take_while(|&address| address != 0).collect()
}

#[cfg(test)]
impl BpfSampler {
    /// Makes it as it is where a security module refuses the program that names functions.
    pub(in crate::capture) fn refuse_names(&mut self) {
        self.functions = Err(NoBpf::with_detail(crate::model::BpfObstacle::NoTaskIterator, "refused"));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::skip::{Missing, skipped};

    /// `None` prints why the test is skipped.
    fn sampler() -> Option<BpfSampler> {
        BpfSampler::load().map_err(|no_bpf| skipped(Missing::Privilege(format!("BPF: {no_bpf:?}")))).ok()
    }

    /// The samples of a pass by thread.
    fn pass(sampler: &mut BpfSampler) -> HashMap<u32, ThreadSample> {
        let mut samples = Vec::new();
        assert_eq!(sampler.pass(PassScope::All, &mut samples), Ok(0));
        samples.into_iter().map(|sample| (sample.tid, sample)).collect()
    }

    #[test]
    fn a_sleep_is_sampled_once_with_its_system_call_and_where_it_is() {
        let Some(mut sampler) = sampler() else { return };
        let mut sleep = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let (all, changed) = (pass(&mut sampler), pass(&mut sampler));
        sampler.forget();
        let again = pass(&mut sampler);
        let found = all[&sleep.id()].clone();
        assert_eq!((&*found.comm, &*found.pcomm, found.activity), ("sleep", "sleep", Activity::Asleep));
        let nanosleep = u32::try_from(nix::libc::SYS_clock_nanosleep).unwrap();
        assert!(matches!(found.entry, KernelEntry::SystemCall(number, _) if number == nanosleep), "{:?}", found.entry);
        assert!(found.stack.len() > 2, "{:x?}", found.stack);
        assert!(!changed.contains_key(&sleep.id()) && again[&sleep.id()] == found);
        let own = nix::unistd::gettid().as_raw().cast_unsigned();
        assert!([all, changed].iter().all(|samples| samples[&own].activity == Activity::Running));
        sleep.kill().and_then(|()| sleep.wait()).unwrap();
    }

    #[test]
    fn passes_over_active_threads_have_those_that_did_something_lately_and_those_that_run() {
        let Some(mut sampler) = sampler() else { return };
        if sampler.active.is_none() {
            return skipped(Missing::Kernel("to find threads by their ids (Linux 6.7)"));
        }
        let start = |script| std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let mut children = ["exec sleep 100", "while :; do sleep 0.01; done"].map(start);
        std::thread::sleep(Duration::from_millis(100));
        pass(&mut sampler);
        std::thread::sleep(Duration::from_millis(50));
        let all = pass(&mut sampler);
        // They did nothing before: one runs, and one is new.
        let mut spins = start("while :; do :; done");
        let mut sleeps_soon = start("exec sleep 100");
        std::thread::sleep(Duration::from_millis(50));
        let mut samples = Vec::new();
        for _ in 0..50 {
            assert_eq!(sampler.pass(PassScope::Active, &mut samples), Ok(0));
            std::thread::sleep(Duration::from_millis(5));
        }
        children
            .iter_mut()
            .chain([&mut spins, &mut sleeps_soon])
            .for_each(|child| child.kill().and_then(|()| child.wait()).map(drop).unwrap());
        let active = |pid: u32| samples.iter().filter(|sample| sample.tid == pid).count();
        let own = nix::unistd::gettid().as_raw().cast_unsigned();
        assert!(all.contains_key(&children[1].id()));
        let of_each = [children[0].id(), children[1].id(), spins.id(), sleeps_soon.id(), own].map(active);
        let [sleeps, wakes, runs, new, own] = of_each;
        assert!(sleeps == 0 && wakes > 0 && runs > 0 && new > 0 && own == 50, "{of_each:?}");
    }

    #[test]
    fn a_pass_goes_on_until_all_samples_have_had_room() {
        let Ok(mut sampler) = BpfSampler::with_ring(1 << 16) else {
            return skipped(Missing::Privilege("BPF".to_owned()));
        };
        let stop = std::sync::RwLock::new(());
        std::thread::scope(|scope| {
            let until_stopped = stop.write().unwrap();
            (0..500).for_each(|_| drop(scope.spawn(|| drop(stop.read()))));
            std::thread::sleep(Duration::from_millis(100));
            let all = pass(&mut sampler);
            drop(until_stopped);
            assert!(all.len() > 500 && sampler.ring.has_overflowed(), "{}", all.len());
        });
    }
}
