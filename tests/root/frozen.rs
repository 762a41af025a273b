//! Cgroups that the freezer holds.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::host::{CgroupDirectory, Killed};
use crate::root::engine_captures::has_bpf;
use crate::root::histories::cgroup_roots;
use crate::support::{Missing, copy_program, skipped};

/// A file that freezes a cgroup, and the texts that freeze and thaw it; engines that see that its threads are frozen.
type Freezer = (&'static str, [&'static str; 2], &'static [&'static str]);

/// Those of version 2 and 1. Of the latter, procfs says only that a thread is blocked where it had slept.
const FREEZERS: [Freezer; 2] =
    [("cgroup.freeze", ["1", "0"], &["auto", "procfs"]), ("freezer.state", ["FROZEN", "THAWED"], &["auto"])];

/// Thaws a cgroup, also if the test fails: no signal ends what is frozen.
struct Thawed(PathBuf, &'static str);

impl Drop for Thawed {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, self.1);
    }
}

/// The percentage of a window in which the sleeping program was frozen: the window in which this script ran.
fn frozen_during(script: &str, engine: &str) -> f64 {
    let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    record.args(["record", "-q", "-f", "json", "--scope", "host", "--only", "frozen-states", "--engine", engine]);
    let recorded = record.args(["--", "sh", "-c", script]).output().unwrap();
    // Standard output is that of the command.
    let report: Value = serde_json::from_slice(&recorded.stderr).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["group"] == "frozen-states" && row["metric"] == "frozen");
    row.and_then(|row| row["value"].as_f64()).unwrap_or(0.0)
}

#[test]
fn a_sleeper_in_a_frozen_cgroup_is_frozen_as_long_as_the_cgroup_is_and_does_not_sleep() {
    if !has_bpf() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("frozen-states");
    copy_program("/bin/sleep", &program);
    let name = format!("ctprof-frozen-{}", std::process::id());
    let mut tried = 0;
    for root in cgroup_roots() {
        let Some(cgroup) = CgroupDirectory::create(&root, &name) else { continue };
        let Some((file, [freeze, thaw], engines)) =
            FREEZERS.into_iter().find(|(file, ..)| cgroup.0.join(file).exists())
        else {
            continue;
        };
        tried += 1;
        let child = Killed(Command::new(&program).arg("100").spawn().unwrap());
        thread::sleep(Duration::from_millis(200));
        fs::write(cgroup.0.join("cgroup.procs"), child.0.id().to_string()).unwrap();
        let thawed = Thawed(cgroup.0.join(file), thaw);
        let set = |state: &str| format!("sleep 1; echo {state} > {}; sleep 1", thawed.0.display());
        let frozen = engines
            .iter()
            .map(|engine| [set(freeze), "sleep 1".to_owned(), set(thaw)].map(|script| frozen_during(&script, engine)));
        let frozen: Vec<_> = frozen.collect();
        drop((thawed, child));
        // A busy host samples late: without BPF, the state is known since the first sample.
        let is_as_told = |[partly, always, partly_again]: &[f64; 3]| {
            *always > 60.0 && [partly, partly_again].iter().all(|percent| (5.0..95.0).contains(*percent))
        };
        assert!(frozen.iter().all(is_as_told), "{file}: {frozen:?}");
    }
    if tried == 0 {
        skipped(Missing::Privilege("to create cgroups with a freezer"));
    }
}
