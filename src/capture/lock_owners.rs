//! Holders of the locks on files that sampled threads wait for.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use crate::model::{Activity, KernelEntry, ThreadSample};

/// Bytes of `/proc/locks` that are read per pass, at most: some 16,000 locks.
const MOST_BYTES: u64 = 1 << 20;

/// Adds the holders of the locks that `samples` wait for. `waits` says which system calls may wait for one.
pub(crate) fn add_lock_holders(samples: &mut [ThreadSample], waits: fn(KernelEntry) -> bool) {
    let is_waiting = |sample: &ThreadSample| sample.activity == Activity::Asleep && waits(sample.entry);
    let mut waiting = samples.iter_mut().filter(|sample| is_waiting(sample)).peekable();
    if waiting.peek().is_none() {
        return;
    }
    let Ok(locks) = File::open("/proc/locks") else { return };
    let holders = holders(BufReader::new(locks.take(MOST_BYTES)));
    waiting.for_each(|sample| sample.owner_process = holders.get(&sample.tgid).copied().flatten());
}

/// The holders by the process that waits; `None` if it waits for several.
///
/// A lock and the requests that wait for it have the same number, in the first field. Requests have an arrow
/// (`__locks_show` of fs/locks.c).
fn holders(locks: impl BufRead) -> HashMap<u32, Option<u32>> {
    let (mut owners, mut holders) = (HashMap::new(), HashMap::new());
    for line in locks.lines().map_while(Result::ok) {
        let mut fields = line.split_ascii_whitespace();
        let Some(number) = fields.next().map(str::to_owned) else { continue };
        let mut fields = fields.peekable();
        let waits = fields.next_if_eq(&"->").is_some();
        // Behind the kind, the mode and the type; -1 of locks that belong to a descriptor.
        let Some(Ok(pid)) = fields.nth(3).map(str::parse::<u32>) else { continue };
        if !waits {
            owners.insert(number, pid);
        } else if let Some(owner) = owners.get(&number) {
            let holder = holders.entry(pid).or_insert(Some(*owner));
            *holder = holder.filter(|earlier| earlier == owner);
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_the_process_whose_lock_has_its_number() {
        // Linux 6.18: two locks with requests, one of which waits for another request, and a lock of a descriptor.
        let locks = "\
            1: FLOCK  ADVISORY  WRITE 100 fe:00:5947396 0 EOF\n\
            1: -> FLOCK  ADVISORY  WRITE 200 fe:00:5947396 0 EOF\n\
            1:  -> FLOCK  ADVISORY  WRITE 201 fe:00:5947396 0 EOF\n\
            2: POSIX  ADVISORY  READ 101 fe:00:10133507 0 EOF\n\
            2: -> POSIX  ADVISORY  WRITE 202 fe:00:10133507 0 9\n\
            2: -> POSIX  ADVISORY  WRITE 201 fe:00:10133507 0 9\n\
            3: OFDLCK ADVISORY  WRITE -1 00:2a:3 0 EOF\n\
            3: -> OFDLCK ADVISORY  WRITE -1 00:2a:3 0 EOF\n\
            4: FLOCK\n\n";
        let expected = [(200, Some(100)), (201, None), (202, Some(101))];
        assert_eq!(holders(locks.as_bytes()), HashMap::from(expected));
    }
}
