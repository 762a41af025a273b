//! Facts of the host that are absent or impossible: what depends on them is unknown, and never 0.

use std::path::Path;
use std::process::Command;

use ctprof::CtprofSnapshot;

use crate::engine_captures::has_bpf;
use crate::support::{Missing, skipped};

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");

/// Runs `script` in a mount namespace that `prepare` has changed, in `directory`; `None` with the reason printed if
/// `prepare` fails. Returns the exit status and standard error.
fn in_mounts(directory: &Path, prepare: &str, script: &str) -> Option<(i32, String)> {
    const NOT_PREPARED: i32 = 99;
    let script = format!("{{ {prepare}; }} >&2 || exit {NOT_PREPARED}\n{script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).env("CTPROF", CTPROF).current_dir(directory);
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    match done.status.code() {
        Some(NOT_PREPARED | 1) if !said.contains("ctprof") => {
            skipped(Missing::Privilege(format!("{prepare}: {said}")));
            None
        }
        status => Some((status.unwrap(), said)),
    }
}

/// The engines that can read this host.
fn engines() -> impl Iterator<Item = &'static str> {
    ["procfs", "bpf"].into_iter().filter(|engine| *engine == "procfs" || has_bpf())
}

#[test]
fn delays_are_unknown_where_the_sysctl_of_their_accounting_cannot_be_read() {
    let sysctl = "/proc/sys/kernel/task_delayacct";
    if !Path::new(sysctl).exists() {
        return skipped(Missing::Kernel(sysctl));
    }
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let prepare = format!(": >empty && mount --bind empty {sysctl}");
        let script = format!("\"$CTPROF\" -q capture --engine {engine} -o masked");
        let Some((status, said)) = in_mounts(directory.path(), &prepare, &script) else { return };
        assert_eq!(status, 0, "{said}");
        let snapshot = CtprofSnapshot::load(&directory.path().join("masked")).unwrap();
        let measured =
            |delay: &dyn Fn(&ctprof::ThreadState) -> bool| snapshot.threads.iter().filter(|t| delay(t)).count();
        assert_eq!(measured(&|thread| thread.metrics.blkio_delay_total_ns.is_some()), 0, "{engine}");
        assert_eq!(measured(&|thread| thread.metrics.swapin_delay_count.is_some()), 0, "{engine}");
        // The scheduler always measures waits for a CPU.
        assert!(measured(&|thread| thread.metrics.cpu_delay_total_ns.is_some()) > 0, "{engine}");
    }
}
