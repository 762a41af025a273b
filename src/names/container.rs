//! Containers in the paths of cgroups.

use super::cgroup::{Id, Segment};
use super::token::{is_digits, is_hex_of_one_case};
use crate::model::Container;

/// The containers that a cgroup is in, the innermost first, as far as its path says.
pub(crate) fn containers_of_path(path: &str) -> Vec<Container> {
    let segments: Vec<&str> = path.split('/').collect();
    // `ctr run` makes a cgroup of its namespace of containerd and the id that the user chose; nerdctl, with one that it chose.
    if let ["", "default", id] = segments[..]
        && !(id.len() == 64 && is_hex_of_one_case(id))
    {
        let [runtime, id] = ["containerd", id].map(|text| Some(text.to_owned()));
        return vec![Container { runtime, name: id.clone(), id, ..Container::default() }];
    }
    let pod_uid = segments.iter().rev().find_map(|segment| pod_uid(segment));
    let found = (0..segments.len()).rev().filter_map(|at| {
        let container = container(segments[at], at.checked_sub(1).map_or("", |above| segments[above]))?;
        Some(Container { pod_uid: pod_uid.clone(), ..container })
    });
    let found: Vec<_> = found.collect();
    match (found.is_empty(), pod_uid) {
        (true, Some(pod_uid)) => vec![Container { pod_uid: Some(pod_uid), ..Container::default() }],
        _ => found,
    }
}

impl Container {
    /// Returns the name by which threads are grouped: `namespace/pod:name` in a pod, else the container's name. `None` if nothing
    /// names the container. `shown` is [`workload`], or keeps every pod.
    pub(crate) fn key(&self, shown: fn(&str) -> String) -> Option<String> {
        match (self.pod_key(shown), &self.name) {
            (Some(pod), Some(name)) => Some(format!("{pod}:{name}")),
            (pod, name) => pod.or_else(|| name.clone()),
        }
    }

    /// Namespace and name of its pod, or of what that is one of.
    pub(crate) fn pod_key(&self, shown: fn(&str) -> String) -> Option<String> {
        let pod = shown(self.pod.as_deref()?);
        Some(self.namespace.as_ref().map_or(pod.clone(), |namespace| format!("{namespace}/{pod}")))
    }
}

/// The name of the workload that a pod is one of. Those of a StatefulSet are numbered.
pub(crate) fn workload(pod: &str) -> String {
    let (name, instance) = split_pod(pod);
    let is_numbered = instance.strip_prefix('-').is_some_and(|number| is_digits(number) && !is_random(number));
    if is_numbered { format!("{name}-{{N}}") } else { name.to_owned() }
}

/// Whether this can be the random end of a pod's name (`SafeEncodeString` of k8s.io/apimachinery): no vowels, and nothing that looks
/// like another letter. One in 850 has digits only, and no StatefulSet has so many pods.
fn is_random(text: &str) -> bool {
    text.len() == 5 && text.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b))
}

/// The name of a pod's workload, and what tells the pod from others of it.
pub(super) fn split_pod(pod: &str) -> (&str, &str) {
    // `SafeEncodeString` of a decimal number.
    let is_revision = |text: &str| (5..=10).contains(&text.len()) && text.bytes().all(|b| b"456789bcdf".contains(&b));
    let name = match pod.rsplit_once('-') {
        Some((rest, random)) if is_random(random) => match rest.rsplit_once('-') {
            // Of a Deployment, or of a CronJob, with the minute at which it was due.
            Some((name, of)) if is_revision(of) || (is_digits(of) && of.len() >= 8) => name,
            // Of a DaemonSet or a Job.
            _ => rest,
        },
        Some((name, number)) if is_digits(number) => name,
        _ => pod,
    };
    pod.split_at(name.len())
}

/// The innermost service or scope of systemd that a cgroup is in, as it is `shown`, with the user whose it is.
pub(crate) fn unit_of_path(path: &str, shown: impl Fn(&str) -> String) -> Option<String> {
    let segments = || path.split('/');
    let unit = segments().rfind(|segment| [".service", ".scope"].iter().any(|end| segment.ends_with(end)))?;
    let user = segments().find_map(|segment| segment.strip_prefix("user-")?.strip_suffix(".slice"));
    let unit = shown(unit);
    Some(user.map_or(unit.clone(), |user| format!("{unit} (user {user})")))
}

/// The pod of a segment `pod<uid>`, whose uid has `_` in the names of slices.
fn pod_uid(segment: &str) -> Option<String> {
    let Segment { name, id: Some((Id::Uuid, uid)), .. } = Segment::parse(segment) else { return None };
    name.ends_with("pod").then(|| uid.replace('_', "-"))
}

/// The container of a segment below `parent`.
fn container(segment: &str, parent: &str) -> Option<Container> {
    let of = |runtime: &str| Container { runtime: Some(runtime.to_owned()), ..Container::default() };
    let Segment { name, id, unit } = Segment::parse(segment);
    if let Some((Id::Hex, id)) = id {
        let runtime = match name.trim_end_matches(['-', ':']).rsplit(':').next() {
            Some("cri-containerd" | "nerdctl") => Some("containerd"),
            Some("crio") => Some("cri-o"),
            Some("libpod" | "libpod-payload") => Some("podman"),
            Some("docker") => Some("docker"),
            Some("") => match parent {
                "docker" => Some("docker"),
                "libpod_parent" => Some("podman"),
                _ => None,
            },
            // Such as the monitor of a container, `libpod-conmon-<id>`.
            _ => return None,
        };
        return Some(Container { id: Some(id.to_owned()), ..runtime.map_or_else(Container::default, of) });
    }
    let named = |runtime, name: &str| Container { name: Some(unescaped(name)), ..of(runtime) };
    let name = segment.strip_prefix("lxc.payload.").or_else(|| Some(segment).filter(|_| parent == "lxc"));
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        return Some(named("lxc", name));
    }
    // As `machinectl start` names it.
    let service = segment.strip_prefix("systemd-nspawn@").and_then(|name| name.strip_suffix(".service"));
    if let Some(name) = service.filter(|_| parent == "machine.slice") {
        return Some(named("systemd-nspawn", name));
    }
    let machine = segment.strip_prefix("machine-")?.strip_suffix(".scope").filter(|_| unit == ".scope")?;
    // Virtual machines of libvirt are `machine-qemu\x2d1\x2dname.scope`.
    (!machine.starts_with("qemu")).then(|| named("systemd-nspawn", machine))
}

/// A name that systemd has escaped (`systemd-escape`): `\x2d` is `-`.
fn unescaped(name: &str) -> String {
    let mut parts = name.split("\\x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) if byte.is_ascii() && !byte.is_ascii_control() => text + &char::from(byte).to_string() + &part[2..],
        _ => text + "\\x" + part,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3b9f5d1e7c2a4860b1d3e5f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b";
    const POD: &str = "0f3c9e2a-5b1d-4c7e-9a8f-1234567890ab";

    /// Runtime, name and pod of the containers of a path, in which `ID` stands for an id, `POD` and `P_D` for a pod's.
    fn found(path: &str) -> Vec<[Option<String>; 3]> {
        let path = path.replace("ID", ID).replace("POD", POD).replace("P_D", &POD.replace('-', "_"));
        let containers = containers_of_path(&path).into_iter();
        containers.map(|Container { runtime, name, pod_uid, .. }| [runtime, name, pod_uid]).collect()
    }

    #[test]
    fn the_path_of_a_cgroup_says_its_runtime_and_pod() {
        let pod = Some(POD.to_owned());
        for (path, runtime, pod) in [
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podP_D.slice/cri-containerd-ID.scope",
                "containerd",
                &pod,
            ),
            ("/kubepods/besteffort/podPOD/ID", "", &pod),
            ("/kubepods.slice/kubepods-podP_D.slice/crio-ID.scope/container", "cri-o", &pod),
            ("/system.slice/containerd.service/kubepods-burstable-podP_D.slice:cri-containerd:ID", "containerd", &None),
            ("/system.slice/docker-ID.scope", "docker", &None),
            ("/docker/ID", "docker", &None),
            ("/machine.slice/libpod-ID.scope/container", "podman", &None),
            ("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope", "podman", &None),
            ("/libpod_parent/ID", "podman", &None),
            ("/system.slice/nerdctl-ID.scope", "containerd", &None),
        ] {
            let runtime = Some(runtime.to_owned()).filter(|runtime| !runtime.is_empty());
            assert_eq!(found(path), [[runtime, None, pod.clone()]], "{path}");
        }
    }

    #[test]
    fn containers_with_names_in_their_path_need_no_files() {
        let named = |runtime: &str, name: &str| vec![[Some(runtime.to_owned()), Some(name.to_owned()), None]];
        assert_eq!(found("/lxc.payload.web/system.slice/nginx.service"), named("lxc", "web"));
        assert_eq!(found("/lxc/web"), named("lxc", "web"));
        assert_eq!(found("/default/job-7"), named("containerd", "job-7"));
        assert_eq!(found("/machine.slice/machine-build\\x2dhost.scope"), named("systemd-nspawn", "build-host"));
        assert_eq!(found("/machine.slice/machine-a\\x07\\x.scope"), named("systemd-nspawn", "a\\x07\\x"));
    }

    #[test]
    fn containers_in_containers_are_listed_from_inside() {
        let runtimes: Vec<_> =
            found("/docker/ID/kubepods/podPOD/ID").into_iter().map(|[runtime, ..]| runtime).collect();
        assert_eq!(runtimes, [None, Some("docker".to_owned())]);
    }

    #[test]
    fn pods_of_one_workload_have_one_key() {
        for (pod, expected) in [
            ("api-7d4b9c6f5d-x2k4p", "api"),
            ("kube-proxy-x2k4p", "kube-proxy"),
            ("api-7d4b9c6f5d-24567", "api"),
            ("kube-proxy-98765", "kube-proxy"),
            ("db-0", "db-{N}"),
            ("db-12", "db-{N}"),
            ("backup-28394820-x2k4p", "backup"),
            ("etcd-node1", "etcd-node1"),
            ("x2k4p", "x2k4p"),
            ("", ""),
        ] {
            assert_eq!(workload(pod), expected, "{pod}");
        }
        let text = |text: &str| Some(text.to_owned());
        let container =
            Container { name: text("server"), pod: text("db-3"), namespace: text("shop"), ..Container::default() };
        assert_eq!(container.key(workload), text("shop/db-{N}:server"));
        assert_eq!(container.key(str::to_owned), text("shop/db-3:server"));
        assert_eq!(Container { name: text("web-1"), ..Container::default() }.key(workload), text("web-1"));
        assert_eq!(Container::default().key(workload), None);
    }

    #[test]
    fn a_service_is_the_innermost_unit_with_its_user() {
        let unit = |path| unit_of_path(path, super::super::cgroup_pattern);
        assert_eq!(unit("/system.slice/nginx.service").as_deref(), Some("nginx.service"));
        assert_eq!(unit("/system.slice/system-getty.slice/getty@tty1.service").as_deref(), Some("getty@{I}.service"));
        let path = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-term.service/tab";
        assert_eq!(unit(path).as_deref(), Some("app-term.service (user 1000)"));
        assert_eq!(unit("/user.slice/user-1000.slice"), None);
        assert_eq!(unit_of_path("/a/getty@tty1.service", str::to_owned).as_deref(), Some("getty@tty1.service"));
    }

    #[test]
    fn machines_have_their_name_however_they_were_started() {
        for path in
            ["/machine.slice/machine-web.scope/payload", "/machine.slice/systemd-nspawn@web.service/payload/a.service"]
        {
            let containers = containers_of_path(path);
            assert_eq!(
                containers.iter().map(|found| found.name.as_deref()).collect::<Vec<_>>(),
                [Some("web")],
                "{path}"
            );
        }
        assert!(containers_of_path("/system.slice/systemd-nspawn@web.service").is_empty(), "only below machine.slice");
    }

    #[test]
    fn services_monitors_and_virtual_machines_are_no_containers() {
        for path in [
            "/",
            "/system.slice/docker.service",
            "/machine.slice/libpod-conmon-ID.scope",
            "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope",
            "/kubepods/besteffort/podracer",
            "/lxc.payload.",
        ] {
            assert_eq!(found(path), Vec::<[Option<String>; 3]>::new(), "{path}");
        }
        assert_eq!(found("/kubepods/podPOD"), [[None, None, Some(POD.to_owned())]], "a pod without containers");
    }
}
