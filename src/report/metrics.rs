//! The listing of metrics, generated from their table.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::REPORT_FORMAT_VERSION;
use super::json::object;
use super::layout::{self, Head, Shape};
use crate::model::{Class, DERIVED, Derived, KernelField, METRICS, Metric, RecordRow, Section, Source, record_rows};

#[derive(Serialize)]
struct Listing {
    format_version: u32,
    metrics: Vec<Entry>,
    derived: Vec<DerivedEntry>,
    records: Vec<RecordEntry>,
    sections: BTreeMap<&'static str, &'static str>,
    tags: BTreeMap<&'static str, &'static str>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    section: &'static str,
    r#type: &'static str,
    unit: &'static str,
    reduction: &'static str,
    worse_if: Option<&'static str>,
    source: &'static str,
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_field: Option<String>,
    tags: Vec<&'static str>,
    meaning: &'static str,
}

#[derive(Serialize)]
struct DerivedEntry {
    name: &'static str,
    section: &'static str,
    unit: &'static str,
    worse_if: Option<&'static str>,
    formula: String,
    meaning: &'static str,
}

#[derive(Serialize)]
struct RecordEntry {
    name: String,
    section: &'static str,
    r#type: &'static str,
    unit: &'static str,
    reduction: &'static str,
    source: String,
    meaning: &'static str,
}

impl From<RecordRow> for RecordEntry {
    fn from(row: RecordRow) -> Self {
        let RecordRow { section, name, value_type, source, meaning, .. } = row;
        Self {
            name,
            section: section.name(),
            r#type: value_type.name,
            unit: value_type.unit.name(),
            reduction: value_type.reduction.name(),
            source,
            meaning: meaning.trim(),
        }
    }
}

impl From<&Derived> for DerivedEntry {
    fn from(derived: &Derived) -> Self {
        let &Derived { name, section, unit, direction, formula, doc: meaning } = derived;
        let (section, unit, worse_if) = (section.name(), unit.name(), direction.worse_if());
        Self { name, section, unit, worse_if, formula: formula.to_string(), meaning }
    }
}

impl From<&Metric> for Entry {
    fn from(metric: &Metric) -> Self {
        Self {
            name: metric.name,
            section: metric.section.name(),
            r#type: metric.type_name,
            unit: metric.unit.name(),
            reduction: metric.reduction.name(),
            worse_if: metric.direction.worse_if(),
            source: metric.file(),
            place: place(metric.sources.procfs),
            kernel_field: metric.sources.bpf.map(KernelField::place),
            tags: metric.tags().collect(),
            meaning: metric.doc,
        }
    }
}

/// The sources of a value: the first, and its fallbacks.
fn place(sources: &[Source]) -> String {
    let others = sources[1..].iter().map(|source| format!(", else {} {}", source.file(), source.place()));
    std::iter::once(sources[0].place()).chain(others).collect()
}

fn entries() -> impl Iterator<Item = Entry> {
    METRICS.iter().map(Entry::from)
}

fn derived() -> impl Iterator<Item = DerivedEntry> {
    DERIVED.iter().map(DerivedEntry::from)
}

fn records() -> impl Iterator<Item = RecordEntry> {
    record_rows().map(RecordEntry::from)
}

fn legend() -> impl Iterator<Item = (&'static str, &'static str)> {
    Class::ALL.into_iter().map(|class| (class.tag(), class.meaning()))
}

fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    Section::ALL.iter().map(|section| (section.name(), section.doc()))
}

/// Writes the listing as a table.
///
/// # Errors
/// Errors of `out`.
pub fn metrics_table(out: &mut dyn Write, width: Option<u16>) -> io::Result<()> {
    let columns = ["metric", "unit", "meaning", "reduction", "worse if", "source", "kernel field", "tags"];
    let row = |metric: &Metric| {
        let entry = Entry::from(metric);
        let [name, unit, reduction, source] = [entry.name, entry.unit, entry.reduction, entry.source];
        let worse_if = entry.worse_if.unwrap_or_default();
        let field = metric.sources.bpf.map_or("", KernelField::newest_path);
        [name, unit, entry.meaning, reduction, worse_if, source, field, &entry.tags.join(" ")]
            .map(str::to_owned)
            .to_vec()
    };
    listing(out, &columns, METRICS.iter().map(row).collect(), width)?;
    writeln!(out)?;
    let columns = ["derived metric", "unit", "meaning", "worse if", "formula"];
    let row = |entry: DerivedEntry| {
        let worse_if = entry.worse_if.unwrap_or_default();
        [entry.name, entry.unit, entry.meaning, worse_if, &entry.formula].map(str::to_owned).to_vec()
    };
    listing(out, &columns, derived().map(row).collect(), width)?;
    writeln!(out)?;
    let columns = ["value of cgroups and the host", "unit", "meaning", "reduction", "section", "source"];
    let row = |entry: RecordEntry| {
        let [unit, reduction, section] = [entry.unit, entry.reduction, entry.section];
        [&entry.name, unit, entry.meaning, reduction, section, &entry.source].map(str::to_owned).to_vec()
    };
    listing(out, &columns, records().map(row).collect(), width)?;
    writeln!(out)?;
    let row = |(name, doc): (&str, &str)| [name, doc].map(str::to_owned).to_vec();
    listing(out, &["section", "meaning"], sections().map(row).collect(), width)?;
    let capitals = "tags: names in capitals are the kernel's CONFIG_ options that the metric needs";
    writeln!(out, "\n{}", layout::folded(capitals, TAG_INDENT, width))?;
    legend().try_for_each(|(tag, meaning)| {
        let text = layout::folded(&format!("{tag}: {meaning}"), TAG_INDENT, width);
        writeln!(out, "{:TAG_INDENT$}{text}", "")
    })
}

/// The indentation of tags below their heading.
const TAG_INDENT: usize = 6;

/// Writes rows with a first column that is never cut and a meaning that is cut first.
fn listing(
    out: &mut dyn Write,
    columns: &[&'static str],
    rows: Vec<Vec<String>>,
    width: Option<u16>,
) -> io::Result<()> {
    let head = |text: &&'static str| {
        let shape = if *text == "meaning" { Shape::Prose } else { Shape::Whole };
        Head { text, shape, essential: *text == columns[0] }
    };
    layout::write(out, &columns.iter().map(head).collect::<Vec<_>>(), &rows, width).map(drop)
}

/// Writes the listing as JSON.
///
/// # Errors
/// Errors of `out`.
pub fn metrics_json(out: &mut dyn Write) -> io::Result<()> {
    let listing = Listing {
        format_version: REPORT_FORMAT_VERSION,
        metrics: entries().collect(),
        derived: derived().collect(),
        records: records().collect(),
        sections: sections().collect(),
        tags: legend().collect(),
    };
    object(out, &listing)
}

/// Writes the listing as a Markdown page.
///
/// # Errors
/// Errors of `out`.
pub fn metrics_markdown(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# Metrics\n")?;
    writeln!(out, "Generated by `ctprof metrics --format markdown`.\n")?;
    writeln!(out, "Sources are files of `/proc/<tgid>/task/<tid>/` or facilities of the kernel. The BPF")?;
    writeln!(out, "engine reads the kernel field instead, a path from `struct task_struct`. A value that")?;
    writeln!(out, "the kernel did not give is absent, never 0.\n")?;
    writeln!(out, "`worse if` is `more` for resources that were used up and time that was lost. It is empty where")?;
    writeln!(out, "more can be good or bad: how threads work, and how they are configured. It decides whether a")?;
    writeln!(out, "change is called worse or better, and which values the gate `worse` looks at.")?;
    for section in METRICS.chunk_by(|a, b| a.section == b.section) {
        writeln!(out, "\n## {}\n", section[0].section.name())?;
        writeln!(
            out,
            "| metric | type | unit | reduction | worse if | source | place | kernel field | tags | meaning |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
        for e in section.iter().map(Entry::from) {
            let (tags, place, field) = (e.tags.join(", "), e.place, e.kernel_field.unwrap_or_default());
            let worse_if = e.worse_if.unwrap_or_default();
            writeln!(
                out,
                "| `{}` | {} | {} | {} | {worse_if} | {} | {place} | {field} | {tags} | {} |",
                e.name, e.r#type, e.unit, e.reduction, e.source, e.meaning
            )?;
        }
    }
    writeln!(out, "\n## Derived metrics\n")?;
    writeln!(out, "Computed from a group's totals; absent if an input is absent or a denominator is 0.\n")?;
    writeln!(out, "| metric | section | unit | worse if | formula | meaning |\n|---|---|---|---|---|---|")?;
    for e in derived() {
        let worse_if = e.worse_if.unwrap_or_default();
        writeln!(out, "| `{}` | {} | {} | {worse_if} | {} | {} |", e.name, e.section, e.unit, e.formula, e.meaning)?;
    }
    writeln!(out, "\n## Values of cgroups and the host\n")?;
    writeln!(out, "Of the cgroups of a group, an ancestor's sum counts for its descendants.\n")?;
    writeln!(out, "| value | section | type | unit | reduction | source | meaning |\n|---|---|---|---|---|---|---|")?;
    for e in records() {
        let (kind, reduction) = (e.r#type, e.reduction);
        writeln!(
            out,
            "| `{}` | {} | {kind} | {} | {reduction} | {} | {} |",
            e.name, e.section, e.unit, e.source, e.meaning
        )?;
    }
    writeln!(out, "\n## Sections\n")?;
    sections().try_for_each(|(name, doc)| writeln!(out, "- `{name}`: {doc}"))?;
    writeln!(out, "\n## Tags\n")?;
    writeln!(out, "Names in capitals are the kernel's options, without `CONFIG_`, that the metric needs.\n")?;
    legend().try_for_each(|(tag, meaning)| writeln!(out, "- `{tag}`: {meaning}"))
}
