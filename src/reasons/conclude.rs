//! The reasons of a window, with the names that its threads have there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::collector::{GoneThreads, ReasonCollector, SampledTimes, TrackedThread, index};
use super::raw_reason::{RawReason, SampledNames};
use super::system_call;
use super::window_reasons::{ReasonPlaces, WindowReasons};
use crate::model::{
    KernelEntry, Name, OtherThread, Owner, Reason, ReasonClass, ReasonTime, Reasons, SampledThreads, SampledTime,
    Sampling, ThreadState,
};

/// Knowledge at the end of a window, from which its reasons are concluded.
pub struct Conclusion<'a> {
    /// The threads of the window.
    pub threads: &'a [&'a ThreadState],
    /// Whether threads that have exited are among them.
    pub has_exited: bool,
    /// The functions of the kernel by addresses in them.
    pub functions: &'a HashMap<u64, Name>,
    /// The functions of programs by number of the stack.
    pub stacks: &'a HashMap<u32, Name>,
    /// The processes that could not be looked into: no sample has their threads.
    pub unread: &'a HashSet<u32>,
    /// The cgroup by what the kernel knows it by.
    pub cgroup: &'a dyn Fn(u64) -> Option<Name>,
}

/// Files need no more precision.
const STEP_NS: u64 = 10_000;

/// Functions that wait on behalf of the one that called them, and are not in the section of the scheduler.
const PLUMBING: [&str; 6] = [
    "schedule_hrtimeout_range_clock",
    "schedule_hrtimeout_range",
    "bit_wait_io",
    "bit_wait",
    "io_schedule_prepare",
    "__cond_resched",
];

/// Functions in which threads of a frozen cgroup of version 2 sleep, in the state of any sleep. Compilers make the first function
/// a part of the second, where threads sleep for no other reason.
const OF_FREEZER: [&str; 2] = ["do_freezer_trap", "get_signal"];

/// Functions of page faults. The stack of each thread that waits in a page fault has at least one of these functions.
const OF_PAGE_FAULTS: [&str; 10] = [
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "do_page_fault",
    "do_mem_abort",
    "handle_mm_fault",
    "__handle_mm_fault",
    "__do_fault",
    "do_swap_page",
    "filemap_fault",
];

impl ReasonCollector {
    /// The reasons of the window that the last pass ended.
    pub fn conclude(mut self, window: &Conclusion<'_>) -> Reasons {
        self.close();
        let names = WindowNames::new(window, &self.programs);
        let reasons = WindowReasons::new(self.reasons.values.iter().map(|raw| self.named(raw, &names)).collect());
        let mut times = BTreeMap::<SampledThreads, SampledTimes>::new();
        let mut add = |threads: SampledThreads, of_threads: &SampledTimes, is_idle: bool| {
            let sums = times.entry(threads).or_default();
            sums.longest_wait_ns = sums.longest_wait_ns.max(of_threads.longest_wait_ns);
            for (reason, amount) in &of_threads.by_reason {
                let ReasonPlaces { active, idle } = reasons.places(*reason);
                sums.add(if is_idle { idle } else { active }, *amount);
            }
        };
        for (&tid, thread) in &self.threads {
            add(names.living(tid, thread, &self.names.values), &thread.times, thread.is_idle);
        }
        for (exited, amounts) in &self.gone_threads {
            if let Some(threads) = names.exited(*exited, &self.names.values) {
                add(threads, amounts, false);
            }
        }
        let (passes, period_ns) = (self.passes.count - self.first_pass, self.passes.period_ns());
        let unread = names.by_id.values().filter(|thread| window.unread.contains(&thread.tgid));
        for thread in unread {
            let time = SampledTime { ns: passes.saturating_sub(1).saturating_mul(period_ns), samples: passes };
            times.entry(of_window(thread)).or_default().add(reasons.unread, time);
        }
        let sampling = Sampling { passes, period_ns, lost: self.lost, merged: self.merged, ..Sampling::default() };
        listed(times, reasons, sampling)
    }

    fn named(&self, raw: &RawReason, names: &WindowNames<'_>) -> Reason {
        let window = names.window;
        let functions = raw.stack.iter().filter_map(|address| window.functions.get(address));
        let is_in_freezer = functions.clone().next().is_some_and(|name| OF_FREEZER.contains(&&**name));
        let is_frozen = raw.class == ReasonClass::Sleep && is_in_freezer;
        let class = if is_frozen { ReasonClass::Frozen } else { raw.class };
        // Wherever a thread is stopped, it waits for whoever stopped it.
        if matches!(class, ReasonClass::Stopped | ReasonClass::Traced | ReasonClass::Frozen) {
            return Reason { class, ..Reason::default() };
        }
        let functions: Vec<_> = functions.skip_while(|name| PLUMBING.contains(&&***name)).cloned().collect();
        let entry = match raw.entry {
            KernelEntry::Unknown => None,
            KernelEntry::SystemCall(number, _) => Some(system_call::name(number).into()),
            KernelEntry::Compatible(number) => Some(system_call::name_of_32_bits(number).into()),
            KernelEntry::Exception => {
                // Where only the innermost function is known (wchan), a thread is blocked outside of system calls by a page fault.
                let is_blocked = raw.class == ReasonClass::Block && raw.stack.len() <= 1;
                let is_fault = functions.iter().any(|name| OF_PAGE_FAULTS.contains(&&**name));
                (is_blocked || is_fault).then(|| "page fault".into())
            }
        };
        let by = raw.by.and_then(|number| self.names.values.get(index(number))).map(|by| OtherThread {
            pcomm: Name::clone(&by.pcomm),
            comm: Name::clone(&by.comm),
            program: raw.by_process.and_then(|tgid| names.program_of(tgid, &by.pcomm)),
            cgroup: by.cgroup.and_then(window.cgroup),
        });
        let stack = |number: Option<u32>| window.stacks.get(&number?).cloned();
        let (stack, held_in, object) = (stack(raw.code), stack(raw.held_in), raw.object.clone());
        Reason { class: raw.class, entry, functions, object, by, stack, held_in }
    }
}

/// The names of a thread of the window.
fn of_window(thread: &ThreadState) -> SampledThreads {
    SampledThreads {
        tgid: Some(thread.tgid),
        pcomm: Name::clone(&thread.pcomm),
        comm: Name::clone(&thread.comm),
        program: thread.program.clone(),
        cgroup: thread.cgroup.clone(),
        owner: thread.owner,
    }
}

/// The lists of the file.
fn listed(times: BTreeMap<SampledThreads, SampledTimes>, reasons: WindowReasons, sampling: Sampling) -> Reasons {
    let mut listed = Reasons { sampling, ..Reasons::default() };
    for (place, (threads, sums)) in (0..).zip(times) {
        let longest_ns = sums.longest_wait_ns / STEP_NS * STEP_NS;
        if longest_ns > 0 {
            listed.longest_waits.insert(place, longest_ns);
        }
        for (reason, amount) in reasons.stacks.share(sums.by_reason) {
            let ns = amount.ns / STEP_NS * STEP_NS;
            listed.times.push(ReasonTime { threads: place, reason: reason.into(), ns, samples: amount.samples });
            if !matches!(reasons.all[index(reason)].class, ReasonClass::Idle | ReasonClass::Unread) {
                listed.sampling.samples += amount.samples;
            }
        }
        listed.threads.push(threads);
    }
    // Without those that no thread has.
    let used: BTreeSet<u64> = listed.times.iter().map(|time| time.reason).collect();
    let places: BTreeMap<u64, u64> = used.iter().copied().zip(0..).collect();
    listed.times.iter_mut().for_each(|time| time.reason = places[&time.reason]);
    let is_used = |(place, reason)| used.contains(&place).then_some(reason);
    listed.reasons = (0..).zip(reasons.all).filter_map(is_used).collect();
    listed
}

type KindsByCgroup<'a> = HashMap<Option<&'a Name>, NamedThreads<'a>>;

/// Common properties of all threads with the same names, each `None` if the threads differ.
#[derive(Clone, Copy, Default)]
struct NamedThreads<'a> {
    owner: Option<Owner>,
    program: Option<&'a Name>,
}

/// The names that threads have in the window, so that its reasons are in the groups of its counters.
struct WindowNames<'a> {
    window: &'a Conclusion<'a>,
    by_id: HashMap<(u32, u32), &'a ThreadState>,
    /// A thread of each process, the first if it is listed, by each name that the process had: it can have left programs.
    by_name: HashMap<(u32, &'a str), &'a ThreadState>,
    /// Programs of exited processes, by their id and start in ticks.
    ended: &'a HashMap<(u32, u64), Name>,
    /// The cgroups of the threads of a name, and what those in each have in common.
    named: HashMap<(&'a str, &'a str), KindsByCgroup<'a>>,
    pcomms: HashSet<&'a str>,
    processes: HashSet<u32>,
}

impl<'a> WindowNames<'a> {
    fn new(window: &'a Conclusion<'a>, ended: &'a HashMap<(u32, u64), Name>) -> Self {
        let mut named: HashMap<_, KindsByCgroup<'_>> = HashMap::new();
        for thread in window.threads {
            let cgroups = named.entry((&*thread.pcomm, &*thread.comm)).or_default();
            let of_thread = NamedThreads { owner: thread.owner, program: thread.program.as_ref() };
            let same = cgroups.entry(thread.cgroup.as_ref()).or_insert(of_thread);
            same.owner = same.owner.filter(|owner| of_thread.owner == Some(*owner));
            same.program = same.program.filter(|program| of_thread.program == Some(*program));
        }
        // What a process was in a program that it has left follows what it is: the last one of an id is kept.
        let by_id = || window.threads.iter().rev().copied().filter(|thread| thread.tid > 0);
        Self {
            window,
            ended,
            by_id: by_id().map(|thread| ((thread.tgid, thread.tid), thread)).collect(),
            by_name: by_id().map(|thread| ((thread.tgid, &*thread.pcomm), thread)).collect(),
            pcomms: named.keys().map(|(pcomm, _)| *pcomm).collect(),
            named,
            processes: window.threads.iter().map(|thread| thread.tgid).collect(),
        }
    }

    /// Returns the program of a process; `None` if another process has its id in the window.
    fn program_of(&self, tgid: u32, pcomm: &str) -> Option<Name> {
        self.by_name.get(&(tgid, pcomm))?.program.clone()
    }

    fn living(&self, tid: u32, thread: &TrackedThread, names: &[SampledNames]) -> SampledThreads {
        let in_window = self.by_id.get(&(thread.tgid, tid));
        let same = in_window.filter(|found| found.start_time_clock_ticks == Some(thread.start_time_clock_ticks));
        match same {
            Some(found) => of_window(found),
            None => {
                let (tgid, started) = (Some(thread.tgid), thread.process_started);
                let (is_first, is_new) = (tid == thread.tgid, false);
                self.outside_window(GoneThreads { tgid, started, is_first, is_new, names: thread.names }, names)
            }
        }
    }

    /// The names of threads that have exited. If the window lacks their time, `None` where other threads have the names of their
    /// process: those would have the reasons without the time.
    fn exited(&self, threads: GoneThreads, names: &[SampledNames]) -> Option<SampledThreads> {
        let outside = self.outside_window(threads, names);
        if self.window.has_exited {
            return Some(outside);
        }
        let first = threads.tgid.filter(|_| threads.is_first).and_then(|tgid| self.by_id.get(&(tgid, tgid)));
        // The window has the time of a zombie.
        let zombie = first.filter(|first| first.start_time_clock_ticks == threads.started && first.has_exited());
        zombie.map(|zombie| of_window(zombie)).or_else(|| (!self.pcomms.contains(&*outside.pcomm)).then_some(outside))
    }

    /// Threads that are not in the window, by the names that they had. Those of a name can be in another cgroup there: procfs
    /// shows zombies in the root of hierarchies of version 1.
    fn outside_window(&self, threads: GoneThreads, names: &[SampledNames]) -> SampledThreads {
        let SampledNames { pcomm, comm, cgroup } = names.get(index(threads.names)).cloned().unwrap_or_default();
        let cgroup = cgroup.and_then(self.window.cgroup);
        let tgid = threads.tgid.filter(|tgid| self.processes.contains(tgid));
        let is_same = |leader: &&&ThreadState| !threads.is_new || leader.start_time_clock_ticks == threads.started;
        let leader = tgid.and_then(|tgid| self.by_name.get(&(tgid, &*pcomm))).filter(is_same);
        let tgid = tgid.filter(|_| !threads.is_new || leader.is_some());
        if let Some(leader) = leader {
            let (program, cgroup, owner) = (leader.program.clone(), leader.cgroup.clone(), leader.owner);
            return SampledThreads { tgid, pcomm, comm, program, cgroup, owner };
        }
        let cgroups = self.named.get(&(&*pcomm, &*comm));
        let only = cgroups.filter(|cgroups| cgroups.len() == 1).and_then(|cgroups| cgroups.iter().next());
        let same = cgroups.and_then(|cgroups| cgroups.get_key_value(&cgroup.as_ref()));
        let (cgroup, same) = match same.or(only) {
            Some((cgroup, same)) => (cgroup.cloned(), *same),
            None => (cgroup, NamedThreads::default()),
        };
        let ended = threads.tgid.zip(threads.started).and_then(|process| self.ended.get(&process));
        SampledThreads { tgid, pcomm, comm, program: ended.or(same.program).cloned(), cgroup, owner: same.owner }
    }
}
