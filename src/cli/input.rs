//! Reads snapshot files into digests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::{Messages, ViewArgs, Watch, progress, unsuitable_file, usage_error};
use crate::compare::{CompareOptions, Digest, Runs, Scope, Sides, ThreadTotals};
use crate::model::SnapshotHead;
use crate::process::Progress;
use crate::report::escaped;
use crate::store::{
    ENDINGS, Input, MemoryBudget, PartPath, StoreError, Stored, StoredSeries, is_snapshot_name, segments_in,
};
use crate::window::{self, EarlierThreads, Exits, Join, Joined, JoinedValues};

/// Names of the sides that `ab` records, and of their directories.
pub(super) const BASELINE: &str = "baseline";
pub(super) const CANDIDATE: &str = "candidate";

/// Reads files with a progress bar, as long as it lives.
pub(super) struct DigestReader {
    options: CompareOptions,
    limit: u64,
    memory: Arc<MemoryBudget>,
    progress: Arc<Progress>,
    _watch: Option<Watch>,
}

/// Captures of a side: a file, or the files of a directory with the first one open.
struct SideFiles<'p> {
    path: &'p Path,
    first: Stored,
    /// All files of a directory; `None` for a file.
    files: Option<Vec<PathBuf>>,
}

impl DigestReader {
    pub(super) fn new(options: CompareOptions, view: &ViewArgs, messages: Messages) -> Self {
        let progress = Arc::new(Progress::default());
        let watch = progress::watch(&progress, messages);
        let limit = view.limits.max_snapshot_bytes;
        Self { options, limit, memory: Arc::new(MemoryBudget::new(limit)), progress, _watch: watch }
    }

    /// The options that suit what was read.
    pub(super) fn into_options(self) -> CompareOptions {
        self.options
    }

    /// Scope `command` needs a window of a command, and other scopes their containers.
    fn in_scope(&self, digest: Digest, path: &Path) -> Result<Digest> {
        let command = digest.head.window.as_ref().and_then(|window| window.command.as_ref());
        let has_none = command.is_none() && digest.is_empty();
        if self.options.grouping.scope == Some(Scope::Command) && has_none {
            return Err(unsuitable_file(format!(
                "{} has no recorded command for --scope command; record one with `ctprof record -- COMMAND`",
                named(path)
            )));
        }
        let scope = self.options.grouping.scope.as_ref().map_or(Ok(()), |scope| scope.check(&digest.head));
        scope.map_err(|error| unsuitable_file(format!("{}: {error}", named(path))))?;
        Ok(digest)
    }

    /// Returns a side, and, if it is a series, `count` parts of equal length as runs.
    pub(super) fn runs_and_parts(&mut self, path: &Path, count: u32) -> Result<(Runs, Option<Runs>)> {
        let part = part_of(path)?;
        let mut series = match part.open(self.limit, &self.progress)? {
            Input::Series(series) => series,
            Input::File(first) => {
                let first = first.within(&self.memory);
                return Ok((self.runs_of(SideFiles { path, first, files: None })?, None));
            }
            Input::Directory => return Ok((self.runs(path)?, None)),
        };
        let mut parts: Result<_, StoreError> = Ok(Runs::default());
        let totals = ThreadTotals::new(&CompareOptions { has_tree: false, ..self.options.clone() }, &[]);
        // The whole is in memory beside its parts.
        let memory = Arc::new(MemoryBudget::new(self.limit / 2));
        let whole = series.part_in_parts(&part.range.unwrap_or_default(), count, &mut |mut window| {
            // A part has no end of the command.
            window.head.window.iter_mut().for_each(|window| window.command = None);
            let window = Stored::of_snapshot(&part.file, window, self.limit).within(&memory);
            let add = |mut parts: Runs| {
                let (head, threads) = window.load_into(&totals)?;
                parts.add(Digest::new(head, threads));
                Ok(parts)
            };
            parts = std::mem::replace(&mut parts, Ok(Runs::default())).and_then(add);
            Ok::<_, StoreError>(())
        })?;
        warn_of(&series, &part.file);
        let mut parts = parts.unwrap_or_else(|error| {
            tracing::warn!("values over time are left out, as its parts take too much memory: {error}");
            Runs::default()
        });
        let whole = Stored::of_snapshot(&part.file, whole, self.limit).within(&self.memory);
        let whole = self.in_scope(self.digest(whole)?, path)?;
        parts.tell_sleeps_of(&whole);
        let are_windows = parts.is_of_windows() == Some(true);
        let parts = are_windows.then(|| parts.with_ids_of(&whole));
        Ok((whole.into(), parts))
    }

    pub(super) fn window(&self, earlier: &Path, later: &Path) -> Result<Digest> {
        refuse_two_stdins(earlier, later)?;
        let path = later;
        let (earlier, mut later) = (self.open(earlier)?, self.open(later)?);
        let (earlier, threads) = earlier.load_into(&EarlierThreads::default())?;
        let totals = self.totals(&[&earlier, later.head()?]);
        let join = window::join(&earlier, threads, later.head()?, &totals, JoinedValues::Increases)
            .map_err(unsuitable_file)?;
        let (mut later, join) = later.load_into(&join)?;
        let ends = join.finish(&later, &Exits::default());
        let threads = window::into_window(&earlier, &mut later, ends);
        self.in_scope(Digest::new(later, threads), path)
    }

    /// Returns both sides of a comparison, each from a file or a directory of runs.
    pub(super) fn sides(&mut self, baseline: &Path, candidate: &Path) -> Result<Sides<Runs>> {
        refuse_two_stdins(baseline, candidate)?;
        let (mut before, mut after) = (self.side(baseline)?, self.side(candidate)?);
        let heads = [before.first.head()?, after.first.head()?].into_iter();
        self.options = self.options.clone().for_captures(heads);
        if before.files.is_none() && after.files.is_none() {
            return Ok(self.two((baseline, before.first), (candidate, after.first))?.map(Runs::from));
        }
        let (before, after) = (self.runs_of(before)?, self.runs_of(after)?);
        like(baseline, before.is_of_windows(), candidate, after.is_of_windows())?;
        Ok(Sides::two(before, after))
    }

    /// Returns a side from a file, or from a directory of runs.
    pub(super) fn runs(&mut self, path: &Path) -> Result<Runs> {
        let mut side = self.side(path)?;
        if side.files.is_some() {
            self.options = self.options.clone().for_captures([side.first.head()?].into_iter());
        }
        self.runs_of(side)
    }

    fn side<'p>(&self, path: &'p Path) -> Result<SideFiles<'p>> {
        let unreadable = || format!("cannot read directory {}", path.display());
        // A directory with segments is a series.
        let is_of_runs = path.is_dir() && segments_in(path).with_context(unreadable)?.is_empty();
        let files = if is_of_runs { Some(run_files(path)?) } else { None };
        let first = self.open(files.as_ref().map_or(path, |files| &files[0]))?;
        Ok(SideFiles { path, first, files })
    }

    /// The runs of a side, read one after the other; a file is a run.
    fn runs_of(&self, SideFiles { path, first, files }: SideFiles<'_>) -> Result<Runs> {
        let Some(files) = files else { return Ok(self.in_scope(self.digest(first)?, path)?.into()) };
        let mut runs = Runs::default();
        let mut first = Some(first);
        for file in &files {
            let mut opened = first.take().map_or_else(|| self.open(file), Ok)?;
            like(&files[0], runs.is_of_windows(), file, Some(opened.head()?.window.is_some()))?;
            let digest = self.digest(opened)?;
            runs.add(self.in_scope(digest, file)?);
        }
        runs.checked().with_context(|| path.display().to_string())
    }

    /// Two captures. Of two snapshots of one boot, the later one has what happened in between.
    fn two(
        &self,
        (baseline, mut earlier): (&Path, Stored),
        (candidate, mut later): (&Path, Stored),
    ) -> Result<Sides<Digest>> {
        let (a, b) = (earlier.head()?, later.head()?);
        like(baseline, Some(a.window.is_some()), candidate, Some(b.window.is_some()))?;
        // The wall clock can be set back in between, so that it does not say which one is later.
        let are_two = a.captured_at_unix_ns != b.captured_at_unix_ns;
        if are_two && window::check(a, b).is_ok() {
            let (before, after) = self.like_for_like(earlier, later)?;
            return Ok(Sides::two(before, self.in_scope(after, candidate)?));
        }
        let (a, b) = rayon::join(|| self.digest(earlier), || self.digest(later));
        Ok(Sides::two(self.in_scope(a?, baseline)?, self.in_scope(b?, candidate)?))
    }

    fn like_for_like(&self, earlier: Stored, mut later: Stored) -> Result<(Digest, Digest)> {
        let (earlier, threads) = earlier.load_into(&EarlierThreads::default())?;
        let census = threads.census.clone();
        let totals = self.totals(&[&earlier, later.head()?]);
        let join =
            window::join(&earlier, threads, later.head()?, &totals, JoinedValues::Totals).map_err(unsuitable_file)?;
        let (later, join): (_, Join<ThreadTotals>) = later.load_into(&join)?;
        let Joined { before, threads, window, .. } = join.finish(&later, &Exits::default());
        let candidate = Digest::new(later, threads).since_baseline(window);
        Ok((Digest::new(earlier, before).with_census(census), candidate))
    }

    /// A file; of a series, the window of the part that the path names, or all of it.
    fn open(&self, path: &Path) -> Result<Stored> {
        let part = part_of(path)?;
        let stored = match part.open(self.limit, &self.progress)? {
            Input::Series(mut series) => {
                let window = series.part(&part.range.unwrap_or_default())?;
                warn_of(&series, &part.file);
                Stored::of_snapshot(&part.file, window, self.limit)
            }
            Input::File(stored) => *stored,
            Input::Directory => Stored::open(path, self.limit, &self.progress)?,
        };
        Ok(stored.within(&self.memory))
    }

    fn digest(&self, mut stored: Stored) -> Result<Digest, StoreError> {
        // A file of another layout is held whole once its head is known.
        let totals = match self.options.grouping.scope {
            Some(Scope::Container(_) | Scope::Pod(_)) => self.totals(&[stored.head()?]),
            _ => self.totals(&[]),
        };
        let (head, threads) = stored.load_into(&totals)?;
        Ok(Digest::new(head, threads))
    }

    fn totals(&self, heads: &[&SnapshotHead]) -> ThreadTotals {
        ThreadTotals::new(&self.options, heads)
    }
}

/// The file of a path, and the part of it: `FILE@FROM..TO`.
pub(super) fn part_of(path: &Path) -> Result<PartPath> {
    PartPath::parse(path).map_err(|error| usage_error(format!("{}: {error}", named(path))))
}

/// Opens the series that a path names, whole or in part.
pub(super) fn series_of(part: &PartPath, limit: u64) -> Result<Box<StoredSeries>> {
    match part.open(limit, &Arc::default())? {
        Input::Series(series) => Ok(series),
        Input::File(_) | Input::Directory => {
            Err(unsuitable_file(format!("{} has no steps; `ctprof record --every` records them", part.file.display())))
        }
    }
}

/// Says that more is shown than was asked for, or that the series ends early.
pub(super) fn warn_of(series: &StoredSeries, file: &Path) {
    series.remarks(&named(file)).iter().for_each(|remark| tracing::warn!("{remark}"));
}

fn refuse_two_stdins(one: &Path, other: &Path) -> Result<()> {
    if one == Path::new("-") && other == Path::new("-") {
        return Err(usage_error("only one of the two snapshots can come from standard input"));
    }
    Ok(())
}

/// A window and a snapshot cannot be compared. What is not read yet can be either.
fn like(first: &Path, is_window: Option<bool>, other: &Path, is_other_window: Option<bool>) -> Result<()> {
    let (Some(is_window), Some(is_other_window)) = (is_window, is_other_window) else { return Ok(()) };
    if is_window == is_other_window {
        return Ok(());
    }
    let (window, snapshot) = if is_window { (first, other) } else { (other, first) };
    Err(unsuitable_file(format!(
        "{} is a window and {} is a snapshot: use only windows (ctprof record), or only snapshots (ctprof capture)",
        named(window),
        named(snapshot)
    )))
}

/// A path in a message that is printed as it is.
fn named(path: &Path) -> String {
    escaped(&path.to_string_lossy()).into_owned()
}

/// Whether a directory is one that `ab` wrote.
pub(super) fn is_of_ab(directory: &Path) -> bool {
    [BASELINE, CANDIDATE].iter().all(|side| directory.join(side).is_dir())
}

/// The files of the runs in a directory, by name.
fn run_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = || format!("cannot read directory {}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_snapshot_name(&name) && path.is_file() {
            files.push(path);
        } else {
            tracing::debug!("{}: not a run", path.display());
        }
    }
    files.sort();
    if files.is_empty() && is_of_ab(directory) {
        let [baseline, candidate] = [BASELINE, CANDIDATE].map(|side| directory.join(side).display().to_string());
        bail!("no run files in {}; did you mean {baseline} or {candidate}?", directory.display());
    }
    if files.is_empty() {
        let endings = ENDINGS.join(" or *");
        bail!("no run files (*{endings}) in {}; record one with `ctprof record -o`", directory.display());
    }
    Ok(files)
}
