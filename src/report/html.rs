//! Reports as one HTML file, which needs nothing else: the data, and a script that draws it.
//!
//! The page around the data is built from `web/`.

mod answer;
mod document;
mod rows;
mod sections;
mod shared;
mod sides;
mod trends;

use std::io::{self, Write};

use self::document::PageData;
use self::rows::selected;
use super::{DisplayOptions, controls_terminal, escaped_json, report_facts};
use crate::compare::Report;

const PAGE: &str = include_str!("html/page.html");

const DATA: &str = "{{data}}";

/// Writes a report as HTML, with a limited number of rows: the overview first, then the largest changes of each section. An error
/// comes from `out`.
pub fn write_html(out: &mut dyn Write, report: &Report, selection: &DisplayOptions) -> io::Result<()> {
    let (before, after) = PAGE.split_once(DATA).expect("the page has a place for the data");
    out.write_all(before.as_bytes())?;
    let (groups, tree) = selected(report, selection);
    escaped_json(out, &PageData::new(report, &report_facts(report), groups, tree), is_markup)?;
    out.write_all(after.as_bytes())
}

/// Whether a character of a string could end the data, or hide what follows it.
fn is_markup(c: char) -> bool {
    c == '<' || controls_terminal(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_the_data() {
        let mut json = Vec::new();
        escaped_json(&mut json, &["</script><!--", "<", "a<b<c"], is_markup).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert_eq!(json, r#"["\u003c/script>\u003c!--","\u003c","a\u003cb\u003cc"]"#);
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap()[0], "</script><!--");
    }
}
