//! Goes over all threads, by the kernel's iterator or by a program that does it alone.
//!
//! The program takes a third of the CPU time of the iterator for what changed, and a tenth for samples. But nobody else can have
//! its CPU meanwhile, while the iterator lets others run. So the program goes over the threads only if that is short.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;

use super::super::host::cpu_time::thread_cpu_time;
use crate::sys::bpf::iterator;
use crate::sys::bpf::program::run;

/// Longest time for which the program may hold its CPU.
const LONGEST_HOLD: Duration = Duration::from_millis(5);
/// Records that the program writes in half that time, at 2.5 µs each.
const FEW_RECORDS: usize = 1000;

/// Two ways to go over all threads, and the facts that decide which one is next.
pub(super) struct ThreadWalk {
    link: OwnedFd,
    /// Iterators for the next passes: before Linux 5.19, opening one needs the capabilities that loading needs.
    opened: Vec<OwnedFd>,
    /// `None` where the kernel cannot run it.
    program: Option<OwnedFd>,
    /// CPU time of the program's last pass since all threads were forgotten, or zero.
    held: Duration,
    /// Records of the last pass; the next one may have as many. `None` if all threads are written.
    records: Option<usize>,
}

impl ThreadWalk {
    /// Links a program to the iterator, and opens it for so many passes. `program` does without.
    pub(super) fn new(by_iterator: &OwnedFd, program: Option<OwnedFd>, passes: usize) -> Result<Self, Errno> {
        let link = iterator::link(by_iterator.as_fd(), None)?;
        let opened = (0..passes).map(|_| iterator::open(link.as_fd())).collect::<Result<_, _>>()?;
        Ok(Self { link, opened, program, held: Duration::ZERO, records: None })
    }

    /// Runs the program, and returns true, if that is expected to be short. Else, the iterator has to be read.
    pub(super) fn run_program(&mut self) -> Result<bool, Errno> {
        let is_short = self.held < LONGEST_HOLD && self.records.is_some_and(|records| records <= FEW_RECORDS);
        let Some(program) = self.program.as_ref().filter(|_| is_short) else { return Ok(false) };
        // Time in which others had the CPU, or the hypervisor, held nobody up.
        let begin = thread_cpu_time();
        run(program.as_fd())?;
        self.held = thread_cpu_time().saturating_sub(begin);
        Ok(true)
    }

    /// An iterator over all threads. `EPERM` before Linux 5.19, without the capabilities that loading needs.
    pub(super) fn open(&mut self) -> Result<OwnedFd, Errno> {
        self.opened.pop().map_or_else(|| iterator::open(self.link.as_fd()), Ok)
    }

    /// Ends a pass that wrote so many records.
    pub(super) fn end_pass(&mut self, records: usize) {
        self.records = Some(records);
    }

    /// Expects the next pass to write all threads, and those after it to be short again.
    pub(super) fn forget(&mut self) {
        (self.held, self.records) = (Duration::ZERO, None);
    }

    /// Makes the next pass read another file.
    #[cfg(test)]
    pub(super) fn replace_opened(&mut self, file: OwnedFd) {
        self.opened = vec![file];
    }

    /// Makes all passes read the iterator. Returns whether there was another way.
    #[cfg(test)]
    pub(super) fn drop_program(&mut self) -> bool {
        self.program.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::{BpfEngine, Passes};
    use super::*;
    use crate::process::lock;
    use crate::skip::{Missing, skipped};

    #[test]
    fn the_program_goes_over_the_threads_only_if_the_last_passes_were_short() {
        let engine = match BpfEngine::load(0, Passes::OfChanges) {
            Ok(engine) => engine,
            Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
        };
        let mut walk = lock(&engine.walk);
        if walk.program.is_none() {
            return skipped(Missing::Kernel("an open-coded iterator over threads (Linux 6.7)"));
        }
        assert_eq!(walk.run_program(), Ok(false), "the first pass writes all threads");
        walk.end_pass(FEW_RECORDS + 1);
        assert_eq!(walk.run_program(), Ok(false), "as many threads may have changed again");
        walk.end_pass(FEW_RECORDS);
        assert_eq!(walk.run_program(), Ok(true));
        walk.held = LONGEST_HOLD;
        assert_eq!(walk.run_program(), Ok(false), "it held its CPU for long");
        walk.forget();
        assert_eq!(walk.run_program(), Ok(false), "all threads are written");
        walk.end_pass(0);
        assert_eq!(walk.run_program(), Ok(true));
    }
}
