//! The page of one snapshot.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use super::page::{Fact, Line, Page, PageGroup, PageRow, PageSection, Selection, Sided, Tone};
use super::window;
use crate::compare::{Side, View, ViewRow, ViewTable};
use crate::diagnose::Kind;
use crate::model::Section;

impl<'r> Page<'r> {
    /// The page of one snapshot.
    #[must_use]
    pub fn of_view(view: &'r View, selection: Selection) -> Self {
        Self {
            facts: facts(view),
            group_by: view.group_by,
            sections: view.tables.iter().map(|table| section(table, selection)).collect(),
            is_repeated: false,
            renamed: None,
            gates: None,
            tree: None,
        }
    }
}

fn section<'r>(table: &'r ViewTable, selection: Selection) -> PageSection<'r> {
    let groups = table.groups.iter().map(|group| PageGroup {
        name: &group.name,
        path: &group.path,
        name_cut: group.name_cut,
        renamed: group.renamed,
        members: Sided::One(Some(group.population.members)),
        exited_work: group.population.exited_work,
        turnover: Sided::One(Some(group.population.turnover)),
        uptime: Sided::One(group.population.uptime),
    });
    let row = |row: &'r ViewRow| PageRow {
        section: table.section,
        group: row.group,
        name: &row.name,
        unit: row.unit,
        quantity: row.quantity,
        values: Sided::One(row.value.as_ref()),
        covered: Sided::One(Some(row.covered)),
        partial: row.partial,
        delta: None,
        percent: None,
        change: None,
        runs: None,
        leads: false,
    };
    PageSection::new(table.section, &table.notes, groups.collect(), table.rows.iter().map(row), selection)
}

fn facts(view: &View) -> Vec<Fact> {
    let line = |label, text| Line { label, text, tone: Tone::Fact };
    let host: BTreeMap<_, _> = view.host.iter().map(|(field, value)| (field, value)).collect();
    let shown = view.side.as_ref();
    let gaps = if view.tables.iter().all(|table| table.section == Section::Overview) {
        let mut sources: Vec<_> = view.gaps.iter().map(|gap| gap.source.name()).collect();
        // A source can be missing for several reasons.
        sources.dedup();
        let text = format!("{} (--long says why)", sources.join(", "));
        if sources.is_empty() { Vec::new() } else { vec![line("missing", text)] }
    } else {
        view.gaps.iter().map(|gap| line("missing", gap.to_string())).collect()
    };
    let about = |side: &Side| match &side.window {
        Some(window) => window::lines("window", side, window),
        None => vec![line("snapshot", described(side))],
    };
    vec![
        Fact { key: "snapshot", data: json!(shown), lines: shown.map(about).unwrap_or_default() },
        Fact { key: "per", data: json!(view.per), lines: Vec::new() },
        Fact { key: "host", data: json!(host), lines: Vec::new() },
        Fact { key: "gaps", data: json!(view.gaps), lines: if shown.is_some() { gaps } else { Vec::new() } },
    ]
}

/// One line about a snapshot.
pub(super) fn described(side: &Side) -> String {
    let when = Some(i128::from(side.captured_at_unix_ns)).filter(|when| *when > 0);
    let when = when.and_then(|when| Timestamp::from_nanosecond(when).ok());
    let when = when.map_or_else(|| "time unknown".to_owned(), |when| format!("{when:.0}"));
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    format!(
        "{}  {}, Linux {} {}, {when}, {} in {}, {}{}",
        side.file,
        known(&side.hostname),
        known(&side.kernel_release),
        known(&side.arch),
        Kind::Threads.counted(side.threads),
        Kind::Processes.counted(side.processes),
        side.tool.as_deref().unwrap_or("unknown tool"),
        side.engine.iter().filter(|engine| !engine.is_empty()).map(|engine| format!(" ({engine})")).collect::<String>(),
    )
}
