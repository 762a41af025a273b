//! Exit records as threads.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::super::cgroup_names::CgroupNames;
use super::super::executed::ProgramNames;
use super::columns;
use super::host_parameters::HostParameters;
use super::layout::{FOLLOWED, Field, HEAD, Layout, RecordScope, TIME, ThreadRecord};
use super::name_cache::NameCache;
use super::read::RecordReader;
use super::value::{CpuTimeFields, cpu_time};
use crate::model::{ExitedThread, NS_PER_TICK, Name, ThreadState};

/// Turns records into threads.
pub(super) struct Decoder {
    reader: RecordReader,
    started: Option<Field>,
    parent: Option<Field>,
    process_name: Option<Field>,
    names: ExitNames,
    cpu_time: CpuTimeFields,
}

/// Names of what records have only numbers of.
#[derive(Clone, Default)]
pub(super) struct ExitNames {
    pub(super) cgroups: Arc<CgroupNames>,
    pub(super) programs: Arc<ProgramNames>,
}

/// Where the record of a process that has executed a file has what it is known by.
pub(super) struct ExecFields {
    pub(super) words: usize,
    ids: [Option<Field>; 2],
    comm: Option<Field>,
    names: NameCache,
}

impl ExecFields {
    pub(super) fn new(layout: &Layout) -> Self {
        let ids = [columns::TGID, columns::START_TIME].map(|path| layout.find(path));
        let (words, comm) = (layout.words(RecordScope::Thread), layout.find(columns::COMM));
        Self { words, ids, comm, names: NameCache::default() }
    }

    /// The id of the process, its start in ticks, and its name.
    pub(super) fn executed(&mut self, record: &[u64]) -> Option<(u32, u64, Name)> {
        let (record, _) = ThreadRecord::split(record)?;
        let [tgid, start] = self.ids.map(|field| record.number(field));
        Some((u32::try_from(tgid?).ok()?, start? / NS_PER_TICK, self.names.name(record, self.comm)))
    }
}

/// Where a record of a first thread has the id of the thread that continued with its ids: the field of the parent has 32 bits
/// of its word.
const REPLACED_BY_SHIFT: u32 = 32;

impl Decoder {
    pub(super) fn new(layout: &Layout, facts: &HostParameters, names: &ExitNames) -> Self {
        let find = |path: &str| layout.find(path);
        Self {
            reader: RecordReader::new(layout, facts),
            started: find(columns::START_MONOTONIC),
            parent: find(columns::PARENT),
            process_name: find(columns::PROCESS_NAME),
            names: names.clone(),
            cpu_time: columns::CPU_TIME.map(find),
        }
    }

    /// The thread of a record.
    pub(super) fn exit(&mut self, record: ThreadRecord<'_>) -> Option<ExitedThread> {
        let thread = self.reader.thread(record)?;
        let mut state = ThreadState { read_at_ns: None, ..thread.state };
        let group = self.reader.cgroups.keys(record).group.map(NonZeroU64::get);
        state.cgroup = group.and_then(|key| self.names.cgroups.get(key));
        state.pcomm = self.reader.names.name(record, self.process_name);
        state.program = self.names.programs.of_exited(&state);
        let parent = record.number(self.parent).unwrap_or(0);
        let [ppid, replaced_by] = [parent & u64::from(u32::MAX), parent >> REPLACED_BY_SHIFT].map(u32::try_from);
        let started_monotonic_ns = record.number(self.started)?;
        let has_name = state.cgroup.is_some();
        Some(ExitedThread {
            state,
            ppid: ppid.unwrap_or(0),
            started_monotonic_ns,
            elapsed_ns: record.time().saturating_sub(started_monotonic_ns),
            cpu_time_ns: cpu_time(record, self.cpu_time).map(|(time, _)| [time.user, time.system]),
            unnamed_cgroup: group.filter(|_| !has_name),
            replaced_by: replaced_by.ok().filter(|id| *id > 0),
        })
    }
}

/// Where both records of a thread, that of its exit and that of when it was freed, have what belongs together.
pub(super) struct ExitFields {
    start: Option<Field>,
    id: Option<Field>,
    parent: Option<Field>,
}

impl ExitFields {
    pub(super) fn new(layout: &Layout) -> Self {
        let [start, id, parent] = [columns::START_TIME, columns::TID, columns::PARENT].map(|path| layout.find(path));
        Self { start, id, parent }
    }

    /// Replaces what a thread had at its exit by what it had when it was freed, but for the time, the id, and what it lost
    /// in between; false if it is another thread. The pointers that lead to the first part are valid in both.
    pub(super) fn complete(&self, exiting: &mut [u64], freed: &[u64]) -> bool {
        let number = |record: &[u64], field| ThreadRecord::split(record)?.0.number(field);
        let is_same = number(exiting, self.start) == number(freed, self.start);
        if is_same {
            let (before, after) = (number(exiting, self.id), number(freed, self.id));
            let followed = FOLLOWED..TIME;
            exiting[followed.clone()].iter_mut().zip(&freed[followed]).for_each(|(both, pointers)| *both |= pointers);
            exiting[HEAD..freed.len()].copy_from_slice(&freed[HEAD..]);
            if let (Some(before), Some(after), Some(id), Some(parent)) = (before, after, self.id, self.parent)
                && before != after
            {
                exiting[id.slot()] = before;
                exiting[parent.slot()] |= after << REPLACED_BY_SHIFT;
            }
        }
        is_same
    }
}
