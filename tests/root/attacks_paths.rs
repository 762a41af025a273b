//! A user with file capabilities of ctprof reaches files through it that they cannot reach themselves.

use std::fs;
use std::path::Path;

use crate::root::attacks_support::{Granted, directory, said};

const DENIED: &str = "Permission denied";

const AB: [&str; 6] = ["ab", "--runs", "2", "--no-warmup", "true", "true"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn names_in_a_directory_that_the_caller_cannot_read_are_not_said() {
    let Some(granted) = Granted::new() else { return };
    let private = directory(&granted.directory().join("private"), 0o700);
    fs::write(private.join("unguessable.ctprof.zst"), "").unwrap();
    let output = granted.run(["record", "--runs", "2", "-d", "10ms", "-o", text(&private)]);
    assert!(!said(&output).contains("unguessable"), "{}", said(&output));
    assert!(!output.status.success() && said(&output).contains(DENIED), "{output:?}");
}

#[test]
fn an_output_does_not_tell_what_is_in_a_directory_that_the_caller_cannot_enter() {
    let Some(granted) = Granted::new() else { return };
    let private = directory(&granted.directory().join("private"), 0o700);
    directory(&private.join("there"), 0o700);
    for command in [&["capture"][..], &["record", "-d", "10ms"], &AB[..]] {
        let message = |name| {
            let output = granted.run([command, &["-o", text(&private.join(name))]].concat());
            assert!(!output.status.success(), "{command:?} {name}: {output:?}");
            said(&output).replace(name, "NAME")
        };
        let messages = ["there", "none"].map(message);
        assert!(messages[0].contains(DENIED) && messages[0] == messages[1], "{command:?}: {messages:?}");
    }
}

#[test]
fn nothing_is_written_below_a_directory_that_the_caller_cannot_enter() {
    let Some(granted) = Granted::new() else { return };
    let private = directory(&granted.directory().join("private"), 0o700);
    let open = directory(&private.join("open"), 0o777);
    let file = open.join("file");
    for command in [
        &["capture", "-o", text(&file)][..],
        &["record", "-d", "10ms", "-o", text(&file)],
        &["record", "--runs", "2", "-d", "10ms", "-o", text(&file)],
        &[&AB[..], &["-o", text(&file)]].concat(),
    ] {
        let output = granted.run(command);
        let written: Vec<_> = fs::read_dir(&open).unwrap().collect();
        assert!(written.is_empty() && !output.status.success(), "{command:?}: {written:?}, {output:?}");
    }
}

#[test]
fn a_command_that_the_caller_cannot_execute_is_not_executed() {
    let Some(granted) = Granted::new() else { return };
    let private = directory(&granted.directory().join("private"), 0o700);
    let program = private.join("program");
    crate::support::copy_program("/bin/echo", &program);
    let output = granted.run(["record", "--", text(&program), "was executed"]);
    assert!(!said(&output).contains("was executed"), "{}", said(&output));
    assert!(output.status.code() == Some(126) && said(&output).contains(DENIED), "{output:?}");
}

#[test]
fn the_caller_still_writes_and_executes_what_they_may() {
    let Some(granted) = Granted::new() else { return };
    let own = granted.writable("own");
    let [file, runs] = ["file", "runs"].map(|name| own.join(name));
    for command in [
        &["capture", "-q", "-o", text(&file)][..],
        &["record", "-q", "-o", text(&file), "--", "true"],
        &["record", "-q", "--runs", "2", "-o", text(&runs), "--", "true"],
    ] {
        let output = granted.run(command);
        assert!(output.status.success(), "{command:?}: {output:?}");
    }
    let runs = fs::read_dir(&runs).unwrap().count();
    assert!(file.metadata().unwrap().len() > 0 && runs == 2, "{runs} runs");
}
