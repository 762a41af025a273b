//! Memory of processes by kind, from `smaps_rollup`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::measurement::{Measurement, Population, SideGroup, SideSection};
use super::options::{CompareOptions, Names};
use crate::model::{Cell, CtprofSnapshot, ThreadState, Unit};
use crate::names::pattern_key;

/// Memory of processes by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) processes: u64,
    /// Bytes by the kernel's key, and the number of processes that have the key.
    pub(super) kinds: BTreeMap<String, (u64, u64)>,
}

impl Memory {
    fn add(&mut self, rollup_kib: &BTreeMap<String, u64>) {
        self.processes += 1;
        for (kind, kib) in rollup_kib {
            self.add_kind(kind, kib.saturating_mul(1024), 1);
        }
    }

    /// About how much memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        const BYTES_PER_KIND: usize = 160;
        (1 + self.kinds.len()) * BYTES_PER_KIND
    }

    fn add_kind(&mut self, kind: &str, bytes: u64, processes: u64) {
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.to_owned(), (0, 0));
        }
        if let Some((total, covered)) = self.kinds.get_mut(kind) {
            *total = total.saturating_add(bytes);
            *covered += processes;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.processes += other.processes;
        for (kind, (bytes, processes)) in &other.kinds {
            self.add_kind(kind, *bytes, *processes);
        }
    }
}

/// Memory by process name and kind, in bytes, summed over the processes of that name (saturating). Names
/// are replaced by patterns even for one process, because process ids differ between captures. With
/// [`Names::Literal`], each process has its own entry, `name[tgid]`.
///
/// `Shared_*` counts shared pages once per process: prefer `Pss`.
#[must_use]
pub fn collect_smaps_rollup(snapshot: &CtprofSnapshot, names: Names) -> BTreeMap<String, BTreeMap<String, u64>> {
    let bytes = |memory: Memory| memory.kinds.into_iter().map(|(kind, (bytes, _))| (kind, bytes)).collect();
    let memory = by_key(&memory_of_processes(snapshot, names), names);
    memory.into_iter().map(|(name, memory)| (name, bytes(memory))).collect()
}

pub(super) fn memory_of_processes(snapshot: &CtprofSnapshot, names: Names) -> BTreeMap<String, Memory> {
    let mut memory = BTreeMap::new();
    for thread in &snapshot.threads {
        add_leader(&mut memory, thread, names);
    }
    memory
}

/// Adds the memory of a process, which its leader has: by process name, or with [`Names::Literal`] by `name[tgid]`.
/// Returns how many bytes that takes.
pub(super) fn add_leader(memory: &mut BTreeMap<String, Memory>, leader: &ThreadState, names: Names) -> usize {
    let Some(rollup) = &leader.smaps_rollup_kib else { return 0 };
    let key = match names {
        Names::Patterns => leader.pcomm.to_string(),
        Names::Literal => format!("{}[{}]", leader.pcomm, leader.tgid),
    };
    match memory.entry(key) {
        Entry::Vacant(new) => {
            let new = new.insert(Memory::default());
            new.add(rollup);
            new.bytes()
        }
        Entry::Occupied(known) => {
            let known = known.into_mut();
            let before = known.bytes();
            known.add(rollup);
            known.bytes() - before
        }
    }
}

fn by_key(memory: &BTreeMap<String, Memory>, names: Names) -> BTreeMap<String, Memory> {
    if names == Names::Literal {
        return memory.clone();
    }
    let mut keyed: BTreeMap<String, Memory> = BTreeMap::new();
    for (name, memory) in memory {
        keyed.entry(pattern_key(name)).or_default().merge(memory);
    }
    keyed
}

pub(super) fn section(memory: &BTreeMap<String, Memory>, options: &CompareOptions) -> SideSection {
    let group = |Memory { processes, kinds }: Memory| {
        let entry = |(kind, (bytes, covered)): (String, (u64, u64))| Measurement {
            covered,
            partial: covered < processes,
            is_total: true,
            ..Measurement::whole(kind, Unit::Bytes, Cell::Number(bytes), processes)
        };
        let population = Population::of(processes);
        SideGroup { population, measurements: kinds.into_iter().map(entry).collect(), ..SideGroup::default() }
    };
    let mut all = Memory::default();
    let mut section = SideSection::new();
    for (name, memory) in by_key(memory, options.names) {
        let key = vec![name];
        if options.wants_group(&key) {
            all.merge(&memory);
        }
        section.insert(key, group(memory));
    }
    section.insert(Vec::new(), group(all));
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadState;

    fn process(tgid: u32, name: &str, kib: u64) -> ThreadState {
        let smaps = BTreeMap::from([("Pss".to_owned(), kib)]);
        ThreadState { tid: tgid, tgid, pcomm: name.into(), smaps_rollup_kib: Some(smaps), ..ThreadState::default() }
    }

    #[test]
    fn processes_of_a_pattern_add_up_and_saturate() {
        let threads =
            vec![process(1, "web-1", 1), process(2, "web-2", 2), process(3, "db", u64::MAX), process(4, "db", 1)];
        let snapshot = CtprofSnapshot { threads, ..CtprofSnapshot::default() };
        let memory = collect_smaps_rollup(&snapshot, Names::Patterns);
        assert_eq!((memory["web-{N}"]["Pss"], memory["db"]["Pss"]), (3072, u64::MAX));
        let each = collect_smaps_rollup(&snapshot, Names::Literal);
        assert_eq!((each["web-1[1]"]["Pss"], each["db[4]"]["Pss"]), (1024, 1024));
    }

    #[test]
    fn one_process_has_a_pattern_too() {
        let snapshot = CtprofSnapshot { threads: vec![process(1, "web-1", 1)], ..CtprofSnapshot::default() };
        assert!(collect_smaps_rollup(&snapshot, Names::Patterns).contains_key("web-{N}"));
    }

    #[test]
    fn a_kind_of_memory_that_some_processes_lack_is_partial() {
        let process = |tgid: u32, kinds: &[&str]| {
            let smaps = kinds.iter().map(|kind| ((*kind).to_owned(), 1)).collect();
            ThreadState {
                tid: tgid,
                tgid,
                pcomm: "app".into(),
                smaps_rollup_kib: Some(smaps),
                ..ThreadState::default()
            }
        };
        let threads = vec![process(1, &["Pss", "Swap"]), process(2, &["Pss"])];
        let snapshot = crate::CtprofSnapshot { threads, ..crate::CtprofSnapshot::default() };
        let memory = memory_of_processes(&snapshot, Names::Patterns);
        let section = section(&memory, &CompareOptions::default());
        let group = &section[&vec!["app".to_owned()]];
        assert_eq!(group.population.members, 2);
        let facts: Vec<_> =
            group.measurements.iter().map(|entry| (&*entry.name, entry.covered, entry.partial)).collect();
        assert_eq!(facts, [("Pss", 2, false), ("Swap", 1, true)]);
    }
}
