//! Threads that exit: `churn [SECONDS]` creates and joins one thread after another, each of which computes for
//! two milliseconds. Without SECONDS, it runs until it is killed.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

const WORK: Duration = Duration::from_millis(2);

fn main() -> io::Result<()> {
    let seconds = std::env::args().nth(1).map(|seconds| seconds.parse::<f64>()).transpose();
    let limit = seconds.map_err(|_| io::Error::other("usage: churn [SECONDS]"))?;
    let begin = Instant::now();
    while limit.is_none_or(|seconds| begin.elapsed().as_secs_f64() < seconds) {
        let worker = thread::Builder::new().name("churn-worker".to_owned()).spawn(compute)?;
        worker.join().map_err(|_| io::Error::other("a thread panicked"))?;
    }
    Ok(())
}

fn compute() {
    let begin = Instant::now();
    while begin.elapsed() < WORK {
        std::hint::spin_loop();
    }
}
