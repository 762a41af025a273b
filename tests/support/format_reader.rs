//! A reader that knows only docs/format.md, beside ctprof.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ctprof::CtprofSnapshot;
use ctprof::store::Stored;
use serde_json::{Value, json};

use crate::support::{Missing, skipped};

/// By the name of a process: sums by metric, and numbers of threads.
type Sums = BTreeMap<String, BTreeMap<String, Value>>;

/// Whether both read the same of the processes with a name that is `compared`, in a window or a part of a series, in seconds.
/// Without a tool, says so.
pub(crate) fn check(file: &str, part: Option<[f64; 2]>, compared: fn(&str) -> bool) {
    for tool in ["python3", "zstd"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return skipped(Missing::Tool(tool));
        }
    }
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_reader.py");
    let times = part.iter().flatten().map(ToString::to_string);
    let read = Command::new("python3").arg(reader).arg(file).args(times).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let mut read: Sums = serde_json::from_slice(&read.stdout).unwrap();
    read.retain(|name, _| compared(name));
    let (mut shown, mut known_waits) = (shown(file, part), known_waits(file, part));
    shown.retain(|name, _| compared(name));
    known_waits.retain(|name, _| compared(name));
    let waits: BTreeMap<_, _> =
        read.iter_mut().filter_map(|(name, sums)| Some((name.clone(), sums.remove("waits")?))).collect();
    // Names of which there are only reasons.
    read.retain(|_, sums| sums["threads"] != 0 || sums["exited"] != 0);
    assert_eq!(read, shown, "{file} {part:?}");
    assert_eq!(waits_of(&waits), waits_of(&known_waits), "{file} {part:?}");
}

/// What `show` prints.
fn shown(file: &str, part: Option<[f64; 2]>) -> Sums {
    let path = part.map_or_else(|| file.to_owned(), |[from, to]| format!("{file}@{from}s..{to}s"));
    let mut show = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    show.args([
        "show",
        &path,
        "--format",
        "json",
        "--per",
        "run",
        "--unchanged",
        "--limit",
        "0",
        "--group-by",
        "pcomm",
    ]);
    show.args(["--names", "exact", "--scope", "host"]);
    let metrics = ["run_time_ns", "voluntary_csw", "nonvoluntary_csw"];
    let output = show.args(["--metrics", &format!("run,{}", metrics.join(","))]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut sums = Sums::new();
    for row in report["rows"].as_array().unwrap().iter().filter(|row| row["path"] != json!([])) {
        let of_name = sums.entry(row["group"].as_str().unwrap().to_owned()).or_default();
        if row["metric"] == "run" {
            of_name.insert("threads".to_owned(), row["members"].clone());
            of_name.insert("exited".to_owned(), row["turnover"]["exited"].clone());
        } else {
            let value = row["value"].as_u64().unwrap_or(0);
            of_name.insert(row["metric"].as_str().unwrap().to_owned(), value.into());
        }
    }
    sums
}

/// Times of reasons by names and classes: reports divide what is counted as they are, and do not show them.
fn known_waits(file: &str, part: Option<[f64; 2]>) -> BTreeMap<String, Value> {
    let stored = Stored::open(Path::new(file), 1 << 30, &Arc::default()).unwrap();
    let [from, to] = part.unwrap_or([0.0, f64::from(u32::MAX)]);
    let series = stored.series().unwrap();
    let window = match series {
        Some(mut series) => series.part(&format!("{from}s..{to}s").parse().unwrap()).unwrap(),
        None => CtprofSnapshot::load(Path::new(file)).unwrap(),
    };
    let mut waits = BTreeMap::<String, Value>::new();
    let Some(reasons) = window.head.reasons else { return waits };
    for time in &reasons.times {
        let [threads, reason] = [time.threads, time.reason].map(|place| usize::try_from(place).unwrap());
        let of_name = waits.entry(reasons.threads[threads].pcomm.to_string()).or_insert_with(|| json!({}));
        let class = serde_json::to_value(reasons.reasons[reason].class).unwrap();
        let sum = &mut of_name[class.as_str().unwrap()];
        *sum = (sum.as_u64().unwrap_or(0) + time.ns).into();
    }
    waits
}

/// Without names that have none. What is idle in some steps only is a sleep in a report.
fn waits_of(waits: &BTreeMap<String, Value>) -> BTreeMap<&String, BTreeMap<&str, u64>> {
    fn sums(waits: &Value) -> BTreeMap<&str, u64> {
        let mut sums = BTreeMap::new();
        for (class, ns) in waits.as_object().unwrap() {
            let class = if class == "idle" { "sleep" } else { class.as_str() };
            *sums.entry(class).or_default() += ns.as_u64().unwrap();
        }
        sums
    }
    waits.iter().map(|(name, waits)| (name, sums(waits))).filter(|(_, sums)| !sums.is_empty()).collect()
}
