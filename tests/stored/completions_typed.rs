//! Completions in shells that run on a terminal, as users type them: what they make of a line, and what runs when it is entered.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::screen::OnTerminal;
use crate::stored::completions::directory;
use crate::stored::program::printed;

use crate::support::{Missing, skipped};

/// How each shell is started, and told to write the line that is edited to a file when Control-G is pressed.
const SHELLS: [(&str, &[&str], &str); 3] = [
    (
        "bash",
        &["--norc", "--noprofile", "-i"],
        "bind 'set bell-style none'; bind -x '\"\\C-g\": printf %s \"$READLINE_LINE\" >new; mv new line'\n",
    ),
    (
        "zsh",
        &["-f", "-i"],
        "autoload -Uz compinit; compinit -u -D; setopt no_beep; w() { print -rn -- \"$BUFFER\" >new; mv new line }\n\
        zle -N w; bindkey '^g' w\n",
    ),
    ("fish", &["--no-config", "-i"], "bind \\cg 'commandline >new; mv new line'\n"),
];

/// A shell on a terminal, in a directory with a snapshot.
struct Typed<'d>(OnTerminal, &'d Path);

impl<'d> Typed<'d> {
    /// Starts a shell that knows the completions; `None` if it is missing.
    fn start(shell: &str, directory: &'d Path) -> Option<Self> {
        let (name, arguments, setup) = SHELLS.into_iter().find(|(name, ..)| *name == shell).unwrap();
        if Command::new(name).arg("--version").output().is_err() {
            skipped(Missing::Tool(name));
            return None;
        }
        fs::write(directory.join("completions"), printed(&["completions", name])).unwrap();
        let path = format!("PATH={}:{}", directory.join("bin").display(), std::env::var("PATH").unwrap());
        let (home, place) = (format!("HOME={}", directory.display()), format!("--chdir={}", directory.display()));
        let words = [&[&*place, "LC_ALL=C.UTF-8", &*path, &*home, name], arguments].concat();
        let mut terminal = OnTerminal::start("env", &words, (200, 50));
        terminal.press(setup);
        terminal.press("source ./completions\n");
        let mut typed = Self(terminal, directory);
        typed.run();
        Some(typed)
    }

    /// Waits for a file, and returns what it has.
    fn wait(&mut self, name: &str) -> String {
        let file = self.1.join(name);
        self.0.wait_until(|_| file.exists());
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        text.trim_end_matches('\n').to_owned()
    }

    /// The line after a tabulator behind what comes before `|`.
    fn complete(&mut self, line: &str) -> String {
        let (before, after) = line.split_once('|').unwrap();
        self.0.press(&format!("\x05\x15{before}{after}{}\t\x07", "\x02".repeat(after.len())));
        self.wait("line")
    }

    /// Runs the line, and waits until the shell is ready for the next one.
    fn run(&mut self) {
        self.0.press("\ntouch ready\n");
        self.wait("ready");
    }
}

#[test]
fn shells_complete_words_as_their_users_type_them() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("data")).unwrap();
    fs::write(path("data/input.txt"), "").unwrap();
    // Of bash alone: what a tabulator within a word does.
    let cases: [(&str, &str, &[&str]); 12] = [
        ("ctprof show a.json --only=postg|", r"ctprof show a.json --only=postgres:\ checkpointer ", &["bash"]),
        ("ctprof show a.json --only='postg|", "ctprof show a.json --only='postgres: checkpointer' ", &["bash", "fish"]),
        ("ctprof show a.json --only=\"postg|", "ctprof show a.json --only=\"postgres: checkpointer\" ", &["bash"]),
        ("ctprof show a.json --only 'it|", "ctprof show a.json --only 'it", &["bash"]),
        (
            "ctprof compare a.json a.json --fail-on='make:run_t|",
            "ctprof compare a.json a.json --fail-on='make:run_time_ns>'",
            &["bash"],
        ),
        ("ctprof show a.j|son", "ctprof show a.jsonson", &["bash"]),
        ("ctprof sch|ema top", "ctprof schemaema top", &["bash"]),
        ("ctprof show ~/data/in|", "ctprof show ~/data/input.txt ", &["bash", "zsh", "fish"]),
        ("ctprof show ~/da|", "ctprof show ~/data/", &["bash", "zsh", "fish"]),
        ("ctprof record -- data/in|", "ctprof record -- data/input.txt ", &["bash", "zsh", "fish"]),
        ("ctprof record -- cat data/in|", "ctprof record -- cat data/input.txt ", &["bash", "zsh", "fish"]),
        (
            "ctprof show a.json --export html=data/in|",
            "ctprof show a.json --export html=data/input.txt ",
            &["bash", "zsh", "fish"],
        ),
    ];
    for (shell, ..) in SHELLS {
        let Some(mut typed) = Typed::start(shell, directory.path()) else { continue };
        for (line, expected, _) in cases.iter().filter(|(.., shells)| shells.contains(&shell)) {
            assert_eq!(typed.complete(line), *expected, "{shell}: {line}");
        }
    }
}

#[test]
fn no_name_of_a_process_runs_when_a_completed_line_is_entered() {
    let directory = directory();
    for (shell, ..) in SHELLS {
        let Some(mut typed) = Typed::start(shell, directory.path()) else { continue };
        for start in ["", "'", "\""] {
            for option in ["--only ", "--only="] {
                for name in ["$", "`", "it", "unas", "star", "worker", "new", "esc"] {
                    let begun = format!("ctprof show a.json {option}{start}{name}");
                    let line = typed.complete(&format!("{begun}|"));
                    // What has no completion leaves a quote open.
                    if line != begun {
                        typed.run();
                    }
                    assert!(!directory.path().join("ran").exists(), "{shell}: {line}");
                }
            }
        }
    }
}
