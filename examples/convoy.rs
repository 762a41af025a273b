//! A lock convoy: four threads that could all work, and one lock that each holds while it waits for
//! something slow, for 500 µs or as many as its argument says. It runs until it is killed.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 4;
const OWN_WORK: Duration = Duration::from_micros(300);
const HELD_US: u64 = 500;

fn main() {
    let held = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let held = Duration::from_micros(held.unwrap_or(HELD_US));
    let log = Arc::new(Mutex::new(0u64));
    let workers = (0..THREADS).map(|number| {
        let log = Arc::clone(&log);
        thread::Builder::new().name(format!("convoy-{number}")).spawn(move || work(&log, held))
    });
    let workers: Vec<_> = workers.collect();
    for worker in workers.into_iter().flatten() {
        let _ = worker.join();
    }
}

fn work(log: &Mutex<u64>, held: Duration) {
    loop {
        let begin = Instant::now();
        while begin.elapsed() < OWN_WORK {
            std::hint::spin_loop();
        }
        append(log, held);
    }
}

/// A slow write, with the lock held.
#[inline(never)]
fn append(log: &Mutex<u64>, held: Duration) {
    let mut lines = log.lock().unwrap_or_else(PoisonError::into_inner);
    *lines += 1;
    thread::sleep(held);
}
