//! Mount points of cgroup hierarchies and mount options of procfs, from `mountinfo`
//! (proc_pid_mountinfo(5)).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};

use super::super::options::Roots;
use super::super::procfs::cgroup_paths::ACCOUNTING;
use super::files::HostFiles;
use crate::model::{CgroupLayout, Name, kernel_bytes, printable};
use crate::process::with_file_capabilities;
use crate::sys::file_handle::open_kernfs;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mounts {
    unified: Option<Mount>,
    /// Each with its controllers.
    legacy: Vec<(Vec<String>, Mount)>,
    /// The option `hidepid` of the procfs.
    pub(super) hidepid: Option<String>,
}

/// A mounted hierarchy of cgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// The mounted cgroup, which is not `/` in some containers.
    root: PathBuf,
    /// Mount point in the host's own mount namespace.
    point: PathBuf,
    /// Path for this process.
    readable_at: PathBuf,
}

impl Mounts {
    /// Reads the mounts. An explicit cgroup root counts as version 2.
    pub(crate) fn read(files: &HostFiles<'_>) -> Self {
        let roots = files.roots;
        let text = files.read(&roots.procfs.join("self/mountinfo")).unwrap_or_default();
        let mut mounts = Self::default();
        // A recorded tree has plain directories.
        let is_live = *roots == Roots { cgroupfs: roots.cgroupfs.clone(), ..Roots::default() };
        for (mount, file_system, options) in
            printable(&text).lines().filter_map(|line| Mount::parse(line, &roots.sysfs))
        {
            let mut options = options.split(',');
            match file_system {
                "cgroup" | "cgroup2" if is_live && mount.is_hidden() => {}
                "cgroup2" if mounts.unified.is_none() => mounts.unified = Some(mount),
                "cgroup" => mounts.legacy.push((options.map(str::to_owned).collect(), mount)),
                // The last mount on a mount point hides earlier ones.
                "proc" if mount.point == roots.procfs => {
                    mounts.hidepid = options.find_map(|option| option.strip_prefix("hidepid=")).map(str::to_owned);
                }
                _ => {}
            }
        }
        if let Some(root) = &roots.cgroupfs {
            mounts.unified = Some(Mount { root: "/".into(), point: root.clone(), readable_at: root.clone() });
        }
        mounts
    }

    pub(crate) fn layout(&self) -> CgroupLayout {
        // One without values, such as net_cls, may stand beside version 2.
        let counts = |(controllers, _): &(Vec<String>, Mount)| {
            self.unified.is_none() || controllers.iter().any(|controller| ACCOUNTING.contains(&controller.as_str()))
        };
        match (&self.unified, self.legacy.iter().any(counts)) {
            (Some(_), false) => CgroupLayout::Unified,
            (Some(_), true) => CgroupLayout::Hybrid,
            (None, true) => CgroupLayout::Legacy,
            (None, false) => CgroupLayout::None,
        }
    }

    /// Mount point of version 2, or else of a hierarchy of version 1.
    pub(crate) fn point(&self) -> Option<String> {
        let legacy = self.legacy.first().map(|(_, mount)| mount);
        let point = self.unified.as_ref().or(legacy)?.point.as_os_str();
        Some(printable(point.as_bytes()).into_owned())
    }

    /// The directory of a cgroup in version 2.
    pub(crate) fn unified(&self, cgroup: &str) -> Option<PathBuf> {
        self.unified.as_ref()?.directory(cgroup)
    }

    /// The directory of a cgroup in the version 1 hierarchy of `controller`.
    pub(crate) fn legacy(&self, controller: &str, cgroup: &str) -> Option<PathBuf> {
        self.of_controller(controller)?.directory(cgroup)
    }

    /// The cgroup with this id in the hierarchy of `controller`, which is empty for version 2, if the caller may look for it.
    pub(crate) fn cgroup(&self, controller: &str, id: u64) -> Option<Name> {
        let mount = if controller.is_empty() { self.unified.as_ref() } else { self.of_controller(controller) };
        let path = with_file_capabilities(|| mount?.path(id).ok()).ok()??;
        Some(printable(path.as_os_str().as_bytes()).into())
    }

    fn of_controller(&self, controller: &str) -> Option<&Mount> {
        let has = |(controllers, _): &&(Vec<String>, Mount)| controllers.iter().any(|one| one == controller);
        self.legacy.iter().find(has).map(|(_, mount)| mount)
    }
}

impl Mount {
    /// The mount of a line of mountinfo, its file system, and the options of that, not of the mount.
    fn parse<'l>(line: &'l str, sysfs: &Path) -> Option<(Self, &'l str, &'l str)> {
        let (front, back) = line.split_once(" - ")?;
        let mut fields = front.split(' ').skip(3).map(unescaped);
        let mut back = back.split(' ');
        let (root, point) = (fields.next()?, fields.next()?);
        let readable_at = point.strip_prefix("/sys").map_or_else(|_| point.clone(), |below| sysfs.join(below));
        Some((Self { root, point, readable_at }, back.next()?, back.nth(1)?))
    }

    /// Whether another mount hides this one of cgroups.
    fn is_hidden(&self) -> bool {
        let visible = statfs(&self.readable_at).map(|visible| visible.filesystem_type());
        visible.map_or_else(
            |errno| errno == Errno::ENOENT,
            |visible| ![CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC].contains(&visible),
        )
    }

    /// Returns the directory of a cgroup; `None` for paths that leave the hierarchy, and for paths of removed cgroups.
    fn directory(&self, cgroup: &str) -> Option<PathBuf> {
        let bytes = kernel_bytes(cgroup);
        let below = Path::new(OsStr::from_bytes(&bytes)).strip_prefix(&self.root).ok()?;
        let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        (plain && !cgroup.ends_with(" (deleted)")).then(|| self.readable_at.join(below))
    }

    /// The path of the cgroup with this id, by which the kernel opens its directory.
    fn path(&self, id: u64) -> io::Result<PathBuf> {
        let mount = File::open(&self.readable_at)?;
        let directory = open_kernfs(mount.as_fd(), id)?;
        let place = |file: BorrowedFd<'_>| fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let directory = place(directory.as_fd())?;
        let below = directory.strip_prefix(place(mount.as_fd())?).map_err(io::Error::other)?;
        Ok(self.root.iter().chain(below).collect())
    }
}

/// A path of mountinfo, whose blanks, tabs, newlines and backslashes are octal escapes.
fn unescaped(path: &str) -> PathBuf {
    let escaped = kernel_bytes(path);
    let (mut bytes, mut rest) = (Vec::with_capacity(escaped.len()), &*escaped);
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(text: &str) -> Mounts {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("self")).unwrap();
        fs::write(dir.path().join("self/mountinfo"), text).unwrap();
        let roots = Roots { procfs: dir.path().to_owned(), sysfs: "/host/sys".into(), cgroupfs: None };
        Mounts::read(&HostFiles::new(&roots))
    }

    const V2: &str = "35 29 0:31 / /sys/fs/cgroup/uni\\040fied rw,relatime shared:4 - cgroup2 cgroup2 rw\n";
    const V1: &str = "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 /docker/7 /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

    #[test]
    fn the_layout_is_what_is_mounted() {
        assert_eq!(mounts(V2).layout(), CgroupLayout::Unified);
        assert_eq!(mounts(&format!("{V1}{V2}")).layout(), CgroupLayout::Hybrid);
        assert_eq!(mounts(V1).layout(), CgroupLayout::Legacy);
        let without_values = "33 31 0:30 / /sys/fs/cgroup/net rw - cgroup cgroup rw,net_cls\n34 31 0:31 / /s rw - cgroup cgroup rw,name=systemd\n";
        assert_eq!(mounts(&format!("{without_values}{V2}")).layout(), CgroupLayout::Unified);
        assert_eq!(mounts(without_values).layout(), CgroupLayout::Legacy);
        assert_eq!(mounts("22 27 0:21 / /proc rw - proc proc rw\nnonsense\n").layout(), CgroupLayout::None);
        assert_eq!(mounts(V2).point().as_deref(), Some("/sys/fs/cgroup/uni fied"));
        assert_eq!(mounts(V1).point().as_deref(), Some("/sys/fs/cgroup/cpu"));
    }

    #[test]
    fn hidepid_is_that_of_the_last_mount_at_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let procfs = dir.path().to_owned();
        fs::create_dir(procfs.join("self")).unwrap();
        let line = |point: &str, options| format!("22 27 0:21 / {point} rw,nosuid - proc proc {options}\n");
        let root = procfs.display().to_string();
        let hidepid = |lines: &[String]| {
            fs::write(procfs.join("self/mountinfo"), lines.concat()).unwrap();
            let roots = Roots { procfs: procfs.clone(), ..Roots::default() };
            Mounts::read(&HostFiles::new(&roots)).hidepid
        };
        // Linux 6.18.
        assert_eq!(hidepid(&[line(&root, "rw,gid=27,hidepid=invisible")]).as_deref(), Some("invisible"));
        assert_eq!(hidepid(&[line(&root, "rw,hidepid=2"), line("/other", "rw,hidepid=1"), line(&root, "rw")]), None);
        assert_eq!(hidepid(&[line("/other", "rw,hidepid=2")]), None);
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
    fn a_cgroup_is_found_whether_systemd_has_escaped_its_name_or_nobody() {
        let mounts = mounts(V2);
        for name in [&br"/system-serial\x2dgetty.slice/a"[..], b"/caf\xc3", b"/a\\b"] {
            let directory = mounts.unified(&printable(name)).unwrap();
            assert_eq!(directory.as_os_str().as_bytes(), [b"/host/sys/fs/cgroup/uni fied", name].concat());
        }
    }

    #[test]
    fn a_mount_point_is_read_to_the_byte() {
        let line = br"35 29 0:31 / /sys/a\134x2d\011\012b rw - cgroup2 cgroup2 rw";
        let mounts = mounts(&printable(line));
        assert_eq!(mounts.point().as_deref(), Some("/sys/a\\x5cx2d\t\nb"));
        assert_eq!(mounts.unified("/c"), Some(PathBuf::from("/host/sys/a\\x2d\t\nb/c")));
    }

    #[test]
    fn a_hierarchy_mounted_from_within_is_entered_below_its_root() {
        let mounts = mounts(V1);
        let memory = |cgroup| mounts.legacy("memory", cgroup);
        assert_eq!(memory("/docker/7/x"), Some(PathBuf::from("/host/sys/fs/cgroup/memory/x")));
        assert_eq!(memory("/docker/7"), Some(PathBuf::from("/host/sys/fs/cgroup/memory/")));
        for other in ["/other", "/docker/77", "/docker/77/x"] {
            assert_eq!(memory(other), None, "{other}");
        }
    }
}
