//! `ctprof record --every`, and the steps of a file.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::capture::redact_key;
use super::record::{begin, check, end_of_command, exit_status, print, recorder, signals, stream, until};
use super::{
    Format, Messages, RecordArgs, StepStream, Stream, ViewArgs, after_command, described, groups_exist, is_broken_pipe,
    say, selection, usage_error, write_to,
};
use crate::compare::{CompareOptions, Form, Grouping, NoSuchGroup, OverviewColumn, Quantity, Sides, StepGate, show};
use crate::diagnose::plural;
use crate::model::{CtprofSnapshot, RecordedCommand, Section};
use crate::process::check_stdout;
use crate::record::{OpenSeries, Preparation, RecordError, RecordedStep};
use crate::report::{TraceWriter, escaped, series_summary, write_json, write_step, write_step_columns, write_step_csv};
use crate::series::{Moment, Part, Step};
use crate::store::{OutputTarget, SegmentWriter, SeriesWriter, StoreError, Written};

/// How long a recording that a signal has ended waits for a reader of its last steps.
const AFTER_SIGNAL: Duration = Duration::from_secs(1);
/// Groups of a step that are shown.
const GROUPS: usize = 5;
/// Columns of a step, if none are selected.
const COLUMNS: [&str; 3] = ["run", "wait", "block"];

pub(super) struct StepPrinter<'v> {
    stream: Stream,
    out: StepStream<'v>,
    view: &'v ViewArgs,
    options: CompareOptions,
    is_first: bool,
    /// Selections of groups that have matched none in any step; `None` before the first step.
    unmatched: Option<Vec<NoSuchGroup>>,
    /// Why no step so far has threads of the scope.
    out_of_scope: Option<NoSuchGroup>,
    trace: TraceWriter,
}

impl<'v> StepPrinter<'v> {
    pub(super) fn new(stream: Stream, view: &'v ViewArgs) -> anyhow::Result<Self> {
        if !matches!(view.format, Format::Table | Format::Json | Format::Csv | Format::Perfetto) {
            return Err(usage_error("steps are printed as table, json, csv or perfetto".to_owned()));
        }
        let mut options = view.options(Sides::one("step".to_owned()));
        let is_column = |quantity: &&Quantity| matches!(quantity, Quantity::Column(_));
        if let Some(other) = options.selection.metrics.iter().find(|quantity| !is_column(quantity)) {
            let columns = OverviewColumn::of_groups().map(|column| column.name).collect::<Vec<_>>().join(", ");
            return Err(usage_error(format!(
                "steps have no `{}`, only columns of the overview: {columns}",
                other.name()
            )));
        }
        (options.selection.form, options.selection.sections) = (Form::Overview, vec![Section::Host, Section::Overview]);
        if view.format == Format::Perfetto {
            options.selection.sections.push(Section::HostPressure);
        }
        Ok(Self {
            stream,
            out: StepStream::new(stream, view),
            view,
            options,
            is_first: true,
            unmatched: None,
            out_of_scope: None,
            trace: TraceWriter::default(),
        })
    }

    pub(super) fn print(&mut self, window: &CtprofSnapshot) -> anyhow::Result<()> {
        let out_of_scope = self.view.scope.as_ref().and_then(|scope| scope.check(&window.head).err());
        self.out_of_scope = out_of_scope.filter(|_| self.is_first || self.out_of_scope.is_some());
        let report = show(window, &self.options);
        let is_unmatched = |earlier: &NoSuchGroup| report.unmatched.iter().any(|new| new.is_of_glob_of(earlier));
        self.unmatched.get_or_insert_with(|| report.unmatched.clone()).retain(is_unmatched);
        if !self.out.takes_step()? {
            return Ok(());
        }
        let mut selection = selection(self.view, self.stream, &report);
        if self.view.format == Format::Table && self.view.limit.is_none() {
            (selection.groups, selection.victims) = (Some(GROUPS), 0);
        }
        if self.options.selection.metrics.is_empty() {
            selection.overview = &COLUMNS;
        }
        let is_first = std::mem::replace(&mut self.is_first, false);
        self.out.write(|out, terminal| match self.view.format {
            Format::Json => write_json(out, &report, &selection),
            Format::Csv => {
                if is_first {
                    write_step_columns(out)?;
                }
                write_step_csv(out, &report, &selection)
            }
            Format::Perfetto => self.trace.add(out, &report),
            _ => write_step(out, &report, &selection, terminal),
        })
    }

    /// Refuses selections that have matched no group of any step.
    pub(super) fn groups_exist(&self) -> anyhow::Result<()> {
        groups_exist(self.unmatched.as_deref().unwrap_or_default(), self.view)
    }

    /// Ends the output, for whose reader it waits so long, and refuses a scope in which no step has threads.
    pub(super) fn finish(mut self, patience: Duration) -> anyhow::Result<()> {
        if self.view.format == Format::Perfetto {
            self.out.write(|out, _| self.trace.finish(out))?;
        }
        let missing = self.out.finish(patience)?;
        if missing > 0 {
            let steps = plural(missing, "step");
            tracing::warn!("{missing} {steps} not printed, because nobody read them in time: only the file has them");
        }
        self.out_of_scope.map_or(Ok(()), |error| Err(anyhow::Error::new(error).context("--scope")))
    }
}

enum SeriesOutput {
    File(SeriesWriter),
    Segments(SegmentWriter),
}

impl SeriesOutput {
    fn create(args: &RecordArgs, output: &Path, first: &CtprofSnapshot) -> anyhow::Result<Self> {
        let limit = args.view.limits.max_snapshot_bytes;
        Ok(match args.keep {
            Some(keep) => Self::Segments(SegmentWriter::create(output, keep, limit, first)?),
            None => Self::File(SeriesWriter::create(OutputTarget::create(output)?, first, limit)?),
        })
    }

    fn add(&mut self, step: Step, moment: &Moment) -> Result<(), StoreError> {
        match self {
            Self::File(file) => file.add(step, moment),
            Self::Segments(segments) => segments.add(step, moment),
        }
    }

    fn finish(self) -> Result<Written, StoreError> {
        match self {
            Self::File(file) => file.finish(),
            Self::Segments(segments) => segments.finish(),
        }
    }
}

/// When a series ends because of what happened.
struct StepEnd<'a> {
    gate: Option<&'a StepGate>,
    after: Duration,
    grouping: Grouping,
    /// When it ends; `None` as long as the gate is not met.
    at: Option<Instant>,
}

impl StepEnd<'_> {
    fn is_reached(&mut self, window: &CtprofSnapshot) -> bool {
        let Some(gate) = self.gate.filter(|_| self.at.is_none()) else {
            return self.at.is_some_and(|at| at <= Instant::now());
        };
        let Some(group) = gate.met_by(window, &self.grouping) else { return false };
        say(format_args!("--until is met by {}", escaped(&group)));
        self.at = Some(Instant::now() + self.after);
        self.after.is_zero()
    }
}

struct StepOutput<'v> {
    printer: Option<StepPrinter<'v>>,
    file: Option<SeriesOutput>,
    /// All steps together, if nobody can read them from a file.
    whole: Option<Part>,
}

impl StepOutput<'_> {
    /// Adds a step; false if nobody reads what is printed.
    fn add(&mut self, step: RecordedStep, moment: &Moment) -> anyhow::Result<bool> {
        let RecordedStep { step, exits, mut window } = step;
        match (&mut self.file, &mut self.whole) {
            (Some(file), _) => file.add(step, moment)?,
            (None, Some(whole)) => whole.add(exits, step.reasons.map(|reasons| *reasons)),
            (None, None) => {}
        }
        let print = |printer: &mut StepPrinter<'_>| {
            moment.add_unchanged(&mut window);
            if self.file.is_some() {
                printer.out.stop_waiting()?;
            }
            printer.print(&window)
        };
        match self.printer.as_mut().map_or(Ok(()), print) {
            Err(error) if is_broken_pipe(&error) => {
                self.printer = None;
                Ok(false)
            }
            printed => printed.map(|()| true),
        }
    }

    /// Ends the file, if there is one: without its end, readers take it for one whose recorder was killed.
    fn end(&mut self) -> Result<Option<Written>, StoreError> {
        self.file.take().map(SeriesOutput::finish).transpose()
    }
}

/// Records a window in steps; the exit status is the command's.
pub(super) fn run(args: &RecordArgs, every: Duration, messages: Messages) -> anyhow::Result<ExitCode> {
    check(args)?;
    let is_stdout = args.output.as_deref().is_some_and(|output| output.as_os_str() == "-");
    let stream = stream(args);
    let prints = !is_stdout && (args.output.is_none() || messages == Messages::All);
    let printer = prints.then(|| StepPrinter::new(stream, &args.view)).transpose()?;
    if prints && stream == Stream::Stdout {
        check_stdout().context("cannot write to standard output")?;
    }
    let (signals, until) = (signals(args)?, until(args));
    let mut recorder = recorder(args, 1, &signals)?;
    let preparation =
        redact_key(&args.sources)?.map(|key| -> Preparation { Box::new(move |capture| capture.redact(&key)) });
    let mut series = recorder.open_series(every, &until, preparation)?;
    let first = |output| SeriesOutput::create(args, output, &series.moment().capture()?);
    let file = args.output.as_deref().map(first);
    let whole = args.output.is_none() && args.view.format == Format::Table;
    let whole = whole.then(|| Part::begin(series.moment())).transpose()?;
    let mut output = StepOutput { printer, file: file.transpose()?, whole };
    let grouping = args.view.options(Sides::one(String::new())).grouping;
    let after = args.after.unwrap_or_default();
    let mut end_of_steps = StepEnd { gate: args.until.as_ref(), after, grouping, at: None };
    let mut waiting = begin(&until, &signals).inspect_err(|_| drop(output.end()))?;
    // On a busy host, the first capture takes long.
    let mut next = series.last();
    let mut count = 0_u64;
    // How the command ended, if there was one, once the series has ended.
    let mut ended = None;
    let mut patience = Duration::MAX;
    let mut record = || {
        loop {
            next = following(next, series.every());
            // The last step is a little longer, instead of another one that is short.
            let end = waiting.wait(&signals, Some(waiting.end_near(next, series.every() / 10)))?;
            ended = end.as_ref().map(|end| end.of_command);
            if end.as_ref().is_some_and(|end| end.interrupted.is_some()) {
                patience = AFTER_SIGNAL;
            }
            let step = match series.step(end, &signals) {
                // The steps before it are whole.
                Err(error @ RecordError::Interrupted(_)) if count > 0 => {
                    tracing::warn!("{error}");
                    return Ok(None);
                }
                step => step?,
            };
            let command = step.step.command.clone();
            count += 1;
            let is_reached = end_of_steps.is_reached(&step.window);
            let is_read = output.add(step, series.moment())?;
            if ended.is_some() || is_reached || !is_read && args.command.is_empty() {
                return anyhow::Ok(command);
            }
        }
    };
    let last = match record() {
        Ok(last) => last,
        Err(error) => {
            if !matches!(error.downcast_ref(), Some(StoreError::Write(..))) {
                let _ = output.end();
            }
            // Whoever started ctprof expects that the command has ended.
            if waiting.runs_on() {
                tracing::warn!("the recording has ended, the command runs on: {}", described(&error));
                ended = Some(end_of_command(waiting, &signals)?);
            }
            return after_command(ended.flatten(), Err(error));
        }
    };
    signals.begin_conclusion();
    let written = output.end();
    // No signal has ended a recording that was not written. Printing can wait for a reader. A command that met the bound of --until,
    // or outlives the time, goes on without being recorded.
    let signals = Some(signals).filter(|_| waiting.runs_on());
    let printed = finish_printing(args, &series, output, (last, patience));
    let finished = written.map_err(Into::into).and_then(|written| {
        summarize(written.filter(|_| messages == Messages::All), count);
        printed
    });
    drop(series);
    drop(recorder);
    let mut end = ended.flatten();
    if let Some(signals) = signals {
        end = end_of_command(waiting, &signals)?;
    }
    after_command(end, finished)?;
    Ok(exit_status(end))
}

/// Ends what is printed, with the whole window if no file has it.
fn finish_printing(
    args: &RecordArgs,
    series: &OpenSeries<'_>,
    output: StepOutput<'_>,
    (command, patience): (Option<RecordedCommand>, Duration),
) -> anyhow::Result<()> {
    let Some(printer) = output.printer else { return Ok(()) };
    if let Some(whole) = output.whole {
        let window = whole.end_with_all(series.moment().capture()?, command)?;
        write_to(stream(args), &args.view, |out, _| writeln!(out))?;
        print(args, &window, &args.view)?;
    }
    printer.finish(patience)
}

/// Says where the steps were written.
fn summarize(written: Option<Written>, steps: u64) {
    if let Some(Written { path, bytes }) = written {
        let _ = series_summary(&mut io::stderr().lock(), steps, &escaped(&path.to_string_lossy()), bytes);
    }
}

/// The next multiple of the length of a step. Steps that are late are longer, not more.
fn following(last: Instant, every: Duration) -> Instant {
    let now = Instant::now();
    let passed = now.saturating_duration_since(last).as_nanos() / every.as_nanos().max(1);
    let passed = u32::try_from(passed).unwrap_or(u32::MAX);
    last + every.saturating_mul(passed.saturating_add(1))
}
