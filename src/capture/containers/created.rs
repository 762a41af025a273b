//! Containers whose cgroups are made while a window is recorded: their files can be gone before its later capture.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use super::{ContainerNames, NamedContainers};
use crate::capture::options::Roots;
use crate::model::sorted::CollectSorted;
use crate::model::{Container, Name};
use crate::names::containers_of_path;
use crate::process::{lock, start_reader};

/// Maximum number of containers of a window, and of containers that are named together with them.
const MAX_CONTAINERS: usize = 1 << 16;
/// Cgroups that wait for their names, at most.
const MAX_WAITING: usize = 1 << 12;

/// Reads the names of containers in a thread of its own, until it is dropped.
pub(crate) struct CreatedContainers {
    paths: SyncSender<Name>,
    found: Arc<Mutex<NamedContainers>>,
    /// Containers taken out last: threads that exit meanwhile are taken later.
    taken: Mutex<BTreeMap<String, Container>>,
    /// New cgroups of containers that had no room, since containers were taken out.
    without_room: Arc<AtomicU64>,
}

impl CreatedContainers {
    pub(crate) fn start() -> io::Result<Self> {
        let (paths, created) = sync_channel(MAX_WAITING);
        let found = Arc::<Mutex<NamedContainers>>::default();
        let without_room = Arc::<AtomicU64>::default();
        let shared = (Arc::clone(&found), Arc::clone(&without_room));
        start_reader("ctprof-names", move || name_all(&created, &shared.0, &shared.1))?;
        Ok(Self { paths, found, taken: Mutex::default(), without_room })
    }

    /// Reads the name of the container that a new cgroup is of, if it is of one, soon.
    pub(crate) fn add(&self, cgroup: &Name) {
        // Nobody names them if the thread has ended, or where they are made faster than files are read.
        if !containers_of_path(cgroup).is_empty() && self.paths.try_send(Name::clone(cgroup)).is_err() {
            self.without_room.fetch_add(1, Relaxed);
        }
    }

    /// Takes out the containers that were named since the call before the last one, and says how many could not be.
    pub(crate) fn take(&self) -> NamedContainers {
        let without_room = self.without_room.swap(0, Relaxed);
        if without_room > 0 {
            tracing::info!(
                "{without_room} new cgroups of containers had no room: containers that exited can lack their names"
            );
        }
        let NamedContainers { mut containers, unread } = std::mem::take(&mut *lock(&self.found));
        let before = std::mem::replace(&mut *lock(&self.taken), containers.clone());
        containers.extend(before);
        NamedContainers { containers, unread }
    }
}

fn name_all(created: &Receiver<Name>, found: &Mutex<NamedContainers>, without_room: &AtomicU64) {
    let names = ContainerNames::new(&Roots::default(), &Arc::default());
    while let Ok(first) = created.recv() {
        // A container has a cgroup of the same path in each hierarchy of version 1.
        let mut paths: BTreeSet<_> = std::iter::once(first).chain(created.try_iter()).into_set();
        paths.retain(|path| !lock(found).containers.contains_key(&**path));
        let NamedContainers { containers, unread } = names.containers_of(paths.iter().map(|path| &**path));
        let mut found = lock(found);
        if found.containers.len() < MAX_CONTAINERS {
            found.containers.extend(containers);
            found.unread.extend(unread);
        } else {
            without_room.fetch_add(u64::try_from(containers.len()).unwrap_or(u64::MAX), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_there_for_threads_that_exit_while_others_are_taken() {
        let created = CreatedContainers::start().unwrap();
        let path: Name = format!("/docker-{:064x}.scope", 0xabcd_u32).into();
        created.add(&path);
        while !lock(&created.found).containers.contains_key(&*path) {
            std::thread::yield_now();
        }
        let has = [(); 3].map(|()| created.take().containers.contains_key(&*path));
        assert_eq!(has, [true, true, false]);
    }
}
