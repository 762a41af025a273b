//! Completions that shells ask for: names from the file that is typed, and nothing that runs or steers anything.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use serde_json::json;

use crate::stored::program::printed;
use crate::support::{Missing, skipped};

/// Names that a shell would run, split or expand, or that steer a terminal.
const NAMES: [&str; 12] = [
    "make",
    "python3 job.py",
    "$(touch ran)",
    "`touch ran`",
    "it's",
    "postgres: checkpointer",
    "star*",
    "worker[9]",
    "-dash",
    "new\nline",
    "escape\u{1b}[31m",
    // Not printable: what shells write for it, `$'…'`, ends a quote.
    "unassigned\u{378};touch ran;#",
];

/// A directory with a snapshot of processes of these names, and with ctprof as the shells find it.
pub(crate) fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let process = |(tid, name): (usize, &&str)| {
        let cgroup = format!("/cgroup/{tid}");
        json!({"tid": tid, "tgid": tid, "pcomm": name, "comm": name, "cgroup": cgroup, "run_time_ns": 1})
    };
    let threads: Vec<_> = (1..).zip(&NAMES).map(process).collect();
    let snapshot = json!({"format_version": 1, "threads": threads});
    fs::write(directory.path().join("a.json"), snapshot.to_string()).unwrap();
    fs::create_dir(directory.path().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_ctprof"), directory.path().join("bin/ctprof")).unwrap();
    directory
}

/// The lines that a shell prints when it sources the script that ctprof prints, and then runs this one with the arguments; `None`
/// says that the shell is missing.
fn shell(name: &str, directory: &Path, script: &str, arguments: &[&str]) -> Option<Vec<String>> {
    fs::write(directory.join("completions"), printed(&["completions", name])).unwrap();
    let path = format!("{}:{}", directory.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(name);
    command.args(["-c", script, name]).args(arguments).current_dir(directory).env("PATH", path).env("HOME", directory);
    let Ok(output) = command.output() else {
        skipped(Missing::Tool(name));
        return None;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name} {arguments:?}");
    assert!(!directory.join("ran").exists(), "{name} {arguments:?} ran the name of a process");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// What bash puts in place of the last word, as it splits words.
fn bash(directory: &Path, words: &[&str]) -> Vec<String> {
    let script = r#"
        compopt() { :; }
        source ./completions
        COMP_LINE=$1; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_POINT=${#COMP_LINE}
        replaced=${COMP_WORDS[COMP_CWORD]#[\"\']}; [[ $replaced == : ]] && replaced=
        _ctprof ctprof "$replaced" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let line = words.join(" ").replace(" : ", ":").replace(" = ", "=");
    let lines = shell("bash", directory, script, &[&[&*line], words].concat()).unwrap();
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_completes_groups_axes_and_values() {
    let directory = directory();
    let Some(_) = shell("bash", directory.path(), ":", &[]) else { return };
    let complete = |words: &[&str]| bash(directory.path(), &[&["ctprof"], words].concat());
    assert_eq!(complete(&["show", "a.json", "--only", "m"]), ["make"]);
    assert_eq!(complete(&["show", "~/a.json", "--only", "m"]), ["make"]);
    assert_eq!(complete(&["show", "--only", "m"]), [""; 0], "no file is typed");
    assert_eq!(
        complete(&["show", "a.json", "-g", "cgroup", "--only", "/cgroup/1"]),
        ["/cgroup/1", "/cgroup/10", "/cgroup/11", "/cgroup/12"]
    );
    assert_eq!(complete(&["show", "a.json", "--group-by", "=", "cgroup", "--only", "=", "/cgroup/2"]), ["/cgroup/2"]);
    assert_eq!(complete(&["show", "a.json", "--group-by", "c"]), ["command", "cgroup", "container"]);
    assert_eq!(complete(&["show", "a.json", "-m", "run,longe"]), ["run,longest"]);
    assert_eq!(complete(&["show", "a.json", "--sort-by", "longe"]), ["longest"]);
    assert_eq!(complete(&["compare", "a.json", "a.json", "--fail-on", "mak"]), ["make:"]);
    assert_eq!(complete(&["compare", "a.json", "a.json", "--fail-on", "make", ":", "run_t"]), ["run_time_ns\\>"]);
    assert_eq!(complete(&["compare", "a.json", "a.json", "--fail-on", "'make:run_t"]), ["make:run_time_ns>"]);
    assert_eq!(complete(&["compare", "a.json", "a.json", "--fail-on", "'elaps"]), ["elapsed>"]);
    assert_eq!(complete(&["compare", "a.json", "a.json", "--fail-on", "'polic"]), [""; 0], "no number");
    assert_eq!(complete(&["comp"]), ["compare", "completions"]);
    assert_eq!(complete(&["show", "a.j"]), ["a.json"]);
    assert!(complete(&["show", ""]).iter().all(|word| !word.starts_with('-')), "files are not hidden by options");
    assert!(complete(&["show", "--thr"]).is_empty() && complete(&["show", "--onl"]) == ["--only"]);
    let own = std::process::id().to_string();
    assert!(complete(&["record", "-p", &own]).contains(&own));
}

#[test]
fn no_name_runs_in_bash_or_leaves_its_quotes() {
    let directory = directory();
    let Some(_) = shell("bash", directory.path(), ":", &[]) else { return };
    let only = |typed: &str| bash(directory.path(), &["ctprof", "show", "a.json", "--only", typed]);
    let escaped = [
        r"\$\(touch\ ran\)",
        r"\`touch\ ran\`",
        r"it\'s",
        "make",
        r"postgres:\ checkpointer",
        r"python3\ job.py",
        r"star\*",
        r"worker\[9\]",
    ];
    let mut found = only("");
    found.sort();
    let mut expected = escaped.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected, "names that steer a terminal, or look like an option, are left out");
    let is_any = |all: &[String], text: &str| all.iter().any(|word| word.contains(text));
    let (single, double) = (only("'"), only("\""));
    assert!(is_any(&single, "$(touch ran)") && !is_any(&single, "'"), "{single:?}");
    assert!(is_any(&double, "it's") && !is_any(&double, "$") && !is_any(&double, "`"), "{double:?}");
    assert_eq!(only("'python"), ["python3 job.py"]);
    assert_eq!(only(r"python3\ j"), [r"python3\ job.py"]);
}

#[test]
fn files_that_are_missing_damaged_pipes_or_large_have_no_completions_and_take_no_time() {
    let directory = directory();
    let Some(_) = shell("bash", directory.path(), ":", &[]) else { return };
    let path = |name: &str| directory.path().join(name);
    fs::write(path("damaged.json"), "{\"threads\":[{").unwrap();
    nix::unistd::mkfifo(&path("pipe.json"), Mode::S_IRWXU).unwrap();
    fs::File::create(path("large.json")).unwrap().set_len(1 << 40).unwrap();
    let many = format!("{{\"threads\":[{}]}}", vec!["{\"tid\":1,\"tgid\":1,\"pcomm\":\"make\"}"; 1 << 20].join(","));
    fs::write(path("many.json"), many).unwrap();
    for file in ["missing.json", "damaged.json", "pipe.json", "large.json", "/dev/zero", "many.json"] {
        let begin = Instant::now();
        let found = bash(directory.path(), &["ctprof", "show", file, "--only", "m"]);
        assert!(file == "many.json" || found.is_empty(), "{file}: {found:?}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{file}");
    }
}

#[test]
fn zsh_completes_names_with_their_meanings() {
    let directory = directory();
    let script = r#"
        compdef() { :; }
        compadd() { shift 3; print -rl -- "$@" }
        _describe() { print -rl -- "${(@P)2}" }
        source ./completions
        words=("$@") CURRENT=$# PREFIX=${@[-1]#[\'\"]}
        _ctprof"#;
    let complete = |words: &[&str]| shell("zsh", directory.path(), script, &[&["ctprof"], words].concat());
    let Some(found) = complete(&["show", "a.json", "--only", "p"]) else { return };
    assert_eq!(found, [r"postgres\: checkpointer", "python3 job.py"]);
    assert_eq!(complete(&["show", "'a.json'", "--only", "'m"]).unwrap(), ["make"]);
    assert_eq!(complete(&["compare", "a.json", "a.json", "--fail-on", "mak"]).unwrap(), ["make:"]);
    assert_eq!(complete(&["schem"]).unwrap(), ["schema:Print the JSON Schema of what other commands print"]);
    assert_eq!(complete(&["show", "a.json", "--only", "-"]).unwrap(), [""; 0]);
}

#[test]
fn fish_completes_names_with_their_meanings() {
    let directory = directory();
    let script = "source ./completions; complete -C $argv[2]";
    let complete = |line: &str| shell("fish", directory.path(), script, &[line]);
    let Some(found) = complete("ctprof show a.json --only p") else { return };
    assert_eq!(found, ["postgres: checkpointer", "python3 job.py"]);
    assert_eq!(complete("ctprof show a.json --only 'py").unwrap(), ["python3 job.py"]);
    assert_eq!(complete("ctprof schem").unwrap(), ["schema\tPrint the JSON Schema of what other commands print"]);
}

#[test]
fn other_shells_have_scripts_with_all_values() {
    for shell in ["elvish", "powershell"] {
        assert!(printed(&["completions", shell]).contains("--group-by"), "{shell}");
    }
}
