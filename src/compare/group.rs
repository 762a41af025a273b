//! Groups of threads, and the pairing of the groups of two snapshots.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cgroup_keys::CgroupKeys;
use super::namesakes::Namesakes;
use super::{Names, Options, Sides, joined};
use crate::model::{CtprofSnapshot, Name, ThreadState, Totals, decoded_len};
use crate::names::{Keys, Kind};

/// What makes threads a group. Process and thread ids never do: they don't survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GroupBy {
    /// The process's name.
    #[default]
    Pcomm,
    /// The thread's name: a pool, across programs.
    Comm,
    /// The thread's name exactly.
    CommExact,
    /// The cgroup's path.
    Cgroup,
    /// Cgroup, process and thread: a tree.
    All,
}

impl GroupBy {
    /// Whether the sections about cgroups come with it.
    #[must_use]
    pub fn is_by_cgroup(self) -> bool {
        matches!(self, Self::Cgroup | Self::All)
    }
}

/// The longest name the kernel keeps of a thread: `TASK_COMM_LEN` less its NUL.
const LONGEST_COMM: usize = 15;

/// Whether the kernel may have cut a name. Names of its own workers it puts together as it prints.
fn is_cut(name: &str) -> bool {
    decoded_len(name) == LONGEST_COMM && !name.starts_with("kworker/")
}

/// What threads are called whose cgroup could not be read.
const NO_CGROUP: &str = "(unknown)";

/// A group, in both snapshots.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// Its name, or the pattern of its names; of a group in a tree, the last part.
    pub name: String,
    /// The names from the top of the tree down to its own.
    pub path: Vec<String>,
    /// Whether the kernel may have cut a name in it, so that different threads became one.
    pub name_cut: bool,
    /// Whether its cgroup has another name in the candidate.
    pub renamed: bool,
    /// How many it has: threads, or in sections about cgroups, cgroups; `None` where it does not
    /// exist.
    pub members: Sides<Option<u64>>,
    /// The share of the time since boot that its threads have lived, on average; `None` where that
    /// can't be known.
    pub uptime: Sides<Option<f64>>,
}

/// A group and its totals on either side.
pub(super) struct Paired {
    pub(super) group: Group,
    pub(super) totals: Sides<Option<Box<Totals>>>,
}

#[derive(Default)]
struct Members {
    threads: u64,
    name_cut: bool,
    /// Shares of the time since boot that its threads have lived, summed, and how many have one.
    lived: (f64, u64),
    totals: Box<Totals>,
}

impl Members {
    fn add(&mut self, thread: &ThreadState, lived: Option<f64>) {
        self.threads += 1;
        self.totals.add(&thread.metrics);
        if let Some(share) = lived {
            self.lived = (self.lived.0 + share, self.lived.1 + 1);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.threads += other.threads;
        self.name_cut |= other.name_cut;
        self.lived = (self.lived.0 + other.lived.0, self.lived.1 + other.lived.1);
        self.totals.merge((*other.totals).clone());
    }
}

type Groups = BTreeMap<Vec<String>, Members>;

/// How names become keys, on one side.
struct Naming<'k> {
    by: GroupBy,
    process: &'k Keys,
    thread: &'k Keys,
    cgroup: &'k (dyn Fn(&str) -> String + Sync),
}

impl Naming<'_> {
    /// The path of the group of threads with these names, from the top of the tree.
    fn path(&self, names: &Namesakes<'_>) -> Vec<String> {
        let cgroup = || names.cgroup.map_or_else(|| NO_CGROUP.to_owned(), |path| (self.cgroup)(path));
        match self.by {
            GroupBy::Pcomm => vec![self.process.key(names.process)],
            GroupBy::Comm | GroupBy::CommExact => vec![self.thread.key(names.thread)],
            GroupBy::Cgroup => vec![cgroup()],
            GroupBy::All => vec![cgroup(), self.process.key(names.process), self.thread.key(names.thread)],
        }
    }

    fn is_cut(&self, names: &Namesakes<'_>) -> bool {
        match self.by {
            GroupBy::Pcomm => is_cut(names.process),
            GroupBy::Comm | GroupBy::CommExact | GroupBy::All => is_cut(names.thread),
            GroupBy::Cgroup => false,
        }
    }
}

/// The groups of one snapshot by path, those above them in the tree included.
fn groups(snapshot: &CtprofSnapshot, threads: &[Namesakes<'_>], naming: &Naming<'_>) -> Groups {
    let since_boot = seconds_since_boot(snapshot);
    let mut deepest = Groups::new();
    for namesakes in threads {
        let members = deepest.entry(naming.path(namesakes)).or_default();
        members.name_cut |= naming.is_cut(namesakes);
        for thread in &namesakes.threads {
            members.add(thread, since_boot.as_ref().and_then(|boot| boot(thread)));
        }
    }
    let mut groups = Groups::new();
    for (path, members) in deepest {
        for depth in 1..path.len() {
            groups.entry(path[..depth].to_vec()).or_default().merge(&members);
        }
        groups.insert(path, members);
    }
    groups
}

/// The share of the time since boot that a thread has lived, where the snapshot can tell.
fn seconds_since_boot(snapshot: &CtprofSnapshot) -> Option<impl Fn(&ThreadState) -> Option<f64>> {
    let host = snapshot.host.as_ref()?;
    let uptime = host.uptime_ns? as f64 / 1e9;
    let hertz = host.clock_ticks_per_second.filter(|hertz| *hertz > 0)? as f64;
    Some(move |thread: &ThreadState| {
        let now = uptime + thread.read_at_ns.unwrap_or(0) as f64 / 1e9;
        let born = thread.start_time_clock_ticks? as f64 / hertz;
        (now > 0.0).then(|| ((now - born) / now).clamp(0.0, 1.0))
    })
}

/// The groups of one or two snapshots, in the order of their paths.
pub(super) fn pair(
    snapshots: Sides<Option<&CtprofSnapshot>>,
    threads: Sides<&Vec<Namesakes<'_>>>,
    cgroups: &CgroupKeys<'_>,
    options: &Options,
) -> Vec<Paired> {
    let (process, thread) = (keys(threads, options, |t| t.process), keys(threads, options, |t| t.thread));
    let of = |snapshot: Option<&CtprofSnapshot>, threads, cgroup: &(dyn Fn(&str) -> String + Sync)| {
        let naming = Naming { by: options.group_by, process: &process, thread: &thread, cgroup };
        snapshot.map(|snapshot| groups(snapshot, threads, &naming)).unwrap_or_default()
    };
    let groups = Sides::from(rayon::join(
        || of(snapshots.baseline, threads.baseline, &|path| cgroups.baseline(path)),
        || of(snapshots.candidate, threads.candidate, &|path| cgroups.candidate(path)),
    ));
    let is_renamed =
        |path: &[String]| options.group_by.is_by_cgroup() && path.first().is_some_and(|key| cgroups.is_renamed(key));
    let of = |(path, sides): (Vec<String>, Sides<Option<Members>>)| {
        let all = sides.as_ref().map(Option::as_ref);
        let share = |members: Option<&Members>| {
            let (lived, threads) = members?.lived;
            (threads > 0).then(|| lived / threads as f64)
        };
        let group = Group {
            name: path.last().cloned().unwrap_or_default(),
            name_cut: all.into_iter().flatten().any(|members| members.name_cut) && is_deepest(options.group_by, &path),
            renamed: is_renamed(&path),
            members: all.map(|members| members.map(|members| members.threads)),
            uptime: all.map(share),
            path,
        };
        Paired { group, totals: sides.map(|members| members.map(|members| members.totals)) }
    };
    joined(groups).into_iter().map(of).collect()
}

/// Whether a path names threads, and not what is above them in the tree.
fn is_deepest(by: GroupBy, path: &[String]) -> bool {
    by != GroupBy::All || path.len() == 3
}

fn keys<'s>(threads: Sides<&Vec<Namesakes<'s>>>, options: &Options, name: fn(&Namesakes<'s>) -> &'s Name) -> Keys {
    if options.names == Names::Literal || options.group_by == GroupBy::CommExact {
        return Keys::literal();
    }
    Keys::learn(Kind::Task, threads.into_iter().flatten().map(|namesakes| &**name(namesakes)))
}
