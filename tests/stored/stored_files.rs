//! Files: written snapshots are read back unchanged, and any other file is a clear error.

use crate::support::{Missing, skipped};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ctprof::model::{ExitedWork, Owner, Threads};
use ctprof::store::{OutputTarget, SnapshotRefusal, StoreError, Stored, load};
use ctprof::{CtprofSnapshot, ThreadState};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Loads a file of `bytes`.
fn load_bytes(bytes: &[u8], limit: u64) -> Result<CtprofSnapshot, StoreError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    load(file.path(), limit)
}

/// Loads a compressed file of `json`.
fn loaded(json: &str, limit: u64) -> Result<CtprofSnapshot, StoreError> {
    load_bytes(&zstd::encode_all(json.as_bytes(), 3).unwrap(), limit)
}

fn error(json: &str) -> String {
    loaded(json, 1 << 20).unwrap_err().to_string()
}

#[test]
fn a_capture_reads_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snap");
    let snapshot = ctprof::capture_pid(std::process::id()).unwrap();
    snapshot.write(&path).unwrap();
    assert_eq!(CtprofSnapshot::load(&path).unwrap(), snapshot);
    let first = fs::read(&path).unwrap();
    snapshot.write(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), first, "same data, same bytes");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no other file is left");
}

/// A thread of a fixture.
fn thread_of(snapshot: &CtprofSnapshot, tid: u32) -> &ThreadState {
    snapshot.threads.iter().find(|thread| thread.tid == tid).unwrap()
}

#[test]
fn a_capture_of_format_2_stays_readable() {
    let snapshot = CtprofSnapshot::load(&fixture("v2-linux-6.18.ctprof.zst")).unwrap();
    let CtprofSnapshot { head, threads } = &snapshot;
    let host = head.host.as_ref().unwrap();
    assert_eq!((head.format_version, threads.len(), host.kernel_release.as_deref()), (Some(2), 11, Some("6.18.44")));
    assert_eq!(head.cgroup_stats["/app/work"].memory.current.map(u64::from), Some(4_236_554_240));
    let worker = thread_of(&snapshot, 54);
    assert_eq!((&*worker.pcomm, worker.tgid, worker.cgroup.as_deref()), ("python3", 3, Some("/app/work")));
    let metrics = &worker.metrics;
    assert_eq!(metrics.run_time_ns, Some(88_681_774.into()), "a value of a column");
    assert_eq!([metrics.wait_time_ns, metrics.cpu_delay_total_ns], [Some(725_881_676.into()); 2], "a shared column");
    assert_eq!(metrics.policy.as_ref().unwrap().0.as_ref(), "SCHED_OTHER", "a default value");
    let leader = thread_of(&snapshot, 3);
    assert_eq!(leader.metrics.wchar, Some(237.into()), "not the default value");
    assert_eq!(leader.smaps_rollup_kib.as_ref().unwrap()["Rss"], 13_856);
    assert_eq!(leader.process.as_ref().unwrap().cminflt.map(u64::from), Some(6554));
}

#[test]
fn a_window_of_format_2_stays_readable() {
    let snapshot = CtprofSnapshot::load(&fixture("v2-window-linux-6.18.ctprof.zst")).unwrap();
    let window = snapshot.head.window.as_ref().unwrap();
    let (command, cpu) = (window.command.as_ref().unwrap(), window.cpu.as_ref().unwrap());
    assert_eq!((window.duration_ns, window.process_counters), (477_295_480, true));
    assert_eq!((command.arguments.join(" "), command.status), ("sh work.sh".to_owned(), Some(0)));
    assert_eq!((cpu.busy_ns, cpu.explained_ns, cpu.started_seen), (954_590_960, 285_759_437, 4));
    let started = thread_of(&snapshot, 76);
    let span = started.span.unwrap();
    assert_eq!((span.alive_ns, span.started, span.exited), (399_669_194, true, false));
    assert_eq!(started.metrics.run_time_ns, Some(11_557_786.into()));
    let exited = thread_of(&snapshot, 54);
    assert_eq!((exited.span.unwrap().exited, exited.metrics.run_time_ns), (true, None));
    let children = snapshot.threads.iter().find(|thread| thread.exited_work == Some(ExitedWork::Children)).unwrap();
    assert_eq!((children.tid, children.tgid, children.owner), (0, 68, Some(Owner::Command)));
    assert_eq!(children.metrics.run_time_ns, Some(130_000_000.into()));
}

#[test]
fn runs_of_format_2_stay_readable() {
    let values = [1, 2].map(|number| {
        let run = CtprofSnapshot::load(&fixture(&format!("v2-run-{number}-linux-6.18.ctprof.zst"))).unwrap();
        let elapsed_ns = run.head.window.as_ref().unwrap().command.as_ref().unwrap().elapsed_ns;
        (run.threads.len(), elapsed_ns, thread_of(&run, 60).metrics.run_time_ns.map(u64::from))
    });
    assert_eq!(values, [(18, 692_609_470, Some(5_771_970)), (19, 497_791_010, Some(29_608_830))]);
}

#[test]
fn zeros_for_missing_values_in_ktstr_files_are_absent() {
    let snapshot = CtprofSnapshot::load(&fixture("ktstr-a.ctprof.zst")).unwrap();
    assert_eq!((snapshot.threads.len(), snapshot.head.format_version), (107, None));
    let threads = || snapshot.threads.iter().map(|thread| &thread.metrics);
    assert!(threads().all(|m| m.core_forceidle_sum.is_none()));
    assert_eq!(threads().filter(|m| m.allocated_bytes.is_some()).count(), 15);
    assert!(threads().all(|m| m.cpu_delay_count.is_some() && m.nr_wakeups.is_some() && m.wchar.is_some()));
    assert!(threads().all(|m| m.blkio_delay_min_ns != Some(0.into()) && m.fair_slice_ns != Some(0.into())));
    let rolled_up = snapshot.threads.iter().filter(|thread| thread.smaps_rollup_kib.is_some()).count();
    assert!(rolled_up > 0 && rolled_up < 20, "{rolled_up} processes have memory");
}

/// Keeps what distinguishes threads.
#[derive(Debug, Default, PartialEq)]
struct Seen(Vec<(u32, u32, bool)>);

impl Threads for Seen {
    fn another(&self) -> Self {
        Self::default()
    }

    fn add(&mut self, thread: ThreadState) {
        self.0.push((thread.tgid, thread.tid, thread.metrics.core_forceidle_sum.is_some()));
    }

    fn append(&mut self, later: Self) {
        self.0.extend(later.0);
    }
}

#[test]
fn threads_are_read_one_by_one_in_the_order_of_a_list_from_any_layout() {
    let dir = tempfile::tempdir().unwrap();
    let plain = |name: &str, json: String| {
        let path = dir.path().join(name);
        fs::write(&path, zstd::encode_all(json.as_bytes(), 3).unwrap()).unwrap();
        path
    };
    let thread = |tid: u32| format!(r#"{{"tid":{tid},"tgid":1,"comm":"{tid:a>200}"}}"#);
    let lines = |tids: &mut dyn Iterator<Item = u32>| {
        let threads = tids.map(thread).collect::<Vec<_>>().join(",\n");
        format!("{{\"format_version\":1,\"threads\":[\n{threads}\n],\"captured_at_unix_ns\":7}}")
    };
    let fixtures = ["ktstr-a", "v1-linux-5.10-a", "v1-linux-7.3", "v1-lines-linux-7.3"];
    let mut files = fixtures.map(|name| fixture(&format!("{name}.ctprof.zst"))).to_vec();
    files.push(plain("sorted", lines(&mut (1..=10_000))));
    files.push(plain("unsorted", lines(&mut (1..=10_000).rev())));
    files.push(plain("version-last", format!(r#"{{"threads":[{},{}],"format_version":1}}"#, thread(2), thread(1))));
    for path in files {
        let (head, seen) =
            Stored::open(&path, 1 << 30, &std::sync::Arc::default()).unwrap().load_into(&Seen::default()).unwrap();
        let listed = CtprofSnapshot::load(&path).unwrap();
        let mut again = Seen::default();
        listed.threads.iter().for_each(|thread| again.add(thread.clone()));
        assert_eq!(seen, again, "{}", path.display());
        assert!(seen.0.is_sorted_by_key(|(tgid, tid, _)| (*tgid, *tid)), "{}", path.display());
        assert_eq!(head, listed.head);
    }
}

#[test]
fn a_truncated_file_is_an_error_and_never_a_panic() {
    let whole = fs::read(fixture("ktstr-a.ctprof.zst")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut");
    for end in (0..whole.len()).step_by(61).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..end]).unwrap();
        let error = CtprofSnapshot::load(&path).unwrap_err();
        assert!(
            matches!(error, StoreError::Refused(_, SnapshotRefusal::NotASnapshot(_) | SnapshotRefusal::Truncated)),
            "{end}: {error}"
        );
    }
}

#[test]
fn a_flipped_bit_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    let (path, rewritten) = (dir.path().join("flipped"), dir.path().join("good"));
    CtprofSnapshot::load(&fixture("ktstr-a.ctprof.zst")).unwrap().write(&rewritten).unwrap();
    let (snapshot, good) = (CtprofSnapshot::load(&rewritten).unwrap(), fs::read(&rewritten).unwrap());
    let mut undetected = 0;
    // A flipped bit before these bytes may only change the window size, which has no effect.
    for at in (6..good.len()).step_by(97) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        // It may also refer to another copy of the same text.
        if let Ok(read) = CtprofSnapshot::load(&path) {
            assert_eq!(read, snapshot, "bit of byte {at}");
            undetected += 1;
        }
    }
    assert!(undetected < 9, "{undetected} bits");
}

#[test]
fn errors_name_the_place_and_the_problem() {
    let wrong = error(r#"{"threads":[{"tid":1,"tgid":2,"nice":"x"}]}"#);
    assert!(wrong.contains("threads[0].nice: expected a whole number"), "{wrong}");
    assert!(error(r#"{"threads":[],"host":{"online_cpus":"many"}}"#).contains("host.online_cpus: invalid type"));
    for text in ["{\n\"threads\": oops}", r#"{"threads":["#] {
        assert!(error(text).ends_with("is not a ctprof snapshot (invalid JSON)"), "{text}");
    }
    assert!(
        error(r#"{"format_version":5,"threads":[]}"#)
            .ends_with(" has format version 5; this ctprof reads versions up to 4. Upgrade ctprof.")
    );
    let no_series = error(r#"{"format_version":3,"threads":[]}"#);
    assert!(no_series.ends_with(" is not a ctprof snapshot (its format version is that of a series)"), "{no_series}");
    assert!(error(r#"{"psi":{}}"#).ends_with(" is not a ctprof snapshot (no `threads`)"));
    assert!(
        load_bytes(&[0x1f, 0x8b, 8, 0, 0], 99)
            .unwrap_err()
            .to_string()
            .ends_with(" is not a ctprof snapshot (neither zstd nor a JSON object)")
    );
    assert!(error(r#"{"threads":[]} trailing"#).contains("invalid JSON"));
    let deep = "[".repeat(1_000);
    assert!(error(&format!(r#"{{"threads":{deep}"#)).contains("cannot parse"));
    let missing = CtprofSnapshot::load(Path::new("/no/such/file")).unwrap_err();
    assert!(missing.to_string().contains("cannot read /no/such/file"));
}

#[test]
fn a_snapshot_that_is_not_compressed_is_read() {
    let compressed = fs::read(fixture("v1-lines-linux-7.3.ctprof.zst")).unwrap();
    let plain = zstd::decode_all(&compressed[..]).unwrap();
    assert_eq!(load_bytes(&plain, 1 << 30).unwrap(), load_bytes(&compressed, 1 << 30).unwrap());
    assert!(load_bytes(b" \n\n\n {\"threads\":[]}", 1 << 20).is_ok());
    assert!(matches!(load_bytes(&plain, 1000), Err(StoreError::Refused(_, SnapshotRefusal::TooLarge(1000, _)))));
    assert!(matches!(load_bytes(&plain[..plain.len() / 2], 1 << 30), Err(StoreError::NotJson(..))));
    assert!(matches!(load_bytes(b"[]", 1 << 30), Err(StoreError::Refused(_, SnapshotRefusal::NotASnapshot(_)))));
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let bomb = format!(r#"{{"threads":[],"x":"{}"}}"#, "x".repeat(8 << 20));
    assert!(matches!(loaded(&bomb, 1 << 30), Err(StoreError::Refused(_, SnapshotRefusal::TooLong(131_072, "a text")))));
    let bomb = format!(r#"{{"threads":[],"x":[{}]}}"#, vec![r#""x""#; 1 << 20].join(","));
    assert!(matches!(loaded(&bomb, 1 << 20), Err(StoreError::Refused(_, SnapshotRefusal::TooLarge(262_144, _)))));
    assert!(loaded(&bomb, 1 << 30).is_ok());
    let spaces = format!(r#"{{"threads":[]{}}}"#, " ".repeat(8 << 20));
    assert!(matches!(loaded(&spaces, 1 << 20), Err(StoreError::Refused(_, SnapshotRefusal::TooLarge(1_048_576, _)))));
    assert!(loaded(&spaces, 16 << 20).is_ok());
}

#[test]
fn too_many_tiny_threads_or_cgroups_are_refused() {
    let many = |one: &dyn Fn(u32) -> String, by: &str| (0..3000).map(one).collect::<Vec<_>>().join(by);
    let thread = |_| r#"{"tid":1,"tgid":1}"#.to_owned();
    let cgroup = |number| format!(r#""{number}":{{}}"#);
    for (json, mib) in [
        (format!(r#"{{"threads":[{}]}}"#, many(&thread, ",")), 8),
        (format!("{{\"format_version\":2,\"threads\":[\n{}\n]}}", many(&thread, ",\n")), 2),
        (format!(r#"{{"threads":[],"cgroup_stats":{{{}}}}}"#, many(&cgroup, ",")), 8),
    ] {
        let refused = loaded(&json, mib << 20).unwrap_err().to_string();
        assert!(refused.contains("more than 2048 ") && refused.contains("--max-snapshot-bytes"), "{refused}");
        assert!(loaded(&json, (mib << 20) * 3 / 2).is_ok());
    }
}

#[test]
fn a_long_default_value_counts_for_every_thread() {
    let json = |key: &str, value: &str, by: &str| {
        let threads = (1..=1000).map(|tid| format!(r#"{{"tid":{tid},"tgid":1}}"#)).collect::<Vec<_>>().join(by);
        format!("{{\"format_version\":2,\"usual\":{{\"{key}\":{value}}},\"threads\":[\n{threads}\n]}}")
    };
    let policy = format!("\"{}\"", "A".repeat(64 << 10));
    let cpus = format!("[{}]", vec!["1"; 4 << 10].join(","));
    for (key, value) in [("policy", policy), ("cpu_affinity", cpus)] {
        for by in [",\n", ","] {
            let refused = loaded(&json(key, &value, by), 1 << 20).unwrap_err();
            assert!(matches!(refused, StoreError::Refused(_, SnapshotRefusal::TooLarge(_, "threads"))), "{refused}");
            assert!(loaded(&json(key, &value, by), 64 << 20).is_ok());
        }
    }
}

#[test]
fn a_snapshot_that_readers_refuse_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snap");
    fs::write(&path, "old").unwrap();
    let snapshot = CtprofSnapshot::load(&fixture("ktstr-a.ctprof.zst")).unwrap();
    let error = OutputTarget::create(&path).unwrap().write(&snapshot, 1000).unwrap_err().to_string();
    assert!(error.contains("--max-snapshot-bytes"), "{error}");
    let mut long = snapshot;
    long.head.host.as_mut().unwrap().hostname = Some("h".repeat(1 << 20));
    let error = OutputTarget::create(&path).unwrap().write(&long, 1 << 30).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("a text"), "{cause}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn too_many_threads_are_reported_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snap");
    let mut snapshot = CtprofSnapshot::default();
    snapshot.threads.resize(3, ThreadState::default());
    let error = OutputTarget::create(&path).unwrap().write(&snapshot, 2048).unwrap_err().to_string();
    assert!(error.contains("more than 2 threads; raise --max-snapshot-bytes"), "{error}");
}

#[test]
fn a_link_to_standard_output_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let [output, link, second] = ["output", "link", "second"].map(|name| dir.path().join(name));
    symlink("/proc/self/fd/1", &link).unwrap();
    symlink("link", &second).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    command.args(["capture", "-q", "--pid", &std::process::id().to_string(), "-o"]).arg(&second);
    assert!(command.stdout(fs::File::create(&output).unwrap()).status().unwrap().success());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && fs::symlink_metadata(&second).unwrap().is_symlink());
    assert!(CtprofSnapshot::load(&output).is_ok());
}

#[test]
fn a_symbolic_link_is_replaced_and_its_target_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (victim, link) = (dir.path().join("victim"), dir.path().join("link"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &link).unwrap();
    CtprofSnapshot::load(&fixture("ktstr-a.ctprof.zst")).unwrap().write(&link).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(CtprofSnapshot::load(&link).is_ok());
}

#[test]
fn snapshots_written_by_root_have_mode_0600() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snap");
    CtprofSnapshot::load(&fixture("ktstr-a.ctprof.zst")).unwrap().write(&path).unwrap();
    if !nix::unistd::geteuid().is_root() {
        return skipped(Missing::Privilege("root"));
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn two_captures_within_a_second_have_two_names() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = CtprofSnapshot::load(&fixture("v1-linux-7.3.ctprof.zst")).unwrap();
    let write = |name: &str| {
        let target = OutputTarget::create_new(&dir.path().join(name)).unwrap();
        let written = target.write(&snapshot, 1 << 30).unwrap();
        assert_eq!(fs::metadata(&written.path).unwrap().len(), written.bytes);
        assert_eq!(CtprofSnapshot::load(&written.path).unwrap(), snapshot);
        written.path.file_name().unwrap().to_string_lossy().into_owned()
    };
    let names = [(); 3].map(|()| write("a.b.ctprof.zst"));
    assert_eq!(names, ["a.b.ctprof.zst", "a.b-2.ctprof.zst", "a.b-3.ctprof.zst"]);
    assert_eq!([write("plain"), write("plain")], ["plain", "plain-2"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5, "no other file is left");

    let capture = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        command.args(["capture", "-q", "--pid", &std::process::id().to_string()]).current_dir(dir.path());
        let out = command.output().unwrap();
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    let names: BTreeSet<_> = [(); 3].map(|()| capture()).into();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| CtprofSnapshot::load(&dir.path().join(name)).is_ok()));
}

#[test]
fn a_snapshot_written_to_a_closed_pipe_is_a_failure() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    command.args(["capture", "-q", "-o", "-", "--pid", &std::process::id().to_string()]);
    let mut capture = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(capture.stdout.take());
    let out = capture.wait_with_output().unwrap();
    let error = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{error}");
    assert_eq!(error, "ctprof: cannot write standard output: Broken pipe (os error 32)\n");
}

#[test]
fn a_missing_directory_is_reported_before_the_capture() {
    let error = OutputTarget::create(Path::new("/no/such/dir/snap")).unwrap_err().to_string();
    assert_eq!(error, "cannot write /no/such/dir/snap");
}

#[test]
fn a_time_zone_that_is_no_file_of_one_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let [fifo, large] = ["fifo", "large"].map(|name| directory.path().join(name));
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let zone = "Asia/Tokyo";
    let has_zones = std::path::Path::new("/usr/share/zoneinfo").join(zone).exists();
    fs::create_dir_all(directory.path().join(zone)).unwrap();
    let mut show = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    show.arg("show").arg(fixture("v2-window-linux-6.18.ctprof.zst")).env("TZ", zone).current_dir(&directory);
    let shown = String::from_utf8(show.output().unwrap().stdout).unwrap();
    assert!(!has_zones || shown.contains(" JST "), "a directory with the name of a zone: {shown}");
    for zone in [fifo, large] {
        let mut show = Command::new("timeout");
        show.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_ctprof"), "show"]).env("TZ", &zone);
        let shown = show.arg(fixture("v2-window-linux-6.18.ctprof.zst")).output().unwrap();
        assert!(shown.status.success() && String::from_utf8_lossy(&shown.stdout).contains(" UTC "), "{shown:?}");
    }
}
