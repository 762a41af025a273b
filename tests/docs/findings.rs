//! Tests that the tables of docs/findings.md match the program.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use ctprof::diagnose::{Cause, Note, Warning};
use ctprof::model::{BpfObstacle, ProbeFailure};

/// Each heading of the page with the codes under it.
fn tables() -> [(&'static str, Vec<(String, String)>); 5] {
    let coded = |codes: &[(&str, &str)]| {
        codes.iter().map(|(code, meaning)| ((*code).to_owned(), (*meaning).to_owned())).collect::<Vec<_>>()
    };
    let probe = ProbeFailure::KNOWN.iter().map(|failure| {
        let routine = if failure.is_routine() { " Not a failure." } else { "" };
        (failure.to_string(), format!("{}{routine}", failure.meaning().unwrap()))
    });
    let obstacles = BpfObstacle::KNOWN.iter();
    let obstacles = obstacles.map(|obstacle| (obstacle.to_string(), obstacle.meaning().unwrap().to_owned()));
    [
        ("## Causes", coded(Cause::CODES)),
        ("## Obstacles to BPF", obstacles.collect()),
        ("## Reasons of the jemalloc probe", probe.collect()),
        ("## Warnings of a comparison", coded(Warning::CODES)),
        ("## Notes on sections", coded(Note::CODES)),
    ]
}

/// The page with the table under each heading replaced by the program's.
fn generated(page: &str) -> String {
    let mut page = page.to_owned();
    for (heading, rows) in tables() {
        let section = page.find(heading).unwrap();
        let start = section + page[section..].find("\n|").unwrap() + 1;
        let end = page[start..].find("\n\n").map_or(page.len(), |length| start + length + 1);
        let mut table = String::from("| code | meaning |\n|---|---|\n");
        for (code, meaning) in rows {
            writeln!(table, "| `{code}` | {meaning} |").unwrap();
        }
        page.replace_range(start..end, &table);
    }
    page
}

#[test]
fn every_code_is_documented_with_its_meaning() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/findings.md");
    let page = fs::read_to_string(&path).unwrap();
    let generated = generated(&page);
    if std::env::var_os("UPDATE_FINDINGS").is_some() {
        fs::write(&path, &generated).unwrap();
    } else {
        assert_eq!(page, generated, "run: UPDATE_FINDINGS=1 cargo test --test docs findings");
    }
}
