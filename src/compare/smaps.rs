//! Memory of processes by kind, from `smaps_rollup`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::group::Group;
use super::rows::{Row, Table, by_movement};
use super::{Names, Options, Sides, joined};
use crate::model::{Cell, CtprofSnapshot, Section, ThreadState, Unit};
use crate::names::pattern_key;

/// The kinds of memory of each process name, in bytes, summed over the processes of that name with
/// saturation. With [`Names::Patterns`], a name becomes a pattern even if one process has it; with
/// [`Names::Literal`], each process is listed as `name[tgid]`.
///
/// `Shared_*` counts shared pages once per process: prefer `Pss`.
#[must_use]
pub fn collect_smaps_rollup(snapshot: &CtprofSnapshot, names: Names) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut processes: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for thread in snapshot.threads.iter().filter(|thread| thread.smaps_rollup_bytes().next().is_some()) {
        let kinds = processes.entry(key(thread, names)).or_default();
        for (kind, bytes) in thread.smaps_rollup_bytes() {
            let total = kinds.entry(kind.to_owned()).or_default();
            *total = total.saturating_add(bytes);
        }
    }
    processes
}

fn key(thread: &ThreadState, names: Names) -> String {
    match names {
        Names::Patterns => pattern_key(&thread.pcomm),
        Names::Literal => format!("{}[{}]", thread.pcomm, thread.tgid),
    }
}

/// How many processes of each name have a value.
fn counts(snapshot: &CtprofSnapshot, names: Names) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for thread in snapshot.threads.iter().filter(|thread| thread.smaps_rollup_kib.is_some()) {
        *counts.entry(key(thread, names)).or_default() += 1;
    }
    counts
}

/// The table of the section.
pub(super) fn table(snapshots: Sides<Option<&CtprofSnapshot>>, options: &Options) -> Table {
    let names = options.names;
    let memory = snapshots.map(|s| s.map(|s| collect_smaps_rollup(s, names)).unwrap_or_default());
    let counts = snapshots.map(|s| s.map(|s| counts(s, names)).unwrap_or_default());
    let mut table = Table { section: Section::SmapsRollup, groups: Vec::new(), rows: Vec::new(), notes: Vec::new() };
    for (place, (name, kinds)) in joined(memory).into_iter().enumerate() {
        let members = counts.as_ref().map(|counts| counts.get(&name).copied());
        for (kind, bytes) in joined(kinds.map(Option::unwrap_or_default)) {
            let values = bytes.map(|bytes| bytes.map(Cell::Number));
            table.rows.push(Row::new(place, Cow::Owned(kind), Unit::Bytes, values, members.map(|n| n.is_some())));
        }
        table.groups.push(Group { path: vec![name.clone()], name, members, ..Group::default() });
    }
    by_movement(&mut table.rows, &[]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

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
