//! A progress bar for long tasks.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::ProgressBar;

use super::args::Messages;
use crate::process::{Progress, without_stops};

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
    (messages == Messages::All && io::stderr().is_terminal()).then(|| start(progress))
}

fn start(progress: &Arc<Progress>) -> Watch {
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
    Watch { end: Some(end), drawing: without_stops(|| thread::Builder::new().spawn(draw).ok()) }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(drawing) = self.drawing.take() {
            let _ = drawing.join();
        }
    }
}
