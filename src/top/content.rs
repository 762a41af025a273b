//! Content of the screen, whatever its height: lines above, and rows that are selected or scrolled.

use crate::report::RowLines;

/// Content of the full screen.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Lines that stay on top.
    pub(super) title: Vec<String>,
    /// The heading of the table; empty for text.
    pub(super) heading: String,
    pub(super) rows: Vec<RowLines>,
    /// The row in each line of the screen; empty until this content is drawn.
    pub(super) rows_of_lines: Vec<Option<usize>>,
    /// Columns that rows can be sorted by.
    pub(super) columns: Vec<&'static str>,
}

impl Content {
    /// The rows that can be selected, with the paths of their groups.
    pub(super) fn selectable(&self) -> impl Iterator<Item = (usize, &[String])> {
        let rows = self.rows.iter().enumerate().map(|(row, lines)| (row, &lines.path[..]));
        rows.filter(|(_, path)| !path.is_empty())
    }

    /// The path of the group in a line of the screen.
    pub(super) fn path_in(&self, line: usize) -> Option<&[String]> {
        let row = self.rows_of_lines.get(line).copied().flatten()?;
        self.selectable().find(|(other, _)| *other == row).map(|(_, path)| path)
    }
}
