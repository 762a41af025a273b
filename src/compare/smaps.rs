//! Memory of processes by kind, from `smaps_rollup`.

use std::collections::BTreeMap;

use super::{CompareOptions, Measurement, Names, SideGroup, SideSection};
use crate::model::{Cell, CtprofSnapshot, ThreadState, Unit};
use crate::names::pattern_key;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) processes: u64,
    /// Bytes by the kernel's key, and the number of processes that have the key.
    pub(super) kinds: BTreeMap<String, (u64, u64)>,
}

impl Memory {
    pub(super) fn merge(&mut self, other: &Self) {
        self.processes += other.processes;
        for (kind, (bytes, processes)) in &other.kinds {
            let (total, covered) = self.kinds.entry(kind.clone()).or_default();
            *total = total.saturating_add(*bytes);
            *covered += processes;
        }
    }
}

/// Memory by process name, or with [`Names::Literal`] by `name[tgid]`.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessMemory {
    pub(super) by_name: BTreeMap<String, Memory>,
    /// Number of names, and of kinds of each.
    entries: usize,
}

impl ProcessMemory {
    /// Adds the memory of a process, which its leader has.
    pub(super) fn add_leader(&mut self, leader: &ThreadState, names: Names) {
        if leader.smaps_rollup_kib.is_none() {
            return;
        }
        let name = match names {
            Names::Patterns => leader.pcomm.to_string(),
            Names::Literal => format!("{}[{}]", leader.pcomm, leader.tgid),
        };
        let kinds = leader.smaps_rollup_bytes().map(|(kind, bytes)| (kind.to_owned(), (bytes, 1)));
        self.add(name, &Memory { processes: 1, kinds: kinds.collect() });
    }

    pub(super) fn add(&mut self, name: String, more: &Memory) {
        let names = self.by_name.len();
        let memory = self.by_name.entry(name).or_default();
        let kinds = memory.kinds.len();
        memory.merge(more);
        self.entries += memory.kinds.len() - kinds;
        self.entries += self.by_name.len() - names;
    }

    /// About how much memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        const BYTES_PER_ENTRY: usize = 160;
        self.entries * BYTES_PER_ENTRY
    }

    /// With patterns in place of names, if these are not literal.
    fn by_key(&self, names: Names) -> BTreeMap<String, Memory> {
        if names == Names::Literal {
            return self.by_name.clone();
        }
        let mut keyed = Self::default();
        self.by_name.iter().for_each(|(name, memory)| keyed.add(pattern_key(name), memory));
        keyed.by_name
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
    let memory = memory_of_processes(snapshot, names).by_key(names);
    memory.into_iter().map(|(name, memory)| (name, bytes(memory))).collect()
}

pub(super) fn memory_of_processes(snapshot: &CtprofSnapshot, names: Names) -> ProcessMemory {
    let mut memory = ProcessMemory::default();
    snapshot.threads.iter().for_each(|thread| memory.add_leader(thread, names));
    memory
}

pub(super) fn section(memory: &ProcessMemory, options: &CompareOptions) -> SideSection {
    let group = |Memory { processes, kinds }: Memory| {
        let entry = |(kind, (bytes, covered)): (String, (u64, u64))| Measurement {
            partial: covered < processes,
            is_total: true,
            ..Measurement::new(kind, Unit::Bytes, Cell::Number(bytes), covered)
        };
        SideGroup::new(processes, kinds.into_iter().map(entry).collect())
    };
    let mut all = Memory::default();
    let mut section = SideSection::new();
    for (name, memory) in memory.by_key(options.names) {
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

    #[test]
    fn memory_takes_more_for_other_names_and_kinds_and_not_for_more_processes() {
        let mut memory = ProcessMemory::default();
        let mut after = |process: ThreadState| {
            memory.add_leader(&process, Names::Patterns);
            memory.bytes()
        };
        let [one, same, another] = [process(1, "web", 1), process(2, "web", 9), process(3, "db", 1)].map(&mut after);
        assert_eq!((same, another), (one, 2 * one));
        let smaps_rollup_kib = Some(BTreeMap::from([("Swap".to_owned(), 1)]));
        let swapped = after(ThreadState { smaps_rollup_kib, ..process(4, "db", 0) });
        assert!(one > 0 && swapped > another && swapped < 3 * one);
    }
}
