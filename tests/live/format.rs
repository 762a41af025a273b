//! docs/format.md is enough to read what this host's threads did.

use std::path::Path;
use std::process::Command;

use crate::alone;
use crate::format_reader;
use crate::support::{Missing, skipped};

#[test]
fn a_reader_of_the_documented_format_has_the_same_sums_as_reports() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mixes = directory.path().join("mixes");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mixes.c");
    match Command::new("cc").args(["-O1", "-pthread", "-o"]).args([&mixes, &source]).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return skipped(Missing::Tool(format!("cc: {error}"))),
    }
    let script =
        "for mix in forks execs-by-others threads-outlive-first short-threads zombies scripts; do ./mixes $mix; done";
    for (name, options) in [("window", &[][..]), ("series", &["--every", "100ms"])] {
        let file = directory.path().join(name).to_str().unwrap().to_owned();
        let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        record.args(["record", "-q", "-o", &file]).args(options).args(["--", "sh", "-c", script]);
        assert!(record.current_dir(directory.path()).output().unwrap().status.success());
        // Of threads that others started before, one may be gone before it is read.
        let is_own = |name: &str| name == "mixes";
        if !file.ends_with("series") {
            format_reader::check(&file, None, is_own);
        } else if has_exit_records(&file) {
            [None, Some([0.5, 1.5]), Some([1.0, 2.0]), Some([0.3, 0.6])]
                .into_iter()
                .for_each(|part| format_reader::check(&file, part, is_own));
        } else {
            skipped(Missing::Privilege("to record exits: what exits in a series is computed without"));
        }
    }
}

fn has_exit_records(series: &str) -> bool {
    let unpacked = Command::new("zstd").args(["-dcq", series]).output();
    unpacked.is_ok_and(|unpacked| String::from_utf8_lossy(&unpacked.stdout).contains("\"exit_records\":"))
}
