//! What attacks need: the binary, a copy of it with file capabilities, an ordinary user, and bounded runs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::support::{Missing, copy_program, skipped};

/// Those that README.md grants.
const GRANT: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_net_admin,cap_dac_read_search+p";

/// The binary that is attacked: that of `CTPROF_ATTACKED`, or this build's.
pub(crate) fn attacked() -> PathBuf {
    std::env::var_os("CTPROF_ATTACKED").map_or_else(|| env!("CARGO_BIN_EXE_ctprof").into(), PathBuf::from)
}

/// A process as an ordinary user, which has no other group either.
pub(crate) fn as_nobody(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    // setpriv keeps its permitted capabilities until another program is executed.
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"]).arg(program).stdin(Stdio::null());
    command
}

/// A copy of the binary with file capabilities, in a directory that all may enter.
pub(crate) struct Granted {
    directory: TempDir,
    pub(crate) program: PathBuf,
}

impl Granted {
    /// `None` prints why it is skipped.
    pub(crate) fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("ctprof");
        copy_program(attacked(), &program);
        set_mode(directory.path(), 0o755);
        let ignored = statvfs(directory.path()).is_ok_and(|system| system.flags().contains(FsFlags::ST_NOSUID));
        let granted = Command::new("setcap").arg(GRANT).arg(&program).status().is_ok_and(|status| status.success());
        let changes_user = as_nobody("true").status().is_ok_and(|status| status.success());
        if ignored || !granted || !changes_user {
            skipped(Missing::Privilege(
                "root, with setpriv, setcap, and a temporary directory where file capabilities count",
            ));
            return None;
        }
        Some(Self { directory, program })
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A directory in which the ordinary user may write.
    pub(crate) fn writable(&self, name: &str) -> PathBuf {
        directory(&self.directory().join(name), 0o777)
    }

    /// The copy, run by an ordinary user. Bounded, so that a hang fails the test.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        let mut command = as_nobody(&self.program);
        finished(command.args(arguments).current_dir(self.directory())).expect("ctprof hangs")
    }
}

/// A copy of the binary without capabilities, for a directory that all may enter.
pub(crate) fn copied_for_all(directory: &Path) -> PathBuf {
    let program = directory.join("ctprof-plain");
    copy_program(attacked(), &program);
    program
}

/// A new directory of this mode.
pub(crate) fn directory(path: &Path, mode: u32) -> PathBuf {
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
