//! Equal values inside of namespaces.

use crate::support::{Missing, skipped};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use ctprof::CtprofSnapshot;
use ctprof::model::BpfObstacle;
use nix::sys::utsname::uname;

use crate::engine_captures::{Captures, has_bpf, threads};
use crate::histories::cgroup_roots;
use crate::host::CgroupFolder;

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");

/// Processes that sleep: a child, and a grandchild.
const SLEEPERS: &str = "sleep 10 & (sleep 10; true) & sleep 0.2";

/// Whether BPF is available in a PID namespace of this kernel, which requires Linux 6.1; prints the reason if not.
fn has_bpf_in_namespaces() -> bool {
    let release = uname().unwrap().release().to_string_lossy().into_owned();
    let version: Vec<u32> = release.split('.').take(2).map(|number| number.parse().unwrap()).collect();
    let is_since = version >= vec![6, 1];
    if !is_since {
        skipped(Missing::Kernel(format!("BPF in PID namespaces, of Linux 6.1: {release}")));
    }
    is_since && has_bpf()
}

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

/// Commands that make a capture with each engine into a folder.
fn capture_script(folder: &str) -> String {
    let capture = |(step, engine): (usize, &str)| {
        format!("{CTPROF} -q capture --no-jemalloc --engine {engine} -o {folder}/{step}")
    };
    Captures::ENGINES.into_iter().enumerate().map(capture).collect::<Vec<_>>().join("\n")
}

/// The captures in a folder, without the capturing process.
fn captures_in(folder: &Path) -> Captures {
    let mut steps = 0..;
    Captures::new(Captures::ENGINES.map(|engine| {
        let file = folder.join(steps.next().unwrap().to_string());
        let mut threads = threads(&CtprofSnapshot::load(&file).unwrap(), engine);
        threads.retain(|_, thread| thread["pcomm"] != "ctprof");
        threads
    }))
}

fn captured_under(starter: &[&str]) -> Option<Captures> {
    if !has_bpf_in_namespaces() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{SLEEPERS}\n{}", capture_script(&folder.path().display().to_string()));
    runs(starter, "true", &script).then(|| captures_in(folder.path()))
}

/// What a capture in a PID namespace must have: its own process 1, and the parents of [`SLEEPERS`].
fn check_ids(captures: &Captures) {
    let bpf = captures.bpf.values();
    let init = bpf.clone().find(|thread| thread["tgid"] == 1).unwrap();
    assert_eq!((&init["comm"], &init["process"]["ppid"]), (&"sh".into(), &0.into()), "its parent is outside");
    let sleepers = bpf.filter(|thread| thread["comm"] == "sleep");
    let parents: BTreeSet<_> = sleepers.map(|thread| thread["process"]["ppid"].as_u64().unwrap()).collect();
    assert_eq!((parents.first(), parents.len()), (Some(&1), 2), "{parents:?}");
}

#[test]
fn ids_in_a_pid_namespace_are_those_of_the_namespace() {
    let nested = ["unshare", "--pid", "--fork"].repeat(2);
    for starter in [&nested[3..], &nested] {
        let Some(captures) = captured_under(&[starter, &["--mount-proc"]].concat()) else { return };
        check_ids(&captures);
        captures.compare(3);
    }
}

#[test]
fn times_in_a_time_namespace_are_those_of_the_namespace() {
    let starter = ["unshare", "--time", "--boottime", "1000", "--monotonic", "-100", "--fork"];
    let Some(captures) = captured_under(&starter) else { return };
    captures.compare(3);
}

/// Enters a root that has only the system's programs and libraries, as in a container.
const ENTER_ROOT: &str = r#"
    mount -t tmpfs tmpfs "$ROOT"
    cd "$ROOT"
    mkdir -p proc tmp dev usr "./$OUT" "./$(dirname "$CTPROF")" old
    touch dev/null && mount --bind /dev/null dev/null
    for folder in usr bin sbin lib lib64; do
        if [ -L "/$folder" ]; then cp -P "/$folder" .; elif [ -d "/$folder" ]; then
            mkdir -p $folder; mount --bind "/$folder" $folder; mount -o remount,bind,ro $folder; fi
    done
    mount --bind "$(dirname "$CTPROF")" "./$(dirname "$CTPROF")"
    mount --bind "$OUT" "./$OUT"
    mount -t proc proc proc
    if [ "$SYS" = yes ]; then mkdir sys; mount --bind /sys sys; mount -o remount,bind,ro sys; fi
    pivot_root . old
    cd /; umount -l old; rmdir old
"#;

/// Runs a script as the first process of a container: its own namespaces, cgroup and root.
fn runs_in_a_container(sys: &str, out: &Path, script: &str) -> bool {
    let root = tempfile::tempdir().unwrap();
    let name = format!("ctprof-container-{sys}-{}", std::process::id());
    let cgroups: Vec<_> = cgroup_roots().iter().filter_map(|parent| CgroupFolder::create(parent, &name)).collect();
    let enter = cgroups.iter().map(|cgroup| format!("echo 0 >{}/cgroup.procs; ", cgroup.0.display()));
    let (root_path, out) = (root.path().display(), out.display());
    let enter_root = format!("ROOT={root_path} OUT={out} CTPROF={CTPROF} SYS={sys}\n{ENTER_ROOT}");
    let namespaces = ["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup"];
    let outside = format!("{}exec \"$@\"", enter.collect::<String>());
    let starter = [&["sh", "-ec", &outside, "sh"], &namespaces[..]].concat();
    runs(&starter, &enter_root, script)
}

#[test]
fn in_a_container_ids_and_cgroups_are_those_of_procfs() {
    if !has_bpf_in_namespaces() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().display().to_string();
    if !runs_in_a_container("yes", out.path(), &format!("{SLEEPERS}\n{}", capture_script(&folder))) {
        return;
    }
    let captures = captures_in(out.path());
    check_ids(&captures);
    let cgroups: BTreeSet<_> = captures.bpf.values().map(|thread| thread["cgroup"].as_str().unwrap()).collect();
    assert_eq!(cgroups, ["/"].into(), "the cgroup of the container is its root");
    captures.compare(3);
}

#[test]
fn in_a_container_without_sys_procfs_reads_the_threads() {
    if !has_bpf() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("auto");
    let fails = format!("! {CTPROF} -q capture --engine bpf -o $OUT/bpf 2>$OUT/refused");
    let script = format!("{SLEEPERS}\n{CTPROF} -q capture -o {}\n{fails}", file.display());
    if !runs_in_a_container("no", out.path(), &script) {
        return;
    }
    let snapshot = CtprofSnapshot::load(&file).unwrap();
    let capture = snapshot.head.capture.unwrap();
    assert_eq!((&*capture.engine, capture.no_bpf.map(|why| why.cause)), ("procfs", Some(BpfObstacle::NoBtf)));
    assert!(snapshot.threads.len() >= 4);
    let refused = std::fs::read_to_string(out.path().join("refused")).unwrap();
    assert!(refused.contains("/sys/kernel/btf/vmlinux"), "{refused}");
}
