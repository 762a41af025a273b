//! Owners of mutexes of the C library, for which sampled threads wait.

use std::fs::{self, File};
use std::path::PathBuf;

use super::patient_reader::PatientReader;
use super::procfs::text::innermost_id;
use crate::model::{Activity, KernelEntry, ThreadSample};
use crate::sys::memory::AddressSpace;

/// Mutexes that are read per pass, at most: each takes some 10 µs.
const MAX_READS: usize = 16;
/// Threads of a process in another PID namespace that are searched for an owner, at most.
const MAX_THREADS: usize = 1024;
/// `__lock`, `__count`, `__owner`, `__nusers` and `__kind` of `struct __pthread_mutex_s` (glibc, `bits/struct_mutex.h`).
const WORDS: usize = 5;
/// The value of `__lock` while others wait.
const CONTENDED: u32 = 2;
/// The largest `__kind`: four types and six flags.
const LARGEST_KIND: u32 = (1 << 10) - 1;

/// Reads mutexes in a thread of its own.
pub(super) struct MutexOwners(PatientReader<Waiter, Option<u32>>);

/// A thread, and the address that it waits at.
#[derive(Clone, Copy)]
struct Waiter {
    tid: u32,
    tgid: u32,
    address: u64,
}

impl MutexOwners {
    pub(super) fn new() -> Self {
        Self(PatientReader::new("ctprof-mutexes", owner))
    }

    /// Adds the owners of the mutexes that `samples` wait for. `mutex` says at which address one may be.
    pub(super) fn add(&mut self, samples: &mut [ThreadSample], mutex: fn(KernelEntry) -> Option<u64>) {
        let waiter = |sample: &ThreadSample| {
            let is_waiting = sample.activity == Activity::Asleep && sample.owner.is_none();
            let address = mutex(sample.entry).filter(|_| is_waiting)?;
            Some(Waiter { tid: sample.tid, tgid: sample.tgid, address })
        };
        let waiting = samples.iter_mut().filter_map(|sample| Some((waiter(sample)?, sample))).take(MAX_READS);
        let (waiters, waiting): (Vec<_>, Vec<_>) = waiting.unzip();
        if !waiters.is_empty() {
            let owners = self.0.answers(waiters).unwrap_or_default();
            waiting.into_iter().zip(owners).for_each(|(sample, owner)| sample.owner = owner);
        }
    }
}

/// The thread that owns the mutex, if one is there and that is another thread of the process.
fn owner(Waiter { tid, tgid, address }: Waiter) -> Option<u32> {
    let open = |name| File::open(format!("/proc/{tgid}/{name}"));
    let space = AddressSpace { memory: open("mem").ok()?, pages: open("pagemap").ok()? };
    let mut bytes = [[0; 4]; WORDS];
    space.read(address, bytes.as_flattened_mut()).ok()?;
    let [lock, _, owner, users, kind] = bytes.map(u32::from_ne_bytes);
    let is_mutex = lock == CONTENDED && users > 0 && kind <= LARGEST_KIND;
    is_mutex.then(|| thread_of(tgid, owner))?.filter(|owner| *owner != tid)
}

/// The thread of a process that has this id in the PID namespace of the process: the C library knows no other.
fn thread_of(tgid: u32, id: u32) -> Option<u32> {
    let tasks = PathBuf::from(format!("/proc/{tgid}/task"));
    let id_of = |tid: u32| innermost_id(&fs::read(tasks.join(tid.to_string()).join("status")).ok()?);
    // Ids are given out one after the other, in each namespace.
    let likely = id.wrapping_sub(id_of(tgid)?).wrapping_add(tgid);
    if id_of(likely) == Some(id) {
        return Some(likely);
    }
    let tids = fs::read_dir(&tasks).ok()?.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    tids.take(MAX_THREADS).find(|tid| id_of(*tid) == Some(id))
}
