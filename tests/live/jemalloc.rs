//! jemalloc counters of real programs, compared with the statistics of their own jemalloc.
//!
//! Skipped with the reason if not installed: redis-server, libjemalloc2, musl.
#![cfg(target_arch = "x86_64")]

use crate::support::{Missing, skipped};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ctprof::capture::{Engine, Options, Route, capture_with, inspect};
use ctprof::model::ProbeFailure;
use ctprof::{CtprofSnapshot, capture_pid};

fn heap() -> PathBuf {
    crate::example::example("heap")
}

/// A program that prints the bytes its threads allocated and freed, and then waits.
struct Parked {
    child: Child,
    stdin: Option<ChildStdin>,
    said: BTreeMap<u32, (u64, u64)>,
}

impl Parked {
    fn start(command: &mut Command) -> Option<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut said = BTreeMap::new();
        for line in lines {
            if line == "ready" {
                return Some(Self { child, stdin, said });
            }
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            said.insert(u32::try_from(numbers[0]).unwrap(), (numbers[1], numbers[2]));
        }
        let _ = child.wait();
        None
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn counters(snapshot: &CtprofSnapshot) -> BTreeMap<u32, (u64, u64)> {
    let read = snapshot.threads.iter().filter_map(|thread| {
        let metrics = &thread.metrics;
        Some((thread.tid, (metrics.allocated_bytes?.number(), metrics.deallocated_bytes?.number())))
    });
    read.collect()
}

/// Whether other processes can be attached to.
fn may_probe() -> bool {
    let allowed = Parked::start(&mut Command::new(heap()))
        .is_some_and(|heap| capture_pid(heap.child.id()).unwrap().head.probe_summary.unwrap().probed_ok > 0);
    if !allowed {
        skipped(Missing::Privilege("ptrace"));
    }
    allowed
}

/// Starts a program and expects exactly its own numbers for every thread.
fn agrees(what: &str, command: &mut Command) -> bool {
    let Some(parked) = Parked::start(command) else { return false };
    let snapshot = capture_pid(parked.child.id()).unwrap();
    let read = counters(&snapshot);
    println!("{what}: {} threads read of {}, equal: {}", read.len(), parked.said.len(), read == parked.said);
    assert_eq!(read, parked.said, "{what}: {:?}", snapshot.head.probe_summary);
    true
}

fn tool(program: &str, args: &[&str], files: &[&Path]) {
    let done = Command::new(program).args(args).args(files).output().unwrap();
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
}

fn route(path: &Path) -> Result<Route, ProbeFailure> {
    inspect(&fs::read(path).unwrap()).map(|layout| layout.route)
}

#[test]
fn a_program_agrees_however_it_was_built() {
    if !may_probe() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let built = |name: &str| dir.path().join(name);
    crate::support::copy_program(heap(), built("whole"));
    for (name, program, args) in [
        ("without debug information", "strip", &["-g", "-o"][..]),
        ("compressed by zlib", "objcopy", &["--compress-debug-sections=zlib"]),
        ("compressed by zstd", "objcopy", &["--compress-debug-sections=zstd"]),
    ] {
        let (from, to) = (heap(), built(name));
        let files = if program == "strip" { [to.as_path(), from.as_path()] } else { [from.as_path(), to.as_path()] };
        tool(program, args, &files);
    }
    for (name, expected) in [
        ("whole", Route::Dwarf),
        ("without debug information", Route::Symbol),
        ("compressed by zlib", Route::Dwarf),
        ("compressed by zstd", Route::Dwarf),
    ] {
        // On a busy host, the time that reading debug information may take can pass.
        let is_found = (0..10).any(|_| route(&built(name)) == Ok(expected));
        assert!(is_found, "{name}: {:?} for {expected:?}", route(&built(name)));
        assert!(agrees(&format!("heap, {name}, {expected:?}"), &mut Command::new(built(name))));
    }
}

#[test]
fn large_debug_information_of_a_known_build_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let [program, section] = ["heap", "section"].map(|name| dir.path().join(name));
    for (mib, expected) in [(1, Route::Dwarf), (17, Route::Symbol)] {
        fs::write(&section, vec![0; mib << 20]).unwrap();
        tool("objcopy", &[&format!("--add-section=.debug_addr={}", section.display())], &[&heap(), &program]);
        assert_eq!(route(&program), Ok(expected), "{mib} MiB");
    }
}

#[test]
fn a_fully_stripped_program_is_refused_and_not_guessed() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("heap");
    tool("strip", &["-o"], &[&program, &heap()]);
    // Its thread-local block has other data as well, so that the offset is unknown.
    assert!(matches!(route(&program), Err(ProbeFailure::UnknownLayout | ProbeFailure::JemallocNotFound)));
    let parked = Parked::start(&mut Command::new(&program)).unwrap();
    let snapshot = capture_pid(parked.child.id()).unwrap();
    assert_eq!(counters(&snapshot), BTreeMap::new());
}

#[test]
fn a_static_program_agrees() {
    let target = heap().ancestors().nth(3).unwrap().join("musl/x86_64-unknown-linux-musl/debug/heap");
    if !target.exists() {
        return skipped(Missing::Tool("a heap for x86_64-unknown-linux-musl (.ci/run builds it)"));
    }
    if may_probe() {
        assert!(agrees("heap, static musl", &mut Command::new(target)));
    }
}

#[test]
fn a_program_in_its_own_namespaces_agrees() {
    let script = "mount -t tmpfs tmpfs /mnt && cp \"$0\" /mnt/heap && exec /mnt/heap";
    let args = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script];
    let Some(parked) = Parked::start(Command::new("unshare").args(args).arg(heap())) else {
        return skipped(Missing::Privilege("to create namespaces"));
    };
    if !may_probe() {
        return;
    }
    // Thread ids are those of its namespace, so only the numbers can be compared.
    let snapshot = ctprof::capture().unwrap();
    let of_it = |thread: &&ctprof::ThreadState| &*thread.pcomm == "heap" && thread.tgid != parked.child.id();
    let read =
        snapshot.threads.iter().filter(of_it).filter_map(|thread| Some(thread.metrics.allocated_bytes?.number()));
    let read: Vec<u64> = read.collect();
    for (allocated, _) in parked.said.values() {
        assert!(read.contains(allocated), "{allocated} is not in {read:?}");
    }
}

/// A stripped program, with its debug file by build id, as in distributions.
#[test]
fn a_debug_file_is_found_by_its_build_id_in_the_processs_own_root() {
    if !may_probe() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [program, other] = ["abcdef0123456789", "abcdef01234567ff"]
        .map(|id| compile(dir.path(), "fake_jemalloc.c", id, &["-g", &format!("-Wl,--build-id=0x{id}")]));
    let [own, foreign] = [&program, &other].map(|program| {
        let debug = program.with_extension("debug");
        tool("objcopy", &["--only-keep-debug"], &[program, &debug]);
        debug
    });
    tool("strip", &[], &[&program]);
    let script = "mkdir -p /usr/lib/debug && mount -t tmpfs tmpfs /usr/lib/debug && \
                  mkdir -p /usr/lib/debug/.build-id/ab && \
                  cp \"$0\" /usr/lib/debug/.build-id/ab/cdef0123456789.debug && exec \"$1\"";
    for (debug, is_own) in [(&own, true), (&foreign, false)] {
        let mut command = Command::new("unshare");
        let Some(parked) = Parked::start(command.args(["--mount", "sh", "-c", script]).arg(debug).arg(&program)) else {
            return skipped(Missing::Privilege("to create mount namespaces"));
        };
        let expected = if is_own { parked.said.clone() } else { BTreeMap::new() };
        assert_eq!(counters(&capture_pid(parked.child.id()).unwrap()), expected, "{}", debug.display());
    }
}

fn library() -> Option<PathBuf> {
    let found = ["/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib64/libjemalloc.so.2"].map(PathBuf::from);
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        skipped(Missing::Tool("libjemalloc.so.2"));
    }
    found
}

#[test]
fn a_stripped_library_that_is_preloaded_agrees() {
    let Some(library) = library() else { return };
    if !may_probe() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("preload");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/preload_jemalloc.c");
    tool("cc", &["-O1", "-pthread", "-o"], &[&program, &source]);
    println!("{}: {:?}", library.display(), route(&library));
    assert!(agrees("C program, LD_PRELOAD", Command::new(&program).env("LD_PRELOAD", &library)));
}

#[test]
fn redis_counts_what_it_says_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock").display().to_string();
    let mut server = Command::new("redis-server");
    let server = server.args(["--port", "0", "--save", "", "--unixsocket", &socket]).current_dir(dir.path());
    let Ok(server) = server.stdin(Stdio::null()).stdout(Stdio::null()).spawn() else {
        return skipped(Missing::Tool("redis-server"));
    };
    let server = Ended(server);
    let ask = |words: &[&str]| {
        let out = Command::new("redis-cli").args(["-s", &socket]).args(words).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    while !ask(&["ping"]).contains("PONG") {
        thread::sleep(Duration::from_millis(20));
    }
    if !may_probe() {
        return;
    }
    let live = || -> i128 {
        let snapshot = capture_pid(server.0.id()).unwrap();
        counters(&snapshot).values().map(|(allocated, freed)| i128::from(*allocated) - i128::from(*freed)).sum()
    };
    let own = || -> i128 {
        let info = ask(&["info", "memory"]);
        let line = info.lines().find_map(|line| line.strip_prefix("allocator_allocated:")).unwrap();
        line.trim().parse().unwrap()
    };
    let before = live();
    let fill = "for i = 1, 50000 do redis.call('set', 'key' .. i, string.rep('x', 200)) end";
    ask(&["eval", fill, "0"]);
    let (after, says) = (live(), own());
    println!("redis: {before} bytes live, then {after}; says {says}");
    assert!(after - before > 50_000 * 200);
    assert!((after - says).abs() < says / 10, "{after} read, {says} said");
}

/// The toolchain's `rustc`, if it has jemalloc.
fn rustc_with_jemalloc() -> Option<PathBuf> {
    let Ok(said) = Command::new("rustc").args(["--print", "sysroot"]).output() else {
        skipped(Missing::Tool("rustc"));
        return None;
    };
    let rustc = Path::new(String::from_utf8_lossy(&said.stdout).trim()).join("bin/rustc");
    let has_jemalloc = fs::read(&rustc).unwrap().windows(10).any(|text| text == b"<jemalloc>");
    if !has_jemalloc {
        skipped(Missing::Tool(format!("{} with jemalloc", rustc.display())));
    }
    has_jemalloc.then_some(rustc)
}

#[test]
fn a_compiling_rustc_is_read_without_debug_information() {
    let Some(rustc) = rustc_with_jemalloc() else { return };
    if !may_probe() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(&rustc);
    let command = command.args(["-", "--crate-type", "lib", "--emit", "metadata", "--out-dir"]).arg(dir.path());
    // It reads its source from standard input, which does not end.
    let compiler = Ended(command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let read = (0..200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        counters(&capture_pid(compiler.0.id()).unwrap()).values().any(|(allocated, _)| *allocated > 0)
    });
    assert!(read, "{:?}", route(&rustc));
}

#[test]
fn a_program_with_another_allocator_is_not_a_failure() {
    let sleep = Ended(Command::new("sleep").arg("100").spawn().unwrap());
    thread::sleep(Duration::from_millis(50));
    let summary = capture_pid(sleep.0.id()).unwrap().head.probe_summary.unwrap();
    assert_eq!((summary.failed, summary.jemalloc_detected), (0, 0), "{summary:?}");
    assert_eq!(summary.failures, BTreeMap::from([(ProbeFailure::JemallocNotFound, 1)]));
}

#[test]
fn wrong_headers_are_a_tag_and_never_a_wild_read() {
    let whole = fs::read(heap()).unwrap();
    let tls = (0..64).map(|n| 64 + 56 * n).find(|at| whole[*at..at + 4] == [7, 0, 0, 0]).unwrap();
    for (at, value) in
        [(tls + 40, 16u64), (tls + 40, u64::MAX), (tls + 48, 3), (tls + 48, u64::MAX), (tls + 16, u64::MAX)]
    {
        let mut wrong = whole.clone();
        wrong[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        let outcome = inspect(&wrong);
        assert!(
            outcome.is_ok() || matches!(outcome, Err(ProbeFailure::TlsArithmetic | ProbeFailure::UnknownLayout)),
            "{outcome:?}"
        );
    }
}

/// Compiles `tests/programs/<source>` into `dir`.
fn compile(dir: &Path, source: &str, name: &str, args: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let program = dir.join(name);
    let mut compiler = Command::new("cc");
    let compiler = compiler.current_dir(dir).args(["-pthread", "-o"]).arg(&program).arg(source).args(args);
    let done = compiler.output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    program
}

#[test]
fn every_spelling_and_every_place_of_debug_information_is_found() {
    if !may_probe() {
        return;
    }
    let old = "-DMEMBER(name)=use_a_getter_or_setter_instead_##name";
    let new = "-DMEMBER(name)=cant_access_tsd_items_directly_use_a_getter_or_setter_##name";
    for (name, args) in [
        ("plain", &["-g"][..]),
        ("prefix je_, of 5.0", &["-g", "-DPREFIX=je_", old]),
        ("prefix _rjem_je_, of 5.2", &["-g", "-DPREFIX=_rjem_je_", new]),
        ("version 4 of the format", &["-gdwarf-4"]),
        ("position dependent", &["-g", "-no-pie"]),
        ("static", &["-g", "-static"]),
        ("static-pie", &["-g", "-static-pie"]),
        ("types in units of their own", &["-gdwarf-5", "-fdebug-types-section"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), "fake_jemalloc.c", "fake", args);
        assert!(agrees(&format!("fake, {name}"), &mut Command::new(&program)));
    }
}

#[test]
fn a_library_is_found_by_the_slot_that_the_dynamic_linker_filled() {
    if !may_probe() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let library = compile(dir.path(), "fake_jemalloc.c", "libfake.so", &["-g", "-shared", "-fPIC", "-DLIBRARY"]);
    let search = format!("-Wl,-rpath,{}", dir.path().display());
    let program = compile(dir.path(), "shared_jemalloc.c", "main", &[&library.display().to_string(), &search]);
    assert!(agrees("fake, shared object", &mut Command::new(&program)));
}

/// A program of which a thread waits for its child by vfork(2), and cannot be stopped until the input ends.
fn waiting_for_child(directory: &Path) -> Parked {
    let program = compile(directory, "fake_jemalloc.c", "fake", &["-g", "-DVFORK"]);
    Parked::start(&mut Command::new(&program)).unwrap()
}

#[test]
fn a_thread_that_cannot_be_stopped_costs_one_bounded_wait_and_runs_on() {
    if !may_probe() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut parked = waiting_for_child(dir.path());
    thread::sleep(Duration::from_millis(50));
    let begin = Instant::now();
    let mut options = Options::default();
    // BPF stops no thread.
    (options.pids, options.engine) = (vec![parked.child.id()], Engine::Procfs);
    let snapshot = capture_with(&options).unwrap();
    assert!(begin.elapsed() < Duration::from_millis(900), "{:?}", begin.elapsed());
    let summary = snapshot.head.probe_summary.as_ref().unwrap();
    assert_eq!((summary.probed_ok, summary.failures.get(&ProbeFailure::Waitpid)), (3, Some(&1)), "{summary:?}");
    let (read, mut said) = (counters(&snapshot), parked.said.clone());
    said.remove(&parked.child.id());
    assert_eq!(read, said);
    // The child exits at the end of its input; the thread that waits for it must not be stopped.
    drop(parked.stdin.take());
    assert!((0..200).any(|_| {
        thread::sleep(Duration::from_millis(10));
        parked.child.try_wait().unwrap().is_some()
    }));
}

#[test]
fn a_thread_that_is_stopped_late_does_not_wait_for_the_end_of_a_window() {
    if !may_probe() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut parked = waiting_for_child(dir.path());
    let id = parked.child.id().to_string();
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_ctprof"));
    recorder.args(["record", "-q", "--engine", "procfs", "--no-why", "-d", "6s", "-p", &id]).stdout(Stdio::null());
    let mut recorder = Ended(recorder.spawn().unwrap());
    thread::sleep(Duration::from_millis(1500));
    // The thread that waits for its child by vfork(2) goes on, and all exit, long before the window ends.
    drop(parked.stdin.take());
    let begin = Instant::now();
    while parked.child.try_wait().unwrap().is_none() {
        assert!(recorder.0.try_wait().unwrap().is_none(), "stopped for the whole window");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
