//! Reports as one HTML file, which needs nothing else: the data, and a script that draws it.
//!
//! The page around the data is built from `web/`.

mod document;
mod rows;

use std::io::{self, Write};

use self::document::PageData;
use self::rows::selected;
use super::facts::facts;
use super::selection::Selection;
use crate::compare::Report;

/// The page with its style and script.
const PAGE: &str = include_str!("html/page.html");

/// The place of the data in it.
const DATA: &str = "{{data}}";

/// Writes a report as HTML, with a limited number of rows: the overview first, then the largest changes of each section. Errors are those of `out`.
pub fn write_html(out: &mut dyn Write, report: &Report, selection: &Selection) -> io::Result<()> {
    let (before, after) = PAGE.split_once(DATA).expect("the page has a place for the data");
    out.write_all(before.as_bytes())?;
    let (groups, tree) = selected(report, selection);
    let data = serde_json::to_string(&PageData::new(report, &facts(report), groups, tree))?;
    out.write_all(without_markup(&data).as_bytes())?;
    out.write_all(after.as_bytes())
}

/// JSON in which no text is markup: only strings contain `<`, which is escaped.
fn without_markup(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_the_data() {
        let json = without_markup(&serde_json::to_string(&["</script><!--", "<", "a<b<c"]).unwrap());
        assert_eq!(json, r#"["\u003c/script>\u003c!--","\u003c","a\u003cb\u003cc"]"#);
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap()[0], "</script><!--");
    }
}
