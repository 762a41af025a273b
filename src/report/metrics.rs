//! The listing of metrics, generated from their tables.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{CORE, ColumnShape, Head, REPORT_FORMAT_VERSION, layout, object};
use crate::model::sorted::CollectSorted;
use crate::model::{Class, DERIVED, Derived, KernelField, METRICS, Metric, RecordRow, Section, Source, record_rows};

/// A row of a table, by field: an object in JSON.
struct Entry(Vec<(&'static str, Value)>);

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl Entry {
    fn of_metric(metric: &Metric, kernel_field: Option<String>) -> Self {
        let mut fields = vec![
            ("name", json!(metric.name)),
            ("section", json!(metric.section.name())),
            ("type", json!(metric.type_name)),
            ("unit", json!(metric.unit.name())),
            ("reduction", json!(metric.reduction.name())),
            ("worse_if", json!(metric.direction.worse_if())),
            ("source", json!(metric.file())),
            ("place", json!(place(metric.sources.procfs))),
        ];
        fields.extend(kernel_field.map(|field| ("kernel_field", json!(field))));
        fields.extend([("tags", json!(metric.tags().collect::<Vec<_>>())), ("meaning", json!(metric.doc))]);
        Self(fields)
    }

    fn of_derived(derived: &Derived) -> Self {
        Self(vec![
            ("name", json!(derived.name)),
            ("section", json!(derived.section.name())),
            ("unit", json!(derived.unit.name())),
            ("worse_if", json!(derived.direction.worse_if())),
            ("formula", json!(derived.formula.to_string())),
            ("meaning", json!(derived.doc)),
        ])
    }

    fn of_record(row: RecordRow) -> Self {
        Self(vec![
            ("name", json!(row.name)),
            ("section", json!(row.section.name())),
            ("type", json!(row.value_type.name)),
            ("unit", json!(row.value_type.unit.name())),
            ("reduction", json!(row.value_type.reduction.name())),
            ("source", json!(row.source)),
            ("meaning", json!(row.meaning.trim())),
        ])
    }

    /// The text of a field: empty if there is none; several texts are joined by `separator`.
    fn text(&self, key: &str, separator: &str) -> String {
        match self.0.iter().find(|(name, _)| *name == key) {
            Some((_, Value::String(text))) => text.clone(),
            Some((_, Value::Array(texts))) => {
                texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(separator)
            }
            _ => String::new(),
        }
    }
}

/// Where the value is in its source, and in the sources that replace a missing one.
fn place(sources: &[Source]) -> String {
    let others = sources[1..].iter().map(|source| format!(", else {} {}", source.file(), source.place()));
    std::iter::once(sources[0].place()).chain(others).collect()
}

fn of_metrics(metrics: &[Metric], field: fn(KernelField) -> String) -> impl Iterator<Item = Entry> {
    metrics.iter().map(move |metric| Entry::of_metric(metric, metric.sources.bpf.map(field)))
}

fn derived() -> impl Iterator<Item = Entry> {
    DERIVED.iter().map(Entry::of_derived)
}

fn records() -> impl Iterator<Item = Entry> {
    record_rows().map(Entry::of_record)
}

fn legend() -> impl Iterator<Item = (&'static str, &'static str)> {
    Class::ALL.iter().map(|class| (class.name(), class.doc()))
}

fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    Section::ALL.iter().map(|section| (section.name(), section.doc()))
}

/// Metrics without the paths of older kernels, for which texts have no room.
fn of_newest_kernel(metrics: &[Metric]) -> impl Iterator<Item = Entry> {
    of_metrics(metrics, |field| field.path.split(" | ").next().unwrap_or_default().to_owned())
}

pub(crate) fn metrics_table(out: &mut dyn Write, width: Option<u16>) -> io::Result<()> {
    let keys = ["unit", "meaning", "reduction", "worse_if", "source", "kernel_field", "tags"];
    listing(out, "metric", &keys, of_newest_kernel(METRICS), width)?;
    listing(out, "derived metric", &["unit", "meaning", "worse_if", "formula"], derived(), width)?;
    let keys = ["unit", "meaning", "reduction", "section", "source"];
    listing(out, "value of cgroups and the host", &keys, records(), width)?;
    let sections = sections().map(|(name, doc)| Entry(vec![("name", json!(name)), ("meaning", json!(doc))]));
    listing(out, "section", &["meaning"], sections, width)?;
    let capitals = "tags: names in capitals are the kernel's CONFIG_ options that the metric needs";
    writeln!(out, "{}", layout::folded(capitals, TAG_INDENT, width))?;
    legend().try_for_each(|(tag, meaning)| {
        let text = layout::folded(&format!("{tag}: {meaning}"), TAG_INDENT, width);
        writeln!(out, "{:TAG_INDENT$}{text}", "")
    })
}

const TAG_INDENT: usize = 6;

/// Writes a table and an empty line. The name, in the first column, is never cut; the meaning is cut first.
fn listing(
    out: &mut dyn Write,
    name: &str,
    keys: &[&str],
    entries: impl Iterator<Item = Entry>,
    width: Option<u16>,
) -> io::Result<()> {
    let headings: Vec<_> = keys.iter().map(|key| key.replace('_', " ")).collect();
    let head = |text| Head {
        text,
        shape: if text == "meaning" { ColumnShape::Prose } else { ColumnShape::Whole },
        dispensable: (text != name).then_some(CORE),
    };
    let heads: Vec<_> = [name].into_iter().chain(headings.iter().map(String::as_str)).map(head).collect();
    let row = |entry: Entry| ["name"].iter().chain(keys).map(|key| entry.text(key, " ")).collect();
    let (lines, _) = layout::lines(&heads, &entries.map(row).collect::<Vec<_>>(), &[], width);
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out)
}

#[derive(Serialize)]
struct Listing {
    format_version: u32,
    metrics: Vec<Entry>,
    derived: Vec<Entry>,
    records: Vec<Entry>,
    sections: BTreeMap<&'static str, &'static str>,
    tags: BTreeMap<&'static str, &'static str>,
}

pub(crate) fn metrics_json(out: &mut dyn Write) -> io::Result<()> {
    let listing = Listing {
        format_version: REPORT_FORMAT_VERSION,
        metrics: of_metrics(METRICS, KernelField::place).collect(),
        derived: derived().collect(),
        records: records().collect(),
        sections: sections().into_map(),
        tags: legend().into_map(),
    };
    object(out, &listing)
}

const INTRODUCTION: &str = "\
# Metrics

Generated by `ctprof metrics --format markdown`. JSON also has types, and the paths of older kernels.

Sources are files of `/proc/<tgid>/task/<tid>/` or kernel facilities. The BPF engine reads the kernel field instead, a path from
`struct task_struct`. `worse if` decides whether a change is called worse or better. It is empty where more can be good or bad.";

pub(crate) fn metrics_markdown(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{INTRODUCTION}")?;
    for section in METRICS.chunk_by(|a, b| a.section == b.section) {
        writeln!(out, "\n## {}\n", section[0].section.name())?;
        let keys = ["unit", "reduction", "worse_if", "source", "place", "kernel_field", "tags", "meaning"];
        markdown_table(out, "metric", &keys, of_newest_kernel(section))?;
    }
    writeln!(out, "\n## Derived metrics\n")?;
    writeln!(out, "Computed from a group's totals; absent if an input is absent or a denominator is 0.\n")?;
    markdown_table(out, "metric", &["unit", "worse_if", "formula", "meaning"], derived())?;
    writeln!(out, "\n## Values of cgroups and the host\n")?;
    writeln!(
        out,
        "Of the cgroups of a group, an ancestor's sum counts for its descendants. A cgroup without threads is listed if it \
         has a CPU quota, with its limits and throttling; that of a pod is its own and that of its containers.\n"
    )?;
    markdown_table(out, "value", &["section", "unit", "reduction", "source", "meaning"], records())?;
    writeln!(out, "\n## Sections\n")?;
    sections().try_for_each(|(name, doc)| writeln!(out, "- `{name}`: {doc}"))?;
    writeln!(out, "\n## Tags\n")?;
    writeln!(out, "Names in capitals are the kernel's options, without `CONFIG_`, that the metric needs.\n")?;
    legend().try_for_each(|(tag, meaning)| writeln!(out, "- `{tag}`: {meaning}"))
}

fn markdown_table(
    out: &mut dyn Write,
    name: &str,
    keys: &[&str],
    mut entries: impl Iterator<Item = Entry>,
) -> io::Result<()> {
    writeln!(out, "| {name} | {} |", keys.join(" | ").replace('_', " "))?;
    writeln!(out, "|---|{}", "---|".repeat(keys.len()))?;
    entries.try_for_each(|entry| {
        let texts: Vec<_> = keys.iter().map(|key| entry.text(key, ", ")).collect();
        writeln!(out, "| `{}` | {} |", entry.text("name", ""), texts.join(" | "))
    })
}
