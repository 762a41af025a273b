//! Memory of processes by kind, from `smaps_rollup`.

use std::collections::BTreeMap;

use super::Names;
use crate::model::sorted::CollectSorted;
use crate::model::{CtprofSnapshot, ThreadState};
use crate::names::pattern_key;

/// The memory of the processes of a group, which their leaders have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessMemory {
    pub(super) processes: u64,
    /// Bytes by the kernel's key, and the number of processes that have the key.
    pub(super) kinds: BTreeMap<String, (u64, u64)>,
}

impl ProcessMemory {
    /// The memory of a process; `None` of other threads than its leader, and if it was not read.
    pub(super) fn of_leader(leader: &ThreadState) -> Option<Self> {
        leader.smaps_rollup_kib.as_ref()?;
        let kinds = leader.smaps_rollup_bytes().map(|(kind, bytes)| (kind.to_owned(), (bytes, 1)));
        Some(Self { processes: 1, kinds: kinds.into_map() })
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.processes += other.processes;
        for (kind, (bytes, processes)) in &other.kinds {
            let (total, covered) = self.kinds.entry(kind.clone()).or_default();
            *total = total.saturating_add(*bytes);
            *covered += processes;
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
    let mut all: BTreeMap<String, ProcessMemory> = BTreeMap::new();
    for (leader, memory) in
        snapshot.threads.iter().filter_map(|thread| Some((thread, ProcessMemory::of_leader(thread)?)))
    {
        let name = match names {
            Names::Patterns => pattern_key(&leader.pcomm),
            Names::Literal => format!("{}[{}]", leader.pcomm, leader.tgid),
        };
        all.entry(name).or_default().merge(&memory);
    }
    let bytes = |memory: ProcessMemory| memory.kinds.into_iter().map(|(kind, (bytes, _))| (kind, bytes)).into_map();
    all.into_iter().map(|(name, memory)| (name, bytes(memory))).collect()
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
}
