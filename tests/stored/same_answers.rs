//! What is shown of a comparison does not change what it says: gates, the change of each group, and why it waited.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::stored::program::run;
use crate::stored::reasons::slow_database;

/// The change of a group, and the lines that say why its time passes.
type Said = (String, Vec<String>);

/// The lines of gates, and what the table says of each group that it shows.
fn answers(sides: &Path, selection: &[&str]) -> (Vec<String>, BTreeMap<String, Said>) {
    let files = ["a.json", "b.json"].map(|name| sides.join(name).to_str().unwrap().to_owned());
    let gates = ["block>10%", "redis*:wait>1s", "*:run>1%", "block/fdatasync>1s"];
    let mut args = vec!["compare", &files[0], &files[1], "--per", "run"];
    args.extend(gates.iter().flat_map(|gate| ["--fail-on", gate]));
    args.extend(selection);
    let output = run(&args);
    assert_eq!(output.status.code(), Some(3), "{selection:?}");
    let [page, gates] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let mut groups: BTreeMap<String, Said> = BTreeMap::new();
    let mut last = String::new();
    for line in page.lines().skip_while(|line| !line.starts_with("group")).take_while(|line| !line.is_empty()) {
        let cells: Vec<_> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        match cells[..] {
            [name, .., change] if matches!(name, "redis-server" | "cc1" | "sh") => {
                name.clone_into(&mut last);
                groups.insert(last.clone(), (change.to_owned(), Vec::new()));
            }
            [.., why] if line.starts_with("  ") => groups.get_mut(&last).unwrap().1.push(why.to_owned()),
            _ => {}
        }
    }
    (gates.lines().map(str::to_owned).collect(), groups)
}

#[test]
fn gates_changes_and_why_lines_are_the_same_under_every_selection() {
    let directory = tempfile::tempdir().unwrap();
    for (name, fsync) in [("a.json", 1000), ("b.json", 4000)] {
        fs::write(directory.path().join(name), slow_database(fsync).to_string()).unwrap();
    }
    let (gates, groups) = answers(directory.path(), &["--unchanged"]);
    assert!(gates.len() >= 3 && groups["redis-server"].0.contains("block") && !groups["redis-server"].1.is_empty());
    for selection in [
        &["--limit", "1"][..],
        &["--only", "redis*"],
        &["--only", "cc1", "--unchanged"],
        &["--sections", "overview"],
        &["--sections", "overview,reasons", "--limit", "1"],
        &["--metrics", "run,block"],
        &["--metrics", "block", "--only", "redis*"],
        &["--sort-by", "run:asc", "--unchanged"],
        &["--long", "--sections", "overview"],
        &["--sections", "primary", "--metrics", "run_time_ns"],
    ] {
        let (selected_gates, selected) = answers(directory.path(), selection);
        assert_eq!(selected_gates, gates, "{selection:?}");
        for (group, said) in selected {
            assert_eq!(said, groups[&group], "{group}, {selection:?}");
        }
    }
}
