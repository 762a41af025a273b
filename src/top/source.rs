//! Where windows come from: a recorder, or the file of a series.

use std::time::{Duration, Instant};

use super::past::{Past, PastSegments, TimedWindow};
use crate::process::Signals;
use crate::record::{OpenSeries, RecordError, RecordedStep};
use crate::store::{PartPath, StoreError};

/// The first window is shorter, so that there soon is one.
const FIRST: Duration = Duration::from_millis(500);

/// A series that is being recorded, or one that was.
pub(crate) struct WindowSource<'r> {
    /// `None` for a file.
    live: Option<Box<OpenSeries<'r>>>,
    pub(super) past: Past,
    limit: u64,
    /// When the last window came.
    last: Instant,
    has_begun: bool,
}

/// Why there is no window.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWindows {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Series(#[from] crate::series::SeriesError),
}

impl<'r> WindowSource<'r> {
    /// Windows of a recorder. Files of at most `limit` bytes of JSON are read.
    pub(crate) fn of_recorder(series: OpenSeries<'r>, limit: u64) -> Result<Self, NoWindows> {
        let past = Past::Memory(PastSegments::begin(&series.moment().capture()?, limit)?);
        Ok(Self { last: series.last(), live: Some(Box::new(series)), past, limit, has_begun: false })
    }

    /// Windows of a file.
    pub(crate) fn of_file(part: PartPath, limit: u64) -> Self {
        Self { live: None, past: Past::File(part), limit, last: Instant::now(), has_begun: false }
    }

    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// When the next window is due.
    pub(super) fn due(&self, every: Duration) -> Instant {
        let every = self.live.as_ref().map_or(every, |series| series.every());
        match (self.has_begun, self.is_live()) {
            (false, true) => self.last + FIRST.min(every),
            (false, false) => self.last,
            (true, _) => self.last + every,
        }
    }

    /// Makes windows this long, from a recorder.
    pub(super) fn set_every(&mut self, every: Duration) {
        self.live.iter_mut().for_each(|series| series.set_every(every));
    }

    /// The window that is due, after the one that is shown, if there is one; `None` at the end of a file.
    pub(super) fn next(
        &mut self,
        shown: Option<&TimedWindow>,
        signals: &Signals,
    ) -> Result<Option<TimedWindow>, NoWindows> {
        self.has_begun = true;
        let Some(series) = &mut self.live else {
            self.last = Instant::now();
            let first = || self.past.first(self.limit);
            return Ok(shown.map_or_else(first, |shown| self.past.after(shown, self.limit))?);
        };
        let begin_ns = series.moment().boottime_ns().unwrap_or(0);
        let RecordedStep { step, mut window, .. } = series.step(None, signals)?;
        self.last = series.last();
        series.moment().add_unchanged(&mut window);
        if let Past::Memory(past) = &mut self.past {
            past.add(step, series.moment())?;
        }
        Ok(Some(TimedWindow { window, times: [begin_ns, series.moment().boottime_ns().unwrap_or(0)] }))
    }
}
