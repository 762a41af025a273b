//! The impact of a capture on a thread: a thread pinned to one CPU reads the clock in a loop. At the end of
//! standard input, it prints the longest time between two reads, in nanoseconds.
//!
//! `spin [CPU]`; compare a run during captures with a run without.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

static ENDED: AtomicBool = AtomicBool::new(false);

fn main() -> io::Result<()> {
    run(std::env::args().nth(1).and_then(|cpu| cpu.parse().ok()).unwrap_or(0))
}

/// Spins on a CPU.
pub(crate) fn run(cpu: usize) -> io::Result<()> {
    let spinning = thread::Builder::new().name("spin".to_owned()).spawn(move || spin(cpu))?;
    println!("ready");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    ENDED.store(true, Ordering::Relaxed);
    match spinning.join() {
        Ok(longest) => println!("{}", longest.as_nanos()),
        Err(_) => return Err(io::Error::other("the thread could not be pinned")),
    }
    Ok(())
}

fn spin(cpu: usize) -> Duration {
    let mut one = CpuSet::new();
    one.set(cpu).expect("a CPU number");
    sched_setaffinity(Pid::from_raw(0), &one).expect("a CPU that is there");
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    loop {
        // Before the clock: the last wait counts, too.
        let is_last = ENDED.load(Ordering::Relaxed);
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
        if is_last {
            return longest;
        }
    }
}
