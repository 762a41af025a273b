//! Causes that are planted are the reasons of a window.

use std::process::Command;

use ctprof::CtprofSnapshot;
use ctprof::model::{Reason, ReasonClass, Reasons};

use crate::support::{Missing, skipped};

/// The reasons of a window in which a shell runs a script, with more arguments for `record`. `None` prints why the test is
/// skipped.
fn reasons_of(arguments: &[&str], script: &str) -> Option<Reasons> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    command.args(["-q", "record", "-o"]).arg(&file).args(arguments);
    let status = command.args(["--", "sh", "-c", script]).current_dir(folder.path()).status().unwrap();
    assert!(status.success(), "{status}");
    let reasons = *CtprofSnapshot::load(&file).unwrap().head.reasons.expect("a window has reasons");
    if reasons.sampling.source == "procfs" && arguments.is_empty() {
        skipped(Missing::Privilege("BPF".to_owned()));
        return None;
    }
    Some(reasons)
}

/// The time of each reason of the processes with this name, in seconds, the longest first.
fn times<'r>(reasons: &'r Reasons, pcomm: &str) -> Vec<(f64, &'r Reason)> {
    let place = |number: u64| usize::try_from(number).unwrap();
    let of_process = reasons.times.iter().filter(|time| &*reasons.threads[place(time.threads)].pcomm == pcomm);
    let mut times: Vec<_> = of_process
        .map(|time| (std::time::Duration::from_nanos(time.ns).as_secs_f64(), &reasons.reasons[place(time.reason)]))
        .collect();
    times.sort_by(|one, other| other.0.total_cmp(&one.0));
    times
}

#[test]
fn a_process_that_sleeps_says_so_with_bpf_and_without() {
    for engine in ["auto", "procfs"] {
        // Others may run sleep(1) too.
        let script = "cp \"$(command -v sleep)\" napping; ./napping 3; true";
        let reasons = reasons_of(&["--engine", engine], script).unwrap();
        let (seconds, reason) = times(&reasons, "napping")[0];
        assert_eq!((reason.class, reason.entry.as_deref()), (ReasonClass::Sleep, Some("clock_nanosleep")), "{engine}");
        assert!((1.5..3.8).contains(&seconds), "{engine}: {seconds} s");
    }
}

#[test]
fn a_process_that_writes_through_waits_for_its_file() {
    let script = "timeout 2 dd if=/dev/zero of=written bs=4k count=1000000 oflag=dsync conv=notrunc 2>/dev/null; true";
    let Some(reasons) = reasons_of(&[], script) else { return };
    let times = times(&reasons, "dd");
    let blocked: Vec<_> = times.iter().filter(|(_, reason)| reason.class == ReasonClass::Block).collect();
    let Some((_, first)) = blocked.first() else {
        return skipped(Missing::Kernel("a file system that waits for a disk"));
    };
    assert_eq!(first.entry.as_deref(), Some("write"), "{times:#?}");
    assert!(first.object.as_deref().is_some_and(|object| object.ends_with("/written")), "{times:#?}");
}

#[test]
fn two_programs_on_one_cpu_wait_for_each_other() {
    let script =
        "taskset -c 0 timeout 2 sha256sum /dev/zero & taskset -c 0 timeout 2 gzip -c /dev/zero >/dev/null; wait; true";
    let Some(reasons) = reasons_of(&[], script) else { return };
    for (victim, culprit) in [("gzip", "sha256sum"), ("sha256sum", "gzip")] {
        let times = times(&reasons, victim);
        let waits = times.iter().find(|(_, reason)| reason.class == ReasonClass::Wait).expect("it waits");
        let by = waits.1.by.as_ref().map(|by| &*by.pcomm);
        // Others may use that CPU too.
        let of_culprit = times.iter().filter(|(_, reason)| reason.by.as_ref().is_some_and(|by| &*by.pcomm == culprit));
        let seconds: f64 = of_culprit.map(|(seconds, _)| seconds).sum();
        assert!(by == Some(culprit) || seconds > 0.1, "{victim}: {times:#?}");
    }
}

#[test]
fn a_window_without_samples_has_no_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    assert!(command.args(["-q", "record", "--no-why", "-d", "50ms", "-o"]).arg(&file).status().unwrap().success());
    assert_eq!(CtprofSnapshot::load(&file).unwrap().head.reasons, None);
}
