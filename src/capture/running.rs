//! Samples of what runs on each CPU, by a clock that interrupts it at regular times.

use std::fs;
use std::time::Duration;

use nix::errno::Errno;

use super::procfs::text::cpu_list;
use super::stack::registers::PERF_BITS;
use super::stack::stacks::RunningThread;
use crate::sys::perf_event::{CpuClock, RunningSample};

/// Interruptions per second of all CPUs together, at most: each takes some 15 µs.
const MOST_PER_SECOND: u64 = 800;
/// And of one CPU. No program does the same thing 49 times a second.
const PER_CPU: u64 = 49;

/// The clocks of all CPUs.
pub(super) struct RunningSampler {
    clocks: Vec<CpuClock>,
    /// Time from one sample of a CPU to the next.
    pub(super) period: Duration,
}

impl RunningSampler {
    /// Starts the clocks, with the rights that this needs.
    pub(super) fn start() -> Result<Self, Errno> {
        let online = fs::read("/sys/devices/system/cpu/online").ok().and_then(|text| cpu_list(&text));
        let cpus = online.ok_or(Errno::ENODEV)?;
        let frequency = PER_CPU.min(MOST_PER_SECOND / (cpus.len() as u64).max(1)).max(1);
        let registers = PERF_BITS.iter().fold(0, |mask, bit| mask | 1 << bit);
        let clock = |cpu: &u32| match CpuClock::open(*cpu, frequency, registers) {
            // It was taken offline.
            Err(Errno::ENODEV) => None,
            clock => Some(clock),
        };
        let clocks = cpus.iter().filter_map(clock).collect::<Result<_, _>>()?;
        Ok(Self { clocks, period: Duration::from_secs(1) / u32::try_from(frequency).unwrap_or(1) })
    }

    /// Returns the threads that the CPUs ran, since the last call.
    pub(super) fn take(&mut self) -> Vec<RunningThread> {
        let mut threads = Vec::new();
        let mut add = |RunningSample { tgid, tid, registers, stack }: RunningSample<'_>| {
            let place = |bit: &u32| PERF_BITS.iter().filter(|other| *other < bit).count();
            let of_bit = |bit: &u32| registers.get(place(bit)).copied().unwrap_or(0);
            threads.push(RunningThread {
                tid,
                tgid,
                registers: PERF_BITS.each_ref().map(of_bit),
                stack: stack.to_vec(),
            });
        };
        self.clocks.iter_mut().for_each(|clock| clock.take(&mut add));
        threads
    }
}
