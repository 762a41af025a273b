//! Names of a process: what it runs, and whether its own name of 15 bytes is complete or was cut by the kernel.

use super::super::context::CaptureContext;
use super::super::process::Process;
use super::process_request::ProcessRequest;
use super::program;
use super::source::{Addition, Reads, ValueSource, When};
use crate::model::{Name, may_be_cut, printable};
use crate::names::base_name;

/// The program that a process runs, and whether the name of the process is complete.
pub(super) const SOURCE: ValueSource =
    ValueSource { name: "names", reads: Reads::Process { when: When::NewProcesses, read, count_missing: |_, _| {} } };

fn read(_: &CaptureContext, process: &Process, request: &ProcessRequest) -> Option<Addition> {
    let name = request.leader.as_ref()?;
    let (is_whole, program) = (is_whole(process, name), program::name(process, name));
    Some(Box::new(move |_, threads, _| {
        for thread in threads.iter_mut().map(|thread| &mut thread.state) {
            thread.name_complete |= is_whole && thread.is_leader();
            thread.program.clone_from(&program);
        }
    }))
}

/// Whether the program or its first argument has exactly the name. Their files are read only for names of 15 bytes,
/// which the kernel may have cut.
fn is_whole(process: &Process, name: &Name) -> bool {
    if !may_be_cut(name) {
        return false;
    }
    let mut buffer = Vec::new();
    let is_the_name = |path: &[u8]| printable(base_name(path)) == **name;
    // The kernel marks the link if the file was replaced or removed.
    let program = |exe: &[u8]| is_the_name(exe.strip_suffix(b" (deleted)").unwrap_or(exe));
    let first_argument = |arguments: &[u8]| arguments.split(|&b| b == 0).next().is_some_and(is_the_name);
    process.directory.link("exe").is_ok_and(|exe| program(&exe))
        || process.directory.read("cmdline", &mut buffer).is_ok_and(first_argument)
}

#[cfg(test)]
mod tests {
    use super::super::super::procfs::directory::ProcDirectory;
    use super::*;

    #[test]
    fn a_whole_process_name_of_15_bytes_counts_as_cut() {
        for (comm, exe, cmdline, whole) in [
            ("chrome_crashpad", "/opt/chrome_crashpad", &b"x\0"[..], true),
            ("chrome_crashpad", "/opt/chrome_crashpad (deleted)", b"x\0", true),
            ("chrome_crashpad", "/opt/chrome_crashpad_handler", b"x\0", false),
            ("fifteen-bytes-x", "/usr/bin/python3.13", b"/bin/fifteen-bytes-x\0-v\0", true),
            ("fifteen-bytes-x", "/usr/bin/python3.13", b"/bin/fifteen-bytes-xyz\0", false),
            ("fifteen-bytes-x", "/usr/bin/python3.13", b"", false),
            ("caf\\xc3-and-more-x", "/bin/other", b"caf\xc3-and-more-x\0", true),
            ("bash", "/bin/bash", b"bash\0", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            std::os::unix::fs::symlink(exe, dir.path().join("exe")).unwrap();
            std::fs::write(dir.path().join("cmdline"), cmdline).unwrap();
            let process = Process::new(7, ProcDirectory::open(dir.path()).unwrap());
            assert_eq!(is_whole(&process, &comm.into()), whole, "{comm} {exe}");
        }
    }
}
