//! System calls are named by the table that the program has called.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctprof::CtprofSnapshot;

use crate::alone;
use crate::host::Killed;
use crate::root::engine_captures::has_bpf;
use crate::support::{Missing, skipped};

/// Names of programs, and what the compiler makes them of.
const PROGRAMS: [(&str, &[&str]); 3] = [("calls-mixed", &[]), ("calls-64", &["-DSYSCALL"]), ("calls-32", &["-m32"])];

/// Compiles the program with these arguments; `None` prints why the test is skipped.
fn compiled(directory: &Path, name: &str, arguments: &[&str]) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/call_tables.c");
    let program = directory.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-w", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-stack-protector"]).args(arguments);
    let is_done = compiler.arg("-o").arg(&program).arg(source).status().is_ok_and(|done| done.success());
    if !is_done {
        skipped(Missing::Tool(format!("cc {}", arguments.join(" "))));
    }
    is_done.then_some(program)
}

#[test]
fn system_calls_of_both_tables_have_the_name_in_their_own_with_bpf_and_without() {
    if !cfg!(target_arch = "x86_64") {
        return skipped(Missing::Kernel("two tables of system calls (x86-64)"));
    }
    // Beside a process that cannot be read, a window may have no reasons.
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut running = Vec::new();
    for (name, arguments) in PROGRAMS {
        let Some(program) = compiled(directory.path(), name, arguments) else { continue };
        let mut child = Command::new(program).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        // A kernel without 32-bit system calls kills it.
        match child.try_wait().unwrap() {
            None => running.push((name, Killed(child))),
            Some(_) => skipped(Missing::Kernel("32-bit system calls")),
        }
    }
    for engine in ["procfs", "bpf"].into_iter().filter(|engine| *engine == "procfs" || has_bpf()) {
        let file = directory.path().join("window");
        let mut record = Command::new(env!("CARGO_BIN_EXE_ctprof"));
        record.args(["-q", "record", "-d", "2s", "--engine", engine, "-o"]).arg(&file);
        assert!(record.status().unwrap().success(), "{engine}");
        let window = CtprofSnapshot::load(&file).unwrap();
        let Some(reasons) = window.head.reasons.as_deref() else {
            return skipped(Missing::Privilege("to sample threads"));
        };
        for (name, _) in &running {
            let of_program = reasons.times.iter().filter(|time| {
                let threads = usize::try_from(time.threads).unwrap();
                &*reasons.threads[threads].pcomm == *name
            });
            let entries =
                of_program.filter_map(|time| reasons.reasons[usize::try_from(time.reason).unwrap()].entry.clone());
            let entries: BTreeSet<String> = entries.map(|entry| entry.to_string()).collect();
            assert_eq!(entries, BTreeSet::from(["nanosleep".to_owned()]), "{engine}, {name}");
        }
    }
}
