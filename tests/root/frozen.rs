//! Cgroups that the freezer holds.

use std::fs;
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

#[test]
fn threads_of_a_frozen_cgroup_are_frozen_and_do_not_sleep() {
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
        fs::write(cgroup.0.join(file), freeze).unwrap();
        thread::sleep(Duration::from_millis(200));
        let frozen = engines.iter().map(|engine| {
            let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
            record.args(["record", "-q", "-d", "1s", "-f", "json", "--only", "frozen-states", "--engine", engine]);
            let report: Value = serde_json::from_slice(&record.output().unwrap().stdout).unwrap();
            let rows = report["rows"].as_array().unwrap();
            let row = rows.iter().find(|row| row["group"] == "frozen-states" && row["metric"] == "frozen");
            row.and_then(|row| row["value"].as_f64())
        });
        let frozen: Vec<_> = frozen.collect();
        fs::write(cgroup.0.join(file), thaw).unwrap();
        drop(child);
        // Without BPF, it is known since the first sample.
        assert!(frozen.iter().all(|frozen| frozen.is_some_and(|percent| percent > 60.0)), "{file}: {frozen:?}");
    }
    if tried == 0 {
        skipped(Missing::Privilege("to create cgroups with a freezer"));
    }
}
