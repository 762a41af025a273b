//! Sections that are not about threads: readings of cgroups, of the host's pressure, of sched_ext.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Sides;
use super::entry::{Entry, Population, SideGroup, SideSection, one_group};
use crate::diagnose::Note;
use crate::model::{Cell, CgroupStats, CtprofSnapshot, Limit, Psi, Section, Unit};

/// A reading, and how it combines with those of other cgroups of its group.
struct RecordEntry {
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

fn entry(name: &'static str, unit: Unit, value: Option<u64>, combine: Combine) -> Option<RecordEntry> {
    value.map(|value| RecordEntry { name: name.into(), unit, cell: Cell::Number(value), combine })
}

fn limit(name: &'static str, unit: Unit, value: Option<Limit>, combine: Combine) -> Option<RecordEntry> {
    let cell = match value? {
        Limit::Number(number) => Cell::Number(number),
        Limit::Max => Cell::Word("max".to_owned()),
    };
    Some(RecordEntry { name: name.into(), unit, cell, combine })
}

/// A section about cgroups: the values of each group of them, in the order of their files.
pub(super) fn cgroup_section(snapshot: &CtprofSnapshot, section: Section, key: impl Fn(&str) -> String) -> SideSection {
    let mut groups: BTreeMap<Vec<String>, (u64, Vec<RecordEntry>)> = BTreeMap::new();
    for (path, stats) in &snapshot.cgroup_stats {
        let (members, entries) = groups.entry(vec![key(path)]).or_default();
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
    let group = |(members, entries): (u64, Vec<RecordEntry>)| SideGroup {
        population: Population { members, uptime: None },
        entries: whole(entries, members),
        ..SideGroup::default()
    };
    groups.into_iter().map(|(path, members)| (path, group(members))).collect()
}

fn whole(entries: Vec<RecordEntry>, members: u64) -> Vec<Entry> {
    entries.into_iter().map(|RecordEntry { name, unit, cell, .. }| Entry::whole(name, unit, cell, members)).collect()
}

/// The host's pressure.
pub(super) fn host_pressure(snapshot: &CtprofSnapshot) -> SideSection {
    one_group("host", whole(snapshot.psi.as_ref().map(pressure).unwrap_or_default(), 1))
}

/// The state of sched_ext.
pub(super) fn sched_ext(snapshot: &CtprofSnapshot) -> SideSection {
    one_group("sched_ext", whole(sched_ext_entries(snapshot), 1))
}

fn cgroup_entries(section: Section, stats: &CgroupStats) -> Vec<RecordEntry> {
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

fn usage(stats: &CgroupStats) -> Vec<RecordEntry> {
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

fn limits(stats: &CgroupStats) -> Vec<RecordEntry> {
    let CgroupStats { cpu, memory, pids, .. } = stats;
    let nice = cpu.weight_nice.map(|nice| RecordEntry {
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
fn map(map: Option<&BTreeMap<String, u64>>, unit: fn(&str) -> Unit) -> Vec<RecordEntry> {
    let entry = |(key, value): (&String, &u64)| RecordEntry {
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

fn io_stat(stats: &CgroupStats) -> Vec<RecordEntry> {
    let devices = stats.io.stat.iter().flatten();
    let of = |(device, counts): (&String, &BTreeMap<String, u64>)| {
        let entry = |(key, value): (&String, &u64)| RecordEntry {
            name: format!("{device} {key}").into(),
            unit: if key.ends_with("bytes") { Unit::Bytes } else { Unit::Count },
            cell: Cell::Number(*value),
            combine: Combine::Add,
        };
        counts.iter().map(entry).collect::<Vec<_>>()
    };
    devices.flat_map(of).collect()
}

fn pressure(psi: &Psi) -> Vec<RecordEntry> {
    let mut entries = Vec::new();
    for (resource, halves) in psi.resources() {
        for (half, pressure) in halves.halves() {
            let named = |field: &str, unit, value, combine| RecordEntry {
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

fn sched_ext_entries(snapshot: &CtprofSnapshot) -> Vec<RecordEntry> {
    let Some(state) = &snapshot.sched_ext else { return Vec::new() };
    let word = |name: &'static str, word: &Option<String>| {
        let cell = Cell::Word(word.clone()?);
        Some(RecordEntry { name: name.into(), unit: Unit::None, cell, combine: Combine::Largest })
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

/// What changed sequence numbers mean for the rest.
pub(super) fn reloads(snapshots: Sides<&CtprofSnapshot>) -> Vec<Note> {
    let Sides { baseline: Some(a), candidate: Some(b) } = snapshots.map(|snapshot| snapshot.sched_ext.as_ref()) else {
        return Vec::new();
    };
    let reloaded = (a.enable_seq != b.enable_seq).then_some(Note::SchedulerReloaded);
    let hotplugged = (a.hotplug_seq != b.hotplug_seq).then_some(Note::CpusHotplugged);
    reloaded.into_iter().chain(hotplugged).collect()
}
