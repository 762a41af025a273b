//! What comes and goes beside the recorder, in a process of its own.

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use super::Failure;

/// The process with the load.
pub(crate) struct RunningLoad {
    process: Child,
    asks: ChildStdin,
    answers: ChildStdout,
    /// Whether a round is not answered yet.
    runs: bool,
}

impl RunningLoad {
    pub(crate) fn start() -> Result<Self, Failure> {
        let mut process = Command::new(env::current_exe()?);
        let mut process = process.arg("load").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let asks = process.stdin.take().ok_or("stdin is piped")?;
        let answers = process.stdout.take().ok_or("stdout is piped")?;
        Ok(Self { process, asks, answers, runs: false })
    }

    /// Begins a round, after the end of the one before.
    pub(crate) fn round(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.runs, true) {
            self.answers.read_exact(&mut [0])?;
        }
        self.asks.write_all(b"x")
    }

    pub(crate) fn end(self) -> Result<(), Failure> {
        let Self { mut process, asks, answers, .. } = self;
        drop((asks, answers));
        let status = process.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the load failed: {status}").into()) }
    }
}

/// Programs and scripts that run at a time, and those that a round replaces.
const RUNNING: usize = 12;
const REPLACED: usize = 4;
/// Containers that start again and again. A series has the names of those that have exited, too.
const CONTAINERS: u64 = 32;
/// Threads that start and exit in a round.
const THREADS: usize = 8;

/// Programs and scripts that a round replaces, each with a file and in cgroups of its own.
pub(crate) struct Load {
    directory: tempfile::TempDir,
    /// Directories of hierarchies in which cgroups can be made.
    hierarchies: Vec<PathBuf>,
    running: VecDeque<Running>,
    number: u64,
}

/// A process with a file and cgroups that no other one has.
struct Running {
    process: Child,
    file: PathBuf,
    cgroups: Vec<PathBuf>,
}

impl Load {
    pub(crate) fn new() -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let root = Path::new("/sys/fs/cgroup");
        let parent = format!("ctprof-soak-{}", std::process::id());
        let roots = [root.to_owned(), root.join("cpu"), root.join("pids"), root.join("unified")];
        let parents = roots.iter().filter(|root| root.join("cgroup.procs").exists()).map(|root| root.join(&parent));
        let hierarchies = parents.filter(|parent| fs::create_dir(parent).is_ok()).collect();
        Ok(Self { directory, hierarchies, running: VecDeque::new(), number: 0 })
    }

    pub(crate) fn serve(mut self) -> io::Result<()> {
        while self.running.len() < RUNNING {
            self.start()?;
        }
        let mut asked = [0];
        while io::stdin().read(&mut asked)? > 0 {
            for _ in 0..REPLACED {
                self.running.pop_front().map_or(Ok(()), Running::end)?;
                self.start()?;
            }
            self.start_threads()?;
            // Nobody waits for the last answer.
            let _ = io::stdout().write_all(&asked).and_then(|()| io::stdout().flush());
        }
        self.running.drain(..).try_for_each(Running::end)?;
        for parent in &self.hierarchies {
            fs::remove_dir(parent)?;
        }
        Ok(())
    }

    /// Starts a program or a script that nothing else has executed, in a cgroup of its own.
    fn start(&mut self) -> io::Result<()> {
        self.number += 1;
        let number = self.number;
        let file = self.directory.path().join(format!("soak-{number}"));
        let mut command = if number.is_multiple_of(2) {
            fs::write(&file, "read _\n")?;
            let mut command = Command::new("sh");
            command.arg(&file);
            command
        } else {
            fs::copy("/bin/cat", &file)?;
            Command::new(&file)
        };
        let process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        // Other cgroups are of no container, and have names that no other one has.
        let name = if number.is_multiple_of(2) {
            format!("docker-{:064x}.scope", number % CONTAINERS)
        } else {
            format!("job-{number}")
        };
        let cgroups = self.hierarchies.iter().map(|parent| parent.join(&name));
        let cgroups: Vec<PathBuf> = cgroups.filter(|cgroup| fs::create_dir(cgroup).is_ok()).collect();
        for cgroup in &cgroups {
            fs::write(cgroup.join("cgroup.procs"), process.id().to_string())?;
        }
        self.running.push_back(Running { process, file, cgroups });
        Ok(())
    }

    fn start_threads(&mut self) -> io::Result<()> {
        let name = |thread| format!("s-{}-{thread}", self.number);
        let threads = (0..THREADS).map(|thread| thread::Builder::new().name(name(thread)).spawn(thread::yield_now));
        for thread in threads.collect::<io::Result<Vec<_>>>()? {
            thread.join().map_err(|_| io::Error::other("a thread panicked"))?;
        }
        Ok(())
    }
}

impl Running {
    fn end(mut self) -> io::Result<()> {
        // Its input ends.
        self.process.wait()?;
        for cgroup in &self.cgroups {
            // Its last thread leaves it after its parent was told.
            while fs::remove_dir(cgroup).is_err() && cgroup.exists() {
                thread::yield_now();
            }
        }
        fs::remove_file(&self.file)
    }
}
