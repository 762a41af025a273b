//! The values in the files of a cgroup: version 2, and version 1 converted to the same units.

use std::collections::{BTreeMap, HashMap};

use super::super::procfs::directory::ProcDirectory;
use super::super::procfs::text::{lines, signed, unsigned, words};
use super::files::HostFiles;
use super::mounts::Mounts;
use super::psi;
use crate::model::sorted::CollectSorted;
use crate::model::{
    CGROUP_CPU, CGROUP_DEVICE, CGROUP_MEMORY, CGROUP_PIDS, CgroupDeviceStats, CgroupFile, CgroupStats, Conversion,
    MEMORY_EVENTS_V1, Place, RecordField, UNREACHABLE_LIMIT, Value, ValueType, WindowRule, printable,
};

/// Reads a cgroup: each value from the first file that has it.
pub(crate) fn read(host: &HostFiles<'_>, mounts: &Mounts, cgroup: &str) -> CgroupStats {
    let (mut stats, mut files) = read_counters(host, mounts, cgroup, CgroupStats::default());
    let is_other = |field: &ValueType| !is_counter(field);
    fill(CGROUP_CPU, is_other, &mut stats.cpu, &mut files);
    fill(CGROUP_MEMORY, is_other, &mut stats.memory, &mut files);
    fill(CGROUP_PIDS, is_other, &mut stats.pids, &mut files);
    stats.memory.stat =
        [None, Some("memory")].into_iter().find_map(|controller| files.text(controller, "memory.stat").map(pairs));
    stats
}

/// Reads only what counts, and pressure. All else is as it was `before`; a cgroup that was removed has no values.
pub(crate) fn read_again(host: &HostFiles<'_>, mounts: &Mounts, cgroup: &str, before: &CgroupStats) -> CgroupStats {
    let (stats, _) = read_counters(host, mounts, cgroup, before.clone());
    if stats.inode.is_some() { stats } else { CgroupStats::default() }
}

fn read_counters<'m>(
    host: &'m HostFiles<'m>,
    mounts: &'m Mounts,
    cgroup: &'m str,
    mut stats: CgroupStats,
) -> (CgroupStats, CgroupFiles<'m>) {
    let (directories, texts, buffer) = Default::default();
    let mut files = CgroupFiles { host, mounts, cgroup, directories, texts, buffer };
    fill(CGROUP_CPU, is_counter, &mut stats.cpu, &mut files);
    fill(CGROUP_MEMORY, is_counter, &mut stats.memory, &mut files);
    fill(CGROUP_PIDS, is_counter, &mut stats.pids, &mut files);
    stats.memory.events = files.text(None, "memory.events").map(pairs).or_else(|| files.memory_events_v1());
    stats.io.stat = files.text(None, "io.stat").map(devices).or_else(|| files.devices_v1());
    stats.psi = psi::read(|resource| files.read(None, &format!("{resource}.pressure")));
    (stats.inode, stats.inode_in) = files.inode();
    (stats, files)
}

fn is_counter(value_type: &ValueType) -> bool {
    value_type.window == WindowRule::Increase
}

fn fill<R>(
    table: &'static [RecordField<R, &'static [CgroupFile]>],
    is_wanted: impl Fn(&ValueType) -> bool,
    record: &mut R,
    files: &mut CgroupFiles<'_>,
) {
    for field in table.iter().filter(|field| is_wanted(&field.value_type)) {
        let value = field.source.iter().find_map(|file| files.value(file));
        // A malformed value is absent.
        let _ = value.map(|value| field.set(record, value));
    }
}

type Devices = BTreeMap<String, CgroupDeviceStats>;

/// The files of one cgroup in all hierarchies, each read once.
struct CgroupFiles<'m> {
    host: &'m HostFiles<'m>,
    mounts: &'m Mounts,
    cgroup: &'m str,
    /// Directories of the cgroup in the hierarchy of a controller of version 1, and in the one of version 2. Paths are long, and
    /// a cgroup is mostly in one hierarchy only.
    directories: HashMap<Option<&'static str>, Option<ProcDirectory>>,
    /// Contents of files, by controller and name.
    texts: HashMap<(Option<&'static str>, &'static str), Option<Vec<u8>>>,
    buffer: Vec<u8>,
}

impl CgroupFiles<'_> {
    fn text(&mut self, controller: Option<&'static str>, file: &'static str) -> Option<&[u8]> {
        if !self.texts.contains_key(&(controller, file)) {
            let text = self.read(controller, file);
            self.texts.insert((controller, file), text);
        }
        self.texts[&(controller, file)].as_deref()
    }

    fn read(&mut self, controller: Option<&'static str>, file: &str) -> Option<Vec<u8>> {
        let open = || {
            let path = match controller {
                None => self.mounts.unified(self.cgroup),
                Some(controller) => self.mounts.legacy(controller, self.cgroup),
            };
            self.host.directory(&path?)
        };
        let directory = self.directories.entry(controller).or_insert_with(open).as_ref()?;
        self.host.read_in(directory, file, &mut self.buffer).map(<[u8]>::to_vec)
    }

    /// The inode of its directory in version 2, or in the first hierarchy of version 1 where it was found, with the controller of
    /// that.
    fn inode(&self) -> (Option<u64>, Option<String>) {
        let found =
            self.directories.iter().filter_map(|(controller, directory)| Some((controller, directory.as_ref()?)));
        let first = found.min_by_key(|(controller, _)| *controller);
        first.map_or((None, None), |(controller, directory)| (directory.inode(), controller.map(str::to_owned)))
    }

    fn value(&mut self, file: &CgroupFile) -> Option<Value<'static>> {
        let text = self.text(file.controller, file.file)?;
        let value = number_or_max(match file.place {
            Place::Key(key) => lines(text).find_map(|line| line.strip_prefix(key.as_bytes())?.strip_prefix(b" "))?,
            Place::Word(number) => words(text.trim_ascii()).nth(number - 1)?,
            _ => text,
        })?;
        match (file.conversion, value) {
            (Conversion::Nanoseconds, Value::Unsigned(ns)) => Some(Value::Unsigned(ns / 1000)),
            (Conversion::Shares, Value::Unsigned(shares)) => Some(Value::Unsigned(weight_of_shares(shares))),
            (Conversion::NegativeIsMax, Value::Signed(_)) => Some(MAX),
            (Conversion::UnreachableIsMax | Conversion::LimitAbove(_), Value::Unsigned(UNREACHABLE_LIMIT..)) => {
                Some(MAX)
            }
            (Conversion::LimitAbove(below), Value::Unsigned(limit)) => {
                let below = unsigned(self.text(file.controller, below)?.trim_ascii())?;
                limit.checked_sub(below).map(Value::Unsigned)
            }
            (_, value) => Some(value),
        }
    }

    /// Version 1 has some of the events, in separate files.
    fn memory_events_v1(&mut self) -> Option<BTreeMap<String, u64>> {
        let event = |(key, file): &(&str, CgroupFile)| match self.value(file)? {
            Value::Unsigned(number) => Some(((*key).to_owned(), number)),
            _ => None,
        };
        let events: BTreeMap<_, _> = MEMORY_EVENTS_V1.iter().filter_map(event).into_map();
        (!events.is_empty()).then_some(events)
    }

    /// Lines of `major:minor operation number`, in one file for bytes and one for requests. A device with zeros only has no values,
    /// as in version 2: some kernels before Linux 6.5 do not count what they do not limit.
    fn devices_v1(&mut self) -> Option<Devices> {
        let mut devices: Option<Devices> = None;
        for field in CGROUP_DEVICE {
            let (file, operation) = field.source;
            let Some(text) = self.text(Some("blkio"), file) else { continue };
            let devices = devices.get_or_insert_default();
            for line in lines(text) {
                let [device, found, number] = words(line).collect::<Vec<_>>()[..] else { continue };
                if let Some(number) = unsigned(number).filter(|_| found == operation.as_bytes()) {
                    put(devices.entry(printable(device).into_owned()).or_default(), field, number);
                }
            }
        }
        let counts = |stats: &CgroupDeviceStats| {
            CGROUP_DEVICE.iter().any(|field| !matches!(field.get(stats), None | Some(Value::Unsigned(0))))
        };
        for stats in devices.iter_mut().flat_map(BTreeMap::values_mut).filter(|stats| !counts(stats)) {
            *stats = CgroupDeviceStats::default();
        }
        devices
    }
}

/// The kernel's word for no limit.
const MAX: Value<'static> = Value::Name("max");

fn number_or_max(text: &[u8]) -> Option<Value<'static>> {
    match text.trim_ascii() {
        b"max" => Some(MAX),
        text => unsigned(text).map(Value::Unsigned).or_else(|| signed(text).map(Value::Signed)),
    }
}

/// The weight of version 2 for shares of version 1 (2 to 262,144), by the formula of the container runtimes (runc 1.3.2,
/// crun 1.23), which maps both ends and the defaults to each other.
fn weight_of_shares(shares: u64) -> u64 {
    let doublings = (shares.clamp(2, 262_144) as f64).log2();
    let exponent = (doublings * doublings + 125.0 * doublings) / 612.0 - 7.0 / 34.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 10,000")]
    // Whole weights can be off by rounding.
    let weight = (10_f64.powf(exponent) - 1e-6).ceil() as u64;
    weight
}

/// Lines of `key number`.
fn pairs(text: &[u8]) -> BTreeMap<String, u64> {
    let pairs = lines(text).filter_map(|line| {
        let blank = memchr::memchr(b' ', line)?;
        Some((printable(&line[..blank]).into_owned(), unsigned(&line[blank + 1..])?))
    });
    pairs.into_map()
}

/// Lines of `major:minor key=number ...`. A device without I/O has no keys, and before Linux 5.19, the next device follows in its
/// line.
fn devices(text: &[u8]) -> Devices {
    let mut devices = Devices::new();
    for line in lines(text) {
        let mut device = String::new();
        for word in words(line) {
            if let Some(equals) = memchr::memchr(b'=', word) {
                let field = CGROUP_DEVICE.iter().find(|field| field.name.as_bytes() == &word[..equals]);
                let value = field.zip(unsigned(&word[equals + 1..]));
                let value = value.and_then(|value| Some((devices.get_mut(&device)?, value)));
                value.into_iter().for_each(|(stats, (field, number))| put(stats, field, number));
            } else if word.contains(&b':') {
                device = printable(word).into_owned();
                devices.entry(device.clone()).or_default();
            }
        }
    }
    devices
}

fn put<S>(stats: &mut CgroupDeviceStats, field: &RecordField<CgroupDeviceStats, S>, number: u64) {
    field.set(stats, Value::Unsigned(number)).expect("values of devices are numbers");
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::super::super::Roots;
    use super::*;

    /// The values of a cgroup with the given files.
    fn read_tree(mountinfo: &str, cgroup: &str, files: &[(&str, &str)]) -> serde_json::Value {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("proc/self/mountinfo", mountinfo)].iter().chain(files) {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let roots = Roots { procfs: dir.path().join("proc"), sysfs: dir.path().join("sys"), cgroupfs: None };
        let files = HostFiles::new(&roots);
        let mut stats = read(&files, &Mounts::read(&files), cgroup);
        assert!(stats.inode.take().is_some(), "it has a directory");
        stats.inode_in = None;
        serde_json::to_value(stats).unwrap()
    }

    const V2: &str = "35 29 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const V1: &str = "1 1 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      2 1 0:2 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
                      3 1 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      4 1 0:4 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                      5 1 0:5 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n";

    #[test]
    fn a_cgroup_that_was_removed_has_no_values_instead_of_old_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("proc/self")).unwrap();
        fs::create_dir_all(path("sys/fs/cgroup/a")).unwrap();
        fs::write(path("proc/self/mountinfo"), V2).unwrap();
        fs::write(path("sys/fs/cgroup/a/cpu.stat"), "usage_usec 7\n").unwrap();
        fs::write(path("sys/fs/cgroup/a/memory.current"), "4096\n").unwrap();
        let roots = Roots { procfs: path("proc"), sysfs: path("sys"), cgroupfs: None };
        let (files, again) = (HostFiles::new(&roots), HostFiles::new(&roots));
        let before = read(&files, &Mounts::read(&files), "/a");
        let values = |stats: &CgroupStats| serde_json::to_value((stats.cpu.usage_usec, stats.memory.current)).unwrap();
        assert_eq!(values(&before), json!([7, 4096]));
        fs::write(path("sys/fs/cgroup/a/cpu.stat"), "usage_usec 9\n").unwrap();
        assert_eq!(values(&read_again(&again, &Mounts::read(&again), "/a", &before)), json!([9, 4096]));
        fs::remove_dir_all(path("sys/fs/cgroup/a")).unwrap();
        let again = HostFiles::new(&roots);
        assert_eq!(values(&read_again(&again, &Mounts::read(&again), "/a", &before)), json!([null, null]));
    }

    #[test]
    fn version_2_files_fill_their_values() {
        // Linux 6.12.
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
                ("sys/fs/cgroup/a/memory.events", "low 0\nhigh 0\nmax 2\noom 0\noom_kill 0\n"),
                ("sys/fs/cgroup/a/pids.max", "77\n"),
                (
                    "sys/fs/cgroup/a/io.stat",
                    "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6 x=7\n254:0 \n7:1 7:0 rbytes=9\n",
                ),
                ("sys/fs/cgroup/a/cpu.pressure", "some avg10=1.50 avg60=0.00 avg300=0.00 total=9\n"),
            ],
        );
        let expected = json!({
            "cpu": {
                "usage_usec": 5_412_000, "user_usec": 1, "nr_throttled": 3, "throttled_usec": 70,
                "max_quota_us": "max", "max_period_us": 100_000, "weight": 100, "weight_nice": -3,
            },
            "memory": {
                "current": 4096, "max": "max", "low": 8192, "stat": {"anon": 4096, "file": 0},
                "events": {"low": 0, "high": 0, "max": 2, "oom": 0, "oom_kill": 0},
            },
            "pids": {"max": 77},
            "io": {"stat": {
                "8:0": {"rbytes": 1, "wbytes": 2, "rios": 3, "wios": 4, "dbytes": 5, "dios": 6},
                "254:0": {}, "7:0": {"rbytes": 9}, "7:1": {},
            }},
            "psi": {"cpu": {"some": {"avg10": 150, "avg60": 0, "avg300": 0, "total_usec": 9}}},
        });
        assert_eq!(stats, expected);
    }

    #[test]
    fn version_1_files_fill_the_same_values_in_the_same_units() {
        // Linux 6.18.
        let requests = "8:0 Read 3\n8:0 Write 4\n8:0 Sync 0\n8:0 Async 7\n8:0 Discard 6\n8:0 Total 13\nTotal 13\n";
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
                ("sys/fs/cgroup/memory/a/memory.max_usage_in_bytes", "8192\n"),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "65536\n"),
                ("sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", "98304\n"),
                ("sys/fs/cgroup/memory/a/memory.failcnt", "12\n"),
                ("sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
                ("sys/fs/cgroup/memory/a/memory.stat", "rss 4096\ntotal_swap 512\n"),
                ("sys/fs/cgroup/blkio/a/blkio.throttle.io_serviced_recursive", requests),
                (
                    "sys/fs/cgroup/blkio/a/blkio.throttle.io_service_bytes_recursive",
                    "8:0 Read 4096\n8:1 Read 0\n8:1 Write 0\nTotal 4096\n",
                ),
                ("sys/fs/cgroup/pids/a/pids.current", "2\n"),
                ("sys/fs/cgroup/pids/a/pids.max", "max\n"),
            ],
        );
        let expected = json!({
            "cpu": {
                "usage_usec": 5_412_000, "nr_periods": 10, "nr_throttled": 3, "throttled_usec": 70,
                "max_quota_us": "max", "max_period_us": 100_000, "weight": 100,
            },
            "memory": {
                "current": 4096, "peak": 8192, "swap_current": 512, "max": 65_536, "swap_max": 32_768,
                "stat": {"rss": 4096, "total_swap": 512}, "events": {"max": 12, "oom_kill": 1},
            },
            "pids": {"current": 2, "max": "max"},
            "io": {"stat": {"8:0": {"rbytes": 4096, "rios": 3, "wios": 4, "dios": 6}, "8:1": {}}},
        });
        assert_eq!(stats, expected);
    }

    #[test]
    fn a_limit_that_no_counter_reaches_is_none() {
        let limits = |memory: &str, both: &str| {
            let memory = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", memory);
            read_tree(V1, "/a", &[memory, ("sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", both)])
        };
        let none = "9223372036854771712\n";
        assert_eq!(limits(none, none), json!({"memory": {"max": "max", "swap_max": "max"}}));
        assert_eq!(limits("4096\n", none), json!({"memory": {"max": 4096, "swap_max": "max"}}));
        assert_eq!(limits("4096\n", "4095\n"), json!({"memory": {"max": 4096}}), "no sum of both");
    }

    #[test]
    fn a_hybrid_host_has_each_value_from_its_hierarchy() {
        let mounts = format!("{V1}35 29 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        let stats = read_tree(
            &mounts,
            "/a",
            &[
                ("sys/fs/cgroup/unified/a/cpu.stat", "usage_usec 7\n"),
                ("sys/fs/cgroup/cpu/a/cpu.stat", "nr_throttled 2\n"),
                ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4096\n"),
            ],
        );
        assert_eq!(stats, json!({"cpu": {"usage_usec": 7, "nr_throttled": 2}, "memory": {"current": 4096}}));
    }

    #[test]
    fn a_malformed_value_is_absent() {
        let stats = read_tree(
            V2,
            "/a",
            &[
                ("sys/fs/cgroup/a/cpu.stat", "usage_usec\nuser_usec x\nsystem_usec max\nnr_periods -1\n"),
                ("sys/fs/cgroup/a/memory.max", "\n"),
                ("sys/fs/cgroup/a/io.stat", "8:0 rbytes=x wbytes= rios\n\n"),
            ],
        );
        assert_eq!(stats, json!({"io": {"stat": {"8:0": {}}}}));
    }

    #[test]
    fn shares_map_end_to_end_and_default_to_default() {
        assert_eq!([0, 2, 102, 1024, 262_144, u64::MAX].map(weight_of_shares), [1, 1, 17, 100, 10_000, 10_000]);
    }
}
