//! A fixed amount of work on one CPU: `work cpu|memory|locks|processes [WORK [WAIT]]`. WORK is its amount and WAIT
//! the run-queue wait that a rival on the same CPU causes, both in percent of the usual (100). The usual work takes
//! about 0.3 s of CPU time, and the rival, a process with a name of its own, 0.1 s.

use std::env;
use std::io;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::prctl::set_name;
use nix::unistd::Pid;

/// One step takes about a nanosecond.
const STEPS: u64 = 300_000_000;
const RIVAL_STEPS: u64 = STEPS / 3;
const THREADS: u64 = 4;
/// Steps with a lock held.
const HELD_STEPS: u64 = 20_000;
/// Steps of a child. Starting it takes some hundred thousand more.
const CHILD_STEPS: u64 = 600_000;
const CHILDREN: u64 = 300;
/// 96 MiB: larger than most caches.
const SLOTS: u64 = 12 << 20;
const READS: u64 = 1_500_000;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let percent = |at: usize| arguments.get(at).map_or(Ok(100), |percent| percent.parse::<u64>());
    let usage = || io::Error::other("usage: work cpu|memory|locks|processes [WORK [WAIT]]");
    let (Ok(work), Ok(wait)) = (percent(1), percent(2)) else { return Err(usage()) };
    let share = |whole: u64| whole * work / 100;
    match arguments.first().map(String::as_str) {
        Some("rival") => {
            set_name(c"rival")?;
            compute(RIVAL_STEPS * wait / 100);
            return Ok(());
        }
        Some("child") => {
            compute(CHILD_STEPS);
            return Ok(());
        }
        _ => use_one_cpu()?,
    }
    let mut rival = start(&["rival", "100", &wait.to_string()])?;
    match arguments.first().map(String::as_str) {
        Some("cpu") => compute(share(STEPS)),
        Some("memory") => read_memory(share(SLOTS), share(READS)),
        Some("locks") => take_locks(share(STEPS / HELD_STEPS)),
        Some("processes") => (0..share(CHILDREN)).try_for_each(|_| start(&["child"])?.wait().map(drop))?,
        _ => return Err(usage()),
    }
    rival.wait().map(drop)
}

/// The last CPU that this program may run on: the first ones often serve interrupts.
fn use_one_cpu() -> io::Result<()> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let last = (0..CpuSet::count()).rev().find(|&cpu| allowed.is_set(cpu).unwrap_or(false)).unwrap_or(0);
    let mut one = CpuSet::new();
    one.set(last)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &one)?)
}

fn start(arguments: &[&str]) -> io::Result<Child> {
    Command::new(env::current_exe()?).args(arguments).spawn()
}

fn compute(steps: u64) {
    let mut number = 1u64;
    for _ in 0..steps {
        number = std::hint::black_box(next(number));
    }
}

fn next(number: u64) -> u64 {
    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// Each read depends on the one before it.
fn read_memory(slots: u64, reads: u64) {
    let memory: Vec<u64> = (0..slots).collect();
    let mut number = 1u64;
    for _ in 0..reads {
        let slot = usize::try_from((number >> 32) % slots).unwrap_or(0);
        number = next(number ^ memory[slot]);
    }
    std::hint::black_box(number);
}

/// Threads that compute with a lock held, one after the other.
fn take_locks(turns: u64) {
    let left = Arc::new(Mutex::new(turns));
    let worker = |number| {
        let left = Arc::clone(&left);
        let take_turns = move || {
            loop {
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(fewer) = left.checked_sub(1) else { break };
                *left = fewer;
                compute(HELD_STEPS);
            }
        };
        thread::Builder::new().name(format!("locks-{number}")).spawn(take_turns)
    };
    let workers: Vec<_> = (0..THREADS).map(worker).collect();
    for worker in workers.into_iter().flatten() {
        let _ = worker.join();
    }
}
