//! Reports in every format.

use std::io;

use ctprof::report::{Page, Terminal, write_csv, write_html, write_json, write_markdown, write_table};

/// Writes a page in every format, to nowhere.
pub fn write_all(page: &Page<'_>) {
    write_table(&mut io::sink(), page, &[], Terminal { width: Some(60), ..Terminal::default() }).expect("a table");
    write_markdown(&mut io::sink(), page, &[]).expect("Markdown");
    write_csv(&mut io::sink(), page).expect("CSV");
    write_json(&mut io::sink(), page).expect("JSON");
    write_html(&mut io::sink(), page, None).expect("HTML");
}
