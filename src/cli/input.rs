//! Reads snapshot files into digests.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use clap::CommandFactory;
use clap::error::ErrorKind;

use super::args::{Args, Messages, View};
use super::progress::{self, Watch};
use crate::compare::{Digest, Options, Scope, Sides, ThreadTotals};
use crate::model::{CtprofSnapshot, Threads};
use crate::process::Progress;
use crate::store::{StoreError, Stored};
use crate::window::{self, Earlier, Ends, Exits, Join, NoWindow};

/// Reads files with a progress bar, as long as it lives.
pub(super) struct Input<'o> {
    options: &'o Options,
    limit: u64,
    progress: Arc<Progress>,
    _watch: Option<Watch>,
}

/// A file, open or read.
enum Opened {
    /// With what precedes its threads.
    Streamed(Box<CtprofSnapshot>, Stored),
    /// ctprof did not write it: it is in memory.
    Whole(Box<CtprofSnapshot>),
}

impl Opened {
    fn head(&self) -> &CtprofSnapshot {
        let (Self::Streamed(head, _) | Self::Whole(head)) = self;
        head
    }
}

impl<'o> Input<'o> {
    pub(super) fn new(options: &'o Options, view: &View, messages: Messages) -> Self {
        let progress = Arc::new(Progress::default());
        let watch = progress::watch(&progress, messages);
        Self { options, limit: view.limits.max_snapshot_bytes, progress, _watch: watch }
    }

    /// One snapshot or window.
    pub(super) fn one(&self, path: &Path) -> Result<Digest> {
        let digest = self.digest(Opened::Streamed(Box::default(), Stored::open(path, self.limit)?))?;
        self.in_scope(digest, path)
    }

    /// Scope `command` needs a window of a command.
    fn in_scope(&self, digest: Digest, path: &Path) -> Result<Digest> {
        let command = digest.snapshot.window.as_ref().and_then(|window| window.command.as_ref());
        if self.options.scope == Scope::Command && command.is_none() {
            let message = format!(
                "{} has no recorded command for --scope command; record one with `ctprof record -- COMMAND`",
                path.display()
            );
            return Err(Args::command().error(ErrorKind::ValueValidation, message).into());
        }
        Ok(digest)
    }

    /// The window between two snapshots.
    pub(super) fn window(&self, paths: Sides<&Path>) -> Result<Digest> {
        let (earlier, later) = self.open_both(paths)?;
        let (earlier, threads) = self.load(earlier, &Earlier::default())?;
        let join = window::increases(&earlier, threads, later.head(), &self.totals()).map_err(as_usage)?;
        let (mut later, join) = self.load(later, &join)?;
        let ends = join.finish(&later, &Exits::default());
        let threads = window::into_window(&earlier, &mut later, ends);
        self.in_scope(Digest::new(later, threads), paths.candidate)
    }

    /// Both sides of a comparison. Of two snapshots of one boot, the later one has what happened in between.
    pub(super) fn sides(&self, paths: Sides<&Path>) -> Result<Sides<Digest>> {
        let (earlier, later) = self.open_both(paths)?;
        let (a, b) = (earlier.head(), later.head());
        if a.window.is_some() != b.window.is_some() {
            return Err(one_window(paths, a));
        }
        // The wall clock can be set back in between, so that it does not say which one is later.
        let are_two = a.captured_at_unix_ns != b.captured_at_unix_ns;
        if are_two && window::check(a, b).is_ok() {
            let sides = self.like_for_like(earlier, later)?;
            return Ok(Sides { candidate: self.in_scope(sides.candidate, paths.candidate)?, ..sides });
        }
        let (a, b) = rayon::join(|| self.digest(earlier), || self.digest(later));
        Ok(Sides { baseline: self.in_scope(a?, paths.baseline)?, candidate: self.in_scope(b?, paths.candidate)? })
    }

    fn like_for_like(&self, earlier: Opened, later: Opened) -> Result<Sides<Digest>> {
        let (earlier, threads) = self.load(earlier, &Earlier::default())?;
        let join = window::totals(&earlier, threads, later.head(), &self.totals()).map_err(as_usage)?;
        let (later, join): (_, Join<ThreadTotals>) = self.load(later, &join)?;
        let Ends { before, threads, window, .. } = join.finish(&later, &Exits::default());
        let candidate = Digest::new(later, threads).since_baseline(window);
        Ok(Sides { baseline: Digest::new(earlier, before), candidate })
    }

    fn open_both(&self, paths: Sides<&Path>) -> Result<(Opened, Opened)> {
        if paths.baseline == Path::new("-") && paths.candidate == Path::new("-") {
            let message = "only one of the two snapshots can come from standard input";
            return Err(Args::command().error(ErrorKind::ArgumentConflict, message).into());
        }
        Ok((self.open(paths.baseline)?, self.open(paths.candidate)?))
    }

    fn open(&self, path: &Path) -> Result<Opened, StoreError> {
        let mut stored = Stored::open(path, self.limit)?;
        match stored.head() {
            Some(head) => Ok(Opened::Streamed(Box::new(head), stored)),
            None => {
                let (snapshot, threads) = stored.load_into(&Vec::new(), &self.progress)?;
                Ok(Opened::Whole(Box::new(CtprofSnapshot { threads, ..snapshot })))
            }
        }
    }

    fn load<T: Threads>(&self, opened: Opened, empty: &T) -> Result<(CtprofSnapshot, T), StoreError> {
        match opened {
            Opened::Streamed(_, stored) => stored.load_into(empty, &self.progress),
            Opened::Whole(mut snapshot) => {
                let mut threads = empty.another();
                std::mem::take(&mut snapshot.threads).into_iter().for_each(|thread| threads.add(thread));
                Ok((*snapshot, threads))
            }
        }
    }

    fn digest(&self, opened: Opened) -> Result<Digest, StoreError> {
        let (snapshot, threads) = self.load(opened, &self.totals())?;
        Ok(Digest::new(snapshot, threads))
    }

    fn totals(&self) -> ThreadTotals {
        ThreadTotals::new(self.options)
    }
}

fn as_usage(error: NoWindow) -> anyhow::Error {
    Args::command().error(ErrorKind::ValueValidation, error).into()
}

/// A window and a snapshot have nothing to compare.
fn one_window(paths: Sides<&Path>, baseline: &CtprofSnapshot) -> anyhow::Error {
    let Sides { baseline: a, candidate: b } = paths.map(|path| path.display().to_string());
    let (window, snapshot) = if baseline.window.is_some() { (a, b) } else { (b, a) };
    let message = format!(
        "{window} is a window and {snapshot} is a snapshot: compare two windows (ctprof record), or two snapshots"
    );
    Args::command().error(ErrorKind::ValueValidation, message).into()
}
