//! The data of an HTML page: facts, gates, and the rows of JSON with a text beside each value.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::{Fact, FactData, FactLine, explains_gaps, gates, ladder};
use super::answer;
use super::rows::PageSection;
use super::sections::{RunDots, SectionData};
use super::shared::{Cells, Paths, Shared};
use super::sides::{self, CpuBar};
use super::trends::TrendsData;
use crate::compare::{ELAPSED, GateResult, GroupBy, Report};
use crate::model::sorted::CollectSorted;
use crate::model::{Section, Unit};

#[derive(Serialize)]
pub(super) struct PageData<'p> {
    title: String,
    /// The answer of the report, in a sentence.
    answer: String,
    /// The file of the only side, or of the baseline.
    file: &'p str,
    lines: Vec<LineData<'p>>,
    /// Sources that no thread has, and sources that some threads lack; the view of captures says why.
    missing: Vec<String>,
    partial: Vec<String>,
    gates: Option<GateTable<'p>>,
    two: bool,
    verdicts: bool,
    group_by: GroupBy,
    /// CPU time that all CPUs of the host have, in percent of one CPU; `None` if the sides differ, or if values are no shares of
    /// time.
    capacity: Option<u64>,
    /// Steps of each unit, for numbers that only the page computes: averages over a selected period, and scales.
    scales: BTreeMap<&'static str, UnitSteps>,
    cells: Cells,
    paths: Paths<'p>,
    sections: Vec<SectionData<'p>>,
    /// The sections of the tree below the groups.
    tree: Option<Vec<SectionData<'p>>>,
    trends: Option<TrendsData<'p>>,
}

/// A line of facts, with what is drawn beside it.
#[derive(Serialize)]
struct LineData<'p> {
    #[serde(flatten)]
    line: &'p FactLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<CpuBar>,
    /// How long the command of each run took.
    #[serde(skip_serializing_if = "Option::is_none")]
    dots: Option<RunDots<'p>>,
}

/// The results of gates, as in the other formats.
#[derive(Serialize)]
struct GateTable<'p> {
    headings: &'static [&'static str],
    rows: Vec<[String; 9]>,
    /// The values of the runs that each row is about.
    dots: Vec<Option<RunDots<'p>>>,
}

#[derive(Serialize)]
struct UnitSteps {
    /// The size of each step, and its name.
    steps: &'static [(f64, &'static str)],
    /// Whether small numbers have a decimal.
    decimal: bool,
}

impl<'p> PageData<'p> {
    pub(super) fn new(
        report: &'p Report,
        report_facts: &'p [Fact<'p>],
        groups: Vec<PageSection<'p>>,
        tree: Option<Vec<PageSection<'p>>>,
    ) -> Self {
        let mut shared = Shared::default();
        let answer = answer::sentence(report, groups.iter().find(|page| page.name() == Section::Overview));
        let [partial, missing] = [true, false].map(|is_partial| {
            let gaps = report.needed_gaps().filter(|gap| gap.affected.is_some() == is_partial);
            let mut sources: Vec<_> = gaps.map(|gap| gap.source.to_string()).collect();
            sources.dedup();
            if tells_gaps(report, report_facts) { sources } else { Vec::new() }
        });
        let mut sections = sides::sections(report, &mut shared);
        let mut read = |page: PageSection<'p>, report| SectionData::new(page, report, &mut shared);
        sections.extend(groups.into_iter().map(|page| read(page, report)));
        let tree = report.tree.as_deref().zip(tree);
        let tree = tree.map(|(report, pages)| pages.into_iter().map(|page| read(page, report)).collect());
        let trends = TrendsData::new(&report.trends, &mut shared.paths);
        let scale = |unit: &Unit| (unit.name(), UnitSteps { steps: ladder(*unit), decimal: unit.is_rate() });
        Self {
            title: sides::title(report),
            answer,
            file: report.header.as_ref().map(|header| &*header.sides.baseline.file).unwrap_or_default(),
            lines: lines(report, report_facts),
            missing,
            partial,
            gates: Some(&report.gates[..]).filter(|results| !results.is_empty()).map(GateTable::new),
            two: report.is_comparison(),
            verdicts: report.has_verdicts(),
            group_by: report.group_by,
            capacity: capacity(report),
            scales: Unit::ALL.iter().map(scale).into_map(),
            cells: shared.cells,
            paths: shared.paths,
            sections,
            tree,
            trends,
        }
    }
}

/// The facts, but for data that is missing: the page names its sources on one line.
fn lines<'p>(report: &'p Report, facts: &'p [Fact<'p>]) -> Vec<LineData<'p>> {
    let elapsed = report.elapsed();
    let of_fact = |fact: &'p Fact<'p>| {
        let (mut cpu, mut dots) = match fact.data {
            FactData::Side(side) => (side.and_then(CpuBar::new), None),
            _ if fact.key == ELAPSED => (None, elapsed.and_then(RunDots::new)),
            _ => (None, None),
        };
        fact.lines.iter().map(move |line| LineData { line, cpu: cpu.take(), dots: dots.take() })
    };
    facts.iter().filter(|fact| !is_missing(report, fact)).flat_map(of_fact).collect()
}

/// Whether a fact says what data is missing; without sections but the overview, a line says it.
fn tells_gaps(report: &Report, facts: &[Fact<'_>]) -> bool {
    facts.iter().any(|fact| is_missing(report, fact) && !fact.lines.is_empty())
}

/// Returns true if the lines of a fact name sources whose data is missing, and why.
fn is_missing(report: &Report, fact: &Fact<'_>) -> bool {
    matches!(fact.data, FactData::Gaps(_)) && explains_gaps(report)
}

fn capacity(report: &Report) -> Option<u64> {
    let header = report.header.as_ref()?;
    let mut cpus = header.sides.iter().map(|side| Some(side.window.as_ref()?.info.cpu.as_ref()?.cpus));
    let first = cpus.next()??;
    let is_share = report.rows().any(|(_, row)| row.section == Section::Overview && row.unit == Unit::Percent);
    (is_share && first > 0 && cpus.all(|cpus| cpus == Some(first))).then_some(first * 100)
}

impl<'p> GateTable<'p> {
    fn new(results: &'p [GateResult]) -> Self {
        let results = gates::worst_first(results);
        let dots = results.iter().map(|result| RunDots::of_gate(result)).collect();
        Self { headings: &gates::HEADINGS, rows: results.into_iter().map(gates::cells).collect(), dots }
    }
}
