//! A progress bar for long captures.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::ProgressBar;

use crate::capture::Progress;

/// Captures that end earlier show no bar.
const PATIENCE: Duration = Duration::from_millis(500);
const REDRAW: Duration = Duration::from_millis(100);

/// A bar that is shown until it is dropped.
pub(super) struct Watch {
    end: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

pub(super) fn watch(progress: &Arc<Progress>) -> Watch {
    let (end, ended) = channel();
    let progress = Arc::clone(progress);
    let draw = move || {
        if ended.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let bar = ProgressBar::new(0);
        while ended.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
            let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
            bar.set_length(count(progress.total.load(Ordering::Relaxed)));
            bar.set_position(count(progress.done.load(Ordering::Relaxed)));
        }
        bar.finish_and_clear();
    };
    // If the thread cannot start, there is no bar.
    Watch { end: Some(end), drawing: thread::Builder::new().spawn(draw).ok() }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(drawing) = self.drawing.take() {
            let _ = drawing.join();
        }
    }
}
