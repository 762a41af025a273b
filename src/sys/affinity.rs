//! `sched_getaffinity(2)` for hosts of any size: the wrappers stop at 1024 CPUs.

use nix::errno::Errno;
use nix::libc;

/// More CPUs than any kernel is built for (`NR_CPUS` ends at 8192).
const MAX_WORDS: usize = 65_536 / 64;

/// The CPUs that thread `tid` may run on, ascending. `mask` is scratch space, kept between calls.
///
/// # Errors
/// What the kernel answers: `ESRCH`, `EPERM`.
pub(crate) fn of(tid: u32, mask: &mut Vec<u64>) -> Result<Vec<u32>, Errno> {
    mask.resize(mask.len().max(16), 0);
    loop {
        match get(tid, mask) {
            // The kernel's own mask is longer than ours.
            Err(Errno::EINVAL) if mask.len() < MAX_WORDS => mask.resize(mask.len() * 2, 0),
            Err(errno) => return Err(errno),
            Ok(bytes) => return Ok(cpus(&mask[..bytes.div_ceil(8).min(mask.len())])),
        }
    }
}

/// Fills the front of `mask`; the number of bytes filled.
fn get(tid: u32, mask: &mut [u64]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most the given number of bytes, which is the slice's size, and
    // any bit pattern is a valid u64.
    let filled = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, size_of_val(mask), mask.as_mut_ptr()) };
    Errno::result(filled).map(|bytes| usize::try_from(bytes).expect("a size, once errors are out"))
}

fn cpus(mask: &[u64]) -> Vec<u32> {
    let mut cpus = Vec::with_capacity(mask.iter().map(|word| word.count_ones() as usize).sum());
    for (base, &word) in (0u32..).step_by(64).zip(mask) {
        let mut rest = word;
        while rest != 0 {
            cpus.push(base + rest.trailing_zeros());
            rest &= rest - 1;
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_become_cpu_numbers() {
        assert_eq!(cpus(&[0b1011, 0, 1 << 63]), [0, 1, 3, 191]);
        assert_eq!(cpus(&[]), [] as [u32; 0]);
    }

    #[test]
    fn the_calling_thread_has_the_cpus_that_status_lists() {
        let mine = of(0, &mut Vec::new()).unwrap();
        assert_eq!(mine.len(), std::thread::available_parallelism().unwrap().get());
    }

    #[test]
    fn a_thread_that_is_not_there_is_an_error() {
        assert_eq!(of(u32::MAX >> 1, &mut Vec::new()), Err(Errno::ESRCH));
    }
}
