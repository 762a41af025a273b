//! Identity of cgroups: their hierarchy, and their id there, which kernfs never uses again.

use std::fs;
use std::num::NonZeroU64;

use super::procfs::cgroup_paths::{ACCOUNTING, number_of};

/// Number of hierarchies by which a thread can be grouped: hierarchies with values in the order of [`ACCOUNTING`], and systemd's.
pub(super) const HIERARCHIES: usize = ACCOUNTING.len() + 1;
pub(super) const UNIFIED: usize = 5;
pub(super) const OF_SYSTEMD: usize = 6;
const CPU: usize = 1;

/// The key of a cgroup by its id. In the hierarchy of systemd, the address of the thread's `struct css_set` is in its place:
/// the kernel has no way to a cgroup without a controller there.
pub(super) fn key(hierarchy: usize, id: u64) -> NonZeroU64 {
    let hierarchy = u64::try_from(hierarchy).unwrap_or(u64::MAX);
    NonZeroU64::new(id << 3 | hierarchy).unwrap_or(NonZeroU64::MAX)
}

/// The hierarchy and the id of a key.
pub(super) fn parts(key: u64) -> (usize, u64) {
    (usize::try_from(key & 7).unwrap_or(0), key >> 3)
}

/// The cgroups of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CgroupIds {
    /// The one that it is grouped by; `None` if it is unknown.
    pub(super) group: Option<NonZeroU64>,
    /// Ids in the hierarchies with values, absent for their roots.
    pub(super) below_root: [Option<NonZeroU64>; ACCOUNTING.len()],
}

impl CgroupIds {
    pub(super) fn all(&self) -> impl Iterator<Item = u64> {
        let others = self.below_root.into_iter().flatten().filter(|key| Some(*key) != self.group);
        self.group.into_iter().chain(others).map(NonZeroU64::get)
    }

    /// The one with its CPU quota, if that is another one than its group.
    pub(super) fn cpu(&self) -> Option<u64> {
        self.below_root[CPU].filter(|key| Some(*key) != self.group).map(NonZeroU64::get)
    }

    /// Whether procfs still shows the cgroups of an exiting thread: of hierarchies of version 1, it shows the root
    /// (`proc_cgroup_show`).
    pub(super) fn are_shown_of_exiting(&self) -> bool {
        self.all().all(|key| parts(key).0 == UNIFIED)
    }
}

/// The hierarchies of this host: the cgroup file of a thread.
#[derive(Default)]
pub(super) struct Hierarchies(pub(super) Vec<u8>);

impl Hierarchies {
    pub(super) fn of_this_host() -> Self {
        Self(fs::read("/proc/self/cgroup").unwrap_or_default())
    }

    pub(super) fn has(&self, hierarchy: usize) -> bool {
        number_of(&self.0, hierarchy).is_some()
    }

    /// The keys of a cgroup by its id in the hierarchy with this number: one for each of its controllers.
    pub(super) fn keys(&self, number: u64, id: u64) -> impl Iterator<Item = u64> {
        let of_number = (0..ACCOUNTING.len()).filter(move |place| number_of(&self.0, *place) == Some(number));
        of_number.map(move |hierarchy| key(hierarchy, id).get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_has_a_key_for_each_controller_of_its_hierarchy() {
        // Linux 5.10, hybrid.
        let hierarchies = Hierarchies(b"9:name=systemd:/\n4:memory:/a\n2:cpu,cpuacct:/\n1:cpuset:/\n0::/\n".into());
        let keys = |number| hierarchies.keys(number, 40).collect::<Vec<_>>();
        let of = |(hierarchy, id)| key(hierarchy, id).get();
        assert_eq!(
            [0, 1, 2, 4].map(keys),
            [[(5, 40)].map(of).to_vec(), vec![], [(1, 40), (2, 40)].map(of).to_vec(), [(0, 40)].map(of).to_vec()]
        );
        assert_eq!(keys(9), [0; 0], "it has no values");
        assert!(hierarchies.has(OF_SYSTEMD) && !hierarchies.has(3));
    }

    #[test]
    fn the_cgroups_of_a_thread_that_exits_are_shown_if_all_are_of_version_2() {
        let are_shown = |group, below_root: &[usize]| {
            let mut keys = CgroupIds { group: Some(key(group, 40)), ..CgroupIds::default() };
            below_root.iter().for_each(|hierarchy| keys.below_root[*hierarchy] = Some(key(*hierarchy, 40)));
            keys.are_shown_of_exiting()
        };
        assert!(are_shown(UNIFIED, &[UNIFIED]) && are_shown(UNIFIED, &[]));
        assert!(!are_shown(UNIFIED, &[1, UNIFIED]) && !are_shown(0, &[0]) && !are_shown(OF_SYSTEMD, &[]));
    }
}
