//! Containers whose cgroups are made while a window is recorded: their files can be gone before its later capture.

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{ContainerNames, NamedContainers};
use crate::capture::options::Roots;
use crate::model::Name;
use crate::names::containers_of_path;
use crate::process::{Privileges, lock, with_file_capabilities};

/// Containers of one window, at most, and some of those that are named together.
const MAX_CONTAINERS: usize = 1 << 16;
/// Cgroups that wait for their names, at most.
const MAX_WAITING: usize = 1 << 12;

/// Reads the names of containers in a thread of its own, until it is dropped.
pub(crate) struct CreatedContainers {
    paths: SyncSender<Name>,
    found: Arc<Mutex<NamedContainers>>,
}

impl CreatedContainers {
    pub(crate) fn start() -> io::Result<Self> {
        let (paths, created) = sync_channel(MAX_WAITING);
        let found = Arc::<Mutex<NamedContainers>>::default();
        let shared = Arc::clone(&found);
        thread::Builder::new().name("ctprof-names".to_owned()).spawn(move || {
            Privileges::Record.keep_after_loading()?;
            with_file_capabilities(|| name_all(&created, &shared))
        })?;
        Ok(Self { paths, found })
    }

    /// Reads the name of the container that a new cgroup is of, if it is of one, soon.
    pub(crate) fn add(&self, cgroup: &Name) {
        if !containers_of_path(cgroup).is_empty() {
            // Nobody names them if the thread has ended, or where they are made faster than files are read.
            let _ = self.paths.try_send(Name::clone(cgroup));
        }
    }

    /// Takes out the containers that were named.
    pub(crate) fn take(&self) -> NamedContainers {
        std::mem::take(&mut *lock(&self.found))
    }
}

fn name_all(created: &Receiver<Name>, found: &Mutex<NamedContainers>) {
    let names = ContainerNames::new(&Roots::default());
    while let Ok(first) = created.recv() {
        // A container has a cgroup of the same path in each hierarchy of version 1.
        let mut paths: BTreeSet<_> = std::iter::once(first).chain(created.try_iter()).collect();
        paths.retain(|path| !lock(found).containers.contains_key(&**path));
        let NamedContainers { containers, unread } = names.of(paths.iter().map(|path| &**path));
        let mut found = lock(found);
        if found.containers.len() < MAX_CONTAINERS {
            found.containers.extend(containers);
            found.unread.extend(unread);
        }
    }
}
