//! Progress of several runs, with the time left.

use std::io::{self, IsTerminal};
use std::time::Instant;

use indicatif::{HumanDuration, ProgressBar, ProgressFinish, ProgressStyle};

use super::args::Messages;
use super::errors::say;
use crate::process::Streams;

/// Says on a terminal what runs, and about how long the rest takes.
pub(super) struct RunProgress {
    shown: Shown,
    steps: usize,
    done: usize,
    began: Instant,
}

enum Shown {
    Nothing,
    /// A line per step: the command may write to the terminal.
    Lines,
    Bar(ProgressBar),
}

impl RunProgress {
    /// Shows the progress of this many steps if standard error is a terminal and messages are enabled.
    pub(super) fn new(steps: usize, streams: Streams, messages: Messages) -> Self {
        let shown = match streams {
            _ if messages != Messages::All || !io::stderr().is_terminal() => Shown::Nothing,
            Streams::Inherited | Streams::ToStderr => Shown::Lines,
            Streams::Discarded => Shown::Bar(bar(steps)),
        };
        Self { shown, steps, done: 0, began: Instant::now() }
    }

    /// Starts the next step. Nothing is drawn until the one after it, so that a run is not disturbed.
    pub(super) fn start(&mut self, step: &str) {
        let text = format!("{step}{}", self.left());
        match &self.shown {
            Shown::Nothing => {}
            Shown::Lines => say(format_args!("ctprof: {text}")),
            Shown::Bar(bar) => {
                bar.set_position(count(self.done));
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
        let steps = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let left = self.began.elapsed() * steps(self.steps.saturating_sub(self.done)) / steps(self.done);
        format!(", about {} left", HumanDuration(left))
    }
}

fn count(steps: usize) -> u64 {
    u64::try_from(steps).unwrap_or(u64::MAX)
}

fn bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:20} {msg}").expect("a valid template");
    ProgressBar::new(count(steps)).with_style(style).with_finish(ProgressFinish::AndClear)
}
