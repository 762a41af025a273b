//! CPU sets of a thread, and of a group of threads.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Cell, CpuSetSizes, Mismatch, Reading, Reduce, Reduction, Shape, Value};

/// The CPUs a thread may run on, ascending. Threads can share it: hosts have up to thousands of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
#[serde(transparent)]
pub struct CpuSet(pub Arc<[u32]>);

impl Reading for CpuSet {
    type Reduced = CpuSetSizes;
    const NAME: &'static str = "CpuSet";
    const SHAPE: Shape = Shape::Cpus;

    fn value(&self) -> Value<'_> {
        Value::Cpus(Cow::Borrowed(&self.0))
    }

    fn from_value(value: Value<'_>) -> Result<Option<Self>, Mismatch> {
        match value {
            Value::Cpus(cpus) => Ok(Some(Self(cpus.into()))),
            other => Err(other.mismatch("a list of CPU numbers")),
        }
    }
}

impl Reduce<CpuSet> for CpuSetSizes {
    const REDUCTION: Reduction = Reduction::Cpus;

    fn single(CpuSet(cpus): &CpuSet) -> Self {
        let size = u64::try_from(cpus.len()).unwrap_or(u64::MAX);
        Self { fewest: size, most: size, cpus: Some(Arc::clone(cpus)) }
    }

    fn merge(&mut self, other: &Self) {
        self.fewest = self.fewest.min(other.fewest);
        self.most = self.most.max(other.most);
        self.cpus.take_if(|cpus| Some(&*cpus) != other.cpus.as_ref());
    }

    fn cell(&self) -> Cell {
        Cell::Cpus(Box::new(self.clone()))
    }
}

/// CPU numbers in the kernel's list format: `0-3,8`.
pub fn cpu_ranges(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let run = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(u32::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_listed_as_the_kernel_does() {
        for (cpus, list) in [
            (&[][..], ""),
            (&[3], "3"),
            (&[0, 1], "0-1"),
            (&[0, 2], "0,2"),
            (&[0, 1, 2, 5, 7, 8], "0-2,5,7-8"),
            (&[u32::MAX, 0], "4294967295,0"),
        ] {
            assert_eq!(cpu_ranges(cpus), list);
        }
    }

    fn total(sets: &[&[u32]]) -> Cell {
        let (first, rest) = sets.split_first().unwrap();
        let set = |cpus: &[u32]| CpuSet(cpus.into());
        let mut added = CpuSetSizes::single(&set(first));
        let mut merged = added.clone();
        for cpus in rest {
            added.add(&set(cpus));
            merged.merge(&CpuSetSizes::single(&set(cpus)));
        }
        assert_eq!(added.cell(), merged.cell());
        added.cell()
    }

    #[test]
    fn a_total_has_a_set_of_cpus_if_all_threads_have_the_same() {
        let cpus = |fewest, most, cpus: Option<&[u32]>| {
            Cell::Cpus(Box::new(CpuSetSizes { fewest, most, cpus: cpus.map(Arc::from) }))
        };
        assert_eq!(total(&[&[0, 1], &[0, 1]]), cpus(2, 2, Some(&[0, 1])));
        assert_eq!(total(&[&[0, 1], &[0, 2]]), cpus(2, 2, None));
        assert_eq!(total(&[&[0, 1], &[0, 1, 2], &[5]]), cpus(1, 3, None));
        assert_eq!(total(&[&[0, 1], &[7], &[0, 1]]), cpus(1, 2, None), "once they differ, they have no set");
    }
}
