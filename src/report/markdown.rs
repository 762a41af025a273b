//! Reports as GitHub-flavored Markdown.

use std::io::{self, Write};

use super::table::cells;
use super::{
    Column, ColumnShape, DisplayOptions, HEADINGS, PivotColumn, RENAMED, ShownSection, counts, cut, escaped, gates,
    hidden_line, list_columns, list_title, needs_attention, overview, report_facts, why, worst_first,
};
use crate::compare::{Renamed, Report};
use crate::model::Section;

/// Gates that are listed. Lines on standard error have no limit.
const MOST_GATES: usize = 20;
/// Renamed cgroups that are listed.
const MOST_RENAMED: usize = 20;

/// Longer documents are cut, in bytes: GitHub refuses summaries of jobs above 1 MiB, with what it adds to them.
const MOST_BYTES: usize = 1_000_000;

/// Writes a report as Markdown. Errors come from `out`.
pub fn write_markdown(out: &mut dyn Write, report: &Report, selection: &DisplayOptions) -> io::Result<()> {
    let mut whole = Vec::new();
    write_whole(&mut whole, report, selection)?;
    let end_of_line = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n');
    let Some(cut) = whole.get(..MOST_BYTES).and_then(end_of_line) else { return out.write_all(&whole) };
    let (shown, rest) = whole.split_at(cut + 1);
    let text = String::from_utf8_lossy(shown);
    let open = text.matches("<details>").count().saturating_sub(text.matches("</details>").count());
    let lines = rest.iter().filter(|byte| **byte == b'\n').count();
    out.write_all(shown)?;
    (0..open).try_for_each(|_| writeln!(out, "\n</details>"))?;
    writeln!(out, "\n**{lines} more lines**: a summary has at most 1 MB; show fewer rows with --limit or --sections")
}

fn write_whole(out: &mut dyn Write, report: &Report, selection: &DisplayOptions) -> io::Result<()> {
    if !report.gates.is_empty() {
        writeln!(out, "**{}**\n", inline(&counts(&report.gates)))?;
    }
    let gates: Vec<_> = worst_first(&report.gates).into_iter().filter(|result| needs_attention(result)).collect();
    if gates.is_empty() {
        return write_report(out, report, selection);
    }
    let is_text = |place| !(3..7).contains(&place);
    table(
        out,
        &HEADINGS.map(str::to_owned),
        is_text,
        gates.iter().take(MOST_GATES).map(|result| gates::cells(result).to_vec()),
    )?;
    more(out, gates.len(), MOST_GATES)?;
    writeln!(out, "\n<details><summary>Comparison</summary>\n")?;
    write_report(out, report, selection)?;
    writeln!(out, "\n</details>")
}

/// Says how many are beyond the most that are listed.
fn more(out: &mut dyn Write, all: usize, most: usize) -> io::Result<()> {
    if all > most { writeln!(out, "\n{} more", all - most) } else { Ok(()) }
}

fn write_report(out: &mut dyn Write, report: &Report, selection: &DisplayOptions) -> io::Result<()> {
    for line in report_facts(report).iter().flat_map(|fact| &fact.lines) {
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
    more(out, renamed.len(), MOST_RENAMED)
}

fn write_overview(
    out: &mut dyn Write,
    report: &Report,
    (section, selection): (&ShownSection<'_>, &DisplayOptions),
) -> io::Result<()> {
    let pivot = overview::pivot(section, selection.users_of(report));
    let is_text = |place: usize| !matches!(pivot.columns[place].shape(), ColumnShape::Number);
    let heads: Vec<_> = pivot.columns.iter().map(PivotColumn::heading).collect();
    writeln!(out)?;
    table(out, &heads, is_text, pivot.lines.iter().cloned())?;
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
        let heads: Vec<_> = columns.iter().map(|column| column.heading(section.section.section).to_owned()).collect();
        let rows = list.lines.iter().map(|row| cells(section, row, &columns));
        table(out, &heads, |place| !columns[place].is_numeric(), rows)?;
    }
    if section.cut > 0 {
        writeln!(out, "\n{}", cut(section))?;
    }
    let gap = if lists.is_empty() { "" } else { "\n" };
    hidden_line(section).map_or(Ok(()), |text| writeln!(out, "{gap}{text}"))
}

/// Writes a table, with numbers at the right of their columns.
fn table(
    out: &mut dyn Write,
    heads: &[String],
    is_text: impl Fn(usize) -> bool,
    mut rows: impl Iterator<Item = Vec<String>>,
) -> io::Result<()> {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    writeln!(out, "{}", line(heads.iter().map(|head| inline(head)).collect()))?;
    let rules = (0..heads.len()).map(|place| if is_text(place) { "---" } else { "---:" });
    writeln!(out, "|{}|", rules.collect::<Vec<_>>().join("|"))?;
    rows.try_for_each(|row| writeln!(out, "{}", line(row.iter().map(|cell| inline(cell)).collect())))
}

/// Text that is shown as it is. A name after `@` would notify a user of GitHub: an empty comment parts them.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for c in escaped(text).replace("  ", "\u{2003}").chars() {
        if matches!(c, '|' | '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '#' | '&') {
            out.push('\\');
        }
        out.push(c);
        out.push_str(if c == '@' { "<!-- -->" } else { "" });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, show};
    use crate::model::{CtprofSnapshot, ThreadState};

    #[test]
    fn documents_longer_than_a_summary_can_be_are_cut_at_a_line_and_say_so() {
        let name = |tid: u32| format!("{}{}", "long name ".repeat(150), char::from_u32(0x4E00 + tid).unwrap());
        let threads =
            (0..1_000).map(|tid| ThreadState { tid, tgid: tid, pcomm: name(tid).into(), ..ThreadState::default() });
        let mut snapshot = CtprofSnapshot { threads: threads.collect(), ..CtprofSnapshot::default() };
        snapshot.threads.iter_mut().for_each(|thread| thread.metrics.run_time_ns = Some(5_000_000.into()));
        let written = |limit| {
            let mut out = Vec::new();
            let options = DisplayOptions { groups: limit, limit, ..DisplayOptions::default() };
            write_markdown(&mut out, &show(&snapshot, &CompareOptions::default()), &options).unwrap();
            String::from_utf8(out).unwrap()
        };
        let (short, cut) = (written(Some(10)), written(None));
        assert!(!short.contains("more lines"));
        assert!(cut.len() < MOST_BYTES + 200 && cut.contains(" more lines**"), "{} bytes", cut.len());
        assert_eq!(cut.matches("<details>").count(), cut.matches("</details>").count());
    }

    #[test]
    fn names_cannot_break_out_of_a_cell() {
        assert_eq!(inline("a|b `x` <img>"), "a\\|b \\`x\\` \\<img\\>");
        assert_eq!(inline("@root &lt;"), "@<!-- -->root \\&lt;");
        assert_eq!(inline("\x1b\n"), "\\\\u{1b}\\\\n");
    }
}
