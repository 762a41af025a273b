//! Captures inside of namespaces: procfs reads the threads, and the capture says why.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use ctprof::CtprofSnapshot;
use ctprof::model::BpfObstacle;

use crate::host::{CgroupDirectory, Killed};
use crate::root::engine_captures::has_bpf;
use crate::root::histories::cgroup_roots;
use crate::support::{Missing, skipped};

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");

/// Processes that sleep: a child, and a grandchild.
const SLEEPERS: &str = "sleep 10 & (sleep 10; true) & sleep 0.2";

/// Runs scripts under other programs. `false` with the reason printed if the first one fails; the second one must succeed.
fn runs(starter: &[&str], prepare: &str, script: &str) -> bool {
    let run = |script: &str| {
        let mut command = Command::new(starter[0]);
        command
            .args(&starter[1..])
            .args(["sh", "-ec", script])
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|done| done.success())
    };
    if !run(prepare) {
        skipped(Missing::Privilege(format!("to run {starter:?}")));
        return false;
    }
    assert!(run(&format!("{prepare}\n{script}")), "{starter:?}: {script}");
    true
}

/// Commands that capture into a directory, and ask for BPF.
fn capture_script(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "{SLEEPERS}\n{CTPROF} -q capture -o {directory}/auto\n! {CTPROF} -q capture --engine bpf -o {directory}/bpf 2>{directory}/refused"
    )
}

/// The capture in a directory, by procfs for this cause. The request of BPF failed with a message that has this text.
fn capture_in(directory: &Path, cause: &BpfObstacle, message: &str) -> CtprofSnapshot {
    let snapshot = CtprofSnapshot::load(&directory.join("auto")).unwrap();
    let capture = snapshot.head.capture.as_ref().unwrap();
    assert_eq!((&*capture.engine, capture.no_bpf.as_ref().map(|why| &why.cause)), ("procfs", Some(cause)));
    let refused = std::fs::read_to_string(directory.join("refused")).unwrap();
    assert!(refused.contains(message), "{refused}");
    snapshot
}

/// What a capture in a PID namespace must have: its own process 1, and the parents of [`SLEEPERS`].
fn check_ids(snapshot: &CtprofSnapshot) {
    let parent = |thread: &ctprof::model::ThreadState| thread.process.as_ref().unwrap().ppid.unwrap();
    let init = snapshot.threads.iter().find(|thread| thread.tgid == 1).unwrap();
    assert_eq!((&*init.comm, parent(init)), ("sh", 0), "its parent is outside");
    let sleepers = snapshot.threads.iter().filter(|thread| &*thread.comm == "sleep");
    let parents: BTreeSet<_> = sleepers.map(parent).collect();
    assert_eq!((parents.first(), parents.len()), (Some(&1), 2), "{parents:?}");
}

const INITIAL_NAMESPACES: &str = "BPF requires the initial PID and time namespaces";

#[test]
fn in_a_pid_or_time_namespace_procfs_reads_the_threads_and_says_why() {
    if !has_bpf() {
        return;
    }
    let pid = &["unshare", "--pid", "--fork", "--mount-proc"][..];
    let time = &["unshare", "--time", "--boottime", "1000", "--monotonic", "-100", "--fork"][..];
    let procfs_of_host = &["unshare", "--pid", "--fork"][..];
    for starter in [pid, time, procfs_of_host] {
        let directory = tempfile::tempdir().unwrap();
        if runs(starter, "true", &capture_script(directory.path())) {
            let snapshot = capture_in(directory.path(), &BpfObstacle::PidNamespace, INITIAL_NAMESPACES);
            if starter == pid {
                check_ids(&snapshot);
            }
            // Numbers of another namespace would be the values of other threads.
            let asks_by_number = snapshot.threads.iter().any(|thread| thread.metrics.hiwater_vm_bytes.is_some());
            assert_eq!(asks_by_number, starter != procfs_of_host, "{starter:?}");
        }
    }
}

#[test]
fn the_owner_of_a_mutex_is_known_in_a_process_of_a_pid_namespace() {
    let directory = tempfile::tempdir().unwrap();
    let [program, window] = ["causes", "window"].map(|name| directory.path().join(name));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/causes.c");
    if Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status().is_err() {
        return skipped(Missing::Tool("cc"));
    }
    let unshare = ["--pid", "--fork", "--kill-child"];
    if !Command::new("unshare").args(unshare).arg("true").status().is_ok_and(|status| status.success()) {
        return skipped(Missing::Privilege("to make a PID namespace"));
    }
    for engine in ["auto", "procfs"] {
        let mut causes = Command::new("unshare");
        causes.args(unshare).arg(&program).arg("20").current_dir(directory.path()).stdout(Stdio::null());
        let _causes = Killed(causes.spawn().unwrap());
        let record = ["-q", "record", "--engine", engine, "-d", "2s", "-o"];
        assert!(Command::new(CTPROF).args(record).arg(&window).status().unwrap().success());
        let Some(reasons) = CtprofSnapshot::load(&window).unwrap().head.reasons else {
            return skipped(Missing::Privilege("samples of threads"));
        };
        let owners: Vec<_> = reasons.reasons.iter().filter_map(|reason| Some(&*reason.by.as_ref()?.pcomm)).collect();
        assert!(owners.contains(&"for-locked"), "{engine}: {owners:?}");
    }
}

/// Enters a root that has only the system's programs and libraries, as in a container.
const ENTER_ROOT: &str = r#"
    mount -t tmpfs tmpfs "$ROOT"
    cd "$ROOT"
    mkdir -p proc tmp dev usr "./$OUT" "./$(dirname "$CTPROF")" old
    touch dev/null && mount --bind /dev/null dev/null
    for directory in usr bin sbin lib lib64; do
        if [ -L "/$directory" ]; then cp -P "/$directory" .; elif [ -d "/$directory" ]; then
            mkdir -p $directory; mount --bind "/$directory" $directory; mount -o remount,bind,ro $directory; fi
    done
    mount --bind "$(dirname "$CTPROF")" "./$(dirname "$CTPROF")"
    mount --bind "$OUT" "./$OUT"
    mount -t proc proc proc
    mkdir sys; mount --bind /sys sys; mount -o remount,bind,ro sys
    pivot_root . old
    cd /; umount -l old; rmdir old
"#;

/// Runs a script in the initial PID namespace, where /sys is empty.
fn runs_without_sys(script: &str) -> bool {
    runs(&["unshare", "--mount"], "mount -t tmpfs tmpfs /sys", script)
}

/// Runs a script as the first process of a container: its own namespaces, cgroup and root.
fn runs_in_a_container(out: &Path, script: &str) -> bool {
    let root = tempfile::tempdir().unwrap();
    let name = format!("ctprof-container-{}", std::process::id());
    let cgroups: Vec<_> = cgroup_roots().iter().filter_map(|parent| CgroupDirectory::create(parent, &name)).collect();
    let enter = cgroups.iter().map(|cgroup| format!("echo 0 >{}/cgroup.procs; ", cgroup.0.display()));
    let (root_path, out) = (root.path().display(), out.display());
    let enter_root = format!("ROOT={root_path} OUT={out} CTPROF={CTPROF}\n{ENTER_ROOT}");
    let namespaces = ["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup"];
    let outside = format!("{}exec \"$@\"", enter.collect::<String>());
    let starter = [&["sh", "-ec", &outside, "sh"], &namespaces[..]].concat();
    runs(&starter, &enter_root, script)
}

#[test]
fn in_a_container_ids_and_cgroups_are_those_of_the_container() {
    let out = tempfile::tempdir().unwrap();
    if !has_bpf() || !runs_in_a_container(out.path(), &capture_script(out.path())) {
        return;
    }
    let snapshot = capture_in(out.path(), &BpfObstacle::PidNamespace, INITIAL_NAMESPACES);
    check_ids(&snapshot);
    let cgroups: BTreeSet<_> = snapshot.threads.iter().map(|thread| thread.cgroup.as_deref().unwrap()).collect();
    assert_eq!(cgroups, ["/"].into(), "the cgroup of the container is its root");
}

#[test]
fn without_sys_procfs_reads_the_threads() {
    let out = tempfile::tempdir().unwrap();
    if !has_bpf() || !runs_without_sys(&capture_script(out.path())) {
        return;
    }
    capture_in(out.path(), &BpfObstacle::NoSysfs, "let ctprof read /sys");
}

#[test]
fn files_are_read_and_written_without_procfs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let json = r#"{"format_version":2,"captured_at_unix_ns":1,"host":{"hostname":"h"},"threads":[
{"tid":1,"tgid":1,"comm":"a"}
]}"#;
    std::fs::write(directory.path().join("snapshot"), json).unwrap();
    let twice = format!("{CTPROF} -q export {path}/snapshot -o {path}/");
    let script =
        format!("for name in set set file.parquet file.parquet; do {twice}$name; done; {CTPROF} show {path}/snapshot");
    if runs(&["unshare", "--mount"], "mount -t tmpfs none /proc", &script) {
        assert!(directory.path().join("file.parquet").is_file() && directory.path().join("set/threads").is_dir());
        let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with('.')), "nothing temporary is left");
    }
}

/// Without /proc a file has a temporary name, as on file systems without unnamed files. NFS is one that cannot rename it
/// without replacing another file either.
#[test]
fn an_earlier_capture_is_kept_where_files_cannot_be_renamed_without_replacing() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return skipped(Missing::Tool("strace"));
    }
    let directory = tempfile::tempdir().unwrap();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/6.12/proc");
    let as_on_nfs = "strace -f -qq -o /dev/null -e trace=renameat2 -e inject=renameat2:error=EINVAL";
    let capture = format!("{as_on_nfs} {CTPROF} -q capture --procfs {}", tree.display());
    let script = format!("cd {}; for _ in 1 2 3; do {capture}; done", directory.path().display());
    if runs(&["unshare", "--mount"], "mount -t tmpfs none /proc", &script) {
        let files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        let loaded: Vec<_> = files.map(|file| CtprofSnapshot::load(&file).is_ok()).collect();
        assert_eq!(loaded, [true; 3], "three whole files, and nothing temporary");
    }
}
