//! Reports as tables of text.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{
    CORE, Column, ColumnShape, DisplayOptions, FactLine, Head, List, ListLine, OverviewLines, ShownSection, Terminal,
    escaped, indent, layout, outcome, report_facts,
};
use crate::compare::{Change, Headline, Renamed, Report};
use crate::diagnose::{counted, plural};
use crate::model::Section;

const LABEL: usize = 10;
const NOTE: &str = "  ";
/// Writes a report as text. Errors come from `out`.
pub fn write_table(
    out: &mut dyn Write,
    report: &Report,
    selection: &DisplayOptions,
    terminal: Terminal,
) -> io::Result<()> {
    TableWriter { out, report, selection, terminal, left_out: BTreeSet::new() }.write()
}

struct TableWriter<'w> {
    out: &'w mut dyn Write,
    report: &'w Report,
    selection: &'w DisplayOptions,
    terminal: Terminal,
    /// Columns that there was no room for.
    left_out: BTreeSet<&'static str>,
}

impl TableWriter<'_> {
    fn write(mut self) -> io::Result<()> {
        let (report, selection) = (self.report, self.selection);
        report_facts(report).iter().flat_map(|fact| &fact.lines).try_for_each(|line| self.fact(line))?;
        let (overviews, others): (Vec<_>, Vec<_>) =
            report.sections.iter().partition(|section| section.section == Section::Overview);
        let overviews = overviews.into_iter().map(|section| ShownSection::of_groups(section, selection));
        let sections = others.into_iter().map(|section| match section.section {
            // Reasons of all groups together are mostly those of idle threads.
            Section::Reasons => ShownSection::of_groups(section, selection),
            _ => ShownSection::new(section, selection),
        });
        let (overviews, sections): (Vec<_>, Vec<_>) = (overviews.collect(), sections.collect());
        overviews.iter().try_for_each(|section| self.overview(section))?;
        let is_same = |section: &&ShownSection<'_>| section.lists().is_empty() && section.section.notes.is_empty();
        let (same, others): (Vec<_>, Vec<_>) = sections.iter().partition(is_same);
        others.into_iter().try_for_each(|section| self.section(section))?;
        if !same.is_empty() {
            let counts = same.iter().map(|section| format!("{} {}", name(section), hidden(section)));
            let text = format!("no change: {} (show with --unchanged)", counts.collect::<Vec<_>>().join("; "));
            writeln!(self.out, "\n{}", self.folded(&text, 0))?;
        }
        self.renamed()?;
        self.legend(overviews.iter().chain(&sections))
    }

    fn folded(&self, text: &str, indent: usize) -> String {
        layout::folded(text, indent, self.terminal.width)
    }

    fn fact(&mut self, line: &FactLine) -> io::Result<()> {
        let label = format!("{:<LABEL$}", line.label);
        let label = match line.is_warning {
            _ if line.label.is_empty() => label,
            true => self.terminal.rendered("33", &label),
            false => self.terminal.strong(&label),
        };
        writeln!(self.out, "{label} {}", self.folded(&escaped(&line.text), LABEL + 1))
    }

    fn section(&mut self, section: &ShownSection<'_>) -> io::Result<()> {
        writeln!(self.out, "\n{}", self.terminal.strong(name(section)))?;
        for note in &section.section.notes {
            writeln!(self.out, "{NOTE}{}", self.folded(&escaped(&note.to_string()), NOTE.len()))?;
        }
        section.lists().iter().try_for_each(|list| self.list(section, list))?;
        let cut = (section.cut > 0).then(|| cut(section));
        let mut below = cut.into_iter().chain(hidden_line(section));
        below.try_for_each(|text| writeln!(self.out, "{}", self.folded(&text, 0)))
    }

    fn overview(&mut self, section: &ShownSection<'_>) -> io::Result<()> {
        let lines = OverviewLines::of_section(self.report, section, self.selection, self.terminal);
        writeln!(self.out, "\n{}", lines.heading)?;
        let rows = lines.rows.iter().flat_map(|row| &row.lines);
        rows.chain(&lines.below).try_for_each(|line| writeln!(self.out, "{line}"))
    }

    /// Writes the meaning of marks, and the columns for which there is no room.
    fn legend<'s>(&mut self, sections: impl Iterator<Item = &'s ShownSection<'s>>) -> io::Result<()> {
        let mut lines = Vec::new();
        let mut rows = sections.flat_map(|section| &section.rows);
        if rows.any(|row| row.partial && row.hidden_reason().is_none()) {
            lines.push("* excludes members whose value is unknown (counts with --metrics coverage)".to_owned());
        }
        if !self.left_out.is_empty() {
            let names = self.left_out.iter().copied().collect::<Vec<_>>().join(", ");
            lines.push(format!("left out for lack of width: {names} (choose with --metrics)"));
        }
        for (place, text) in lines.iter().enumerate() {
            let gap = if place == 0 { "\n" } else { "" };
            writeln!(self.out, "{gap}{}", self.folded(text, 0))?;
        }
        Ok(())
    }

    fn list(&mut self, section: &ShownSection<'_>, list: &List<'_>) -> io::Result<()> {
        if let Some(title) = list_title(section, list) {
            writeln!(self.out, "\n{}", self.terminal.strong(&title))?;
        }
        let columns = list_columns(section, list, self.selection.columns(self.report));
        let heads: Vec<_> = columns.iter().map(|column| head(*column, section.section.section, list.only_in)).collect();
        let rows: Vec<_> = list.lines.iter().map(|line| cells(section, line, &columns)).collect();
        let tone = |line: &ListLine<'_>| match line {
            ListLine::Row(row) if row.verdict().is_some() => self.terminal.tone(outcome(row, Headline::Change)),
            _ => None,
        };
        let tones: Vec<_> = list.lines.iter().map(tone).collect();
        let (lines, left_out) = layout::lines(&heads, &rows, &tones, self.terminal.width);
        self.left_out.extend(left_out);
        lines.iter().try_for_each(|line| writeln!(self.out, "{line}"))
    }

    fn renamed(&mut self) -> io::Result<()> {
        if self.report.renamed.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n{}", self.terminal.strong(RENAMED))?;
        self.report.renamed.iter().try_for_each(|Renamed { baseline, candidate, similarity, .. }| {
            let pair = self.folded(&format!("{} → {}", escaped(baseline), escaped(candidate)), LABEL + 1);
            writeln!(self.out, "{:<LABEL$} {pair}", format!("{:.0}%", similarity * 100.0))
        })
    }
}

pub(super) fn name(section: &ShownSection<'_>) -> &'static str {
    section.section.section.name()
}

/// The columns that a narrow terminal still shows: group, metric and one value.
fn head(column: Column, section: Section, only_in: Option<Change>) -> Head<'static> {
    let shape = match column {
        Column::Verdict => ColumnShape::Phrase,
        _ if column.is_numeric() => ColumnShape::Number,
        _ => ColumnShape::Name,
    };
    let essential = match column {
        Column::Group | Column::Metric | Column::Baseline | Column::Value | Column::Verdict => true,
        Column::Candidate => only_in == Some(Change::CandidateOnly),
        _ => false,
    };
    Head { text: column.heading(section), shape, dispensable: (!essential).then_some(CORE) }
}

/// The heading of a list of groups that exist on one side.
pub(super) fn list_title(section: &ShownSection<'_>, list: &List<'_>) -> Option<String> {
    let side = match list.only_in? {
        Change::BaselineOnly => "baseline",
        _ => "candidate",
    };
    Some(format!("{} only in the {side}: {}", name(section), counted(list.groups(), "group")))
}

/// The columns that apply to a list: groups on one side have only the columns of that side.
pub(super) fn list_columns(section: &ShownSection<'_>, list: &List<'_>, columns: &[Column]) -> Vec<Column> {
    let has = |column: Column| match list.only_in {
        _ if column.heading(section.section.section).is_empty() => false,
        None => true,
        Some(Change::BaselineOnly) => column.is_of_views() || column == Column::Baseline,
        Some(_) => column.is_of_views() || column == Column::Candidate,
    };
    columns.iter().copied().filter(|column| has(*column)).collect()
}

pub(super) fn cells(section: &ShownSection<'_>, line: &ListLine<'_>, columns: &[Column]) -> Vec<String> {
    let text = |column: &Column| match line {
        ListLine::Row(row) => column.text(section.group(row), row),
        ListLine::Ancestor { name, depth } if *column == Column::Group => format!("{}{name}", indent(*depth)),
        ListLine::Ancestor { .. } => String::new(),
    };
    columns.iter().map(text).collect()
}

/// How many rows are hidden, and how to see them.
pub(super) fn hidden_line(section: &ShownSection<'_>) -> Option<String> {
    let hidden = hidden(section);
    (!hidden.is_empty()).then(|| format!("hidden: {hidden} (show with --unchanged)"))
}

pub(super) fn cut(section: &ShownSection<'_>) -> String {
    format!("{} more {} (show with --limit 0)", section.cut, plural(section.cut, "row"))
}

fn hidden(section: &ShownSection<'_>) -> String {
    let counts = section.hidden().into_iter().map(|(reason, count)| format!("{count} {}", reason.name()));
    counts.collect::<Vec<_>>().join(", ")
}

pub(super) const RENAMED: &str = "renamed cgroups (≈) and how alike their threads are";
