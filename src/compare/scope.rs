//! The threads that are looked at.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::{GroupGlob, NoSuchGroup};
use crate::model::sorted::CollectSorted;
use crate::model::{Container, Owner, SnapshotHead};
use crate::names::workload;

/// The threads that are looked at. In options and reports, it is `host`, `command`, `container:GLOB` or `pod:GLOB`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// All threads of the host.
    #[default]
    Host,
    /// Threads of the command that `record` ran, and of its descendants.
    Command,
    /// Threads in containers of a name: the container's own, or its group's.
    Container(GroupGlob),
    /// Threads in pods of a name: the pod's own, or its group's, with or without namespace.
    Pod(GroupGlob),
}

impl Scope {
    /// The scope that an option names, or what scopes there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "host" => Ok(Self::Host),
            None if text == "command" => Ok(Self::Command),
            Some(("container", name)) => GroupGlob::new(name).map(Self::Container),
            Some(("pod", name)) => GroupGlob::new(name).map(Self::Pod),
            _ => Err("expected host, command, container:NAME or pod:NAME".to_owned()),
        }
    }

    /// Refuses captures without containers or pods of the name.
    pub fn check(&self, head: &SnapshotHead) -> Result<(), NoSuchGroup> {
        let (Self::Container(glob) | Self::Pod(glob)) = self else { return Ok(()) };
        if head.containers.values().any(|container| self.includes(container)) {
            return Ok(());
        }
        let names: BTreeSet<_> = head.containers.values().flat_map(|container| self.names(container)).into_set();
        let kind = if matches!(self, Self::Pod(_)) { "pod" } else { "container" };
        Err(NoSuchGroup::new(kind, glob, names.iter().map(String::as_str)))
    }

    /// The names that a container, or its pod, has.
    fn names(&self, container: &Container) -> Vec<String> {
        let keys = match self {
            Self::Pod(_) => [container.pod.clone(), container.pod_key(workload), container.pod_key(str::to_owned)],
            _ => [container.name.clone(), container.key(workload), container.key(str::to_owned)],
        };
        keys.into_iter().flatten().collect()
    }

    fn includes(&self, container: &Container) -> bool {
        match self {
            Self::Host | Self::Command => false,
            Self::Container(glob) | Self::Pod(glob) => self.names(container).iter().any(|name| glob.is_match(name)),
        }
    }

    /// The threads of these captures that are in it.
    pub(super) fn filter(&self, heads: &[&SnapshotHead]) -> ThreadFilter {
        match self {
            Self::Host => ThreadFilter::All,
            Self::Command => ThreadFilter::OfCommand,
            Self::Container(_) | Self::Pod(_) => {
                let containers = heads.iter().flat_map(|head| &head.containers);
                let included = containers.filter(|(_, container)| self.includes(container));
                ThreadFilter::InCgroups(Arc::new(included.map(|(path, _)| path.clone()).collect()))
            }
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Command => f.write_str("command"),
            Self::Container(glob) => write!(f, "container:{glob}"),
            Self::Pod(glob) => write!(f, "pod:{glob}"),
        }
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The threads of captures that are in a scope.
#[derive(Clone, Debug, Default)]
pub(super) enum ThreadFilter {
    #[default]
    All,
    OfCommand,
    /// Threads in cgroups with these paths.
    InCgroups(Arc<HashSet<String>>),
}

impl ThreadFilter {
    pub(super) fn includes(&self, owner: Option<Owner>, cgroup: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::OfCommand => owner == Some(Owner::Command),
            Self::InCgroups(paths) => cgroup.is_some_and(|path| paths.contains(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, Digest};
    use crate::model::CtprofSnapshot;

    #[test]
    fn a_scope_is_the_host_the_command_or_containers_of_a_name() {
        assert!(matches!(Scope::parse("host"), Ok(Scope::Host)));
        assert!(matches!(Scope::parse("command"), Ok(Scope::Command)));
        assert!(matches!(Scope::parse("container:web*"), Ok(Scope::Container(_))));
        assert!(matches!(Scope::parse("pod:db"), Ok(Scope::Pod(_))));
        for wrong in ["", "commands", "hosts", "container", "image:x"] {
            let error = Scope::parse(wrong).unwrap_err();
            assert_eq!(error, "expected host, command, container:NAME or pod:NAME", "{wrong}");
        }
    }

    #[test]
    fn the_quota_of_a_pod_is_that_of_the_pod_also_if_only_one_of_its_containers_is_in_the_scope() {
        let json = r#"{"threads":[{"tid":1,"tgid":1,"cgroup":"/pod/a"}],
            "cgroup_stats":{"/pod":{"cpu":{"max_quota_us":5},"without_threads":true},"/pod/a":{},"/pod/b":{}},
            "containers":{"/pod/a":{"name":"web","pod":"api"},"/pod/b":{"name":"side","pod":"api"}}}"#;
        let snapshot: CtprofSnapshot = serde_json::from_str(json).unwrap();
        let mut options = CompareOptions::default();
        for scope in ["container:web", "pod:api"] {
            options.grouping.scope = Some(Scope::parse(scope).unwrap());
            let head = Digest::of_snapshot(&snapshot, &options).head;
            let pod = Container { pod: Some("api".to_owned()), ..Container::default() };
            assert_eq!(head.containers.get("/pod"), Some(&pod), "{scope}");
            assert_eq!(head.cgroup_stats.contains_key("/pod/b"), scope == "pod:api");
        }
    }
}
