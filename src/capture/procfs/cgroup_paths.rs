//! The cgroups of a thread, from `/proc/<tgid>/task/<tid>/cgroup` (cgroups(7)): one path in version 2,
//! and one per hierarchy of version 1, which can differ.

use std::collections::{BTreeSet, HashMap};

use memchr::memchr_iter;

use crate::model::{Name, printable};

/// The hierarchies with values, by controller; the empty name is version 2.
pub(in crate::capture) const ACCOUNTING: [&str; 6] = ["memory", "cpu", "cpuacct", "blkio", "pids", ""];
/// The hierarchy of systemd, which has no values.
const SYSTEMD: &str = "name=systemd";
const ROOT: &[u8] = b"/";

/// The cgroups of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::capture) struct ThreadCgroups {
    /// The one that it is grouped by.
    pub(in crate::capture) group: Name,
    /// The one with its CPU quota, if that is another one of version 1.
    pub(in crate::capture) cpu: Option<Name>,
}

/// The cgroups of the threads that one worker has read.
#[derive(Default)]
pub(in crate::capture) struct CgroupPaths {
    /// The cgroups of a thread by the whole text of its file, which many threads share.
    by_text: HashMap<Box<[u8]>, Option<ThreadCgroups>>,
    /// Every cgroup that a thread is in, in any hierarchy with values; the root only if a thread is in
    /// no other.
    pub(in crate::capture) seen: BTreeSet<Name>,
}

impl CgroupPaths {
    /// The cgroups of a thread by the text of its file.
    pub(in crate::capture) fn identify(&mut self, text: &[u8]) -> Option<ThreadCgroups> {
        if let Some(cgroups) = self.by_text.get(text) {
            return cgroups.clone();
        }
        let accounting =
            lines(text).filter(|line| line.path != ROOT && ACCOUNTING.iter().any(|controller| line.has(controller)));
        for path in accounting.map(|line| line.path).chain(identity(text)) {
            self.seen.insert(printable(path).into());
        }
        let name = |path: &[u8]| self.seen.get(&*printable(path)).cloned();
        let cgroups = identity(text).and_then(name).map(|group| {
            let cpu = path_in(text, "cpu").filter(|path| *path != ROOT).and_then(name);
            ThreadCgroups { cpu: cpu.filter(|cpu| *cpu != group), group }
        });
        self.by_text.insert(text.into(), cgroups.clone());
        cgroups
    }

    /// The cgroups of an exiting thread by the text of its file; `None` if it may be in one of version 1. Of those, the file has
    /// the root from then on (`proc_cgroup_show` in kernel/cgroup/cgroup.c).
    pub(in crate::capture) fn identify_exiting(&mut self, text: &[u8]) -> Option<ThreadCgroups> {
        let version_1 = || ACCOUNTING.iter().filter(|controller| !controller.is_empty()).chain([&SYSTEMD]);
        let is_replaced = |line: HierarchyLine<'_>| version_1().any(|controller| line.has(controller));
        if lines(text).any(is_replaced) { None } else { self.identify(text) }
    }
}

/// Returns the path by which a thread is grouped: the deepest path in hierarchies with values, because a service manager or a
/// container runtime leaves threads near the root of hierarchies that it does not use. Of equally deep paths, the first in the
/// order of [`ACCOUNTING`] counts; if all are the root, systemd's.
fn identity(text: &[u8]) -> Option<&[u8]> {
    let path_in = |controller| path_in(text, controller);
    match deepest(text) {
        Some(path) if path != ROOT => Some(path),
        root => path_in(SYSTEMD).filter(|path| *path != ROOT).or(root).or_else(|| path_in(SYSTEMD)),
    }
}

fn deepest(text: &[u8]) -> Option<&[u8]> {
    // In reverse, because `max_by_key` returns the last of equal ones.
    ACCOUNTING.iter().rev().filter_map(|controller| path_in(text, controller)).max_by_key(|path| depth(path))
}

/// Returns the path in a hierarchy, by its place in [`ACCOUNTING`]; for a larger place, the path by which a thread is grouped, if
/// it is in none of these hierarchies.
pub(in crate::capture) fn path_by_place(text: &[u8], place: usize) -> Option<Name> {
    let path = match ACCOUNTING.get(place) {
        Some(controller) => path_in(text, controller),
        None => identity(text).filter(|_| deepest(text).is_none_or(|path| path == ROOT)),
    };
    Some(printable(path?).into())
}

/// Returns the number of a hierarchy, by its place in [`ACCOUNTING`]; for a larger place, the number of systemd's.
pub(in crate::capture) fn number_of(text: &[u8], place: usize) -> Option<u64> {
    let controller = ACCOUNTING.get(place).copied().unwrap_or(SYSTEMD);
    super::text::unsigned(lines(text).find(|line| line.has(controller))?.number)
}

/// The path in the hierarchy of a controller.
fn path_in<'t>(text: &'t [u8], controller: &str) -> Option<&'t [u8]> {
    lines(text).find(|line| line.has(controller)).map(|line| line.path)
}

fn depth(path: &[u8]) -> usize {
    path.split(|&b| b == b'/').filter(|segment| !segment.is_empty()).count()
}

/// A line of the file: `number:controllers:path`; the path may hold colons.
struct HierarchyLine<'t> {
    number: &'t [u8],
    controllers: &'t [u8],
    path: &'t [u8],
}

impl HierarchyLine<'_> {
    fn has(&self, controller: &str) -> bool {
        self.controllers.split(|&b| b == b',').any(|one| one == controller.as_bytes())
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = HierarchyLine<'_>> {
    super::text::lines(text).filter_map(|line| {
        let mut colons = memchr_iter(b':', line);
        let (first, second) = (colons.next()?, colons.next()?);
        Some(HierarchyLine { number: &line[..first], controllers: &line[first + 1..second], path: &line[second + 1..] })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_grouped_by_its_deepest_cgroup() {
        for (text, path) in [
            // systemd on Linux 6.12, unified.
            (&b"0::/system.slice/ssh.service\n"[..], &b"/system.slice/ssh.service"[..]),
            (b"0::/a:b\n", b"/a:b"),
            // Hybrid, Linux 6.18: version 2 without controllers.
            (b"9:name=systemd:/\n4:memory:/job/7\n1:cpu:/other\n0::/\n", b"/job/7"),
            (b"4:memory:/\n2:cpu,cpuacct:/burst\n0::/\n", b"/burst"),
            // Hybrid with systemd: version 2 has the service, version 1 the slice.
            (
                b"4:memory:/user.slice\n1:name=systemd:/user.slice/a.service\n0::/user.slice/a.service\n",
                b"/user.slice/a.service",
            ),
            // Hybrid with a container runtime that uses version 1: version 2 has the runtime.
            (b"4:memory:/docker/7\n2:cpu,cpuacct:/docker/7\n0::/system.slice/docker.service\n", b"/docker/7"),
            // Legacy, Linux 5.10.
            (b"3:cpuset:/x\n1:name=systemd:/user.slice\n", b"/user.slice"),
            (b"4:memory:/\n1:name=systemd:/user.slice\n", b"/user.slice"),
            (b"4:memory:/\n0::/\n", b"/"),
            (b"0::/\n", b"/"),
        ] {
            assert_eq!(identity(text), Some(path), "{}", text.escape_ascii());
        }
        assert_eq!(identity(b""), None);
        assert_eq!(identity(b"3:cpuset:/x\n"), None);
    }

    #[test]
    fn a_limited_cgroup_of_another_hierarchy_is_not_lost() {
        let mut paths = CgroupPaths::default();
        let free = paths.identify(b"4:memory:/job/7\n1:cpu:/\n3:cpuset:/x\n0::/\n");
        let limited = paths.identify(b"4:memory:/job/7\n1:cpu:/limited\n3:cpuset:/x\n0::/\n");
        let cgroups = |cpu: Option<&str>| ThreadCgroups { group: "/job/7".into(), cpu: cpu.map(Name::from) };
        assert_eq!((free, limited), (Some(cgroups(None)), Some(cgroups(Some("/limited")))));
        assert_eq!(paths.seen.iter().map(|name| &**name).collect::<Vec<_>>(), ["/job/7", "/limited"]);
        assert_eq!(paths.identify(b"0::/\n"), Some(ThreadCgroups { group: "/".into(), cpu: None }));
        assert!(paths.seen.contains("/"), "a thread is in the root alone");
    }

    #[test]
    fn the_root_that_the_kernel_shows_of_an_exiting_thread_in_version_1_is_not_its_cgroup() {
        let group =
            |text: &[u8]| CgroupPaths::default().identify_exiting(text).map(|cgroups| cgroups.group.to_string());
        for text in [&b"4:memory:/\n0::/\n"[..], b"1:name=systemd:/\n0::/a.service\n", b"2:cpu,cpuacct:/\n"] {
            assert_eq!(group(text), None, "{}", text.escape_ascii());
        }
        for text in [&b"0::/a.service\n"[..], b"3:cpuset:/\n0::/a.service\n"] {
            assert_eq!(group(text).as_deref(), Some("/a.service"), "{}", text.escape_ascii());
        }
    }
}
