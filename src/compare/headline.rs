//! The order of the groups of an overview, and the value whose verdict stands for each.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::score::LEAST_OF_HOST;
use super::{
    CompareOptions, Digest, ELAPSED, Explanation, Group, GroupTimes, Headline, OVERVIEW, OverviewColumn, Per, Quantity,
    RUN, ReportSection, Row, Sides, Slowdown, SortKey, WAIT, has_more_threads, number,
};
use crate::diagnose::Note;
use crate::model::sorted::{Arrange, CollectSorted};
use crate::model::{Cell, Unit};
use crate::statistics::{Verdict, median};

/// The size of the host, by which changes are measured.
#[derive(Clone, Copy, Debug)]
struct HostSize {
    /// Number of CPUs, if it is known.
    cpus: Option<f64>,
    /// Seconds that the values cover: 1 if they are rates, `None` if it is unknown.
    seconds: Option<f64>,
    /// True if values belong to windows: changes are shares of the host's totals. If false, values are totals since each thread
    /// started, and changes are shares of all changes.
    are_of_windows: bool,
}

/// How much the values of a group changed as a share of the host.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    /// Sum over the group's values, without values that are the same in several runs.
    all: f64,
    /// How much of the change in elapsed time the group explains, in nanoseconds.
    explained: f64,
    /// The value that stands for the group: whether its change is clear, how large it is, and its place.
    /// Clear changes come before unclear ones, then large ones.
    leader: Option<((bool, f64), usize, Headline)>,
}

impl Score {
    fn add(&mut self, place: usize, verdict: Option<Verdict>, changed: f64) {
        let is_same = verdict == Some(Verdict::Same);
        let is_clear = verdict.is_some_and(Verdict::is_clear);
        let weight = if is_same || changed < LEAST_OF_HOST { (false, 0.0) } else { (is_clear, changed) };
        // Of values that changed little, it is the first one: time on a CPU.
        if self.leader.is_none_or(|(most, ..)| most < weight) {
            self.leader = Some((weight, place, Headline::Change));
        }
        self.all += if is_same { 0.0 } else { changed };
    }

    fn is_clear(&self) -> bool {
        self.leader.is_some_and(|((is_clear, ..), ..)| is_clear)
    }

    fn explain(&mut self, explanation: Option<Explanation>, is_other_load: impl FnOnce(usize) -> bool) {
        let Some((place, time)) = explanation else { return };
        let headline = if is_other_load(place) { Headline::OtherLoad } else { Headline::Elapsed };
        (self.explained, self.leader) = (time, Some(((true, time), place, headline)));
    }

    /// Compares two ranks: values that explain elapsed time come first, then clear changes, then large ones.
    fn compare(&self, other: &Self) -> Ordering {
        let explained = other.explained.total_cmp(&self.explained);
        explained.then(other.is_clear().cmp(&self.is_clear())).then(other.all.total_cmp(&self.all))
    }
}

/// Sorts the groups, unless there are keys: of one side by run time. Of two, what explains elapsed time comes first, then
/// clear changes of several runs, then groups are sorted by how much they changed as a share of the host. Groups of the
/// capturing process come last.
pub(super) fn rank(
    section: &mut ReportSection,
    runs: Sides<&[Digest]>,
    per: Per,
    options: &CompareOptions,
) -> Option<Note> {
    let host = HostSize::new(runs, per);
    section.columns_by_share = host.columns_by_share(section);
    section.order = order(options, runs.candidate.is_some());
    if runs.candidate.is_none() {
        if options.selection.sort_by.is_empty() {
            sort_by_run_time(section);
        }
        return None;
    }
    let scores = scores(section, &host, per);
    let has_verdicts = section.rows.iter().any(|row| row.verdict().is_some());
    let minor = minor_groups(section, if has_verdicts { options.min_time } else { 0.0 });
    let minor: Vec<bool> = section.groups.iter().map(|group| minor.contains(&group.key)).collect();
    let is_minor = |group: usize| minor[group] && scores[group].explained == 0.0;
    let news = section.rows.iter().filter(|row| is_minor(row.group) && !row.is_next_to_nothing());
    let names: BTreeSet<_> = news.map(|row| section.groups[row.group].full_label()).into_set();
    let leaders =
        scores.iter().enumerate().filter(|(group, _)| !is_minor(*group)).filter_map(|(_, score)| score.leader);
    for (_, place, headline) in leaders {
        section.rows[place].headline = Some(headline);
        section.headlines.insert(section.rows[place].group, section.rows[place].clone());
    }
    let note = Note::below_min_time(names.into_iter().collect(), options.min_time);
    if options.selection.sort_by.is_empty() {
        sort_groups(section, |a, b| scores[a].compare(&scores[b]));
    }
    note
}

fn scores(section: &ReportSection, host: &HostSize, per: Per) -> Vec<Score> {
    let mut rows: Vec<Vec<(usize, &Row)>> = vec![Vec::new(); section.groups.len()];
    let (mut elapsed, mut has_command) = (None, false);
    for (place, row) in section.rows.iter().enumerate() {
        match &*row.name {
            ELAPSED => (elapsed, has_command) = (Some(row).filter(|_| per == Per::Run), true),
            _ => rows[row.group].push((place, row)),
        }
    }
    let is_other_load = |row: &Row| {
        row.name == WAIT
            && elapsed.zip(host.cpus).is_some_and(|(elapsed, cpus)| !has_more_threads(elapsed, &rows[row.group], cpus))
    };
    let wholes: BTreeMap<_, _> = OVERVIEW.iter().map(|column| (column.name, host.whole(section, column))).into_map();
    let mut scores = vec![Score::default(); section.groups.len()];
    for (place, row) in rows.iter().flatten() {
        let Some(Quantity::Column(column)) = row.quantity else { continue };
        let whole = wholes[column.name];
        let share = if whole > 0.0 { row.amount() / whole } else { 0.0 };
        // Of commands, less wait is no good in itself: it can be that of threads that wait for a lock instead.
        let is_scored = !has_command || row.name != WAIT;
        scores[row.group].add(*place, row.verdict(), if is_scored { column.weight * share } else { 0.0 });
    }
    let all = section.groups.iter().position(Group::is_all);
    if let Some(slowdown) = elapsed.zip(all).and_then(|(elapsed, all)| Slowdown::new(elapsed, &rows[all])) {
        let times: Vec<_> = rows.iter().map(|rows| slowdown.times(rows)).collect();
        let of_groups = |explain: fn(&Slowdown, &GroupTimes) -> Option<Explanation>| -> Vec<_> {
            times.iter().map(|times| explain(&slowdown, times)).collect()
        };
        let mut explanations = of_groups(Slowdown::explained);
        if explanations.iter().zip(&section.groups).all(|(explanation, group)| group.is_all() || explanation.is_none())
        {
            explanations = of_groups(Slowdown::slept);
        }
        for (score, explanation) in scores.iter_mut().zip(explanations) {
            score.explain(explanation, |place| is_other_load(&section.rows[place]));
        }
    }
    scores
}

/// The keys of the groups that took less than this share of the CPU time of all groups, in the mean of the runs, on both sides. Groups
/// whose time is unknown are not among them.
pub(super) fn minor_groups(section: &ReportSection, share: f64) -> BTreeSet<&Vec<String>> {
    let run: Vec<_> = section.rows.iter().filter(|row| row.name == RUN).collect();
    let all = run.iter().find(|row| section.groups[row.group].is_all()).map_or([0.0; 2], |row| row.means());
    let is_minor = |row: &&&Row| all.iter().zip(row.means()).all(|(all, run)| run < all * share);
    run.iter().filter(|row| !row.is_absent()).filter(is_minor).map(|row| &section.groups[row.group].key).collect()
}

/// How groups beyond a limit differ from those before.
fn order(options: &CompareOptions, is_comparison: bool) -> String {
    let keys: Vec<_> = options.selection.sort_by.iter().map(SortKey::to_string).collect();
    match is_comparison {
        _ if !keys.is_empty() => format!("sorted by {}", keys.join(", ")),
        true => "which changed less".to_owned(),
        false => "which ran less".to_owned(),
    }
}

fn sort_by_run_time(section: &mut ReportSection) {
    let mut run = vec![0.0; section.groups.len()];
    for row in section.rows.iter().filter(|row| row.name == RUN) {
        run[row.group] = row.values.baseline.as_ref().and_then(number).unwrap_or(0.0);
    }
    sort_groups(section, |a, b| run[b].total_cmp(&run[a]));
}

/// Sorts groups behind all groups together, and puts the capturing process last.
fn sort_groups(section: &mut ReportSection, compare: impl Fn(usize, usize) -> Ordering) {
    let rank = |group: usize| (!section.groups[group].is_all(), section.groups[group].is_own());
    let mut order: Vec<usize> = (0..section.groups.len()).collect();
    order.sort_by(|&a, &b| rank(a).cmp(&rank(b)).then_with(|| compare(a, b)));
    let mut places = vec![0; order.len()];
    order.into_iter().enumerate().for_each(|(place, group)| places[group] = place);
    section.rows.sort_by_key(|row| places[row.group]);
}

impl HostSize {
    fn new(runs: Sides<&[Digest]>, per: Per) -> Self {
        let cpus = runs.iter().flat_map(|runs| runs.iter()).filter_map(|run| run.head.host.as_ref()?.online_cpus).max();
        let length = |run: &Digest| run.head.window.as_ref().map(|window| window.duration_ns as f64 / 1e9);
        let seconds = |runs: &&[Digest]| median(&runs.iter().map(length).collect::<Option<Vec<_>>>()?);
        let seconds = runs.iter().map(seconds).reduce(|a, b| Some(a?.max(b?))).flatten();
        Self {
            cpus: cpus.map(|cpus| cpus as f64),
            seconds: match per {
                Per::Run => seconds,
                // The windows can be of other lengths than the units took.
                Per::Unit => None,
                Per::Second | Per::CpuSecond => Some(1.0),
            },
            are_of_windows: seconds.is_some(),
        }
    }

    /// The columns by the share of the host that their values, or changes, are of all groups.
    fn columns_by_share(&self, section: &ReportSection) -> Vec<&'static str> {
        let share = |column: &OverviewColumn| {
            let is_news = |row: &&Row| row.name == column.name && row.verdict() != Some(Verdict::Same);
            let rows = section.rows.iter().filter(|row| section.groups[row.group].key.len() == 1);
            let whole = self.whole(section, column);
            let all: f64 = rows.filter(is_news).map(Row::amount).sum();
            if whole > 0.0 { column.worth() * all / whole } else { 0.0 }
        };
        let mut columns: Vec<_> = OVERVIEW.iter().map(|column| (share(column), column.name)).collect();
        columns.arrange_by(|(a, _), (b, _)| b.total_cmp(a));
        columns.into_iter().map(|(_, name)| name).collect()
    }

    /// Returns the total by which a change of a column's value is measured.
    fn whole(&self, section: &ReportSection, column: &OverviewColumn) -> f64 {
        let rows = || section.rows.iter().filter(|row| section.groups[row.group].key.len() == 1);
        let changes = |name: &str| rows().filter(|row| row.name == name).map(Row::amount).sum::<f64>();
        if column.unit == Unit::Ns {
            let is_percent = section.rows.iter().any(|row| row.unit == Unit::Percent);
            let capacity = self.cpus.zip(self.seconds).map(|(cpus, seconds)| cpus * seconds);
            return capacity.map_or_else(|| changes(RUN), |cpus| cpus * if is_percent { 100.0 } else { 1e9 });
        }
        let full = self.seconds.unwrap_or(0.0) * column.full_rate;
        let total = |side: fn(&Row) -> Option<&Cell>| {
            rows().filter(|row| row.name == column.name).filter_map(|row| number(side(row)?)).sum::<f64>()
        };
        if !self.are_of_windows {
            return changes(column.name).max(full);
        }
        total(|row| row.values.baseline.as_ref()).max(total(|row| row.values.of_candidate())).max(full)
    }
}
