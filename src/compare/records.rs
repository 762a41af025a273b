//! Sections that are not about threads: readings of cgroups, of the host's pressure, of sched_ext.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::cgroup_keys::CgroupKeys;
use super::group::Group;
use super::rows::{Row, Table, by_movement};
use super::{Options, Sides, joined, smaps};
use crate::diagnose::Note;
use crate::model::{Cell, CgroupStats, CtprofSnapshot, Limit, Psi, Section, Unit};

/// A reading, and how it combines with those of other cgroups of its group.
struct Entry {
    name: Cow<'static, str>,
    unit: Unit,
    cell: Cell,
    combine: Combine,
}

/// How the readings of several cgroups become one.
#[derive(Clone, Copy)]
enum Combine {
    /// Usage and counts add up.
    Add,
    /// Of peaks, averages and limits the largest; `max` is larger than any number.
    Largest,
    /// Of floors the smallest.
    Smallest,
}

impl Combine {
    fn apply(self, a: Cell, b: Cell) -> Cell {
        let is_max = |cell: &Cell| matches!(cell, Cell::Word(_));
        match (self, &a, &b) {
            (Self::Add, Cell::Number(x), Cell::Number(y)) => Cell::Number(x.saturating_add(*y)),
            (Self::Largest, Cell::Number(x), Cell::Number(y)) => Cell::Number(*x.max(y)),
            (Self::Smallest, Cell::Number(x), Cell::Number(y)) => Cell::Number(*x.min(y)),
            (Self::Smallest, ..) if is_max(&a) => b,
            (Self::Largest, ..) if is_max(&b) => b,
            _ => a,
        }
    }
}

fn entry(name: &'static str, unit: Unit, value: Option<u64>, combine: Combine) -> Option<Entry> {
    value.map(|value| Entry { name: name.into(), unit, cell: Cell::Number(value), combine })
}

fn limit(name: &'static str, unit: Unit, value: Option<Limit>, combine: Combine) -> Option<Entry> {
    let cell = match value? {
        Limit::Number(number) => Cell::Number(number),
        Limit::Max => Cell::Word("max".to_owned()),
    };
    Some(Entry { name: name.into(), unit, cell, combine })
}

/// The tables of all sections but those of threads' metrics.
pub(super) fn tables(
    snapshots: Sides<Option<&CtprofSnapshot>>,
    keys: &CgroupKeys<'_>,
    options: &Options,
) -> Vec<Table> {
    let of_cgroups = |section: Section| {
        let Sides { baseline, candidate } = snapshots;
        let baseline = baseline.map(|snapshot| cgroup_groups(snapshot, section, |path| keys.baseline(path)));
        let candidate = candidate.map(|snapshot| cgroup_groups(snapshot, section, |path| keys.candidate(path)));
        table(section, Sides { baseline, candidate })
    };
    let host_pressure = || {
        let entries = |snapshot: &CtprofSnapshot| snapshot.psi.as_ref().map(pressure).unwrap_or_default();
        table(Section::HostPressure, one_group(snapshots, "host", entries))
    };
    let sched_ext = || {
        let mut table = table(Section::SchedExt, one_group(snapshots, "sched_ext", sched_ext));
        table.notes.extend(reloads(snapshots));
        table
    };
    let mut tables = Vec::new();
    for &section in Section::ALL.iter().filter(|section| options.wants(**section)) {
        match section {
            section if section.is_of_cgroups() && options.group_by.is_by_cgroup() => {
                tables.push(of_cgroups(section));
            }
            Section::HostPressure => tables.push(host_pressure()),
            Section::SmapsRollup => tables.push(smaps::table(snapshots, options)),
            Section::SchedExt => tables.push(sched_ext()),
            _ => {}
        }
    }
    tables
}

/// How many members a group has, and their readings.
type Members = (u64, Vec<Entry>);
type Groups = BTreeMap<String, Members>;

fn one_group(
    snapshots: Sides<Option<&CtprofSnapshot>>,
    name: &str,
    entries: impl Fn(&CtprofSnapshot) -> Vec<Entry>,
) -> Sides<Option<Groups>> {
    let group = |snapshot| BTreeMap::from([(name.to_owned(), (1, entries(snapshot)))]);
    snapshots.map(|snapshot| snapshot.map(group))
}

/// The readings of a section, of each group of cgroups, in the order of their files.
fn cgroup_groups(snapshot: &CtprofSnapshot, section: Section, key: impl Fn(&str) -> String) -> Groups {
    let mut groups = Groups::new();
    for (path, stats) in &snapshot.cgroup_stats {
        let (members, entries) = groups.entry(key(path)).or_default();
        *members += 1;
        for more in cgroup_entries(section, stats) {
            match entries.iter_mut().find(|entry| entry.name == more.name) {
                None => entries.push(more),
                Some(entry) => {
                    let cell = std::mem::replace(&mut entry.cell, Cell::Number(0));
                    entry.cell = entry.combine.apply(cell, more.cell);
                }
            }
        }
    }
    groups
}

fn cgroup_entries(section: Section, stats: &CgroupStats) -> Vec<Entry> {
    match section {
        Section::CgroupStats => usage(stats),
        Section::CgroupLimits => limits(stats),
        Section::MemoryStat => map(stats.memory.stat.as_ref(), memory_stat_unit),
        Section::MemoryEvents => map(stats.memory.events.as_ref(), |_| Unit::Count),
        Section::IoStat => io_stat(stats),
        Section::Pressure => pressure(&stats.psi),
        _ => Vec::new(),
    }
}

fn usage(stats: &CgroupStats) -> Vec<Entry> {
    let CgroupStats { cpu, memory, pids, .. } = stats;
    let entries = [
        entry("cpu.usage_usec", Unit::Us, cpu.usage_usec, Combine::Add),
        entry("cpu.user_usec", Unit::Us, cpu.user_usec, Combine::Add),
        entry("cpu.system_usec", Unit::Us, cpu.system_usec, Combine::Add),
        entry("cpu.nr_periods", Unit::Count, cpu.nr_periods, Combine::Add),
        entry("cpu.nr_throttled", Unit::Count, cpu.nr_throttled, Combine::Add),
        entry("cpu.throttled_usec", Unit::Us, cpu.throttled_usec, Combine::Add),
        entry("memory.current", Unit::Bytes, memory.current, Combine::Add),
        entry("memory.peak", Unit::Bytes, memory.peak, Combine::Largest),
        entry("memory.swap_current", Unit::Bytes, memory.swap_current, Combine::Add),
        entry("pids.current", Unit::Count, pids.current, Combine::Add),
    ];
    entries.into_iter().flatten().collect()
}

fn limits(stats: &CgroupStats) -> Vec<Entry> {
    let CgroupStats { cpu, memory, pids, .. } = stats;
    let nice = cpu.weight_nice.map(|nice| Entry {
        name: "cpu.weight_nice".into(),
        unit: Unit::None,
        cell: Cell::Range { min: nice, max: nice },
        combine: Combine::Largest,
    });
    let entries = [
        limit("cpu.max_quota_us", Unit::Us, cpu.max_quota_us, Combine::Largest),
        entry("cpu.max_period_us", Unit::Us, cpu.max_period_us, Combine::Largest),
        entry("cpu.weight", Unit::Count, cpu.weight, Combine::Largest),
        nice,
        limit("memory.max", Unit::Bytes, memory.max, Combine::Largest),
        limit("memory.high", Unit::Bytes, memory.high, Combine::Largest),
        limit("memory.low", Unit::Bytes, memory.low, Combine::Smallest),
        limit("memory.min", Unit::Bytes, memory.min, Combine::Smallest),
        limit("memory.swap_max", Unit::Bytes, memory.swap_max, Combine::Largest),
        limit("pids.max", Unit::Count, pids.max, Combine::Largest),
    ];
    entries.into_iter().flatten().collect()
}

/// The keys of a map as the kernel has them. A limit among them does not add up.
fn map(map: Option<&BTreeMap<String, u64>>, unit: fn(&str) -> Unit) -> Vec<Entry> {
    let entry = |(key, value): (&String, &u64)| Entry {
        name: key.clone().into(),
        unit: unit(key),
        cell: Cell::Number(*value),
        combine: if key.starts_with("hierarchical_") { Combine::Largest } else { Combine::Add },
    };
    map.into_iter().flatten().map(entry).collect()
}

/// memory.stat has bytes, but for its counters of events (`Documentation/admin-guide/cgroup-v2.rst`).
fn memory_stat_unit(key: &str) -> Unit {
    const EVENTS: [&str; 8] = ["pg", "pswp", "workingset_", "thp_", "swpin", "swpout", "zswp", "numa_"];
    let key = key.strip_prefix("total_").unwrap_or(key);
    if EVENTS.iter().any(|prefix| key.starts_with(prefix)) { Unit::Count } else { Unit::Bytes }
}

fn io_stat(stats: &CgroupStats) -> Vec<Entry> {
    let devices = stats.io.stat.iter().flatten();
    let of = |(device, counts): (&String, &BTreeMap<String, u64>)| {
        let entry = |(key, value): (&String, &u64)| Entry {
            name: format!("{device} {key}").into(),
            unit: if key.ends_with("bytes") { Unit::Bytes } else { Unit::Count },
            cell: Cell::Number(*value),
            combine: Combine::Add,
        };
        counts.iter().map(entry).collect::<Vec<_>>()
    };
    devices.flat_map(of).collect()
}

fn pressure(psi: &Psi) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (resource, halves) in psi.resources() {
        for (half, pressure) in halves.halves() {
            let named = |field: &str, unit, value, combine| Entry {
                name: format!("{resource}.{half}.{field}").into(),
                unit,
                cell: Cell::Number(value),
                combine,
            };
            for (field, average) in [("avg10", pressure.avg10), ("avg60", pressure.avg60), ("avg300", pressure.avg300)]
            {
                entries.push(named(field, Unit::Hundredths, average.into(), Combine::Largest));
            }
            entries.push(named("total_usec", Unit::Us, pressure.total_usec, Combine::Add));
        }
    }
    entries
}

fn sched_ext(snapshot: &CtprofSnapshot) -> Vec<Entry> {
    let Some(state) = &snapshot.sched_ext else { return Vec::new() };
    let word = |name: &'static str, word: &Option<String>| {
        let cell = Cell::Word(word.clone()?);
        Some(Entry { name: name.into(), unit: Unit::None, cell, combine: Combine::Largest })
    };
    let number = |name, value| entry(name, Unit::Count, value, Combine::Largest);
    let entries = [
        word("state", &state.state),
        word("ops", &state.ops),
        number("switch_all", state.switch_all),
        number("nr_rejected", state.nr_rejected),
        number("hotplug_seq", state.hotplug_seq),
        number("enable_seq", state.enable_seq),
    ];
    entries.into_iter().flatten().collect()
}

/// What moved sequence numbers mean for the rest.
fn reloads(snapshots: Sides<Option<&CtprofSnapshot>>) -> Vec<Note> {
    let states = snapshots.map(|snapshot| snapshot.and_then(|snapshot| snapshot.sched_ext.as_ref()));
    let Sides { baseline: Some(a), candidate: Some(b) } = states else { return Vec::new() };
    let mut notes = Vec::new();
    if a.enable_seq != b.enable_seq {
        notes.push(Note::SchedulerLoaded);
    }
    if a.hotplug_seq != b.hotplug_seq {
        notes.push(Note::CpusHotplugged);
    }
    notes
}

fn table(section: Section, groups: Sides<Option<Groups>>) -> Table {
    let paired = joined(groups.map(Option::unwrap_or_default));
    let mut table = Table { section, groups: Vec::new(), rows: Vec::new(), notes: Vec::new() };
    for (at, (name, sides)) in paired.into_iter().enumerate() {
        let members = sides.as_ref().map(|side| side.as_ref().map(|(members, _)| *members));
        table.groups.push(Group { path: vec![name.clone()], name, members, ..Group::default() });
        let entries = sides.map(|side| side.map(|(_, entries)| entries).unwrap_or_default());
        table.rows.extend(rows(at, entries, members.map(|members| members.is_some())));
    }
    by_movement(&mut table.rows, &[]);
    table
}

/// The rows of a group: the readings of both sides joined by name, in the baseline's order.
fn rows(group: usize, entries: Sides<Vec<Entry>>, exists: Sides<bool>) -> Vec<Row> {
    let Sides { baseline, candidate: mut others } = entries;
    let mut joined = Vec::new();
    for Entry { name, unit, cell, .. } in baseline {
        let other = others.iter().position(|other| other.name == name).map(|at| others.remove(at).cell);
        joined.push(Row::new(group, name, unit, Sides { baseline: Some(cell), candidate: other }, exists));
    }
    joined.extend(others.into_iter().map(|Entry { name, unit, cell, .. }| {
        Row::new(group, name, unit, Sides { baseline: None, candidate: Some(cell) }, exists)
    }));
    joined
}
