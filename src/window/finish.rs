//! Concludes a window: adds the threads that exited in it, from records, from what processes count, or known by
//! their absence.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::accounting::account;
use super::is_of_selected;
use super::residue::residues;
use super::{
    Clocks, CpuReadings, Exits, Fold, FoldedPart, Join, Joined, Parents, PlacedRecords, WindowStart, Work, cpu_time,
};
use crate::model::{
    ExitRecords, ExitedThread, ExitedWork, HostCpuTime, Name, Owner, SnapshotHead, ThreadSpan, ThreadState, Threads,
    WindowInfo,
};

/// The host in a window.
struct Host {
    clocks: Clocks,
    cpu_time: Option<HostCpuTime>,
    /// CPU time of the capturing process, which works more while it captures than in between: its threads are read at
    /// other moments than the host's CPU time.
    own_ns: Option<u64>,
    reading_ns: Option<u64>,
}

impl<T: Threads> Join<T> {
    /// Adds what exited, and concludes the window that ends with the snapshot `later`.
    pub fn finish(mut self, later: &SnapshotHead, exits: &Exits<'_>) -> Joined<T> {
        let start = Arc::clone(&self.start);
        self.add_replaced(&start);
        self.add_unread(&start, later, exits);
        let readings = CpuReadings::from_head(later);
        let mut host = self.host(&start, &readings);
        // Of selected processes, ctprof counts only if it is one of them, by its threads.
        host.own_ns = host.own_ns.filter(|_| !is_of_selected(later));
        let clocks = host.clocks;
        let parents = match &self.lineage {
            Some(lineage) => Arc::clone(&lineage.parents),
            None => Arc::new(Parents::new(&start.earlier, self.processes.living(), exits, &start.clocks)),
        };
        let mut records = PlacedRecords::new(&start, clocks, parents);
        let mut fold = Fold::default();
        exits.for_each(|exited| {
            if let Some(placed) = self.placed(&mut records, exited) {
                fold.add(placed);
            }
        });
        for left in start.left.iter() {
            let (mut left, work) = records.left(&self.processes, left);
            self.explain_exited(&mut left, work);
            fold.add(left);
        }
        self.add_folded(&mut records, exits, &mut fold);
        let PlacedRecords { parents, recorded, impossible_delays, .. } = records;
        fold.into_threads().for_each(|thread| self.threads.add(thread));
        if exits.summary.is_none() {
            let cpus = host.cpu_time.as_ref().and_then(|time| time.cpus);
            let most_ns = cpus.map(|cpus| cpus.saturating_mul(clocks.duration_ns));
            self.add_residues(&start, &parents, most_ns, later);
        }
        self.add_without_record(&start, &recorded);
        let window = self.info(&start, &host, exits.summary.clone());
        Joined { before: self.before, threads: self.threads, window, cpu_time: host.cpu_time, impossible_delays }
    }

    /// Adds what exited, as far as processes count it.
    fn add_residues(&mut self, start: &WindowStart, parents: &Parents, most_ns: Option<u64>, later: &SnapshotHead) {
        for mut thread in residues(start, &self.processes, parents, most_ns) {
            // The children that a recorder waits for are orphans of the command.
            let is_of_children = thread.exited_work == Some(ExitedWork::Children);
            if is_of_children && is_of_selected(later) {
                continue;
            }
            if self.lineage.is_some() && thread.owner == Some(Owner::Ctprof) && is_of_children {
                thread.owner = Some(Owner::Command);
                if let Some((tgid, command)) = self.processes.command_of(thread.tgid) {
                    thread.tgid = tgid;
                    (thread.pcomm, thread.comm) = (Name::clone(&command.name), Name::clone(&command.name));
                    (thread.program, thread.cgroup) = (command.program.clone(), command.cgroup.clone());
                }
            }
            self.explain(Work::of_thread(&thread.metrics), thread.owner);
            self.threads.add(thread);
        }
    }

    /// The host between the times at which busy threads were read on average, so that its CPU time and theirs are of
    /// the same time. A capture of a busy host takes long.
    fn host(&self, start: &WindowStart, later: &CpuReadings) -> Host {
        let mut clocks = start.clocks;
        let (mut begin, mut end) = self.sums.read.means();
        if !start.cpu_time.cover_the_walk() || !later.cover_the_walk() {
            (begin, end) = (0, 0);
        }
        clocks.move_ends(begin, end);
        let earlier = (&start.cpu_time, begin);
        Host {
            clocks,
            cpu_time: cpu_time::increase(earlier, (later, end)),
            own_ns: cpu_time::own(Some(earlier).filter(|_| self.sums.recorder_stayed), (later, end)),
            reading_ns: start.cpu_time.reading_ns(later),
        }
    }

    /// Adds the exited threads that were folded while the window was open.
    fn add_folded(&mut self, records: &mut PlacedRecords<'_>, exits: &Exits<'_>, fold: &mut Fold) {
        records.impossible_delays = records.impossible_delays.saturating_add(exits.folded.impossible_delays);
        for (tgid, part, mut row) in exits.folded.rows(|key| exits.cgroup?(key)) {
            let lineage = self.lineage.as_mut();
            let (owner, parent, program) = match part {
                FoldedPart::Threads => {
                    let owner = self.processes.owner(tgid).or_else(|| lineage?.owner(tgid, u64::MAX));
                    (owner, None, self.processes.program(tgid))
                }
                _ => {
                    let owner = lineage.and_then(|lineage| lineage.owner_of_child(tgid));
                    (owner, records.starter(&self.processes, tgid, u64::MAX), None)
                }
            };
            let owner = row.state.owner.or(owner);
            (row.state.owner, row.state.parent) = (owner, parent);
            row.state.program = row.state.program.take().or(program);
            self.explain(Work::of_thread(&row.state.metrics), owner);
            let count = row.state.span.map_or(0, |span| span.count);
            self.sums.started_and_exited = self.sums.started_and_exited.saturating_add(count);
            fold.add(row);
        }
    }

    /// The thread of a record as part of the window, and of its CPU time.
    fn placed(&mut self, records: &mut PlacedRecords<'_>, exited: ExitedThread) -> Option<ExitedThread> {
        if exited.executed || self.is_listed(records, &exited.state) {
            return None;
        }
        let (mut placed, work) = records.placed(&self.processes, exited)?;
        self.explain_exited(&mut placed, work);
        self.sums.started_and_exited += u64::from(placed.state.span.is_some_and(|span| span.started));
        Some(placed)
    }

    /// Counts the work of a thread with a record as CPU time of the host, and of its owner.
    fn explain_exited(&mut self, exited: &mut ExitedThread, work: Work) {
        let (thread, ppid) = (&mut exited.state, exited.ppid);
        let start_ns = self.start.clocks.boot_ns(thread.start_time_clock_ticks);
        let of_process = || {
            let lineage = self.lineage.as_mut()?;
            match lineage.parents.find(thread.tgid, start_ns) {
                Some(_) => lineage.owner(thread.tgid, start_ns),
                // The record of its process was folded.
                None => lineage.owner_of_child(ppid),
            }
        };
        thread.owner = thread.owner.or_else(of_process);
        self.explain(work, thread.owner);
    }

    /// Whether the later capture still has the thread of a record.
    fn is_listed(&self, records: &PlacedRecords<'_>, exited: &ThreadState) -> bool {
        let has_started = |ticks| self.sums.started.binary_search(&(exited.id(), ticks)).is_ok();
        match records.earlier_place(exited) {
            Some(place) => self.start.found[place].load(Ordering::Relaxed),
            None => records.has_last_ids(exited) && exited.start_time_clock_ticks.is_some_and(has_started),
        }
    }

    /// Adds the threads that exited without a record: their number is known, their work is not.
    fn add_without_record(&mut self, start: &WindowStart, recorded: &BTreeSet<usize>) {
        let lacks_record = |(place, _): &(usize, &ThreadState)| {
            !start.found[*place].load(Ordering::Relaxed) && !recorded.contains(place)
        };
        for (_, exited) in start.earlier.threads.iter().enumerate().filter(lacks_record) {
            self.threads.add(ThreadState {
                tid: exited.tid,
                tgid: exited.tgid,
                pcomm: Name::clone(&exited.pcomm),
                comm: Name::clone(&exited.comm),
                program: exited.program.clone(),
                cgroup: exited.cgroup.clone(),
                kernel_thread: exited.kernel_thread,
                owner: exited.owner,
                start_time_clock_ticks: exited.start_time_clock_ticks,
                span: Some(ThreadSpan { exited: true, ..ThreadSpan::default() }),
                ..ThreadState::default()
            });
        }
    }

    fn info(&self, start: &WindowStart, host: &Host, exit_records: Option<ExitRecords>) -> WindowInfo {
        let Host { clocks, cpu_time, own_ns, reading_ns } = host;
        let names = self.sums.backwards.iter().map(|(metric, threads)| (metric.metric().name.to_owned(), *threads));
        let listed = u64::try_from(self.sums.started.len()).unwrap_or(u64::MAX);
        let explained_ns = self.sums.explained_ns.saturating_add(own_ns.unwrap_or(self.sums.own_ns));
        let started = listed.saturating_add(self.sums.started_and_exited);
        let had_counters = start.earlier.threads.iter().any(|thread| thread.process.is_some());
        WindowInfo {
            started_at_unix_ns: start.started_at_unix_ns,
            duration_ns: clocks.duration_ns,
            suspended_ns: clocks.suspended_ns,
            missed: self.sums.missed,
            unread: self.sums.unread,
            backwards: names.collect(),
            process_counters: had_counters && self.processes.have_counters(),
            exit_records,
            cpu: cpu_time.as_ref().and_then(|time| account(clocks, time, *reading_ns, (explained_ns, started))),
            command: None,
            requested_ns: None,
        }
    }
}
