//! What other users keep to themselves is in no output of a copy with file capabilities.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::host::Killed;
use crate::root::attacks_support::{Granted, as_nobody, attacked, directory, finished};
use crate::root::stacks::compiled;
use crate::support::{Missing, copy_program, skipped};

/// In each secret.
const PLANTED: &str = "planted";

/// Processes of root with secrets: paths below a directory that nobody else may enter, arguments, and a variable.
fn plant(closed: &Path) -> Vec<Killed> {
    mkfifo(&closed.join("planted-fifo"), Mode::S_IRWXU).unwrap();
    let program = closed.join("abcdefghijklmnop-planted-program");
    copy_program("/bin/sleep", &program);
    let mut long_name = Command::new(program);
    long_name.arg0("plain").arg("1000");
    let shell = |code: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", code]);
        shell
    };
    let reader = shell("exec 3<>planted-fifo; exec cat <&3");
    let waiter = shell("timeout 60 flock planted-locked sleep 60 & exec flock planted-locked true");
    let start = |mut command: Command| {
        command.current_dir(closed).env("PLANTED", "planted-value").stdin(Stdio::null()).stdout(Stdio::null());
        Killed(command.spawn().unwrap())
    };
    let program = compiled("cc", "stacks.c", &["-DNAP=planted_nap", "-Dcount_longer=planted_count"], closed);
    let with_functions = program.into_iter().flat_map(|program| {
        let (sleeper, mut runner) = (Command::new(&program), Command::new(&program));
        runner.args(["runs", "planted-times"]);
        [sleeper, runner]
    });
    let all = [long_name, reader, waiter, shell("sleep 1000; : planted-code")].into_iter().chain(with_functions);
    all.map(start).collect()
}

/// What a file says, as JSON.
fn text(file: &Path) -> String {
    let json = zstd::stream::decode_all(fs::File::open(file).unwrap()).unwrap();
    String::from_utf8_lossy(&json).into_owned()
}

#[test]
fn file_capabilities_give_nobody_what_other_users_keep_to_themselves() {
    let Some(granted) = Granted::new() else { return };
    let closed = directory(&granted.directory().join("closed"), 0o700);
    let processes = plant(&closed);
    let pids: Vec<_> = processes.iter().map(|process| process.0.id().to_string()).collect();
    let pids = pids.join(",");
    let own = granted.writable("own");
    let recordings: [&[&str]; 6] = [
        &["capture"],
        &["capture", "--engine", "procfs"],
        &["record", "-d", "1s"],
        &["record", "-d", "1s", "--on-cpu"],
        &["record", "-d", "1s", "--engine", "procfs"],
        &["record", "-d", "1s", "--every", "300ms"],
    ];
    for (number, recording) in recordings.into_iter().enumerate() {
        let options = [recording, &["-p", &pids, "-o"]].concat();
        let file = own.join(number.to_string());
        let mut command = as_nobody(&granted.program);
        let output = finished(command.args(&options).arg(&file).env("RUST_LOG", "trace")).expect("ctprof hangs");
        assert!(output.status.success(), "{options:?}: {output:?}");
        let all = [text(&file), String::from_utf8_lossy(&output.stderr).into_owned()].concat();
        let said: Vec<_> = all.match_indices(PLANTED).map(|(at, _)| &all[all.floor_char_boundary(at - 60)..]).collect();
        let said: Vec<_> = said.iter().map(|text| &text[..text.floor_char_boundary(120)]).collect();
        assert!(said.is_empty(), "{options:?}: {said:?}");
        assert_root_sees_them(recording, &options, &own.join("by-root"));
    }
}

/// On a busy host, few samples are taken.
const ATTEMPTS: u32 = 10;

/// What a recording would say if nothing were kept back: else its silence proves nothing.
fn assert_root_sees_them(recording: &[&str], options: &[&str], file: &Path) {
    let functions =
        if recording.contains(&"--on-cpu") { &["planted_nap", "planted_count"][..] } else { &["planted_nap"] };
    for attempt in 1..=ATTEMPTS {
        let mut command = Command::new(attacked());
        let longer = format!("{attempt}s");
        let options: Vec<_> = options.iter().map(|option| if *option == "1s" { &*longer } else { option }).collect();
        assert!(command.args(&options).arg(file).args(["-q"]).status().unwrap().success());
        let text = text(file);
        let has_file = recording[0] != "record" || !text.contains("\"reasons\"") || text.contains("planted-fifo");
        let has_functions = !text.contains("\"stack\"") || functions.iter().all(|function| text.contains(function));
        if has_file && has_functions {
            return;
        }
        assert!(attempt < ATTEMPTS, "{options:?}: root sees the file that cat reads, and {functions:?}");
    }
}

/// Variables of which programs and libraries open the file or the directory.
const NAMING_FILES: [&str; 12] = [
    "TZ",
    "TZDIR",
    "HOME",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MALLOC_CONF",
    "LOCPATH",
    "DEBUGINFOD_CACHE_PATH",
];

#[test]
fn files_that_the_environment_names_are_opened_with_the_rights_of_the_caller() {
    let Some(granted) = Granted::new() else { return };
    if Command::new("strace").arg("-V").output().is_err() {
        return skipped(Missing::Tool("strace"));
    }
    let closed = directory(&granted.directory().join("closed"), 0o700);
    let zone = closed.join("planted");
    fs::write(&zone, ZONE_OF_NINE_HOURS).unwrap();
    let own = granted.writable("own");
    let traced = |zone: &Path, arguments: &[&str]| {
        let trace = granted.directory().join("trace");
        let mut command = Command::new("strace");
        // Of a user in whose name strace starts it, a program has the capabilities of its file.
        command.args(["-u", "nobody", "-f", "-qq", "-e", "trace=file", "-o"]).arg(&trace);
        for name in NAMING_FILES {
            command.arg("-E").arg(format!("{name}={}", zone.display()));
        }
        let output = finished(command.arg(&granted.program).args(arguments).current_dir(&own));
        let opened = fs::read_to_string(trace).unwrap();
        // The program's own environment is in no call but the first. Files of other tests are in other directories.
        let planted = closed.to_string_lossy();
        let opened: Vec<_> = opened.lines().filter(|line| line.contains(&*planted)).map(str::to_owned).collect();
        (String::from_utf8_lossy(&output.expect("ctprof hangs").stdout).into_owned(), opened)
    };
    let commands: [&[&str]; 6] = [
        &["record", "-q", "-d", "50ms", "-o", "window"],
        &["record", "-q", "-d", "50ms", "--every", "20ms", "--engine", "procfs", "-o", "series"],
        &["capture", "-q", "-o", "capture"],
        &["doctor"],
        &["show", "series", "--steps"],
        &["show", "window"],
    ];
    for command in commands {
        let (shown, opened) = traced(&zone, command);
        assert!(opened.iter().all(|call| call.contains("EACCES")), "{command:?}: {opened:#?}");
        assert!(!shown.contains("PLANT"), "{command:?}: {shown}");
    }
    let readable = own.join("planted");
    fs::write(&readable, ZONE_OF_NINE_HOURS).unwrap();
    assert!(traced(&readable, commands[5]).0.contains("PLANT"), "the zone of a file that the caller can read");
}

/// A file of version 1 of tzfile(5) with one zone, "PLANT", nine hours east of Greenwich.
const ZONE_OF_NINE_HOURS: &[u8] = b"TZif\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x06\0\0\x7e\x90\0\0PLANT\0";
