//! Groups of threads, and the pairing of the groups of two snapshots.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::path_pattern::cgroup_pattern;
use super::pattern::{Keys, pattern_key};
use super::{Names, Options, Sides};
use crate::model::{CtprofSnapshot, Name, ThreadState, Totals, decoded_len};

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
}

impl GroupBy {
    fn name_of(self, thread: &ThreadState) -> Option<&Name> {
        match self {
            Self::Pcomm => Some(&thread.pcomm),
            Self::Comm | Self::CommExact => Some(&thread.comm),
            Self::Cgroup => thread.cgroup.as_ref(),
        }
    }
}

/// The longest name the kernel keeps of a thread: `TASK_COMM_LEN` less its NUL.
const LONGEST_COMM: usize = 15;

/// What threads are called whose cgroup could not be read.
const NO_CGROUP: &str = "(unknown)";

/// A group, in both snapshots.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// Its name, or the pattern of its names.
    pub name: String,
    /// Whether the kernel may have cut a name in it, so that different threads became one.
    pub name_cut: bool,
    /// How many it has: threads, or in sections about cgroups, cgroups; `None` where it does not
    /// exist.
    pub members: Sides<Option<u64>>,
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
    totals: Box<Totals>,
}

/// The groups of one snapshot by key.
fn groups(snapshot: &CtprofSnapshot, keys: &Keys, by: GroupBy) -> BTreeMap<String, Members> {
    let unknown = Name::from(NO_CGROUP);
    let mut by_name: HashMap<&Name, Members> = HashMap::new();
    for thread in &snapshot.threads {
        let members = by_name.entry(by.name_of(thread).unwrap_or(&unknown)).or_default();
        members.threads += 1;
        members.totals.add(&thread.metrics);
    }
    let mut groups: BTreeMap<String, Members> = BTreeMap::new();
    for (name, members) in by_name {
        let group = groups.entry(keys.key(name)).or_default();
        group.threads += members.threads;
        group.name_cut |= by != GroupBy::Cgroup && decoded_len(name) == LONGEST_COMM;
        group.totals.merge(*members.totals);
    }
    groups
}

/// The groups of one or two snapshots, ordered by name.
pub(super) fn pair(snapshots: Sides<Option<&CtprofSnapshot>>, options: &Options) -> Vec<Paired> {
    let by = options.group_by;
    let keys = keys(snapshots, options);
    let Sides { baseline, candidate } = snapshots.map(|snapshot| match snapshot {
        Some(snapshot) => groups(snapshot, &keys, by),
        None => BTreeMap::new(),
    });
    let mut paired: BTreeMap<String, Sides<Option<Members>>> = BTreeMap::new();
    for (name, members) in baseline {
        paired.entry(name).or_default().baseline = Some(members);
    }
    for (name, members) in candidate {
        paired.entry(name).or_default().candidate = Some(members);
    }
    let of = |(name, sides): (String, Sides<Option<Members>>)| {
        let name_cut = sides.as_ref().map(|m| m.as_ref().is_some_and(|m| m.name_cut));
        let group = Group {
            name,
            name_cut: name_cut.baseline || name_cut.candidate,
            members: sides.as_ref().map(|members| members.as_ref().map(|m| m.threads)),
        };
        Paired { group, totals: sides.map(|members| members.map(|m| m.totals)) }
    };
    paired.into_iter().map(of).collect()
}

fn keys(snapshots: Sides<Option<&CtprofSnapshot>>, options: &Options) -> Keys {
    let by = options.group_by;
    if by == GroupBy::Cgroup {
        return cgroup_keys(snapshots, options);
    }
    if options.names == Names::Literal || by == GroupBy::CommExact {
        return Keys::literal();
    }
    let threads = snapshots.into_iter().flatten().flat_map(|snapshot| &snapshot.threads);
    Keys::learn(pattern_key, threads.filter_map(|thread| by.name_of(thread)).map(|name| &**name))
}

/// The keys of cgroups: the same for the groups of threads and for the sections about cgroups.
pub(super) fn cgroup_keys(snapshots: Sides<Option<&CtprofSnapshot>>, options: &Options) -> Keys {
    if options.cgroups == Names::Literal {
        return Keys::literal();
    }
    let of = |snapshot: &'_ CtprofSnapshot| -> Vec<String> { snapshot.cgroup_stats.keys().cloned().collect() };
    let statistics: Vec<String> = snapshots.into_iter().flatten().flat_map(of).collect();
    let threads = snapshots.into_iter().flatten().flat_map(|snapshot| &snapshot.threads);
    let paths = threads.filter_map(|thread| thread.cgroup.as_deref());
    Keys::learn(cgroup_pattern, paths.chain(statistics.iter().map(String::as_str)))
}
