//! Passes of a program that goes over all threads by itself, in half the time of the kernel's iterator, and without yielding.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::btf::Btf;
use super::change_filter::ChangeFilter;
use super::change_program::ChangeWalk;
use super::layout::{Layout, words_of};
use super::load::{Attach, ProgramSpec, load};
use super::program::{Emitter, Kernel, open_coded_functions};
use crate::sys::bpf::map::SharedWords;
use crate::sys::bpf::program::run;
use crate::sys::bpf::ring::Ring;

/// Room for the records of some thousand threads.
const RING_BYTES: u32 = 1 << 20;
/// A program that takes longer would keep others waiting for its CPU.
const LONGEST_HOLD: Duration = Duration::from_millis(5);

/// The program, and what it writes to.
pub(super) struct OpenCodedPasses {
    program: OwnedFd,
    ring: Ring,
    lost: SharedWords,
    took: Duration,
}

impl OpenCodedPasses {
    /// `None` where the kernel cannot run it, or not with the fields of this layout. The maps are a record, and the slots of the
    /// filter.
    pub(super) fn load(
        (btf, kernel): (&Btf<'_>, Kernel),
        layout: &Layout,
        record: &OwnedFd,
        (filter, slots): (&ChangeFilter, i32),
    ) -> Option<Self> {
        let functions = open_coded_functions(btf)?;
        let (ring, lost) = (Ring::new(RING_BYTES).ok()?, SharedWords::new(1).ok()?);
        let walk = ChangeWalk::OpenCoded { functions, ring: ring.map.as_raw_fd(), lost: lost.map.as_raw_fd() };
        let spec = ProgramSpec { name: "ctprof_changes", attach: Attach::Nowhere, btf_id: 0 };
        let mut of_this = layout.clone();
        let emit = |layout: &Layout| Emitter { kernel, layout }.changes(walk, record.as_raw_fd(), (filter, slots));
        let refused = |no_bpf: &_| tracing::info!("the kernel's iterator goes over the threads: {no_bpf:?}");
        let program = load(&spec, &mut of_this, emit).inspect_err(refused).ok()?;
        (of_this.dropped == layout.dropped).then_some(Self { program, ring, lost, took: Duration::ZERO })
    }

    /// Whether passes hold their CPU for a short time.
    pub(super) fn are_short(&self) -> bool {
        self.took < LONGEST_HOLD
    }

    /// Allows passes again that took too long.
    pub(super) fn forget_time(&mut self) {
        self.took = Duration::ZERO;
    }

    /// Passes the records of a pass to `each`, and returns how many had no room: another pass has them.
    pub(super) fn read(&mut self, mut each: impl FnMut(&[u64])) -> Result<u64, Errno> {
        let (begin, before) = (Instant::now(), self.lost.get(0));
        run(self.program.as_fd())?;
        self.took = begin.elapsed();
        self.ring.take(|record| each(&words_of(record).collect::<Vec<_>>()))?;
        Ok(self.lost.get(0).wrapping_sub(before))
    }
}
