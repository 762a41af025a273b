//! A ctprof that has more rights than it may use does not go on with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ctprof::CtprofSnapshot;
use ctprof::model::ReasonClass;

use crate::host::Killed;
use crate::root::attacks_support::{Granted, as_nobody, attacked, finished, said, set_mode};
use crate::support::{Missing, skipped};

/// Runs programs under a filter with which capset(2) fails.
fn launcher(directory: &Path) -> Option<PathBuf> {
    let program = directory.join("attack_capset");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/attack_capset.c");
    let compiled = Command::new("cc").arg("-o").arg(&program).arg(source).output();
    assert!(compiled.as_ref().is_ok_and(|compiled| compiled.status.success()), "{compiled:?}");
    let works = Command::new(&program).arg("true").status().is_ok_and(|status| status.success());
    if !works || !nix::unistd::geteuid().is_root() {
        skipped(Missing::Privilege("root, with seccomp filters"));
        return None;
    }
    Some(program)
}

#[test]
fn a_ctprof_that_cannot_drop_capabilities_ends_before_it_reads_anything() {
    let directory = tempfile::tempdir().unwrap();
    let Some(launcher) = launcher(directory.path()) else { return };
    let [seen, file, executed] = ["seen", "file", "executed"].map(|name| directory.path().join(name));
    let [seen_text, file_text, executed_text] = [&seen, &file, &executed].map(|path| path.to_str().unwrap());
    let own = std::process::id().to_string();
    let quick = ["capture", "-q", "--no-jemalloc", "--smaps", "never", "--pid", &own, "-o", seen_text];
    assert!(Command::new(attacked()).args(quick).status().unwrap().success());
    for command in [
        &["capture", "-o", file_text][..],
        &["record", "-o", file_text, "--", "touch", executed_text],
        &["record", "-d", "10ms", "-o", file_text],
        &["show", seen_text],
        &["doctor"],
    ] {
        let output = finished(Command::new(&launcher).arg(attacked()).args(command).stdin(Stdio::null()));
        let output = output.expect("ctprof hangs");
        assert!(!output.status.success(), "{command:?} goes on: {output:?}");
        assert!(said(&output).contains("capabilities"), "{command:?}: {}", said(&output));
        let left: Vec<_> = [&file, &executed].into_iter().filter(|path| fs::exists(path).unwrap()).collect();
        assert!(left.is_empty(), "{command:?}: {left:?}");
    }
}

#[test]
fn with_file_capabilities_the_owners_of_mutexes_of_other_users_are_known_during_a_whole_window() {
    let Some(granted) = Granted::new() else { return };
    let program = granted.directory().join("causes");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/causes.c");
    let compiled = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
    assert!(compiled.is_ok_and(|status| status.success()));
    let window = granted.writable("own").join("window");
    let _causes = Killed(
        Command::new(&program).arg("12").current_dir(granted.directory()).stdout(Stdio::null()).spawn().unwrap(),
    );
    let recorded = granted.run(["record", "-q", "-d", "3s", "-o", window.to_str().unwrap()]);
    assert!(recorded.status.success(), "{recorded:?}");
    let reasons = CtprofSnapshot::load(&window).unwrap().head.reasons;
    let Some(reasons) = reasons else { return skipped(Missing::Privilege("samples of threads")) };
    let sleeps = reasons.reasons.iter().filter(|reason| reason.class == ReasonClass::Sleep);
    let owners: Vec<_> = sleeps.filter_map(|reason| Some(&*reason.by.as_ref()?.pcomm)).collect();
    assert!(owners.contains(&"for-locked"), "{owners:?}");
}

#[test]
fn a_setuid_or_setgid_copy_does_not_run() {
    let Some(granted) = Granted::new() else { return };
    let file = granted.writable("own").join("file");
    for mode in [0o4755, 0o2755] {
        set_mode(&granted.program, mode);
        let output = granted.run(["capture", "-o", file.to_str().unwrap()]);
        assert!(!output.status.success() && said(&output).contains("setuid"), "{mode:o}: {output:?}");
        assert!(!fs::exists(&file).unwrap());
    }
}

#[test]
fn a_command_has_the_variables_that_the_c_library_takes_from_a_program_with_file_capabilities() {
    let Some(granted) = Granted::new() else { return };
    let file = granted.writable("own").join("file");
    let variables =
        [("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.check=1"), ("LD_LIBRARY_PATH", "/nowhere")];
    let mut command = as_nobody(&granted.program);
    command.args(["-q", "record", "-o"]).arg(&file).args(["--", "env"]).envs(variables);
    let output = finished(&mut command).expect("ctprof hangs");
    let printed = String::from_utf8_lossy(&output.stdout);
    for (name, value) in variables {
        let line = format!("{name}={value}");
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed} {}", said(&output));
    }
}
