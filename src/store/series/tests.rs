//! Series are readable after any damage, and what they hold is limited.

use super::super::segments::SegmentWriter;
use super::super::series_writer::{CAPTURE_FOLLOWS, SeriesWriter};
use super::super::target::OutputTarget;
use super::*;
use crate::model::{CaptureInfo, CgroupStats, HostContext, SERIES_FORMAT_VERSION, SeriesInfo, ThreadState};

mod segments;

const SECOND: u64 = 1_000_000_000;
/// Start of the host, a date in 2026.
const START_OF_BOOT: u64 = 1_790_000_000 * SECOND;

fn capture(second: u64) -> CtprofSnapshot {
    let now = Some(second * SECOND);
    let head = SnapshotHead {
        series: Some(SeriesInfo::default()),
        format_version: Some(SERIES_FORMAT_VERSION),
        captured_at_unix_ns: START_OF_BOOT + second * SECOND,
        capture: Some(CaptureInfo { monotonic_ns: now, boottime_ns: now, ..CaptureInfo::default() }),
        host: Some(HostContext { boot_id: Some("b".to_owned()), ..HostContext::default() }),
        ..SnapshotHead::default()
    };
    let threads = (1..4).map(|tid| {
        let mut thread = ThreadState { tid, tgid: 1, comm: "line\nend".into(), ..ThreadState::default() };
        thread.start_time_clock_ticks = Some(0);
        thread.metrics.run_time_ns = Some((second * u64::from(tid)).into());
        thread
    });
    CtprofSnapshot { head, threads: threads.collect() }
}

/// Writes a series with so many steps of a second, and returns its bytes after each.
fn written(path: &std::path::Path, steps: u64) -> Vec<Vec<u8>> {
    written_with(path, steps, capture)
}

fn written_with(path: &Path, steps: u64, capture: impl Fn(u64) -> CtprofSnapshot) -> Vec<Vec<u8>> {
    let mut moment = Moment::new(capture(1));
    let mut file = SeriesWriter::create(OutputTarget::create(path).unwrap(), &capture(1), 1 << 20).unwrap();
    let steps = (2..=steps + 1).map(|second| {
        let step = moment.advance(capture(second), &StepExits::default()).0;
        file.add(step, &moment).unwrap();
        std::fs::read(path).unwrap()
    });
    let mut all: Vec<_> = steps.collect();
    file.finish().unwrap();
    all.push(std::fs::read(path).unwrap());
    all
}

/// The run time of the steps in a file, and whether it ends early.
fn read(path: &std::path::Path, range: &str) -> Result<(Vec<u64>, bool), StoreError> {
    read_parts(path, range, 0)
}

/// The run time of parts of that many nanoseconds.
fn read_parts(path: &std::path::Path, range: &str, length_ns: u64) -> Result<(Vec<u64>, bool), StoreError> {
    let stored = Stored::open(path, 1 << 20, &std::sync::Arc::default())?;
    let mut series = stored.series()?.ok_or(StoreError::NoStep(path.to_owned()))?;
    let mut runs = Vec::new();
    let add = &mut |window: CtprofSnapshot, _: &Moment| {
        let run = window.threads.iter().filter_map(|thread| thread.metrics.run_time_ns).map(u64::from).sum();
        runs.push(run);
        Ok::<_, StoreError>(())
    };
    let to_ns = series.seek(&range.parse().unwrap())?;
    series.each_window_to(to_ns, length_ns, add, &mut |_, _| 0)?;
    Ok((runs, series.cut.is_some()))
}

#[test]
fn what_a_killed_recorder_has_written_can_be_read_at_any_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let bytes = written(&path, 40);
    let whole = bytes.last().unwrap();
    let captures: Vec<_> = memchr::memmem::find_iter(whole, &CAPTURE_FOLLOWS).collect();
    assert!(!captures.is_empty());
    let mut last_steps = 0;
    for length in 0..=whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let steps = match read(&path, "..") {
            Ok((runs, is_cut)) => {
                // Between two frames, nothing is missing.
                let is_whole = |at: &usize| (*at..=at + 16).contains(&length) && !is_cut;
                assert!(is_cut == (length < whole.len()) || captures.iter().any(is_whole), "{length}");
                assert_eq!(&runs[..], &[6; 40][..runs.len()], "{length}");
                let last = read(&path, &format!("{}s..", runs.len().saturating_sub(1)));
                assert_eq!(last.ok().map(|(last, _)| last), (!runs.is_empty()).then(|| vec![6]), "{length}");
                runs.len()
            }
            Err(_) => 0,
        };
        assert!(steps >= last_steps, "{length} bytes have {steps} steps, fewer have {last_steps}");
        last_steps = steps;
    }
    assert_eq!(last_steps, 40);
    for (steps, flushed) in bytes[..40].iter().enumerate() {
        std::fs::write(&path, flushed).unwrap();
        assert_eq!(read(&path, "..").unwrap(), (vec![6; steps + 1], true), "readable while it is written");
    }
}

#[test]
fn a_part_has_the_steps_that_are_nearest_and_at_least_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    written(&path, 5);
    let steps = |range| read(&path, range).map(|(runs, _)| runs.len()).ok();
    assert_eq!(
        ["..", "1s..3s", "1.4..3.4", "4..", "2.1..2.2", "..0.1", "9s.."].map(steps),
        [Some(5), Some(2), Some(2), Some(1), Some(1), Some(1), None]
    );
}

#[test]
fn parts_of_a_time_axis_have_the_steps_whose_middle_is_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    written(&path, 9);
    let steps = |length_ns| read_parts(&path, "..", length_ns).unwrap().0.iter().map(|run| run / 6).collect();
    let all: [Vec<u64>; 3] = [1_750_000_000, 2_000_000_000, 100_000_000].map(steps);
    assert_eq!(all, [vec![2, 1, 2, 2, 2], vec![2, 2, 2, 2, 1], vec![1; 9]]);
}

#[test]
fn a_part_that_is_not_there_is_an_error_with_the_length_of_the_series() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    written(&path, 5);
    let covers = "The series is from 0s to 5.0s, or from 2026-09-21T14:13:21.0Z to 2026-09-21T14:13:26.0Z";
    for (why, ranges) in [
        (
            "it has no step",
            &["9s..", "..14:13:21", "14:12:05..14:12:10", "2026-09-20T14:13:22Z..2026-09-20T14:13:24Z"][..],
        ),
        ("it does not end after it begins", &["4s..2s", "2s..2s", "14:13:25..14:13:22", "14:13:25..14:13:25"]),
    ] {
        for range in ranges {
            let error = read(&path, range).unwrap_err().to_string();
            assert!(error.ends_with(&format!("s has no part {range}: {why}. {covers}")), "{error}");
        }
    }
}

#[test]
fn a_part_that_is_less_than_a_step_has_the_step_in_which_it_is_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    // Each step ran for longer than the one before.
    written_with(&path, 5, |second| capture(second * second));
    let part = |range: &str| {
        let mut series = Stored::open(&path, 1 << 20, &Arc::default()).unwrap().series().unwrap().unwrap();
        let mut lengths = Vec::new();
        let add = &mut |window: CtprofSnapshot, _: &Moment| {
            lengths.push(window.head.window.unwrap().duration_ns / SECOND);
            Ok::<_, StoreError>(())
        };
        series.each_window(&range.parse().unwrap(), add).unwrap();
        (lengths, series.whole_step)
    };
    // The steps begin after 0, 3, 8, 15 and 24 seconds, and the last one ends after 35.
    for (range, length, step) in [
        ("16..18", 9, "15.0s..24.0s"),
        ("21s..23s", 9, "15.0s..24.0s"),
        ("..1", 3, "0.0s..3.0s"),
        ("34..35", 11, "24.0s..35.0s"),
        ("14..16", 9, "15.0s..24.0s"),
        // With the middle of the step.
        ("19..20", 9, "15.0s..24.0s"),
        ("18..25", 9, "15.0s..24.0s"),
    ] {
        let note = format!("{range} is less than a step; the whole step {step} is shown");
        assert_eq!(part(range), (vec![length], Some(note)));
    }
    assert_eq!([part("3..8"), part("15.4..23.9")], [(vec![5], None), (vec![9], None)]);
}

#[test]
fn steps_have_the_values_of_cgroups_that_changed_and_the_names_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    written_with(&path, 4, |second| {
        let mut capture = capture(second);
        let cgroups = (1..4).map(|cgroup| {
            let mut stats = CgroupStats::default();
            stats.cpu.usage_usec = Some((100 * (second / cgroup)).into());
            (format!("/{cgroup}"), stats)
        });
        capture.head.cgroup_stats = cgroups.collect();
        capture
    });
    let mut series = Stored::open(&path, 1 << 20, &Arc::default()).unwrap().series().unwrap().unwrap();
    let mut usage: Vec<Vec<Option<u64>>> = Vec::new();
    let add = &mut |window: CtprofSnapshot, _: &Moment| {
        let stats = window.head.cgroup_stats.into_values();
        usage.push(stats.map(|stats| stats.cpu.usage_usec.map(u64::from)).collect());
        Ok::<_, StoreError>(())
    };
    series.each_window_to(u64::MAX, 2 * SECOND, add, &mut |_, _| 0).unwrap();
    let expected = [[Some(200), Some(100), Some(100)], [Some(200), Some(100), None]];
    assert_eq!(usage, expected);
}

/// Returns the errors with which a series of these steps is refused, as a whole and in windows of all steps. `step` makes the
/// line of a step from its number.
fn refused(steps: u32, step: impl Fn(u32) -> String) -> [String; 2] {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    written(&path, 1);
    let json = String::from_utf8(zstd::decode_all(std::fs::File::open(&path).unwrap()).unwrap()).unwrap();
    let mut lines = json.lines().next().unwrap().to_owned();
    for at in 0..steps {
        let capture = "\"capture\":{\"monotonic_ns\":1000000000,\"boottime_ns\":1000000000}";
        lines += &format!("\n{}", step(at).replace("CAPTURE", capture));
    }
    std::fs::write(&path, lines + "\n").unwrap();
    let series = Stored::open(&path, 1 << 20, &Arc::default()).unwrap().series().unwrap();
    let part = series.unwrap().part(&SeriesRange::default()).map(|_| ());
    [part, read_parts(&path, "..", u64::MAX).map(|_| ())].map(|read| read.unwrap_err().to_string())
}

fn list_of(number: u32, item: impl Fn(u32) -> String) -> String {
    (0..number).map(item).collect::<Vec<_>>().join(",")
}

#[test]
fn steps_lead_to_no_more_cgroups_and_values_than_a_snapshot_may_have() {
    let cgroups = |at| {
        // What is new is in brackets.
        let cgroups = list_of(100, |cgroup| format!("\"/{at}/{cgroup}\":{}", if at == 0 { "{}" } else { "[{}]" }));
        let cgroups = if at == 0 { format!("[{{{cgroups}}}]") } else { format!("{{{cgroups}}}") };
        format!("{{\"head\":{{CAPTURE,\"cgroup_stats\":{cgroups}}}}}")
    };
    for error in refused(3, cgroups) {
        assert!(error.contains(" has more than 256 cgroups"), "{error}");
    }
    let values = |at| {
        let values = list_of(1000, |value| format!("\"{value}\":0"));
        format!("{{\"head\":{{CAPTURE,\"host\":{{\"new{at}\":[{{{values}}}]}}}}}}")
    };
    for error in refused(6, values) {
        assert!(error.contains(" has more than 262144 bytes of values in memory"), "{error}");
    }
}

#[test]
fn all_steps_of_a_part_have_no_more_exits_than_a_snapshot_may_have_threads() {
    let exits = |_| {
        let rows = list_of(100, |tid| format!("{{\"tid\":{0},\"tgid\":{0},\"pcomm\":\"\",\"comm\":\"\"}}", tid + 1));
        let columns = list_of(100, |_| "null".to_owned());
        let lives = list_of(100, |_| "{\"ppid\":1,\"started_monotonic_ns\":0,\"elapsed_ns\":0}".to_owned());
        let threads = format!("{{\"rows\":[{rows}],\"read_at_ns\":[{columns}]}}");
        format!("{{\"head\":{{CAPTURE}},\"exits\":{{\"threads\":{threads},\"rows\":[{lives}]}}}}")
    };
    for error in refused(11, exits) {
        assert!(error.contains(" has more than 1024 records of exits and reasons"), "{error}");
    }
}

/// A frame of such captures is longer than a buffer.
fn with_many_threads(second: u64) -> CtprofSnapshot {
    let mut capture = capture(second);
    let more = (4..40).map(|tid| ThreadState { tid, ..capture.threads[2].clone() });
    capture.threads.extend(more.collect::<Vec<_>>());
    capture
}

#[test]
fn a_part_notices_damage_up_to_the_checksum_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let bytes = written_with(&path, 100, with_many_threads);
    let cut = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let mut series = Stored::open(&path, 1 << 20, &Arc::default()).unwrap().series().unwrap().unwrap();
        series.part(&"30s..32s".parse().unwrap()).unwrap();
        assert_eq!(read(&path, "30s..32s").unwrap().1, series.cut.is_some());
        series.cut
    };
    let mut whole = bytes[100].clone();
    assert_eq!([cut(&whole), cut(&bytes[40])], [None, None], "also while it is written");
    let capture = memchr::memmem::find(&whole, &CAPTURE_FOLLOWS).unwrap();
    whole[capture - 1] ^= 1;
    assert!(cut(&whole).is_some_and(|why| why.starts_with("it is damaged")));
}

/// Returns the fault at the end of a series, if there is one.
fn cut(path: &Path, limit: u64) -> Result<Option<String>, StoreError> {
    let mut series = Stored::open(path, limit, &Arc::default())?.series()?.unwrap();
    series.part(&SeriesRange::default())?;
    Ok(series.cut)
}

#[test]
fn a_series_says_whether_it_is_damaged_cut_or_too_large() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let bytes = written_with(&path, 100, with_many_threads).pop().unwrap();
    assert_eq!(cut(&path, 1 << 20).unwrap(), None);
    let mut damaged = bytes.clone();
    let half = bytes.len() / 2;
    damaged[half..half + 20].fill(0xff);
    std::fs::write(&path, &damaged).unwrap();
    let why = cut(&path, 1 << 20).unwrap().unwrap();
    assert!(why.starts_with("it is damaged: "), "{why}");
    std::fs::write(&path, &bytes[..half]).unwrap();
    let why = cut(&path, 1 << 20).unwrap().unwrap();
    assert_eq!(why, "it is still being written, or its recorder was killed or had a full disk");
    let plain = zstd::decode_all(&bytes[..]).unwrap();
    std::fs::write(&path, &plain[..plain.len() - 2]).unwrap();
    assert_eq!(cut(&path, 1 << 20).unwrap().unwrap(), "the last step is not whole");
    std::fs::write(&path, &bytes).unwrap();
    let limit = u64::try_from(plain.len() - 1).unwrap();
    let refused = SnapshotRefusal::TooLarge(limit, BYTES);
    assert!(matches!(cut(&path, limit), Err(StoreError::Refused(_, refusal)) if refusal == refused));
}

#[test]
fn a_series_that_has_begun_at_a_part_is_at_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    written(&path, 5);
    let mut series = Stored::open(&path, 1 << 20, &Arc::default()).unwrap().series().unwrap().unwrap();
    series.begin(&"3s..".parse().unwrap()).unwrap();
    assert_eq!(series.since_ns(), 3 * SECOND);
    assert!(series.check(5, 5, "threads").is_ok() && series.check(6, 5, "threads").is_err());
}

#[test]
fn a_series_without_a_step_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let created = SeriesWriter::create(OutputTarget::create(&path).unwrap(), &capture(1), 1 << 20);
    let error = read(&path, "..").unwrap_err().to_string();
    assert!(error.contains(" has no step: its recorder has only begun"), "{error}");
    drop(created);
}

#[test]
fn a_step_that_readers_would_refuse_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut moment = Moment::new(capture(1));
    let mut file = SeriesWriter::create(OutputTarget::create(&path).unwrap(), &capture(1), 1 << 20).unwrap();
    let mut add = |capture| file.add(moment.advance(capture, &StepExits::default()).0, &moment);
    add(capture(2)).unwrap();
    let mut large = capture(3);
    large.threads = (1..1000).map(|tid| ThreadState { tid, ..capture(3).threads[0].clone() }).collect();
    let error = add(large).unwrap_err();
    assert!(matches!(error, StoreError::TooLargeToWrite(..)), "{error}");
    file.finish().unwrap();
    assert_eq!(read(&path, "..").unwrap(), (vec![6], false));
}

#[test]
fn a_series_that_another_file_replaces_ends_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut moment = Moment::new(capture(1));
    let step = moment.advance(capture(2), &StepExits::default()).0;
    let create = || SeriesWriter::create(OutputTarget::create(&path).unwrap(), &capture(1), 1 << 20).unwrap();
    let (mut first, mut second) = (create(), create());
    let error = first.add(Step::default(), &moment).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.starts_with("it was removed or replaced while it was written"), "{cause}");
    second.add(step, &moment).unwrap();
}

#[test]
fn a_part_is_read_from_the_capture_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    written(&path, 100);
    let mut bytes = std::fs::read(&path).unwrap();
    let captures: Vec<_> = memchr::memmem::find_iter(&bytes, &CAPTURE_FOLLOWS).collect();
    assert!(captures.len() > 2, "{captures:?}");
    let part = |path: &Path, range: &str| {
        let stored = Stored::open(path, 1 << 20, &Arc::default()).unwrap();
        stored.series().unwrap().unwrap().part(&range.parse().unwrap()).unwrap()
    };
    // As if no capture was repeated.
    let plain = dir.path().join("plain");
    std::fs::write(&plain, zstd::decode_all(&bytes[..]).unwrap()).unwrap();
    for range in ["..", "60s..70s", "85s..", "33s..90s"] {
        assert_eq!(part(&path, range), part(&plain, range), "{range}");
    }
    // The checksum of a frame that ends before the part.
    bytes[captures[1] - 1] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(read(&path, "90s..").unwrap(), (vec![6; 10], false), "what precedes its capture is not decompressed");
    assert!(read(&path, "..").unwrap().1);
}

/// A text that does not compress well.
fn noise(length: usize) -> String {
    let mut state = 1_u64;
    let mut digit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + u8::try_from((state >> 32) % 64).unwrap())
    };
    std::iter::repeat_with(&mut digit).filter(|digit| *digit != '\\').take(length).collect()
}

#[test]
fn a_part_is_opened_without_reading_most_of_a_long_series() {
    const EVERY: u64 = 15;
    const TEXT: usize = 12 << 10;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let noise = noise(50 * TEXT);
    let at = |step: u64| {
        let mut capture = capture(step * EVERY);
        let text = &noise[TEXT * (usize::try_from(step).unwrap() % 50)..][..TEXT];
        capture.head.host.as_mut().unwrap().kernel_release = Some(text.to_owned());
        capture
    };
    let mut moment = Moment::new(at(0));
    let mut file = SeriesWriter::create(OutputTarget::create(&path).unwrap(), &at(0), 1 << 30).unwrap();
    let steps = 24 * 3600 / EVERY;
    for step in 1..=steps {
        let step = moment.advance(at(step), &StepExits::default()).0;
        file.add(step, &moment).unwrap();
    }
    let bytes = file.finish().unwrap().bytes;
    let share_read = |range: &str| {
        let progress = Arc::default();
        let mut series = Stored::open(&path, 1 << 30, &progress).unwrap().series().unwrap().unwrap();
        let part = series.part(&range.parse().unwrap()).unwrap();
        assert!(part.head.window.unwrap().duration_ns.abs_diff(60 * SECOND) <= EVERY * SECOND, "{range}");
        progress.done() as f64 / bytes as f64
    };
    let [last, middle] = ["86340s..", "43200s..43260s"].map(share_read);
    assert!(last < 0.01, "the last minute: {last}");
    assert!(middle < 0.05, "a minute at noon: {middle}");
}

#[test]
fn an_older_ctprof_says_that_it_does_not_read_series() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    written(&path, 1);
    let json = zstd::decode_all(std::fs::File::open(&path).unwrap()).unwrap();
    assert!(json.starts_with(br#"{"series":{"every_ns":0,"recorder":0},"format_version":4,"#));
    assert_eq!(json.iter().filter(|byte| **byte == b'\n').count(), 2, "a line each");
}
