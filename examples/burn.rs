//! Known work: `burn MS` waits for input or its end, and then fills 64 MiB and computes for that time, in a thread.

use std::hint::black_box;
use std::io::{self, Read};
use std::thread;
use std::time::{Duration, Instant};

const FILLED: usize = 64 << 20;

fn main() -> io::Result<()> {
    let milliseconds = std::env::args().nth(1).and_then(|number| number.parse().ok());
    let time = Duration::from_millis(milliseconds.ok_or_else(|| io::Error::other("usage: burn MS"))?);
    let _ = io::stdin().read(&mut [0])?;
    let burning = thread::Builder::new().name("burn".to_owned()).spawn(move || burn(time))?;
    burning.join().map_err(|_| io::Error::other("the thread panicked"))
}

fn burn(time: Duration) {
    let begin = Instant::now();
    let mut filled = vec![1u8; FILLED];
    while begin.elapsed() < time {
        black_box(&mut filled)[0] ^= 1;
    }
}
