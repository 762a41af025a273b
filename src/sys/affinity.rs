//! `sched_getaffinity(2)` and `sched_setaffinity(2)` for hosts of any size: the safe wrappers are limited to 1024
//! CPUs.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::libc::{self, c_long};

use super::{address, call, length};

/// More CPUs than any kernel is built for (`NR_CPUS` ends at 8192).
const MAX_WORDS: usize = 65_536 / 64;

/// The CPUs that thread `tid` may run on, ascending. `mask` is scratch space that calls share.
pub(crate) fn cpus(tid: u32, mask: &mut Vec<u64>) -> Result<Vec<u32>, Errno> {
    mask.resize(mask.len().max(16), 0);
    loop {
        match get(tid, mask) {
            // The kernel's own mask is longer than ours.
            Err(Errno::EINVAL) if mask.len() < MAX_WORDS => mask.resize(mask.len() * 2, 0),
            Err(errno) => return Err(errno),
            Ok(bytes) => return Ok(numbers(&mask[..bytes.div_ceil(8).min(mask.len())])),
        }
    }
}

/// Fills the front of `mask`; returns the number of bytes filled.
fn get(tid: u32, mask: &mut [u64]) -> Result<usize, Errno> {
    let arguments = [c_long::from(tid), length(size_of_val(mask)), address(mask.as_mut_ptr())];
    // SAFETY: the kernel writes at most the given number of bytes, which is the slice's size, and
    // any bit pattern is a valid u64.
    let filled = unsafe { call(libc::SYS_sched_getaffinity, arguments) }?;
    Ok(usize::try_from(filled).expect("a size, once errors are out"))
}

fn numbers(mask: &[u64]) -> Vec<u32> {
    let mut cpus = Vec::with_capacity(mask.iter().map(|word| usize::try_from(word.count_ones()).unwrap_or(0)).sum());
    for (base, &word) in (0u32..).step_by(64).zip(mask) {
        let mut rest = word;
        while rest != 0 {
            cpus.push(base + rest.trailing_zeros());
            rest &= rest - 1;
        }
    }
    cpus
}

/// Limits the calling thread, and threads that it starts later, to `cpus`. `EINVAL` if none of these CPUs is available.
pub(crate) fn limit(cpus: &[u32]) -> Result<(), Errno> {
    set(&mask_of(cpus))
}

/// Makes `command` start with `cpus`.
pub(crate) fn start_on(command: &mut Command, cpus: &[u32]) {
    let mask = mask_of(cpus);
    let limit = move || set(&mask).map_err(io::Error::from);
    // SAFETY: between fork and exec, the function makes one system call and allocates nothing.
    unsafe { command.pre_exec(limit) };
}

fn set(mask: &[u64]) -> Result<(), Errno> {
    let arguments = [0, length(size_of_val(mask)), address(mask.as_ptr())];
    // SAFETY: the kernel reads the given number of bytes, which is the slice's size. Thread 0 is the calling one.
    unsafe { call(libc::SYS_sched_setaffinity, arguments) }.map(drop)
}

fn mask_of(cpus: &[u32]) -> Vec<u64> {
    let word_of = |cpu: u32| usize::try_from(cpu / 64).unwrap_or(MAX_WORDS);
    let mut mask = vec![0; cpus.iter().map(|&cpu| word_of(cpu) + 1).max().unwrap_or(0)];
    for &cpu in cpus {
        mask[word_of(cpu)] |= 1 << (cpu % 64);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_become_cpu_numbers() {
        assert_eq!(numbers(&[0b1011, 0, 1 << 63]), [0, 1, 3, 191]);
        assert_eq!(numbers(&[]), [] as [u32; 0]);
        for cpus in [&[][..], &[0, 1, 3, 191], &[64], &[8191]] {
            assert_eq!(numbers(&mask_of(cpus)), cpus);
        }
    }

    #[test]
    fn the_calling_thread_has_the_cpus_that_status_lists() {
        let own = cpus(0, &mut Vec::new()).unwrap();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).unwrap();
        let count: u32 = mask.chars().filter_map(|digit| digit.to_digit(16)).map(u32::count_ones).sum();
        assert_eq!(own.len(), usize::try_from(count).unwrap());
    }

    #[test]
    fn a_thread_that_does_not_exist_is_an_error() {
        assert_eq!(cpus(u32::MAX >> 1, &mut Vec::new()), Err(Errno::ESRCH));
    }
}
