//! A noisy neighbor: `neighbor worker` computes on the first CPU that it may run on, `neighbor noise`
//! starts three threads that compute on the same CPU, and `neighbor half` computes half of the time, on any CPU.
//! It runs until it is killed.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

fn main() -> io::Result<()> {
    let (name, threads) = match std::env::args().nth(1).as_deref() {
        Some("worker") => ("worker", 1),
        Some("noise") => ("noise", 3),
        Some("half") => compute_half(),
        _ => return Err(io::Error::other("usage: neighbor worker|noise|half")),
    };
    let me = Pid::from_raw(0);
    let allowed = sched_getaffinity(me)?;
    let first = (0..CpuSet::count()).find(|&cpu| allowed.is_set(cpu).unwrap_or(false)).unwrap_or(0);
    let mut one = CpuSet::new();
    one.set(first)?;
    sched_setaffinity(me, &one)?;
    for _ in 0..threads {
        thread::Builder::new().name(name.to_owned()).spawn(compute)?;
    }
    loop {
        thread::park();
    }
}

/// A few of the scheduler's time slices.
const HALF: Duration = Duration::from_millis(20);

fn compute_half() -> ! {
    loop {
        let begin = Instant::now();
        while begin.elapsed() < HALF {
            std::hint::spin_loop();
        }
        thread::sleep(HALF);
    }
}

fn compute() {
    let mut number = 1u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
