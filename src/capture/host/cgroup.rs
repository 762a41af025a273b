//! What the files of a cgroup say: of version 2, and of version 1 in the same fields and units.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::procfs::text::{signed, unsigned};
use super::mounts::Mounts;
use super::psi;
use crate::model::{CgroupCpuStats, CgroupIoStats, CgroupMemoryStats, CgroupPidsStats, CgroupStats, Limit, printable};

/// Reads a cgroup: from version 2 what that has, the rest from version 1.
pub(in crate::capture) fn read(mounts: &Mounts, cgroup: &str) -> CgroupStats {
    let unified = Files(mounts.unified(cgroup));
    let legacy = |controller| Files(mounts.legacy(controller, cgroup));
    CgroupStats {
        cpu: cpu(&unified, &legacy("cpu"), &legacy("cpuacct")),
        memory: memory(&unified, &legacy("memory")),
        pids: pids(&unified, &legacy("pids")),
        io: CgroupIoStats { stat: unified.io_stat() },
        psi: psi::read(|resource| unified.text(&format!("{resource}.pressure"))),
    }
}

fn cpu(unified: &Files, cpu: &Files, cpuacct: &Files) -> CgroupCpuStats {
    let stat = unified.pairs("cpu.stat").unwrap_or_default();
    let old_stat = cpu.pairs("cpu.stat").unwrap_or_default();
    let of = |key: &str| stat.get(key).or_else(|| old_stat.get(key)).copied();
    let (quota, period) = unified.cpu_max().unzip();
    CgroupCpuStats {
        usage_usec: of("usage_usec").or_else(|| Some(cpuacct.number("cpuacct.usage")? / 1000)),
        user_usec: of("user_usec").or_else(|| Some(cpuacct.number("cpuacct.usage_user")? / 1000)),
        system_usec: of("system_usec").or_else(|| Some(cpuacct.number("cpuacct.usage_sys")? / 1000)),
        nr_periods: of("nr_periods"),
        nr_throttled: of("nr_throttled"),
        throttled_usec: of("throttled_usec").or_else(|| Some(old_stat.get("throttled_time")? / 1000)),
        max_quota_us: quota.or_else(|| cpu.cfs_quota()),
        max_period_us: period.or_else(|| cpu.number("cpu.cfs_period_us")),
        weight: unified.number("cpu.weight").or_else(|| cpu.number("cpu.shares").map(weight_of_shares)),
        weight_nice: unified.text("cpu.weight.nice").and_then(|text| signed(text.trim_ascii())),
    }
}

/// The weight of version 2 that shares of version 1 (2 to 262,144) come to, by the formula of the
/// container runtimes: ends map to ends.
fn weight_of_shares(shares: u64) -> u64 {
    1 + shares.clamp(2, 262_144).saturating_sub(2) * 9999 / 262_142
}

fn memory(unified: &Files, legacy: &Files) -> CgroupMemoryStats {
    let number = |name, old| unified.number(name).or_else(|| legacy.number(old));
    CgroupMemoryStats {
        current: number("memory.current", "memory.usage_in_bytes"),
        peak: number("memory.peak", "memory.max_usage_in_bytes"),
        swap_current: unified.number("memory.swap.current"),
        max: unified.limit("memory.max").or_else(|| legacy.old_limit("memory.limit_in_bytes")),
        high: unified.limit("memory.high"),
        low: unified.limit("memory.low"),
        min: unified.limit("memory.min"),
        swap_max: unified.limit("memory.swap.max"),
        stat: unified.pairs("memory.stat").or_else(|| legacy.pairs("memory.stat")),
        events: unified.pairs("memory.events"),
    }
}

fn pids(unified: &Files, legacy: &Files) -> CgroupPidsStats {
    CgroupPidsStats {
        current: unified.number("pids.current").or_else(|| legacy.number("pids.current")),
        max: unified.limit("pids.max").or_else(|| legacy.limit("pids.max")),
    }
}

/// The files of one cgroup in one hierarchy, if it is there.
struct Files(Option<PathBuf>);

impl Files {
    fn text(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(Path::join(self.0.as_ref()?, name)).ok()
    }

    fn number(&self, name: &str) -> Option<u64> {
        unsigned(self.text(name)?.trim_ascii())
    }

    fn limit(&self, name: &str) -> Option<Limit> {
        limit(self.text(name)?.trim_ascii())
    }

    /// A limit of version 1, which has for none the largest multiple of the page size below 2^63.
    fn old_limit(&self, name: &str) -> Option<Limit> {
        let number = self.number(name)?;
        Some(if number >= i64::MAX as u64 & !0xffff { Limit::Max } else { Limit::Number(number) })
    }

    /// A quota of version 1: -1 is none.
    fn cfs_quota(&self) -> Option<Limit> {
        let quota = signed(self.text("cpu.cfs_quota_us")?.trim_ascii())?;
        Some(u64::try_from(quota).map_or(Limit::Max, Limit::Number))
    }

    /// `quota period`.
    fn cpu_max(&self) -> Option<(Limit, u64)> {
        let text = self.text("cpu.max")?;
        let mut words = text.trim_ascii().split(|&b| b == b' ');
        Some((limit(words.next()?)?, unsigned(words.next()?)?))
    }

    /// Lines of `key number`.
    fn pairs(&self, name: &str) -> Option<BTreeMap<String, u64>> {
        let text = self.text(name)?;
        let pairs = text.split(|&b| b == b'\n').filter_map(|line| {
            let blank = memchr::memchr(b' ', line)?;
            Some((printable(&line[..blank]).into_owned(), unsigned(&line[blank + 1..])?))
        });
        Some(pairs.collect())
    }

    /// Lines of `major:minor key=number ...`; devices without I/O have no keys.
    fn io_stat(&self) -> Option<BTreeMap<String, BTreeMap<String, u64>>> {
        let text = self.text("io.stat")?;
        let devices = text.split(|&b| b == b'\n').filter_map(|line| {
            let mut words = line.split(|&b| b == b' ').filter(|word| !word.is_empty());
            let device = printable(words.next()?).into_owned();
            let pair = |word: &[u8]| {
                let equals = memchr::memchr(b'=', word)?;
                Some((printable(&word[..equals]).into_owned(), unsigned(&word[equals + 1..])?))
            };
            Some((device, words.filter_map(pair).collect()))
        });
        Some(devices.collect())
    }
}

fn limit(text: &[u8]) -> Option<Limit> {
    if text == b"max" { Some(Limit::Max) } else { unsigned(text).map(Limit::Number) }
}

#[cfg(test)]
mod tests {
    use super::super::super::Roots;
    use super::*;

    /// Hierarchies under a directory of its own, with the given files.
    fn read_tree(mountinfo: &str, cgroup: &str, files: &[(&str, &str)]) -> CgroupStats {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("proc/self/mountinfo", mountinfo)].iter().chain(files) {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let roots = Roots { procfs: dir.path().join("proc"), sysfs: dir.path().join("sys"), cgroupfs: None };
        read(&Mounts::read(&roots), cgroup)
    }

    const V2: &str = "35 29 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const V1: &str = "1 1 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      2 1 0:2 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
                      3 1 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      4 1 0:4 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";

    #[test]
    fn version_2_files_fill_their_fields() {
        let stats = read_tree(
            V2,
            "/a",
            &[
                (
                    "sys/fs/cgroup/a/cpu.stat",
                    "usage_usec 5412000\nuser_usec 1\nnr_throttled 3\nthrottled_usec 70\nnr_bursts 0\n",
                ),
                ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
                ("sys/fs/cgroup/a/cpu.weight", "100\n"),
                ("sys/fs/cgroup/a/cpu.weight.nice", "-3\n"),
                ("sys/fs/cgroup/a/memory.current", "4096\n"),
                ("sys/fs/cgroup/a/memory.max", "max\n"),
                ("sys/fs/cgroup/a/memory.low", "8192\n"),
                ("sys/fs/cgroup/a/memory.stat", "anon 4096\nfile 0\n"),
                ("sys/fs/cgroup/a/pids.max", "77\n"),
                ("sys/fs/cgroup/a/io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n254:0 \n"),
                ("sys/fs/cgroup/a/cpu.pressure", "some avg10=1.50 avg60=0.00 avg300=0.00 total=9\n"),
            ],
        );
        assert_eq!(
            (stats.cpu.usage_usec, stats.cpu.nr_throttled, stats.cpu.system_usec),
            (Some(5_412_000), Some(3), None)
        );
        assert_eq!((stats.cpu.max_quota_us, stats.cpu.max_period_us), (Some(Limit::Max), Some(100_000)));
        assert_eq!((stats.cpu.weight, stats.cpu.weight_nice), (Some(100), Some(-3)));
        assert_eq!(
            (stats.memory.max, stats.memory.low, stats.memory.high),
            (Some(Limit::Max), Some(Limit::Number(8192)), None)
        );
        assert_eq!((stats.memory.stat.unwrap()["anon"], stats.memory.peak), (4096, None));
        assert_eq!((stats.pids.current, stats.pids.max), (None, Some(Limit::Number(77))));
        let io = stats.io.stat.unwrap();
        assert_eq!((io["8:0"]["wbytes"], io["254:0"].len()), (2, 0));
        assert_eq!(stats.psi.cpu.unwrap().some.unwrap().avg10, 150);
    }

    #[test]
    fn version_1_files_fill_the_same_fields_in_the_same_units() {
        let stats = read_tree(
            V1,
            "/a",
            &[
                ("sys/fs/cgroup/cpuacct/a/cpuacct.usage", "5412000999\n"),
                ("sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 10\nnr_throttled 3\nthrottled_time 70999\n"),
                ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n"),
                ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
                ("sys/fs/cgroup/cpu/a/cpu.shares", "1024\n"),
                ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4096\n"),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/a/memory.stat", "rss 4096\n"),
                ("sys/fs/cgroup/pids/a/pids.current", "2\n"),
                ("sys/fs/cgroup/pids/a/pids.max", "max\n"),
            ],
        );
        assert_eq!((stats.cpu.usage_usec, stats.cpu.throttled_usec), (Some(5_412_000), Some(70)));
        assert_eq!((stats.cpu.nr_periods, stats.cpu.max_quota_us), (Some(10), Some(Limit::Max)));
        assert_eq!((stats.cpu.max_period_us, stats.cpu.weight), (Some(100_000), Some(39)));
        assert_eq!((stats.memory.current, stats.memory.max), (Some(4096), Some(Limit::Max)));
        assert_eq!((stats.memory.stat.unwrap()["rss"], stats.memory.high), (4096, None));
        assert_eq!((stats.pids.current, stats.pids.max), (Some(2), Some(Limit::Max)));
        assert_eq!(stats.psi, crate::model::Psi::default());
    }

    #[test]
    fn a_hybrid_host_has_each_field_from_where_it_is() {
        let mounts = format!("{V1}35 29 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        let stats = read_tree(
            &mounts,
            "/a",
            &[
                ("sys/fs/cgroup/unified/a/cpu.stat", "usage_usec 7\n"),
                ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4096\n"),
            ],
        );
        assert_eq!((stats.cpu.usage_usec, stats.memory.current), (Some(7), Some(4096)));
        assert_eq!((stats.cpu.nr_throttled, stats.pids.current), (None, None));
    }

    #[test]
    fn shares_map_end_to_end() {
        assert_eq!([0, 2, 1024, 262_144, u64::MAX].map(weight_of_shares), [1, 1, 39, 10_000, 10_000]);
    }
}
