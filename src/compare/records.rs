//! Sections that are not about threads: values of cgroups, of the host's pressure, of sched_ext.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::cgroup_keys::CgroupKeys;
use super::group::Group;
use super::rows::{Row, Table, by_movement};
use super::{Options, Sides, joined, smaps};
use crate::diagnose::Note;
use crate::model::{Cell, CtprofSnapshot, Psi, RecordValue, Reduction, SchedExtSysfs, Section, Unit, ValueScope};

/// The tables of all sections except those of threads' metrics.
pub(super) fn tables(
    snapshots: Sides<Option<&CtprofSnapshot>>,
    keys: &CgroupKeys<'_>,
    options: &Options,
) -> Vec<Table> {
    let wanted = Section::ALL.iter().filter(|section| options.wants(**section));
    let table = |&section: &Section| match section {
        section if section.is_of_cgroups() => {
            options.group_by.is_by_cgroup().then(|| cgroup_table(section, snapshots, keys))
        }
        Section::HostPressure => Some(one_group(section, "host", snapshots, |snapshot| {
            snapshot.psi.as_ref().map(Psi::values).unwrap_or_default()
        })),
        Section::SmapsRollup => Some(smaps::table(snapshots, options)),
        Section::SchedExt => Some(sched_ext_table(snapshots)),
        _ => None,
    };
    wanted.filter_map(table).collect()
}

fn cgroup_table(section: Section, snapshots: Sides<Option<&CtprofSnapshot>>, keys: &CgroupKeys<'_>) -> Table {
    let Sides { baseline, candidate } = snapshots;
    let baseline = baseline.map(|snapshot| cgroup_groups(snapshot, section, |path| keys.baseline(path)));
    let candidate = candidate.map(|snapshot| cgroup_groups(snapshot, section, |path| keys.candidate(path)));
    let mut table = table(section, Sides { baseline, candidate });
    for group in &mut table.groups {
        group.renamed = keys.list.iter().any(|renamed| renamed.baseline == group.name);
    }
    table
}

fn sched_ext_table(snapshots: Sides<Option<&CtprofSnapshot>>) -> Table {
    let states = snapshots.map(|snapshot| snapshot.and_then(|snapshot| snapshot.sched_ext.as_ref()));
    let mut table = one_group(Section::SchedExt, "sched_ext", snapshots, |snapshot| {
        snapshot.sched_ext.as_ref().map(SchedExtSysfs::values).unwrap_or_default()
    });
    table.notes.extend(reloads(states));
    table
}

/// What changed sequence numbers mean for the other values.
fn reloads(states: Sides<Option<&SchedExtSysfs>>) -> Vec<Note> {
    let Sides { baseline: Some(a), candidate: Some(b) } = states else { return Vec::new() };
    let loaded = (a.enable_seq != b.enable_seq).then_some(Note::SchedulerLoaded);
    let hotplugged = (a.hotplug_seq != b.hotplug_seq).then_some(Note::CpusHotplugged);
    loaded.into_iter().chain(hotplugged).collect()
}

/// One value of a group.
struct GroupValue {
    name: Cow<'static, str>,
    unit: Unit,
    cell: Cell,
}

/// A group of one side.
#[derive(Default)]
struct Members {
    /// How many it has.
    count: u64,
    /// In the order of the records' tables.
    values: Vec<GroupValue>,
}

type Groups = BTreeMap<String, Members>;

/// The values of cgroups that share a group, by row.
#[derive(Default)]
struct Collected<'s> {
    cgroups: u64,
    /// Of each row, the cgroups that have a value.
    rows: Vec<Vec<(&'s str, RecordValue<'s>)>>,
    places: HashMap<Cow<'static, str>, usize>,
}

impl<'s> Collected<'s> {
    fn add(&mut self, path: &'s str, values: Vec<RecordValue<'s>>) {
        self.cgroups += 1;
        for value in values {
            let place = *self.places.entry(value.name.clone()).or_insert(self.rows.len());
            self.rows.resize_with(self.rows.len().max(place + 1), Vec::new);
            self.rows[place].push((path, value));
        }
    }

    fn reduced(self) -> Members {
        Members { count: self.cgroups, values: self.rows.iter().filter_map(|row| reduced(row)).collect() }
    }
}

/// The one value for the cgroups of a row. In a sum, a value that includes descendants counts for
/// them: they are not added again.
fn reduced(row: &[(&str, RecordValue<'_>)]) -> Option<GroupValue> {
    let (_, RecordValue { name, value_type, .. }) = row.first()?;
    let includes_descendants =
        |value: &RecordValue<'_>| value_type.reduction == Reduction::Sum && value.scope == ValueScope::Subtree;
    let inclusive = row.iter().filter(|(_, value)| includes_descendants(value));
    let topmost = topmost(inclusive.map(|(path, _)| *path).collect());
    let counted = row.iter().filter(|(path, value)| !includes_descendants(value) || topmost.contains(path));
    let cell = value_type.reduce(counted.map(|(_, value)| value.value.clone()))?;
    Some(GroupValue { name: name.clone(), unit: value_type.unit, cell })
}

/// The cgroups that are no descendants of others among them.
fn topmost(mut paths: Vec<&str>) -> HashSet<&str> {
    // Compared by segments, a cgroup is followed by its descendants.
    paths.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    let mut top: Option<&str> = None;
    let is_below = |path: &str, top: &str| {
        path.strip_prefix(top.trim_end_matches('/')).is_some_and(|below| below.starts_with('/'))
    };
    paths.retain(|path| {
        let is_topmost = !top.is_some_and(|top| is_below(path, top));
        top = if is_topmost { Some(path) } else { top };
        is_topmost
    });
    paths.into_iter().collect()
}

fn cgroup_groups(snapshot: &CtprofSnapshot, section: Section, key: impl Fn(&str) -> String) -> Groups {
    let mut groups: BTreeMap<String, Collected<'_>> = BTreeMap::new();
    for (path, stats) in &snapshot.cgroup_stats {
        groups.entry(key(path)).or_default().add(path, stats.values(section));
    }
    groups.into_iter().map(|(name, collected)| (name, collected.reduced())).collect()
}

/// The table of a section about one thing, which is its only group.
fn one_group(
    section: Section,
    name: &str,
    snapshots: Sides<Option<&CtprofSnapshot>>,
    values: impl Fn(&CtprofSnapshot) -> Vec<RecordValue<'_>>,
) -> Table {
    let group = |snapshot| {
        let mut collected = Collected::default();
        collected.add("", values(snapshot));
        BTreeMap::from([(name.to_owned(), collected.reduced())])
    };
    table(section, snapshots.map(|snapshot| snapshot.map(group)))
}

fn table(section: Section, groups: Sides<Option<Groups>>) -> Table {
    let paired = joined(groups.map(Option::unwrap_or_default));
    let mut table = Table { section, groups: Vec::new(), rows: Vec::new(), notes: Vec::new() };
    for (place, (name, sides)) in paired.into_iter().enumerate() {
        let members = sides.as_ref().map(|side| side.as_ref().map(|members| members.count));
        table.groups.push(Group { path: vec![name.clone()], name, members, ..Group::default() });
        let values = sides.map(|side| side.unwrap_or_default().values);
        table.rows.extend(rows(place, values, members.map(|members| members.is_some())));
    }
    by_movement(&mut table.rows, &[]);
    table
}

/// The rows of a group: the values of both sides joined by name, in the baseline's order.
fn rows(group: usize, values: Sides<Vec<GroupValue>>, exists: Sides<bool>) -> Vec<Row> {
    let Sides { baseline, candidate } = values;
    let row = |name, unit, baseline, candidate| Row::new(group, name, unit, Sides { baseline, candidate }, exists);
    let names: HashSet<Cow<'static, str>> = baseline.iter().map(|value| value.name.clone()).collect();
    let (shared, new): (Vec<_>, Vec<_>) = candidate.into_iter().partition(|value| names.contains(&value.name));
    let mut others: HashMap<_, _> = shared.into_iter().map(|value| (value.name, value.cell)).collect();
    let mut rows: Vec<_> = baseline
        .into_iter()
        .map(|GroupValue { name, unit, cell }| {
            let other = others.remove(&name);
            row(name, unit, Some(cell), other)
        })
        .collect();
    rows.extend(new.into_iter().map(|GroupValue { name, unit, cell }| row(name, unit, None, Some(cell))));
    rows
}

#[cfg(test)]
mod tests {
    use super::super::delta::Delta;
    use super::super::{Flatten, GroupBy, compare, show};
    use super::*;

    fn snapshot(cgroups: &str) -> CtprofSnapshot {
        serde_json::from_str(&format!(r#"{{"threads":[],"cgroup_stats":{cgroups}}}"#)).unwrap()
    }

    fn options(glob: &str) -> Options {
        let flatten = vec![Flatten::new(glob).unwrap()];
        Options { group_by: GroupBy::Cgroup, flatten, ..Options::default() }
    }

    /// The value of `name` in the only group.
    fn flattened(cgroups: &str, name: &str) -> Cell {
        let view = show(&snapshot(cgroups), &options("/**"));
        let mut rows = view.tables.into_iter().flat_map(|table| table.rows);
        rows.find(|row| row.name == name).unwrap().values.baseline.unwrap()
    }

    #[test]
    fn a_flattened_hierarchy_counts_its_descendants_once() {
        let tree = r#"{
            "/a": {"cpu":{"usage_usec":10}, "memory":{"current":10,"stat":{"anon":10}}, "pids":{"current":10},
                   "io":{"stat":{"8:0":{"rbytes":10}}}},
            "/a/b": {"cpu":{"usage_usec":4}, "memory":{"current":4,"stat":{"anon":4}}, "pids":{"current":4},
                     "io":{"stat":{"8:0":{"rbytes":4}}}},
            "/a/b/c": {"cpu":{"usage_usec":3}},
            "/a-z": {"cpu":{"usage_usec":1}, "memory":{"current":1,"stat":{"anon":1}}, "pids":{"current":1},
                     "io":{"stat":{"8:0":{"rbytes":1}}}}}"#;
        assert_eq!(topmost(vec!["/a/b", "/", "/a"]), HashSet::from(["/"]));
        for name in ["cpu.usage_usec", "memory.current", "anon", "pids.current", "8:0 rbytes"] {
            assert_eq!(flattened(tree, name), Cell::Number(11), "{name}");
        }
        let view = show(&snapshot(tree), &options("/**"));
        let stats = view.tables.iter().find(|table| table.section == Section::CgroupStats).unwrap();
        assert_eq!(stats.groups[0].members.baseline, Some(4), "all cgroups of the row are counted");
    }

    #[test]
    fn descendants_count_where_their_ancestor_has_no_value() {
        let tree = r#"{"/":{"cpu":{"usage_usec":10}},
            "/a":{"cpu":{"usage_usec":4},"memory":{"current":4}}, "/b":{"memory":{"current":1}}}"#;
        let view = show(&snapshot(tree), &Options { flatten: vec![Flatten::new("/**").unwrap()], ..options("/*") });
        assert!(view.tables.iter().flat_map(|table| &table.rows).any(|row| row.name == "memory.current"));
        assert_eq!(flattened(tree, "memory.current"), Cell::Number(5));
    }

    #[test]
    fn throttling_of_ancestor_and_descendants_adds_up() {
        let tree = r#"{"/a":{"cpu":{"nr_throttled":2}}, "/a/b":{"cpu":{"nr_throttled":3}}}"#;
        assert_eq!(flattened(tree, "cpu.nr_throttled"), Cell::Number(5));
    }

    #[test]
    fn memory_of_version_1_adds_up_where_it_excludes_descendants() {
        let tree =
            r#"{"/a":{"memory":{"stat":{"rss":2,"total_rss":5}}}, "/a/b":{"memory":{"stat":{"rss":3,"total_rss":3}}}}"#;
        assert_eq!((flattened(tree, "rss"), flattened(tree, "total_rss")), (Cell::Number(5), Cell::Number(5)));
    }

    #[test]
    fn memory_events_of_version_1_add_up_because_they_exclude_descendants() {
        let tree = |low: &str| {
            let events = |max: u64| format!(r#"{{"memory":{{"events":{{{low}"max":{max}}}}}}}"#);
            format!(r#"{{"/a":{},"/a/b":{}}}"#, events(5), events(3))
        };
        assert_eq!(flattened(&tree(""), "max"), Cell::Number(8));
        assert_eq!(flattened(&tree(r#""low":0,"#), "max"), Cell::Number(5), "version 2 always has `low`");
    }

    #[test]
    fn nice_values_of_merged_cgroups_are_a_range() {
        let tree = r#"{"/a":{"cpu":{"weight_nice":-3}}, "/b":{"cpu":{"weight_nice":5}}}"#;
        assert_eq!(flattened(tree, "cpu.weight_nice"), Cell::Range { min: -3, max: 5 });
    }

    #[test]
    fn limits_that_changed_keep_their_numbers() {
        let (old, new) = (
            snapshot(r#"{"/a":{"memory":{"max":"max","high":1}}}"#),
            snapshot(r#"{"/a":{"memory":{"max":4096,"high":3}}}"#),
        );
        let comparison = compare(&old, &new, &options("/*"));
        let rows: Vec<_> = comparison.tables.iter().flat_map(|table| &table.rows).collect();
        let delta = |name: &str| rows.iter().find(|row| row.name == name).unwrap().delta.clone().unwrap();
        assert_eq!(delta("memory.high"), Delta::Number(2));
        let (from, to) = (Cell::Word("max".to_owned()), Cell::Number(4096));
        assert_eq!(delta("memory.max"), Delta::Changed { from, to });
    }

    #[test]
    fn renamed_cgroups_are_marked_in_sections_of_cgroups() {
        let json = |cgroup: &str| {
            let thread = |tid: u32, comm: &str| {
                format!(r#"{{"tid":{tid},"tgid":1,"pcomm":"p","comm":"{comm}","cgroup":"{cgroup}"}}"#)
            };
            let threads = [thread(1, "main"), thread(2, "io"), thread(3, "gc")].join(",");
            format!(r#"{{"threads":[{threads}],"cgroup_stats":{{"{cgroup}":{{"cpu":{{"usage_usec":1}}}}}}}}"#)
        };
        let read = |cgroup: &str| serde_json::from_str::<CtprofSnapshot>(&json(cgroup)).unwrap();
        let options = Options { group_by: GroupBy::Cgroup, ..Options::default() };
        let comparison = compare(&read("/old"), &read("/new"), &options);
        let stats = comparison.tables.iter().find(|table| table.section == Section::CgroupStats).unwrap();
        assert_eq!((stats.groups.len(), &*stats.groups[0].name, stats.groups[0].renamed), (1, "/old", true));
    }
}
