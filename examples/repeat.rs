//! What repeated work leaves behind: `repeat captures|windows auto|bpf|procfs COUNT` prints the open descriptors and the
//! least allocated bytes of so many times, and then of as many again.

use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::process::parent_id;
use std::thread::sleep;
use std::time::Duration;

use ctprof::capture::{Engine, Options, capture_with};
use ctprof::window;
use tikv_jemalloc_ctl::{epoch, stats};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [task, engine, count] = &words[..] else { return Err("usage: repeat TASK ENGINE COUNT".into()) };
    let count = count.parse()?;
    let mut options = Options::default();
    options.engine = match engine.as_str() {
        "bpf" => Engine::Bpf,
        "procfs" => Engine::Procfs,
        _ => Engine::Auto,
    };
    // The host's other processes allocate, start and exit meanwhile.
    options.pids = vec![std::process::id(), parent_id()];
    options.jobs = NonZeroUsize::new(1);
    let capture = || capture_with(&options);
    match task.as_str() {
        "captures" => repeat(count, || capture().map(drop).map_err(Failure::from)),
        "windows" => {
            let (earlier, later) = (capture()?, capture()?);
            repeat(count, || window::between(earlier.clone(), later.clone()).map(drop).map_err(Failure::from))
        }
        _ => Err("no such task".into()),
    }
}

/// Waits until the workers of a capture have exited: nobody joins them, and until then they hold buffers.
fn wait_for_workers(threads: usize) -> Result<(), Failure> {
    for _ in 0..1000 {
        if fs::read_dir("/proc/self/task")?.count() <= threads {
            return Ok(());
        }
        sleep(Duration::from_millis(1));
    }
    Err("workers do not exit".into())
}

/// What is allocated differs with the host's threads: the least of several times is what stays.
fn repeat(count: u32, mut once: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    // Caches are filled after so many times, and buffers of threads that have exited are freed.
    (0..count).try_for_each(|_| once())?;
    sleep(Duration::from_millis(200));
    let threads = fs::read_dir("/proc/self/task")?.count();
    for _ in 0..2 {
        let mut least = usize::MAX;
        for _ in 0..count {
            once()?;
            wait_for_workers(threads)?;
            epoch::advance().map_err(|error| error.to_string())?;
            least = least.min(stats::allocated::read().map_err(|error| error.to_string())?);
        }
        println!("{} {least}", fs::read_dir("/proc/self/fd")?.count());
    }
    Ok(())
}
