//! Names of pods and their containers, from the names of the logs that the kubelet keeps.

use super::host_tree::HostTree;
use crate::model::Container;

/// Links to the logs of containers.
pub(super) const CONTAINER_LOGS: &str = "/var/log/containers";
/// The logs of pods.
const POD_LOGS: &str = "/var/log/pods";

pub(super) fn read(tree: &HostTree) -> Vec<Container> {
    let names = |directory| tree.directory(directory).map(|directory| directory.entries()).unwrap_or_default();
    let containers = names(CONTAINER_LOGS).into_iter().filter_map(|name| container(&name));
    containers.chain(names(POD_LOGS).into_iter().filter_map(|name| pod(&name))).collect()
}

/// The container of a log `<pod>_<namespace>_<container>-<id>.log` (`LogSymlink` of pkg/kubelet/kuberuntime/legacy.go).
fn container(log: &str) -> Option<Container> {
    let (names, id) = log.strip_suffix(".log")?.rsplit_once('-')?;
    let [pod, namespace, name] = three_parts(names)?;
    Some(Container { id: Some(id.to_owned()), name, pod, namespace, ..Container::default() })
}

/// The pod of a directory `<namespace>_<pod>_<uid>` (`BuildPodLogsDirectory` of pkg/kubelet/kuberuntime/helpers.go).
fn pod(directory: &str) -> Option<Container> {
    let [namespace, pod, pod_uid] = three_parts(directory)?;
    Some(Container { pod_uid, pod, namespace, ..Container::default() })
}

/// Names in Kubernetes have no `_`.
fn three_parts(text: &str) -> Option<[Option<String>; 3]> {
    let parts: Vec<_> = text.split('_').map(|part| Some(part.to_owned())).collect();
    parts.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_the_kubelet_name_pods_and_containers() {
        let id = "3b".repeat(32);
        let log = format!("api-7d4b9c6f5d-x2k4p_shop_server-{id}.log");
        let expected = Container {
            id: Some(id),
            name: Some("server".into()),
            pod: Some("api-7d4b9c6f5d-x2k4p".into()),
            namespace: Some("shop".into()),
            ..Container::default()
        };
        assert_eq!(container(&log), Some(expected));
        let found = pod("kube-system_etcd-node1_c0ffee0123456789c0ffee0123456789").unwrap();
        assert_eq!((found.namespace.as_deref(), found.pod.as_deref()), (Some("kube-system"), Some("etcd-node1")));
        for other in ["", "x.log", "a_b_c.log", "a_b-1.log", "a_b_c_d-1.log", "syslog"] {
            assert_eq!(container(other), None, "{other}");
        }
        assert_eq!(pod("nginx"), None);
    }
}
