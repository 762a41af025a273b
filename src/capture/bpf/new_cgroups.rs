//! Cgroups that are made while exits are recorded: that of a job can be gone before a capture sees it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::columns::CGROUP_OF;
use super::layout::{Field, Layout, ThreadRecord};
use super::program::NEW_CGROUP_HEAD;
use crate::model::{Name, printable};

/// Beyond this many, the cgroup of threads that exit in a new one is unknown.
const MAX_CGROUPS: usize = 1 << 16;
/// `PROC_CGROUP_INIT_INO` of include/linux/proc_ns.h.
const INITIAL_NAMESPACE: u64 = 0xEFFF_FFFB;

/// Whether the kernel's paths are those that captures see.
pub(super) fn paths_are_those_of_captures() -> bool {
    fs::metadata("/proc/self/ns/cgroup").is_ok_and(|namespace| namespace.ino() == INITIAL_NAMESPACE)
}

/// The cgroups that were made since exits are recorded.
pub(super) struct NewCgroups {
    /// Where the record of an exit has the addresses of the thread's cgroups.
    fields: [Option<Field>; CGROUP_OF.len()],
    /// The place in `paths` of the cgroup that is at an address now.
    at_address: HashMap<u64, usize>,
    paths: Vec<Name>,
    /// How many paths were asked for since [`forget_told`](Self::forget_told).
    told: usize,
}

impl NewCgroups {
    pub(super) fn new(layout: &Layout) -> Self {
        Self { fields: CGROUP_OF.map(|path| layout.find(path)), at_address: HashMap::new(), paths: Vec::new(), told: 0 }
    }

    /// Adds the cgroup of a record, and returns its path, empty if it is unknown; `None` if the record is that of a thread.
    pub(super) fn add(&mut self, record: &[u64]) -> Option<Name> {
        let Some((&[0, address], path)) = record.split_first_chunk::<NEW_CGROUP_HEAD>() else { return None };
        let bytes: Vec<u8> = path.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        // The kernel cuts longer paths.
        let is_whole = length + 1 < bytes.len();
        // The address may be that of a cgroup that has ended.
        self.at_address.remove(&address);
        if !is_whole || self.paths.len() >= MAX_CGROUPS {
            return Some(Name::default());
        }
        let path = Name::from(printable(&bytes[..length]));
        self.at_address.insert(address, self.paths.len());
        self.paths.push(Name::clone(&path));
        Some(path)
    }

    /// Replaces the addresses of cgroups in the record of an exit by the number of the new one that the thread is grouped by,
    /// or 0: an address can be that of another cgroup later.
    pub(super) fn identify(&self, exiting: &mut [u64]) {
        let [.., unified] = self.fields;
        let number = ThreadRecord::split(exiting).map_or(0, |(record, _)| self.number(record));
        self.fields.iter().flatten().for_each(|field| exiting[field.slot()] = 0);
        if let Some(field) = unified {
            exiting[field.slot()] = number;
        }
    }

    /// One more than the place of the deepest path, as captures identify cgroups; 0 without a new one.
    fn number(&self, record: ThreadRecord<'_>) -> u64 {
        let addresses = self.fields.iter().rev().filter_map(|field| record.number(*field));
        let places = addresses.filter_map(|address| self.at_address.get(&address).copied());
        let deepest = places.max_by_key(|place| self.paths[*place].matches('/').count());
        deepest.map_or(0, |place| place as u64 + 1)
    }

    /// The number of addresses and paths.
    pub(super) fn entries(&self) -> usize {
        self.at_address.len() + self.paths.len()
    }

    /// The path of each number that was not returned before: a series may have thousands, and few in each step.
    pub(super) fn new_paths(&mut self) -> impl Iterator<Item = (u64, Name)> {
        let told = std::mem::replace(&mut self.told, self.paths.len());
        (1..).zip(self.paths.iter().cloned()).skip(told)
    }

    /// Makes the next call of [`new_paths`](Self::new_paths) return all paths.
    pub(super) fn forget_told(&mut self) {
        self.told = 0;
    }
}

/// Where a record has the number of the new cgroup that its thread was in.
pub(super) fn number_field(layout: &Layout) -> Option<Field> {
    let [.., unified] = CGROUP_OF;
    layout.find(unified)
}

#[cfg(test)]
mod tests {
    use super::super::layout::{HEAD, RecordColumn, RecordScope};
    use super::super::path::FieldLocation;
    use super::*;

    /// A layout with the addresses of cgroups only.
    fn layout() -> Layout {
        let column = |(place, path): (usize, &'static str)| RecordColumn {
            path,
            part: RecordScope::Process,
            place: FieldLocation { size: 8, ..FieldLocation::default() },
            slot: HEAD + place,
            words: 1,
        };
        Layout { columns: CGROUP_OF.into_iter().enumerate().map(column).collect(), ..Layout::default() }
    }

    /// The record of a new cgroup, with what was in the ring before behind the path.
    fn made(address: u64, path: &str) -> Vec<u64> {
        let mut bytes = [path.as_bytes(), b"\0"].concat();
        bytes.resize(1024.max(path.len()), b'x');
        let words = bytes[..1024].chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        [0, address].into_iter().chain(words).collect()
    }

    /// The path of the new cgroup that a thread in those at these addresses is grouped by.
    fn identified(cgroups: &mut NewCgroups, addresses: [u64; CGROUP_OF.len()]) -> Option<Name> {
        let words = (HEAD + CGROUP_OF.len()) as u64;
        let mut record: Vec<u64> = [words, 0, 0, 0, 0].into_iter().chain(addresses).collect();
        cgroups.identify(&mut record);
        let (record, _) = ThreadRecord::split(&record).unwrap();
        let number = record.number(number_field(&layout())).unwrap();
        cgroups.forget_told();
        cgroups.new_paths().find(|(of, _)| *of == number).map(|(_, path)| path)
    }

    #[test]
    fn a_thread_is_in_the_deepest_of_the_new_cgroups_and_in_the_first_of_equal_ones() {
        let mut cgroups = NewCgroups::new(&layout());
        for (address, path) in [(0xa, "/job"), (0xb, "/job/deep"), (0xc, "/other"), (0xd, "/pod/deep")] {
            assert_eq!(cgroups.add(&made(address, path)).as_deref(), Some(path));
        }
        assert_eq!(identified(&mut cgroups, [1, 2, 3, 4, 5, 6]), None);
        assert_eq!(identified(&mut cgroups, [1, 0xc, 3, 4, 5, 0xb]).as_deref(), Some("/job/deep"));
        assert_eq!(identified(&mut cgroups, [1, 0xc, 0xa, 4, 5, 6]).as_deref(), Some("/other"));
        assert_eq!(identified(&mut cgroups, [0xd, 1, 2, 3, 0xb, 0xa]).as_deref(), Some("/pod/deep"));
    }

    #[test]
    fn the_address_of_a_cgroup_that_ended_is_that_of_the_next_one() {
        let mut cgroups = NewCgroups::new(&layout());
        let now = |cgroups: &mut NewCgroups| identified(cgroups, [0, 0, 0, 0, 0, 0xa]);
        cgroups.add(&made(0xa, "/first"));
        assert_eq!(now(&mut cgroups).as_deref(), Some("/first"));
        cgroups.add(&made(0xa, "/second"));
        assert_eq!(now(&mut cgroups).as_deref(), Some("/second"));
        cgroups.add(&made(0xa, &"/long".repeat(205)));
        assert_eq!(now(&mut cgroups), None, "cut by the kernel");
        for _ in 0..MAX_CGROUPS {
            cgroups.add(&made(0xb, "/many"));
        }
        cgroups.add(&made(0xa, "/one-too-many"));
        assert_eq!((now(&mut cgroups), cgroups.paths.len()), (None, MAX_CGROUPS));
    }

    #[test]
    fn each_path_is_returned_once() {
        let mut cgroups = NewCgroups::new(&layout());
        let told = |cgroups: &mut NewCgroups| -> Vec<String> {
            cgroups.new_paths().map(|(number, path)| format!("{number} {path}")).collect()
        };
        cgroups.add(&made(0xa, "/first"));
        assert_eq!(told(&mut cgroups), ["1 /first"]);
        cgroups.add(&made(0xb, "/second"));
        assert_eq!(told(&mut cgroups), ["2 /second"]);
        assert_eq!(told(&mut cgroups).len(), 0);
        cgroups.forget_told();
        assert_eq!(told(&mut cgroups).len(), 2);
    }

    #[test]
    fn the_record_of_a_thread_is_that_of_no_cgroup() {
        let mut cgroups = NewCgroups::new(&layout());
        for record in [&[7, 1, 2][..], &[], &[0]] {
            assert_eq!(cgroups.add(record), None);
        }
    }
}
