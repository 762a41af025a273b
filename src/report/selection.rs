//! The rows of a report that a format shows, in order: up to a limit, and without rows that tables hide.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::columns::Column;
use crate::compare::{Change, Group, GroupBy, HiddenReason, Report, ReportSection, Row, Turnover};
use crate::model::Section;
use crate::model::sorted::{Arrange, CollectSorted};

/// The names of users by their ids.
pub type UserNames = BTreeMap<u32, String>;

/// Options that decide which part of a report is shown.
#[derive(Clone, Debug, Default)]
pub struct DisplayOptions {
    /// Maximum rows per section but the overview; `None` for all.
    pub limit: Option<usize>,
    /// Maximum groups of the overview; `None` for all.
    pub groups: Option<usize>,
    /// Number of groups, out of that maximum, that are chosen because they waited or were blocked most.
    pub victims: usize,
    /// About the maximum of rows of all sections together, in HTML; `None` for all.
    pub all_rows: Option<usize>,
    /// Whether tables show rows that are unchanged, zero or without data, and do not only count them.
    pub shows_unchanged: bool,
    /// Whether tables show groups that did nothing, or nothing else than before.
    pub shows_idle: bool,
    /// Columns of tables; empty for the columns that suit the report.
    pub columns: Vec<Column>,
    /// Columns of the overview that tables may show; empty for all.
    pub overview: &'static [&'static str],
    /// The names of users; others have their id.
    pub users: UserNames,
}

impl DisplayOptions {
    pub(super) fn columns(&self, report: &Report) -> &[Column] {
        if self.columns.is_empty() { Column::defaults(report) } else { &self.columns }
    }

    /// The names of users, where groups are single processes.
    pub(super) fn users_of(&self, report: &Report) -> Option<&UserNames> {
        (report.group_by == GroupBy::Pid).then_some(&self.users)
    }
}

/// The selected rows of a section.
#[derive(Debug)]
pub(super) struct ShownSection<'r> {
    pub(super) section: &'r ReportSection,
    /// Rows in order, up to the limit of the selection, including rows that tables hide.
    pub(super) rows: Vec<&'r Row>,
    /// Number of rows beyond the limit; in an overview, of groups.
    pub(super) cut: usize,
    pub(super) shows_unchanged: bool,
    pub(super) shows_idle: bool,
    /// The columns of the overview that tables show; empty for all.
    pub(super) overview: &'static [&'static str],
}

#[derive(Debug)]
pub(super) struct List<'r> {
    /// The only side with these groups; `None` for groups on both sides.
    pub(super) only_in: Option<Change>,
    pub(super) lines: Vec<ListLine<'r>>,
}

#[derive(Debug)]
pub(super) enum ListLine<'r> {
    /// An ancestor of the groups that follow, without a row of its own.
    Ancestor {
        name: &'r str,
        /// The depth in the tree.
        depth: usize,
    },
    Row(&'r Row),
}

impl<'r> ShownSection<'r> {
    /// At most the selected number of visible rows of groups, as many of all groups together, and all hidden ones.
    pub(super) fn new(section: &'r ReportSection, selection: &DisplayOptions) -> Self {
        Self::of_rows(section, section.rows.iter().collect(), selection)
    }

    /// The same, without the rows of all groups together.
    pub(super) fn of_groups(section: &'r ReportSection, selection: &DisplayOptions) -> Self {
        let rows = section.rows.iter().filter(|row| !section.groups[row.group].is_all());
        Self::of_rows(section, rows.collect(), selection)
    }

    fn of_rows(section: &'r ReportSection, rows: Vec<&'r Row>, selection: &DisplayOptions) -> Self {
        let DisplayOptions { shows_unchanged, shows_idle, overview, .. } = *selection;
        let all = Self { section, rows, cut: 0, shows_unchanged, shows_idle, overview };
        if section.section == Section::Overview {
            all.limit_groups(selection.groups.unwrap_or(usize::MAX), selection.victims)
        } else {
            all.limit_rows(selection.limit.unwrap_or(usize::MAX))
        }
    }

    fn limit_rows(mut self, limit: usize) -> Self {
        let (mut groups, mut all) = (limit, limit);
        for row in std::mem::take(&mut self.rows) {
            let is_counted = self.is_shown(row);
            let left = if self.group(row).is_all() { &mut all } else { &mut groups };
            if is_counted && *left == 0 {
                self.cut += 1;
            } else {
                *left -= usize::from(is_counted);
                self.rows.push(row);
            }
        }
        self
    }

    /// Exited work is with its group.
    fn limit_groups(mut self, limit: usize, victims: usize) -> Self {
        let is_group = |group: &Group| !group.is_all() && group.exited_work().is_none();
        let mut shown = self.rows_of_groups();
        shown.retain(|rows| is_group(self.group(rows[0])) && !self.is_idle(rows));
        let victims = if shown.len() > limit { most_hindered(&shown, victims.min(limit)) } else { HashSet::new() };
        let others = shown.into_iter().map(|rows| rows[0]).filter(|row| !victims.contains(&row.group));
        let cut = others.skip(limit.saturating_sub(victims.len()));
        let cut: HashSet<&[String]> = cut.map(|row| &self.group(row).key[..]).collect();
        let is_cut = |group: &'r Group| match group.key.split_last() {
            Some((_, above)) => cut.contains(&group.key[..]) || (group.exited_work().is_some() && cut.contains(above)),
            None => false,
        };
        self.cut = cut.len();
        let section = self.section;
        self.rows.retain(|row| !is_cut(&section.groups[row.group]));
        self
    }

    pub(super) fn group(&self, row: &Row) -> &'r Group {
        &self.section.groups[row.group]
    }

    /// The rows of each group of the overview, in order.
    pub(super) fn rows_of_groups(&self) -> Vec<&[&'r Row]> {
        self.rows.chunk_by(|a, b| a.group == b.group).collect()
    }

    /// Whether tables hide a group of the overview: it did nothing, or nothing else than before. Of several runs,
    /// threads that start and exit in the same way do nothing else. A group that may have run is not idle.
    pub(super) fn is_idle(&self, rows: &[&Row]) -> bool {
        !self.shows_unchanged && !self.shows_idle && self.did_nothing(rows)
    }

    /// Whether a group did nothing, or nothing else than before, whether or not it is shown.
    pub(super) fn did_nothing(&self, rows: &[&Row]) -> bool {
        let has_verdict = rows.iter().any(|row| row.verdict().is_some());
        let turnover = self.group(rows[0]).turnover();
        let has_turnover = turnover.iter().flatten().any(|turnover| *turnover != Turnover::default());
        let has_run_time = rows.iter().any(|row| row.name == "run");
        let may_have_run = rows.iter().any(|row| row.name == "run" && row.values.iter().flatten().next().is_none());
        // Time asleep is not what a group did, and switches without run time are those of idle kernel threads. Memory that a group
        // has counts if it changed, or if groups are sorted by it.
        let mut rows = rows.iter().filter(|row| match &*row.name {
            "sleep" | "csw" => !has_run_time,
            "rss" => !has_run_time || row.values.candidate.is_some() || self.section.order.contains("rss"),
            _ => true,
        });
        !may_have_run && (has_verdict || !has_turnover) && rows.all(|row| row.is_next_to_nothing())
    }

    pub(super) fn is_shown(&self, row: &Row) -> bool {
        self.shows_unchanged || row.hidden_reason().is_none()
    }

    pub(super) fn hidden(&self) -> BTreeMap<HiddenReason, usize> {
        let hidden = self.rows.iter().filter(|row| !self.is_shown(row));
        let mut counts = BTreeMap::new();
        hidden.filter_map(|row| row.hidden_reason()).for_each(|reason| *counts.entry(reason).or_default() += 1);
        counts
    }

    /// The tables: groups on both sides, then groups on one side.
    pub(super) fn lists(&self) -> Vec<List<'r>> {
        let list = |only_in: Option<Change>| {
            let is_one_sided = |change: &Change| matches!(change, Change::BaselineOnly | Change::CandidateOnly);
            let side = |row: &Row| row.change.filter(is_one_sided);
            let rows = self.rows.iter().copied().filter(|row| self.is_shown(row) && side(row) == only_in);
            List { only_in, lines: self.in_tree(rows.collect()) }
        };
        let lists = [None, Some(Change::BaselineOnly), Some(Change::CandidateOnly)].map(list);
        lists.into_iter().filter(|list| !list.lines.is_empty()).collect()
    }

    /// Puts the rows of a tree below their ancestors, and gives each ancestor a line. Siblings are in the order of their first
    /// rows.
    pub(super) fn in_tree(&self, mut rows: Vec<&'r Row>) -> Vec<ListLine<'r>> {
        let key = |row: &Row| &self.group(row).key[..];
        if self.section.groups.iter().all(|group| group.key.len() < 2) {
            return rows.into_iter().map(ListLine::Row).collect();
        }
        let mut first: HashMap<&[String], usize> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            for depth in 1..=key(row).len() {
                first.entry(&key(row)[..depth]).or_insert(place);
            }
        }
        rows.sort_by_cached_key(|row| (1..=key(row).len()).map(|depth| first[&key(row)[..depth]]).collect::<Vec<_>>());
        let mut lines = Vec::with_capacity(rows.len());
        let mut above: &[String] = &[];
        for row in rows {
            let key = key(row);
            let shared = key.iter().zip(above).take_while(|(a, b)| a == b).count();
            let ancestors = key.iter().enumerate().take(key.len().saturating_sub(1)).skip(shared);
            lines.extend(ancestors.map(|(depth, name)| ListLine::Ancestor { name, depth }));
            lines.push(ListLine::Row(row));
            above = key;
        }
        lines
    }
}

/// A group that waited and was blocked for less than this share of what the most hindered one did is no victim.
const LEAST_HINDERED: f64 = 0.05;

/// Returns the groups that waited for a CPU or were blocked most, at most so many. One of them is the group that was held most,
/// if any was: nothing else shows that a group is stopped or dead.
pub(super) fn most_hindered(groups: &[&[&Row]], most: usize) -> HashSet<usize> {
    let mut all: Vec<_> = groups.iter().map(|rows| (time_in(HINDERED, rows), rows[0].group)).collect();
    all.arrange_by(|(a, _), (b, _)| b.total_cmp(a));
    let least = all.first().map_or(0.0, |(first, _)| first * LEAST_HINDERED);
    let held = groups.iter().map(|rows| (time_in(HELD, rows), rows[0].group)).filter(|(time, _)| *time > 0.0);
    let held = held.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, group)| group).filter(|_| most > 0);
    let hindered = all.into_iter().filter(|(time, group)| *time > 0.0 && *time >= least && Some(*group) != held);
    hindered.map(|(_, group)| group).take(most - held.iter().len()).chain(held).collect()
}

/// The columns of time in which groups could not run although they had something to do.
const HINDERED: &[&str] = &["wait", "block"];
/// The columns of time in which groups could do nothing.
const HELD: &[&str] = &["stopped", "traced", "frozen", "zombie"];

/// How long a group was in the states of these columns; of two sides, how much that changed.
fn time_in(columns: &[&str], rows: &[&Row]) -> f64 {
    rows.iter().filter(|row| columns.contains(&&*row.name)).map(|row| row.amount()).sum()
}

impl List<'_> {
    pub(super) fn groups(&self) -> usize {
        let group = |line: &ListLine<'_>| if let ListLine::Row(row) = line { Some(row.group) } else { None };
        self.lines.iter().filter_map(group).into_set().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, Grouping, Per, Selection, compare, parse_metric, parse_sort_key, show};
    use crate::model::{CtprofSnapshot, ThreadSpan, ThreadState, WindowInfo};

    /// A snapshot of threads: cgroup, process, thread, page faults.
    fn snapshot(threads: &[(&str, &str, &str, u64)]) -> CtprofSnapshot {
        let thread = |(cgroup, process, name, faults): &(&str, &str, &str, u64)| {
            let mut thread = ThreadState { pcomm: (*process).into(), comm: (*name).into(), ..ThreadState::default() };
            thread.cgroup = Some((*cgroup).into());
            thread.metrics.minflt = Some((*faults).into());
            thread
        };
        CtprofSnapshot { threads: threads.iter().map(thread).collect(), ..CtprofSnapshot::default() }
    }

    fn faults(axis: GroupBy) -> CompareOptions {
        let metrics = vec![parse_metric("minflt").unwrap()];
        let selection = Selection { metrics, sections: vec![Section::Primary], ..Selection::default() };
        CompareOptions { grouping: Grouping { axis, ..Grouping::default() }, selection, ..CompareOptions::default() }
    }

    #[test]
    fn a_child_never_appears_without_its_ancestors_line() {
        let threads = [("/a", "p", "p", 1), ("/a", "p", "t", 5), ("/b", "q", "q", 9)];
        let mut options = faults(GroupBy::All);
        options.selection.sort_by = vec![parse_sort_key("minflt").unwrap()];
        let mut report = show(&snapshot(&threads), &options);
        let ReportSection { groups, rows, .. } = &mut report.sections[0];
        // The rows of /a, /a p and /b are hidden or cut; the others come in the order of their values.
        rows.retain(|row| matches!(&*groups[row.group].label, "t" | "q"));
        let section = ShownSection::new(&report.sections[0], &DisplayOptions::default());
        let lists = section.lists();
        let lines = lists[0].lines.iter().map(|line| match line {
            ListLine::Ancestor { name, depth } => format!("{depth} {name}"),
            ListLine::Row(row) => format!("row {}", section.group(row).label),
        });
        assert_eq!(lines.collect::<Vec<_>>(), ["0 /b", "row q", "0 /a", "1 p", "row t"]);
        assert_eq!(lists[0].groups(), 2);
    }

    #[test]
    fn the_limit_counts_rows_with_news_of_all_lists_together() {
        let old =
            snapshot(&[("/", "a", "a", 1), ("/", "b", "b", 1), ("/", "gone", "gone", 1), ("/", "same", "same", 1)]);
        let new = [("/", "a", "a", 2), ("/", "b", "b", 3), ("/", "new", "new", 1), ("/", "zero", "zero", 0)];
        let new = snapshot(&[&new[..], &[("/", "same", "same", 1)]].concat());
        let report = compare(&old, &new, &faults(GroupBy::Pcomm));
        let selection = DisplayOptions { limit: Some(3), ..DisplayOptions::default() };
        let section = ShownSection::of_groups(&report.sections[0], &selection);
        assert_eq!((section.cut, section.lists().iter().map(|list| list.lines.len()).sum::<usize>()), (1, 3));
        assert_eq!(section.hidden(), [(HiddenReason::Unchanged, 1), (HiddenReason::Zero, 1)].into());
        let all = DisplayOptions { shows_unchanged: true, ..DisplayOptions::default() };
        let section = ShownSection::of_groups(&report.sections[0], &all);
        assert_eq!((section.cut, section.rows.len(), section.hidden()), (0, 6, BTreeMap::new()));
    }

    #[test]
    fn the_limit_of_groups_counts_those_of_the_overview_that_did_something() {
        let threads = [("a", 5), ("b", 4), ("c", 3), ("idle", 0)].map(|(name, run)| {
            let mut thread = ThreadState { pcomm: name.into(), comm: name.into(), ..ThreadState::default() };
            thread.metrics.run_time_ns = Some((run * 1_000_000_000).into());
            thread
        });
        let report =
            show(&CtprofSnapshot { threads: threads.into(), ..CtprofSnapshot::default() }, &CompareOptions::default());
        let overview = report.section(Section::Overview).unwrap();
        let section =
            ShownSection::of_groups(overview, &DisplayOptions { groups: Some(2), ..DisplayOptions::default() });
        let labels = section.rows_of_groups().into_iter().map(|rows| &*section.group(rows[0]).label);
        assert_eq!(
            (section.cut, labels.collect::<Vec<_>>()),
            (1, vec!["a", "b", "idle"]),
            "what is idle is hidden, not cut"
        );
    }

    #[test]
    fn the_group_that_was_held_most_is_one_of_those_that_replace_the_least_busy_ones() {
        let threads = [("a", 5, 0), ("b", 4, 0), ("c", 0, 9), ("dead", 0, 0)].map(|(name, run, wait)| {
            let mut thread = ThreadState { pcomm: name.into(), comm: name.into(), ..ThreadState::default() };
            thread.metrics.run_time_ns = Some((run * 1_000_000_000).into());
            thread.metrics.wait_time_ns = Some((wait * 1_000_000_000).into());
            let zombie_ns = if name == "dead" { 10_000_000_000 } else { 0 };
            thread.span = Some(ThreadSpan { alive_ns: 10_000_000_000 - zombie_ns, zombie_ns, ..ThreadSpan::default() });
            thread
        });
        let mut window = CtprofSnapshot { threads: threads.into(), ..CtprofSnapshot::default() };
        window.head.window = Some(WindowInfo { duration_ns: 10_000_000_000, ..WindowInfo::default() });
        let report = show(&window, &CompareOptions::default());
        let overview = report.section(Section::Overview).unwrap();
        let options = DisplayOptions { groups: Some(3), victims: 2, ..DisplayOptions::default() };
        let section = ShownSection::of_groups(overview, &options);
        let labels: Vec<_> = section.rows_of_groups().iter().map(|rows| &*section.group(rows[0]).label).collect();
        assert_eq!(labels, ["a", "c", "dead"]);
    }

    #[test]
    fn groups_that_waited_or_were_blocked_most_replace_the_least_busy_ones_of_a_short_screen() {
        let threads =
            [("a", 5, 0), ("b", 4, 0), ("c", 3, 0), ("victim", 0, 9), ("d", 0, 0)].map(|(name, run, wait)| {
                let mut thread = ThreadState { pcomm: name.into(), comm: name.into(), ..ThreadState::default() };
                thread.metrics.run_time_ns = Some((run * 1_000_000_000 + 5_000_000).into());
                thread.metrics.wait_time_ns = Some((wait * 1_000_000_000).into());
                thread
            });
        let report =
            show(&CtprofSnapshot { threads: threads.into(), ..CtprofSnapshot::default() }, &CompareOptions::default());
        let overview = report.section(Section::Overview).unwrap();
        let shown = |victims| {
            let options = DisplayOptions { groups: Some(3), victims, ..DisplayOptions::default() };
            let section = ShownSection::of_groups(overview, &options);
            let labels = section.rows_of_groups().into_iter().map(|rows| section.group(rows[0]).label.to_string());
            (labels.collect::<Vec<_>>().join(" "), section.cut)
        };
        assert_eq!([shown(0), shown(3)], [("a b c".to_owned(), 2), ("a b victim".to_owned(), 2)]);
    }

    #[test]
    fn rows_of_groups_without_a_tree_stay_in_the_order_of_their_changes() {
        let snapshot = |values: [(&str, u64, u64); 2]| {
            let thread = |(name, minor, major): (&str, u64, u64)| {
                let mut thread = ThreadState { pcomm: name.into(), ..ThreadState::default() };
                (thread.metrics.minflt, thread.metrics.majflt) = (Some(minor.into()), Some(major.into()));
                thread
            };
            CtprofSnapshot { threads: values.map(thread).into(), ..CtprofSnapshot::default() }
        };
        let metrics = ["minflt", "majflt"].map(|name| parse_metric(name).unwrap()).to_vec();
        let mut options = faults(GroupBy::Pcomm);
        options.selection.metrics = metrics;
        let [before, after] = [[("a", 0, 0), ("b", 0, 0)], [("a", 9_000, 10), ("b", 900, 0)]].map(snapshot);
        let report = compare(&before, &after, &options);
        let section = ShownSection::of_groups(&report.sections[0], &DisplayOptions::default());
        let lists = section.lists();
        let rows = lists[0].lines.iter().filter_map(|line| match line {
            ListLine::Row(row) => Some((&*section.group(row).label, &*row.name)),
            ListLine::Ancestor { .. } => None,
        });
        assert_eq!(rows.collect::<Vec<_>>(), [("a", "minflt"), ("b", "minflt"), ("a", "majflt")]);
    }

    #[test]
    fn a_group_that_did_nothing_is_idle_unless_its_memory_changed() {
        let side = |bytes: u64| {
            let mut thread = ThreadState { tid: 1, tgid: 1, pcomm: "cache".into(), ..ThreadState::default() };
            let metrics = &mut thread.metrics;
            (metrics.run_time_ns, metrics.rss_anon_bytes) = (Some(5.into()), Some(bytes.into()));
            (metrics.rss_file_bytes, metrics.rss_shmem_bytes) = (Some(0.into()), Some(0.into()));
            CtprofSnapshot { threads: vec![thread], ..CtprofSnapshot::default() }
        };
        let is_idle = |before, after| {
            let report = compare(&side(before), &side(after), &CompareOptions::default());
            let overview = report.section(Section::Overview).unwrap();
            let section = ShownSection::of_groups(overview, &DisplayOptions::default());
            section.rows_of_groups().into_iter().all(|rows| section.is_idle(rows))
        };
        assert!(is_idle(1 << 30, 1 << 30) && !is_idle(1 << 30, 2 << 30));
        // The run time is known, but not since when it counts: the thread is older than the clock of its time namespace.
        let mut of_unknown_age = side(1 << 30);
        of_unknown_age.threads[0].start_time_clock_ticks = Some((-1_000_000_000_i64).cast_unsigned() / 10_000_000);
        let grouping = Grouping { per: Some(Per::Second), ..Grouping::default() };
        let options = CompareOptions { grouping, ..CompareOptions::default() };
        let report = show(&of_unknown_age, &options);
        let overview = report.section(Section::Overview).unwrap();
        let section = ShownSection::of_groups(overview, &DisplayOptions::default());
        assert!(section.rows_of_groups().into_iter().all(|rows| !section.is_idle(rows)));
    }
}
