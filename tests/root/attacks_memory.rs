//! A user with file capabilities of ctprof reads the memory of programs that are not theirs: a process executes such a
//! program after ctprof has decided what to read of it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ctprof::CtprofSnapshot;

use crate::host::Killed;
use crate::root::attacks_support::{Granted, as_nobody, directory, finished, said, set_mode};
use crate::support::{Missing, copy_program, skipped};

/// What `attack_exec.c` has in memory as a victim.
const SECRET: u64 = 0x5ec7_e75e_c7e7;

/// The attacker, the setuid program, and ctprof.
struct Attack {
    granted: Granted,
    attacker: PathBuf,
    victim: PathBuf,
}

/// Which process executes the victim, and when.
#[derive(Clone, Copy)]
enum Moment {
    /// While the files of its own program are examined.
    Examined,
    /// While another process is examined: after the threads were listed, and before anything of it was opened.
    Listed,
}

impl Attack {
    fn prepare() -> Option<Self> {
        let granted = Granted::new()?;
        let [plain, attacker, victim] = ["plain", "attacker", "victim"].map(|name| granted.directory().join(name));
        compile(&plain, &[]);
        // Fixed addresses, which an attacker knows from the program's file.
        compile(&victim, &["-no-pie", "-DVICTIM"]);
        copy_program(&plain, &attacker);
        assert!(Command::new(&plain).arg("pad").arg(&attacker).status().unwrap().success());
        set_mode(&victim, 0o4755);
        Some(Self { granted, attacker, victim })
    }

    /// A thread pointer with which the counters would be in the middle of the victim's secret.
    fn chosen_pointer(&self, moment: Moment) -> u64 {
        let (secret, of_victim) = location(&self.victim);
        let (_, of_attacker) = location(&self.attacker);
        let distance = match moment {
            Moment::Examined => of_attacker,
            Moment::Listed => of_victim,
        };
        (secret + 800).checked_add_signed(-distance).unwrap()
    }

    /// Asserts that a capture has no words of the victim. Returns whether the attacker executed the victim while ctprof ran.
    fn attack(&self, engine: &str, pointer: u64, moment: Moment) -> bool {
        let snapshot = self.granted.directory().join("out/snapshot");
        let _ = std::fs::remove_file(&snapshot);
        let mut attack = as_nobody(&self.attacker);
        attack.args(["run".as_ref(), self.granted.program.as_os_str(), engine.as_ref(), snapshot.as_os_str()]);
        attack.arg(&self.victim).arg(pointer.to_string());
        attack.arg(if matches!(moment, Moment::Examined) { "1" } else { "2" });
        let output = finished(&mut attack).expect("the attack hangs");
        assert!(output.status.success(), "{output:?}");
        assert!(!has_secret(&snapshot), "{engine}: words of a setuid program");
        said(&output).contains("ran")
    }

    fn check_engine(&self, engine: &str, pointer: u64, moment: Moment) {
        // A busy host may give the attacker no time before ctprof ends.
        let attacks = (0..ATTEMPTS).filter(|_| self.attack(engine, pointer, moment)).take(ATTACKS).count();
        assert_eq!(attacks, ATTACKS, "{engine}: attacks of {ATTEMPTS} attempts");
    }
}

/// Attacks that have to happen with each engine, and attempts of them at most.
const ATTACKS: usize = 3;
const ATTEMPTS: usize = 30;

/// Whether words of the victim are in a snapshot.
fn has_secret(snapshot: &Path) -> bool {
    let captured = CtprofSnapshot::load(snapshot).unwrap();
    let values = captured.threads.iter().flat_map(|thread| {
        let metrics = &thread.metrics;
        [metrics.allocated_bytes, metrics.deallocated_bytes].map(|bytes| bytes.map(u64::from))
    });
    values.flatten().any(|value| value == SECRET)
}

fn compile(program: &Path, options: &[&str]) {
    compile_source("attack_exec.c", program, options);
}

fn compile_source(source: &str, program: &Path, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let compiled = Command::new("cc").args(["-O1", "-g"]).args(options).arg("-o").arg(program).arg(source).output();
    assert!(compiled.as_ref().is_ok_and(|compiled| compiled.status.success()), "{compiled:?}");
}

/// The address of the secret, and the distance of the counters from the thread pointer.
fn location(program: &Path) -> (u64, i64) {
    let output = Command::new(program).arg("where").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (secret, distance) = text.trim().split_once(' ').unwrap();
    (secret.parse().unwrap(), distance.parse().unwrap())
}

#[test]
fn a_setcap_copy_reads_no_memory_of_a_setuid_program_that_is_executed_meanwhile() {
    let Some(attack) = Attack::prepare() else { return };
    attack.granted.writable("out");
    // By procfs, the thread pointer is the victim's own: the attacker chooses the distance from it.
    attack.check_engine("procfs", 0, Moment::Examined);
    if crate::root::engine_captures::has_bpf() {
        attack.check_engine("bpf", attack.chosen_pointer(Moment::Examined), Moment::Examined);
    }
}

#[test]
fn a_thread_pointer_of_the_program_before_is_not_used_for_the_next_one() {
    let Some(attack) = Attack::prepare() else { return };
    attack.granted.writable("out");
    if crate::root::engine_captures::has_bpf() {
        attack.check_engine("bpf", attack.chosen_pointer(Moment::Listed), Moment::Listed);
    }
}

/// A file system in memory, whose files have low inode numbers; unmounted at the end.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: PathBuf) -> Option<Self> {
        directory(&path, 0o755);
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "mode=755", "tmpfs"]).arg(&path).status();
        done.is_ok_and(|status| status.success()).then_some(Self(path))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// A program that prints, and then waits for the end of its input.
fn waiting(command: &mut Command) -> Option<Killed> {
    let mut process = Killed(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = [0];
    let mut output = BufReader::new(process.0.stdout.take().unwrap());
    std::io::Read::read_exact(&mut output, &mut said).ok()?;
    // The rest of the line, if it is one.
    if said != *b"v" {
        output.read_line(&mut String::new()).ok()?;
    }
    Some(process)
}

/// Captures the attacker and then a program of root's.
fn check_layout(attack: &Attack, program: &Path, shown: &[&Path]) {
    let snapshot = attack.granted.writable("out").join("snapshot");
    let attacker = attack.granted.directory().join("attack_layout");
    compile_source("attack_layout.c", &attacker, &[]);
    let Some(attacker) = waiting(as_nobody(&attacker).arg(program).args(shown)) else {
        return skipped(Missing::Privilege("namespaces of ordinary users"));
    };
    let victim = waiting(&mut Command::new(program)).unwrap();
    let pids = [&attacker, &victim].map(|process| process.0.id().to_string());
    let capture = ["capture", "-q", "--jobs", "1", "--pid", &pids[0], "--pid", &pids[1], "-o"];
    let output = attack.granted.run(capture.iter().map(AsRef::as_ref).chain([snapshot.as_os_str()]));
    assert!(output.status.success(), "{output:?}");
    assert!(!has_secret(&snapshot), "words of root's program");
}

#[test]
fn a_file_with_the_number_of_another_does_not_say_where_the_others_counters_are() {
    let Some(attack) = Attack::prepare() else { return };
    let Some(low) = Mounted::at(attack.granted.directory().join("low")) else {
        return skipped(Missing::Privilege("mount"));
    };
    (0..8).for_each(|number| std::fs::write(low.0.join(number.to_string()), "").unwrap());
    let program = low.0.join("victim");
    copy_program(&attack.victim, &program);
    set_mode(&program, 0o755);
    check_layout(&attack, &program, &[&attack.granted.directory().join("plain")]);
}

#[test]
fn debug_information_in_the_root_of_one_process_does_not_say_where_anothers_counters_are() {
    let Some(attack) = Attack::prepare() else { return };
    let [program, forged] = ["stripped", "forged"].map(|name| attack.granted.directory().join(name));
    let id = "-Wl,--build-id=0xc0ffee0123456789";
    compile(&program, &["-no-pie", "-DVICTIM", "-s", id]);
    compile(&forged, &[id]);
    check_layout(&attack, &program, &[&forged, Path::new("/usr/lib/debug/.build-id/c0/ffee0123456789.debug")]);
}
