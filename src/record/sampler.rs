//! The thread that samples all threads during a window.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;

use super::pass_rate::{PassRate, SampledAs};
use crate::capture::{NoSamples, Options, ThreadSampler, add_files, add_lock_holders, nanoseconds, thread_cpu_time};
use crate::model::{ExitedThread, Name, PassScope, ProcessSelection, Reasons, ThreadEnd, ThreadSample, ThreadState};
use crate::process::{self, RaisedPriority, lock, start_reader, with_file_capabilities, without_stops};
use crate::reasons::{
    Conclusion, PassMoment, ReasonCollector, waits_for_file_lock, waits_for_mutex, works_on_descriptor,
};

/// Names of functions take some 0.1 s. A window does not wait for a sampler that the host has stopped.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long windows follow each other until a pass has all threads again, also those whose end was not noticed.
const LONGEST_SESSION: Duration = Duration::from_secs(60);
/// Windows that wait for a sampler that something holds up. The next ones have no samples.
const MAX_WAITING: usize = 1;
/// Ends of threads that wait for the next pass. Others are counted as lost.
const MAX_ENDS: usize = 1 << 16;

/// A thread that samples windows, and exits when this is dropped.
pub(super) struct Sampler {
    windows: SyncSender<Window>,
    /// How long passes of active threads follow one over all threads.
    pub(super) session: Duration,
    entries: Arc<Mutex<MapSizes>>,
}

/// How many entries each map has that outlives a window.
type MapSizes = Vec<(&'static str, usize)>;

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
pub(super) struct ThreadEnds(Mutex<CollectedEnds>);

#[derive(Default)]
struct CollectedEnds {
    ends: Vec<ThreadEnd>,
    /// Number of exit times that had no room.
    lost: u64,
}

/// A window to sample.
struct Window {
    sampled_as: SampledAs,
    session: Duration,
    end: Receiver<()>,
    ends: Arc<ThreadEnds>,
    sampled: Sender<SampledWindow>,
}

/// The samples of a window.
pub(super) struct SampledWindow {
    collector: ReasonCollector,
    source: &'static str,
    functions: HashMap<u64, Name>,
    stacks: HashMap<u32, Name>,
    no_functions: Option<String>,
    no_stacks: Option<&'static str>,
    /// Processes that may not be looked into.
    unread: HashSet<u32>,
    cost: Duration,
    /// Ends of threads that samples noticed, without records of exits: each between the last pass that had the thread and the next one.
    ends: Vec<ThreadEnd>,
    /// Whether the window has threads that have exited.
    has_exited: bool,
}

impl Sampler {
    /// Starts the thread, with so many passes per second.
    pub(super) fn start(options: &Options, rate: f64, selection: ProcessSelection) -> Result<Self, NoSamples> {
        let loaded = with_file_capabilities(|| without_stops(|| Self::start_with(options, rate, selection)));
        loaded.map_err(|error| NoSamples::because(&error))?
    }

    fn start_with(options: &Options, rate: f64, selection: ProcessSelection) -> Result<Self, NoSamples> {
        let sampler = ThreadSampler::load(options)?;
        let (windows, next) = sync_channel(MAX_WAITING);
        let entries = Arc::<Mutex<MapSizes>>::default();
        let shared = Arc::clone(&entries);
        let period = Duration::try_from_secs_f64(1.0 / rate).map_err(|error| NoSamples::because(&error))?;
        let work = move || serve(sampler, (period, &selection), (&next, &shared));
        start_reader("ctprof-samples", work).map_err(|error| NoSamples::because(&error))?;
        Ok(Self { windows, session: LONGEST_SESSION, entries })
    }

    /// How many entries each map had when the last window ended.
    pub(super) fn entries(&self) -> MapSizes {
        lock(&self.entries).clone()
    }

    /// Starts to sample; `None` if the thread has ended, or still has a window whose end nobody waits for any more.
    pub(super) fn begin(&self, sampled_as: SampledAs) -> Option<OpenSamples> {
        let (end, ended) = channel();
        let (answer, sampled) = channel();
        let ends = Arc::<ThreadEnds>::default();
        let window = Window { sampled_as, session: self.session, end: ended, ends: Arc::clone(&ends), sampled: answer };
        self.windows.try_send(window).ok()?;
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
        lock(&self.0).add(ThreadEnd::from_exit(exit));
    }

    /// Takes the exits that came too late for the last pass of the window before.
    pub(super) fn take_from(&self, before: &Self) {
        let CollectedEnds { ends, lost } = before.take();
        let mut all = lock(&self.0);
        all.lost = all.lost.saturating_add(lost);
        ends.into_iter().for_each(|end| all.add(Some(end)));
    }

    fn take(&self) -> CollectedEnds {
        std::mem::take(&mut lock(&self.0))
    }
}

impl CollectedEnds {
    fn add(&mut self, end: Option<ThreadEnd>) {
        match end {
            Some(_) if self.ends.len() >= MAX_ENDS => self.lost = self.lost.saturating_add(1),
            end => self.ends.extend(end),
        }
    }
}

/// Ends of threads that samples noticed in a window.
pub(super) fn ends_in(sampled: &Option<SampledWindow>) -> &[ThreadEnd] {
    sampled.as_ref().map_or(&[], |sampled| &sampled.ends)
}

impl SampledWindow {
    /// Adds the ends of threads that have exited, which are known late. The window has those threads.
    pub(super) fn add_ends(&mut self, exits: impl Iterator<Item = ExitedThread>) {
        self.has_exited = true;
        exits.filter_map(|exit| ThreadEnd::from_exit(&exit)).for_each(|end| self.collector.end(&end));
    }

    /// The reasons, with the names of the threads of the window.
    pub(super) fn reasons<'t>(
        self,
        threads: impl IntoIterator<Item = &'t ThreadState>,
        cgroup: &dyn Fn(u64) -> Option<Name>,
    ) -> Reasons {
        let threads = &*Vec::from_iter(threads);
        let (functions, stacks, unread, has_exited) = (&self.functions, &self.stacks, &self.unread, self.has_exited);
        let window = Conclusion { threads, has_exited, functions, stacks, unread, cgroup };
        let mut reasons = self.collector.conclude(&window);
        reasons.sampling.source = self.source.to_owned();
        reasons.sampling.cost_ns = nanoseconds(self.cost);
        reasons.sampling.no_functions = self.no_functions;
        reasons.sampling.no_stacks = self.no_stacks.map(str::to_owned);
        reasons
    }
}

/// Samples one window after the other.
fn serve(
    mut sampler: ThreadSampler,
    (period, selection): (Duration, &ProcessSelection),
    (windows, entries): (&Receiver<Window>, &Mutex<MapSizes>),
) {
    let mut sampling = None;
    while let Ok(window) = windows.recv() {
        let (before, stacks_before) = (thread_cpu_time(), sampler.time_of_stacks());
        let session = sampling.take().filter(|earlier: &SamplingSession| earlier.goes_on(&window));
        let mut current = session.unwrap_or_else(|| SamplingSession::start(&mut sampler, period, selection));
        if let Err(errno) = current.sample(&mut sampler, &window) {
            tracing::warn!("no reasons: threads cannot be sampled: {errno}");
            continue;
        }
        let collector = current.collector.next_window();
        let ends = std::mem::take(&mut current.ends);
        *lock(entries) = [sampler.entries(), current.collector.entries()].concat();
        sampling = Some(current);
        let addresses: BTreeSet<u64> = collector.addresses().collect();
        // The window waits for them.
        let raised = RaisedPriority::run_first();
        let (functions, no_functions) = sampler.functions(&addresses);
        let (stacks, no_stacks) = sampler.stacks(&collector.stacks().collect());
        drop(raised);
        let of_stacks = sampler.time_of_stacks().saturating_sub(stacks_before);
        let cost = thread_cpu_time().saturating_sub(before) + of_stacks;
        let (source, unread) = (sampler.source(), sampler.unread());
        let has_exited = false;
        let sampled = SampledWindow {
            collector,
            source,
            functions,
            stacks,
            no_functions,
            no_stacks,
            unread,
            cost,
            ends,
            has_exited,
        };
        // Nobody waits for a window that failed.
        let _ = window.sampled.send(sampled);
    }
}

/// Passes since one that had all threads.
struct SamplingSession {
    collector: ReasonCollector,
    rate: PassRate,
    began: Duration,
    /// When the last pass was made.
    before_at: u64,
    /// Ends of threads that passes of the window noticed.
    ends: Vec<ThreadEnd>,
    /// Whether threads may have ended that sleep on here.
    lacks_ends: bool,
}

impl SamplingSession {
    /// Makes the first pass have all threads.
    fn start(sampler: &mut ThreadSampler, period: Duration, selection: &ProcessSelection) -> Self {
        sampler.forget();
        Self {
            collector: ReasonCollector::new(gettid().as_raw().cast_unsigned(), selection.clone()),
            rate: PassRate::new(period, nanoseconds(monotonic())),
            began: monotonic(),
            before_at: 0,
            ends: Vec::new(),
            lacks_ends: false,
        }
    }

    fn goes_on(&self, window: &Window) -> bool {
        let is_recent = monotonic().saturating_sub(self.began) < window.session;
        window.sampled_as == SampledAs::Step && is_recent && !self.lacks_ends
    }

    /// Notes which threads have ended.
    fn end(&mut self, collected: &CollectedEnds) {
        collected.ends.iter().for_each(|end| self.collector.end(end));
        self.collector.lose(collected.lost);
        self.lacks_ends |= collected.lost > 0;
    }

    /// Samples until the window ends.
    fn sample(&mut self, sampler: &mut ThreadSampler, window: &Window) -> Result<(), Errno> {
        let mut samples = Vec::new();
        // On a full CPU, a thread that waits for its turn would see others only while they wait too.
        let (mut priority, is_crowded) = (None, process::is_crowded());
        // The last pass of the step before is the first one of this step.
        let mut next = Duration::from_nanos(self.before_at);
        if self.before_at == 0 {
            next = monotonic();
            let scope = self.rate.scope(sampler.narrowest_scope(), next);
            self.pass_at_rate(sampler, scope, &mut samples, (next, thread_cpu_time()))?;
        }
        loop {
            self.end(&window.ends.take());
            next = (next + self.rate.period).max(monotonic());
            // When the next pass is due, and this thread's CPU time until then.
            let due = (self.rate.due(next), thread_cpu_time());
            let mut scope = self.rate.scope(sampler.narrowest_scope(), due.0);
            let runs_first = is_crowded || self.rate.is_short(scope);
            if runs_first != priority.is_some() {
                priority = runs_first.then(RaisedPriority::run_first);
            }
            let pause = due.0.saturating_sub(monotonic());
            if window.end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                self.pass_at_rate(sampler, scope, &mut samples, due)?;
                continue;
            }
            scope = self.rate.last_scope(window.sampled_as, sampler.narrowest_scope(), monotonic());
            if !process::is_crowded() && !self.rate.is_short(scope) {
                drop(priority.take());
            }
            return self.pass(sampler, scope, &mut samples, due);
        }
    }

    /// Makes a pass, and adapts the rate to what it cost.
    fn pass_at_rate(
        &mut self,
        sampler: &mut ThreadSampler,
        scope: PassScope,
        samples: &mut Vec<ThreadSample>,
        due: (Duration, Duration),
    ) -> Result<(), Errno> {
        let (before, stacks_before) = (thread_cpu_time(), sampler.time_of_stacks());
        self.pass(sampler, scope, samples, due)?;
        self.rate.note_stacks(sampler.time_of_stacks().saturating_sub(stacks_before));
        self.rate.note(scope, thread_cpu_time().saturating_sub(before), sampler.narrowest_scope(), monotonic());
        Ok(())
    }

    /// Makes a pass that was due then, when this thread had this CPU time.
    fn pass(
        &mut self,
        sampler: &mut ThreadSampler,
        scope: PassScope,
        samples: &mut Vec<ThreadSample>,
        due: (Duration, Duration),
    ) -> Result<(), Errno> {
        let (begin, awake) = (monotonic(), thread_cpu_time().saturating_sub(due.1));
        samples.clear();
        let lost = sampler.pass(scope, samples)?;
        let period_ns = nanoseconds(self.rate.period);
        let moment = PassMoment { scope, period_ns, ..moment_of([due.0, begin, monotonic()], awake) };
        sampler.add_stacks(samples);
        add_files(samples, works_on_descriptor);
        sampler.add_owners(samples, waits_for_mutex);
        add_lock_holders(samples, waits_for_file_lock);
        self.collector.add(moment, samples, lost);
        let (running, of_each) = sampler.running();
        self.collector.add_running(&running, nanoseconds(of_each));
        for end in sampler.take_ends() {
            self.collector.end(&ThreadEnd { monotonic_ns: self.before_at, ..end.clone() });
            if self.ends.len() < MAX_ENDS {
                self.ends.push(ThreadEnd { monotonic_ns: self.before_at.midpoint(moment.at_ns), ..end });
            }
        }
        self.before_at = moment.at_ns;
        Ok(())
    }
}

/// The moment of a pass that was due, began and ended then, by a thread that had its CPU for `awake` between the first two.
fn moment_of([due, begin, end]: [Duration; 3], awake: Duration) -> PassMoment {
    let took = end.saturating_sub(begin);
    PassMoment {
        at_ns: nanoseconds(begin + took / 2),
        late_ns: nanoseconds(begin.saturating_sub(due + awake)),
        took_ns: nanoseconds(took + awake),
        ..PassMoment::default()
    }
}

pub(super) fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_in_its_middle_and_late_by_the_time_without_a_cpu() {
        let moment = |due, begin| moment_of([due, begin, 1_080].map(Duration::from_nanos), Duration::from_nanos(20));
        let times = |PassMoment { at_ns, late_ns, took_ns, .. }| (at_ns, late_ns, took_ns);
        assert_eq!(times(moment(1_000, 1_050)), (1_065, 30, 50));
        assert_eq!(times(moment(1_000, 1_010)), (1_045, 0, 90), "it was early");
    }

    #[test]
    fn ends_of_threads_wait_for_the_next_pass_up_to_a_limit() {
        let exit = |tid| ExitedThread {
            state: ThreadState { tid, start_time_clock_ticks: Some(1), ..ThreadState::default() },
            ..ExitedThread::default()
        };
        let tids = |ends: &ThreadEnds| ends.take().ends.iter().map(|end| end.tid).collect::<Vec<_>>();
        let [ends, next] = [ThreadEnds::default(), ThreadEnds::default()];
        ends.add(&exit(7));
        assert_eq!((tids(&ends), tids(&ends)), (vec![7], vec![]));
        ends.add(&exit(8));
        next.add(&exit(9));
        next.take_from(&ends);
        assert_eq!((tids(&next), tids(&ends)), (vec![9, 8], vec![]), "the one that was late for the window before");
        for _ in 0..2 {
            (0..=MAX_ENDS).for_each(|_| ends.add(&exit(1)));
            next.take_from(&ends);
        }
        let CollectedEnds { ends, lost } = next.take();
        let kept = u64::try_from(MAX_ENDS).unwrap();
        assert_eq!((ends.len(), lost), (MAX_ENDS, kept + 2), "also where the sampler takes none of them for long");
    }

    #[test]
    fn ends_without_room_are_counted_as_lost_and_followed_by_a_pass_over_all_threads() {
        let (_end, ended) = channel();
        let (sampled, _sampled) = channel();
        let (ends, session) = (Arc::default(), LONGEST_SESSION);
        let window = Window { sampled_as: SampledAs::Step, session, end: ended, ends, sampled };
        let mut session = SamplingSession {
            collector: ReasonCollector::new(1, ProcessSelection::default()),
            rate: PassRate::new(Duration::from_millis(20), 0),
            began: monotonic(),
            before_at: 1,
            ends: Vec::new(),
            lacks_ends: false,
        };
        session.end(&CollectedEnds::default());
        assert!(session.goes_on(&window));
        session.end(&CollectedEnds { lost: 7, ..CollectedEnds::default() });
        assert!(!session.goes_on(&window));
        let (functions, stacks, unread) = (HashMap::new(), HashMap::new(), HashSet::new());
        let conclusion = Conclusion {
            threads: &[],
            has_exited: true,
            functions: &functions,
            stacks: &stacks,
            unread: &unread,
            cgroup: &|_| None,
        };
        assert_eq!(session.collector.conclude(&conclusion).sampling.lost, 7);
    }
}
