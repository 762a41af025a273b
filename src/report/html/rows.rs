//! Rows that an HTML page has: tables hide the rest, or they are beyond the limit.

use std::collections::{HashMap, HashSet};

use super::super::selection::{DisplayOptions, ShownSection};
use crate::compare::{HiddenReason, Report, Row};
use crate::diagnose::counted;
use crate::model::Section;
use crate::model::sorted::Arrange;

pub(super) struct PageSection<'r> {
    /// The section without hidden rows.
    pub(super) shown: ShownSection<'r>,
    /// The number of hidden groups of an overview, or of hidden rows, in words; `None` if none are hidden.
    hidden: Option<String>,
}

/// The rows of all sections, and of the sections of the tree. The overview has up to half of the limit, the overview of
/// the tree up to half of the rest; other sections share what is left.
pub(super) fn selected<'r>(
    report: &'r Report,
    selection: &DisplayOptions,
) -> (Vec<PageSection<'r>>, Option<Vec<PageSection<'r>>>) {
    let sections = |report: &'r Report| -> Vec<_> {
        report.sections.iter().map(|section| PageSection::new(ShownSection::of_groups(section, selection))).collect()
    };
    let (mut groups, mut tree) = (sections(report), report.tree.as_deref().map(sections));
    if let Some(mut left) = selection.all_rows {
        let all = groups.iter_mut().chain(tree.iter_mut().flatten());
        let (overviews, mut others): (Vec<_>, Vec<_>) = all.partition(|page| page.name() == Section::Overview);
        for overview in overviews {
            overview.limit(left / 2);
            left -= overview.shown.rows.len();
        }
        // Limits and events of cgroups follow their use. Small sections leave their part to large ones.
        others.retain(|page| !is_of_limits(page.name()) || page.name() == Section::CgroupStats);
        others.arrange_by_key(|page| page.shown.rows.len());
        let count = others.len();
        for (place, page) in others.into_iter().enumerate() {
            page.limit(left / (count - place));
            left -= page.shown.rows.len();
        }
        [&mut groups].into_iter().chain(&mut tree).for_each(|pages| keep_same_cgroups(pages));
    }
    (groups, tree)
}

/// Leaves out limits and events of cgroups whose use was left out.
fn keep_same_cgroups(pages: &mut [PageSection<'_>]) {
    let used = pages.iter().find(|page| page.name() == Section::CgroupStats);
    let Some(used) = used.map(|used| &used.shown).filter(|used| used.cut > 0) else { return };
    let kept: HashSet<&[String]> = used.rows.iter().map(|row| &used.group(row).key[..]).collect();
    for ShownSection { section, rows, cut, .. } in pages.iter_mut().map(|page| &mut page.shown) {
        if is_of_limits(section.section) {
            let before = rows.len();
            rows.retain(|row| kept.contains(&section.groups[row.group].key[..]));
            *cut += before - rows.len();
        }
    }
}

/// Sections of cgroups that are whole: what a cgroup used is shown beside its limits, which seldom change.
fn is_of_limits(section: Section) -> bool {
    matches!(section, Section::CgroupStats | Section::CgroupLimits | Section::MemoryEvents)
}

impl<'r> PageSection<'r> {
    fn new(section: ShownSection<'r>) -> Self {
        let (rows, hidden) =
            if section.section.section == Section::Overview { overview(&section) } else { others(&section) };
        Self { shown: ShownSection { rows, ..section }, hidden }
    }

    /// How many rows the page lacks, and the options that show them.
    pub(super) fn left_out(&self) -> Option<String> {
        let cut = Some(self.shown.cut).filter(|cut| *cut > 0);
        let cut = cut.map(|cut| match self.name() {
            Section::Overview => format!("{} not in this file (--limit 0)", counted(cut, "more group")),
            _ => format!("{cut} not in this file (--limit 0)"),
        });
        let texts: Vec<_> = self.hidden.iter().cloned().chain(cut).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    pub(super) fn name(&self) -> Section {
        self.shown.section.section
    }

    /// Leaves out rows beyond a limit. A group of an overview, and a cgroup beside its limits, has all of its rows or
    /// none.
    fn limit(&mut self, limit: usize) {
        let (section, ShownSection { rows, cut, .. }) = (self.name(), &mut self.shown);
        let is_overview = section == Section::Overview;
        if rows.len() <= limit {
            return;
        }
        if !is_overview && !is_of_limits(section) {
            *cut += rows.len() - limit;
            return rows.truncate(limit);
        }
        let mut counts: HashMap<usize, usize> = HashMap::new();
        rows.iter().for_each(|row| *counts.entry(row.group).or_default() += 1);
        let mut kept = HashMap::new();
        let mut left = limit;
        for row in &*rows {
            kept.entry(row.group).or_insert_with(|| {
                let fits = counts[&row.group] <= left;
                left = if fits { left - counts[&row.group] } else { 0 };
                fits
            });
        }
        let before = rows.len();
        rows.retain(|row| kept[&row.group]);
        let groups = kept.values().filter(|kept| !**kept).count();
        *cut += if is_overview { groups } else { before - rows.len() };
    }
}

type ShownAndHidden<'r> = (Vec<&'r Row>, Option<String>);

/// The groups of an overview are hidden as a whole.
fn overview<'r>(section: &ShownSection<'r>) -> ShownAndHidden<'r> {
    let (hidden, shown): (Vec<_>, Vec<_>) =
        section.rows_of_groups().into_iter().partition(|rows| section.is_idle(rows));
    let idle = hidden.iter().map(|rows| section.group(rows[0])).filter(|group| group.exited_work().is_none());
    let threads =
        idle.clone().filter_map(|group| group.members().into_iter().last().flatten()).fold(0, u64::saturating_add);
    let count = idle.count();
    let hidden_text =
        || format!("{} of {} hidden (--unchanged)", counted(count, "idle group"), counted(threads, "thread"));
    (shown.concat(), (count > 0).then(hidden_text))
}

fn others<'r>(section: &ShownSection<'r>) -> ShownAndHidden<'r> {
    let is_shown = |reason| match reason {
        None => true,
        Some(HiddenReason::Absent) => section.shows_unchanged,
        Some(_) => is_of_limits(section.section.section) || section.shows_unchanged,
    };
    let hidden = section.hidden().into_iter().filter(|(reason, _)| !is_shown(Some(*reason)));
    let hidden: Vec<_> = hidden.map(|(reason, count)| format!("{count} {}", reason.name())).collect();
    let hidden = (!hidden.is_empty()).then(|| format!("{} hidden (--unchanged)", hidden.join(", ")));
    (section.rows.iter().copied().filter(|row| is_shown(row.hidden_reason())).collect(), hidden)
}
