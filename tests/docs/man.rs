//! Tests that the man pages match the command line.
//!
//! `UPDATE_MAN=1 cargo test --test docs man` updates them.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::builder::Resettable;
use clap_mangen::Man;

const ENVIRONMENT: &[(&str, &str)] = &[
    ("COLUMNS", "The width of tables, also where the output is no terminal."),
    ("CTPROF_REDACT_KEY", "The key of --redact. Equal names get equal hashes in all files with the same key."),
    ("NO_COLOR, CLICOLOR_FORCE", "Whether headings have colors, if --color does not say."),
    ("TZ", "The time zone of times that are shown, and of parts of a series such as FILE@12:00..12:05."),
    ("RUST_LOG", "Which messages go to standard error, as filters of the Rust crate tracing: debug, for example."),
];
const FILES: &[(&str, &str)] = &[
    ("*.ctprof.zst", "Snapshots and windows: JSON, compressed with zstd. Files that root writes have mode 0600."),
    ("/var/lib/ctprof", "Snapshots that ctprof-capture.timer takes every hour, once it is enabled."),
    ("/var/lib/ctprof-record", "The series of ctprof-record.service, once it is enabled."),
    ("/etc/default/ctprof", "Options of ctprof-capture.service."),
];
/// Where a command does not say more.
const EXIT_STATUS: &str = "0 on success, 1 on an error, 2 for a usage error";

fn pages() -> Vec<(String, Vec<u8>)> {
    // No page has the name of the command `help`.
    let mut command = ctprof::cli::command().disable_help_subcommand(true);
    command.build();
    let commands: Vec<_> = command.get_subcommands().cloned().collect();
    let names: Vec<_> = commands.iter().map(|sub| format!("ctprof-{}", sub.get_name())).collect();
    let mut pages = vec![("ctprof.1".to_owned(), page(command, &names))];
    for (name, sub) in names.iter().zip(commands) {
        let others: Vec<_> = names.iter().filter(|other| *other != name).cloned().collect();
        let others = [vec!["ctprof".to_owned()], others].concat();
        pages.push((format!("{name}.1"), page(sub.display_name(name.clone()), &others)));
    }
    pages
}

/// The page of a command, with sections in place of the end of its help.
fn page(command: clap::Command, others: &[String]) -> Vec<u8> {
    let help = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string).unwrap_or_default();
    let source = format!("ctprof {}", env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    let command = command.version(None).after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    // Pages have the short text of an option where it has no long one, unless it is hidden.
    let command = command.mut_args(|arg| arg.hide_short_help(false));
    Man::new(command).source(source).manual("ctprof").render(&mut page).unwrap();
    let mut add = |title: &str, text: &str| write!(page, ".SH \"{title}\"\n{text}\n").unwrap();
    let mut status = EXIT_STATUS;
    let mut examples = None;
    for part in help.split("\n\n").filter(|part| !part.is_empty()) {
        match part.split_once(':') {
            Some(("Exit status", text)) => status = text.trim(),
            Some(("Examples", text)) => examples = Some(text.trim_matches('\n')),
            _ => add("NOTES", &escaped(part)),
        }
    }
    add("EXIT STATUS", &escaped(status));
    for (title, terms) in [("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)] {
        let terms = terms.iter().map(|(term, text)| format!(".TP\n{}\n{}", escaped(term), escaped(text)));
        add(title, &terms.collect::<Vec<_>>().join("\n"));
    }
    examples.iter().for_each(|text| add("EXAMPLES", &format!(".nf\n{}\n.fi", escaped(text))));
    add("SEE ALSO", &escaped(&others.iter().map(|name| format!("{name}(1)")).collect::<Vec<_>>().join(", ")));
    page
}

/// Text in which nothing is a command of roff.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-").replace("\n.", "\n\\&.").replace("\n'", "\n\\&'")
}

#[test]
fn every_option_of_a_man_page_has_a_text() {
    for (name, page) in pages() {
        let page = String::from_utf8(page).unwrap();
        let (mut lines, mut options) = (page.lines().peekable(), 0);
        while let Some(line) = lines.next() {
            let is_option = line.starts_with("\\fB\\-");
            assert!(!is_option || lines.peek().is_some_and(|text| !text.is_empty()), "{name}: {line}");
            options += usize::from(is_option);
        }
        assert!(options > 1, "{name}");
    }
}

#[test]
fn man_pages_are_up_to_date() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/man");
    for (name, page) in pages() {
        let path = directory.join(name);
        if std::env::var_os("UPDATE_MAN").is_some() {
            fs::create_dir_all(&directory).unwrap();
            fs::write(&path, &page).unwrap();
        }
        assert!(
            fs::read(&path).is_ok_and(|there| there == page),
            "{}: UPDATE_MAN=1 cargo test --test docs man",
            path.display()
        );
    }
}

#[test]
fn man_pages_refer_to_pages_that_exist() {
    let pages = pages();
    let texts = pages.iter().map(|(_, page)| String::from_utf8_lossy(page).replace('\\', ""));
    for text in texts {
        for sections in ["EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"] {
            assert!(text.contains(&format!(".SH \"{sections}\"")), "{sections}");
        }
        let referred = text.split([' ', ',', '\n']).filter(|word| word.starts_with("ctprof") && word.ends_with("(1)"));
        for page in referred {
            assert!(pages.iter().any(|(name, _)| name.replace(".1", "(1)") == page), "{page}");
        }
    }
}
