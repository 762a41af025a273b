//! A recorder in its third week is as it was in its first minute: `examples/soak/` records beside processes, threads, programs,
//! names and cgroups that come and go, and beside files that keep their reader waiting. It takes half a minute, or the time that
//! CTPROF_SOAK_SECONDS says: an hour before a release. No other tests run meanwhile, whose cgroups and processes it would meet.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[path = "../support/alone.rs"]
mod alone;
#[path = "../support/example.rs"]
mod example;
#[path = "../support/hanging.rs"]
mod hanging;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use ctprof::capture::{Capturer, Engine, Options};
use nix::unistd::geteuid;

use self::alone::{Alone, alone};
use self::example::example;
use self::hanging::Hanging;
use self::support::{Missing, copy_program, skipped};

/// Held by the recorders together, which run at once.
static ALONE: LazyLock<Alone> = LazyLock::new(alone);

/// What a recorder kept in the first and in the last tenth of its time, by name.
struct Kept(BTreeMap<String, [String; 2]>);

impl Kept {
    fn by(mut recorder: Command, engine: &str) -> Self {
        let seconds = env::var("CTPROF_SOAK_SECONDS").map_or(15, |seconds| seconds.parse().unwrap());
        // Their files keep each reader waiting, until all of this ends.
        let hanging = ["unmap", "execute"].map(Hanging::start);
        recorder.arg(engine).arg(seconds.to_string()).stdin(Stdio::null());
        let done = recorder.output().unwrap();
        let (table, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{engine}: {errors}");
        let hanging = hanging.iter().flatten().map(|hanging| hanging.pid).collect::<Vec<_>>();
        eprintln!("{engine}, {seconds} s, beside the processes {hanging:?} that hang:\n{table}");
        let row = |line: &str| {
            let [name, first, _, last] =
                <[&str; 4]>::try_from(Vec::from_iter(line.split('|').map(str::trim)).get(1..5)?).ok()?;
            Some((name.to_owned(), [first, last].map(str::to_owned)))
        };
        Self(table.lines().filter_map(row).collect())
    }

    fn numbers(&self, name: &str) -> [f64; 2] {
        self.0[name].each_ref().map(|text| text.parse().unwrap())
    }

    fn assert_nothing_grows(&self) {
        assert_eq!(self.0["permitted capabilities"][0], self.0["permitted capabilities"][1]);
        // A sampler that is in a pass has files open.
        let [first, last] = self.numbers("open descriptors");
        assert!(last <= first + 4.0, "{last} descriptors instead of {first}");
        // The threads that read mutexes and system calls start when a thread has one to read.
        let [first, last] = self.numbers("threads");
        assert!(last <= first + 2.0, "{last} threads instead of {first}");
        // The host's other processes start and exit meanwhile.
        let [threads_at_first, threads_at_last] = self.numbers("entries: threads");
        let more = (threads_at_last / threads_at_first).max(1.0);
        let entries = self.0.keys().filter(|name| name.starts_with("entries: "));
        let amounts = ["allocated, KiB", "resident, KiB", "CPU time of a step, in % of reading 1,000 small files"];
        for name in entries.map(String::as_str).chain(amounts) {
            let [first, last] = self.numbers(name);
            let some = match name {
                // Of few entries, some more are no growth.
                name if name.starts_with("entries: ") => 20.0,
                _ => 0.0,
            };
            assert!(last <= first * 1.2 * more + some, "{name}: {last} instead of {first}");
        }
    }
}

#[test]
fn a_recorder_by_bpf_keeps_no_more_at_its_end_than_at_its_beginning() {
    LazyLock::force(&ALONE);
    let mut options = Options::default();
    options.engine = Engine::Bpf;
    match Capturer::new(options, 1) {
        Ok(_) => Kept::by(Command::new(example("soak")), "bpf").assert_nothing_grows(),
        Err(error) => skipped(Missing::Privilege(error)),
    }
}

#[test]
fn a_recorder_by_procfs_keeps_no_more_at_its_end_than_at_its_beginning() {
    LazyLock::force(&ALONE);
    Kept::by(Command::new(example("soak")), "procfs").assert_nothing_grows();
}

#[test]
fn a_recorder_whose_user_may_read_few_files_keeps_no_more_at_its_end_than_at_its_beginning() {
    LazyLock::force(&ALONE);
    if !geteuid().is_root() {
        return skipped(Missing::Privilege("to be another user"));
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = directory.path().join("soak");
    copy_program(example("soak"), &program);
    let mut recorder = Command::new("setpriv");
    recorder.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).current_dir(Path::new("/"));
    Kept::by(recorder, "procfs").assert_nothing_grows();
}
