//! Segments of a series in a directory: what is kept, what is read, and whose they are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use jiff::Timestamp;

use super::*;
use crate::model::local_zone;
use crate::store::segments::{self, Keep};

/// Returns the sizes of all segments in a directory in bytes, including the one that is still written.
fn sizes(directory: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let files = files.filter(|file| file.file_name().to_string_lossy().contains(".segment"));
    files.map(|file| file.metadata().unwrap().len()).collect()
}

/// Writes the steps of these seconds into a directory. Returns the largest number of files and of bytes meanwhile.
fn record(directory: &Path, keep: Keep, seconds: std::ops::Range<u64>) -> (usize, u64) {
    record_with(directory, keep, seconds.map(capture))
}

fn record_with(directory: &Path, keep: Keep, mut captures: impl Iterator<Item = CtprofSnapshot>) -> (usize, u64) {
    let first = captures.next().unwrap();
    let mut moment = Moment::new(first.clone());
    let mut segments = SegmentWriter::create(directory, keep, 1 << 24, &first).unwrap();
    let mut most = (0, 0);
    for capture in captures {
        let step = moment.advance(capture, &StepExits::default()).0;
        segments.add(step, &moment).unwrap();
        let files = sizes(directory);
        most = (most.0.max(files.len()), most.1.max(files.iter().sum()));
    }
    assert_eq!(segments.finish().unwrap().path, directory);
    most
}

fn runs_in(directory: &Path, range: &str) -> Vec<u64> {
    let range = range.parse().unwrap();
    let mut series = StoredSeries::in_directory(directory, &range, 1 << 20, &Arc::default()).unwrap().unwrap();
    let mut runs = Vec::new();
    let run = |window: &CtprofSnapshot| {
        window.threads.iter().filter_map(|thread| thread.metrics.run_time_ns).map(u64::from).sum()
    };
    let each = &mut |window: CtprofSnapshot, _: &Moment| {
        runs.push(run(&window));
        Ok::<_, StoreError>(())
    };
    series.each_window(&range, each).unwrap();
    runs
}

#[test]
fn a_directory_keeps_the_last_part_of_a_series_and_is_read_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let (_, most) = record(dir.path(), Keep::Bytes(6_000), 1..400);
    let runs = runs_in(dir.path(), "..");
    assert!(most < 6_000 + 2_000, "{most}");
    assert!(runs.len() > 20 && runs.len() < 398 && runs.iter().all(|run| *run == 6), "{}: {runs:?}", runs.len());
    assert!(segments_in(dir.path()).unwrap().len() > 5);
    let kept: u64 = sizes(dir.path()).iter().sum();
    assert!(kept > 5_000, "{kept}");
    // The recorder was started again a while later.
    record(dir.path(), Keep::Bytes(6_000), 1000..1010);
    let runs = runs_in(dir.path(), "..");
    let gap = runs.iter().position(|run| *run == 6 * 601).expect("a step without records");
    assert_eq!(runs.len(), gap + 10);
}

#[test]
fn the_last_step_is_kept_however_little_is() {
    for bytes in [1, 500, 1000] {
        let dir = tempfile::tempdir().unwrap();
        record(dir.path(), Keep::Bytes(bytes), 1..10);
        assert_eq!(runs_in(dir.path(), "..").last(), Some(&6), "{bytes}");
        // Another recorder was killed right after it had begun.
        SegmentWriter::create(dir.path(), Keep::Bytes(bytes), 1 << 20, &capture(20)).unwrap();
        assert!(runs_in(dir.path(), "..").contains(&6), "{bytes}");
    }
}

#[test]
fn old_segments_are_removed_where_they_are_if_the_directory_is_renamed_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|name| dir.path().join(name));
    let rename = |second| {
        if second == 200 {
            std::fs::rename(&before, &after).unwrap();
            // Another directory has the name, with the names of segments that are to be removed.
            std::fs::create_dir(&before).unwrap();
            segments_in(&after).unwrap().iter().for_each(|there| std::fs::write(before.join(&there.name), []).unwrap());
        }
        capture(second)
    };
    let mut captures = (1..400).map(rename);
    let first = captures.next().unwrap();
    let mut moment = Moment::new(first.clone());
    let mut segments = SegmentWriter::create(&before, Keep::Bytes(6_000), 1 << 24, &first).unwrap();
    for capture in captures {
        let step = moment.advance(capture, &StepExits::default()).0;
        segments.add(step, &moment).unwrap();
    }
    let of_another = segments_in(&before).unwrap().len();
    assert!(segments_in(&after).unwrap().len() < 15 && of_another > 5, "{of_another}");
}

/// The number of steps in a directory, and what is damaged there.
fn steps_in(directory: &Path) -> (usize, Vec<String>) {
    let range = SeriesRange::default();
    let mut series = StoredSeries::in_directory(directory, &range, 1 << 20, &Arc::default()).unwrap().unwrap();
    let mut steps = 0;
    let each = &mut |_, _: &Moment| {
        steps += 1;
        Ok::<_, StoreError>(())
    };
    series.each_window(&range, each).unwrap();
    (steps, series.damaged)
}

#[test]
fn damaged_segments_leave_the_others_readable_and_are_named() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Keep::Bytes(1 << 14), 1..400);
    let segments: Vec<_> =
        segments_in(dir.path()).unwrap().iter().map(|segment| dir.path().join(&segment.name)).collect();
    assert!(segments.len() > 5, "{segments:?}");
    let (all, damaged) = steps_in(dir.path());
    assert!(damaged.is_empty());
    let [first, empty, cut, last] = [0, 2, 4, segments.len() - 1].map(|at| &segments[at]);
    for (path, left) in [(first, 20), (empty, 0), (last, 0)] {
        std::fs::write(path, &std::fs::read(path).unwrap()[..left]).unwrap();
    }
    let bytes = std::fs::read(cut).unwrap();
    std::fs::write(cut, &bytes[..bytes.len() - 10]).unwrap();
    let (steps, damaged) = steps_in(dir.path());
    assert!(steps > all / 3 && steps < all, "{steps} of {all}");
    let names = |(path, what): (&PathBuf, &str)| format!("{}{what}", path.display());
    let no_capture = " is left out: it has no whole capture";
    let killed = ": it is still being written, or its recorder was killed or had a full disk";
    let expected = [(first, no_capture), (empty, no_capture), (cut, killed), (last, no_capture)].map(names);
    assert_eq!(damaged, expected);
    segments.iter().for_each(|path| std::fs::write(path, []).unwrap());
    let none = StoredSeries::in_directory(dir.path(), &SeriesRange::default(), 1 << 20, &Arc::default());
    let error = none.err().map(|error| error.to_string()).unwrap();
    assert!(error.ends_with(" is not a ctprof snapshot (no segment is whole)"), "{error}");
}

#[test]
fn a_segment_that_a_recorder_removes_while_others_are_read_is_a_step_without_records() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Keep::Bytes(1 << 14), 1..400);
    let (all, range) = (steps_in(dir.path()).0, SeriesRange::default());
    let mut series = StoredSeries::in_directory(dir.path(), &range, 1 << 20, &Arc::default()).unwrap().unwrap();
    for segment in &segments_in(dir.path()).unwrap()[1..3] {
        std::fs::remove_file(dir.path().join(&segment.name)).unwrap();
    }
    let window = series.part(&range).unwrap();
    assert!(series.damaged.is_empty() && series.cut.is_none());
    let run = |thread: &ThreadState| thread.metrics.run_time_ns.map(u64::from);
    let run: Option<u64> = window.threads.iter().map(run).sum();
    assert_eq!(run, u64::try_from(6 * all).ok());
}

const HOUR: Keep = Keep::Time(std::time::Duration::from_secs(3600));

#[test]
fn of_24_hours_the_last_one_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (files, bytes) = record_with(dir.path(), HOUR, (0..24 * 360).map(|at| capture(10 * at)));
    let kept = runs_in(dir.path(), "..").len();
    assert!((360..=360 + 2 * 30).contains(&kept), "{kept} steps of 10 s");
    assert!(files <= 15 && bytes < 200_000, "{files} files with {bytes} bytes");
    let last = runs_in(dir.path(), &format!("{}..", kept * 10 - 300));
    assert_eq!(last, [60; 30], "each step of the last five minutes");
}

#[test]
fn recordings_that_end_before_their_first_segment_is_full_keep_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..200).map(|run| record(dir.path(), HOUR, 240 * run..240 * run + 120).0).collect();
    assert!(files.iter().all(|files| *files <= 17), "{files:?}: four minutes each");
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<_> = (0..40).map(|run| record(dir.path(), Keep::Bytes(4096), 240 * run..240 * run + 30).1).collect();
    assert!(bytes.last() < Some(&8192), "{bytes:?}");
}

#[test]
fn a_time_of_day_is_the_last_one_of_a_directory_of_days() {
    let dir = tempfile::tempdir().unwrap();
    record_with(dir.path(), Keep::Time(Duration::from_secs(48 * 3600)), (0..=25 * 360).map(|at| capture(10 * at)));
    let start = Timestamp::from_second(0).unwrap() + Duration::from_nanos(capture(0).head.captured_at_unix_ns);
    let time =
        |seconds: u64| (start + Duration::from_secs(seconds)).to_zoned(local_zone()).strftime("%H:%M:%S").to_string();
    let half_an_hour_ago = format!("{}..{}", time(25 * 3600 - 1800), time(25 * 3600 - 1500));
    assert_eq!(runs_in(dir.path(), &half_an_hour_ago), [60; 30]);
    let twice = format!("{}..{}", time(1800), time(2100));
    let (of_both_days, dated) = (runs_in(dir.path(), &twice), format!("{}s..{}s", 24 * 3600 + 1800, 24 * 3600 + 2100));
    assert_eq!(of_both_days, runs_in(dir.path(), &dated), "of two, the later one");
    let last = segments_in(dir.path()).unwrap().pop().unwrap();
    let end = start + Duration::from_secs(25 * 3600);
    let file = std::fs::File::options().write(true).open(dir.path().join(last.name)).unwrap();
    file.set_modified(end.into()).unwrap();
    let after = format!("{}..{}", time(25 * 3600 + 120), time(25 * 3600 + 180));
    assert_eq!(runs_in(dir.path(), &after).len(), 6, "two minutes after the end, the day before");
}

#[test]
fn a_minute_is_kept_in_twelve_segments_or_in_one_per_step() {
    let minute = Keep::Time(Duration::from_secs(60));
    for (step, files_at_most, kept) in [(1, 14, 61..=70), (7, 11, 9..=9)] {
        let dir = tempfile::tempdir().unwrap();
        let (files, _) = record_with(dir.path(), minute, (0..200).map(|at| capture(step * at)));
        let steps = runs_in(dir.path(), "..").len();
        assert!(files <= files_at_most && kept.contains(&steps), "{steps} steps of {step} s in {files} files");
    }
}

#[test]
fn a_segment_that_somebody_removed_does_not_end_a_recorder_and_one_that_cannot_be_removed_does() {
    for is_removed in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut moment = Moment::new(capture(0));
        let minute = Keep::Time(Duration::from_secs(60));
        let mut segments = SegmentWriter::create(dir.path(), minute, 1 << 20, &capture(0)).unwrap();
        let mut add = |second: u64| {
            let step = moment.advance(capture(second), &StepExits::default()).0;
            segments.add(step, &moment)
        };
        add(30).unwrap();
        let first = dir.path().join(&segments_in(dir.path()).unwrap()[0].name);
        std::fs::remove_file(&first).unwrap();
        if !is_removed {
            std::fs::create_dir(first).unwrap();
        }
        assert_eq!(add(100).is_ok(), is_removed);
    }
}

#[test]
fn a_segment_that_cannot_be_read_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Keep::Time(Duration::from_secs(60)), 1..20);
    let segments = segments_in(dir.path()).unwrap();
    let path = |place: usize| dir.path().join(&segments[place].name);
    std::fs::remove_file(path(1)).unwrap();
    std::fs::create_dir(path(1)).unwrap();
    let (range, limit) = (SeriesRange::default(), 1 << 20);
    let mut series = StoredSeries::in_directory(dir.path(), &range, limit, &Arc::default()).unwrap().unwrap();
    assert!(matches!(series.part(&range), Err(StoreError::Read(failed, _)) if failed == path(1)));
    std::fs::remove_file(path(0)).unwrap();
    std::os::unix::fs::symlink("missing", path(0)).unwrap();
    let first = StoredSeries::in_directory(dir.path(), &range, limit, &Arc::default());
    assert!(matches!(first, Err(StoreError::Read(failed, _)) if failed == path(0)), "a link to nothing");
}

#[test]
fn a_part_of_a_directory_is_in_the_segments_that_overlap_it() {
    let names = ["00", "10", "20", "30"].map(|minute| format!("20260921T14{minute}00.000Z-b.segment.ctprof.zst"));
    let dir = tempfile::tempdir().unwrap();
    names.iter().for_each(|name| std::fs::write(dir.path().join(name), []).unwrap());
    let segments = segments_in(dir.path()).unwrap();
    let of_part = |range: &str| segments::of_part(dir.path(), &segments, &range.parse().unwrap()).unwrap().1;
    let parts = ["..", "15m..25m", "10m..19m", "..9m", "40m.."].map(of_part);
    assert_eq!(parts, [0..4, 1..3, 1..2, 0..1, 3..4]);
}

#[test]
fn a_part_of_a_day_is_read_from_ten_minutes_before_it_at_most() {
    for keep in [Keep::Time(std::time::Duration::from_secs(24 * 3600)), Keep::Bytes(1 << 24)] {
        let dir = tempfile::tempdir().unwrap();
        record_with(dir.path(), keep, (0..=2 * 360).map(|at| capture(10 * at)));
        assert_eq!(segments_in(dir.path()).unwrap().len(), 13, "of two hours, and one that begins");
    }
}

#[test]
fn a_clock_that_is_set_neither_removes_what_is_new_nor_keeps_what_is_old() {
    for clock in [START_OF_BOOT + 86_400 * SECOND, START_OF_BOOT - 86_400 * SECOND] {
        let dir = tempfile::tempdir().unwrap();
        let capture = |at: u64| {
            let mut capture = capture(10 * at);
            if at > 1000 {
                capture.head.captured_at_unix_ns = clock + 10 * at * SECOND;
            }
            capture
        };
        let (files, _) = record_with(dir.path(), HOUR, (0..1200).map(capture));
        let kept = runs_in(dir.path(), "..").len();
        assert!((360..=360 + 2 * 30).contains(&kept) && files <= 15, "{kept} steps in {files} files");
        let last = runs_in(dir.path(), &format!("{}..", kept * 10 - 300));
        assert_eq!(last, [60; 30], "each step of the last five minutes");
    }
}

/// The times that the steps of a part show, in seconds after a time; `None` before it.
fn shown(mut series: StoredSeries, range: &SeriesRange, after: u64) -> Vec<Option<u64>> {
    let mut shown = Vec::new();
    let each = &mut |window: CtprofSnapshot, _: &Moment| {
        shown.push(window.head.captured_at_unix_ns.checked_sub(after).map(|ns| ns / SECOND));
        Ok::<_, StoreError>(())
    };
    series.each_window(range, each).unwrap();
    shown
}

#[test]
fn times_of_a_part_are_those_that_its_steps_show_also_after_the_clock_was_set() {
    const HOUR_NS: i64 = 3600 * 1_000_000_000;
    let date = |unix_ns: u64| Timestamp::from_nanosecond(unix_ns.into()).unwrap();
    for (set_at, by_ns) in [(3, HOUR_NS), (3, -HOUR_NS), (60, HOUR_NS), (60, -HOUR_NS), (250, 2_000_000_000)] {
        let after = |second: u64| START_OF_BOOT.strict_add_signed(if second < set_at { 0 } else { by_ns });
        let capture_at = |second: u64| {
            let mut capture = capture(second);
            capture.head.captured_at_unix_ns = after(second) + second * SECOND;
            capture
        };
        let dir = tempfile::tempdir().unwrap();
        let [file, directory] = ["file", "directory"].map(|name| dir.path().join(name));
        written_with(&file, 300, capture_at);
        record_with(&directory, HOUR, (1..=1000).map(capture_at));
        for begin in [set_at / 2, set_at, set_at + 20, 280] {
            let time = |second: u64| date(after(begin) + second * SECOND);
            let range = format!("{}..{}", time(begin), time(begin + 5)).parse().unwrap();
            let of_file = Stored::open(&file, 1 << 20, &Arc::default()).unwrap().series().unwrap().unwrap();
            let of_directory =
                StoredSeries::in_directory(&directory, &range, 1 << 20, &Arc::default()).unwrap().unwrap();
            for series in [of_file, of_directory] {
                let found = shown(series, &range, after(begin));
                let end = if begin < set_at { set_at.min(begin + 6) } else { begin + 6 };
                let expected: Vec<_> = (begin + 1..end).map(Some).collect();
                assert!(found.starts_with(&expected), "{by_ns} at {set_at}: {range}: {found:?}");
                assert!(found.len() == 5 || begin < set_at, "{by_ns} at {set_at}: {range}: {found:?}");
            }
        }
    }
}

#[test]
fn what_was_recorded_before_the_clock_was_set_back_is_kept_by_the_next_recorder() {
    let dir = tempfile::tempdir().unwrap();
    record_with(dir.path(), HOUR, (0..200).map(|at| capture(10 * at)));
    let behind = |at: u64| {
        let mut capture = capture(10 * at);
        capture.head.captured_at_unix_ns -= 86_400 * SECOND;
        capture
    };
    record_with(dir.path(), HOUR, (200..300).map(behind));
    assert_eq!(runs_in(dir.path(), "..").len(), 299);
}

#[test]
fn what_was_recorded_by_a_clock_that_was_ahead_does_not_fill_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let ahead = |at: u64| {
        let mut capture = capture(10 * at);
        capture.head.captured_at_unix_ns += 86_400 * SECOND;
        capture
    };
    record_with(dir.path(), HOUR, (0..300).map(ahead));
    let (files, _) = record_with(dir.path(), HOUR, (300..1500).map(|at| capture(10 * at)));
    assert!(files <= 25, "{files} files");
}

#[test]
fn a_file_whose_name_is_no_text_is_no_segment() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Keep::Bytes(1 << 20), 1..4);
    let first = OsStr::from_bytes(b"20260101T000000.000Z-\xff.segment.ctprof.zst");
    std::fs::write(dir.path().join(first), []).unwrap();
    assert_eq!(runs_in(dir.path(), "..").len(), 2);
}

#[test]
fn a_second_recorder_in_a_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let create = || SegmentWriter::create(dir.path(), Keep::Bytes(1 << 20), 1 << 20, &capture(1));
    let first = create().unwrap();
    let error = create().err().map(|error| std::error::Error::source(&error).unwrap().to_string());
    let held = format!("process {} records there; name another directory", std::process::id());
    assert_eq!(error.as_deref(), Some(&*held));
    first.finish().unwrap();
    assert!(create().is_ok(), "it was interrupted");
}

#[test]
fn a_directory_shows_the_last_boot() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Keep::Bytes(1 << 20), 500..510);
    for segment in segments_in(dir.path()).unwrap() {
        let name = segment.name.replace("-b.", "-a.");
        std::fs::rename(dir.path().join(&segment.name), dir.path().join(name)).unwrap();
    }
    record(dir.path(), Keep::Bytes(1 << 20), 1..4);
    assert_eq!(runs_in(dir.path(), "..").len(), 2);
}

#[test]
fn what_is_no_file_is_no_segment_whatever_its_name() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Keep::Time(Duration::from_secs(3600)), 1..10);
    let runs = runs_in(dir.path(), "..");
    let name = &segments_in(dir.path()).unwrap()[0].name;
    let later = dir.path().join(format!("2999{}", &name[4..]));
    nix::unistd::mkfifo(&later, nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
    assert_eq!(runs_in(dir.path(), ".."), runs);
}

#[test]
fn a_step_that_is_too_large_for_readers_begins_the_next_segment() {
    let dir = tempfile::tempdir().unwrap();
    let keep = Keep::Time(Duration::from_secs(3600));
    let mut segments = SegmentWriter::create(dir.path(), keep, 1 << 20, &capture(1)).unwrap();
    let mut moment = Moment::new(capture(1));
    let mut large = capture(3);
    large.threads = (1..1000).map(|tid| ThreadState { tid, ..capture(3).threads[0].clone() }).collect();
    let last = CtprofSnapshot { head: capture(4).head, threads: large.threads.clone() };
    for capture in [capture(2), large, last] {
        segments.add(moment.advance(capture, &StepExits::default()).0, &moment).unwrap();
    }
    segments.finish().unwrap();
    assert_eq!(sizes(dir.path()).len(), 2);
    assert_eq!(runs_in(dir.path(), "..").len(), 3, "the gap is a step");
}
