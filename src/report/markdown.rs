//! Reports as GitHub-flavored Markdown.

use std::io::{self, Write};

use super::columns::Column;
use super::escape::escaped;
use super::facts::facts;
use super::gates::write_gate_table;
use super::overview::{self, CHANGE, USER, VERDICT};
use super::selection::{Selection, ShownSection};
use super::table::{RENAMED, cells, cut, hidden, list_columns, list_title};
use super::why;
use crate::compare::{Renamed, Report};
use crate::model::Section;

/// Renamed cgroups that are listed.
const MOST_RENAMED: usize = 20;

/// Writes a report as Markdown. Errors are those of `out`.
pub fn write_markdown(out: &mut dyn Write, report: &Report, selection: &Selection) -> io::Result<()> {
    let others = if report.gates.is_empty() { 0 } else { write_gate_table(out, &report.gates, inline)? };
    if others > 0 {
        writeln!(out, "<details><summary>Comparison</summary>\n")?;
    }
    write_report(out, report, selection)?;
    if others > 0 {
        writeln!(out, "\n</details>")?;
    }
    Ok(())
}

fn write_report(out: &mut dyn Write, report: &Report, selection: &Selection) -> io::Result<()> {
    for line in facts(report).iter().flat_map(|fact| &fact.lines) {
        match line.label {
            "" => writeln!(out, "- {}", inline(&line.text)),
            label => writeln!(out, "- **{label}** {}", inline(&line.text)),
        }?;
    }
    let (overviews, others): (Vec<_>, Vec<_>) =
        report.sections.iter().partition(|section| section.section == Section::Overview);
    for section in &overviews {
        write_overview(out, report, (&ShownSection::of_groups(section, selection), selection))?;
    }
    let folds = !overviews.is_empty() && !others.is_empty();
    if folds {
        writeln!(out, "\n<details><summary>All values</summary>")?;
    }
    for section in others {
        // What is folded has few rows: those of groups.
        let shown =
            if folds { ShownSection::of_groups(section, selection) } else { ShownSection::new(section, selection) };
        write_section(out, &shown, selection.columns(report))?;
    }
    if folds {
        writeln!(out, "\n</details>")?;
    }
    write_renamed(out, &report.renamed)
}

fn write_renamed(out: &mut dyn Write, renamed: &[Renamed]) -> io::Result<()> {
    if renamed.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n### {RENAMED}\n")?;
    for pair in renamed.iter().take(MOST_RENAMED) {
        let (baseline, candidate) = (inline(&pair.baseline), inline(&pair.candidate));
        writeln!(out, "- **{:.0}%** {baseline} → {candidate}", pair.similarity * 100.0)?;
    }
    if renamed.len() > MOST_RENAMED {
        writeln!(out, "\n{} more", renamed.len() - MOST_RENAMED)?;
    }
    Ok(())
}

fn write_overview(
    out: &mut dyn Write,
    report: &Report,
    (section, selection): (&ShownSection<'_>, &Selection),
) -> io::Result<()> {
    let pivot = overview::pivot(section, selection.users_of(report));
    writeln!(out, "\n{}", line(pivot.heads.iter().map(|head| inline(head)).collect()))?;
    let is_text = |place, head| place == 0 || matches!(head, VERDICT | CHANGE | USER);
    let heads = pivot.heads.iter().map(String::as_str).enumerate();
    let rules = heads.map(|(place, head)| if is_text(place, head) { "---" } else { "---:" });
    writeln!(out, "|{}|", rules.collect::<Vec<_>>().join("|"))?;
    for cells in &pivot.lines {
        writeln!(out, "{}", line(cells.iter().map(|text| inline(text)).collect()))?;
    }
    let why = why::lines(report, section);
    if !why.is_empty() {
        writeln!(out)?;
    }
    for (group, lines) in why {
        let name = inline(&section.section.groups[group].full_label());
        lines.iter().try_for_each(|line| writeln!(out, "- **{name}** {}", inline(line)))?;
    }
    let notes = section.section.notes.iter().map(|note| inline(&note.to_string()));
    let mut below = overview::hidden(section, &pivot).into_iter().chain(notes);
    below.try_for_each(|text| writeln!(out, "\n{text}"))
}

fn write_section(out: &mut dyn Write, section: &ShownSection<'_>, columns: &[Column]) -> io::Result<()> {
    let lists = section.lists();
    writeln!(out, "\n### {}\n", section.section.section.name())?;
    section.section.notes.iter().try_for_each(|note| writeln!(out, "{}\n", inline(&note.to_string())))?;
    for list in &lists {
        if let Some(title) = list_title(section, list) {
            writeln!(out, "\n### {title}\n")?;
        }
        let columns = list_columns(section, list, columns);
        let headings = columns.iter().map(|column| column.heading(section.section.section).to_owned());
        writeln!(out, "{}", line(headings.collect()))?;
        let rules = columns.iter().map(|column| if column.is_numeric() { "---:" } else { "---" });
        writeln!(out, "|{}|", rules.collect::<Vec<_>>().join("|"))?;
        list.lines
            .iter()
            .try_for_each(|row| writeln!(out, "{}", line(cells(section, row, &columns, |text| inline(&text)))))?;
    }
    if section.cut > 0 {
        writeln!(out, "\n{}", cut(section))?;
    }
    if section.hidden().is_empty() {
        return Ok(());
    }
    let gap = if lists.is_empty() { "" } else { "\n" };
    writeln!(out, "{gap}hidden: {} (show with --unchanged)", hidden(section))
}

fn line(cells: Vec<String>) -> String {
    format!("| {} |", cells.join(" | "))
}

/// The text, escaped for Markdown.
fn inline(text: &str) -> String {
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
}
