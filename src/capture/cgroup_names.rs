//! The paths of cgroups by their ids, which kernfs never uses again.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use super::cgroup_ids::{CgroupIds, UNIFIED, parts};
use super::host::mounts::Mounts;
use super::procfs::cgroup_paths::{ACCOUNTING, ThreadCgroups, path_by_place};
use super::recent::Recent;
use crate::model::Name;
use crate::process::lock;

/// Cgroups that are new, or were seen, until others are forgotten: their paths take some 10 MB.
const MOST: usize = 1 << 16;

/// Paths of cgroups, by their [key](super::cgroup_ids::key). A pass over all threads forgets cgroups without a directory that
/// have had no threads, and no exited ones, since the last pass but one over all threads.
pub(crate) struct CgroupNames(Mutex<Known>);

struct Known {
    mounts: Mounts,
    names: Recent<u64, Name>,
    /// Cgroups that the kernel did not know when it was asked, since the last pass over all threads.
    unknown: HashSet<u64>,
}

impl Default for CgroupNames {
    fn default() -> Self {
        let (mounts, unknown) = Default::default();
        Self(Mutex::new(Known { mounts, names: Recent::new("cgroups", MOST), unknown }))
    }
}

/// Whether the directory of a path has the id of a cgroup.
#[derive(PartialEq, Eq)]
enum DirectoryMatch {
    Same,
    Other,
    /// It is not mounted here, or was removed.
    None,
}

impl CgroupNames {
    /// Begins a pass over all threads, with these mounts of hierarchies.
    pub(super) fn forget(&self, mounts: &Mounts) {
        let Known { mounts: named_mounts, names, unknown } = &mut *lock(&self.0);
        named_mounts.clone_from(mounts);
        unknown.clear();
        names.turn_with(|key, name| directory(mounts, *key, name) == DirectoryMatch::Same);
    }

    /// The cgroup with this key, if it is known here or to the kernel: all of its threads may have come and gone since threads were
    /// last read.
    pub(crate) fn get(&self, key: u64) -> Option<Name> {
        let known = &mut *lock(&self.0);
        known.names.get(key).or_else(|| known.ask(key))
    }

    /// Adds a cgroup that was made.
    pub(super) fn add(&self, key: u64, name: Name) {
        lock(&self.0).insert(key, name);
    }

    /// The cgroups of a living thread, if all are known. They are `seen`.
    pub(super) fn of_living(&self, keys: &CgroupIds, seen: &mut BTreeSet<Name>) -> Option<ThreadCgroups> {
        let known = &mut *lock(&self.0);
        keys.all().all(|key| known.is_known(key)).then_some(())?;
        let names = &mut known.names;
        seen.extend(keys.all().filter_map(|key| names.get(key)));
        let group = names.get(keys.group?.get())?;
        let cpu = keys.cpu().and_then(|key| names.get(key)).filter(|cpu| *cpu != group);
        Some(ThreadCgroups { group, cpu })
    }

    /// Learns from the cgroup file of a thread that had these keys, unless it has moved since.
    pub(super) fn learn(&self, keys: &CgroupIds, text: &[u8]) {
        let names = &mut *lock(&self.0);
        for key in keys.all() {
            if let Some(name) = path_by_place(text, parts(key).0) {
                names.learn(key, name);
            }
        }
    }

    /// How many cgroups are known.
    pub(super) fn entries(&self) -> usize {
        lock(&self.0).names.len()
    }
}

impl Known {
    /// Asks the kernel for a cgroup, once per pass: many threads can exit in one that was removed.
    fn ask(&mut self, key: u64) -> Option<Name> {
        let (hierarchy, id) = parts(key);
        let controller = ACCOUNTING.get(hierarchy).filter(|_| !self.unknown.contains(&key))?;
        let name = self.mounts.cgroup(controller, id);
        match name.filter(|name| directory(&self.mounts, key, name) == DirectoryMatch::Same) {
            Some(name) => {
                self.insert(key, Name::clone(&name));
                Some(name)
            }
            None => {
                self.unknown.insert(key);
                None
            }
        }
    }

    /// Whether the path of a living thread's cgroup is known. Each pass over all threads reads again what has no directory
    /// here; one of version 1 can have got another name.
    fn is_known(&mut self, key: u64) -> bool {
        let is_other = |name: &Name| directory(&self.mounts, key, name) != DirectoryMatch::Same;
        !self.names.earlier(&key).is_some_and(is_other) && self.names.get(key).is_some()
    }

    /// A cgroup that was removed keeps its name.
    fn learn(&mut self, key: u64, name: Name) {
        match directory(&self.mounts, key, &name) {
            DirectoryMatch::Other => {}
            DirectoryMatch::None if name.ends_with(" (deleted)") && self.names.get(key).is_some() => {}
            DirectoryMatch::None | DirectoryMatch::Same => self.insert(key, name),
        }
    }

    fn insert(&mut self, key: u64, name: Name) {
        if !self.names.has_room() {
            tracing::info!("more than {MOST} cgroups since all threads were read: those without threads are forgotten");
            self.names.turn();
        }
        self.names.insert(key, name);
    }
}

fn directory(mounts: &Mounts, key: u64, name: &str) -> DirectoryMatch {
    let (hierarchy, id) = parts(key);
    let directory = match hierarchy {
        UNIFIED => mounts.unified(name),
        _ => ACCOUNTING.get(hierarchy).and_then(|controller| mounts.legacy(controller, name)),
    };
    match directory.map(fs::metadata) {
        Some(Ok(directory)) if directory.ino() == id => DirectoryMatch::Same,
        Some(Ok(_)) => DirectoryMatch::Other,
        // The root of each hierarchy has this id.
        None if (id, name) == (1, "/") => DirectoryMatch::Same,
        Some(Err(_)) | None => DirectoryMatch::None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cgroup_ids::key;
    use super::super::host::files::HostFiles;
    use super::super::options::Roots;
    use super::*;

    /// The names of a hierarchy that is mounted nowhere.
    fn names() -> CgroupNames {
        CgroupNames::default()
    }

    fn unified_key(id: u64) -> u64 {
        key(UNIFIED, id).get()
    }

    #[test]
    fn a_cgroup_that_two_passes_over_all_threads_have_not_seen_is_forgotten_unless_its_directory_is_there() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("idle")).unwrap();
        let id = fs::metadata(dir.path().join("idle")).unwrap().ino();
        let roots = Roots { cgroupfs: Some(dir.path().to_owned()), ..Roots::default() };
        let mounts = Mounts::read(&HostFiles::new(&roots));
        let names = names();
        names.forget(&mounts);
        let [used, removed] = [id + 1, id + 2];
        for (id, name) in [(id, "/idle"), (used, "/used"), (removed, "/removed")] {
            names.add(unified_key(id), name.into());
        }
        for _ in 0..3 {
            names.forget(&mounts);
            assert_eq!(names.get(unified_key(used)).as_deref(), Some("/used"), "threads exit in it");
        }
        assert_eq!(names.get(unified_key(removed)), None);
        assert_eq!(names.get(unified_key(id)).as_deref(), Some("/idle"));
        assert_eq!(names.entries(), 2);
    }

    #[test]
    fn more_cgroups_than_have_room_lose_the_names_of_those_that_ended_first() {
        let names = names();
        names.add(unified_key(1), "/service".into());
        for id in (2..).take(3 * MOST) {
            names.add(unified_key(id), "/job".into());
            assert_eq!(names.get(unified_key(id)).as_deref(), Some("/job"));
            if id % 10_000 == 0 {
                assert_eq!(names.get(unified_key(1)).as_deref(), Some("/service"), "threads exit in it");
            }
        }
        assert_eq!([1, 2].map(|id| names.get(unified_key(id)).is_some()), [true, false]);
        assert!(names.entries() <= 2 * MOST);
    }

    #[test]
    fn a_path_that_cannot_be_checked_is_read_again_by_each_pass_over_all_threads() {
        let keys = CgroupIds { group: Some(key(UNIFIED, 40)), ..CgroupIds::default() };
        let (names, mut seen) = (names(), BTreeSet::new());
        names.learn(&keys, b"0::/before\n");
        let group = |names: &CgroupNames, seen: &mut _| names.of_living(&keys, seen).map(|cgroups| cgroups.group);
        assert_eq!(group(&names, &mut seen).as_deref(), Some("/before"));
        names.forget(&Mounts::default());
        assert_eq!(group(&names, &mut seen), None);
        names.learn(&keys, b"0::/after\n");
        assert_eq!(group(&names, &mut seen).as_deref(), Some("/after"));
    }

    #[test]
    fn a_cgroup_that_was_removed_keeps_its_name() {
        let names = names();
        names.add(unified_key(40), "/job".into());
        names.forget(&Mounts::default());
        // Linux 6.18.
        let keys = CgroupIds { group: Some(key(UNIFIED, 40)), ..CgroupIds::default() };
        names.learn(&keys, b"0::/job (deleted)\n");
        assert_eq!(names.get(unified_key(40)).as_deref(), Some("/job"));
    }
}
