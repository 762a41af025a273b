//! Names of containers, from the files of their runtimes: no socket, and no client of a runtime. What those files say is
//! written by others: it is bounded, and no link is followed to it.

mod host_tree;
mod kubernetes;
mod runtimes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use self::host_tree::HostTree;
use super::options::Roots;
use crate::model::Container;
use crate::names::containers_of_path;
use crate::process::map_patiently;

/// Longer names are left out: those of Kubernetes have 253 bytes at most.
const LONGEST_NAME: usize = 512;

/// A source of names, and the containers that it is asked for.
enum NameSource {
    /// Of pods and their containers.
    Kubernetes,
    /// Of containers with these ids.
    Docker(Vec<String>),
    Containerd(Vec<String>),
    /// The storage of Podman and CRI-O: that of the host, or of a user by id.
    Storage(Option<u32>),
}

/// The containers of these cgroups, by path. Nothing is read for a host without any.
pub(super) fn read<'n>(roots: &Roots, cgroups: impl Iterator<Item = &'n String>) -> BTreeMap<String, Container> {
    let found = cgroups.map(|path| (path, containers_of_path(path))).filter(|(_, containers)| !containers.is_empty());
    let found: Vec<_> = found.collect();
    let is_named = |container: &Container| container.name.is_some();
    let mut known = KnownNames::default();
    if let Some(tree) = found.iter().any(|(_, of)| !of.iter().all(is_named)).then(|| HostTree::open(roots)).flatten() {
        let tree = &Arc::new(tree);
        let all = || found.iter().flat_map(|(path, containers)| containers.iter().map(move |of| (path.as_str(), of)));
        if all().any(|(_, container)| container.pod_uid.is_some()) {
            known.read(tree, vec![NameSource::Kubernetes]);
        }
        let unnamed = all().filter(|(_, container)| known.of(container).name.is_none());
        let sources = sources(&unnamed.collect::<Vec<_>>());
        known.read(tree, sources);
    }
    let named = |containers: Vec<Container>| {
        let containers = Vec::from_iter(containers.iter().map(|container| known.of(container)));
        // In a container that the host knows, others may be that only its own files name.
        let innermost = containers.iter().find(|container| is_named(container)).or(containers.first());
        innermost.cloned().unwrap_or_default()
    };
    found.into_iter().map(|(path, containers)| (path.to_string(), named(containers))).collect()
}

/// Where the names of these containers, with the paths of their cgroups, can be.
fn sources(unnamed: &[(&str, &Container)]) -> Vec<NameSource> {
    let ids = |runtime: &str| {
        let may_be_of = |container: &Container| container.runtime.as_deref().is_none_or(|known| known == runtime);
        let ids = unnamed.iter().filter(|(_, container)| may_be_of(container)).filter_map(|(_, of)| of.id.clone());
        ids.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let is_stored = |container: &Container| matches!(container.runtime.as_deref(), Some("podman" | "cri-o") | None);
    let users = unnamed.iter().filter(|(_, container)| is_stored(container)).map(|(path, _)| user_of(path));
    let storages = users.collect::<BTreeSet<_>>().into_iter().map(NameSource::Storage);
    let by_id = [NameSource::Docker(ids("docker")), NameSource::Containerd(ids("containerd"))];
    let is_asked = |source: &NameSource| match source {
        NameSource::Docker(ids) | NameSource::Containerd(ids) => !ids.is_empty(),
        NameSource::Kubernetes | NameSource::Storage(_) => true,
    };
    by_id.into_iter().filter(is_asked).chain(storages).collect()
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
    /// Reads sources that may be on a file system that does not answer.
    fn read(&mut self, tree: &Arc<HostTree>, sources: Vec<NameSource>) {
        let tree = Arc::clone(tree);
        let read = map_patiently(1, sources, move |(), source: &NameSource| match source {
            NameSource::Kubernetes => kubernetes::read(&tree),
            NameSource::Docker(ids) => runtimes::docker(&tree, ids),
            NameSource::Containerd(ids) => runtimes::containerd(&tree, ids),
            NameSource::Storage(user) => runtimes::storage(&tree, *user),
        });
        for container in read.into_iter().flatten().flatten() {
            let (known, id) = match (&container.id, &container.pod_uid) {
                (Some(id), _) => (&mut self.containers, id.clone()),
                (None, Some(uid)) => (&mut self.pods, uid.clone()),
                (None, None) => continue,
            };
            known.entry(id).or_insert(bounded(container));
        }
    }

    /// A container with what is known about it and its pod.
    fn of(&self, container: &Container) -> Container {
        let by_id = container.id.as_ref().and_then(|id| self.containers.get(id));
        let by_pod = container.pod_uid.as_ref().and_then(|uid| self.pods.get(uid));
        [by_id, by_pod].into_iter().flatten().fold(container.clone(), filled)
    }
}

/// A container with the values of another where it has none.
fn filled(container: Container, other: &Container) -> Container {
    let or = |own: Option<String>, other: &Option<String>| own.or_else(|| other.clone());
    Container {
        runtime: or(container.runtime, &other.runtime),
        id: container.id,
        name: or(container.name, &other.name),
        pod: or(container.pod, &other.pod),
        namespace: or(container.namespace, &other.namespace),
        pod_uid: or(container.pod_uid, &other.pod_uid),
        image: or(container.image, &other.image),
    }
}

/// A container without names that are too long, or empty.
fn bounded(container: Container) -> Container {
    let bounded = |name: Option<String>| name.filter(|name| (1..=LONGEST_NAME).contains(&name.len()));
    Container {
        runtime: container.runtime,
        id: container.id,
        name: bounded(container.name),
        pod: bounded(container.pod),
        namespace: bounded(container.namespace),
        pod_uid: bounded(container.pod_uid),
        image: bounded(container.image),
    }
}
