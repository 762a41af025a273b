//! Where cgroup hierarchies are mounted, out of `mountinfo` (proc_pid_mountinfo(5)).

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::super::Roots;
use crate::model::{CgroupLayout, printable};

/// The hierarchies of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::capture) struct Mounts {
    unified: Option<Mount>,
    /// With the controllers of each.
    legacy: Vec<(Vec<String>, Mount)>,
}

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// The cgroup that is mounted; another than `/` in some containers.
    root: String,
    /// Where, as the host's own mount namespace has it.
    point: String,
    /// Where it can be read here.
    here: PathBuf,
}

impl Mounts {
    /// Reads the mounts that `roots` show. A cgroup root that was given is taken for version 2.
    pub(in crate::capture) fn read(roots: &Roots) -> Self {
        let text = fs::read(roots.procfs.join("self/mountinfo")).unwrap_or_default();
        let mut mounts = Self::default();
        for (kind, options, mount) in printable(&text).lines().filter_map(|line| parse(line, &roots.sysfs)) {
            match kind {
                "cgroup2" if mounts.unified.is_none() => mounts.unified = Some(mount),
                "cgroup" => mounts.legacy.push((options.split(',').map(str::to_owned).collect(), mount)),
                _ => {}
            }
        }
        if let Some(root) = &roots.cgroupfs {
            let point = root.display().to_string();
            mounts.unified = Some(Mount { root: "/".to_owned(), point, here: root.clone() });
        }
        mounts
    }

    pub(in crate::capture) fn layout(&self) -> CgroupLayout {
        match (&self.unified, self.legacy.is_empty()) {
            (Some(_), true) => CgroupLayout::Unified,
            (Some(_), false) => CgroupLayout::Hybrid,
            (None, false) => CgroupLayout::Legacy,
            (None, true) => CgroupLayout::None,
        }
    }

    /// Where version 2, or else a hierarchy of version 1, is mounted.
    pub(in crate::capture) fn point(&self) -> Option<String> {
        let legacy = self.legacy.first().map(|(_, mount)| mount);
        self.unified.as_ref().or(legacy).map(|mount| mount.point.clone())
    }

    /// The directory of a cgroup in version 2.
    pub(in crate::capture) fn unified(&self, cgroup: &str) -> Option<PathBuf> {
        self.unified.as_ref()?.directory(cgroup)
    }

    /// The directory of a cgroup in the version 1 hierarchy of `controller`.
    pub(in crate::capture) fn legacy(&self, controller: &str, cgroup: &str) -> Option<PathBuf> {
        let has = |(controllers, _): &&(Vec<String>, Mount)| controllers.iter().any(|one| one == controller);
        self.legacy.iter().find(has)?.1.directory(cgroup)
    }
}

impl Mount {
    /// Paths that lead out of the hierarchy, or to a cgroup that has been removed, are not followed.
    fn directory(&self, cgroup: &str) -> Option<PathBuf> {
        let below = match self.root.as_str() {
            "/" => cgroup,
            root => cgroup.strip_prefix(root)?,
        };
        let below = Path::new(below.trim_start_matches('/'));
        let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        (plain && !cgroup.ends_with(" (deleted)")).then(|| self.here.join(below))
    }
}

/// The type, the options of the hierarchy, and the mount in a line of mountinfo.
fn parse<'l>(line: &'l str, sysfs: &Path) -> Option<(&'l str, &'l str, Mount)> {
    let (front, back) = line.split_once(" - ")?;
    let mut fields = front.split(' ').skip(3).map(unescaped);
    let (root, point) = (fields.next()?, fields.next()?);
    let mut back = back.split(' ');
    let (kind, options) = (back.next()?, back.nth(1)?);
    let here = point.strip_prefix("/sys/").map_or_else(|| PathBuf::from(&point), |below| sysfs.join(below));
    Some((kind, options, Mount { root, point, here }))
}

/// A path of mountinfo, where blanks, tabs, newlines and backslashes are octal escapes.
fn unescaped(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (escape, c)| path.replace(escape, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(text: &str) -> Mounts {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("self")).unwrap();
        fs::write(dir.path().join("self/mountinfo"), text).unwrap();
        Mounts::read(&Roots { procfs: dir.path().to_owned(), sysfs: "/host/sys".into(), cgroupfs: None })
    }

    const V2: &str = "35 29 0:31 / /sys/fs/cgroup/uni\\040fied rw,relatime shared:4 - cgroup2 cgroup2 rw\n";
    const V1: &str = "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 /docker/7 /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

    #[test]
    fn the_layout_is_what_is_mounted() {
        assert_eq!(mounts(V2).layout(), CgroupLayout::Unified);
        assert_eq!(mounts(&format!("{V1}{V2}")).layout(), CgroupLayout::Hybrid);
        assert_eq!(mounts(V1).layout(), CgroupLayout::Legacy);
        assert_eq!(mounts("22 27 0:21 / /proc rw - proc proc rw\nnonsense\n").layout(), CgroupLayout::None);
        assert_eq!(mounts(V2).point().as_deref(), Some("/sys/fs/cgroup/uni fied"));
        assert_eq!(mounts(V1).point().as_deref(), Some("/sys/fs/cgroup/cpu"));
    }

    #[test]
    fn cgroups_are_found_below_their_mount_and_nowhere_else() {
        let mounts = mounts(&format!("{V1}{V2}"));
        let unified = |cgroup| mounts.unified(cgroup).map(|path| path.display().to_string());
        assert_eq!(unified("/").as_deref(), Some("/host/sys/fs/cgroup/uni fied/"));
        assert_eq!(unified("/a/b").as_deref(), Some("/host/sys/fs/cgroup/uni fied/a/b"));
        for outside in ["/../other", "/a/../../b", "/gone (deleted)"] {
            assert_eq!(unified(outside), None, "{outside}");
        }
        let cpu = mounts.legacy("cpuacct", "/a");
        assert_eq!(cpu, Some(PathBuf::from("/host/sys/fs/cgroup/cpu/a")));
        assert_eq!(mounts.legacy("pids", "/a"), None);
    }

    #[test]
    fn a_hierarchy_mounted_from_within_is_entered_below_its_root() {
        let mounts = mounts(V1);
        let memory = |cgroup| mounts.legacy("memory", cgroup);
        assert_eq!(memory("/docker/7/x"), Some(PathBuf::from("/host/sys/fs/cgroup/memory/x")));
        assert_eq!(memory("/other"), None);
    }
}
