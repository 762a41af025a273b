//! Reports as one HTML file, which needs nothing else: the data, and a script that draws it.
//!
//! The page around the data is built from `web/`.

mod document;
mod rows;

use std::io::{self, Write};

use memchr::memchr;

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
    serde_json::to_writer(Unmarked(&mut *out), &PageData::new(report, &facts(report), groups, tree))?;
    out.write_all(after.as_bytes())
}

/// Writes JSON in which no text is markup: only strings contain `<`, which is escaped.
struct Unmarked<'w>(&'w mut dyn Write);

impl Write for Unmarked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(at) = memchr(b'<', bytes) {
            self.0.write_all(&bytes[..at])?;
            self.0.write_all(b"\\u003c")?;
            bytes = &bytes[at + 1..];
        }
        self.0.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_the_data() {
        let mut out = Vec::new();
        serde_json::to_writer(Unmarked(&mut out), &["</script><!--", "<", "a<b<c"]).unwrap();
        let json = String::from_utf8(out).unwrap();
        assert_eq!(json, r#"["\u003c/script>\u003c!--","\u003c","a\u003cb\u003cc"]"#);
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap()[0], "</script><!--");
    }
}
