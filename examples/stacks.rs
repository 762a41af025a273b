//! Threads that sleep again and again: for a lock, a channel and a time. Tests compare their stacks with those of eu-stack.

use std::hint::black_box;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

const NAP: Duration = Duration::from_millis(40);

trait Waits {
    fn wait(&self);
}

struct Pool<T> {
    jobs: Mutex<T>,
    changed: Condvar,
}

impl<T> Waits for Pool<T> {
    #[inline(never)]
    fn wait(&self) {
        let jobs = self.jobs.lock().expect("nobody panics");
        drop(black_box(self.changed.wait_timeout(jobs, NAP)));
    }
}

#[inline(never)]
fn receive(nothing: &Receiver<u32>) {
    let _ = black_box(nothing.recv_timeout(NAP));
}

fn repeat(name: &str, work: impl Fn() + Send + 'static) {
    let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
        loop {
            work();
        }
    });
    drop(started);
}

fn main() {
    let pool: Box<dyn Waits + Send> = Box::new(Pool { jobs: Mutex::new(0), changed: Condvar::new() });
    let (sender, nothing) = channel();
    repeat("condition", move || pool.wait());
    repeat("receiver", move || receive(&nothing));
    println!("ready");
    loop {
        thread::sleep(NAP);
        black_box(&sender);
    }
}
