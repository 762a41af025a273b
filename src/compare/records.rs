//! Sections that are not about threads: values of cgroups, host pressure and sched_ext.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::{CgroupKeys, Measurement, SideGroup, SideSection, Sides};
use crate::diagnose::{Note, Side};
use crate::model::sorted::{Arrange, CollectSorted};
use crate::model::{RecordValue, Reduction, Section, SnapshotHead, ValueScope, WindowRule};

/// A section about cgroups on one side: the values of each group of cgroups.
pub(super) fn cgroup_section(head: &SnapshotHead, section: Section, (keys, side): (&CgroupKeys, Side)) -> SideSection {
    let mut groups: BTreeMap<Vec<String>, Collected<'_>> =
        std::iter::once((Vec::new(), Collected::default())).into_map();
    for (path, stats) in head.cgroup_stats.iter().filter(|(path, stats)| keys.lists(path, stats)) {
        for key in [Vec::new(), vec![keys.key(side, path)]] {
            groups.entry(key).or_default().add(path, stats.values(section));
        }
    }
    groups.into_iter().map(|(key, collected)| (key, collected.reduced())).collect()
}

/// A section about the host on one side, which is one group.
pub(super) fn host_section(name: &str, values: Option<Vec<RecordValue<'_>>>) -> SideSection {
    let mut collected = Collected::default();
    collected.add("", values.unwrap_or_default());
    SideSection::from([(vec![name.to_owned()], collected.reduced())])
}

/// Notes on changed sequence numbers, which affect the meaning of other values. They count from boot, except in windows.
pub(super) fn reloads(snapshots: Sides<&SnapshotHead>) -> Vec<Note> {
    let Some((before, after)) = snapshots.both() else { return Vec::new() };
    let boot = |snapshot: &SnapshotHead| snapshot.host.as_ref().and_then(|host| host.boot_id.clone());
    let has_window = before.window.is_some() || after.window.is_some();
    let (Some(a), Some(b)) = (&before.sched_ext, &after.sched_ext) else { return Vec::new() };
    if has_window || boot(before) != boot(after) {
        return Vec::new();
    }
    let is_changed = |before: Option<_>, after: Option<_>| before.zip(after).is_some_and(|(a, b)| a != b);
    let loaded = is_changed(a.enable_seq, b.enable_seq).then_some(Note::SchedulerLoaded);
    let hotplugged = is_changed(a.hotplug_seq, b.hotplug_seq).then_some(Note::CpusHotplugged);
    loaded.into_iter().chain(hotplugged).collect()
}

/// The values of cgroups that share a group, by row.
#[derive(Default)]
struct Collected<'s> {
    cgroups: u64,
    /// The cgroups that have a value, per row.
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

    fn reduced(self) -> SideGroup {
        SideGroup::new(self.cgroups, self.rows.iter().filter_map(|row| reduced(row)).collect())
    }
}

/// The value for the cgroups of a row. A value that includes descendants is not added to theirs.
fn reduced(row: &[(&str, RecordValue<'_>)]) -> Option<Measurement> {
    let (_, RecordValue { name, value_type, .. }) = row.first()?;
    let includes_descendants =
        |value: &RecordValue<'_>| value_type.reduction == Reduction::Sum && value.scope == ValueScope::Subtree;
    let inclusive = row.iter().filter(|(_, value)| includes_descendants(value));
    let topmost = topmost(inclusive.map(|(path, _)| *path).collect());
    let counted = row.iter().filter(|(path, value)| !includes_descendants(value) || topmost.contains(path));
    let cell = value_type.reduce(counted.map(|(_, value)| value.value.clone()))?;
    let covered = u64::try_from(row.len()).unwrap_or(u64::MAX);
    let is_total = value_type.reduction == Reduction::Sum;
    let is_increase = is_total && value_type.window == WindowRule::Increase;
    Some(Measurement { is_total, is_increase, ..Measurement::new(name.clone(), value_type.unit, cell, covered) })
}

/// The cgroups that are not descendants of others in the list.
fn topmost(mut paths: Vec<&str>) -> HashSet<&str> {
    // Sorted by segments, so that descendants follow their cgroup.
    paths.arrange_by(|a, b| a.split('/').cmp(b.split('/')));
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

#[cfg(test)]
mod tests {
    use super::super::delta::Delta;
    use super::super::globs::Flatten;
    use super::super::options::{CompareOptions, GroupBy};
    use super::super::{compare, show};
    use super::*;
    use crate::compare::{Grouping, Row};
    use crate::model::{Cell, CtprofSnapshot, SettingRange};

    fn snapshot(cgroups: &str) -> CtprofSnapshot {
        serde_json::from_str(&format!(r#"{{"threads":[],"cgroup_stats":{cgroups}}}"#)).unwrap()
    }

    #[test]
    fn changes_of_sched_ext_are_reported_between_snapshots_of_one_boot() {
        let side = |fields: &str| {
            let json = format!(r#"{{"threads":[],{fields}}}"#);
            serde_json::from_str::<CtprofSnapshot>(&json).unwrap()
        };
        let notes = |a: &str, b: &str| reloads(Sides::two(&side(a).head, &side(b).head));
        let at = |boot: &str, seq: &str| format!(r#""host":{{"boot_id":"{boot}"}},"sched_ext":{{{seq}}}"#);
        let (one, two) = (r#""enable_seq":1"#, r#""enable_seq":2"#);
        assert_eq!(notes(&at("a", one), &at("a", two)), [Note::SchedulerLoaded]);
        assert_eq!(notes(&at("a", one), &at("b", two)), []);
        assert_eq!(notes(&at("a", ""), &at("a", two)), [], "one does not know");
        let window = format!(r#"{},"window":{{"duration_ns":1}}"#, at("a", two));
        assert_eq!(notes(&at("a", one), &window), []);
    }

    fn options(glob: &str) -> CompareOptions {
        let flatten = vec![Flatten::new(glob).unwrap()];
        let grouping = Grouping { axis: GroupBy::Cgroup, flatten, ..Grouping::default() };
        CompareOptions { grouping, ..CompareOptions::default() }
    }

    /// The value of `name` in the only group.
    fn flattened(cgroups: &str, name: &str) -> Cell {
        let view = show(&snapshot(cgroups), &options("/**"));
        let mut rows = view.sections.into_iter().flat_map(|section| section.rows);
        rows.find(|row| row.name == name).unwrap().values.baseline.unwrap()
    }

    #[test]
    fn a_cgroup_without_threads_of_its_own_is_no_group_and_in_no_total() {
        let tree = r#"{"/a": {"cpu":{"usage_usec":10},"without_threads":true}, "/a/b": {"cpu":{"usage_usec":4}}}"#;
        let view = show(&snapshot(tree), &options("/none"));
        let section = view.sections.into_iter().find(|section| section.section == Section::CgroupStats).unwrap();
        let used = section.rows.iter().filter(|row| row.name == "cpu.usage_usec");
        let used: Vec<_> =
            used.map(|row| (section.groups[row.group].key.clone(), row.values.baseline.clone())).collect();
        let four = Some(Cell::Number(4));
        assert_eq!(used, [(Vec::new(), four.clone()), (vec!["/a/b".to_owned()], four)]);
    }

    #[test]
    fn a_quota_above_the_threads_is_compared_without_the_sums_of_those_below() {
        let side = |quota: &str, throttled: u64| {
            let own = format!(r#""nr_throttled":{throttled},"max_quota_us":{quota}"#);
            let above =
                format!(r#"{{"cpu":{{"usage_usec":4,{own}}},"memory":{{"current":3}},"without_threads":true}}"#);
            snapshot(&format!(r#"{{"/a":{above}, "/a/b":{{"cpu":{{"usage_usec":4,"nr_throttled":1}}}}}}"#))
        };
        let comparison = compare(&side(r#""max""#, 0), &side("10000", 39), &options("/none"));
        let number = |number: u64| Some(Cell::Number(number));
        let rows_of = |key: &[&str]| {
            let tables = comparison.sections.iter().filter(|table| table.section.is_of_cgroups());
            let rows = tables.flat_map(|table| table.rows.iter().map(|row| (&table.groups[row.group].key, row)));
            let of_key = rows.filter(|(found, _)| *found == key);
            let values = |row: &Row| (row.values.baseline.clone(), row.values.candidate.clone().flatten());
            of_key.map(|(_, row)| (row.name.to_string(), values(row))).collect::<BTreeMap<_, _>>()
        };
        let no_quota = Some(Cell::Word("max".into()));
        let expected =
            [("cpu.max_quota_us", (no_quota, number(10_000))), ("cpu.nr_throttled", (number(0), number(39)))];
        assert_eq!(rows_of(&["/a"]), expected.map(|(name, values)| (name.to_owned(), values)).into());
        let total = rows_of(&[]);
        assert_eq!(total["cpu.nr_throttled"], (number(1), number(40)));
        assert_eq!(total["cpu.usage_usec"], (number(4), number(4)), "the sum of those below counts once");
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
        let stats = view.section(Section::CgroupStats).unwrap();
        assert_eq!(stats.groups[1].members().baseline, Some(4), "all cgroups of the row are counted");
    }

    #[test]
    fn descendants_count_where_their_ancestor_has_no_value() {
        let tree = r#"{"/":{"cpu":{"usage_usec":10}},
            "/a":{"cpu":{"usage_usec":4},"memory":{"current":4}}, "/b":{"memory":{"current":1}}}"#;
        let view = show(&snapshot(tree), &options("/**"));
        assert!(view.sections.iter().flat_map(|table| &table.rows).any(|row| row.name == "memory.current"));
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
    fn limits_of_merged_cgroups_are_a_range_if_they_differ() {
        let tree = r#"{"/a":{"cpu":{"max_quota_us":50000,"max_period_us":100000,"weight":100},"memory":{"max":4096}},
                       "/b":{"cpu":{"max_quota_us":"max","max_period_us":100000,"weight":20},"memory":{"max":1024}}}"#;
        let range = |min, max| Cell::Settings(Box::new(SettingRange { min, max }));
        let (quota, no_quota) = (Cell::Number(50000), Cell::Word("max".into()));
        assert_eq!(flattened(tree, "cpu.max_quota_us"), range(quota, no_quota));
        assert_eq!(flattened(tree, "cpu.max_period_us"), Cell::Number(100_000), "equal values are one");
        assert_eq!(flattened(tree, "cpu.weight"), range(Cell::Number(20), Cell::Number(100)));
        assert_eq!(flattened(tree, "memory.max"), range(Cell::Number(1024), Cell::Number(4096)));
        let lifted = snapshot(&tree.replace("50000", r#""max""#));
        let comparison = compare(&snapshot(tree), &lifted, &options("/**"));
        let rows: Vec<_> = comparison.sections.iter().flat_map(|table| &table.rows).collect();
        let delta = |name: &str| rows.iter().find(|row| row.name == name).unwrap().delta().unwrap();
        assert!(matches!(delta("cpu.max_quota_us"), Delta::Changed { .. }));
        assert_eq!(delta("cpu.weight"), Delta::Same);
    }

    #[test]
    fn limits_that_changed_keep_their_numbers() {
        let (old, new) = (
            snapshot(r#"{"/a":{"memory":{"max":"max","high":1}}}"#),
            snapshot(r#"{"/a":{"memory":{"max":4096,"high":3}}}"#),
        );
        let comparison = compare(&old, &new, &options("/*"));
        let rows: Vec<_> = comparison.sections.iter().flat_map(|table| &table.rows).collect();
        let delta = |name: &str| rows.iter().find(|row| row.name == name).unwrap().delta().unwrap();
        assert_eq!(delta("memory.high"), Delta::Number(2));
        let (from, to) = (Cell::Word("max".into()), Cell::Number(4096));
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
        let grouping = Grouping { axis: GroupBy::Cgroup, ..Grouping::default() };
        let options = CompareOptions { grouping, ..CompareOptions::default() };
        let comparison = compare(&read("/old"), &read("/new"), &options);
        let stats = comparison.section(Section::CgroupStats).unwrap();
        assert_eq!((stats.groups.len(), &*stats.groups[1].label, stats.groups[1].renamed), (2, "/old", true));
    }
}
