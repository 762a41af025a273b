//! Records of cgroups that are made while exits are recorded: the cgroup of a job can be gone before a capture sees it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::super::cgroup_ids::Hierarchies;
use super::super::cgroup_names::CgroupNames;
use super::assemble::Register::{R1, R2, R3, R7, R8, R9};
use super::assemble::{Assembled, Assembler, Helper, Width};
use super::btf::{Btf, kind};
use super::layout::{LENGTH, is_addressable, near};
use super::path::{self, FieldLocation};
use super::program::{FIRST_ARGUMENT, SECOND_ARGUMENT, byte, record_in_ring};
use crate::model::{Name, printable};

/// `PROC_CGROUP_INIT_INO` of include/linux/proc_ns.h.
const INITIAL_NAMESPACE: u64 = 0xEFFF_FFFB;
/// Words of the path: `TRACE_CGROUP_PATH_LEN` of kernel/cgroup/cgroup-internal.h.
const PATH_WORDS: usize = 1024 / 8;
/// Words before it: 0, the id, and the number of the hierarchy.
const HEAD: usize = 3;

/// Returns true if the kernel's paths equal the paths that captures see.
pub(super) fn paths_are_those_of_captures() -> bool {
    fs::metadata("/proc/self/ns/cgroup").is_ok_and(|namespace| namespace.ino() == INITIAL_NAMESPACE)
}

/// Where a cgroup has its id, and the number of its hierarchy.
pub(super) fn fields(btf: &Btf<'_>) -> Option<[FieldLocation; HEAD - 1]> {
    let cgroup = btf.find(kind::STRUCT, "cgroup")?;
    let field = |path| path::resolve(btf, cgroup, path).filter(is_addressable);
    Some([field("kn->id")?, field("root->hierarchy_id")?])
}

/// A program for the tracepoint `cgroup_mkdir`, whose arguments are a cgroup and its path. It writes 0, the fields and the
/// path to the ring buffer, with a NUL after the path.
pub(super) fn program(ring: i32, lost: i32, fields: &[FieldLocation; HEAD - 1]) -> Assembled {
    let mut assembler = Assembler::default();
    assembler.load(Width::U64, R7, R1, FIRST_ARGUMENT);
    assembler.load(Width::U64, R9, R1, SECOND_ARGUMENT);
    record_in_ring(assembler, HEAD + PATH_WORDS, (ring, lost), |assembler| {
        assembler.store_immediate(Width::U64, R8, byte(LENGTH), 0);
        for (word, place) in (1..).zip(fields) {
            assembler.mov(R1, R7);
            place.hops.iter().for_each(|&hop| assembler.load(Width::U64, R1, R1, near(hop)));
            assembler.load(Width::from_bytes(place.size).unwrap_or(Width::U64), R1, R1, near(place.offset));
            assembler.store(Width::U64, R8, byte(word), R1);
        }
        assembler.mov(R1, R8);
        assembler.add_immediate(R1, i32::from(byte(HEAD)));
        assembler.mov_immediate(R2, i32::from(byte(PATH_WORDS)));
        assembler.mov(R3, R9);
        assembler.call(Helper::ProbeReadKernelStr);
    })
}

/// Adds the cgroup of a record, and returns its path, empty if it is unknown; `None` if the record belongs to a thread.
pub(super) fn learn(names: &CgroupNames, hierarchies: &Hierarchies, record: &[u64]) -> Option<Name> {
    let Some((&[0, id, hierarchy], path)) = record.split_first_chunk::<HEAD>() else { return None };
    let bytes: Vec<u8> = path.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    // The kernel cuts longer paths.
    if length + 1 >= bytes.len() {
        return Some(Name::default());
    }
    let name = Name::from(printable(&bytes[..length]));
    hierarchies.keys(hierarchy, id).for_each(|key| names.add(key, Name::clone(&name)));
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::super::super::cgroup_ids::{UNIFIED, key};
    use super::*;

    /// The record of a new cgroup of version 2, with what was in the ring before behind the path.
    fn made(id: u64, path: &str) -> Vec<u64> {
        let mut bytes = [path.as_bytes(), b"\0"].concat();
        bytes.resize(1024.max(path.len()), b'x');
        let words = bytes[..1024].chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        [0, id, 0].into_iter().chain(words).collect()
    }

    #[test]
    fn a_new_cgroup_has_its_path_unless_the_kernel_has_cut_it() {
        let (names, hierarchies) = (CgroupNames::default(), Hierarchies(b"0::/\n".into()));
        let add = |record: &[u64]| learn(&names, &hierarchies, record).map(|name| name.to_string());
        assert_eq!(add(&made(40, "/job/step")).as_deref(), Some("/job/step"));
        assert_eq!(add(&made(41, &"/long".repeat(205))).as_deref(), Some(""));
        assert_eq!([40, 41, 42].map(|id| names.get(key(UNIFIED, id).get())), [Some("/job/step".into()), None, None]);
    }

    #[test]
    fn the_record_of_a_thread_is_that_of_no_cgroup() {
        for record in [&[7, 1, 2, 3][..], &[], &[0]] {
            assert_eq!(learn(&CgroupNames::default(), &Hierarchies::default(), record), None);
        }
    }
}
