//! One side of a report: the values of all groups, before they are shown or compared.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use super::delta::number;
use super::digest::Turnover;
use super::quantity::Quantity;
use crate::model::{Cell, ExitedWork, Unit};

/// A value of a group.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: Cow<'static, str>,
    pub(super) unit: Unit,
    /// `None` if no member has a value.
    pub(super) cell: Option<Cell>,
    /// How many members have a value.
    pub(super) covered: u64,
    /// Whether some members lack a value that they should have.
    pub(super) partial: bool,
    /// The quantity, in sections about threads.
    pub(super) quantity: Option<Quantity>,
}

impl Entry {
    /// A value that every one of `members` has.
    pub(super) fn whole(name: impl Into<Cow<'static, str>>, unit: Unit, cell: Cell, members: u64) -> Self {
        Self { name: name.into(), unit, cell: Some(cell), covered: members, partial: false, quantity: None }
    }
}

/// How many members a group has, and how long they have existed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Population {
    /// Number of threads; of cgroups in sections about cgroups, of processes in sections about memory.
    pub members: u64,
    /// In a window, how many threads started and exited.
    pub turnover: Turnover,
    /// The average share of the time since boot that its threads have existed, 0 to 1.
    pub uptime: Option<f64>,
    /// Whether all are threads of the capturing process.
    pub own: bool,
    /// The kind of exited work, if it is no group of threads but exited work of the group above.
    pub exited_work: Option<ExitedWork>,
}

impl Population {
    /// Members of another kind than threads.
    pub(super) fn of(members: u64) -> Self {
        Self { members, ..Self::default() }
    }
}

/// A group's values on one side.
#[derive(Clone, Debug, Default)]
pub(super) struct SideGroup {
    pub(super) population: Population,
    pub(super) name_cut: bool,
    pub(super) renamed: bool,
    /// Values of the keys that groups are sorted by.
    pub(super) sort_values: Vec<Option<Cell>>,
    pub(super) entries: Vec<Entry>,
}

/// The groups of a section by path, on one side.
pub(super) type SideSection = BTreeMap<Vec<String>, SideGroup>;

/// A section of a single group.
pub(super) fn one_group(name: &str, entries: Vec<Entry>) -> SideSection {
    let population = Population::of(1);
    SideSection::from([(vec![name.to_owned()], SideGroup { population, entries, ..SideGroup::default() })])
}

/// The groups of several runs as one: the median of each value, the lower one of an even number.
pub(super) fn middle_of_runs(mut runs: Vec<SideSection>) -> SideSection {
    if runs.len() < 2 {
        return runs.pop().unwrap_or_default();
    }
    let mut groups: BTreeMap<Vec<String>, Vec<SideGroup>> = BTreeMap::new();
    for (path, group) in runs.into_iter().flatten() {
        groups.entry(path).or_default().push(group);
    }
    groups.into_iter().map(|(path, runs)| (path, middle_group(runs))).collect()
}

fn middle_group(runs: Vec<SideGroup>) -> SideGroup {
    let members = middle(runs.iter().map(|run| run.population.members).collect(), |members| *members as f64);
    let turnover = middle(runs.iter().map(|run| run.population.turnover).collect(), |turnover| turnover.started as f64);
    let uptime = middle(runs.iter().filter_map(|run| run.population.uptime).collect(), |uptime| *uptime);
    let sort_keys = runs.first().map_or(0, |run| run.sort_values.len());
    let sort_value = |key: usize| middle_cell(runs.iter().filter_map(|run| run.sort_values[key].clone()).collect());
    let sort_values = (0..sort_keys).map(sort_value).collect();
    let exited_work = runs.iter().find_map(|run| run.population.exited_work);
    let runs_are_own = runs.iter().all(|run| run.population.own);
    let (name_cut, renamed) = (runs.iter().any(|run| run.name_cut), runs.iter().any(|run| run.renamed));
    let mut by_name: Vec<Vec<Entry>> = Vec::new();
    let mut places = BTreeMap::new();
    for entry in runs.into_iter().flat_map(|run| run.entries) {
        let place = *places.entry(entry.name.clone()).or_insert(by_name.len());
        by_name.resize_with(by_name.len().max(place + 1), Vec::new);
        by_name[place].push(entry);
    }
    let entries = by_name.into_iter().filter_map(middle_entry).collect();
    SideGroup {
        population: Population {
            members: members.unwrap_or(0),
            turnover: turnover.unwrap_or_default(),
            uptime,
            own: runs_are_own,
            exited_work,
        },
        name_cut,
        renamed,
        sort_values,
        entries,
    }
}

fn middle_entry(runs: Vec<Entry>) -> Option<Entry> {
    let cell = middle_cell(runs.iter().filter_map(|entry| entry.cell.clone()).collect());
    let covered = runs.iter().map(|entry| entry.covered).min().unwrap_or(0);
    let partial = runs.iter().any(|entry| entry.partial);
    let first = runs.into_iter().next()?;
    Some(Entry { cell, covered, partial, ..first })
}

/// The middle number; of words and sets, the one that most runs have, of equally many the first.
fn middle_cell(runs: Vec<Cell>) -> Option<Cell> {
    if runs.iter().all(|cell| number(cell).is_some()) {
        return middle(runs, |cell| number(cell).unwrap_or(0.0));
    }
    let frequency = |cell: &Cell| runs.iter().filter(|other| *other == cell).count();
    runs.iter().rev().max_by_key(|cell| frequency(cell)).cloned()
}

fn middle<T>(mut values: Vec<T>, number: impl Fn(&T) -> f64) -> Option<T> {
    values.sort_by(|a, b| number(a).total_cmp(&number(b)));
    let place = values.len().checked_sub(1)? / 2;
    Some(values.swap_remove(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(members: u64, run_time: Option<u64>) -> SideSection {
        let entry = |value| Entry::whole("run_time_ns", Unit::Ns, Cell::Number(value), members);
        let population = Population::of(members);
        let group =
            SideGroup { population, entries: run_time.map(entry).into_iter().collect(), ..SideGroup::default() };
        BTreeMap::from([(vec!["app".to_owned()], group)])
    }

    #[test]
    fn several_runs_have_the_middle_value_of_each_that_has_one() {
        let section = middle_of_runs(vec![run(1, Some(900)), run(2, Some(5)), run(3, None), run(9, Some(7))]);
        let group = &section[&vec!["app".to_owned()]];
        assert_eq!(group.entries[0].cell, Some(Cell::Number(7)));
        assert_eq!(group.population.members, 2);
        assert!(middle_of_runs(Vec::new()).is_empty());
        let word = |word: &str| Cell::Word(word.to_owned());
        assert_eq!(middle_cell(vec![word("max"), word("max"), Cell::Number(5)]), Some(word("max")));
    }
}
