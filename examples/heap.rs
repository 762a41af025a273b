//! A program with known heap counters: its threads allocate and print the statistics of jemalloc for each
//! thread (`tid allocated deallocated`), then `ready`, and wait until the end of standard input.

use std::hint::black_box;
use std::io::{self, Write};
use std::sync::{Arc, Barrier};
use std::thread;

use tikv_jemalloc_ctl::thread::{allocatedp, deallocatedp};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const THREADS: usize = 4;

fn main() -> io::Result<()> {
    // Allocates the buffers of the standard streams before the numbers are read.
    let (stdin, _) = (io::stdin(), io::stdout());
    let barrier = Arc::new(Barrier::new(THREADS + 1));
    for number in 1..=THREADS {
        let barrier = Arc::clone(&barrier);
        thread::Builder::new().name(format!("heap-{number}")).spawn(move || {
            let kept: Vec<_> = (0..number * 100).map(|size| vec![1u8; size * 7]).collect();
            drop(vec![0u8; number << 20]);
            let kept = black_box(kept);
            report();
            barrier.wait();
            loop {
                thread::park();
                black_box(&kept);
            }
        })?;
    }
    barrier.wait();
    report();
    write(b"ready\n");
    while nix::unistd::read(&stdin, &mut [0; 64])? > 0 {}
    Ok(())
}

/// Prints the counters of the calling thread, without allocating after reading them.
fn report() {
    let counters = (allocatedp::read(), deallocatedp::read());
    let (Ok(allocated), Ok(deallocated)) = counters else { return };
    let tid = nix::unistd::gettid().as_raw();
    let mut line = [0u8; 96];
    let mut rest = &mut line[..];
    let written = writeln!(rest, "{tid} {} {}", allocated.get(), deallocated.get()).map(|()| 96 - rest.len());
    write(&line[..written.unwrap_or(0)]);
}

/// Writes directly to the descriptor, because standard output would allocate a buffer.
fn write(mut bytes: &[u8]) {
    while let Ok(written @ 1..) = nix::unistd::write(io::stdout(), bytes) {
        bytes = &bytes[written..];
    }
}
