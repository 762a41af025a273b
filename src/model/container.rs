//! Containers, by the cgroups that they are in.

/// Label of the home directories of users, followed by their ids, where names of containers could not be read.
pub(crate) const HOME_OF_USER: &str = "home of user";

stored! {
    /// A container, or the sandbox of a pod, as the files of its runtime name it.
    #[derive(Eq)]
    pub struct Container {
        /// Runtime of the container: `containerd`, `cri-o`, `docker`, `podman`, `lxc` or `systemd-nspawn`.
        optional runtime: Option<String>,
        /// Id of the container, from the path of its cgroup.
        optional id: Option<String>,
        /// Name of the container; in a pod, the name in the pod's specification.
        optional name: Option<String>,
        /// Name of the pod that it is in.
        optional pod: Option<String>,
        /// Namespace of the pod, or of containerd if it is in no pod.
        optional namespace: Option<String>,
        /// Id of the pod, from the path of its cgroup.
        optional pod_uid: Option<String>,
        /// Name of the image that it was created from.
        optional image: Option<String>,
    }
}

impl Container {
    /// A container with those names and ids that both containers have, such as the name of a pod.
    pub(super) fn common(self, other: Self) -> Self {
        let Self { runtime, id, name, pod, namespace, pod_uid, image } = self;
        let same = |one: Option<String>, other: Option<String>| one.filter(|one| Some(one) == other.as_ref());
        Self {
            runtime: same(runtime, other.runtime),
            id: same(id, other.id),
            name: same(name, other.name),
            pod: same(pod, other.pod),
            namespace: same(namespace, other.namespace),
            pod_uid: same(pod_uid, other.pod_uid),
            image: same(image, other.image),
        }
    }

    /// Whether it, or its pod, has a name.
    pub fn is_named(&self) -> bool {
        self.name.is_some() || self.pod.is_some()
    }
}
