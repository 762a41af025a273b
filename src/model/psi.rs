//! Pressure stall information (`Documentation/accounting/psi.rst`).

use serde::{Deserialize, Serialize};

use super::{CounterUs, Hundredths, Reading, RecordField, RecordValue, ValueScope, ValueType};

optional_record! {
    /// Pressure by resource (`/proc/pressure`, or `<resource>.pressure` of a cgroup).
    pub struct Psi {
        /// Pressure of CPUs.
        pub cpu: PsiResource,
        /// Pressure of memory.
        pub memory: PsiResource,
        /// Pressure of block I/O.
        pub io: PsiResource,
        /// Pressure of interrupts: `full` only.
        pub irq: PsiResource,
    }
}

optional_record! {
    /// Pressure of one resource.
    pub struct PsiResource {
        /// Some tasks stalled.
        pub some: PsiHalf,
        /// All tasks stalled. Always 0 for the CPUs of the host, by design of the kernel.
        pub full: PsiHalf,
    }
}

macro_rules! psi_half {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ident = $key:literal;)+) => {
        /// One line of a pressure file. Averages are in hundredths of a percent, 0 to 10,099: the
        /// kernel's rounding can pass 100.00.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub struct PsiHalf { $($(#[doc = $doc])+ pub $name: $type,)+ }

        /// The values of [`PsiHalf`], with their keys in the file.
        pub(crate) static PSI_HALF: &[RecordField<PsiHalf, &str>] = &[$(RecordField {
            name: stringify!($name),
            doc: concat!($($doc),+).trim_ascii(),
            value_type: ValueType::of::<$type>(),
            scope: ValueScope::Subtree,
            source: $key,
            get: |half| Some(half.$name.value()),
            set: |half, value| $type::from_value(value).map(|value| half.$name = value.unwrap_or_default()),
            clear: None,
        },)+];
    };
}

psi_half! {
    /// Share of the last 10 seconds that was stalled.
    avg10: Hundredths = "avg10";
    /// Share of the last 60 seconds that was stalled.
    avg60: Hundredths = "avg60";
    /// Share of the last 300 seconds that was stalled.
    avg300: Hundredths = "avg300";
    /// Time stalled.
    total_usec: CounterUs = "total";
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
