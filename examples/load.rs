//! Many threads to capture: `load PROCESSES THREADS`.
//!
//! Each process has that many sleeping threads besides its first, named `load-<n>`. It prints `ready` once
//! all have started, and exits at the end of standard input.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::{env, thread};

/// Sleeping threads need only a small stack.
const STACK: usize = 32 * 1024;

fn main() -> io::Result<()> {
    run(&env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect::<Vec<_>>())
}

/// Runs with these numbers of processes and threads.
pub(crate) fn run(numbers: &[usize]) -> io::Result<()> {
    match *numbers {
        [processes, threads] => parent(processes, threads),
        [threads] => child(threads),
        _ => Err(io::Error::other("usage: load PROCESSES THREADS")),
    }
}

fn parent(processes: usize, threads: usize) -> io::Result<()> {
    let start = |_| {
        let mut command = Command::new(env::current_exe()?);
        command.arg("load").arg(threads.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    };
    let mut children = (0..processes).map(start).collect::<io::Result<Vec<Child>>>()?;
    for child in &mut children {
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut String::new())?;
    }
    ready_until_told()?;
    for mut child in children {
        drop(child.stdin.take());
        child.wait()?;
    }
    Ok(())
}

fn child(threads: usize) -> io::Result<()> {
    let barrier = Arc::new(Barrier::new(threads + 1));
    for number in 0..threads {
        let barrier = Arc::clone(&barrier);
        let sleep = move || {
            barrier.wait();
            loop {
                thread::park();
            }
        };
        thread::Builder::new().name(format!("load-{number}")).stack_size(STACK).spawn(sleep)?;
    }
    barrier.wait();
    ready_until_told()
}

fn ready_until_told() -> io::Result<()> {
    println!("ready");
    io::stdout().flush()?;
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}
