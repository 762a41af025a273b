//! The processes of the later capture.

use super::{Living, Work};
use crate::model::{Name, Owner, ProcessState, ThreadState, is_title_of};

/// When a process was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Seen {
    /// The process is in both captures.
    #[default]
    AtBothEnds,
    /// In the later one: it started in between.
    Started,
}

/// A process of the later capture.
#[derive(Clone, Debug, Default)]
pub(super) struct LaterProcess {
    pub(super) tgid: u32,
    pub(super) seen: Seen,
    pub(super) leader: Option<Leader>,
    /// Work of the process's threads in the window.
    pub(super) threads: Work,
}

/// Facts that the first thread of a process has.
#[derive(Clone, Debug)]
pub(super) struct Leader {
    pub(super) name: Name,
    pub(super) program: Option<Name>,
    pub(super) cgroup: Option<Name>,
    pub(super) owner: Option<Owner>,
    pub(super) start_ticks: Option<u64>,
    /// Whether it is only listed until its parent waits for it: its children have other parents.
    pub(super) has_exited: bool,
    pub(super) state: Option<Box<ProcessState>>,
}

/// The processes of the later capture, ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Processes(Vec<LaterProcess>);

/// Returns the name of a process, with what it runs if it is an interpreter, or its title.
pub(super) fn whole_name(name: &Name, program: Option<&Name>) -> Name {
    match program {
        None => Name::clone(name),
        Some(title) if is_title_of(name, title) => Name::clone(title),
        Some(program) => format!("{name} {program}").into(),
    }
}

impl Processes {
    /// Adds a thread, which did `work` in the window.
    pub(super) fn add(&mut self, thread: &ThreadState, work: Work, seen: Seen) {
        let last = self.0.len().checked_sub(1).filter(|last| self.0[*last].tgid == thread.tgid);
        let place = last.or_else(|| self.0.binary_search_by_key(&thread.tgid, |process| process.tgid).ok());
        let place = place.unwrap_or_else(|| {
            // Only processes that could not be read come out of order.
            let place = self.0.partition_point(|process| process.tgid < thread.tgid);
            self.0.insert(place, LaterProcess { tgid: thread.tgid, ..LaterProcess::default() });
            place
        });
        let process = &mut self.0[place];
        process.threads += work;
        if thread.is_leader() {
            process.seen = seen;
            process.leader = Some(Leader {
                name: Name::clone(&thread.comm),
                program: thread.program.clone(),
                cgroup: thread.cgroup.clone(),
                owner: thread.owner,
                start_ticks: thread.start_time_clock_ticks,
                has_exited: thread.has_exited(),
                state: thread.process.clone(),
            });
        }
    }

    /// Adds the processes that follow these. The threads of one may be in both.
    pub(super) fn append(&mut self, later: Self) {
        let mut later = later.0.into_iter().peekable();
        if let Some(last) = self.0.last_mut()
            && let Some(same) = later.next_if(|first| first.tgid == last.tgid)
        {
            last.threads += same.threads;
            if same.leader.is_some() {
                (last.leader, last.seen) = (same.leader, same.seen);
            }
        }
        self.0.extend(later);
    }

    /// Whether any process has counters, or none is left.
    pub(super) fn have_counters(&self) -> bool {
        let mut leaders = self.0.iter().filter_map(|process| process.leader.as_ref());
        self.0.is_empty() || leaders.any(|leader| leader.state.is_some())
    }

    /// The owner of a process.
    pub(super) fn owner(&self, tgid: u32) -> Option<Owner> {
        self.find(tgid)?.leader.as_ref()?.owner
    }

    /// The command that this recorder started and has not reaped.
    pub(super) fn command_of(&self, recorder: u32) -> Option<(u32, &Leader)> {
        let leaders = self.0.iter().filter_map(|process| Some((process.tgid, process.leader.as_ref()?)));
        let is_child = |leader: &Leader| leader.state.as_ref().and_then(|state| state.ppid) == Some(recorder);
        let mut commands = leaders.filter(|(_, leader)| leader.owner == Some(Owner::Command) && is_child(leader));
        commands.find(|(_, leader)| leader.has_exited)
    }

    /// Returns the program that a process runs, if the process is an interpreter.
    pub(super) fn program(&self, tgid: u32) -> Option<Name> {
        self.find(tgid)?.leader.as_ref()?.program.clone()
    }

    /// The name of a process, with what it runs if it is an interpreter.
    pub(super) fn name(&self, tgid: u32) -> Option<Name> {
        let leader = self.find(tgid)?.leader.as_ref()?;
        Some(whole_name(&leader.name, leader.program.as_ref()))
    }

    /// The processes whose leader is known.
    pub(super) fn living(&self) -> impl Iterator<Item = Living> {
        self.0.iter().filter_map(|process| {
            let leader = process.leader.as_ref()?;
            Some((process.tgid, leader.start_ticks, leader.state.as_ref().and_then(|state| state.ppid)))
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LaterProcess> {
        self.0.iter()
    }

    pub(super) fn find(&self, tgid: u32) -> Option<&LaterProcess> {
        self.0.binary_search_by_key(&tgid, |process| process.tgid).ok().map(|place| &self.0[place])
    }
}
