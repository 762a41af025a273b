//! The name of what a process runs, and whether the process has the file that its command line names. Only this name is
//! kept of the command line.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::getuid;

use super::super::process::Process;
use crate::model::Name;
use crate::names::StartedProgram;
use crate::process::as_caller;

/// Longer command lines are cut, in bytes.
const MOST_BYTES: u64 = 64 * 1024;

/// Returns the name of what a process with the name `comm` runs; `None` if `comm` says it, or if nothing is certain.
pub(in crate::capture) fn name(process: &Process, comm: &str) -> Option<Name> {
    let exe = process.directory.link("exe").ok();
    let started = StartedProgram { comm, exe: exe.as_deref(), arguments: b"" };
    let mut arguments = Vec::new();
    if started.needs_arguments() {
        process.directory.file("cmdline").ok()?.take(MOST_BYTES).read_to_end(&mut arguments).ok()?;
    }
    StartedProgram { arguments: &arguments, ..started }.name(&|path| is_file_of(process, path))
}

/// Returns the name of what a command of `record` with these arguments runs. It shares the root and working directory of
/// ctprof.
pub(crate) fn program_of_command(comm: &str, arguments: &[String]) -> Option<Name> {
    let arguments: Vec<u8> = arguments.iter().flat_map(|argument| argument.bytes().chain([0])).collect();
    let started = StartedProgram { comm, exe: None, arguments: &arguments };
    started.name(&|path| Path::new(OsStr::from_bytes(path)).is_file())
}

/// Whether the path leads to a regular file in the root of the process, from its working directory. Command lines that the caller
/// chose, also of programs that run as root, could ask so for any file: it is looked up with the caller's rights.
fn is_file_of(process: &Process, path: &[u8]) -> bool {
    let is_regular = |file: FileStat| SFlag::from_bits_truncate(file.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
    find(process, path).is_ok_and(is_regular)
}

fn find(process: &Process, path: &[u8]) -> Result<FileStat, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let root = match process.directory.open_at("root", flags) {
        // Of another user's process. Without a container, its root is the same.
        Err(Errno::EACCES) if path.starts_with(b"/") => open("/", flags | OFlag::O_CLOEXEC, Mode::empty()),
        root => root,
    }?;
    let path = match path {
        [] => return Err(Errno::ENOENT),
        [b'/', ..] => path.to_owned(),
        _ => [&process.directory.link("cwd")?, &b"/"[..], path].concat(),
    };
    let status = || status_in(&root, Path::new(OsStr::from_bytes(&path)));
    if getuid().is_root() { status() } else { as_caller(status).unwrap_or(Err(Errno::EPERM)) }
}

/// The status of a file, without opening it. Links are followed within the root; links of procfs to other files are not.
fn status_in(root: &OwnedFd, path: &Path) -> Result<FileStat, Errno> {
    let inside = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    match openat2(root, path, OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(inside)) {
        // Linux before 5.6, and services of systemd with DynamicUser=, which filters this system call.
        Err(Errno::ENOSYS) => {
            fstatat(root.as_fd(), path.strip_prefix("/").unwrap_or(path), AtFlags::AT_SYMLINK_NOFOLLOW)
        }
        opened => fstat(&opened?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Stdio;

    use super::super::super::procfs::directory::ProcDirectory;
    use super::*;

    /// A process of a recorded tree that runs a script by this path, with these links.
    fn named(path: &str, links: &[(&str, &Path)]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("cmdline"), format!("python3\0{path}\0secret\0")).unwrap();
        links.iter().for_each(|(name, to)| symlink(to, dir.path().join(name)).unwrap());
        let process = Process::new(7, ProcDirectory::open(dir.path()).unwrap());
        name(&process, "python3").map(|name| name.to_string())
    }

    #[test]
    fn a_script_is_named_if_it_is_a_file_in_the_root_of_its_process() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("srv/app/directory.py")).unwrap();
        std::fs::write(root.path().join("srv/app/manage.py"), "").unwrap();
        symlink("/srv/app/manage.py", root.path().join("srv/app/link.py")).unwrap();
        symlink("/proc/self/exe", root.path().join("srv/app/magic.py")).unwrap();
        let links = [("root", root.path()), ("cwd", Path::new("/srv/app"))];
        for (path, expected) in [
            ("/srv/app/manage.py", Some("manage.py")),
            ("manage.py", Some("manage.py")),
            ("../app/./manage.py", Some("manage.py")),
            ("../../../../srv/app/manage.py", Some("manage.py")),
            ("link.py", Some("link.py")),
            ("magic.py", None),
            ("directory.py", None),
            ("secret", None),
            ("/etc/passwd", None),
            ("", None),
        ] {
            assert_eq!(named(path, &links).as_deref(), expected, "{path}");
        }
        assert_eq!(named("manage.py", &links[..1]), None, "the working directory is not known");
        assert_eq!(named("/srv/app/manage.py", &links[1..]), None, "the root is not known");
    }

    #[test]
    fn a_live_process_has_the_name_of_its_script_and_never_its_code() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("wait.sh"), "echo started; read line\n").unwrap();
        let code = "echo started; read secret";
        for (arguments, expected) in [(&["wait.sh", "wait.sh"][..], Some("wait.sh")), (&["-c", code], None)] {
            let mut command = std::process::Command::new("sh");
            let command = command.args(arguments).current_dir(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            // Until the program runs, the kernel may not have its arguments yet.
            child.stdout.take().unwrap().read_exact(&mut [0; 8]).unwrap();
            let process = ProcDirectory::open(format!("/proc/{}", child.id()).as_ref()).unwrap();
            let found = name(&Process::new(child.id(), process), "sh");
            drop(child.stdin.take());
            child.wait().unwrap();
            assert_eq!(found.as_deref(), expected, "{arguments:?}");
        }
    }
}
