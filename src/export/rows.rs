//! A capture as rows, which are made while its threads are read.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use super::captures::CaptureRow;
use super::cgroups::CgroupRow;
use super::identity::Identity;
use super::reasons::ReasonRow;
use super::{CaptureFile, ExportError, ExportOptions, LARGEST_AHEAD, Schemas, reasons};
use crate::model::{Census, CgroupStats, CtprofSnapshot, Name, SnapshotHead, ThreadState, Threads};
use crate::names::pattern_key;
use crate::process::lock;
use crate::store::Input;

/// Usual size of JSON, in multiples of the file's size.
const USUAL_RATIO: u64 = 12;

/// Number of threads of a capture that are in memory to be sorted. A larger capture is sorted in portions.
pub(super) const PORTION: usize = 1 << 15;

/// The rows of a capture or of a step of a series, or a portion of its threads.
pub(super) struct CaptureRows {
    pub(super) identity: Arc<Identity>,
    pub(super) threads: Vec<ThreadState>,
    /// `None` in a portion that others follow.
    pub(super) rest: Option<OtherRows>,
}

/// The rows of a capture that are not about threads.
pub(super) struct OtherRows {
    pub(super) cgroups: Vec<CgroupRow>,
    pub(super) reasons: Vec<ReasonRow>,
    pub(super) capture: CaptureRow,
}

impl CaptureRows {
    fn portion(identity: &Arc<Identity>, mut threads: Vec<ThreadState>) -> Self {
        let mut patterns = HashMap::<Name, Arc<str>>::new();
        threads.sort_by_cached_key(|thread| {
            let pattern = patterns.get(&thread.comm).cloned();
            let make = || pattern_key(&thread.comm).into();
            let pattern = pattern.unwrap_or_else(|| patterns.entry(thread.comm.clone()).or_insert_with(make).clone());
            (thread.pcomm.clone(), pattern)
        });
        Self { identity: Arc::clone(identity), threads, rest: None }
    }

    fn last(identity: &Arc<Identity>, head: SnapshotHead, threads: Vec<ThreadState>, census: Census) -> Self {
        let none = CgroupStats::default();
        // The cgroups of a step that did not change have no values. Containers that were removed have names and threads.
        let is_of_step = identity.step.is_some();
        let names: BTreeSet<&str> = threads.iter().filter_map(|thread| thread.cgroup.as_deref()).collect();
        let is_row = |path: &str, stats: &CgroupStats| {
            let is_name = head.containers.contains_key(path) && (!is_of_step || names.contains(path));
            is_name || (head.cgroup_stats.contains_key(path) && (!is_of_step || *stats != none))
        };
        // Rows are sorted by path.
        let mut all: BTreeMap<_, _> = head.containers.keys().map(|path| (path, &none)).collect();
        all.extend(head.listed_cgroups());
        let cgroup = |(path, stats): (&String, _)| CgroupRow::new(path.clone(), stats, head.container_of(path));
        let cgroups = all.into_iter().filter(|(path, stats)| is_row(path, stats)).map(cgroup).collect();
        let reasons = head.reasons.as_deref().map(reasons::rows).unwrap_or_default();
        let rest = OtherRows { cgroups, reasons, capture: CaptureRow::new(head, census) };
        Self { rest: Some(rest), ..Self::portion(identity, threads) }
    }

    /// Whether all numbers are in range.
    pub(super) fn check(&self, schemas: &Schemas) -> Result<(), ExportError> {
        schemas.threads.check(&self.identity, &self.threads)?;
        let Some(OtherRows { cgroups, reasons, capture }) = &self.rest else { return Ok(()) };
        schemas.cgroups.check(&self.identity, cgroups)?;
        schemas.reasons.check(&self.identity, reasons)?;
        schemas.captures.check(&self.identity, std::slice::from_ref(capture))
    }
}

/// Takes rows of a capture that follow those before.
pub(super) trait RowSink: FnMut(CaptureRows) -> Result<(), ExportError> + Send {}

impl<T: FnMut(CaptureRows) -> Result<(), ExportError> + Send> RowSink for T {}

/// Passes on the rows of a capture; the rows of a series step by step. Returns remarks on the series.
pub(super) fn read(
    capture: &CaptureFile,
    options: ExportOptions<'_>,
    sink: &mut dyn RowSink,
) -> Result<Vec<String>, ExportError> {
    capture.unless_changed(pass_on(capture, options, sink))
}

fn pass_on(
    CaptureFile { part, identity, .. }: &CaptureFile,
    ExportOptions { limit, progress, .. }: ExportOptions<'_>,
    sink: &mut dyn RowSink,
) -> Result<Vec<String>, ExportError> {
    let path = &part.file;
    let mut series = match part.open(limit, progress)? {
        Input::Series(series) => series,
        Input::File(stored) => {
            let shared = Mutex::new(Passing { sink, passed: 0 });
            let (head, read) = stored.load_into(&ThreadRows::new(identity, Some(&shared)))?;
            let ThreadRows { threads, census, failed, .. } = read;
            failed?;
            let Passing { sink, .. } = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
            sink(CaptureRows::last(identity, head, threads, census))?;
            return Ok(Vec::new());
        }
        Input::Directory => return Err(ExportError::NotAFile(path.clone())),
    };
    let mut steps = 0..;
    let range = part.range.clone().unwrap_or_default();
    let info = series.head().series.clone();
    series.each_window(&range, &mut |CtprofSnapshot { mut head, threads }, moment| {
        head.series.clone_from(&info);
        let identity = Arc::new(identity.of_step(steps.next().unwrap_or(u64::MAX), &head));
        let mut census = Census::default();
        threads.iter().for_each(|thread| census.add(thread));
        // Threads that did not change have no rows, and are there all the same.
        census.count_living(moment.threads().values());
        sink(CaptureRows::last(&identity, head, threads, census))
    })?;
    Ok(series.remarks(&path.to_string_lossy()))
}

/// Reads a capture if it is small, and no series. `None` also after an error, which is found again when it is read in its turn.
pub(super) fn read_ahead(capture: &CaptureFile, options: ExportOptions<'_>) -> Option<CaptureRows> {
    let file = fs::metadata(&capture.part.file).ok()?;
    let (bytes, limit, unseen) = (file.len(), options.limit.min(LARGEST_AHEAD), Arc::default());
    if file.is_dir() || bytes > LARGEST_AHEAD / USUAL_RATIO {
        return None;
    }
    let Input::File(stored) = capture.part.open(limit, &unseen).ok()? else { return None };
    let read = stored.load_into(&ThreadRows::new(&capture.identity, None)).map_err(ExportError::from);
    let (head, threads) = capture.unless_changed(read).ok()?;
    options.progress.announce(bytes);
    options.progress.advance(bytes);
    Some(CaptureRows::last(&capture.identity, head, threads.threads, threads.census))
}

/// A sink that collections of threads share.
struct Passing<'w> {
    sink: &'w mut (dyn RowSink + 'w),
    /// Number of threads that it has.
    passed: usize,
}

struct ThreadRows<'s, 'w> {
    identity: &'s Arc<Identity>,
    threads: Vec<ThreadState>,
    census: Census,
    /// Takes the first threads, and those appended to them.
    shared: Option<&'s Mutex<Passing<'w>>>,
    /// Number of threads that come again.
    again: usize,
    failed: Result<(), ExportError>,
}

impl<'s, 'w> ThreadRows<'s, 'w> {
    fn new(identity: &'s Arc<Identity>, shared: Option<&'s Mutex<Passing<'w>>>) -> Self {
        Self { identity, threads: Vec::new(), census: Census::default(), shared, again: 0, failed: Ok(()) }
    }

    fn pass_on(&mut self) {
        let again = self.again.min(self.threads.len());
        self.again -= again;
        drop(self.threads.drain(..again));
        if let (Some(shared), Ok(()), PORTION..) = (self.shared, &self.failed, self.threads.len()) {
            let mut shared = lock(shared);
            shared.passed += self.threads.len();
            let portion = CaptureRows::portion(self.identity, std::mem::take(&mut self.threads));
            self.failed = (shared.sink)(portion);
        }
    }
}

impl Threads for ThreadRows<'_, '_> {
    fn another(&self) -> Self {
        Self::new(self.identity, None)
    }

    fn first(&self) -> Self {
        let again = self.shared.map_or(0, |shared| lock(shared).passed);
        Self { again, ..Self::new(self.identity, self.shared) }
    }

    fn add(&mut self, thread: ThreadState) {
        self.census.add(&thread);
        self.threads.push(thread);
        self.pass_on();
    }

    fn append(&mut self, mut later: Self) {
        self.census.append(later.census);
        self.threads.append(&mut later.threads);
        self.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;

    use nix::fcntl::{OFlag, openat};
    use nix::sys::stat::{Mode, mkdirat};

    use super::super::{Output, export, inputs};
    use super::*;
    use crate::model::{CaptureInfo, Container, HostContext, SeriesInfo};
    use crate::series::{Moment, StepExits};
    use crate::store::{Keep, SegmentWriter};

    fn capture(second: u64) -> CtprofSnapshot {
        let mut head = SnapshotHead { captured_at_unix_ns: second * 1_000_000_000, ..SnapshotHead::default() };
        let now = Some(head.captured_at_unix_ns);
        head.capture = Some(CaptureInfo { monotonic_ns: now, boottime_ns: now, ..CaptureInfo::default() });
        head.host = Some(HostContext { boot_id: Some("b".to_owned()), ..HostContext::default() });
        (head.series, head.format_version) = (Some(SeriesInfo::default()), Some(3));
        CtprofSnapshot { head, threads: Vec::new() }
    }

    #[test]
    fn threads_that_are_read_again_from_the_first_on_are_passed_on_once() {
        let identity =
            Arc::new(Identity::new("id".to_owned(), &SnapshotHead::default(), 1.0, std::path::Path::new("f")));
        let mut passed = Vec::new();
        let mut sink = |rows: CaptureRows| {
            passed.extend(rows.threads.iter().map(|thread| thread.tid));
            Ok(())
        };
        let shared = Mutex::new(Passing { sink: &mut sink, passed: 0 });
        let thread = |tid| ThreadState { tid, ..ThreadState::default() };
        let most = u32::try_from(PORTION).unwrap();
        let empty = ThreadRows::new(&identity, Some(&shared));
        let mut first = empty.first();
        let mut batch = empty.another();
        (0..most + 5).for_each(|tid| batch.add(thread(tid)));
        first.append(batch);
        assert_eq!(first.threads.len(), 0, "a portion is passed on");
        let mut again = empty.first();
        (0..most + 9).for_each(|tid| again.add(thread(tid)));
        let rest: Vec<u32> = again.threads.iter().map(|thread| thread.tid).collect();
        assert_eq!((passed.len(), rest), (PORTION + 5, (most + 5..most + 9).collect()));
    }

    #[test]
    fn a_weight_that_is_no_number_above_zero_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let output = Output::Datasets(dir.path().join("fleet"));
        for weight in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            let options = ExportOptions { limit: 1 << 20, weight, progress: &Arc::default() };
            let error = export(&[], &output, options, &mut |_| {}).unwrap_err();
            let expected = format!("cannot export captures with the weight {weight}: expected a number above 0");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_series_is_exported_once_its_recording_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let options = ExportOptions { limit: 1 << 20, weight: 1.0, progress: &Arc::default() };
        let found = || {
            let (found, failed) = inputs::captures(&[dir.path().to_owned()], options);
            assert!(failed.is_empty(), "{failed:?}");
            found.len()
        };
        let begin_at =
            |second| SegmentWriter::create(dir.path(), Keep::Bytes(1 << 20), 1 << 20, &capture(second)).unwrap();
        let begin = |second| {
            let (mut writer, mut moment) = (begin_at(second), Moment::new(capture(second)));
            let step = moment.advance(capture(second + 1), &StepExits::default()).0;
            writer.add(step, &moment).unwrap();
            writer
        };
        begin(1).finish().unwrap();
        let recording = begin(2);
        assert_eq!(found(), 1, "the one before");
        recording.finish().unwrap();
        drop(begin(3));
        assert_eq!(found(), 3, "also that of a recorder that was killed");
        begin_at(9).finish().unwrap();
        assert_eq!(found(), 3, "a segment without a step has nothing to export");
    }

    #[test]
    fn a_directory_that_cannot_be_read_costs_only_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut inner, name) = (OwnedFd::from(File::open(dir.path()).unwrap()), "d".repeat(250));
        // Longer than any path may be.
        for _ in 0..20 {
            mkdirat(&inner, &*name, Mode::S_IRWXU).unwrap();
            inner = openat(&inner, &*name, OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        }
        snapshot(1).write(&dir.path().join("z.ctprof.zst")).unwrap();
        let options = ExportOptions { limit: 1 << 20, weight: 1.0, progress: &Arc::default() };
        let (found, failed) = inputs::captures(&[dir.path().to_owned()], options);
        assert_eq!(found.len(), 1);
        assert!(matches!(&failed[..], [ExportError::Input { .. }]), "{failed:?}");
    }

    /// A capture that is no series.
    fn snapshot(second: u64) -> CtprofSnapshot {
        let mut snapshot = capture(second);
        (snapshot.head.series, snapshot.head.format_version) = (None, None);
        snapshot
    }

    #[test]
    fn a_file_that_was_replaced_since_it_was_found_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["a.ctprof.zst", "other"].map(|name| dir.path().join(name));
        snapshot(1).write(&path).unwrap();
        let options = ExportOptions { limit: 1 << 20, weight: 1.0, progress: &Arc::default() };
        let (found, _) = inputs::captures(std::slice::from_ref(&path), options);
        let rows = || read(&found[0], options, &mut |_| Ok(()));
        assert!(rows().is_ok() && read_ahead(&found[0], options).is_some());
        // Its time and its size are the same.
        snapshot(1).write(&other).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(matches!(rows(), Err(ExportError::Changed(_))));
        assert!(read_ahead(&found[0], options).is_none());
    }

    #[test]
    fn a_container_that_was_removed_in_a_window_has_a_row_for_its_threads() {
        let identity =
            Arc::new(Identity::new("id".to_owned(), &SnapshotHead::default(), 1.0, std::path::Path::new("f")));
        let thread = ThreadState { tid: 1, cgroup: Some("/gone".into()), ..ThreadState::default() };
        let container = Container { name: Some("job".to_owned()), ..Container::default() };
        let rows = |identity: &Arc<Identity>| {
            let containers = [("/gone".to_owned(), container.clone()), ("/idle".to_owned(), container.clone())].into();
            let head = SnapshotHead { containers, ..SnapshotHead::default() };
            CaptureRows::last(identity, head, vec![thread.clone()], Census::default()).rest.unwrap().cgroups.len()
        };
        assert_eq!((rows(&identity), rows(&Arc::new(identity.of_step(0, &SnapshotHead::default())))), (2, 1));
    }

    #[test]
    fn a_series_whose_start_was_removed_since_it_was_found_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        for second in 1..4 {
            let keep = Keep::Bytes(1 << 20);
            SegmentWriter::create(dir.path(), keep, 1 << 20, &capture(second)).unwrap().finish().unwrap();
        }
        let part = PathBuf::from(format!("{}@0s..2s", dir.path().display()));
        let options = ExportOptions { limit: 1 << 20, weight: 1.0, progress: &Arc::default() };
        let (found, _) = inputs::captures(&[part], options);
        let steps = || {
            let mut steps = 0;
            read(&found[0], options, &mut |_| {
                steps += 1;
                Ok(())
            })?;
            Ok(steps)
        };
        assert_eq!(steps().unwrap(), 2);
        std::fs::remove_file(dir.path().join("19700101T000001.000Z-b.segment.ctprof.zst")).unwrap();
        assert!(matches!(steps(), Err(ExportError::Changed(_))));
    }
}
