//! What several tests need.

pub(crate) mod skip;

use std::ffi::OsStr;
use std::process::Command;

pub(crate) use self::skip::{Missing, skipped};

/// Copies a program that is executed afterwards. Another process writes it: a program that a concurrent test starts
/// would inherit the descriptor from this one, and a file that is open for writing cannot be executed (ETXTBSY).
pub(crate) fn copy_program(from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
    let copied = Command::new("cp").arg(from).arg(to).status();
    assert!(copied.as_ref().is_ok_and(std::process::ExitStatus::success), "{copied:?}");
}
