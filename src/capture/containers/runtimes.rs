//! Names of containers, from the files of Docker, containerd, Podman and CRI-O.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::host_tree::{HostDirectory, HostTree};
use crate::model::Container;

/// The bundles of containerd, by namespace and id.
pub(super) const CONTAINERD: &str = "/run/containerd/io.containerd.runtime.v2.task";
/// The containers of Docker, by id.
pub(super) const DOCKER: &str = "/var/lib/docker/containers";
/// The storage of Podman and CRI-O.
pub(super) const STORAGE: &str = "/var/lib/containers/storage";
/// Longest configuration of a container. Usual ones have some 10 KiB.
const MAX_CONFIGURATION: u64 = 1 << 20;
/// Longest list of containers of the host, and of a user. Each takes about 1 KiB.
const MAX_LIST: u64 = 16 << 20;
const MAX_LIST_OF_USER: u64 = 1 << 20;

/// Part of Docker's file `config.v2.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerConfiguration {
    name: Option<String>,
    #[serde(default)]
    config: DockerConfig,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerConfig {
    image: Option<String>,
    labels: Option<DockerLabels>,
}

/// Labels of `cri-dockerd`.
#[derive(Default, Deserialize)]
struct DockerLabels {
    #[serde(rename = "io.kubernetes.container.name")]
    name: Option<String>,
    #[serde(rename = "io.kubernetes.pod.name")]
    pod: Option<String>,
    #[serde(rename = "io.kubernetes.pod.namespace")]
    namespace: Option<String>,
}

/// Containers of Docker with these ids.
pub(super) fn docker(tree: &HostTree, ids: &[String]) -> Vec<Container> {
    let Some(directory) = tree.directory(DOCKER) else { return Vec::new() };
    let container = |id: &String| {
        let DockerConfiguration { name, config } =
            directory.json(&format!("{id}/config.v2.json"), MAX_CONFIGURATION)?;
        let DockerLabels { name: in_pod, pod, namespace } = config.labels.unwrap_or_default();
        let name = in_pod.or_else(|| Some(name?.trim_start_matches('/').to_owned()));
        let runtime = Some("docker".to_owned());
        Some(Container { runtime, id: Some(id.clone()), name, pod, namespace, image: config.image, pod_uid: None })
    };
    ids.iter().filter_map(container).collect()
}

/// The configuration of a bundle (config.json of the OCI runtime specification).
#[derive(Deserialize)]
struct OciBundle {
    #[serde(default)]
    annotations: BundleAnnotations,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BundleAnnotations {
    #[serde(rename = "io.kubernetes.cri.container-name")]
    container: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-name")]
    pod: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-namespace")]
    namespace: Option<String>,
    #[serde(rename = "io.kubernetes.cri.image-name")]
    image: Option<String>,
    #[serde(rename = "nerdctl/name")]
    of_nerdctl: Option<String>,
}

/// Containers of containerd with these ids, in any of its namespaces.
pub(super) fn containerd(tree: &HostTree, ids: &[String]) -> Vec<Container> {
    let Some(directory) = tree.directory(CONTAINERD) else { return Vec::new() };
    let namespaces = directory.entries();
    let container = |id: &String| {
        namespaces.iter().find_map(|of| {
            let OciBundle { annotations } = directory.json(&format!("{of}/{id}/config.json"), MAX_CONFIGURATION)?;
            let BundleAnnotations { container, pod, namespace, image, of_nerdctl } = annotations;
            let (name, namespace) = (container.or(of_nerdctl), namespace.or_else(|| Some(of.clone())));
            let runtime = Some("containerd".to_owned());
            Some(Container { runtime, id: Some(id.clone()), name, pod, namespace, image, pod_uid: None })
        })
    };
    ids.iter().filter_map(container).collect()
}

/// A container in the lists of containers/storage.
#[derive(Deserialize)]
struct StoredContainer {
    id: String,
    #[serde(default)]
    names: Vec<String>,
    /// Metadata, which is JSON as text.
    #[serde(default)]
    metadata: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct StoredMetadata {
    image_name: Option<String>,
}

/// Containers with these ids, of Podman and CRI-O of the host, or of Podman of a user.
pub(super) fn storage(tree: &HostTree, user: Option<u32>, ids: &BTreeSet<String>) -> Vec<Container> {
    let (directory, path, limit) = match user {
        None => (tree.directory(STORAGE), "overlay-containers", MAX_LIST),
        Some(user) => (home(tree, user), ".local/share/containers/storage/overlay-containers", MAX_LIST_OF_USER),
    };
    let Some(directory) = directory else { return Vec::new() };
    // Those that do not outlive a boot, started with `--rm`, have a list of their own.
    let lists = ["containers.json", "volatile-containers.json"].into_iter();
    let stored = lists.filter_map(|list| directory.json::<Vec<StoredContainer>>(&format!("{path}/{list}"), limit));
    stored.flatten().filter(|stored| ids.contains(&stored.id)).filter_map(container_of_storage).collect()
}

fn container_of_storage(stored: StoredContainer) -> Option<Container> {
    let StoredContainer { id, names, metadata } = stored;
    let name = names.into_iter().next()?;
    let StoredMetadata { image_name: image } = serde_json::from_str(&metadata).unwrap_or_default();
    let container = Container { id: Some(id), image, ..Container::default() };
    // CRI-O: `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`.
    let parts: Vec<_> = name.split('_').map(str::to_owned).collect();
    Some(match <[String; 6]>::try_from(parts) {
        Ok([first, name, pod, namespace, ..]) if first == "k8s" => Container {
            runtime: Some("cri-o".to_owned()),
            name: Some(name),
            pod: Some(pod),
            namespace: Some(namespace),
            ..container
        },
        _ => Container { runtime: Some("podman".to_owned()), name: Some(name), ..container },
    })
}

/// The home directory of a user, by the tree's `/etc/passwd`.
fn home(tree: &HostTree, user: u32) -> Option<HostDirectory<'_>> {
    let users = tree.directory("/etc")?.read("passwd", MAX_LIST)?;
    let users = String::from_utf8_lossy(&users);
    let home = users.lines().find_map(|line| {
        let fields: Vec<_> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(user)).then(|| fields.get(5).copied())?
    })?;
    tree.home(home, user)
}
