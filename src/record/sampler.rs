//! The thread that samples all threads during a window.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;

use crate::capture::{NoSamples, Options, ThreadSampler};
use crate::model::{ExitedThread, Name, Reasons, ThreadEnd, ThreadState};
use crate::process::{Privileges, RunsFirst, with_file_capabilities, without_stops};
use crate::reasons::{Conclusion, PassMoment, ReasonCollector, waits_for_mutex, works_on_descriptor};

/// Passes may take this part of the time of one CPU: 1 %.
const LARGEST_SHARE: u32 = 100;
/// Passes that take longer wait for their turn, as do the first and the last one, which have all threads: others need not wait
/// for them.
const LONGEST_HOLD: Duration = Duration::from_millis(5);
/// Names of functions take some 0.1 s. A window does not wait for a sampler that the host has stopped.
const PATIENCE: Duration = Duration::from_secs(2);
/// Ends of threads that wait for the next pass.
const MAX_ENDS: usize = 1 << 16;

/// A thread that samples windows, and exits when this is dropped.
pub(super) struct Sampler {
    windows: Sender<Window>,
}

/// A window that is sampled until this is dropped, or asked for.
pub(super) struct OpenSamples {
    end: Sender<()>,
    sampled: Receiver<SampledWindow>,
    pub(super) ends: Arc<ThreadEnds>,
}

/// The samples of a window that has ended.
pub(super) struct EndedSamples(Receiver<SampledWindow>);

/// Threads that have exited, until the next pass.
#[derive(Default)]
pub(super) struct ThreadEnds(Mutex<Vec<ThreadEnd>>);

/// A window to sample.
struct Window {
    end: Receiver<()>,
    ends: Arc<ThreadEnds>,
    sampled: Sender<SampledWindow>,
}

/// The samples of a window.
pub(super) struct SampledWindow {
    collector: ReasonCollector,
    source: &'static str,
    functions: HashMap<u64, Name>,
    no_functions: Option<String>,
    cost: Duration,
}

impl Sampler {
    /// Starts the thread, with so many passes per second.
    pub(super) fn start(options: &Options, rate: f64) -> Result<Self, NoSamples> {
        let loaded = with_file_capabilities(|| without_stops(|| Self::start_with(options, rate)));
        loaded.map_err(|error| NoSamples::because(&error))?
    }

    fn start_with(options: &Options, rate: f64) -> Result<Self, NoSamples> {
        let sampler = ThreadSampler::load(options)?;
        let (windows, next) = channel();
        let period = Duration::from_secs_f64(1.0 / rate);
        let pids = options.pids.clone();
        let work = move || serve(sampler, (period, &pids), &next);
        let thread = thread::Builder::new().name("ctprof-samples".to_owned());
        thread.spawn(work).map_err(|error| NoSamples::because(&error))?;
        Ok(Self { windows })
    }

    /// Starts to sample; `None` if the thread has ended.
    pub(super) fn begin(&self) -> Option<OpenSamples> {
        let (end, ended) = channel();
        let (answer, sampled) = channel();
        let ends = Arc::<ThreadEnds>::default();
        self.windows.send(Window { end: ended, ends: Arc::clone(&ends), sampled: answer }).ok()?;
        Some(OpenSamples { end, sampled, ends })
    }
}

impl OpenSamples {
    /// Samples once more, and ends.
    pub(super) fn end(self) -> EndedSamples {
        drop(self.end);
        EndedSamples(self.sampled)
    }
}

impl EndedSamples {
    /// Waits until the functions have their names; `None` if that takes too long, or sampling failed.
    pub(super) fn wait(self) -> Option<SampledWindow> {
        let sampled = self.0.recv_timeout(PATIENCE);
        if sampled.as_ref().is_err_and(|error| *error == RecvTimeoutError::Timeout) {
            tracing::warn!("no reasons: a file of a process, or this busy host, kept the sampler waiting");
        }
        sampled.ok()
    }
}

impl ThreadEnds {
    /// Adds a thread that has exited.
    pub(super) fn add(&self, exit: &ExitedThread) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.len() < MAX_ENDS {
            ends.extend(ThreadEnd::of(exit));
        }
    }

    fn take(&self) -> Vec<ThreadEnd> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SampledWindow {
    /// Adds the ends of threads that have exited, which are known late.
    pub(super) fn add_ends(&mut self, exits: impl Iterator<Item = ExitedThread>) {
        exits.filter_map(|exit| ThreadEnd::of(&exit)).for_each(|end| self.collector.end(&end));
    }

    /// The reasons, with the names of the threads of the window.
    pub(super) fn reasons<'t>(
        self,
        threads: impl IntoIterator<Item = &'t ThreadState>,
        cgroup: &dyn Fn(u64) -> Option<Name>,
    ) -> Reasons {
        let threads = &*Vec::from_iter(threads);
        let mut reasons = self.collector.conclude(&Conclusion { threads, functions: &self.functions, cgroup });
        reasons.sampling.source = self.source.to_owned();
        reasons.sampling.cost_ns = nanoseconds(self.cost);
        reasons.sampling.no_functions = self.no_functions;
        reasons
    }
}

/// Samples one window after the other.
fn serve(mut sampler: ThreadSampler, (period, pids): (Duration, &[u32]), windows: &Receiver<Window>) {
    Privileges::Record.keep_after_loading().expect("the thread that started this one has dropped capabilities");
    while let Ok(window) = windows.recv() {
        let before = cpu_time();
        let collector = match sample(&mut sampler, (period, pids), &window) {
            Ok(collector) => collector,
            Err(errno) => {
                tracing::warn!("no reasons: threads cannot be sampled: {errno}");
                continue;
            }
        };
        let addresses: BTreeSet<u64> = collector.addresses().collect();
        let (functions, no_functions) = sampler.functions(&addresses);
        let cost = cpu_time().saturating_sub(before);
        let source = sampler.source();
        // Nobody waits for a window that failed.
        let _ = window.sampled.send(SampledWindow { collector, source, functions, no_functions, cost });
    }
}

/// Samples until the window ends. The first and the last pass have all threads.
fn sample(
    sampler: &mut ThreadSampler,
    (shortest, pids): (Duration, &[u32]),
    window: &Window,
) -> Result<ReasonCollector, Errno> {
    let mut collector = ReasonCollector::new(gettid().as_raw().cast_unsigned(), pids);
    let mut samples = Vec::new();
    let mut jitter = Jitter::new();
    let mut period = shortest;
    // Of a pass with its evaluation, smoothed.
    let mut cost = Duration::ZERO;
    let [mut is_first, mut is_last] = [true, false];
    let mut before_at = 0;
    // On a full CPU, a thread that waits for its turn would see others only while they wait too.
    let mut priority = None;
    let mut next = monotonic();
    // When the next pass is due, and this thread's CPU time until then.
    let mut due = (next, cpu_time());
    sampler.forget();
    loop {
        let before = cpu_time();
        let begin = monotonic();
        samples.clear();
        let lost = sampler.pass(&mut samples)?;
        let end = monotonic();
        let at = begin + end.saturating_sub(begin) / 2;
        let awake = before.saturating_sub(due.1);
        let moment = PassMoment {
            at_ns: nanoseconds(at),
            late_ns: nanoseconds(begin.saturating_sub(due.0 + awake)),
            took_ns: nanoseconds(end.saturating_sub(begin) + awake),
        };
        sampler.add_files(&mut samples, works_on_descriptor);
        sampler.add_owners(&mut samples, waits_for_mutex);
        collector.add(moment, &samples, lost);
        for end in sampler.take_ends() {
            collector.end(&ThreadEnd { monotonic_ns: before_at, ..end });
        }
        before_at = nanoseconds(at);
        if is_last {
            return Ok(collector);
        }
        window.ends.take().iter().for_each(|end| collector.end(end));
        let spent = cpu_time().saturating_sub(before);
        if (spent < LONGEST_HOLD) != priority.is_some() {
            priority = (spent < LONGEST_HOLD).then(RunsFirst::this_thread);
        }
        // The first pass has all threads, and says little about the others.
        cost = match cost {
            _ if is_first => Duration::ZERO,
            Duration::ZERO => spent,
            _ => (cost * 7 + spent) / 8,
        };
        is_first = false;
        period = period.max(shortest).mul_f64(0.9).max(cost * LARGEST_SHARE).max(shortest);
        next = (next + period).max(monotonic());
        due = (next + jitter.of(period), cpu_time());
        let pause = due.0.saturating_sub(monotonic());
        if window.end.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            is_last = true;
            drop(priority.take());
            sampler.forget();
        }
    }
}

/// Moves passes within their period, so that they do not meet what happens at regular times always, or never.
struct Jitter(u64);

impl Jitter {
    fn new() -> Self {
        Self(nanoseconds(monotonic()) | 1)
    }

    /// A part of a period, between nothing and one half.
    fn of(&mut self, period: Duration) -> Duration {
        // xorshift64 of Marsaglia.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        period * u32::try_from(self.0 >> 48).unwrap_or(0) / (2 << 16)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
