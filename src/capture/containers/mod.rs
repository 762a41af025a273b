//! Names of containers, from the files of their runtimes: no socket, and no client of a runtime. What those files say is
//! written by others: it is bounded, and no link is followed to it.

mod created;
mod host_tree;
mod kubernetes;
mod runtimes;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

pub(super) use self::created::CreatedContainers;
use self::host_tree::{Failures, HostTree};
use super::options::Roots;
use crate::model::Container;
use crate::names::containers_of_path;
use crate::process::{lock, map_patiently};

/// Longer names are left out: those of Kubernetes have 253 bytes at most.
const LONGEST_NAME: usize = 512;

/// Workers share the files of containers in parts.
const CONTAINERS_PER_PART: usize = 64;
const MAX_WORKERS: usize = 4;

/// A source of names: where it is, as findings name it, and what reads it.
type NameSource = (&'static str, Box<dyn Fn(&HostTree) -> Vec<Container> + Send + Sync>);

/// Names of containers. Each is read once: its container keeps it as long as captures see it.
pub(crate) struct ContainerNames {
    roots: Roots,
    known: Mutex<KnownNames>,
}

/// The containers of cgroups.
#[derive(Default)]
pub(crate) struct NamedContainers {
    /// By path of the cgroup.
    pub(crate) containers: BTreeMap<String, Container>,
    /// Where names were looked for in vain, by error; empty if all containers have one.
    pub(crate) unread: Failures,
}

impl ContainerNames {
    pub(super) fn new(roots: &Roots) -> Self {
        Self { roots: roots.clone(), known: Mutex::default() }
    }

    /// The number of names that are kept.
    pub(super) fn entries(&self) -> usize {
        let known = lock(&self.known);
        known.containers.len() + known.pods.len()
    }

    /// The containers of these cgroups. Nothing is read for a host without any.
    pub(crate) fn of<'n>(&self, cgroups: impl Iterator<Item = &'n str>) -> NamedContainers {
        let found = cgroups.map(|path| (path, containers_of_path(path)));
        let found: Vec<_> = found.filter(|(_, containers)| !containers.is_empty()).collect();
        let mut known = lock(&self.known);
        let failures = if found.iter().flat_map(|(_, of)| of).all(|container| known.has(container)) {
            Failures::new()
        } else {
            known.learn(&self.roots, &found)
        };
        known.retain(&found);
        let named = |(path, containers): (&str, Vec<Container>)| (path.to_owned(), known.innermost(&containers));
        let containers: BTreeMap<_, _> = found.into_iter().map(named).collect();
        let are_named = containers.values().all(Container::is_named);
        NamedContainers { containers, unread: if are_named { Failures::new() } else { failures } }
    }
}

/// Where the names of these containers, with the paths of their cgroups, can be.
fn sources(unnamed: &[(&str, &Container)]) -> Vec<NameSource> {
    let ids = |runtime: &str| {
        let may_be_of = |container: &Container| container.runtime.as_deref().is_none_or(|known| known == runtime);
        let ids = unnamed.iter().filter(|(_, container)| may_be_of(container)).filter_map(|(_, of)| of.id.clone());
        ids.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let is_stored = |container: &Container| matches!(container.runtime.as_deref(), Some("podman" | "cri-o") | None);
    // A user's list can have any id: it names only containers below the user's service manager.
    let mut stored: BTreeMap<Option<u32>, BTreeSet<String>> = BTreeMap::new();
    for (path, container) in unnamed.iter().filter(|(_, container)| is_stored(container)) {
        stored.entry(user_of(path)).or_default().extend(container.id.clone());
    }
    let storage =
        |(user, ids)| -> NameSource { (runtimes::STORAGE, Box::new(move |tree| runtimes::storage(tree, user, &ids))) };
    let mut sources: Vec<NameSource> = Vec::new();
    for part in ids("docker").chunks(CONTAINERS_PER_PART).map(<[_]>::to_vec) {
        sources.push((runtimes::DOCKER, Box::new(move |tree| runtimes::docker(tree, &part))));
    }
    for part in ids("containerd").chunks(CONTAINERS_PER_PART).map(<[_]>::to_vec) {
        sources.push((runtimes::CONTAINERD, Box::new(move |tree| runtimes::containerd(tree, &part))));
    }
    sources.extend(stored.into_iter().map(storage));
    sources
}

/// The user whose service manager a cgroup is below.
fn user_of(path: &str) -> Option<u32> {
    path.split('/').find_map(|segment| segment.strip_prefix("user-")?.strip_suffix(".slice")?.parse().ok())
}

/// What files say about containers, by id, and about pods, by theirs.
#[derive(Default)]
struct KnownNames {
    containers: HashMap<String, Container>,
    pods: HashMap<String, Container>,
}

impl KnownNames {
    /// Whether nothing would say more about a container.
    fn has(&self, container: &Container) -> bool {
        match (&container.id, &container.pod_uid) {
            _ if container.name.is_some() => true,
            (Some(id), _) => self.containers.contains_key(id),
            (None, Some(uid)) => self.pods.contains_key(uid),
            (None, None) => true,
        }
    }

    /// Reads the names of containers, with the paths of their cgroups.
    fn learn(&mut self, roots: &Roots, found: &[(&str, Vec<Container>)]) -> Failures {
        let tree = match HostTree::open(roots) {
            Ok(tree) => Arc::new(tree),
            Err(failures) => return failures,
        };
        let all = found.iter().flat_map(|(path, containers)| containers.iter().map(move |of| (*path, of)));
        let unknown = |known: &Self| Vec::from_iter(all.clone().filter(|(_, container)| !known.has(container)));
        if unknown(self).iter().any(|(_, container)| container.pod_uid.is_some()) {
            self.read(&tree, vec![(kubernetes::CONTAINER_LOGS, Box::new(kubernetes::read))]);
        }
        let sources = sources(&unknown(self));
        self.read(&tree, sources);
        tree.failures()
    }

    /// Forgets all but these containers.
    fn retain(&mut self, found: &[(&str, Vec<Container>)]) {
        let ids = |id: fn(&Container) -> &Option<String>| {
            found.iter().flat_map(|(_, of)| of).filter_map(|container| id(container).as_ref()).collect::<HashSet<_>>()
        };
        let (containers, pods) = (ids(|container| &container.id), ids(|container| &container.pod_uid));
        self.containers.retain(|id, _| containers.contains(id));
        self.pods.retain(|uid, _| pods.contains(uid));
    }

    /// Reads sources that may be on a file system that does not answer.
    fn read(&mut self, tree: &Arc<HostTree>, sources: Vec<NameSource>) {
        let directories: Vec<_> = sources.iter().map(|(directory, _)| *directory).collect();
        let own = Arc::clone(tree);
        let read = map_patiently(MAX_WORKERS, sources, move |(), (_, source): &NameSource| source(&own));
        for (directory, containers) in directories.into_iter().zip(read) {
            let containers = containers.unwrap_or_else(|| {
                tree.failed(directory, nix::errno::Errno::ETIMEDOUT);
                Vec::new()
            });
            containers.into_iter().for_each(|container| self.add(bounded(container)));
        }
    }

    fn add(&mut self, container: Container) {
        let (known, id) = match (&container.id, &container.pod_uid) {
            (Some(id), _) => (&mut self.containers, id.clone()),
            (None, Some(uid)) => (&mut self.pods, uid.clone()),
            (None, None) => return,
        };
        known.entry(id).or_insert(container);
    }

    /// The innermost container with a name: in a container that the host knows, others may be that only its own files name.
    fn innermost(&self, containers: &[Container]) -> Container {
        let containers = Vec::from_iter(containers.iter().map(|container| self.of(container)));
        let innermost = containers.iter().find(|container| container.name.is_some()).or(containers.first());
        innermost.cloned().unwrap_or_default()
    }

    /// A container with what is known about it and its pod.
    fn of(&self, container: &Container) -> Container {
        let by_id = container.id.as_ref().and_then(|id| self.containers.get(id));
        let by_pod = container.pod_uid.as_ref().and_then(|uid| self.pods.get(uid));
        [by_id, by_pod].into_iter().flatten().fold(container.clone(), filled)
    }
}

/// A container with the values of another where it has none.
fn filled(mut container: Container, other: &Container) -> Container {
    let Container { runtime, name, pod, namespace, pod_uid, image, .. } = &mut container;
    let others = [&other.runtime, &other.name, &other.pod, &other.namespace, &other.pod_uid, &other.image];
    let own = [runtime, name, pod, namespace, pod_uid, image].into_iter().zip(others);
    own.filter(|(own, _)| own.is_none()).for_each(|(own, other)| own.clone_from(other));
    container
}

/// A container without names that are too long, or empty.
fn bounded(mut container: Container) -> Container {
    let Container { name, pod, namespace, pod_uid, image, .. } = &mut container;
    for name in [name, pod, namespace, pod_uid, image] {
        name.take_if(|name| !(1..=LONGEST_NAME).contains(&name.len()));
    }
    container
}
