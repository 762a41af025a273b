//! A user makes root's ctprof write elsewhere than where root said: links in a directory of the user.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::stat::Mode;
use tempfile::TempDir;

use crate::root::attacks_support::{attacked, directory, finished, set_mode};
use crate::support::{Missing, skipped};

const NOBODY: Option<u32> = Some(65534);

/// A directory of another user, and one of root's that only root can enter.
struct Directories {
    theirs: PathBuf,
    private: PathBuf,
    _parent: TempDir,
}

impl Directories {
    fn create() -> Option<Self> {
        let parent = tempfile::tempdir().unwrap();
        set_mode(parent.path(), 0o755);
        let theirs = directory(&parent.path().join("theirs"), 0o755);
        let private = directory(&parent.path().join("private"), 0o700);
        if chown(&theirs, NOBODY, NOBODY).is_err() {
            skipped(Missing::Privilege("root"));
            return None;
        }
        Some(Self { theirs, private, _parent: parent })
    }

    /// A link of the other user to a place of their choice.
    fn link(&self, name: &str, to: &Path) -> PathBuf {
        let link = self.theirs.join(name);
        symlink(to, &link).unwrap();
        lchown(&link, NOBODY, NOBODY).unwrap();
        link
    }
}

/// Captures as root to a path. It may fail, and it may replace the link, but it must end.
fn capture_to(path: &Path) {
    let mut command = Command::new(attacked());
    command.args(["capture", "-q", "--no-jemalloc", "--smaps", "never", "--pid"]).arg(std::process::id().to_string());
    let output = finished(command.arg("-o").arg(path).stdin(Stdio::null())).expect("ctprof hangs");
    let is_file = fs::symlink_metadata(path).is_ok_and(|there| there.is_file());
    assert!(is_file || !output.status.success(), "it says that it has written {}: {output:?}", path.display());
}

#[test]
fn a_link_of_another_user_to_a_descriptor_is_not_followed() {
    let Some(directories) = Directories::create() else { return };
    let secret = directories.private.join("log");
    let open = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&secret).unwrap();
    let descriptor = format!("/proc/{}/fd/{}", std::process::id(), open.as_raw_fd());
    capture_to(&directories.link("direct", Path::new(&descriptor)));
    let inner = directories.link("inner", Path::new(&descriptor));
    capture_to(&directories.link("outer", &inner));
    assert_eq!(fs::read(&secret).unwrap(), b"");
}

#[test]
fn a_link_of_another_user_to_a_fifo_is_not_waited_for() {
    let Some(directories) = Directories::create() else { return };
    let fifo = directories.theirs.join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    chown(&fifo, NOBODY, NOBODY).unwrap();
    capture_to(&directories.link("link", &fifo));
}

#[test]
fn a_fifo_of_another_user_is_not_waited_for() {
    let Some(directories) = Directories::create() else { return };
    let fifo = directories.theirs.join("snapshot");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    chown(&fifo, NOBODY, NOBODY).unwrap();
    capture_to(&fifo);
}

/// A block device over a file, removed at the end.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let device = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some(Self(device))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_link_of_another_user_to_a_device_is_not_followed() {
    let Some(directories) = Directories::create() else { return };
    let disk = directories.private.join("disk");
    let content = vec![7; 1 << 20];
    fs::write(&disk, &content).unwrap();
    let Some(device) = Loop::over(&disk) else { return skipped(Missing::Kernel("loop devices")) };
    capture_to(&directories.link("link", Path::new(&device.0)));
    let mut read = Vec::new();
    File::open(&device.0).unwrap().read_to_end(&mut read).unwrap();
    assert!(read == content, "the device was written to");
}

#[test]
fn a_link_of_another_user_to_a_directory_is_not_followed() {
    let Some(directories) = Directories::create() else { return };
    let link = directories.link("directory", &directories.private);
    capture_to(&link.join("snapshot"));
    for series in [link.clone(), link.join("runs")] {
        let mut record = Command::new(attacked());
        record.args(["record", "-q", "--no-jemalloc", "--runs", "1", "-d", "10ms", "-o"]).arg(series);
        finished(record.stdin(Stdio::null())).expect("ctprof hangs");
    }
    assert_eq!(fs::read_dir(&directories.private).unwrap().count(), 0);
}

#[test]
fn standard_output_pipes_and_own_links_are_written_to_because_they_were_named() {
    let Some(directories) = Directories::create() else { return };
    let own = directories.private.join("own");
    symlink(&directories.private, &own).unwrap();
    let file = own.join("file").display().to_string();
    let fifo = directories.private.join("fifo").display().to_string();
    let script = r#"set -e
        capture() { "$CTPROF" capture -q --no-jemalloc --smaps never --pid $$ "$@"; }
        test $(capture -o - | wc -c) -gt 100
        test $(capture -o /dev/stdout | wc -c) -gt 100
        test $(capture -o /dev/fd/5 5>&1 >/dev/null | wc -c) -gt 100
        mkfifo "$FIFO"
        wc -c < "$FIFO" > "$FIFO.count" &
        capture -o "$FIFO"
        wait
        test $(cat "$FIFO.count") -gt 100
        capture -o "$FILE"
        test $(wc -c < "$FILE") -gt 100
        capture -o /dev/null"#;
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).env("CTPROF", attacked()).env("FILE", file).env("FIFO", fifo);
    let output = finished(&mut shell).expect("ctprof hangs");
    assert!(output.status.success(), "{output:?}");
}
