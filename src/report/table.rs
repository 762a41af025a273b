//! Tables as text: for a terminal, or as GitHub's Markdown.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, presets};

use super::escape::escaped;
use super::{Column, Markup, Style};
use crate::compare::{Row, Table};

/// Writes rows of a section.
pub(super) fn rows(
    out: &mut dyn Write,
    table: &Table,
    columns: &[Column],
    rows: &[&Row],
    style: &Style,
) -> io::Result<()> {
    let shown = rows.iter().take(style.limit.unwrap_or(usize::MAX)).copied().collect::<Vec<_>>();
    let shown = in_tree_order(table, shown);
    let headings: Vec<_> = columns.iter().map(|column| column.heading(table.section)).collect();
    let texts = shown.iter().map(|row| columns.iter().map(|column| column.text(table, row)).collect());
    let numeric: Vec<_> = columns.iter().map(|column| column.is_numeric()).collect();
    match style.markup {
        Markup::Plain => plain(out, &headings, &numeric, texts, style.width),
        Markup::Markdown => markdown(out, &headings, &numeric, texts),
    }?;
    match rows.len() - shown.len() {
        0 => Ok(()),
        cut => writeln!(out, "{}{cut} more rows (--limit 0 shows all)", paragraph(style)),
    }
}

/// What sets a line apart from a table before it.
pub(super) fn paragraph(style: &Style) -> &'static str {
    if style.markup == Markup::Markdown { "\n" } else { "" }
}

/// The rows that were picked, in the order of their groups' tree: whatever is in one branch stands
/// together.
fn in_tree_order<'r>(table: &Table, mut rows: Vec<&'r Row>) -> Vec<&'r Row> {
    if table.groups.iter().any(|group| group.path.len() > 1) {
        rows.sort_by(|a, b| table.groups[a.group].path.cmp(&table.groups[b.group].path));
    }
    rows
}

/// Plain: headings, no borders, numbers to the right. With a `width` it fits: long texts end in `…`.
pub(super) fn plain(
    out: &mut dyn Write,
    headings: &[&str],
    numeric: &[bool],
    rows: impl Iterator<Item = Vec<String>>,
    width: Option<u16>,
) -> io::Result<()> {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING).set_truncation_indicator("…");
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    let mut head = comfy_table::Row::from(headings.iter());
    head.max_height(1);
    table.set_header(head);
    for row in rows {
        let mut row = comfy_table::Row::from(row.iter().map(|text| escaped(text)));
        row.max_height(1);
        table.add_row(row);
    }
    for (column, numeric) in table.column_iter_mut().zip(numeric) {
        column.set_padding((0, 2));
        if *numeric {
            // Names can be cut, numbers can't.
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

fn markdown(
    out: &mut dyn Write,
    headings: &[&str],
    numeric: &[bool],
    rows: impl Iterator<Item = Vec<String>>,
) -> io::Result<()> {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    writeln!(out, "{}", line(headings.iter().map(|heading| (*heading).to_owned()).collect()))?;
    let rule = numeric.iter().map(|numeric| if *numeric { "---:" } else { "---" });
    writeln!(out, "|{}|", rule.collect::<Vec<_>>().join("|"))?;
    for row in rows {
        writeln!(out, "{}", line(row.iter().map(|text| inline(text)).collect()))?;
    }
    Ok(())
}

/// A text that Markdown takes as it is.
pub(super) fn inline(text: &str) -> String {
    let mut out = String::new();
    for c in escaped(text).replace("  ", "\u{2003}").chars() {
        if matches!(c, '|' | '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_a_cell() {
        assert_eq!(inline("a|b `x` <img>"), "a\\|b \\`x\\` \\<img\\>");
        assert_eq!(inline("\x1b\n"), "\\\\u{1b}\\\\n");
    }

    #[test]
    fn wide_and_combining_characters_keep_columns_aligned() {
        let mut out = Vec::new();
        let rows = [["日本", "1"], ["e\u{301}", "22"], ["abcd", "3"]].map(|row| row.map(str::to_owned).to_vec());
        plain(&mut out, &["name", "n"], &[false, true], rows.into_iter(), None).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name   n\n日本   1\ne\u{301}     22\nabcd   3\n");
    }
}
