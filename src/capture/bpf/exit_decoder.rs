//! Exit records as threads.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::super::cgroup_names::CgroupNames;
use super::super::executed::{Executed, ProgramNames};
use super::columns;
use super::host_parameters::HostParameters;
use super::layout::{FOLLOWED, Field, HEAD, Layout, TIME, ThreadRecord};
use super::name_cache::NameCache;
use super::read::RecordReader;
use super::value::{CpuTimeFields, cpu_time};
use crate::model::{ExitedThread, METRICS, NS_PER_TICK, Name, ThreadState};

/// Turns records into threads.
pub(super) struct Decoder {
    reader: RecordReader,
    started: Option<Field>,
    parent: Option<Field>,
    process_name: Option<Field>,
    process_start: Option<Field>,
    names: ExitNames,
    cpu_time: CpuTimeFields,
}

/// A program that a process has left for another one, by execve(2).
pub(super) struct LeftProgram {
    /// Record of the process and its work until then. The id is the id of the thread that called execve(2).
    pub(super) record: Vec<u64>,
    /// Program of the interpreter, if the process ran one.
    pub(super) program: Option<Name>,
}

/// Names of what records have only numbers of.
#[derive(Clone, Default)]
pub(super) struct ExitNames {
    pub(super) cgroups: Arc<CgroupNames>,
    pub(super) programs: Arc<ProgramNames>,
}

/// Where the record of a process that has executed a file has what it is known by.
pub(super) struct ExecFields {
    ids: [Option<Field>; 2],
    comm: Option<Field>,
    names: NameCache,
}

impl ExecFields {
    pub(super) fn new(layout: &Layout) -> Self {
        let ids = [columns::TGID, columns::START_TIME].map(|path| layout.find(path));
        Self { ids, comm: layout.find(columns::COMM), names: NameCache::default() }
    }

    /// The process, and its name.
    pub(super) fn executed(&mut self, record: &[u64]) -> Option<(Executed, Name)> {
        let (record, _) = ThreadRecord::split(record)?;
        let [tgid, start] = self.ids.map(|field| record.number(field));
        let executed = Executed { tgid: u32::try_from(tgid?).ok()?, start: start? / NS_PER_TICK, at_ns: record.time() };
        Some((executed, self.names.name(record, self.comm)))
    }
}

/// A program that a new process has run, and slept in, for less is not told from the next one: before a shell's child executes its
/// program, that is some milliseconds at most.
const LEAST_NS: u64 = 10_000_000;

/// Where a record of a first thread has the id of the thread that continued with its ids: the field of the parent has 32 bits
/// of its word.
const REPLACED_BY_SHIFT: u32 = 32;

impl Decoder {
    pub(super) fn new(layout: &Layout, parameters: &HostParameters, names: &ExitNames) -> Self {
        let find = |path: &str| layout.find(path);
        Self {
            reader: RecordReader::new(layout, parameters),
            started: find(columns::START_MONOTONIC),
            parent: find(columns::PARENT),
            process_name: find(columns::PROCESS_NAME),
            process_start: find(columns::PROCESS_START),
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
        state.program = self.names.programs.of_exited(&state, record.time());
        let parent = record.number(self.parent).unwrap_or(0);
        let [ppid, replaced_by] = [parent & u64::from(u32::MAX), parent >> REPLACED_BY_SHIFT].map(u32::try_from);
        let started_monotonic_ns = record.number(self.started)?;
        let has_name = state.cgroup.is_some();
        Some(ExitedThread {
            state,
            ppid: ppid.unwrap_or(0),
            process_started: record.number(self.process_start).map(|ns| ns / NS_PER_TICK),
            started_monotonic_ns,
            elapsed_ns: record.time().saturating_sub(started_monotonic_ns),
            cpu_time_ns: cpu_time(record, self.cpu_time).map(|(time, _)| [time.user, time.system]),
            unnamed_cgroup: group.filter(|_| !has_name),
            replaced_by: replaced_by.ok().filter(|id| *id > 0),
            executed: false,
        })
    }

    /// Returns the state and the work of a process when it left a program for another one.
    pub(super) fn left(&mut self, left: &LeftProgram) -> Option<ExitedThread> {
        let mut exit = self.exit(ThreadRecord::split(&left.record)?.0)?;
        exit.executed = true;
        exit.state.program = left.program.clone();
        // Its memory is that of the next program.
        let memory = METRICS.iter().filter(|metric| columns::is_of_memory(metric));
        memory.for_each(|metric| metric.clear(&mut exit.state.metrics));
        Some(exit)
    }
}

/// Places of related fields in the records of a thread, such as the records of its exit and of its end.
pub(super) struct ExitFields {
    start: Option<Field>,
    started_monotonic: Option<Field>,
    wait_time: Option<Field>,
    id: Option<Field>,
    parent: Option<Field>,
    process_name: Option<Field>,
}

impl ExitFields {
    pub(super) fn new(layout: &Layout) -> Self {
        let find = |path: &str| layout.find(path);
        Self {
            start: find(columns::START_TIME),
            started_monotonic: find(columns::START_MONOTONIC),
            wait_time: find(columns::WAIT_TIME),
            id: find(columns::TID),
            parent: find(columns::PARENT),
            process_name: find(columns::PROCESS_NAME),
        }
    }

    /// Returns true if the work of a new process in this record is kept apart from the next program.
    pub(super) fn is_kept_apart(&self, record: &[u64]) -> bool {
        let alive_ns = record[TIME].saturating_sub(number(record, self.started_monotonic).unwrap_or(0));
        // On a busy host, the child of a shell waits for a CPU.
        alive_ns.saturating_sub(number(record, self.wait_time).unwrap_or(0)) >= LEAST_NS
    }

    /// Gives the record of the thread that called execve(2) the id that it had before, and, if it was not the first thread, the name
    /// of the process, which is in the record of the exit of the first one.
    pub(super) fn set_caller<'r>(
        &self,
        record: &mut [u64],
        old_id: u64,
        mut exiting: impl Iterator<Item = &'r Vec<u64>>,
    ) {
        let Some((id, name)) = self.id.zip(self.process_name) else { return };
        let tgid = number(record, self.id);
        if tgid != Some(old_id) {
            let is_first = |exit: &&Vec<u64>| number(exit, self.id) == tgid && self.is_same(exit, record);
            if let Some(first) = exiting.find(is_first) {
                record[name.slots()].copy_from_slice(&first[name.slots()]);
            }
        }
        record[id.slot()] = old_id;
    }

    /// The id of the thread of a record.
    pub(super) fn id(&self, record: &[u64]) -> Option<u64> {
        number(record, self.id)
    }

    /// When the thread of a record started.
    pub(super) fn start_ns(&self, record: &[u64]) -> Option<u64> {
        number(record, self.start)
    }

    /// Whether two records are of one thread, or of one process.
    pub(super) fn is_same(&self, one: &[u64], other: &[u64]) -> bool {
        number(one, self.start) == number(other, self.start)
    }

    /// Whether the thread of a record started at this time or later.
    pub(super) fn started_since(&self, record: &[u64], monotonic_ns: u64) -> bool {
        number(record, self.started_monotonic).is_some_and(|started| started >= monotonic_ns)
    }

    /// Replaces what a thread had at its exit by what it had when it was freed, but for the time, the id, and what it lost
    /// in between; false if it is another thread. The pointers that lead to the first part are valid in both.
    pub(super) fn take_freed(&self, exiting: &mut [u64], freed: &[u64]) -> bool {
        let is_same = self.is_same(exiting, freed);
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

fn number(record: &[u64], field: Option<Field>) -> Option<u64> {
    ThreadRecord::split(record)?.0.number(field)
}
