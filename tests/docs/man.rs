//! Tests that the man pages match the command line.
//!
//! `UPDATE_MAN=1 cargo test --test docs man` updates them.

use std::fs;
use std::path::Path;

use clap_mangen::Man;

fn pages() -> Vec<(String, Vec<u8>)> {
    let mut command = ctprof::cli::command();
    command.build();
    let mut pages = vec![("ctprof.1".to_owned(), page(command.clone()))];
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("ctprof-{}", sub.get_name());
        let sub = sub.clone().display_name(name.clone());
        pages.push((format!("{name}.1"), page(sub)));
    }
    pages
}

fn page(command: clap::Command) -> Vec<u8> {
    let mut page = Vec::new();
    Man::new(command.version(None)).render(&mut page).unwrap();
    page
}

#[test]
fn man_pages_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/man");
    for (name, page) in pages() {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_MAN").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &page).unwrap();
        }
        assert!(
            fs::read(&path).is_ok_and(|there| there == page),
            "{}: UPDATE_MAN=1 cargo test --test docs man",
            path.display()
        );
    }
}
