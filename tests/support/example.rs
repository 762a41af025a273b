//! Programs and scripts of `examples/` that tests run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// A program of `examples/`. Cargo builds it in each `cargo test` of everything, but not for a single test program.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("the path of this program");
    let program = tests.ancestors().nth(2).expect("a directory of programs").join("examples").join(name);
    let built = modified(&program).unwrap_or_else(|| panic!("no {}: cargo build --examples", program.display()));
    // Cargo writes `PROGRAM: SOURCE SOURCE...` beside it.
    let sources = fs::read_to_string(program.with_extension("d")).expect("the sources of an example");
    let changes = sources.split_ascii_whitespace().skip(1).filter_map(|source| modified(Path::new(source)));
    let is_stale = |change| built < change && Some(change) < modified(&tests);
    assert!(!changes.into_iter().any(is_stale), "{} is out of date: cargo build --examples", program.display());
    program
}

/// A script of `examples/` with this build's ctprof. It reports to a terminal of 100 columns.
#[allow(dead_code, reason = "not all tests run scripts")]
pub(crate) fn script(name: &str) -> Command {
    let mut script = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name));
    script.env("CTPROF", env!("CARGO_BIN_EXE_ctprof")).env("COLUMNS", "100").stdin(Stdio::null());
    script
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}
