//! `ctprof top` on a terminal, with the file of a series.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::screen::OnTerminal;

const CTPROF: &str = env!("CARGO_BIN_EXE_ctprof");
const SERIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v2-series-linux-6.18.ctprof");

/// A replay that stays at the window that is 1.4 seconds after the beginning, as long as no key says otherwise.
fn replay(size: (u16, u16)) -> OnTerminal {
    let mut terminal = OnTerminal::start(CTPROF, &["top", "-d", "1h", &format!("{SERIES}@1.4s..")], size);
    terminal.wait_for("group");
    terminal
}

#[test]
fn a_replay_shows_the_recorded_screens() {
    for (columns, lines) in [(40, 12), (80, 24), (160, 40)] {
        let mut terminal = replay((columns, lines));
        let groups = terminal.screen();
        terminal.press("\r");
        let details = terminal.wait_for("samples at");
        terminal.press("?");
        let help = terminal.wait_for("Keys");
        let screens = [groups, details, help].join(&format!("{}\n", "=".repeat(columns.into())));
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/top-{columns}.txt"));
        if std::env::var_os("UPDATE_TOP").is_some() {
            fs::write(&file, &screens).unwrap();
        }
        assert_eq!(screens, fs::read_to_string(&file).unwrap(), "{columns} columns; UPDATE_TOP=1 records them again");
    }
}

#[test]
fn keys_move_in_time_and_between_groups_axes_orders_and_filters() {
    let mut terminal = replay((120, 24));
    let first = terminal.screen();
    terminal.press("\x1b[C");
    let time = |screen: &str| screen.lines().next().map(str::to_owned);
    terminal.wait_until(|terminal| terminal.screen().contains("held") && time(&terminal.screen()) > time(&first));
    terminal.press("\x1b[D");
    terminal.wait_until(|terminal| time(&terminal.screen()) == time(&first));
    terminal.press("g");
    terminal.wait_for("by process");
    terminal.press("s");
    terminal.wait_for("wait first");
    terminal.press("/ctp\r");
    let filtered = terminal.wait_for("only ctp");
    assert!(filtered.contains("ctprof ") && !filtered.contains("python3"), "{filtered}");
    terminal.press("/\x7f\x7f\x7fnone\r");
    terminal.wait_for("no group matches `*none*`");
    terminal.press("/\x1b");
    terminal.press("l");
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn a_click_on_what_is_no_longer_shown_changes_nothing_else() {
    let mut terminal = replay((120, 40));
    terminal.press("?");
    terminal.wait_for("Keys");
    // In one read: the screen is not drawn in between.
    terminal.press("\x1b\x1b[<0;5;20M/done\r");
    terminal.wait_for("only done");
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let mut terminal = replay((120, 30));
    for (columns, lines) in [(40, 10), (250, 50), (20, 3)] {
        terminal.resize(columns, lines);
        terminal.wait_until(|terminal| terminal.screen().lines().count() == usize::from(lines));
    }
}

#[test]
fn the_terminal_is_given_back_whatever_ends_top() {
    for (signal, status) in
        [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130), (Signal::SIGQUIT, 131)]
    {
        let mut terminal = replay((80, 24));
        assert!(!terminal.is_given_back());
        terminal.signal(signal);
        assert_eq!(terminal.end().code(), Some(status), "{signal}");
        assert!(terminal.is_given_back(), "{signal}");
    }
    for key in ["q", "\x03"] {
        let mut terminal = replay((80, 24));
        terminal.press(key);
        assert!(terminal.end().success() && terminal.is_given_back(), "{key:?}");
    }
}

#[test]
fn the_terminal_is_given_back_when_memory_ends() {
    // Where memory ends first differs.
    for _ in 0..20 {
        let mut terminal = replay((80, 24));
        let limit = ["--pid", &terminal.id().to_string(), "--as=1000000"];
        assert!(Command::new("prlimit").args(limit).status().unwrap().success());
        // Each press reads the file again.
        terminal.press(&"g".repeat(50));
        assert!(!terminal.end().success());
        assert!(terminal.is_given_back());
        let output = terminal.output();
        let after = output.rsplit("\x1b[?1049l").next().unwrap();
        assert!(
            after.contains("memory") && !after.contains("damaged"),
            "what happened is said where it can be read: {after:?}"
        );
    }
}

#[test]
fn a_stopped_top_leaves_the_terminal_to_the_shell_and_goes_on_in_the_foreground() {
    let script = format!("{CTPROF} top -d 1h {SERIES}@3s..; echo stopped $?; read line; fg; echo ended $?");
    for stop in ["\x1a", ""] {
        let mut terminal = OnTerminal::start("sh", &["-mc", &script], (80, 24));
        terminal.wait_for("group");
        terminal.press(stop);
        if stop.is_empty() {
            assert!(
                Command::new("pkill")
                    .args(["-TSTP", "-s", &terminal.id().to_string(), "ctprof"])
                    .status()
                    .unwrap()
                    .success()
            );
        }
        terminal.wait_until(|terminal| terminal.output().contains("stopped"));
        assert!(terminal.is_given_back());
        let before = terminal.output().matches("\x1b[?1049h").count();
        terminal.press("\n");
        terminal.wait_until(|terminal| terminal.output().matches("\x1b[?1049h").count() > before);
        terminal.press("q");
        terminal.wait_until(|terminal| terminal.output().contains("ended 0"));
        assert!(terminal.is_given_back());
    }
}

#[test]
fn an_empty_screen_says_which_choice_nothing_matches() {
    for (options, said) in [
        (["--scope", "container:nosuch"], "no container matches `nosuch`"),
        (["--scope", "command"], "no thread is in --scope command"),
        (["--only", "nosuch"], "no group matches `nosuch`"),
    ] {
        let arguments = [&["top", "-d", "1h", SERIES], &options[..]].concat();
        OnTerminal::start(CTPROF, &arguments, (120, 24)).wait_for(said);
    }
}

#[test]
fn without_a_screen_an_error_names_the_command_that_needs_none() {
    let message = |arguments: &[&str]| String::from_utf8(crate::stored::program::run(arguments).stderr).unwrap();
    assert!(message(&["top"]).contains("`ctprof record --every 2s`"), "{}", message(&["top"]));
    let scope = ["top", "--scope", "command"];
    assert!(message(&scope).contains("ctprof top FILE"), "{}", message(&scope));
    assert!(message(&["top", SERIES]).contains(&format!("`ctprof show --steps {SERIES}`")));
    let mut dumb = OnTerminal::start("env", &["TERM=dumb", CTPROF, "top"], (80, 24));
    assert_eq!(dumb.end().code(), Some(1));
    assert!(dumb.output().contains("TERM is dumb") && !dumb.output().contains('\x1b'), "{}", dumb.output());
}

/// The first line of the screen: when the window began, and how long it is.
fn heading(terminal: &OnTerminal) -> Option<String> {
    terminal.screen().lines().next().map(str::to_owned)
}

#[test]
fn the_keys_lead_through_all_steps_of_a_file_and_back() {
    let series = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v4-series-linux-6.12.ctprof.zst");
    let mut terminal = OnTerminal::start(CTPROF, &["top", "-d", "1h", series], (120, 24));
    terminal.wait_for("group");
    let rows = crate::stored::program::run(&["show", "--steps", "--format", "csv", series]).stdout;
    let rows = String::from_utf8(rows).unwrap();
    let starts: BTreeSet<_> = rows.lines().skip(1).map(|row| row.split(',').next()).collect();
    let mut walk = |key: &str, end: &str| {
        let mut headings = vec![heading(&terminal)];
        loop {
            terminal.press(key);
            let before = headings.last().cloned().flatten();
            terminal.wait_until(|terminal| terminal.screen().contains(end) || heading(terminal) != before);
            if heading(&terminal) == before {
                return headings;
            }
            headings.push(heading(&terminal));
        }
    };
    let mut forth = walk("\x1b[C", "this is the last window");
    assert_eq!(forth.len(), starts.len());
    forth.reverse();
    assert_eq!(walk("\x1b[D", "this is the first window"), forth);
}
