//! The host context: settings of the host that comparisons need.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use nix::libc;
use nix::sys::utsname::UtsName;
use nix::unistd::{SysconfVar, sysconf};

use super::super::options::Tree;
use super::super::procfs::text::cpu_list;
use super::super::start::nanoseconds;
use super::super::thread_flags::WholeNames;
use super::files::HostFiles;
use super::heap;
use super::kconfig::Kconfig;
use super::mounts::Mounts;
use crate::model::sorted::CollectSorted;
use crate::model::{Built, HostContext, Switch, at_least};

/// Facts that stay the same while the host is up, and are read once.
pub(crate) struct BootConstants {
    /// Only these values; the rest are absent.
    host: HostContext,
    kconfig: Kconfig,
    /// False for a procfs with the mount option `subset=pid`, which has only processes.
    has_sysctls: bool,
}

impl BootConstants {
    pub(crate) fn read(files: &HostFiles<'_>) -> Self {
        let is_live = files.roots.tree() != Tree::Elsewhere;
        let kernel = |name: &str| files.line_of_procfs(&format!("sys/kernel/{name}"));
        let cpuinfo = keyed_lines(files, "cpuinfo");
        let uname = is_live.then(|| nix::sys::utsname::uname().ok()).flatten();
        let named = |part: fn(&UtsName) -> &OsStr| Some(part(uname.as_ref()?).to_str()?.to_owned());
        let sysctl_of_release = kernel("osrelease");
        let has_sysctls = sysctl_of_release.is_some();
        let kernel_release = sysctl_of_release.or_else(|| named(UtsName::release));
        let boot = if is_live { Path::new("/boot") } else { Path::new("") };
        let kconfig = Kconfig::read(files, boot, kernel_release.as_deref());
        let host = HostContext {
            boot_id: kernel("random/boot_id"),
            hostname: named(UtsName::nodename),
            kernel_name: kernel("ostype").or_else(|| named(UtsName::sysname)),
            kernel_release,
            kernel_version: kernel("version").or_else(|| named(UtsName::version)),
            kernel_cmdline: files.line_of_procfs("cmdline"),
            arch: named(UtsName::machine),
            cpu_model: cpuinfo.get("model name").or_else(|| cpuinfo.get("CPU part")).cloned(),
            cpu_vendor: cpuinfo.get("vendor_id").or_else(|| cpuinfo.get("CPU implementer")).cloned(),
            cpu_microcode: cpuinfo.get("microcode").cloned(),
            hypervisor: hypervisor(files, &cpuinfo),
            clock_ticks_per_second: setting(SysconfVar::CLK_TCK),
            page_size: setting(SysconfVar::PAGE_SIZE),
            config_task_xacct: Some(kconfig.built("TASK_XACCT")),
            config_irq_time_accounting: Some(irq_time_accounting(files, &kconfig)),
            pid_namespace_initial: is_live.then(|| is_of_initial_pid_namespace(&files.roots.procfs)).flatten(),
            ..HostContext::default()
        };
        Self { host, kconfig, has_sysctls }
    }

    /// Whether the kernel has this version or a newer one.
    pub(crate) fn is_at_least(&self, version: (u32, u32)) -> bool {
        at_least(self.host.kernel_release.as_deref(), version)
    }

    fn is_booted_with(&self, option: &str) -> bool {
        self.host.kernel_cmdline.as_deref().is_some_and(|line| line.split(' ').any(|word| word == option))
    }

    /// A switch of this kernel whose sysctl does not exist. Where the option is built in, the sysctl is hidden.
    fn without_sysctl(&self, option: &str) -> Switch {
        if self.has_sysctls && self.kconfig.built(option) != Built::On { Switch::ConfigOff } else { Switch::Unknown }
    }

    /// Delay accounting without its sysctl, which exists since Linux 5.14; older kernels enable it wherever it is built
    /// in, unless the command line disables it.
    fn delay_accounting_without_sysctl(&self) -> Switch {
        match self.kconfig.built("TASK_DELAY_ACCT") {
            _ if self.is_at_least((5, 14)) => self.without_sysctl("TASK_DELAY_ACCT"),
            Built::Off => Switch::ConfigOff,
            Built::On | Built::Unknown if self.is_booted_with("nodelayacct") => Switch::RuntimeOff,
            Built::On => Switch::On,
            Built::Unknown => Switch::Unknown,
        }
    }

    /// Pressure accounting. If it is disabled, its files do not exist or cannot be read, with an error of their own.
    fn pressure(&self, files: &HostFiles<'_>) -> Switch {
        match files.read(&files.roots.procfs.join("pressure/cpu")) {
            Ok(_) => Switch::On,
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Switch::RuntimeOff,
            Err(error) if error.kind() != ErrorKind::NotFound => Switch::Unknown,
            Err(_) if self.is_booted_with("psi=0") => Switch::RuntimeOff,
            Err(_) if !self.has_sysctls => Switch::Unknown,
            Err(_) => match self.kconfig.built("PSI") {
                Built::On => Switch::RuntimeOff,
                Built::Off => Switch::ConfigOff,
                // No kernel has the files otherwise: one that lacks the option, or one that has disabled it.
                Built::Unknown if files.roots.tree() != Tree::Elsewhere => Switch::RuntimeOff,
                Built::Unknown => Switch::Unknown,
            },
        }
    }
}

/// Reads the host's context. A file that cannot be read leaves its field absent.
pub(crate) fn read(files: &HostFiles<'_>, mounts: &Mounts, boot: &BootConstants) -> HostContext {
    let thp = |name: &str| files.line_of_sysfs(&format!("kernel/mm/transparent_hugepage/{name}"));
    let meminfo = keyed_lines(files, "meminfo");
    let memory = |key: &str| meminfo.get(key)?.split(' ').next()?.parse().ok();
    let schedstats = switch(files, "sched_schedstats").unwrap_or_else(|| boot.without_sysctl("SCHEDSTATS"));
    let delays = switch(files, "task_delayacct").unwrap_or_else(|| boot.delay_accounting_without_sysctl());
    let online_cpus = listed(files, "cpu");
    HostContext {
        hostname: files.line_of_procfs("sys/kernel/hostname").or_else(|| boot.host.hostname.clone()),
        uptime_ns: uptime(files),
        cpufreq_governor: online_cpus.as_deref().and_then(|cpus| governors(files, cpus)),
        online_cpus: online_cpus.and_then(|cpus| u64::try_from(cpus.len()).ok()),
        numa_nodes: listed(files, "node").and_then(|nodes| u64::try_from(nodes.len()).ok()),
        total_memory_kib: memory("MemTotal"),
        hugepages_total: memory("HugePages_Total"),
        hugepages_free: memory("HugePages_Free"),
        hugepages_size_kib: memory("Hugepagesize"),
        thp_enabled: thp("enabled"),
        thp_defrag: thp("defrag"),
        sched_tunables: tunables(files),
        loadavg: files.line_of_procfs("loadavg"),
        task_delayacct: Some(delays),
        sched_schedstats: Some(schedstats),
        psi: Some(boot.pressure(files)),
        proc_hidepid: mounts.hidepid.clone(),
        cgroup_layout: Some(mounts.layout()),
        cgroup_mount: mounts.point(),
        heap_state: heap::state(),
        ..boot.host.clone()
    }
}

/// `sysconf(3)`, if the result is a number.
fn setting(variable: SysconfVar) -> Option<u64> {
    u64::try_from(sysconf(variable).ok().flatten()?).ok()
}

/// Where the configuration cannot be read, the pressure of interrupts proves it: its file is built under the same option, and says
/// nothing if interrupts are not measured.
fn irq_time_accounting(files: &HostFiles<'_>, kconfig: &Kconfig) -> Built {
    let is_measured = || files.read(&files.roots.procfs.join("pressure/irq")).is_ok();
    match kconfig.built("IRQ_TIME_ACCOUNTING") {
        Built::Unknown if is_measured() => Built::On,
        built => built,
    }
}

fn uptime(files: &HostFiles<'_>) -> Option<u64> {
    let text = files.line_of_procfs("uptime")?;
    let seconds = f64::from_str(text.split(' ').next()?).ok()?;
    Some(nanoseconds(Duration::try_from_secs_f64(seconds).ok()?))
}

/// A run-time switch by its sysctl; `None` if that does not exist.
fn switch(files: &HostFiles<'_>, sysctl: &str) -> Option<Switch> {
    match files.read(&files.roots.procfs.join("sys/kernel").join(sysctl)) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(_) => Some(Switch::Unknown),
        Ok(text) => Some(match text.trim_ascii() {
            b"0" => Switch::RuntimeOff,
            b"1" => Switch::On,
            _ => Switch::Unknown,
        }),
    }
}

/// `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether procfs shows the initial PID namespace; `None` if that is unknown.
fn is_of_initial_pid_namespace(procfs: &Path) -> Option<bool> {
    let own = fs::read_link(procfs.join("self")).ok()?;
    // Where procfs shows a namespace above that of this process, its first process is in the shown one.
    let process = if own.as_os_str() == &*std::process::id().to_string() { "self" } else { "1" };
    let link = fs::read_link(procfs.join(process).join("ns/pid")).ok()?;
    Some(link.as_os_str() == INITIAL_PID_NAMESPACE)
}

/// The kernel threads with names that this kernel prints in full.
pub(crate) fn whole_names(host: &HostContext) -> WholeNames {
    let since = |version| at_least(host.kernel_release.as_deref(), version);
    WholeNames { kthreads: since((5, 17)), workqueue_workers: since((6, 11)) }
}

/// The CPUs or nodes that are online.
fn listed(files: &HostFiles<'_>, devices: &str) -> Option<Vec<u32>> {
    cpu_list(files.line_of_sysfs(&format!("devices/system/{devices}/online"))?.as_bytes())
}

fn governors(files: &HostFiles<'_>, cpus: &[u32]) -> Option<BTreeMap<String, String>> {
    let governor = |cpu: &u32| {
        let governor = files.line_of_sysfs(&format!("devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))?;
        Some((cpu.to_string(), governor))
    };
    Some(cpus.iter().filter_map(governor).into_map()).filter(|map| !map.is_empty())
}

fn tunables(files: &HostFiles<'_>) -> Option<BTreeMap<String, String>> {
    let entries = files.entries(&files.roots.procfs.join("sys/kernel")).ok()?.flatten();
    let tunables = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok().filter(|name| name.starts_with("sched_"))?;
        Some((name, files.line(&entry.path())?))
    });
    Some(tunables.into_map())
}

/// The values of a file of `key : value` lines; the first line of a key counts.
fn keyed_lines(files: &HostFiles<'_>, name: &str) -> BTreeMap<String, String> {
    let text = files.line_of_procfs(name).unwrap_or_default();
    let pairs = text.lines().rev().filter_map(|line| line.split_once(':'));
    pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).into_map()
}

/// Returns the hypervisor, from its own name or from the machine that it shows. x86 has a flag that tells whether there is one.
fn hypervisor(files: &HostFiles<'_>, cpuinfo: &BTreeMap<String, String>) -> Option<String> {
    let is_virtual = cpuinfo.get("flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let named = || files.line_of_sysfs("hypervisor/type").or_else(|| files.line_of_sysfs("class/dmi/id/sys_vendor"));
    match is_virtual {
        Some(true) => Some(named().unwrap_or_else(|| "unknown".to_owned())),
        Some(false) => Some("none".to_owned()),
        None => files.line_of_sysfs("hypervisor/type"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::options::Roots;
    use super::*;

    /// A kernel of this release, with the configuration in `dir`.
    fn booted(dir: &tempfile::TempDir, release: &str, cmdline: Option<&str>) -> BootConstants {
        let roots = Roots { procfs: dir.path().to_owned(), ..Roots::default() };
        let host = HostContext {
            kernel_release: Some(release.to_owned()),
            kernel_cmdline: cmdline.map(str::to_owned),
            ..HostContext::default()
        };
        let kconfig = Kconfig::read(&HostFiles::new(&roots), dir.path(), Some(release));
        BootConstants { host, kconfig, has_sysctls: true }
    }

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, HostContext) {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let roots = Roots { procfs: dir.path().join("proc"), sysfs: dir.path().join("sys"), cgroupfs: None };
        let files = HostFiles::new(&roots);
        let host = read(&files, &Mounts::read(&files), &BootConstants::read(&files));
        (dir, host)
    }

    #[test]
    fn an_empty_tree_gives_absence_not_zeros() {
        let (_dir, host) = tree(&[]);
        assert_eq!((host.hostname, host.total_memory_kib, host.online_cpus), (None, None, None));
        assert_eq!((host.cgroup_mount, host.loadavg), (None, None));
    }

    #[test]
    fn fields_come_from_their_files() {
        let (_dir, host) = tree(&[
            ("proc/sys/kernel/hostname", "db1\n"),
            ("proc/sys/kernel/osrelease", "7.3.4+deb13-cloud-amd64\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/uptime", "2.31 0.90\n"),
            ("proc/meminfo", "MemTotal:        2017892 kB\nHugePages_Total:       3\nHugepagesize:       2048 kB\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: First\nmicrocode\t: 0xd0\nflags\t\t: fpu hypervisor lahf_lm\n\nprocessor\t: 1\nmodel name\t: Second\n",
            ),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n"),
        ]);
        assert_eq!(host.hostname.as_deref(), Some("db1"));
        assert_eq!(host.uptime_ns, Some(2_310_000_000));
        assert_eq!((host.total_memory_kib, host.hugepages_total), (Some(2_017_892), Some(3)));
        assert_eq!(host.cpu_model.as_deref(), Some("First"));
        assert_eq!((host.cpu_microcode.as_deref(), host.hypervisor.as_deref()), (Some("0xd0"), Some("QEMU")));
        assert_eq!(host.online_cpus, Some(4));
        assert_eq!(host.cpufreq_governor.unwrap()["2"], "performance");
        assert_eq!(host.sched_tunables.unwrap()["sched_rt_runtime_us"], "950000");
    }

    #[test]
    fn disabled_pressure_differs_from_pressure_that_is_not_built_in() {
        let psi = |files: &[(&str, &str)]| tree(files).1.psi.unwrap();
        assert_eq!(psi(&[("proc/pressure/cpu", "some avg10=0.00\n")]), Switch::On);
        assert_eq!(psi(&[("proc/cmdline", "quiet psi=0\n")]), Switch::RuntimeOff);
        assert_eq!(psi(&[("proc/cmdline", "quiet\n")]), Switch::Unknown);
        assert_eq!(psi(&[("proc/pressure/cpu/x", "")]), Switch::Unknown, "read with an error that says nothing of it");
    }

    #[test]
    fn a_missing_switch_is_unknown_on_kernels_that_had_none_yet() {
        let delayacct = |release: &str| tree(&[("proc/sys/kernel/osrelease", release)]).1.task_delayacct;
        assert_eq!(delayacct("5.10.0-32-cloud-amd64"), Some(Switch::Unknown));
        assert_eq!(delayacct("6.12.107+deb13"), Some(Switch::ConfigOff));
        assert_eq!(delayacct("nonsense"), Some(Switch::Unknown));
        assert_eq!(tree(&[("proc/sys/kernel/task_delayacct", "0\n")]).1.task_delayacct, Some(Switch::RuntimeOff));
    }

    #[test]
    fn a_switch_that_cannot_be_read_is_one_that_the_kernel_lacks() {
        let switches = |files: &[(&str, &str)]| {
            let host = tree(files).1;
            [host.sched_schedstats.unwrap(), host.task_delayacct.unwrap()]
        };
        let release = ("proc/sys/kernel/osrelease", "6.12.107+deb13");
        assert_eq!(switches(&[release]), [Switch::ConfigOff; 2]);
        // A container can mask a file by an empty one, or by a directory.
        let (schedstats, delayacct) = ("proc/sys/kernel/sched_schedstats", "proc/sys/kernel/task_delayacct");
        assert_eq!(switches(&[release, (schedstats, ""), (delayacct, "")]), [Switch::Unknown; 2]);
        let inside = [format!("{schedstats}/x"), format!("{delayacct}/x")];
        assert_eq!(switches(&[release, (&inside[0], ""), (&inside[1], "")]), [Switch::Unknown; 2]);
        assert_eq!(switches(&[release, (schedstats, "1\n"), (delayacct, "0\n")]), [Switch::On, Switch::RuntimeOff]);
    }

    #[test]
    fn what_the_configuration_says_exists_is_hidden_where_procfs_has_only_processes() {
        let dir = tempfile::tempdir().unwrap();
        let config = |text: &str| {
            fs::write(dir.path().join("config-6.12"), text).unwrap();
            let mut boot = booted(&dir, "6.12", None);
            let roots = Roots { procfs: dir.path().to_owned(), ..Roots::default() };
            let with_sysctls = boot.without_sysctl("SCHEDSTATS");
            boot.has_sysctls = false;
            assert_eq!(boot.pressure(&HostFiles::new(&roots)), Switch::Unknown);
            [with_sysctls, boot.without_sysctl("SCHEDSTATS")]
        };
        assert_eq!(config("CONFIG_SCHEDSTATS=y\nCONFIG_PSI=y\n"), [Switch::Unknown; 2]);
        let without = config("# CONFIG_SCHEDSTATS is not set\n# CONFIG_PSI is not set\n");
        assert_eq!(without, [Switch::ConfigOff, Switch::Unknown], "all sysctls are hidden");
    }

    #[test]
    fn a_recorded_tree_has_no_properties_of_the_machine_that_reads_it() {
        let roots = Roots::default();
        let files = HostFiles::new(&roots);
        let live = read(&files, &Mounts::default(), &BootConstants::read(&files));
        assert!(live.kernel_release.is_some() && live.hostname.is_some());
        assert_eq!((live.arch.as_deref(), live.clock_ticks_per_second), (Some(std::env::consts::ARCH), Some(100)));
        assert!(live.page_size.is_some_and(|bytes| bytes.is_power_of_two() && bytes >= 4096));
        let (_dir, recorded) = tree(&[("proc/self/ns/pid", "")]);
        assert_eq!((recorded.arch, recorded.pid_namespace_initial), (None, None));
        assert_eq!((recorded.kernel_release, recorded.hostname), (None, None));
    }

    #[test]
    fn the_initial_pid_namespace_is_known_by_the_number_of_the_one_that_procfs_shows() {
        let [initial, other] = ["pid:[4026531836]", "pid:[4026532281]"];
        let is_initial = |own: u32, namespaces: &[(u32, &str)]| {
            let dir = tempfile::tempdir().unwrap();
            std::os::unix::fs::symlink(own.to_string(), dir.path().join("self")).unwrap();
            for (pid, namespace) in namespaces {
                let directory = dir.path().join(pid.to_string()).join("ns");
                fs::create_dir_all(&directory).unwrap();
                std::os::unix::fs::symlink(namespace, directory.join("pid")).unwrap();
            }
            is_of_initial_pid_namespace(dir.path())
        };
        let own = std::process::id();
        assert_eq!([is_initial(own, &[(own, initial)]), is_initial(own, &[(own, other)])], [Some(true), Some(false)]);
        let of_host = [(own + 1, other), (1, initial)];
        assert_eq!(is_initial(own + 1, &of_host), Some(true), "this process is in a namespace below");
        assert_eq!(is_initial(own + 1, &of_host[..1]), None, "for root alone");
        assert_eq!(is_of_initial_pid_namespace(Path::new("/nonexistent")), None);
    }

    #[test]
    fn kernels_print_names_of_kernel_threads_in_full_since_5_17_and_of_workqueues_since_6_11() {
        for (release, kthreads, workqueue_workers) in [
            (Some("5.16.20"), false, false),
            (Some("5.17.0"), true, false),
            (Some("6.10.14"), true, false),
            (Some("6.11.0"), true, true),
            (None, false, false),
        ] {
            let host = HostContext { kernel_release: release.map(str::to_owned), ..HostContext::default() };
            let WholeNames { kthreads: names, workqueue_workers: workers } = whole_names(&host);
            assert_eq!((names, workers), (kthreads, workqueue_workers), "{release:?}");
        }
    }

    #[test]
    fn delay_accounting_of_old_kernels_is_on_unless_their_command_line_disables_it() {
        let dir = tempfile::tempdir().unwrap();
        let switch = |release: &str, config: &str, cmdline: Option<&str>| {
            fs::write(dir.path().join(format!("config-{release}")), config).unwrap();
            booted(&dir, release, cmdline).delay_accounting_without_sysctl()
        };
        let (built, not_built) = ("CONFIG_TASK_DELAY_ACCT=y\n", "# CONFIG_TASK_DELAY_ACCT is not set\n");
        for (config, cmdline, expected) in [
            (built, None, Switch::On),
            (built, Some("quiet"), Switch::On),
            (built, Some("quiet nodelayacct"), Switch::RuntimeOff),
            (built, Some("quiet nodelayacct=1"), Switch::On),
            (not_built, None, Switch::ConfigOff),
            (not_built, Some("nodelayacct"), Switch::ConfigOff),
        ] {
            assert_eq!(switch("5.10", config, cmdline), expected, "{cmdline:?}");
        }
        assert_eq!(switch("5.14", built, Some("nodelayacct")), Switch::Unknown, "its sysctl is hidden");
    }
}
