//! The minimum cost of a capture: its system calls, with their results ignored.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::fcntl::{OFlag, open, openat};
use nix::sched::sched_getaffinity;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, read};

const THREAD_FILES: [&str; 6] = ["stat", "status", "schedstat", "sched", "io", "cgroup"];
const PROCESS_FILES: [&str; 4] = ["stat", "io", "smaps_rollup", "maps"];

/// Reads everything under `procfs`, with `jobs` workers.
pub(crate) fn run(jobs: usize, procfs: &str) -> anyhow::Result<()> {
    let processes = numeric(Path::new(procfs))?;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let mut worker = Worker::new(procfs == "/proc");
                while let Some(process) = processes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    worker.process(process);
                }
            });
        }
    });
    Ok(())
}

fn numeric(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| tid(path).is_some()).collect())
}

fn tid(path: &Path) -> Option<i32> {
    path.file_name()?.to_str()?.parse().ok()
}

struct Worker {
    buffer: Vec<u8>,
    /// `None` if thread ids are not those of this kernel.
    taskstats: Option<Taskstats>,
    live: bool,
}

impl Worker {
    fn new(live: bool) -> Self {
        Self { buffer: vec![0; 64 * 1024], taskstats: live.then(Taskstats::open).flatten(), live }
    }

    fn process(&mut self, process: &Path) {
        if self.live {
            let Ok(directory) = fs::File::open(process) else { return };
            PROCESS_FILES.iter().for_each(|name| self.file(&directory, name));
        }
        let tasks = process.join("task");
        let Ok(directory) = open(&tasks, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()) else { return };
        for thread in numeric(&tasks).unwrap_or_default() {
            let Some(tid) = tid(&thread) else { continue };
            for name in THREAD_FILES {
                self.file(&directory, &format!("{tid}/{name}"));
            }
            if self.live {
                let _ = sched_getaffinity(Pid::from_raw(tid));
            }
            if let Some(taskstats) = &mut self.taskstats {
                taskstats.ask(tid, &mut self.buffer);
            }
        }
    }

    fn file(&mut self, directory: &impl std::os::fd::AsFd, name: &str) {
        if let Ok(file) = openat(directory, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()) {
            let _ = read(&file, &mut self.buffer);
        }
    }
}

/// A socket for taskstats, and a request in which only the thread changes.
struct Taskstats {
    socket: std::os::fd::OwnedFd,
    request: Vec<u8>,
}

impl Taskstats {
    fn open() -> Option<Self> {
        let kind = (AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkGeneric);
        let socket = socket(kind.0, kind.1, kind.2, kind.3).ok()?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0)).ok()?;
        // CTRL_CMD_GETFAMILY by CTRL_ATTR_FAMILY_NAME; the answer's first attribute after the name is the id.
        let mut taskstats = Self { socket, request: request(16, 3, 2, b"TASKSTATS\0") };
        let mut answer = [0; 4096];
        let length = taskstats.exchange(&mut answer)?;
        let family = attribute(answer.get(20..length)?, 1)?;
        taskstats.request = request(u16::from_ne_bytes(family.try_into().ok()?), 1, 1, &[0; 4]);
        Some(taskstats)
    }

    fn ask(&mut self, tid: i32, buffer: &mut [u8]) {
        self.request[24..28].copy_from_slice(&tid.to_ne_bytes());
        self.exchange(buffer);
    }

    fn exchange(&self, buffer: &mut [u8]) -> Option<usize> {
        send(self.socket.as_raw_fd(), &self.request, MsgFlags::empty()).ok()?;
        recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()).ok()
    }
}

/// `nlmsghdr`, `genlmsghdr` and one attribute.
fn request(family: u16, command: u8, kind: u16, value: &[u8]) -> Vec<u8> {
    let padded = value.len().next_multiple_of(4);
    let length = |fixed: usize| u16::try_from(fixed + value.len()).expect("a short message");
    let mut bytes = u32::try_from(24 + padded).expect("a short message").to_ne_bytes().to_vec();
    bytes.extend([family.to_ne_bytes(), 1u16.to_ne_bytes()].concat());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend([length(4).to_ne_bytes(), kind.to_ne_bytes()].concat());
    bytes.extend(value);
    bytes.resize(24 + padded, 0);
    bytes
}

fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let number = |at: usize| Some(u16::from_ne_bytes(attributes.get(at..at + 2)?.try_into().ok()?));
        let (length, kind) = (usize::from(number(0)?), number(2)?);
        if kind == wanted {
            return attributes.get(4..length);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}
