//! Where in their code threads wait: the functions that eu-stack finds when it stops them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ctprof::CtprofSnapshot;
use ctprof::model::{CodeFunction, Reasons};

use crate::example::example;
use crate::host::Killed;
use crate::root::attacks_support::attacked;
use crate::support::{Missing, skipped};

/// A stack as names of functions with their files, the innermost first.
type Stack = Vec<(String, String)>;

/// Recordings of a program, and looks at it by eu-stack, on a busy host.
const ATTEMPTS: usize = 12;

/// Starts a program that prints a line when it is ready.
fn started(command: &mut Command) -> Killed {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Killed(child)
}

/// Compiles a program of `tests/programs`; `None` prints why that is not possible.
pub(crate) fn compiled(compiler: &str, source: &str, options: &[&str], directory: &Path) -> Option<PathBuf> {
    let program = directory.join("stacks");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut command = Command::new(compiler);
    command.args(["-O2", "-fomit-frame-pointer", "-pthread", "-o"]).arg(&program).arg(source).args(options);
    let Ok(status) = command.status() else {
        skipped(Missing::Tool(compiler));
        return None;
    };
    assert!(status.success());
    Some(program)
}

/// Whether stacks of a process can be read; prints why not.
pub(crate) fn has_stacks(child: &Child) -> bool {
    reasons(child).is_some()
}

/// The reasons of a process during a second; `None` prints why there are no stacks.
fn reasons(child: &Child) -> Option<Reasons> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut record = Command::new(attacked());
    record.args(["-q", "record", "-d", "1s", "-p", &child.id().to_string(), "-o"]).arg(file.path());
    assert!(record.status().unwrap().success());
    let reasons = CtprofSnapshot::load(file.path()).unwrap().head.reasons;
    let reasons = reasons.filter(|reasons| reasons.sampling.source == "bpf" && reasons.sampling.no_stacks.is_none());
    if reasons.is_none() {
        skipped(Missing::Privilege("BPF, on a kernel that finds threads by their ids"));
    }
    reasons.map(|reasons| *reasons)
}

/// The stacks of the threads with each name.
fn stacks(reasons: &Reasons) -> BTreeMap<String, Vec<Stack>> {
    let place = |number: u64| usize::try_from(number).unwrap();
    let mut stacks = BTreeMap::<String, Vec<Stack>>::new();
    for time in &reasons.times {
        let threads = &reasons.threads[place(time.threads)];
        let Some(stack) = &reasons.reasons[place(time.reason)].stack else { continue };
        let functions = CodeFunction::all(stack).map(|of| (of.module.to_owned(), of.name.to_owned()));
        stacks.entry(threads.comm.to_string()).or_default().push(functions.collect());
    }
    stacks
}

/// The stacks of the threads of a process by name, as eu-stack prints them; `None` prints why there are none.
fn by_eu_stack(child: &Child) -> Option<BTreeMap<String, Stack>> {
    let Ok(output) = Command::new("eu-stack").args(["-r", "-m", "-p", &child.id().to_string()]).output() else {
        skipped(Missing::Tool("eu-stack (elfutils)"));
        return None;
    };
    let (mut stacks, mut name) = (BTreeMap::<String, Stack>::new(), String::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(tid) = line.strip_prefix("TID ") {
            let comm = format!("/proc/{}/task/{}/comm", child.id(), tid.trim_end_matches(':'));
            name = std::fs::read_to_string(comm).unwrap_or_default().trim_end().to_owned();
        }
        // `#1  0x00007f8912345678 function - /usr/lib/libc.so.6`, with or without a name.
        let Some((front, file)) = line.trim_start().strip_prefix('#').and_then(|line| line.split_once(" - ")) else {
            continue;
        };
        let symbol = front.split_ascii_whitespace().nth(2).unwrap_or_default();
        let module = file.rsplit('/').next().unwrap_or_default();
        stacks.entry(name.clone()).or_default().push((module.to_owned(), demangled(symbol)));
    }
    Some(stacks)
}

fn demangled(symbol: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return last_part(&format!("{name:#}"));
    }
    let name = cpp_demangle::Symbol::new(symbol).ok();
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let name = name.and_then(|name| name.demangle_with_options(&options).ok());
    name.map_or_else(|| symbol.split(['.', '@']).next().unwrap_or_default().to_owned(), |name| last_part(&name))
}

/// The last part of a path without arguments of templates, which tells the functions of these programs apart.
fn last_part(path: &str) -> String {
    let mut path = path.to_owned();
    while let Some((start, end)) = path.find('>').and_then(|end| Some((path[..end].rfind('<')?, end))) {
        path.replace_range(start..=end, "");
    }
    let parts = path.rsplit("::").map(|part| part.split(['#', '(', '{', '}']).find(|name| !name.is_empty()));
    parts.flatten().next().unwrap_or_default().to_owned()
}

/// Whether both are the same stack. Of a function of a library that has several names, each takes another; eu-stack may
/// leave out the outermost function.
fn are_same(stack: &Stack, other: &Stack) -> bool {
    let is_same = |((module, name), (other_module, other_name)): (&(String, String), &(String, String))| {
        module == other_module && (last_part(name) == last_part(other_name) || module.contains(".so"))
    };
    stack.len().abs_diff(other.len()) <= 1 && stack.iter().zip(other).all(is_same)
}

/// Compares the stacks of all threads of a program, of which each has at least so many functions.
fn compare_with_eu_stack(program: &Killed, names: &[(&str, usize)]) {
    let mut missing: Vec<_> = names.to_vec();
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some(recorded) = reasons(&program.0) else { return };
        let recorded = stacks(&recorded);
        for _ in 0..ATTEMPTS {
            let Some(theirs) = by_eu_stack(&program.0) else { return };
            missing.retain(|(name, least)| {
                let theirs = theirs.get(*name).filter(|stack| stack.len() >= *least);
                let own = recorded.get(*name);
                !theirs.zip(own).is_some_and(|(theirs, own)| own.iter().any(|own| are_same(own, theirs)))
            });
            if missing.is_empty() {
                return;
            }
            seen = vec![format!("{theirs:#?}")];
        }
        seen.push(format!("{recorded:#?}"));
    }
    panic!("{missing:?}: eu-stack and ctprof: {}", seen.join("\n"));
}

#[test]
fn stacks_of_c_without_frame_pointers_are_those_of_eu_stack() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("cc", "stacks.c", &[], directory.path()) else { return };
    let program = started(&mut Command::new(program));
    let names = [("stacks", 4), ("deep", 34), ("wide", 5), ("condition", 5), ("handler", 7), ("owner", 5)];
    compare_with_eu_stack(&program, &names);
}

#[test]
fn stacks_of_cpp_are_those_of_eu_stack() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("c++", "stacks.cc", &[], directory.path()) else { return };
    compare_with_eu_stack(&started(&mut Command::new(program)), &[("condition", 6), ("handled", 6)]);
}

#[test]
fn stacks_of_rust_are_those_of_eu_stack() {
    let program = started(&mut Command::new(example("stacks")));
    compare_with_eu_stack(&program, &[("condition", 10), ("receiver", 10), ("stacks", 10)]);
}

#[test]
fn a_stack_in_pages_that_nobody_fills_or_without_end_delays_no_recording() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("cc", "stacks.c", &[], directory.path()) else { return };
    let program = started(Command::new(program).arg("withheld"));
    for attempt in 1..=ATTEMPTS {
        let begin = Instant::now();
        let Some(recorded) = reasons(&program.0) else { return };
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
        if !recorded.threads.iter().any(|threads| &*threads.comm == "withheld") {
            return skipped(Missing::Kernel("userfaultfd, on x86-64"));
        }
        let stacks = stacks(&recorded);
        let withheld = stacks.get("withheld").into_iter().flatten().map(Vec::len).max();
        assert!(withheld.is_none_or(|longest| longest == 1), "{stacks:#?}");
        let longest = stacks.get("cyclic").into_iter().flatten().map(Vec::len).max();
        assert!(longest.is_none_or(|longest| longest <= 128), "{stacks:#?}");
        let of_others =
            stacks.get("deep").into_iter().flatten().any(|stack| stack.iter().any(|(_, name)| name == "deep"));
        if of_others && longest.is_some_and(|longest| longest >= 32) {
            return;
        }
        assert!(attempt < ATTEMPTS, "{stacks:#?}");
    }
}
