//! Progress of long tasks, and of several runs, with the time left.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressFinish, ProgressStyle};

use super::{Messages, say};
use crate::process::{Progress, Streams, without_stops};

/// Tasks that end earlier show no bar.
const PATIENCE: Duration = Duration::from_millis(500);
const REDRAW: Duration = Duration::from_millis(100);

/// A bar that is shown until it is dropped.
pub(super) struct Watch {
    end: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

/// Shows the progress of a task if standard error is a terminal and messages are enabled.
pub(super) fn watch(progress: &Arc<Progress>, messages: Messages) -> Option<Watch> {
    if messages != Messages::All || !io::stderr().is_terminal() {
        return None;
    }
    let (end, ended) = channel();
    let progress = Arc::clone(progress);
    let draw = move || {
        if ended.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let bar = ProgressBar::new(0);
        while ended.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
            bar.set_length(progress.total());
            bar.set_position(progress.done());
        }
        bar.finish_and_clear();
    };
    // If the thread cannot start, there is no bar.
    Some(Watch { end: Some(end), drawing: without_stops(|| thread::Builder::new().spawn(draw).ok()) })
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(drawing) = self.drawing.take() {
            let _ = drawing.join();
        }
    }
}

/// Says on a terminal what runs, and about how long the rest takes.
pub(super) struct RunProgress {
    display: StepDisplay,
    steps: u32,
    done: u32,
    began: Instant,
}

enum StepDisplay {
    Nothing,
    /// A line per step: the command may write to the terminal.
    Lines,
    Bar(ProgressBar),
}

impl RunProgress {
    /// Shows the progress of this many steps if standard error is a terminal and messages are enabled.
    pub(super) fn new(steps: u32, streams: Streams, messages: Messages) -> Self {
        let display = match streams {
            _ if messages != Messages::All || !io::stderr().is_terminal() => StepDisplay::Nothing,
            Streams::Inherited | Streams::ToStderr => StepDisplay::Lines,
            Streams::Discarded => {
                let style = ProgressStyle::with_template("{bar:20} {msg}").expect("a valid template");
                let bar = ProgressBar::new(steps.into()).with_style(style);
                StepDisplay::Bar(bar.with_finish(ProgressFinish::AndClear))
            }
        };
        Self { display, steps, done: 0, began: Instant::now() }
    }

    /// Starts the next step. Nothing is drawn until the one after it, so that a run is not disturbed.
    pub(super) fn start(&mut self, step: &str) {
        let text = format!("{step}{}", self.left());
        match &self.display {
            StepDisplay::Nothing => {}
            StepDisplay::Lines => say(format_args!("ctprof: {text}")),
            StepDisplay::Bar(bar) => {
                bar.set_position(self.done.into());
                bar.set_message(text);
            }
        }
        self.done += 1;
    }

    /// The time that the steps left take, if they take as long as the others.
    fn left(&self) -> String {
        if self.done == 0 {
            return String::new();
        }
        let left = self.began.elapsed() * self.steps.saturating_sub(self.done) / self.done;
        format!(", about {} left", HumanDuration(left))
    }
}
