//! A program whose allocator's counters are known: its threads allocate, print what jemalloc itself
//! says of each of them (`tid allocated deallocated`), then `ready`, and stand still until standard
//! input ends.

use std::hint::black_box;
use std::io::{self, Write};
use std::sync::{Arc, Barrier};
use std::thread;

use tikv_jemalloc_ctl::thread::{allocatedp, deallocatedp};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const THREADS: usize = 4;

fn main() -> io::Result<()> {
    // Buffers of the standard streams are allocated now, before numbers are told.
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

/// Prints this thread's counters without allocating after they were read.
fn report() {
    let counters = (allocatedp::read(), deallocatedp::read());
    let (Ok(allocated), Ok(deallocated)) = counters else { return };
    let tid = nix::unistd::gettid().as_raw();
    let mut line = [0u8; 96];
    let mut rest = &mut line[..];
    let written = writeln!(rest, "{tid} {} {}", allocated.get(), deallocated.get()).map(|()| 96 - rest.len());
    write(&line[..written.unwrap_or(0)]);
}

/// Straight to the descriptor: standard output's own buffer would be allocated.
fn write(mut bytes: &[u8]) {
    while let Ok(written @ 1..) = nix::unistd::write(io::stdout(), bytes) {
        bytes = &bytes[written..];
    }
}
