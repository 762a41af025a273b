//! Containers, by the cgroups that they are in.

/// What the homes of users, with their ids behind it, are called where names of containers could not be read.
pub(crate) const HOME_OF_USER: &str = "home of user";

optional_record! {
    /// A container, or the sandbox of a pod, as the files of its runtime name it.
    #[derive(Eq)]
    pub struct Container {
        /// What runs it: `containerd`, `cri-o`, `docker`, `podman`, `lxc` or `systemd-nspawn`.
        pub runtime: String,
        /// Its id, from the path of its cgroup.
        pub id: String,
        /// Its name; in a pod that of the container in the pod's specification.
        pub name: String,
        /// Name of the pod that it is in.
        pub pod: String,
        /// Namespace of the pod, or of containerd if it is in no pod.
        pub namespace: String,
        /// Id of the pod, from the path of its cgroup.
        pub pod_uid: String,
        /// Name of the image that it was created from.
        pub image: String,
    }
}

impl Container {
    /// Whether it, or its pod, has a name.
    pub fn is_named(&self) -> bool {
        self.name.is_some() || self.pod.is_some()
    }
}
