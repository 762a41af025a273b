//! Names of containers, from the files of their runtimes: no socket, and no client of a runtime. What those files say is
//! written by others: it is bounded, and no link is followed to it.

mod created;
mod host_tree;
mod kubernetes;
mod runtimes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

pub(super) use self::created::CreatedContainers;
use self::host_tree::{Failures, HostTree};
use super::options::Roots;
use crate::model::sorted::CollectSorted;
use crate::model::{Container, HOME_OF_USER};
use crate::names::containers_of_path;
use crate::process::{CanHang, ReaderPool, Subject, lock};

/// Maximum length of a name; longer names are left out. Names of Kubernetes have 253 bytes at most.
const LONGEST_NAME: usize = 512;

/// Workers share the files of containers in parts.
const CONTAINERS_PER_PART: usize = 64;
const MAX_WORKERS: usize = 4;

/// Function that reads the names of containers.
type ReadNames = Box<dyn Fn(&HostTree) -> Vec<Container> + Send + Sync>;

/// A source of names.
struct NameSource {
    /// Where it is, as findings name it.
    directory: &'static str,
    /// User whose containers the runtime names; `None` for the host's.
    user: Option<u32>,
    read: ReadNames,
}

impl CanHang for NameSource {
    fn subject(&self) -> Subject {
        Subject::Directory { path: self.directory, user: self.user }
    }
}

/// A cgroup in containers.
struct FoundCgroup<'n> {
    path: &'n str,
    /// The user whose service manager it is below. Only files of that user name its containers, and no others: any user can make a
    /// cgroup, and a list, with any id.
    user: Option<u32>,
    /// Containers that the cgroup is in, the innermost first.
    containers: Vec<Container>,
}

impl<'n> FoundCgroup<'n> {
    fn from_path(path: &'n str) -> Self {
        Self { path, user: user_of(path), containers: containers_of_path(path) }
    }
}

/// Names of containers. Each is read once: its container keeps it as long as captures see it.
pub(crate) struct ContainerNames {
    roots: Roots,
    readers: Arc<ReaderPool>,
    names: Mutex<KnownNames>,
}

/// The containers of cgroups.
#[derive(Default)]
pub(crate) struct NamedContainers {
    /// Containers, keyed by path of the cgroup.
    pub(crate) containers: BTreeMap<String, Container>,
    /// Where names were looked for in vain, by error; empty if all containers have one.
    pub(crate) unread: Failures,
}

impl ContainerNames {
    /// Names below these roots, by these readers.
    pub(super) fn new(roots: &Roots, readers: &Arc<ReaderPool>) -> Self {
        Self { roots: roots.clone(), readers: Arc::clone(readers), names: Mutex::default() }
    }

    /// The number of names that are kept.
    pub(super) fn entries(&self) -> usize {
        let names = lock(&self.names);
        names.containers.len() + names.pods.len()
    }

    /// The containers of these cgroups. Nothing is read for a host without any.
    pub(crate) fn containers_of<'n>(&self, cgroups: impl Iterator<Item = &'n str>) -> NamedContainers {
        let found: Vec<_> =
            cgroups.map(FoundCgroup::from_path).filter(|cgroup| !cgroup.containers.is_empty()).collect();
        let mut names = lock(&self.names);
        let failures = if names.unknown(&found).next().is_none() { Failures::new() } else { names.learn(self, &found) };
        names.retain(&found);
        let containers: BTreeMap<_, _> =
            found.iter().map(|cgroup| (cgroup.path.to_owned(), names.innermost(cgroup))).into_map();
        let are_named = containers.values().all(Container::is_named);
        NamedContainers { containers, unread: if are_named { Failures::new() } else { failures } }
    }
}

/// Where the names of these containers can be, with their users.
fn sources(unnamed: &[(Option<u32>, &Container)]) -> Vec<NameSource> {
    let of_host = || unnamed.iter().filter(|(user, _)| user.is_none()).map(|(_, container)| *container);
    let parts = |runtime: &str| {
        let may_be_of = |container: &&Container| container.runtime.as_deref().is_none_or(|own| own == runtime);
        let ids: BTreeSet<_> = of_host().filter(may_be_of).filter_map(|container| container.id.clone()).into_set();
        let ids = Vec::from_iter(ids);
        ids.chunks(CONTAINERS_PER_PART).map(<[_]>::to_vec).collect::<Vec<_>>()
    };
    let is_stored = |container: &Container| matches!(container.runtime.as_deref(), Some("podman" | "cri-o") | None);
    let mut stored: BTreeMap<Option<u32>, BTreeSet<String>> = BTreeMap::new();
    for (user, container) in unnamed.iter().filter(|(_, container)| is_stored(container)) {
        stored.entry(*user).or_default().extend(container.id.clone());
    }
    let source = |directory, read| NameSource { directory, user: None, read };
    let docker = parts("docker")
        .into_iter()
        .map(|part| -> NameSource { source(runtimes::DOCKER, Box::new(move |tree| runtimes::docker(tree, &part))) });
    let containerd = parts("containerd").into_iter().map(|part| -> NameSource {
        source(runtimes::CONTAINERD, Box::new(move |tree| runtimes::containerd(tree, &part)))
    });
    let storage = stored.into_iter().map(|(user, ids)| NameSource {
        directory: runtimes::STORAGE,
        user,
        read: Box::new(move |tree| runtimes::storage(tree, user, &ids)),
    });
    docker.chain(containerd).chain(storage).collect()
}

/// Returns the user whose service manager a cgroup is below: a user of the host, not of a container. Above the root of a cgroup
/// namespace, there is `..`.
fn user_of(path: &str) -> Option<u32> {
    let mut segments = path.split('/').skip_while(|segment| matches!(*segment, "" | ".."));
    segments.next().filter(|slice| *slice == "user.slice")?;
    segments.next()?.strip_prefix("user-")?.strip_suffix(".slice")?.parse().ok()
}

/// Names of containers by user and id, and names of pods of the host by the pod's id.
#[derive(Default)]
struct KnownNames {
    containers: HashMap<(Option<u32>, String), Container>,
    pods: HashMap<String, Container>,
}

impl KnownNames {
    /// The containers, with their users, about which files could say more.
    fn unknown<'f>(&self, found: &'f [FoundCgroup<'_>]) -> impl Iterator<Item = (Option<u32>, &'f Container)> {
        let all = found.iter().flat_map(|cgroup| cgroup.containers.iter().map(|container| (cgroup.user, container)));
        all.filter(|(user, container)| match (&container.id, &container.pod_uid) {
            _ if container.name.is_some() => false,
            (Some(id), _) => !self.containers.contains_key(&(*user, id.clone())),
            (None, Some(uid)) => user.is_none() && !self.pods.contains_key(uid),
            (None, None) => false,
        })
    }

    /// Reads the names of containers.
    fn learn(&mut self, names: &ContainerNames, found: &[FoundCgroup<'_>]) -> Failures {
        let tree = match HostTree::open(&names.roots) {
            Ok(tree) => Arc::new(tree),
            Err(failures) => return failures,
        };
        if self.unknown(found).any(|(user, container)| user.is_none() && container.pod_uid.is_some()) {
            let (directory, read) = (kubernetes::CONTAINER_LOGS, Box::new(kubernetes::read));
            self.read((&tree, &names.readers), vec![NameSource { directory, user: None, read }]);
        }
        let sources = sources(&Vec::from_iter(self.unknown(found)));
        self.read((&tree, &names.readers), sources);
        tree.failures()
    }

    /// Forgets all but these containers.
    fn retain(&mut self, found: &[FoundCgroup<'_>]) {
        let mut names = Self::default();
        for FoundCgroup { user, containers, .. } in found {
            for Container { id, pod_uid, .. } in containers {
                let container = id.iter().filter_map(|id| self.containers.remove_entry(&(*user, id.clone())));
                names.containers.extend(container);
                names.pods.extend(pod_uid.iter().filter_map(|uid| self.pods.remove_entry(uid)));
            }
        }
        *self = names;
    }

    /// Reads sources that may be on a file system that does not answer.
    fn read(&mut self, (tree, readers): (&Arc<HostTree>, &Arc<ReaderPool>), sources: Vec<NameSource>) {
        let asked: Vec<_> = sources.iter().map(|source| (source.directory, source.user)).collect();
        let own = Arc::clone(tree);
        let read = readers.map(MAX_WORKERS, sources, move |(), source: &NameSource| (source.read)(&own));
        for ((directory, user), containers) in asked.into_iter().zip(read) {
            let containers = containers.unwrap_or_else(|| {
                let name = user.map_or_else(|| directory.to_owned(), |user| format!("{HOME_OF_USER} {user}"));
                tree.failed(&name, nix::errno::Errno::ETIMEDOUT);
                Vec::new()
            });
            containers.into_iter().for_each(|container| self.add(user, bounded(container)));
        }
    }

    fn add(&mut self, user: Option<u32>, container: Container) {
        match (&container.id, &container.pod_uid) {
            (Some(id), _) => drop(self.containers.entry((user, id.clone())).or_insert(container)),
            (None, Some(uid)) => drop(self.pods.entry(uid.clone()).or_insert(container)),
            (None, None) => {}
        }
    }

    /// The innermost container with a name: in a container that the host knows, others may be that only its own files name.
    fn innermost(&self, cgroup: &FoundCgroup<'_>) -> Container {
        let containers =
            Vec::from_iter(cgroup.containers.iter().map(|container| self.with_known_names(cgroup.user, container)));
        let innermost = containers.iter().find(|container| container.name.is_some()).or(containers.first());
        innermost.cloned().unwrap_or_default()
    }

    /// A container with what is known about it and its pod.
    fn with_known_names(&self, user: Option<u32>, container: &Container) -> Container {
        let by_id = container.id.as_ref().and_then(|id| self.containers.get(&(user, id.clone())));
        let by_pod = container.pod_uid.as_ref().filter(|_| user.is_none()).and_then(|uid| self.pods.get(uid));
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
