//! Scripts of `examples/` that need no privileges: each shows what its page promises.

use std::process::Output;

use crate::example::{example, script};
use crate::support::{Missing, skipped};

/// What a script printed: its results, and all else.
fn printed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_script_of_a_regression_shows_the_failed_gate_and_its_status() {
    // Beside other programs, runs can vary so much that the gate is unclear.
    let mut plays = (0..4).map(|_| script("regression.sh").output().unwrap());
    let is_judged = |done: &Output| !String::from_utf8_lossy(&done.stderr).contains("gate unclear");
    let done = plays.find(is_judged).expect("runs that vary little");
    let (results, said) = printed(&done);
    assert!(done.status.success() && results.ends_with("\nexit status 3\n"), "{results}{said}");
    assert!(said.contains("gate failed: all groups run: ") && said.contains(", bound >10%"), "{said}");
}

#[test]
fn the_script_of_a_fleet_finds_the_host_that_waits_longer_or_says_how_to_install_duckdb() {
    let python = std::env::var_os("CTPROF_TEST_PYTHON").unwrap_or("python3".into());
    let done = script("fleet-query.sh").env("FLEET", example("fleet")).env("PYTHON", python).output().unwrap();
    let (results, said) = printed(&done);
    if !done.status.success() && said.contains(" Fix: python3 -m venv ") {
        return skipped(Missing::Tool("DuckDB, or Python with the package duckdb (CTPROF_TEST_PYTHON)"));
    }
    let rows: Vec<_> = results.lines().filter(|line| line.contains("host-")).collect();
    assert!(done.status.success() && rows.len() == 1 && rows[0].contains(" host-03 "), "{results}{said}");
}
