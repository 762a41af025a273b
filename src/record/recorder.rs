//! The recorder: captures, and the threads that exit in between.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::error::RecordError;
use super::pass_rate::SampledAs;
use super::sampler::{EndedSamples, OpenSamples, Sampler, ends_in, monotonic};
use super::until::{Until, WindowEnd};
use super::zombies::complete_zombies;
use crate::capture::{CaptureError, Capturer, ExitListener, ExitSink, Options, RecordedExits, Smaps, nanoseconds};
use crate::model::{CtprofSnapshot, ExitedThread, HostContext, ProcessSelection, SnapshotHead};
use crate::process::{RaisedPriority, Signals, lock, with_file_capabilities, without_stops};
use crate::window::{self, EarlierThreads, Exits, FoldedExits, Recording};

/// Takes captures and windows, with BPF programs that are loaded before the first one. After that, nothing needs the
/// capabilities for loading them.
pub struct Recorder {
    pub(super) capturer: Capturer,
    pub(super) selection: Arc<ProcessSelection>,
    /// `None` where no program can record exits.
    pub(super) listener: Option<ExitListener>,
    /// `None` if windows have no reasons.
    pub(super) sampler: Option<Sampler>,
}

/// A window after its earlier capture.
pub struct OpenWindow<'r> {
    recorder: &'r mut Recorder,
    earlier: SnapshotHead,
    threads: EarlierThreads,
    /// Threads that started and exited since then.
    folded: Arc<Mutex<FoldedExits>>,
    samples: Option<OpenSamples>,
    /// On a busy host, a window would end seconds late otherwise.
    raised: RaisedPriority,
}

impl Recorder {
    /// Prepares so many windows, with records of exiting threads in a ring buffer of at least `ring_bytes`. Why there are
    /// no such records, if there are none, is a message of the log.
    ///
    /// # Errors
    /// [`CaptureError`] if there is no procfs, or not the engine of the options.
    pub fn new(options: Options, windows: usize, ring_bytes: u32) -> Result<Self, CaptureError> {
        let listener = listener(&options, ring_bytes)?;
        Ok(Self::with_listener(Capturer::new(options.clone(), windows.saturating_mul(2))?, &options, listener))
    }

    /// Returns a recorder as [`Recorder::new`] does, for a series of steps.
    ///
    /// # Errors
    /// The errors of [`Recorder::new`].
    pub fn of_series(options: Options, ring_bytes: u32) -> Result<Self, CaptureError> {
        let listener = listener(&options, ring_bytes)?;
        Ok(Self::with_listener(Capturer::of_changes(options.clone())?, &options, listener))
    }

    /// Prepares one capture, without records of exiting threads.
    ///
    /// # Errors
    /// [`CaptureError`] if there is no procfs, or not the engine of the options.
    pub fn of_one_capture(options: Options) -> Result<Self, CaptureError> {
        Ok(Self::with_listener(Capturer::new(options.clone(), 1)?, &options, None))
    }

    fn with_listener(mut capturer: Capturer, options: &Options, listener: Option<ExitListener>) -> Self {
        listener.iter().for_each(|listener| capturer.share_cgroups(listener));
        let found_at_ns = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(u64::MAX, |now| nanoseconds(now.into()));
        let selection = Arc::new(ProcessSelection { pids: options.pids.clone(), found_at_ns });
        Self { capturer, selection, listener, sampler: None }
    }

    /// Samples during all windows from now on, so many times per second or as often as that takes 1 % of one CPU. Why there
    /// are no samples, if there are none, is a message of the log.
    #[must_use]
    pub fn with_reasons(mut self, options: &Options, rate: f64) -> Self {
        let selection = ProcessSelection::clone(&self.selection);
        self.sampler = Sampler::start(options, rate, selection).inspect_err(|error| tracing::info!("{error}")).ok();
        self
    }

    /// How many entries each map has that outlives a step, for tests of weeks of recording.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, usize)> {
        let mut entries = self.capturer.entries();
        entries.extend(self.listener.iter().flat_map(ExitListener::entries));
        entries.extend(self.sampler.iter().flat_map(Sampler::entries));
        entries
    }

    /// Makes each pass later than this after one over all threads read all threads, for tests of weeks of recording.
    pub fn read_all_every(&mut self, time: Duration) {
        self.capturer.read_all_every(time);
        self.sampler.iter_mut().for_each(|sampler| sampler.session = time);
    }

    /// Takes a capture of all threads.
    ///
    /// # Errors
    /// [`CaptureError`] if nothing useful can be read.
    pub fn capture(&mut self) -> Result<CtprofSnapshot, CaptureError> {
        let smaps = self.capturer.smaps();
        self.capturer.capture(smaps)
    }

    /// Takes a capture, and samples why threads wait while it does.
    ///
    /// # Errors
    /// [`CaptureError`] if nothing useful can be read.
    pub fn capture_with_samples(&mut self) -> Result<CtprofSnapshot, CaptureError> {
        let samples = self.sampler.as_ref().and_then(|sampler| sampler.begin(SampledAs::OneWindow));
        let mut snapshot = self.capture()?;
        if let Some(sampled) = samples.map(OpenSamples::end).and_then(EndedSamples::wait) {
            snapshot.head.reasons = Some(Box::new(sampled.reasons(&snapshot.threads, &|_| None)));
        }
        Ok(snapshot)
    }

    /// Takes the earlier capture of a window.
    ///
    /// # Errors
    /// [`CaptureError`] if nothing useful can be read, or all selected processes have exited.
    pub fn open(&mut self) -> Result<OpenWindow<'_>, CaptureError> {
        self.capturer.check_selected()?;
        let raised = RaisedPriority::of_this_thread();
        self.listener.iter_mut().for_each(ExitListener::restart);
        // As the samples end before the later capture, they begin before this one, which can take long.
        let samples = self.sampler.as_ref().and_then(|sampler| sampler.begin(SampledAs::OneWindow));
        // Only the later memory of processes is shown.
        let CtprofSnapshot { head: earlier, threads } = self.capturer.capture(Smaps::Never)?;
        let threads = EarlierThreads::of_threads(threads);
        let folded = Arc::default();
        self.fold(&earlier.host.clone().unwrap_or_default(), &folded, samples.as_ref());
        Ok(OpenWindow { recorder: self, earlier, threads, folded, samples, raised })
    }

    /// Folds what starts and exits from now on, and notes its end for the samples.
    pub(super) fn fold(&mut self, host: &HostContext, to: &Arc<Mutex<FoldedExits>>, samples: Option<&OpenSamples>) {
        let Some(listener) = &mut self.listener else { return };
        let (folded, selection) = (Arc::clone(to), Arc::clone(&self.selection));
        let ends = samples.map(|samples| Arc::clone(&samples.ends));
        let note = move |exit: &ExitedThread| ends.iter().for_each(|ends| ends.add(exit));
        let executed = Box::new(note.clone());
        let exited = move |exit: ExitedThread, left| {
            note(&exit);
            if is_selected(&selection, &exit) {
                lock(&folded).add_after(left, exit);
            }
        };
        listener.fold(host, ExitSink { exited: Box::new(exited), executed });
    }
}

impl OpenWindow<'_> {
    /// Waits for the end of the window. Its time counts from when the threads of the earlier capture were read: on a busy host, the
    /// rest of a capture takes long.
    ///
    /// # Errors
    /// As [`Until::wait`].
    pub fn wait(&self, until: &Until, signals: &Signals) -> Result<WindowEnd, RecordError> {
        let Until::Elapsed(time) = until else { return until.wait(signals) };
        let elapsed = time_since(&self.earlier);
        let mut end = Until::Elapsed(time.saturating_sub(elapsed)).wait(signals)?;
        end.requested_ns = u64::try_from(time.as_nanos()).ok().filter(|_| end.interrupted.is_none());
        Ok(end)
    }

    /// Takes the later capture, and returns what happened in between.
    ///
    /// # Errors
    /// [`RecordError`] if nothing useful can be read, or the command was reaped elsewhere.
    pub fn close(self, end: WindowEnd) -> Result<CtprofSnapshot, RecordError> {
        let Self { recorder, earlier, threads, folded, samples, raised: _raised } = self;
        let _all_raised = RaisedPriority::of_all_if_crowded();
        let Recorder { capturer, listener, selection, .. } = recorder;
        let requested_ns = end.requested_ns;
        let sampled = samples.map(OpenSamples::end);
        // What exits from now on may be in the later capture.
        listener.iter_mut().for_each(ExitListener::keep_all);
        let folded = std::mem::take(&mut *lock(&folded));
        let smaps = capturer.smaps();
        let mut later = capturer.capture(smaps)?;
        let reaped = end.conclude(&mut later, capturer.own_id())?;
        let host = later.head.host.clone().unwrap_or_default();
        let mut records = listener.as_mut().map(|listener| listener.drain_last(&host, &later.threads));
        let sampled = sampled.and_then(EndedSamples::wait);
        let recorded = records.iter().flat_map(|records| records.threads().chain(records.zombies()));
        complete_zombies(&mut later.threads, recorded, ends_in(&sampled), |_| None);
        let command = reaped.map(|command| command.add_peak_memory(&mut later.threads));
        let each = |add: &mut dyn FnMut(ExitedThread)| {
            records.iter().flat_map(RecordedExits::all).filter(|exit| is_selected(selection, exit)).for_each(add);
        };
        let cgroup = |key| capturer.cgroup(key);
        let summary = records.as_ref().map(|exits| exits.summary.clone());
        let exits = Exits { summary, each: Some(&each), folded, cgroup: Some(&cgroup) };
        let recording = Recording { exits, recorder: Some(capturer.own_id()), command, requested_ns };
        let mut window = window::recorded(&earlier, threads, later, recording)?;
        records.iter_mut().for_each(|records| records.name_containers(&mut window));
        if let Some(mut sampled) = sampled {
            if let Some(records) = &records {
                sampled.add_ends(records.threads());
            }
            let reasons = sampled.reasons(&window.threads, &cgroup);
            window.head.reasons = Some(Box::new(reasons));
            window::leave_out_lost(&mut window);
        }
        Ok(window)
    }
}

/// Time since the threads of a capture of this boot were read.
pub(super) fn time_since(capture: &SnapshotHead) -> Duration {
    let start = capture.capture.as_ref().and_then(|capture| capture.monotonic_ns);
    start.map_or(Duration::ZERO, |start| monotonic().saturating_sub(Duration::from_nanos(start)))
}

/// Returns the listener that records exits; `None` if BPF is not available.
fn listener(options: &Options, ring_bytes: u32) -> Result<Option<ExitListener>, CaptureError> {
    let listener = with_file_capabilities(|| without_stops(|| ExitListener::start(options, ring_bytes)))?;
    Ok(listener.inspect_err(|error| tracing::info!("{error}")).ok())
}

/// Whether a thread is of a selected process.
pub(super) fn is_selected(selection: &ProcessSelection, exit: &ExitedThread) -> bool {
    selection.has(exit.state.tgid, exit.process_started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CaptureInfo;

    #[test]
    fn the_time_of_a_window_counts_from_its_first_capture() {
        let started = nanoseconds(monotonic() - Duration::from_secs(5));
        let capture = CaptureInfo { monotonic_ns: Some(started), ..CaptureInfo::default() };
        let capture = SnapshotHead { capture: Some(capture), ..SnapshotHead::default() };
        let seconds = time_since(&capture).as_secs();
        assert!((5..60).contains(&seconds), "{seconds}");
        assert_eq!(time_since(&SnapshotHead::default()), Duration::ZERO);
    }
}
