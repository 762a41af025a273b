//! Reports in every format.

use std::io;

use ctprof::compare::Report;
use ctprof::report::{DisplayOptions, Terminal, write_csv, write_html, write_json, write_markdown, write_table};

/// Writes a report in every format, to nowhere.
pub fn write_all(report: &Report) {
    let all = DisplayOptions::default();
    let terminal = Terminal { width: Some(60), ..Terminal::default() };
    write_table(&mut io::sink(), report, &all, terminal).expect("a table");
    write_markdown(&mut io::sink(), report, &all).expect("Markdown");
    write_csv(&mut io::sink(), report, &all).expect("CSV");
    write_json(&mut io::sink(), report, &all).expect("JSON");
    write_html(&mut io::sink(), report, &all).expect("HTML");
}
