//! What attacks need: the binary, and bounded runs of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The binary that is attacked: that of `CTPROF_ATTACKED`, or this build's.
pub(crate) fn attacked() -> PathBuf {
    std::env::var_os("CTPROF_ATTACKED").map_or_else(|| env!("CARGO_BIN_EXE_ctprof").into(), PathBuf::from)
}

/// A new folder of this mode.
pub(crate) fn folder(path: &Path, mode: u32) -> PathBuf {
    fs::create_dir(path).unwrap();
    set_mode(path, mode);
    path.to_owned()
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// What a process said, on both streams.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// The output of a process that ends within 30 seconds; `None` for one that does not, which is killed.
pub(crate) fn finished(command: &mut Command) -> Option<Output> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = id(&child);
    let (sender, receiver) = mpsc::channel();
    let waits = thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    let output = receiver.recv_timeout(Duration::from_secs(30)).ok();
    if output.is_none() {
        let _ = kill(process, Signal::SIGKILL);
    }
    let _ = waits.join();
    output
}

pub(crate) fn id(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}
