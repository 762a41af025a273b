//! Pressure stall information (`Documentation/accounting/psi.rst`).

use super::record::record;
use super::{CounterUs, Hundredths, Reading, RecordField, RecordValue, ValueScope, ValueType};

stored! {
    /// Pressure by resource (`/proc/pressure`, or `<resource>.pressure` of a cgroup).
    pub struct Psi {
        /// Pressure on the CPUs.
        optional cpu: Option<PsiResource>,
        /// Pressure on the memory.
        optional memory: Option<PsiResource>,
        /// Pressure of block I/O.
        optional io: Option<PsiResource>,
        /// Pressure of interrupts: `full` only.
        optional irq: Option<PsiResource>,
    }
}

stored! {
    /// Pressure of one resource.
    pub struct PsiResource {
        /// Time in which some tasks stalled.
        optional some: Option<PsiHalf>,
        /// All tasks stalled. Always 0 for the CPUs of the host, by design of the kernel.
        optional full: Option<PsiHalf>,
    }
}

record! {
    /// A line of a pressure file. Averages are in hundredths of a percent, 0 to 10,099: the kernel's rounding can pass 100.00.
    #[derive(Copy, Eq)]
    pub struct PsiHalf, "" in pub(crate) PSI_HALF: &'static str {
        /// Share of the last 10 seconds that was stalled.
        avg10: Hundredths = "avg10";
        /// Share of the last 60 seconds that was stalled.
        avg60: Hundredths = "avg60";
        /// Share of the last 300 seconds that was stalled.
        avg300: Hundredths = "avg300";
        /// Time in which tasks stalled.
        total_usec: CounterUs = "total";
    }
}

impl Hundredths {
    /// The value in percent.
    pub fn percent(self) -> f64 {
        f64::from(self.number()) / 100.0
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

    /// All values, as `resource.half.field`.
    pub fn values(&self) -> Vec<RecordValue<'_>> {
        let halves = self.resources().flat_map(|(resource, halves)| {
            halves.halves().map(move |(half, pressure)| (format!("{resource}.{half}."), pressure))
        });
        let values = halves.flat_map(|(prefix, pressure)| {
            let values = PSI_HALF.iter().filter_map(|field| field.described(pressure));
            values.map(move |value| value.prefixed(&prefix))
        });
        values.collect()
    }
}

impl PsiResource {
    /// The halves with their names.
    pub fn halves(&self) -> impl Iterator<Item = (&'static str, &PsiHalf)> {
        [("some", &self.some), ("full", &self.full)].into_iter().filter_map(|(name, half)| Some((name, half.as_ref()?)))
    }
}
