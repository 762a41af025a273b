//! The rows that an HTML page has: not those that tables hide, and of many the first ones.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::page::{Page, PageRow, PageSection, Silence, Unchanged};
use crate::model::Section;

/// The rows of a section that a page has.
pub(super) struct Chosen<'p, 'r> {
    pub(super) section: &'p PageSection<'r>,
    pub(super) rows: Vec<&'p PageRow<'r>>,
    /// Number of hidden rows by reason; in an overview, of groups.
    pub(super) hidden: BTreeMap<&'static str, usize>,
    /// Number of rows beyond the limit; in an overview, of groups.
    pub(super) cut: usize,
}

type Sections<'p, 'r> = Vec<Chosen<'p, 'r>>;

/// The rows of all sections, and of the sections of the tree. The overview has up to half of the limit, the overview of
/// the tree up to half of the rest; other sections share what is left.
pub(super) fn selected<'p, 'r>(
    page: &'p Page<'r>,
    limit: Option<usize>,
) -> (Sections<'p, 'r>, Option<Sections<'p, 'r>>) {
    let shown = |page: &'p Page<'r>| page.sections.iter().map(Chosen::new).collect::<Vec<_>>();
    let (mut groups, mut tree) = (shown(page), page.tree.as_deref().map(shown));
    if let Some(mut left) = limit {
        let all = groups.iter_mut().chain(tree.iter_mut().flatten());
        let (overviews, mut others): (Vec<_>, Vec<_>) =
            all.partition(|chosen| chosen.section.section == Section::Overview);
        for overview in overviews {
            overview.limit(left / 2);
            left -= overview.rows.len();
        }
        // Limits and events of cgroups follow their use. Small sections leave their part to large ones.
        others.retain(|chosen| !is_of_limits(chosen.section.section) || chosen.section.section == Section::CgroupStats);
        others.sort_by_key(|chosen| chosen.rows.len());
        let count = others.len();
        for (place, section) in others.into_iter().enumerate() {
            section.limit(left / (count - place));
            left -= section.rows.len();
        }
        [&mut groups].into_iter().chain(&mut tree).for_each(keep_same_cgroups);
    }
    (groups, tree)
}

/// Leaves out limits and events of cgroups whose use was left out.
fn keep_same_cgroups(sections: &mut Sections<'_, '_>) {
    let used = sections.iter().find(|chosen| chosen.section.section == Section::CgroupStats);
    let Some(used) = used.filter(|used| used.cut > 0) else { return };
    let kept: HashSet<&[String]> = used.rows.iter().map(|row| used.section.groups[row.group].path).collect();
    for chosen in sections.iter_mut().filter(|chosen| is_of_limits(chosen.section.section)) {
        let before = chosen.rows.len();
        chosen.rows.retain(|row| kept.contains(chosen.section.groups[row.group].path));
        chosen.cut += before - chosen.rows.len();
    }
}

/// Sections of cgroups that are whole: what a cgroup used is shown beside its limits, which seldom change.
fn is_of_limits(section: Section) -> bool {
    matches!(section, Section::CgroupStats | Section::CgroupLimits | Section::MemoryEvents)
}

impl<'p, 'r> Chosen<'p, 'r> {
    fn new(section: &'p PageSection<'r>) -> Self {
        let (rows, hidden) = if section.section == Section::Overview { overview(section) } else { others(section) };
        Self { section, rows, hidden, cut: section.cut }
    }

    /// Leaves out rows beyond a limit. A group of an overview, and a cgroup beside its limits, has all of its rows or
    /// none.
    fn limit(&mut self, limit: usize) {
        let is_overview = self.section.section == Section::Overview;
        if self.rows.len() <= limit {
            return;
        }
        if !is_overview && !is_of_limits(self.section.section) {
            self.cut += self.rows.len() - limit;
            return self.rows.truncate(limit);
        }
        let mut counts: HashMap<usize, usize> = HashMap::new();
        self.rows.iter().for_each(|row| *counts.entry(row.group).or_default() += 1);
        let mut kept = HashMap::new();
        let mut left = limit;
        for row in &self.rows {
            kept.entry(row.group).or_insert_with(|| {
                let fits = counts[&row.group] <= left;
                left = if fits { left - counts[&row.group] } else { 0 };
                fits
            });
        }
        let before = self.rows.len();
        self.rows.retain(|row| kept[&row.group]);
        let groups = kept.values().filter(|kept| !**kept).count();
        self.cut += if is_overview { groups } else { before - self.rows.len() };
    }
}

/// The rows, and the number of hidden ones.
type Shown<'p, 'r> = (Vec<&'p PageRow<'r>>, BTreeMap<&'static str, usize>);

/// The groups of an overview are hidden as a whole.
fn overview<'p, 'r>(section: &'p PageSection<'r>) -> Shown<'p, 'r> {
    let (hidden, shown): (Vec<_>, Vec<_>) =
        section.rows_of_groups().into_iter().partition(|rows| section.is_hidden(rows));
    let idle = hidden.iter().filter(|rows| section.groups[rows[0].group].exited_work.is_none()).count();
    (shown.into_iter().flatten().collect(), (idle > 0).then_some(("idle", idle)).into_iter().collect())
}

fn others<'p, 'r>(section: &'p PageSection<'r>) -> Shown<'p, 'r> {
    let is_shown = |silence| match silence {
        None => true,
        Some(Silence::Absent) => section.unchanged == Unchanged::Shown,
        Some(_) => is_of_limits(section.section) || section.unchanged == Unchanged::Shown,
    };
    let hidden = section.hidden().into_iter().filter(|(silence, _)| !is_shown(Some(*silence)));
    let hidden = hidden.map(|(silence, count)| (silence.word(), count)).collect();
    (section.rows.iter().filter(|row| is_shown(row.silence())).collect(), hidden)
}
