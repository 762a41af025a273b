//! Names of the containers that have exited in a series.

use std::collections::BTreeMap;

use crate::model::Container;

/// Each step of a series has all names, so there are at most this many.
const MOST: usize = 1024;

/// Containers that have exited, by their cgroup, with the time of the first capture without them.
#[derive(Default)]
pub(super) struct ExitedContainers(BTreeMap<String, (u64, Container)>);

impl ExitedContainers {
    /// Keeps the names of containers that a capture of this time lacks: of too many, the latest ones.
    pub(super) fn keep(
        &mut self,
        earlier: &BTreeMap<String, Container>,
        later: &mut BTreeMap<String, Container>,
        captured_at_unix_ns: u64,
    ) {
        let Self(exited) = self;
        for (path, container) in earlier.iter().filter(|(path, _)| !later.contains_key(*path)) {
            exited.entry(path.clone()).or_insert_with(|| (captured_at_unix_ns, container.clone()));
        }
        exited.retain(|path, _| !later.contains_key(path));
        let surplus = exited.len().saturating_sub(MOST);
        if surplus > 0 {
            tracing::info!("more than {MOST} containers have exited: {surplus} of the first ones lose their names");
            let mut oldest: Vec<_> = exited.iter().map(|(path, (time, _))| (*time, path.clone())).collect();
            oldest.sort_unstable();
            oldest.iter().take(surplus).for_each(|(_, path)| drop(exited.remove(path)));
        }
        later.extend(exited.iter().map(|(path, (_, container))| (path.clone(), container.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_containers_that_exited_last_are_kept() {
        let of = |names: std::ops::Range<usize>| -> BTreeMap<String, Container> {
            names.map(|name| (format!("/{name:05}"), Container::default())).collect()
        };
        let mut exited = ExitedContainers::default();
        let mut earlier = of(0..1);
        for time in 1..2000 {
            let mut later = of(time..time + 1);
            exited.keep(&earlier, &mut later, u64::try_from(time).unwrap());
            earlier = later;
        }
        assert_eq!(earlier, of(1999 - MOST..2000), "and the one that runs");
        let mut again = of(1500..1501);
        exited.keep(&earlier, &mut again, 2000);
        assert!(!exited.0.contains_key("/01500"), "it runs again");
    }
}
