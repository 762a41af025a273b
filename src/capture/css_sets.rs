//! The cgroups of threads by their `struct css_set`, for threads that exited: procfs no longer says theirs.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::model::Name;
use crate::process::lock;

/// The cgroup of each `struct css_set`, by address, that a capture has seen threads in; `None` for an address that
/// captures saw in two. The kernel can give the address of a cgroup that has ended to another: if no capture has seen
/// threads in that one, what exits there has the cgroup that ended.
#[derive(Debug, Default)]
pub(crate) struct CssSets(Mutex<HashMap<u64, Option<Name>>>);

impl CssSets {
    /// Adds those of a capture.
    pub(super) fn learn(&self, seen: impl IntoIterator<Item = (u64, Name)>) {
        let mut known = lock(&self.0);
        for (address, cgroup) in seen {
            let same = known.entry(address).or_insert_with(|| Some(Name::clone(&cgroup)));
            if same.as_ref().is_some_and(|known| *known != cgroup) {
                *same = None;
            }
        }
    }

    /// The number of addresses.
    pub(super) fn entries(&self) -> usize {
        lock(&self.0).len()
    }

    /// The cgroup of an address, if it is known.
    pub(super) fn cgroup(&self, address: u64) -> Option<Name> {
        lock(&self.0).get(&address).cloned().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_two_cgroups_had_is_of_neither() {
        let sets = CssSets::default();
        sets.learn([(1, "/a".into()), (2, "/b".into())]);
        sets.learn([(1, "/c".into()), (2, "/b".into())]);
        sets.learn([(1, "/a".into())]);
        assert_eq!([1, 2, 3].map(|address| sets.cgroup(address)), [None, Some("/b".into()), None]);
    }
}
