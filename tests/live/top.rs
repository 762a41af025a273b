//! `ctprof top` on this host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use nix::unistd::geteuid;

use crate::screen::OnTerminal;
use crate::support::{Missing, copy_program, skipped};

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");

/// A process that runs without end, in a directory of its own.
struct Spinner {
    directory: tempfile::TempDir,
    process: Child,
}

impl Spinner {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let program = directory.path().join("spinner");
        copy_program("/bin/sh", &program);
        let process = Command::new(&program).args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        Self { directory, process }
    }

    /// `ctprof top` in that directory, as the words before it start it.
    fn top(&self, start: &[&str]) -> OnTerminal {
        let program = self.directory.path().join("top");
        copy_program(CTPROF, &program);
        let script = ["cd \"$1\" && shift && exec \"$@\"", "sh", self.directory.path().to_str().unwrap()];
        let top = [program.to_str().unwrap(), "top", "-d", "500ms", "--only", "spinner"];
        OnTerminal::start("sh", &[&["-c"][..], &script, start, &top].concat(), (100, 24))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The lines with the time and with the group.
fn shown(screen: &str) -> [Option<String>; 2] {
    let line = |found: &dyn Fn(&str) -> bool| screen.lines().find(|line| found(line)).map(str::to_owned);
    [line(&|line| line.contains(" UTC ")), line(&|line| line.trim_start().starts_with("spinner "))]
}

#[test]
fn what_runs_now_is_on_the_screen_and_what_ran_before_can_be_read_and_written() {
    let spinner = Spinner::start();
    let mut top = spinner.top(&[]);
    top.wait_for("spinner ");
    let first = shown(&top.screen());
    top.wait_until(|top| shown(&top.screen())[0] > first[0] && !top.screen().contains("first interval"));
    top.press(" ");
    let held = shown(&top.wait_for("held"));
    top.press("\x1b[D");
    top.wait_until(|top| shown(&top.screen())[0] < held[0]);
    let before = shown(&top.screen());
    assert!(before[1].is_some(), "{}", top.screen());
    top.press("w");
    top.wait_for("written: ");
    top.press("q");
    assert!(top.end().success());
    let written = fs::read_dir(spinner.directory.path()).unwrap().map(|file| file.unwrap().path());
    let written = written.into_iter().find(|file| file.to_string_lossy().ends_with(".ctprof.zst")).unwrap();
    let read = Command::new(CTPROF).arg("show").arg(&written).args(["--only", "spinner"]).output().unwrap();
    let (read, before) = (String::from_utf8(read.stdout).unwrap(), before.map(Option::unwrap));
    let time = &before[0].trim_start()[.."12:34:56".len()];
    assert!(read.contains(time), "{time} is not the start of the window that was on the screen: {read}");
    assert!(read.contains("spinner"), "{read}");
}

#[test]
fn an_ordinary_user_sees_what_may_be_seen_and_how_to_find_out_what_may_not() {
    let spinner = Spinner::start();
    let user =
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];
    let is_root = geteuid().is_root();
    if is_root && !Command::new(user[0]).args(&user[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        return skipped(Missing::Privilege("root, with setpriv"));
    }
    let mut top = spinner.top(if is_root { &user } else { &[] });
    let screen = top.wait_for("spinner ");
    assert!(screen.contains("ctprof doctor"), "{screen}");
    top.press("q");
    assert!(top.end().success());
}
