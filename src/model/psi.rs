//! Pressure stall information: how long work stood still for want of a resource.

use serde::{Deserialize, Serialize};

optional_record! {
    /// Pressure by resource (`/proc/pressure`, or `<resource>.pressure` of a cgroup).
    pub struct Psi {
        /// Of the CPUs.
        pub cpu: PsiResource,
        /// Of memory.
        pub memory: PsiResource,
        /// Of block I/O.
        pub io: PsiResource,
        /// Of interrupts: `full` only.
        pub irq: PsiResource,
    }
}

optional_record! {
    /// Pressure of one resource.
    pub struct PsiResource {
        /// Some work stood still.
        pub some: PsiHalf,
        /// All work stood still. Of the whole host's CPUs always 0, by the kernel's design.
        pub full: PsiHalf,
    }
}

/// Averages in hundredths of a percent, 0 to 10,099 (the kernel's rounding can pass 100.00), and the
/// time in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PsiHalf {
    /// Over the last 10 seconds.
    pub avg10: u16,
    /// Over the last 60 seconds.
    pub avg60: u16,
    /// Over the last 300 seconds.
    pub avg300: u16,
    /// Microseconds in all.
    pub total_usec: u64,
}

impl PsiHalf {
    /// The average over 10 seconds, in percent.
    #[must_use]
    pub fn avg10_percent(&self) -> f64 {
        f64::from(self.avg10) / 100.0
    }

    /// The average over 60 seconds, in percent.
    #[must_use]
    pub fn avg60_percent(&self) -> f64 {
        f64::from(self.avg60) / 100.0
    }

    /// The average over 300 seconds, in percent.
    #[must_use]
    pub fn avg300_percent(&self) -> f64 {
        f64::from(self.avg300) / 100.0
    }
}

impl Psi {
    /// The resources with their names.
    pub fn resources(&self) -> impl Iterator<Item = (&'static str, &PsiResource)> {
        let Self { cpu, memory, io, irq } = self;
        [("cpu", cpu), ("memory", memory), ("io", io), ("irq", irq)]
            .into_iter()
            .filter_map(|(name, resource)| Some((name, resource.as_ref()?)))
    }
}

impl PsiResource {
    /// The halves with their names.
    pub fn halves(&self) -> impl Iterator<Item = (&'static str, &PsiHalf)> {
        [("some", &self.some), ("full", &self.full)].into_iter().filter_map(|(name, half)| Some((name, half.as_ref()?)))
    }
}
