//! Groups of threads, and the pairing of the groups of two snapshots.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::pattern::Keys;
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
}

impl GroupBy {
    fn name_of(self, thread: &ThreadState) -> &Name {
        match self {
            Self::Pcomm => &thread.pcomm,
            Self::Comm | Self::CommExact => &thread.comm,
        }
    }
}

/// The longest name the kernel keeps of a thread: `TASK_COMM_LEN` less its NUL.
const LONGEST_COMM: usize = 15;

/// A group, in both snapshots.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// Its name, or the pattern of its names.
    pub name: String,
    /// Whether the kernel may have cut a name in it, so that different threads became one.
    pub name_cut: bool,
    /// How many threads it has; `None` where it does not exist.
    pub threads: Sides<Option<u64>>,
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
    // Names are shared between threads, so that most look-ups find the name seen before.
    let mut by_name: HashMap<&Name, Members> = HashMap::new();
    for thread in &snapshot.threads {
        let members = by_name.entry(by.name_of(thread)).or_default();
        members.threads += 1;
        members.totals.add(&thread.metrics);
    }
    let mut groups: BTreeMap<String, Members> = BTreeMap::new();
    for (name, members) in by_name {
        let group = groups.entry(keys.key(name)).or_default();
        group.threads += members.threads;
        group.name_cut |= decoded_len(name) == LONGEST_COMM;
        group.totals.merge(*members.totals);
    }
    groups
}

/// The groups of both snapshots, ordered by name.
pub(super) fn pair(snapshots: Sides<&CtprofSnapshot>, options: &Options) -> Vec<Paired> {
    let by = options.group_by;
    let keys = keys([snapshots.baseline, snapshots.candidate], options);
    let Sides { baseline, candidate } = snapshots.map(|snapshot| groups(snapshot, &keys, by));
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
            threads: sides.as_ref().map(|members| members.as_ref().map(|m| m.threads)),
        };
        Paired { group, totals: sides.map(|members| members.map(|m| m.totals)) }
    };
    paired.into_iter().map(of).collect()
}

/// The groups of one snapshot, ordered by name: group, threads, totals.
pub(super) fn single(snapshot: &CtprofSnapshot, options: &Options) -> Vec<(String, bool, u64, Box<Totals>)> {
    let groups = groups(snapshot, &keys([snapshot], options), options.group_by);
    groups.into_iter().map(|(name, m)| (name, m.name_cut, m.threads, m.totals)).collect()
}

fn keys<const N: usize>(snapshots: [&CtprofSnapshot; N], options: &Options) -> Keys {
    if options.names == Names::Literal || options.group_by == GroupBy::CommExact {
        return Keys::literal();
    }
    let threads = snapshots.into_iter().flat_map(|snapshot| &snapshot.threads);
    Keys::learn(threads.map(|thread| &**options.group_by.name_of(thread)))
}
