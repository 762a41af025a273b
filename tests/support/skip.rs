//! A test that cannot run here says so where everyone sees it, and fails where nothing may be missing.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::panic::Location;
use std::path::PathBuf;
use std::thread;

/// What a test needs that is not here.
#[allow(dead_code, reason = "no test program has skips of every kind")]
pub(crate) enum Missing<T> {
    /// A program or package that can be installed.
    Tool(T),
    /// What root may do: change the user, load BPF programs, attach to processes, create namespaces.
    Privilege(T),
    /// What the running kernel or a file system does not have.
    Kernel(T),
}

impl<T: Display> Missing<T> {
    /// What is missing, and whether `CTPROF_REQUIRE` says that it must be here: `tools`, or `all` for tools and
    /// privileges.
    fn describe(&self) -> (String, bool) {
        let required = env::var("CTPROF_REQUIRE").unwrap_or_default();
        match self {
            Self::Tool(name) => (format!("no tool: {name}"), ["tools", "all"].contains(&&*required)),
            Self::Privilege(what) => (format!("no privilege: {what}"), required == "all"),
            Self::Kernel(what) => (format!("not on this host: {what}"), false),
        }
    }
}

/// Says that a test, or a part of it, is skipped: to stderr, and in a list that `.ci/test` prints at the end.
#[track_caller]
pub(crate) fn skipped(missing: Missing<impl Display>) {
    let (what, is_required) = missing.describe();
    let place = Location::caller();
    let thread = thread::current();
    // A test has a thread of its own, with its name.
    let test = thread.name().filter(|name| *name != "main").map_or_else(|| place.to_string(), str::to_owned);
    let line = format!("skipped: {test}: {what}\n");
    assert!(!is_required, "CTPROF_REQUIRE forbids it: {line}");
    // libtest hides what `eprintln!` prints if the test passes.
    let _ = io::stderr().write_all(line.as_bytes());
    if let Some(path) = list() {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// `target/debug/skipped-tests`, for a test program in `target/debug/deps`.
fn list() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    Some(program.ancestors().nth(2)?.join("skipped-tests"))
}
