//! Plain tables: headings, no borders, numbers to the right.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::escape::escaped;

/// A column: its heading, and where its texts stand.
#[derive(Clone, Copy)]
pub(super) enum Column {
    /// Texts.
    Left(&'static str),
    /// Numbers.
    Right(&'static str),
}

/// Writes a table. With a `width` it fits: long texts end in `…`.
pub(super) fn write<const N: usize>(
    out: &mut dyn Write,
    columns: [Column; N],
    rows: impl Iterator<Item = [String; N]>,
    width: Option<u16>,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_truncation_indicator("…");
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table.set_header(columns.map(|column| match column {
        Column::Left(name) | Column::Right(name) => name,
    }));
    for row in rows {
        let mut row = comfy_table::Row::from(row.iter().map(|text| escaped(text)));
        row.max_height(1);
        table.add_row(row);
    }
    for (column, kind) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        if matches!(kind, Column::Right(_)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}
