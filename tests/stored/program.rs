//! Runs ctprof.

use std::process::{Command, Output};

pub(crate) fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ctprof")).args(args).env_remove("RUST_LOG").output().unwrap()
}

/// The standard output of a command that succeeds.
pub(crate) fn printed(args: &[&str]) -> String {
    let out = run(args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}
