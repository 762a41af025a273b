//! Exports: what query engines read is what the snapshots say, whatever the input and the output directory contain.

use crate::support::{Missing, skipped};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use crate::stored::fleet::{self, Fleet};
use ctprof::CtprofSnapshot;
use ctprof::export::{ColumnType, datasets};
use ctprof::model::{ExitedWork, METRICS, MonotonicNs, ThreadSpan, Value};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use rayon::prelude::*;
use tempfile::TempDir;

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");
const TEMPLATE: &str = "tests/fixtures/v1-linux-7.3.ctprof.zst";

fn template() -> CtprofSnapshot {
    CtprofSnapshot::load(Path::new(TEMPLATE)).unwrap()
}

fn run(inputs: &[&Path], output: &Path) -> Output {
    Command::new(CTPROF).arg("export").args(inputs).arg("-o").arg(output).output().unwrap()
}

/// Exports, and requires success.
fn export(inputs: &[&Path], output: &Path) {
    let out = run(inputs, output);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// All files below a directory that engines read, with their bytes.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else if !entry.file_name().to_string_lossy().starts_with('.') {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// The same with names relative to the directory.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let relative = |(path, bytes): (PathBuf, _)| (path.strip_prefix(directory).unwrap().to_owned(), bytes);
    files(directory).into_iter().map(relative).collect()
}

/// The rows of a file, or of all files of a dataset.
fn rows(path: &Path) -> Vec<BTreeMap<String, Field>> {
    let files = if path.is_dir() { files(path).into_keys().collect() } else { vec![path.to_owned()] };
    let read = |path: PathBuf| SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let fields = |row: Row| row.into_columns().into_iter().collect();
    files.into_iter().flat_map(|path| read(path).into_iter().map(move |row| fields(row.unwrap()))).collect()
}

fn write(snapshot: &CtprofSnapshot, path: PathBuf) -> PathBuf {
    snapshot.write(&path).unwrap();
    path
}

/// A snapshot of a host.
fn on_host(host: Option<&str>) -> CtprofSnapshot {
    let mut snapshot = template();
    snapshot.head.host.as_mut().unwrap().hostname = host.map(str::to_owned);
    snapshot
}

#[test]
fn every_metric_of_every_thread_is_in_its_column() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("threads.parquet");
    export(&[Path::new(TEMPLATE)], &output);
    let (snapshot, rows) = (template(), rows(&output));
    assert_eq!(rows.len(), snapshot.threads.len());
    let mut compared = 0;
    let ids = |row: &BTreeMap<String, Field>| [row["tgid"].clone(), row["tid"].clone()];
    for thread in &snapshot.threads {
        let id = [thread.tgid, thread.tid].map(|id| Field::Long(id.into()));
        let row = rows.iter().find(|row| ids(row) == id).unwrap();
        assert_eq!(row["comm"], Field::Str(thread.comm.to_string()));
        assert_eq!(row["tid"], Field::Long(thread.tid.into()));
        for metric in METRICS {
            let expected = match metric.get(&thread.metrics) {
                None => Field::Null,
                Some(Value::Unsigned(number)) => Field::Long(number.try_into().unwrap()),
                Some(Value::Signed(number)) => Field::Long(number),
                Some(Value::Flag(flag)) => Field::Bool(flag),
                Some(Value::Letter(letter)) => Field::Str(letter.to_string()),
                Some(Value::Text(text)) => Field::Str(text.into_owned()),
                Some(_) => continue,
            };
            compared += usize::from(expected != Field::Null);
            assert_eq!(row[metric.name], expected, "{} of {}", metric.name, thread.comm);
        }
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn the_same_input_gives_the_same_bytes_and_names() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { hosts: 3, days: 2, windows: 2, threads: 80 };
    let snapshots = dir.path().join("snapshots");
    fs::create_dir(&snapshots).unwrap();
    let mut paths = fleet.write(&template(), &snapshots);
    let [whole, again] = ["whole", "again"].map(|name| dir.path().join(name));
    export(&[&snapshots], &whole);
    let first = contents(&whole);
    assert_eq!(first.len(), 2 * 4, "{:?}", first.keys());
    export(&[&snapshots], &whole);
    assert!(contents(&whole) == first, "into the same directory");
    paths.reverse();
    paths.push(paths[0].clone());
    export(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &again);
    assert!(contents(&again) == first, "in another order, into another directory, one file twice");
    let one = dir.path().join("one");
    let out =
        Command::new(CTPROF).env("RAYON_NUM_THREADS", "1").arg("export").arg(&snapshots).arg("-o").arg(&one).output();
    assert!(out.unwrap().status.success());
    assert!(contents(&one) == first, "with one worker");
}

#[test]
fn a_large_capture_between_small_ones_stays_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let [small, large, output] = ["small", "large", "out.parquet"].map(|name| dir.path().join(name));
    [&small, &large].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let fleet = Fleet { hosts: 1, days: 1, windows: 3, threads: 80 };
    let mut paths = fleet.write(&template(), &small);
    // More than is read ahead of its turn.
    paths.push(Fleet { windows: 2, threads: 24_000, ..fleet }.write(&template(), &large).remove(1));
    assert!(fs::metadata(&paths[3]).unwrap().len() > (4 << 20) / 12);
    export(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &output);
    let times: Vec<String> = rows(&output).iter().map(|row| row["time"].to_string()).collect();
    assert_eq!(times.len(), 3 * 80 + 24_000);
    assert!(times.is_sorted());
}

#[test]
fn a_capture_that_was_exported_before_is_not_in_two_files() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { hosts: 1, days: 1, windows: 3, threads: 80 };
    let paths = fleet.write(&template(), dir.path());
    let output = dir.path().join("out");
    export(&[&paths[1]], &output);
    let inputs: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    export(&inputs, &output);
    let first = contents(&output);
    assert_eq!(first.len(), 2 * 4);
    assert_eq!(rows(&output.join("captures")).len(), 3);
    assert_eq!(rows(&output.join("threads")).len(), 3 * 80);
    export(&inputs, &output);
    assert!(contents(&output) == first);
}

#[test]
fn a_capture_that_is_there_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = write(&on_host(Some("h")), dir.path().join("a.ctprof.zst"));
    let output = dir.path().join("out");
    export(&[&snapshot], &output);
    let first = contents(&output);
    let said = run(&[&snapshot], &output);
    assert!(said.status.success());
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("Exported 0 captures") && said.contains("1 capture was there"), "{said}");
    assert!(contents(&output) == first);
}

#[test]
fn what_a_call_left_that_did_not_end_is_replaced_and_nothing_is_twice() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { hosts: 1, days: 1, windows: 3, threads: 80 };
    let paths = fleet.write(&template(), dir.path());
    let [output, fresh] = ["out", "fresh"].map(|name| dir.path().join(name));
    export(&[&paths[0], &paths[1]], &output);
    // `captures` gets its file last.
    for file in files(&output.join("captures")).into_keys() {
        fs::write(file.with_file_name(".ctprof-0123456789abcdef"), "half").unwrap();
        fs::remove_file(file).unwrap();
    }
    let inputs: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    export(&inputs, &output);
    export(&inputs, &fresh);
    assert!(contents(&output) == contents(&fresh));
    let day = fs::read_dir(output.join("captures/date=2026-11-20")).unwrap();
    assert_eq!(day.count(), 1, "temporary files are removed");
}

/// Exports, and is killed at so many calls of a system call; whether it got so far.
fn is_killed_at(call: &str, number: usize, input: &Path, output: &Path) -> bool {
    let inject = format!("inject={call}:signal=KILL:when={number}");
    let mut traced = Command::new("strace");
    traced.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
    !traced.args([CTPROF, "export"]).arg(input).arg("-o").arg(output).output().unwrap().status.success()
}

/// The number of threads of each capture that is there.
fn threads_of_captures(output: &Path) -> BTreeMap<String, usize> {
    let id = |row: &BTreeMap<String, Field>| row["capture_id"].to_string();
    let threads: Vec<_> = rows(&output.join("threads")).iter().map(id).collect();
    let captures = output.join("captures");
    let captures = if captures.is_dir() { rows(&captures) } else { Vec::new() };
    captures.iter().map(|row| (id(row), threads.iter().filter(|of| **of == id(row)).count())).collect()
}

#[test]
fn an_export_that_is_killed_at_any_call_leaves_whole_captures_and_the_next_one_completes_it() {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !works.is_ok_and(|out| out.status.success()) {
        return skipped(Missing::Tool("strace"));
    }
    let dir = tempfile::tempdir().unwrap();
    let [first, all, fresh] = ["first", "all", "fresh"].map(|name| dir.path().join(name));
    [&first, &all].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let fleet = Fleet { hosts: 1, days: 2, windows: 2, threads: 80 };
    fleet.write(&template(), &all);
    Fleet { days: 1, windows: 1, ..fleet }.write(&template(), &first);
    [&first, &all].into_iter().for_each(|inputs| export(&[inputs], &fresh));
    let expected = contents(&fresh);
    let before = dir.path().join("before");
    export(&[&first], &before);
    // Of many writes, a part.
    for (call, every, at_least) in [("mkdirat", 3, 2), ("write", 20, 2), ("linkat", 1, 8), ("fsync", 2, 4)] {
        let mut cases = 0;
        for number in (1..1000).step_by(every) {
            let output = dir.path().join(format!("{call} {number}"));
            for (file, bytes) in contents(&before) {
                let file = output.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, bytes).unwrap();
            }
            let is_killed = is_killed_at(call, number, &all, &output);
            assert!(threads_of_captures(&output).values().all(|threads| *threads == 80), "{call} {number}");
            export(&[&all], &output);
            let found = contents(&output);
            assert!(found == expected, "{call} {number}: {:?}, not {:?}", found.keys(), expected.keys());
            if !is_killed {
                break;
            }
            cases += 1;
        }
        assert!(cases >= at_least, "{call}: {cases}");
    }
}

#[test]
fn two_exports_at_once_into_one_directory_both_complete_and_nothing_is_twice() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { hosts: 1, days: 1, windows: 6, threads: 80 };
    let paths = fleet.write(&template(), dir.path());
    let output = dir.path().join("out");
    let start =
        |paths: &[PathBuf]| Command::new(CTPROF).arg("export").args(paths).arg("-o").arg(&output).spawn().unwrap();
    let exports = [&paths[..4], &paths[2..], &paths[1..5]].map(start);
    assert!(exports.into_iter().all(|mut export| export.wait().unwrap().success()));
    let found = threads_of_captures(&output);
    assert!(found.len() == 6 && found.values().all(|threads| *threads == 80), "{found:?}");
    assert_eq!((rows(&output.join("captures")).len(), rows(&output.join("threads")).len()), (6, 6 * 80));
}

#[test]
fn files_are_sorted_as_they_say_and_can_be_searched() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { hosts: 2, days: 1, windows: 2, threads: 80 };
    let snapshots = dir.path().join("in");
    fs::create_dir(&snapshots).unwrap();
    fleet.write(&template(), &snapshots);
    let mut removed = on_host(Some("removed"));
    removed.head.containers.insert("/a-removed-one".to_owned(), Default::default());
    write(&removed, snapshots.join("removed.ctprof.zst"));
    let series = crate::stored::changes_over_time::series(dir.path(), 4);
    // Of the host of the series, between its first step and its last.
    let mut between = crate::stored::changes_over_time::capture(2);
    (between.head.series, between.head.format_version) = (None, Some(2));
    write(&between, snapshots.join("between.ctprof.zst"));
    let output = dir.path().join("out");
    export(&[&snapshots, Path::new(&series)], &output);
    let mut most = 0;
    for file in files(&output).into_keys() {
        let reader = SerializedFileReader::new(File::open(&file).unwrap()).unwrap();
        let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert!(pairs.iter().any(|pair| pair.key == "ctprof.schema" && pair.value.as_deref() == Some("2")));
        for (number, group) in reader.metadata().row_groups().iter().enumerate() {
            let sorted = group.sorting_columns().unwrap();
            let names: Vec<_> = sorted
                .iter()
                .map(|sorted| group.column(usize::try_from(sorted.column_idx).unwrap()).column_path().string())
                .collect();
            assert_eq!(names[..2], ["host", "time"], "{}", file.display());
            let columns = group.columns();
            assert!(columns.iter().all(|column| column.offset_index_offset().is_some()));
            let bloom = |column: &str| {
                columns.iter().find(|found| found.column_path().string() == column).unwrap().bloom_filter_offset()
            };
            assert!(bloom("capture_id").is_some() && bloom("host").is_none());
            let of_group = reader.get_row_group(number).unwrap();
            let rows = of_group.get_row_iter(None).unwrap();
            let key = |row: Row| -> Vec<_> {
                let row: BTreeMap<_, _> = row.into_columns().into_iter().collect();
                names.iter().map(|name| row[name].to_string()).collect()
            };
            assert!(rows.map(|row| key(row.unwrap())).is_sorted(), "{} by {names:?}", file.display());
            most = most.max(number + 1);
        }
    }
    assert_eq!(most, 2, "a series that goes back in time begins a row group");
}

#[test]
fn a_weight_is_in_each_row_and_a_wrong_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("out");
    let export = |weight: &str| {
        Command::new(CTPROF).args(["export", "--weight", weight, TEMPLATE, "-o"]).arg(&output).output().unwrap()
    };
    for wrong in ["0", "-1", "nan", "inf", "x"] {
        let said = export(wrong);
        assert!(!said.status.success() && !output.exists(), "{wrong}");
    }
    assert!(export("12.5").status.success());
    for dataset in ["threads", "cgroups", "captures"] {
        assert!(rows(&output.join(dataset)).iter().all(|row| row["weight"] == Field::Double(12.5)), "{dataset}");
    }
    let said = |weight: &str| String::from_utf8(export(weight).stderr).unwrap();
    assert!(said("100").contains("keep it (1 of them); export to a new directory to change it"));
    assert!(!said("12.5").contains("keep it"));
}

#[test]
fn files_of_captures_that_are_there_stay_whatever_their_names_are() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { hosts: 1, days: 1, windows: 2, threads: 80 };
    let paths = fleet.write(&template(), dir.path());
    let output = dir.path().join("out");
    export(&[&paths[0]], &output);
    // As if an engine had compacted `captures` only.
    for file in files(&output.join("captures")).into_keys() {
        fs::rename(&file, file.with_file_name("data_0.parquet")).unwrap();
    }
    export(&[&paths[0], &paths[1]], &output);
    assert_eq!(rows(&output.join("captures")).len(), 2);
    assert_eq!(rows(&output.join("threads")).len(), 2 * 80);
}

#[test]
fn a_directory_of_ctprof_0_3_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("out");
    // Engines read all days together.
    fs::create_dir_all(output.join("captures/date=2020-02-20/host=h")).unwrap();
    let out = run(&[Path::new(TEMPLATE)], &output);
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{message}");
    assert!(message.contains("was written by ctprof 0.3") && message.contains("another directory"), "{message}");
    assert!(files(&output).is_empty());
}

#[test]
fn a_damaged_snapshot_among_many_is_left_out() {
    // The rows of the larger one are encoded before its end is read.
    for threads in [3000, 24_000] {
        let dir = tempfile::tempdir().unwrap();
        let [sources, output] = ["in", "out"].map(|name| dir.path().join(name));
        fs::create_dir(&sources).unwrap();
        let small = Fleet { hosts: 1, days: 1, windows: 3, threads: 3000 };
        small.write(&template(), &sources);
        let damaged = Fleet { windows: 1, threads, ..small }.write(&template(), &sources).remove(0);
        // It is cut in the threads, after what identifies it.
        let whole = fs::read(&damaged).unwrap();
        fs::write(&damaged, &whole[..whole.len() * 3 / 4]).unwrap();
        fs::write(sources.join("other.json"), "[]").unwrap();
        fs::write(sources.join("empty.ctprof.zst"), "").unwrap();
        let out = run(&[&sources], &output);
        let messages = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{messages}");
        for expected in [
            &format!("{} is truncated", damaged.display()),
            "other.json is not a ctprof snapshot",
            "empty.ctprof.zst is not a ctprof snapshot (empty)",
            "Exported 2 captures, 6000 rows",
        ] {
            assert!(messages.contains(expected), "{expected}: {messages}");
        }
        assert_eq!(rows(&output.join("threads")).len(), 6000);
        assert_eq!(rows(&output.join("captures")).len(), 2);
    }
}

#[test]
fn another_layout_of_json_gives_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { hosts: 1, days: 1, windows: 1, threads: 9000 };
    let path = fleet.write(&template(), dir.path()).remove(0);
    let mut snapshot = CtprofSnapshot::load(&path).unwrap();
    // One line per thread until rows were encoded, and no lines after that.
    let mut json = String::new();
    let threads = std::mem::take(&mut snapshot.threads);
    let threads: Vec<String> = threads.iter().map(|thread| serde_json::to_string(thread).unwrap()).collect();
    let envelope = serde_json::to_string(&snapshot).unwrap();
    let (head, tail) = envelope.split_once("\"threads\":[]").unwrap();
    write!(json, "{head}\"threads\":[\n{},{}\n]{tail}", threads[..8500].join(",\n"), threads[8500..].join(","))
        .unwrap();
    let odd = dir.path().join("odd.json");
    fs::write(&odd, json).unwrap();
    let [lines, other] = ["lines.parquet", "other.parquet"].map(|name| dir.path().join(name));
    export(&[&path], &lines);
    export(&[&odd], &other);
    let without_id = |path: &Path| {
        let mut rows = rows(path);
        rows.iter_mut().for_each(|row| drop(row.remove("capture_id")));
        rows
    };
    assert_eq!(without_id(&other).len(), 9000);
    assert!(without_id(&lines) == without_id(&other));
}

#[test]
fn the_name_of_a_host_does_not_lead_out_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("out");
    let long = "x".repeat(300);
    let hosts =
        [Some("../x"), Some(".."), Some("/etc"), Some("a b=c"), Some("größe\n\0"), Some(&*long), Some(""), None];
    let snapshots = dir.path().join("snapshots");
    fs::create_dir(&snapshots).unwrap();
    for (number, host) in hosts.iter().enumerate() {
        write(&on_host(*host), snapshots.join(format!("{number}.ctprof.zst")));
    }
    export(&[&snapshots], &output);
    let mut found: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, ["out", "snapshots"]);
    assert_eq!(files(&output).len(), 4, "names of hosts are in no path");
    let mut exported: Vec<_> = rows(&output.join("captures")).into_iter().map(|row| row["host"].to_string()).collect();
    let shown = |host: Option<&str>| host.map_or("null".to_owned(), |host| format!("\"{host}\""));
    let mut expected = hosts.map(shown).to_vec();
    exported.sort();
    expected.sort();
    assert_eq!(exported, expected, "columns have the names as they are");
}

#[test]
fn symbolic_links_in_the_directory_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for planted in ["threads", "captures/date=2026-11-21", "cgroups/date=2026-11-21"] {
        let output = dir.path().join(planted.replace('/', "-"));
        let link = output.join(planted);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&elsewhere, &link).unwrap();
        let snapshot = write(&on_host(Some("h")), dir.path().join("s.ctprof.zst"));
        let out = run(&[&snapshot], &output);
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{message}");
        assert!(message.contains("symbolic links are not followed"), "{message}");
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_link_with_the_name_of_a_file_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let [output, precious] = ["out", "precious"].map(|name| dir.path().join(name));
    export(&[Path::new(TEMPLATE)], &output);
    let first = contents(&output);
    fs::write(&precious, "precious").unwrap();
    for file in first.keys().map(|file| output.join(file)) {
        fs::remove_file(&file).unwrap();
        if !file.starts_with(output.join("captures")) {
            symlink(&precious, &file).unwrap();
        }
    }
    export(&[Path::new(TEMPLATE)], &output);
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    assert!(contents(&output) == first);
}

#[test]
fn cgroups_have_the_names_of_their_containers() {
    let dir = tempfile::tempdir().unwrap();
    let mut snapshot = template();
    let path = snapshot.head.cgroup_stats.keys().next().unwrap().clone();
    let container = serde_json::json!({"runtime": "containerd", "name": "server", "pod": "db-3", "namespace": "shop"});
    snapshot.head.containers.insert(path.clone(), serde_json::from_value(container).unwrap());
    export(&[&write(&snapshot, dir.path().join("a.ctprof.zst"))], &dir.path().join("fleet"));
    let cgroups = rows(&dir.path().join("fleet/cgroups"));
    let text = |row: &BTreeMap<String, Field>, column: &str| match &row[column] {
        Field::Str(text) => Some(text.clone()),
        _ => None,
    };
    let named = cgroups.iter().find(|row| text(row, "cgroup").as_deref() == Some(&*path)).unwrap();
    let columns = ["runtime", "container", "pod", "namespace", "workload", "image"].map(|column| text(named, column));
    let expected = ["containerd", "server", "db-3", "shop", "shop/db-{N}"].map(|name| Some(name.to_owned()));
    assert_eq!((&columns[..5], &columns[5]), (&expected[..], &None));
    assert!(cgroups.iter().filter(|row| text(row, "container").is_some()).count() == 1);
}

#[test]
fn a_value_above_2_to_the_63_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut snapshot = template();
    snapshot.threads[5].metrics.run_time_ns = Some(MonotonicNs::from(1 << 63));
    let large = write(&snapshot, dir.path().join("large.ctprof.zst"));
    let output = dir.path().join("out.parquet");
    let out = run(&[&large, Path::new(TEMPLATE)], &output);
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1));
    let expected = "large.ctprof.zst: run_time_ns is 9223372036854775808, more than the largest BIGINT";
    assert!(message.contains(expected), "{message}");
    assert_eq!(rows(&output).len(), template().threads.len());
}

#[test]
fn exited_threads_and_exited_work_are_marked_in_windows() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { hosts: 1, days: 1, windows: 1, threads: 80 };
    let path = fleet.write(&template(), dir.path()).remove(0);
    let mut window = CtprofSnapshot::load(&path).unwrap();
    window.threads[0].span = Some(ThreadSpan { alive_ns: 7, zombie_ns: 0, count: 4, started: true, exited: true });
    window.threads[1].exited_work = Some(ExitedWork::Children);
    window.write(&path).unwrap();
    let output = dir.path().join("out");
    export(&[&path, Path::new(TEMPLATE)], &output);
    let rows = rows(&output.join("threads"));
    let in_window: Vec<_> = rows.iter().filter(|row| row["window_ns"] == Field::Long(10_000_000_000)).collect();
    let of_row = |at: usize| {
        let id = |row: &BTreeMap<String, Field>| [row["tgid"].clone(), row["tid"].clone()];
        let wanted = [window.threads[at].tgid, window.threads[at].tid].map(|id| Field::Long(id.into()));
        let row = in_window.iter().find(|row| id(row) == wanted).unwrap();
        let columns = ["exited_work", "thread_count", "alive_ns", "started", "exited"];
        columns.map(|column| row[column].clone())
    };
    assert_eq!(in_window.len(), 80);
    let (yes, no) = (Field::Bool(true), Field::Bool(false));
    assert_eq!(of_row(0), [Field::Null, Field::Long(4), Field::Long(7), yes.clone(), yes]);
    assert_eq!(of_row(1)[..2], [Field::Str("exited children".to_owned()), Field::Null]);
    assert_eq!(of_row(2), [Field::Null, Field::Long(1), Field::Long(10_000_000_000), no.clone(), no]);
    let total = rows.iter().find(|row| row["window_ns"] == Field::Null).unwrap();
    assert_eq!((&total["thread_count"], &total["exited"]), (&Field::Long(1), &Field::Null));
}

#[test]
fn a_series_has_the_rows_of_each_step_with_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("fleet");
    export(&[Path::new(&crate::stored::changes_over_time::series(dir.path(), 10))], &output);
    let captures = rows(&output.join("captures"));
    let ids: std::collections::BTreeSet<_> = captures.iter().map(|row| row["capture_id"].to_string()).collect();
    assert_eq!((captures.len(), ids.len()), (10, 10), "a join by the id of a capture is one by step");
    let threads = rows(&output.join("threads"));
    let of_early = threads.iter().filter(|row| row["pcomm"] == Field::Str("early".to_owned()));
    let steps: Vec<_> =
        of_early.map(|row| (row["step"].clone(), row["window_ns"].clone(), row["run_time_ns"].clone())).collect();
    let expected = |step| (Field::Long(step), Field::Long(1_000_000_000), Field::Long(500_000_000));
    assert_eq!(steps, (0..4).map(expected).collect::<Vec<_>>());
}

#[test]
fn a_part_of_a_series_has_the_rows_of_its_steps() {
    let dir = tempfile::tempdir().unwrap();
    let file = crate::stored::changes_over_time::series(dir.path(), 10);
    let [part, other, tiny, empty] = ["2s..6s", "6s..9s", "2.1s..2.2s", "6s..2s"].map(|part| format!("{file}@{part}"));
    let output = dir.path().join("fleet");
    export(&[Path::new(&part), Path::new(&other)], &output);
    let captures = rows(&output.join("captures"));
    let ids: std::collections::BTreeSet<_> = captures.iter().map(|row| row["capture_id"].to_string()).collect();
    assert_eq!((captures.len(), ids.len()), (7, 7), "{ids:?}");
    let threads = rows(&output.join("threads"));
    let run_of = |name: &str| {
        let of_name = threads.iter().filter(|row| row["pcomm"] == Field::Str(name.to_owned()));
        of_name.map(|row| row["run_time_ns"].clone()).collect::<Vec<_>>()
    };
    let expected = |steps, ns| vec![Field::Long(ns); steps];
    assert_eq!((run_of("early"), run_of("late")), (expected(2, 500_000_000), expected(5, 1_000_000_000)));
    let said = |input: &str| {
        let run = self::run(&[Path::new(input)], &dir.path().join("none"));
        String::from_utf8(run.stderr).unwrap()
    };
    assert!(said(&tiny).contains("2.1s..2.2s is less than a step; the whole step 2.0s..3.0s is shown"));
    assert!(said(&empty).contains("has no part 6s..2s: it does not end after it begins"));
    let snapshot = write(&template(), dir.path().join("snapshot.ctprof.zst"));
    assert!(said(&format!("{}@1s..2s", snapshot.display())).contains("is not a series"));
    for [input, output] in [[&*snapshot, Path::new("-")], [Path::new("-"), &dir.path().join("none")]] {
        let refused = self::run(&[input], output);
        assert_eq!(refused.status.code(), Some(2), "files are written by their names: {refused:?}");
    }
}

#[test]
fn a_step_is_exported_once_whatever_parts_of_its_series_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = crate::stored::changes_over_time::series(dir.path(), 10);
    let output = dir.path().join("fleet");
    for range in ["@2s..6s", "@4s..8s", "", "@0s..3s"] {
        export(&[Path::new(&format!("{file}{range}"))], &output);
    }
    let times = |output: &Path| {
        let captures = rows(&output.join("captures"));
        let mut times: Vec<_> = captures.iter().map(|row| row["captured_at_unix_ns"].to_string()).collect();
        times.sort();
        times
    };
    let together = dir.path().join("together");
    let [part, whole] = ["@2s..6s", ""].map(|range| format!("{file}{range}"));
    export(&[Path::new(&part), Path::new(&whole)], &together);
    assert_eq!(times(&output).len(), 10);
    assert_eq!(times(&output), times(&together), "also if one call has both");
    let run: i64 = rows(&output.join("threads"))
        .iter()
        .filter(|row| row["pcomm"] == Field::Str("early".to_owned()))
        .count()
        .try_into()
        .unwrap();
    assert_eq!(run, 4, "each step of a thread once");
}

/// Prints the sums that queries have, as JSON.
const SHOW_SUMS: [&str; 12] =
    ["show", "-f", "json", "--per", "run", "-u", "-g", "process", "--names", "exact", "-m", "run_time_ns,wait_time_ns"];

/// The rows of a dataset without the ids of its captures.
fn rows_without_ids(path: &Path) -> Vec<BTreeMap<String, Field>> {
    let mut rows = rows(path);
    rows.iter_mut().for_each(|row| drop(row.remove("capture_id")));
    rows
}

#[test]
fn a_part_of_a_directory_has_the_rows_of_that_part_of_the_series() {
    let dir = tempfile::tempdir().unwrap();
    let [file, directory, of_file, of_directory] =
        ["file", "directory", "of file", "of directory"].map(|name| dir.path().join(name));
    fs::create_dir(&file).unwrap();
    fs::create_dir(&directory).unwrap();
    for seconds in [0..5, 5..10, 20..25] {
        crate::stored::changes_over_time::segment(&directory, seconds);
    }
    let part = |part: &str| PathBuf::from(format!("{}@{part}", directory.display()));
    export(&[Path::new(&format!("{}@2s..8s", crate::stored::changes_over_time::series(&file, 10)))], &of_file);
    export(&[&part("2s..8s")], &of_directory);
    for dataset in ["threads", "cgroups", "captures", "reasons"] {
        let [expected, found] = [&of_file, &of_directory].map(|path| rows_without_ids(&path.join(dataset)));
        assert_eq!(found, expected, "{dataset}");
    }
    assert_eq!(rows(&of_directory.join("captures")).len(), 6);
    let again = dir.path().join("again");
    export(&[&part("9s..22s")], &again);
    let lengths: Vec<_> = rows(&again.join("captures")).iter().map(|row| row["window_ns"].to_string()).collect();
    let second = "1000000000";
    assert_eq!(lengths, [second, "10000000000", second, second], "in between, nothing was recorded");
    let said = |part: &Path| String::from_utf8(run(&[part], &dir.path().join("none")).stderr).unwrap();
    assert!(said(&part("6.1s..6.2s")).contains("6.1s..6.2s is less than a step; the whole step 6.0s..7.0s is shown"));
    assert!(said(&part("6s..2s")).contains("has no part 6s..2s: it does not end after it begins"));
    assert!(said(Path::new(&format!("{}@1s..2s", file.parent().unwrap().display()))).contains("is not a series"));
}

#[test]
fn a_part_of_a_directory_is_the_same_capture_while_its_recorder_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let [directory, output] = ["directory", "fleet"].map(|name| dir.path().join(name));
    fs::create_dir(&directory).unwrap();
    let [first, _] = [0..5, 5..15].map(|seconds| crate::stored::changes_over_time::segment(&directory, seconds));
    let part = |part: &str| PathBuf::from(format!("{}@{part}", directory.display()));
    let by_clock = part("22:13:26..22:13:28");
    export(&[&by_clock, &part("6s..8s")], &output);
    let before = contents(&output);
    fs::remove_file(first).unwrap();
    crate::stored::changes_over_time::segment(&directory, 15..20);
    export(&[&by_clock], &dir.path().join("later"));
    let captures = |output: &Path| -> std::collections::BTreeSet<String> {
        rows(&output.join("captures")).iter().map(|row| row["capture_id"].to_string()).collect()
    };
    let exported = captures(&output);
    assert!(captures(&dir.path().join("later")).is_subset(&exported));
    export(&[&by_clock], &output);
    assert_eq!(contents(&output), before);
    export(&[&part("6s..8s")], &output);
    assert_eq!(captures(&output).len(), exported.len() + 2, "six seconds after another start");
}

#[test]
fn an_export_says_what_of_a_series_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let segments = [0..5, 5..10, 10..15].map(|seconds| crate::stored::changes_over_time::segment(dir.path(), seconds));
    fs::write(&segments[1], "").unwrap();
    let bytes = fs::read(&segments[2]).unwrap();
    fs::write(&segments[2], &bytes[..bytes.len() - 10]).unwrap();
    let left_out = format!("{} is left out: it has no whole capture", segments[1].display());
    let whole = format!("{}@..", dir.path().display());
    for (number, (input, lost)) in [(Path::new(&whole), &*left_out), (&segments[2], "")].into_iter().enumerate() {
        let output = dir.path().join(format!("fleet {number}"));
        let said = String::from_utf8(run(&[input], &output).stderr).unwrap();
        assert!(
            said.contains(lost) && said.contains("it is still being written, or its recorder was killed"),
            "{said}"
        );
    }
}

#[test]
fn a_segment_whose_recorder_ended_before_its_first_step_is_no_failure_of_an_export() {
    let dir = tempfile::tempdir().unwrap();
    for (number, cut) in [0, 5].into_iter().enumerate() {
        let [directory, output] = ["directory", "fleet"].map(|name| dir.path().join(format!("{name} {number}")));
        fs::create_dir(&directory).unwrap();
        let begun = [0..5, 5..5, 20..25].map(|seconds| crate::stored::changes_over_time::segment(&directory, seconds));
        let bytes = fs::read(&begun[1]).unwrap();
        fs::write(&begun[1], &bytes[..bytes.len() - cut]).unwrap();
        let exported = run(&[&directory], &output);
        let said = String::from_utf8(exported.stderr).unwrap();
        assert!(exported.status.success() && said.contains("has no step"), "{said}");
        assert_eq!(said.contains("was killed"), cut > 0, "{said}");
        assert_eq!(rows(&output.join("captures")).len(), 10);
        let alone = dir.path().join("alone.ctprof.zst");
        fs::copy(&begun[1], &alone).unwrap();
        let output = dir.path().join(format!("alone {number}"));
        assert_eq!(run(&[&alone], &output).status.success(), cut == 0, "nothing else has what is missing");
    }
}

/// The peak memory of an export, in KiB; `None` if it cannot be measured.
fn peak_kib(input: &str, output: &Path) -> Option<i64> {
    let measure = crate::stored::bounds_files::measure(output.parent().unwrap())?;
    let command = [CTPROF, "export", "-q", input, "-o", output.to_str().unwrap()];
    let said = Command::new(measure).arg("60").args(command).output().unwrap().stdout;
    let numbers: Vec<i64> = str::from_utf8(&said).unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert_eq!(numbers[0], 0);
    Some(numbers[1])
}

#[test]
fn a_long_series_takes_the_memory_of_a_short_one() {
    let dir = tempfile::tempdir().unwrap();
    let peak_kib = |steps: u64| {
        let output = dir.path().join(format!("of {steps}"));
        let peak = peak_kib(&crate::stored::changes_over_time::series(dir.path(), steps), &output)?;
        assert_eq!(rows(&output.join("captures")).len(), usize::try_from(steps).unwrap());
        Some(peak)
    };
    let [Some(short), Some(long)] = [20, 6000].map(peak_kib) else { return };
    assert!(long - short < 64 << 10, "{short} and {long} KiB");
}

#[test]
fn threads_take_memory_only_in_their_encoded_form() {
    let dir = tempfile::tempdir().unwrap();
    let peak_kib = |threads| {
        let fleet = Fleet { hosts: 1, days: 1, windows: 1, threads };
        let path = fleet.write(&template(), dir.path()).remove(0);
        peak_kib(path.to_str().unwrap(), &dir.path().join(format!("of {threads}")))
    };
    let [Some(few), Some(many)] = [10_000, 80_000].map(peak_kib) else { return };
    assert!(many - few < 80_000, "{few} and {many} KiB");
}

#[test]
fn captures_say_what_is_doubtful() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = Fleet { hosts: fleet::UNPRIVILEGED_HOST + 1, days: 1, windows: 1, threads: 80 };
    let path = fleet.write(&template(), dir.path()).remove(fleet::UNPRIVILEGED_HOST);
    let output = dir.path().join("out");
    export(&[&path], &output);
    let row = rows(&output.join("captures")).remove(0);
    assert!(row["gaps"].to_string().contains("io: permission-denied"), "{}", row["gaps"]);
    assert_eq!(row["read_failures"], Field::Long(80));
    assert_eq!(row["engine"], Field::Str("procfs".to_owned()));
    assert_eq!(row["euid"], Field::Long(1000));
    assert_eq!(row["threads"], Field::Long(80));
}

#[test]
fn a_count_that_a_file_lacks_is_null() {
    let dir = tempfile::tempdir().unwrap();
    let counts = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.ctprof.zst"));
        let output = dir.path().join(name);
        export(&[&file], &output);
        let row = rows(&output.join("captures")).remove(0);
        ["ghosts", "worker_panics"].map(|count| row[count].clone())
    };
    assert_eq!(counts("v2-linux-6.18"), [Field::Long(0), Field::Long(0)]);
    assert_eq!(counts("v1-linux-7.3"), [Field::Long(0), Field::Null]);
    assert_eq!(counts("ktstr-a"), [Field::Null, Field::Null]);
}

#[test]
fn an_unknown_time_is_null() {
    let dir = tempfile::tempdir().unwrap();
    let mut snapshot = on_host(Some("h"));
    snapshot.head.captured_at_unix_ns = 0;
    let output = dir.path().join("out");
    export(&[&write(&snapshot, dir.path().join("a.ctprof.zst"))], &output);
    let row = rows(&output.join("captures/date=__HIVE_DEFAULT_PARTITION__")).remove(0);
    assert_eq!((&row["time"], &row["captured_at_unix_ns"]), (&Field::Null, &Field::Null));
    assert!(rows(&output.join("threads")).iter().all(|row| row["time"] == Field::Null));
}

#[test]
fn a_file_of_threads_says_that_cgroups_and_captures_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let out = run(&[Path::new(TEMPLATE)], &dir.path().join("threads.parquet"));
    let message = String::from_utf8(out.stderr).unwrap();
    assert!(
        message.contains("threads only; a directory (-o DIR/) gets cgroups, captures and reasons, too"),
        "{message}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn the_columns_in_the_documentation_are_those_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fleet.md");
    let page = fs::read_to_string(&path).unwrap();
    let generated = with_columns(&page);
    if std::env::var_os("UPDATE_FLEET").is_some() {
        fs::write(&path, &generated).unwrap();
    } else {
        assert_eq!(page, generated, "run: UPDATE_FLEET=1 cargo test --test suite export");
    }
}

/// Whether docs/metrics.md describes a column.
fn is_of_metrics(name: &str) -> bool {
    static METRICS_PAGE: LazyLock<String> = LazyLock::new(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
        fs::read_to_string(path).unwrap().replace('.', "_")
    });
    let is_record = ["pressure_", "io_", "sched_ext_"].iter().any(|prefix| name.starts_with(prefix));
    is_record || METRICS_PAGE.contains(&format!("\n| `{}` |", name.trim_start_matches("process_")))
}

fn sql_name(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Integer => "BIGINT",
        ColumnType::Real => "DOUBLE",
        ColumnType::Flag => "BOOLEAN",
        ColumnType::Text => "VARCHAR",
        ColumnType::Time => "TIMESTAMP",
        ColumnType::Counts => "MAP(VARCHAR, BIGINT)",
        ColumnType::Texts => "VARCHAR[]",
    }
}

/// The page with the table under each heading replaced by the program's.
fn with_columns(page: &str) -> String {
    let datasets = datasets().map(|(_, columns)| columns);
    let mut columns = datasets[0].iter().zip(&datasets[1]);
    let shared = columns.position(|(a, b)| a.name != b.name || a.name == "cgroup").unwrap();
    let tables = [
        ("## Columns of all datasets", &datasets[0][..shared]),
        ("## Columns of threads", &datasets[0][shared..]),
        ("## Columns of cgroups", &datasets[1][shared..]),
        ("## Columns of reasons", &datasets[2][shared..]),
        ("## Columns of captures", &datasets[3][shared..]),
    ];
    let mut page = page.to_owned();
    for (heading, columns) in tables {
        let section = page.find(&format!("{heading}\n")).unwrap();
        let start = section + page[section..].find("\n|").unwrap() + 1;
        let end = page[start..].find("\n\n").map_or(page.len(), |length| start + length + 1);
        let mut table = String::from("| column | type | unit | meaning |\n|---|---|---|---|\n");
        for column in columns.iter().filter(|column| !is_of_metrics(&column.name)) {
            let (name, kind) = (&column.name, sql_name(column.column_type));
            writeln!(table, "| `{name}` | {kind} | {} | {} |", column.unit, column.meaning).unwrap();
        }
        page.replace_range(start..end, &table);
    }
    page
}

/// The fleet of the questions: its datasets, what `ctprof show` says about each window, and a series.
struct Asked {
    directory: TempDir,
}

static ASKED: LazyLock<Asked> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let [snapshots, reports] = ["snapshots", "reports"].map(|name| directory.path().join(name));
    [&snapshots, &reports].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let paths = Fleet { hosts: 12, days: 2, windows: 3, threads: 100 }.write(&template(), &snapshots);
    // The views leave the totals of a snapshot out.
    export(&[&snapshots, Path::new(TEMPLATE)], &directory.path().join("fleet"));
    let series = crate::stored::changes_over_time::series(directory.path(), 10);
    export(&[Path::new(&series)], &directory.path().join("series"));
    let metrics = "run_time_ns,wait_time_ns,allocated_bytes,deallocated_bytes,nonvoluntary_csw";
    paths.par_iter().for_each(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".ctprof.zst");
        let threads = ["-u", "-g", "all", "--names", "exact", "-m", metrics];
        let cgroups = ["-g", "cgroup", "--names", "exact", "--sections", "cgroup-stats,cgroup-limits"];
        for (args, kind) in [(&threads[..], "threads"), (&cgroups[..], "cgroups")] {
            let out = Command::new(CTPROF)
                .args(["show", "-f", "json", "--per", "run"])
                .args(args)
                .arg(path)
                .output()
                .unwrap();
            assert!(out.status.success());
            fs::write(reports.join(format!("{name}.{kind}.json")), out.stdout).unwrap();
        }
    });
    Asked { directory }
});

/// A Python with a package: the path in the variable, or the system's.
fn python_with(package: &str) -> Option<PathBuf> {
    let candidates = [std::env::var_os("CTPROF_TEST_PYTHON").map(PathBuf::from), Some("python3".into())];
    let has = |python: &PathBuf| {
        let import = Command::new(python).args(["-c", &format!("import {package}")]).output();
        import.is_ok_and(|out| out.status.success())
    };
    candidates.into_iter().flatten().find(has)
}

fn answered_by(engine: &str, python: &Path) {
    let out = Command::new(python)
        .args(["tests/export/questions.py", engine, "docs/fleet.md"])
        .args(["fleet", "reports", "series"].map(|name| ASKED.directory.path().join(name)))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{printed}{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(printed.matches(&format!("{engine}: ")).count(), 14, "{printed}");
}

#[test]
fn duckdb_answers_the_questions_as_show_does() {
    match python_with("duckdb") {
        Some(python) => answered_by("duckdb", &python),
        None => skipped(Missing::Tool("Python with the package duckdb (CTPROF_TEST_PYTHON)")),
    }
}

#[test]
fn spark_answers_the_questions_as_show_does() {
    let java = Command::new("java").arg("-version").output();
    if !java.is_ok_and(|out| out.status.success()) {
        return skipped(Missing::Tool("Java"));
    }
    match python_with("pyspark") {
        Some(python) => answered_by("spark", &python),
        None => skipped(Missing::Tool("Python with the package pyspark (CTPROF_TEST_PYTHON)")),
    }
}

/// Names that programs take for something else.
const ODD_NAMES: [&str; 6] = ["007", "1e5", "NULL", "a=b", "../x", "2026-11-21"];

/// Windows of hosts with odd names, with processes of odd names, exited work, and a process of which nothing was measured, and a
/// series; and what `ctprof show` says about each.
static ODD: LazyLock<Asked> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    ["snapshots", "reports"].iter().for_each(|name| fs::create_dir(path(name)).unwrap());
    let windows = Fleet { hosts: 1, days: 1, windows: 2, threads: 100 }.write(&template(), &path("snapshots"));
    let window = CtprofSnapshot::load(&windows[1]).unwrap();
    for (number, host) in ODD_NAMES.into_iter().enumerate() {
        let mut window = window.clone();
        window.head.host.as_mut().unwrap().hostname = Some(host.to_owned());
        for (thread, name) in window.threads.iter_mut().zip(ODD_NAMES) {
            (thread.pcomm, thread.metrics.run_time_ns) = (name.into(), Some((7 + number as u64).into()));
        }
        window.threads[6].exited_work = Some(ExitedWork::Children);
        let unmeasured = &mut window.threads[7];
        (unmeasured.pcomm, unmeasured.metrics) = ("unmeasured".into(), Box::default());
        write(&window, path("snapshots").join(format!("odd-{number}.ctprof.zst")));
    }
    let series = PathBuf::from(crate::stored::changes_over_time::series(directory.path(), 10));
    export(&[&path("snapshots"), &series], &path("fleet"));
    let captures: Vec<_> = files(&path("snapshots")).into_keys().chain([series]).collect();
    captures.par_iter().enumerate().for_each(|(number, capture)| {
        let out = Command::new(CTPROF).args(SHOW_SUMS).arg(capture).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        fs::write(path("reports").join(format!("{number}.json")), out.stdout).unwrap();
    });
    Asked { directory }
});

/// Runs a script of tests/export that prints something about the engine and fails if it is wrong.
fn script(name: &str, engine: &str, paths: &[PathBuf]) {
    let Some(python) = python_with(if engine == "spark" { "pyspark" } else { engine }) else {
        return skipped(Missing::Tool(match engine {
            "duckdb" => "Python with the package duckdb (CTPROF_TEST_PYTHON)",
            "spark" => "Python with the package pyspark (CTPROF_TEST_PYTHON)",
            "polars" => "Python with the package polars (CTPROF_TEST_PYTHON)",
            "pyiceberg" => "Python with the package pyiceberg (CTPROF_TEST_PYTHON)",
            _ => "Python with the package pyarrow (CTPROF_TEST_PYTHON)",
        }));
    };
    if engine == "spark" && !Command::new("java").arg("-version").output().is_ok_and(|out| out.status.success()) {
        return skipped(Missing::Tool("Java"));
    }
    let out = Command::new(python).arg(format!("tests/export/{name}.py")).arg(engine).args(paths).output().unwrap();
    let printed = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{printed}{}", String::from_utf8_lossy(&out.stderr));
    assert!(printed.contains(&format!("{engine}: ")), "{printed}");
}

fn sums_equal_those_of_show(engine: &str) {
    script("truth", engine, &["fleet", "reports"].map(|name| ODD.directory.path().join(name)));
}

#[test]
fn sums_of_duckdb_equal_those_of_show_whatever_the_names_are() {
    sums_equal_those_of_show("duckdb");
}

#[test]
fn the_layout_of_0_3_and_the_new_one_answer_one_query() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("reports")).unwrap();
    // Exported by 0.3.0 into this directory; both have rows of the same columns.
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fleet-0.3");
    let window = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v2-window-linux-6.18.ctprof.zst");
    let report = Command::new(CTPROF).args(SHOW_SUMS).arg(window).output().unwrap();
    fs::write(path("reports/old.json"), report.stdout).unwrap();
    for report in fs::read_dir(ODD.directory.path().join("reports")).unwrap().map(Result::unwrap) {
        fs::copy(report.path(), path("reports").join(report.file_name())).unwrap();
    }
    script("truth", "duckdb", &[ODD.directory.path().join("fleet"), path("reports"), old]);
}

#[test]
fn sums_of_spark_equal_those_of_show_whatever_the_names_are() {
    sums_equal_those_of_show("spark");
}

#[test]
fn sums_of_polars_equal_those_of_show_whatever_the_names_are() {
    sums_equal_those_of_show("polars");
}

#[test]
fn sums_of_pyarrow_equal_those_of_show_whatever_the_names_are() {
    sums_equal_those_of_show("pyarrow");
}

/// Files of two days, three of each dataset; one call more adds nothing after an engine has compacted them.
fn is_compacted_by(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let [snapshots, fleet] = ["snapshots", "fleet"].map(|name| dir.path().join(name));
    fs::create_dir(&snapshots).unwrap();
    let paths = Fleet { hosts: 2, days: 2, windows: 3, threads: 100 }.write(&template(), &snapshots);
    paths.chunks(4).for_each(|paths| export(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &fleet));
    script("compaction", engine, std::slice::from_ref(&fleet));
    let said = run(&[&snapshots], &fleet);
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("12 captures were there before"), "{said}");
}

#[test]
fn duckdb_compacts_and_rolls_up_a_fleet_without_a_change_of_its_sums() {
    is_compacted_by("duckdb");
}

#[test]
fn spark_compacts_and_rolls_up_a_fleet_without_a_change_of_its_sums() {
    is_compacted_by("spark");
}

#[test]
fn a_table_of_iceberg_takes_the_files_of_a_fleet() {
    is_compacted_by("pyiceberg");
}
