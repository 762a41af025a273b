//! A window in steps: a capture at the end of each, and what changed since the one before.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::error::RecordError;
use super::exited_containers::ExitedContainers;
use super::pass_rate::SampledAs;
use super::recorder::{Recorder, is_selected, time_since};
use super::sampler::{EndedSamples, OpenSamples, ends_in};
use super::step_length::StepLength;
use super::until::{Until, WindowEnd, arguments};
use super::zombies::complete_zombies;
use crate::capture::{CaptureScope, Capturer, ExitListener, Pass, RecordedExits, Smaps, nanoseconds};
use crate::model::{
    BpfObstacle, CtprofSnapshot, ExitedThread, HostCpuTime, METRICS, Owner, SERIES_FORMAT_VERSION, SeriesInfo,
    SnapshotHead, ThreadId, ThreadState, Value, WindowInfo, WindowRule,
};
use crate::process::{RaisedPriority, Signals, lock};
use crate::series::{Applied, Moment, Part, Step, StepExits};
use crate::window::{FoldedExits, FoldedPart};

/// How long a step waits for what is missing for a capture, such as descriptors.
const LONGEST_LACK: Duration = Duration::from_secs(10);
/// The same after a signal: who has sent it waits for the end.
const LONGEST_LACK_AFTER_SIGNAL: Duration = Duration::from_secs(1);
/// How long a step waits between two captures.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Function that changes captures before they are used, for example to replace names.
pub type Preparation = Box<dyn Fn(&mut CtprofSnapshot)>;

/// A series after its first capture.
pub struct OpenSeries<'r> {
    recorder: &'r mut Recorder,
    /// `None` if captures are taken as they are.
    prepare: Option<Preparation>,
    info: SeriesInfo,
    /// Whether a command runs. Redacted, `info` does not tell.
    has_command: bool,
    head: SnapshotHead,
    moment: Moment,
    /// Threads that started and exited since the last capture.
    folded: Arc<Mutex<FoldedExits>>,
    /// Threads that exited and were listed by the last capture, or have started since.
    carried: Vec<ExitedThread>,
    exited_containers: ExitedContainers,
    samples: Option<OpenSamples>,
    length: StepLength,
    _raised: RaisedPriority,
}

/// A step that was recorded.
pub struct RecordedStep {
    /// Changes of the step, as files have them.
    pub step: Step,
    /// Threads that exited in it.
    pub exits: StepExits,
    /// The window of the step, of the threads that changed.
    pub window: CtprofSnapshot,
}

impl Recorder {
    /// Takes the first capture of a series with steps of this length.
    ///
    /// # Errors
    /// [`RecordError::Capture`] if nothing useful can be read.
    pub fn open_series(
        &mut self,
        every: Duration,
        until: &Until,
        prepare: Option<Preparation>,
    ) -> Result<OpenSeries<'_>, RecordError> {
        let raised = RaisedPriority::of_this_thread();
        self.listener.iter_mut().for_each(ExitListener::restart);
        let sampled_as = if self.listener.is_some() { SampledAs::Step } else { SampledAs::OneWindow };
        let samples = self.sampler.as_ref().and_then(|sampler| sampler.begin(sampled_as));
        let command = until.command().map(arguments).unwrap_or_default();
        let mut info = SeriesInfo::default();
        (info.every_ns, info.recorder, info.command) = (nanoseconds(every), self.capturer.own_id(), command);
        let mut first = self.capturer.capture(Smaps::Never)?;
        let host = first.head.host.clone().unwrap_or_default();
        first.head.format_version = Some(SERIES_FORMAT_VERSION);
        first.head.series = Some(info);
        prepare.iter().for_each(|prepare| prepare(&mut first));
        let info = first.head.series.clone().unwrap_or_default();
        let folded = Arc::default();
        self.fold(&host, &folded, samples.as_ref());
        Ok(OpenSeries {
            recorder: self,
            prepare,
            info,
            has_command: !matches!(until, Until::Elapsed(_)),
            head: first.head.clone(),
            moment: Moment::new(first),
            folded,
            carried: Vec::new(),
            exited_containers: ExitedContainers::default(),
            samples,
            length: StepLength::new(every),
            _raised: raised,
        })
    }
}

impl OpenSeries<'_> {
    /// The capture at the end of the last step.
    pub fn moment(&self) -> &Moment {
        &self.moment
    }

    /// How many entries each map has that outlives a step, for tests of weeks of recording.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, usize)> {
        let mut entries = self.recorder.entries();
        entries.extend([
            ("threads", self.moment.threads().len()),
            ("cgroups with values", self.head.cgroup_stats.len()),
            ("carried exits", self.carried.len()),
            ("containers", self.head.containers.len()),
        ]);
        entries
    }

    /// When the last step ended.
    pub fn last(&self) -> Instant {
        let now = Instant::now();
        now.checked_sub(time_since(&self.head)).unwrap_or(now)
    }

    /// Returns the length of the next step: the requested one, or a multiple of it where procfs takes long to read.
    pub fn every(&self) -> Duration {
        self.length.next()
    }

    /// Makes steps this long from now on.
    pub fn set_every(&mut self, every: Duration) {
        self.length = StepLength::new(every);
        self.info.every_ns = nanoseconds(every);
    }

    /// Notes the CPU time that reading a step took, and says once that it makes the next ones longer.
    fn note_time(&mut self, step: &SnapshotHead) {
        let Some(capture) = step.capture.as_ref().filter(|capture| capture.engine == "procfs") else { return };
        let own = |time: &Option<HostCpuTime>| time.as_ref()?.own_ns;
        // Waits for a file that does not answer, or for a CPU, cost nothing.
        let used =
            own(&step.cpu_time_after).zip(own(&step.cpu_time)).map(|(after, before)| after.saturating_sub(before));
        let Some(took) = used.or(capture.walk_ns).map(Duration::from_nanos) else { return };
        if self.length.note(took) {
            let fix = match capture.no_bpf.as_ref().map(|no_bpf| &no_bpf.cause) {
                None => "leave out --engine procfs",
                Some(BpfObstacle::SelectedProcesses) => {
                    "select with --only instead of -p, where BPF can read them (ctprof doctor says so)"
                }
                Some(_) => "let BPF read them (ctprof doctor says how)",
            };
            tracing::warn!(
                "steps take {:?}: reading one from procfs takes {took:.0?} of CPU time, and may take 2% of a CPU. Fix: {fix}",
                self.every()
            );
        }
    }

    /// Ends a step, the last one if the series has ended, and begins the next.
    ///
    /// # Errors
    /// [`RecordError`] if nothing useful can be read, or the command was reaped elsewhere.
    pub fn step(&mut self, end: Option<WindowEnd>, signals: &Signals) -> Result<RecordedStep, RecordError> {
        let _all_raised = RaisedPriority::of_all_if_crowded();
        let ends = self.samples.as_ref().map(|samples| Arc::clone(&samples.ends));
        let sampled = self.samples.take().map(OpenSamples::end);
        let Recorder { capturer, listener, sampler, .. } = &mut *self.recorder;
        // What exits from now on may be in the capture.
        listener.iter_mut().for_each(ExitListener::keep_all);
        let folded = std::mem::take(&mut *lock(&self.folded));
        let is_last = end.is_some();
        // What is prepared has other names: what did not change cannot be taken from it.
        let scope = match &self.prepare {
            _ if is_last => CaptureScope::All(capturer.smaps()),
            None => CaptureScope::Changed { threads: self.moment.threads(), head: &self.head },
            Some(_) => CaptureScope::AllThreads,
        };
        let Pass { capture: mut later, gone_threads } =
            pass_in_time(capturer, scope, signals, end.as_ref().and_then(|end| end.interrupted))?;
        // Now and then, a step reads all.
        let is_usual = gone_threads.is_some() || self.prepare.is_some();
        let reaped = end.map(|end| end.conclude(&mut later, self.info.recorder)).transpose()?.flatten();
        let host = later.head.host.clone().unwrap_or_default();
        let drain = if is_last { ExitListener::drain_last } else { ExitListener::drain };
        let mut records = listener.as_mut().map(|listener| drain(listener, &host, &later.threads));
        // Those that are listed since an earlier step have been carried.
        let recorded = records.iter().flat_map(|records| records.threads().chain(records.zombies()));
        let exits = self.carried.iter().filter(|exit| !exit.executed).cloned().chain(recorded);
        let sampled = sampled.and_then(EndedSamples::wait);
        complete_zombies(&mut later.threads, exits, ends_in(&sampled), |id| self.moment.threads().get(&id));
        let command = reaped.map(|command| command.add_peak_memory(&mut later.threads));
        later.head.window = command.map(|command| WindowInfo { command: Some(command), ..WindowInfo::default() });
        if !is_last {
            // Without the record of its exit, a thread would sleep on.
            let has_all = records.as_ref().is_some_and(|records| records.summary.lost == 0);
            let sampled_as = if has_all { SampledAs::Step } else { SampledAs::OneWindow };
            self.samples = sampler.as_ref().and_then(|sampler| sampler.begin(sampled_as));
        }
        self.recorder.fold(&host, &self.folded, self.samples.as_ref());
        later.head.format_version = Some(SERIES_FORMAT_VERSION);
        later.head.series = Some(self.info.clone());
        let (mut exits, carried) = self.exits((&later, gone_threads.as_deref()), &folded, records.as_ref());
        self.carried = carried;
        if self.has_command {
            mark_command(self.info.recorder, self.moment.threads(), &mut later.threads, &mut exits);
        }
        if let Some(gone_threads) = &gone_threads {
            self.read_cgroups(gone_threads, &exits, &mut later.head)?;
        }
        let mut exited = CtprofSnapshot { head: later.head, threads: exits.states().cloned().collect() };
        records.iter_mut().for_each(|records| records.name_containers(&mut exited));
        later.head = exited.head;
        if let (Some(samples), Some(ends)) = (&self.samples, ends) {
            samples.ends.take_from(&ends);
            exits.exited().for_each(|exit| samples.ends.add(exit));
        }
        later.head.reasons = sampled.map(|mut sampled| {
            if records.is_some() {
                sampled.add_ends(exits.exited().cloned());
            }
            let before = gone_threads.iter().flat_map(|_| self.moment.threads().values());
            // The first one of an id counts: what a process was before it executed another program is not its name.
            let threads = later.threads.iter().chain(exits.states()).chain(before);
            Box::new(sampled.reasons(threads, &|key| self.recorder.capturer.cgroup(key)))
        });
        if let Some(prepare) = &self.prepare {
            prepare_with(prepare, &mut later, &mut exits);
        }
        let captured_at_unix_ns = later.head.captured_at_unix_ns;
        self.exited_containers.keep(&self.head.containers, &mut later.head.containers, captured_at_unix_ns);
        let reasons = later.head.reasons.take();
        let command = later.head.window.take().and_then(|window| window.command);
        let later_head = later.head.clone();
        let (mut step, Applied { before, changed, .. }) = match gone_threads {
            Some(gone_threads) => self.moment.advance_by(later, gone_threads, &exits),
            None => self.moment.advance(later, &exits),
        };
        (step.reasons, step.command) = (reasons, command);
        if is_usual {
            self.note_time(&later_head);
        }
        let earlier = std::mem::replace(&mut self.head, later_head.clone());
        let mut part = Part::with(earlier, before);
        part.add(exits.clone(), step.reasons.as_deref().cloned());
        let threads = self.moment.some_threads(&changed);
        let requested_ns = Some(self.info.every_ns).filter(|_| !is_last);
        let window = part.end(CtprofSnapshot { head: later_head, threads }, step.command.clone(), requested_ns)?;
        Ok(RecordedStep { step, exits, window })
    }

    /// Reads the cgroups again in which threads were that exited, or are gone, before this capture of changes.
    fn read_cgroups(
        &self,
        gone_threads: &[ThreadId],
        exits: &StepExits,
        later: &mut SnapshotHead,
    ) -> Result<(), RecordError> {
        let gone = gone_threads.iter().filter_map(|id| self.moment.threads().get(id));
        let exited = exits.states().chain(gone);
        Ok(self.recorder.capturer.read_cgroups_of(exited, &mut later.cgroup_stats, &self.head.cgroup_stats)?)
    }

    /// Returns the exits in the step that ends with this capture, and later exits. A capture of changes comes with the ids of
    /// threads that are gone.
    fn exits(
        &mut self,
        (later, gone_threads): (&CtprofSnapshot, Option<&[ThreadId]>),
        folded: &FoldedExits,
        records: Option<&RecordedExits>,
    ) -> (StepExits, Vec<ExitedThread>) {
        let end_ns = later.head.capture.as_ref().and_then(|capture| capture.monotonic_ns).unwrap_or(u64::MAX);
        let changed =
            |id| later.threads.binary_search_by_key(&id, ThreadState::id).ok().map(|place| &later.threads[place]);
        let listed = |id: ThreadId| {
            let unchanged = || {
                self.moment
                    .threads()
                    .get(&id)
                    .filter(|_| gone_threads.is_some_and(|gone_threads| gone_threads.binary_search(&id).is_err()))
            };
            changed(id).or_else(unchanged)
        };
        let is_listed = |exit: &ExitedThread| {
            let same = listed(exit.state.id())
                .filter(|thread| thread.start_time_clock_ticks == exit.state.start_time_clock_ticks);
            let is_replaced = |thread| exit.is_replaced_by(thread, end_ns, |id| listed(id).is_some());
            same.is_some() && !changed(exit.state.id()).is_some_and(is_replaced)
        };
        let selection = Arc::clone(&self.recorder.selection);
        let all = std::mem::take(&mut self.carried)
            .into_iter()
            .chain(records.into_iter().flat_map(RecordedExits::all).filter(|exit| is_selected(&selection, exit)));
        let is_later = |exit: &ExitedThread| match exit.executed {
            true => !exit.is_before_read(end_ns, listed),
            false => is_listed(exit),
        };
        let is_later = |exit: &ExitedThread| exit.started_monotonic_ns >= end_ns || is_later(exit);
        let (carried, mut each): (Vec<_>, Vec<_>) = all.partition(is_later);
        complete_exits(self.moment.threads(), &mut each);
        let cgroup = |key| self.recorder.capturer.cgroup(key);
        let exits = StepExits {
            records: records.map(|records| records.summary.clone()),
            each,
            folded: folded.rows(cgroup).collect(),
            impossible_delays: folded.impossible_delays,
        };
        (exits, carried)
    }
}

/// Makes a pass, again after a while where what was missing may come back, so that a series of weeks does not end for it. No further
/// one begins after a signal, which can have `interrupted` the step before the first one.
fn pass_in_time(
    capturer: &mut Capturer,
    scope: CaptureScope<'_>,
    signals: &Signals,
    interrupted: Option<i32>,
) -> Result<Pass, RecordError> {
    let begin = Instant::now();
    let longest = interrupted.map_or(LONGEST_LACK, |_| LONGEST_LACK_AFTER_SIGNAL);
    let mut has_warned = false;
    loop {
        let error = match capturer.pass(scope) {
            Err(error) if error.may_pass() => error,
            pass => return Ok(pass?),
        };
        if !std::mem::replace(&mut has_warned, true) {
            tracing::warn!("{error}: the step ends when that works again");
        }
        let left = longest.saturating_sub(begin.elapsed());
        let is_over = signals.wait_for_interruption(left.min(RETRY_AFTER)) || left.is_zero() && interrupted.is_some();
        match error {
            error if is_over => return Err(RecordError::Interrupted(error)),
            error if left.is_zero() => return Err(error.into()),
            _ => {}
        }
    }
}

/// Adds what only the last capture has, which had the `last_threads` threads.
fn complete_exits(last_threads: &BTreeMap<ThreadId, ThreadState>, exits: &mut [ExitedThread]) {
    let place = |exit: &ExitedThread| (exit.state.id(), exit.state.start_time_clock_ticks);
    // The ids of these first threads are those of others after the first record.
    let replaced: HashSet<_> = exits.iter().filter(|exit| exit.replaced_by.is_some()).map(place).collect();
    let mut completed = HashSet::new();
    for exit in exits {
        add_program(last_threads, &mut exit.state);
        if !replaced.contains(&place(exit)) || completed.insert(place(exit)) {
            add_later_counters(last_threads, &mut exit.state);
        }
    }
}

/// Gives a record of an exit the name of what its process ran in the last capture.
fn add_program(last_threads: &BTreeMap<ThreadId, ThreadState>, exited: &mut ThreadState) {
    let leader = last_threads.get(&ThreadId { tgid: exited.tgid, tid: exited.tgid });
    // The id can have been that of another process.
    let is_its_leader = |leader: &&ThreadState| {
        let is_older = leader.start_time_clock_ticks < exited.start_time_clock_ticks && !exited.is_leader();
        let is_of_process = is_older || leader.start_time_clock_ticks == exited.start_time_clock_ticks;
        // It can have executed another program.
        is_of_process && leader.pcomm == exited.pcomm
    };
    // A part of the series may have no capture of the process.
    let program = leader.filter(is_its_leader).and_then(|leader| leader.program.clone());
    exited.program = exited.program.take().or(program);
}

/// Gives a record of an exit the counters that the last capture had read later: of a zombie, it has all, and the record has them
/// only if the kernel has freed the thread since.
fn add_later_counters(last_threads: &BTreeMap<ThreadId, ThreadState>, exited: &mut ThreadState) {
    let same = |last: &&ThreadState| last.start_time_clock_ticks == exited.start_time_clock_ticks;
    let Some(last) = last_threads.get(&exited.id()).filter(same) else { return };
    for metric in METRICS.iter().filter(|metric| metric.window == WindowRule::Increase) {
        if let (Some(Value::Unsigned(recorded)), Some(Value::Unsigned(read))) =
            (metric.get(&exited.metrics), metric.get(&last.metrics))
            && recorded < read
        {
            metric.set(&mut exited.metrics, Value::Unsigned(read)).expect("the metric had such a value");
        }
    }
}

/// Prepares a capture together with what exited before it.
fn prepare_with(prepare: &dyn Fn(&mut CtprofSnapshot), later: &mut CtprofSnapshot, exits: &mut StepExits) {
    prepare(later);
    let exited = exits.each.iter_mut().chain(exits.folded.iter_mut().map(|(_, _, exit)| exit));
    for exit in exited {
        let threads = vec![std::mem::take(&mut exit.state)];
        let mut alone = CtprofSnapshot { threads, ..CtprofSnapshot::default() };
        prepare(&mut alone);
        exit.state = alone.threads.pop().unwrap_or_default();
    }
}

/// Marks the threads of the command, so that each part of the series knows them: threads of processes that the recorder, or a
/// process of the command, has started since the series began. `last_threads` are the threads of the last capture.
fn mark_command(
    recorder: u32,
    last_threads: &BTreeMap<ThreadId, ThreadState>,
    later: &mut [ThreadState],
    exits: &mut StepExits,
) {
    let leader = |tgid: u32| last_threads.get(&ThreadId { tgid, tid: tgid });
    // Another process can have had the id.
    let is_same = |thread: &ThreadState| {
        leader(thread.tgid).is_some_and(|last| last.start_time_clock_ticks == thread.start_time_clock_ticks)
    };
    let is_new = |thread: &ThreadState| thread.is_leader() && !is_same(thread);
    let listed = later.iter().filter(|thread| is_new(thread)).map(|thread| {
        let ppid = thread.process.as_ref().and_then(|process| process.ppid);
        (thread.start_time_clock_ticks, thread.tgid, ppid.unwrap_or(0))
    });
    // One that started while the last capture was made can have exited since: no capture has it.
    let exited = exits.each.iter().filter(|exit| is_new(&exit.state));
    let exited = exited.map(|exit| (exit.state.start_time_clock_ticks, exit.state.tgid, exit.ppid));
    let mut started: Vec<_> = listed.chain(exited).collect();
    started.sort_unstable();
    let mut owners = HashMap::new();
    for (_, tgid, ppid) in started {
        let of_parent = owners.get(&ppid).copied().unwrap_or_else(|| leader(ppid).and_then(|parent| parent.owner));
        let is_of_command = ppid == recorder || of_parent == Some(Owner::Command);
        owners.insert(tgid, is_of_command.then_some(Owner::Command));
    }
    let owner = |tgid: u32| owners.get(&tgid).copied().unwrap_or_else(|| leader(tgid)?.owner);
    later.iter_mut().for_each(|thread| thread.owner = thread.owner.or_else(|| owner(thread.tgid)));
    exits.each.iter_mut().for_each(|exit| exit.state.owner = owner(exit.state.tgid));
    for (tgid, part, row) in &mut exits.folded {
        let is_of_recorder = *tgid == recorder && *part != FoldedPart::Threads;
        row.state.owner = if is_of_recorder { Some(Owner::Command) } else { owner(*tgid) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Metrics, ProcessState};

    /// The first thread of a process with this parent, or another thread of it.
    fn thread((tgid, tid): (u32, u32), start: u64, ppid: u32) -> ThreadState {
        let process = ProcessState { ppid: Some(ppid), ..ProcessState::default() };
        let process = (tgid == tid).then(|| Box::new(process));
        ThreadState { tgid, tid, start_time_clock_ticks: Some(start), process, ..ThreadState::default() }
    }

    #[test]
    fn what_the_recorder_and_the_processes_of_its_command_start_is_of_the_command() {
        const RECORDER: u32 = 10;
        let of_command = |thread| ThreadState { owner: Some(Owner::Command), ..thread };
        let last_threads = [
            thread((RECORDER, RECORDER), 1, 1),
            thread((20, 20), 2, 1),
            of_command(thread((30, 30), 3, RECORDER)),
            of_command(thread((31, 31), 3, 30)),
        ];
        let last_threads = last_threads.into_iter().map(|thread| (thread.id(), thread)).collect();
        let mut later = vec![
            thread((RECORDER, RECORDER), 1, 1),
            // Its parent has the larger id.
            thread((15, 15), 9, 40),
            // A thread that an old process has started, and a process.
            thread((20, 21), 9, 0),
            thread((22, 22), 9, 20),
            thread((30, 32), 9, 0),
            // Another process with the id of one of the command.
            thread((31, 31), 9, 20),
            thread((40, 40), 8, 30),
            thread((41, 41), 9, RECORDER),
        ];
        let exit = |state: ThreadState| ExitedThread {
            ppid: state.process.as_ref().and_then(|process| process.ppid).unwrap_or(0),
            state,
            ..ExitedThread::default()
        };
        let folded = |tgid, part| (tgid, part, exit(thread((50, 50), 9, 0)));
        let mut exits = StepExits {
            each: vec![
                exit(thread((30, 33), 9, 0)),
                exit(thread((20, 23), 9, 0)),
                // No capture has had them.
                exit(thread((61, 61), 9, 60)),
                exit(thread((60, 60), 8, 30)),
                exit(thread((62, 62), 9, 20)),
            ],
            folded: vec![
                folded(RECORDER, FoldedPart::Threads),
                folded(RECORDER, FoldedPart::Children),
                folded(20, FoldedPart::Children),
                folded(41, FoldedPart::Threads),
                folded(60, FoldedPart::Children),
            ],
            ..StepExits::default()
        };
        mark_command(RECORDER, &last_threads, &mut later, &mut exits);
        let marked = |threads: &mut dyn Iterator<Item = &ThreadState>| -> Vec<_> {
            threads.map(|thread| thread.owner == Some(Owner::Command)).collect()
        };
        assert_eq!(marked(&mut later.iter()), [false, true, false, false, true, false, true, true]);
        let of_exits = [true, false, true, true, false, false, true, false, true, true];
        assert_eq!(marked(&mut exits.states()), of_exits);
    }

    #[test]
    fn an_exit_has_no_less_than_the_last_capture_had_read_of_the_thread() {
        let metrics = |run: u64, wait: u64, nice: i32| {
            let mut metrics = Box::<Metrics>::default();
            (metrics.run_time_ns, metrics.wait_time_ns) = (Some(run.into()), Some(wait.into()));
            metrics.nice = Some(nice.into());
            metrics
        };
        let last = ThreadState { metrics: metrics(7, 7, 9), ..thread((30, 30), 3, 1) };
        let last_threads = BTreeMap::from([(last.id(), last)]);
        let completed = |start| {
            let state = ThreadState { metrics: metrics(5, 9, 1), ..thread((30, 30), start, 1) };
            let mut exits = [ExitedThread { state, ..ExitedThread::default() }];
            complete_exits(&last_threads, &mut exits);
            exits[0].state.metrics.clone()
        };
        assert_eq!(completed(3), metrics(7, 9, 1));
        assert_eq!(completed(4), metrics(5, 9, 1), "another process with the id");
        let exit = |run: u64, replaced_by| ExitedThread {
            state: ThreadState { metrics: metrics(run, 9, 1), ..thread((30, 30), 3, 1) },
            replaced_by,
            ..ExitedThread::default()
        };
        let mut exits = [exit(6, Some(31)), exit(5, None)];
        complete_exits(&last_threads, &mut exits);
        let runs = exits.map(|exit| exit.state.metrics.run_time_ns);
        assert_eq!(runs, [Some(7_u64.into()), Some(5_u64.into())], "another thread got the ids of the first one");
    }

    #[test]
    fn an_exit_has_the_program_that_its_process_ran() {
        let leader = ThreadState { program: Some("job.py".into()), ..thread((30, 30), 3, 1) };
        let last_threads = BTreeMap::from([(leader.id(), leader)]);
        let program = |ids, start| {
            let mut exit = thread(ids, start, 1);
            add_program(&last_threads, &mut exit);
            exit.program.as_deref().map(str::to_owned)
        };
        assert_eq!([((30, 30), 3), ((30, 31), 9)].map(|(ids, start)| program(ids, start).unwrap()), ["job.py"; 2]);
        assert_eq!([((30, 30), 4), ((31, 31), 3)].map(|(ids, start)| program(ids, start)), [None, None]);
    }

    #[test]
    fn what_replaces_names_replaces_those_of_exited_threads_and_keeps_the_rest() {
        let named = |pcomm: &str| ExitedThread {
            state: ThreadState { pcomm: pcomm.into(), ..thread((30, 30), 3, 1) },
            ..ExitedThread::default()
        };
        let mut later = CtprofSnapshot { threads: vec![named("a").state], ..CtprofSnapshot::default() };
        let mut exits = StepExits {
            each: vec![named("b")],
            folded: vec![(1, FoldedPart::Children, named("c"))],
            ..StepExits::default()
        };
        let prepare = |snapshot: &mut CtprofSnapshot| {
            snapshot
                .threads
                .iter_mut()
                .for_each(|thread| thread.pcomm = format!("new {}", thread.pcomm).as_str().into());
        };
        prepare_with(&prepare, &mut later, &mut exits);
        assert_eq!(later.threads, [named("new a").state]);
        assert_eq!(exits.each, [named("new b")]);
        assert_eq!(exits.folded, [(1, FoldedPart::Children, named("new c"))]);
    }
}
