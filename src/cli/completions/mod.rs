//! Shell completions: the scripts, and the words that they ask for while a command is typed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, thread};

use clap::{Arg, CommandFactory, Parser};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete};

use super::{Args, Command, DigestReader, Messages, part_of, to_stdout};
use crate::compare::{ELAPSED, Sides, gate_metrics, report};
use crate::model::Section;
use crate::process::Privileges;
use crate::report::escaped;

/// Environment variable with which a script asks for completions: the number of the word that is typed. The words follow `--`.
const ASKED: &str = "CTPROF_COMPLETE";
/// Nobody waits longer for completions. What was not read by then has none.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Larger files have no completions.
const LARGEST_FILE: u64 = 64 << 20;
const MOST_UNCOMPRESSED: &str = "256M";

/// Prints the script for a shell.
pub(super) fn script(shell: Shell) -> anyhow::Result<()> {
    let script = match shell {
        Shell::Bash => include_str!("ctprof.bash").into(),
        Shell::Zsh => include_str!("ctprof.zsh").into(),
        Shell::Fish => include_str!("ctprof.fish").into(),
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut Args::command(), "ctprof", &mut script);
            script
        }
    };
    to_stdout(|out| out.write_all(&script))
}

/// Prints the completions that a script asks for, each on a line with its meaning; `None` if no script asks. If something fails,
/// there are none: the user is typing.
pub(super) fn answer() -> Option<ExitCode> {
    let place = env::var(ASKED).ok()?.parse().ok()?;
    std::panic::set_hook(Box::new(|_| {}));
    if Privileges::Files.keep().is_ok() {
        let mut words = words();
        words.resize(words.len().max(place + 1), OsString::new());
        let found = complete(&mut command(), words.clone(), place, env::current_dir().ok().as_deref());
        let found = found.unwrap_or_default();
        let is_option = |value: &OsStr| value.as_encoded_bytes().starts_with(b"-");
        // Where a file can follow, sixty options would hide it.
        let has_options = is_option(&words[place]) || found.iter().all(|one| is_option(one.get_value()));
        let mut lines = String::new();
        for one in found.iter().filter(|one| has_options || !is_option(one.get_value())) {
            let help = one.get_help().map(ToString::to_string).unwrap_or_default();
            let (value, help) = (one.get_value().to_string_lossy(), help.lines().next().unwrap_or_default());
            if [&*value, help].iter().all(|text| escaped(text) == *text) {
                lines += &format!("{value}\t{help}\n");
            }
        }
        to_stdout(|out| out.write_all(lines.as_bytes())).ok();
    }
    Some(ExitCode::SUCCESS)
}

/// The command line, with what completes values that no list has.
fn command() -> clap::Command {
    let with_values = |option: Arg| match option.get_id().as_str() {
        "only" | "why" => option.add(ArgValueCompleter::new(groups)),
        "fail_on" => option.add(ArgValueCompleter::new(gates)),
        "pids" => option.add(ArgValueCompleter::new(processes)),
        "export" => option.add(ArgValueCompleter::new(exports)),
        _ => option,
    };
    Args::command().mut_subcommands(|command| command.mut_args(with_values))
}

/// The words that are typed.
fn words() -> Vec<OsString> {
    env::args_os().skip_while(|word| word != "--").skip(1).collect()
}

/// Completes names of groups of the files that are typed.
fn groups(typed: &OsStr) -> Vec<CompletionCandidate> {
    starting_with(typed, group_names().into_iter())
}

/// Completes gates: a group, a value, or a value of a group.
fn gates(typed: &OsStr) -> Vec<CompletionCandidate> {
    let text = typed.to_string_lossy();
    let group = text.rfind(':').map_or("", |end| &text[..=end]);
    let metrics =
        gate_metrics().filter(|name| group.is_empty() || *name != ELAPSED).map(|name| format!("{group}{name}>"));
    let groups = group_names().into_iter().map(|name| format!("{name}:"));
    starting_with(typed, groups.chain(metrics))
}

/// Completes the file that follows a format.
fn exports(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some((format, file)) = typed.to_str().and_then(|typed| typed.split_once('=')) else { return Vec::new() };
    let with_format = |file: CompletionCandidate| file.add_prefix(format!("{format}="));
    PathCompleter::any().complete(OsStr::new(file)).into_iter().map(with_format).collect()
}

/// Completes ids of processes, with their names as meaning.
fn processes(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let process = |entry: fs::DirEntry| {
        let pid = entry.file_name().into_string().ok()?;
        let is_typed = pid.parse::<u32>().is_ok() && pid.starts_with(&*typed);
        let name = is_typed.then(|| fs::read_to_string(entry.path().join("comm")))?.ok()?;
        Some(CompletionCandidate::new(pid).help(Some(name.trim_end().to_owned().into())))
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(process).collect()
}

fn starting_with(typed: &OsStr, all: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    all.filter(|name| name.starts_with(&*typed) && !name.starts_with('-')).map(CompletionCandidate::new).collect()
}

/// The names of the groups in all files that are typed, on the axis that is.
fn group_names() -> BTreeSet<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let words = words();
        let axis = |pair: &[OsString]| (pair[0] == "-g" || pair[0] == "--group-by").then(|| pair[1].clone());
        let joined = words.iter().find_map(|word| word.to_str()?.strip_prefix("--group-by=").map(OsString::from));
        let axis = words.windows(2).find_map(axis).or(joined).unwrap_or("command".into());
        let files = words.iter().skip(2).map(|word| with_home(word)).filter(|file| is_readable(file));
        let names = files.filter_map(|file| groups_of(&file, &axis).ok()).flatten().collect();
        send.send(names).ok();
    });
    receive.recv_timeout(LONGEST_WAIT).unwrap_or_default()
}

/// The path of a word, whose `~` no shell has replaced yet.
fn with_home(word: &OsStr) -> PathBuf {
    let below_home = word.to_str().and_then(|word| word.strip_prefix("~/")).zip(env::home_dir());
    below_home.map_or_else(|| word.into(), |(path, home)| home.join(path))
}

/// Whether it is a directory, or a file that is not too large; a pipe would never end.
fn is_readable(path: &Path) -> bool {
    let metadata = part_of(path).ok().and_then(|part| fs::metadata(part.file).ok());
    metadata.is_some_and(|metadata| metadata.is_dir() || metadata.is_file() && metadata.len() <= LARGEST_FILE)
}

/// The names of the groups of a file or of a directory of runs.
fn groups_of(file: &Path, axis: &OsStr) -> anyhow::Result<Vec<String>> {
    let options = ["ctprof", "show", "--sections=overview", "--max-snapshot-bytes", MOST_UNCOMPRESSED, "--group-by"];
    let words = options.iter().map(OsStr::new).chain([axis, OsStr::new("--"), file.as_os_str()]);
    let Command::Show(args) = Args::try_parse_from(words)?.command else { return Ok(Vec::new()) };
    let options = args.view.options(Sides::one(String::new()));
    let mut input = DigestReader::new(options, &args.view, Messages::ErrorsOnly);
    let (side, _) = input.runs_and_parts(&args.snapshot, 1)?;
    let report = report(Sides::one(side), &input.into_options(), &[]);
    let groups = report.section(Section::Overview).map_or(&[][..], |section| &section.groups);
    Ok(groups.iter().filter(|group| !group.is_all()).map(|group| group.label.clone()).collect())
}
