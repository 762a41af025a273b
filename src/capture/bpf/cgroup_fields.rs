//! The cgroups of a thread, by its record.

use super::super::cgroup_ids::{CgroupIds, Hierarchies, OF_SYSTEMD, key};
use super::columns::{CGROUP_LEVELS, CGROUPS};
use super::layout::{Field, FieldRequest, Layout, ThreadRecord};

/// Where records have the cgroups.
pub(super) struct CgroupFields {
    ids: [Option<Field>; CGROUPS.len()],
    levels: [Option<Field>; CGROUP_LEVELS.len()],
}

/// Removes the fields of cgroups in hierarchies that this host has not mounted.
pub(super) fn of_mounted(hierarchies: &Hierarchies, mut wanted: Vec<FieldRequest>) -> Vec<FieldRequest> {
    wanted.retain(|field| {
        let place = |paths: &[&str]| paths.iter().position(|path| *path == field.path);
        place(&CGROUPS).or_else(|| place(&CGROUP_LEVELS)).is_none_or(|hierarchy| hierarchies.has(hierarchy))
    });
    wanted
}

impl CgroupFields {
    pub(super) fn find(layout: &Layout) -> Self {
        let find = |path: &str| layout.find(path);
        Self { ids: CGROUPS.map(find), levels: CGROUP_LEVELS.map(find) }
    }

    /// The cgroups of a thread, grouped as `identity` of `procfs/cgroup_paths.rs` does.
    pub(super) fn keys(&self, record: ThreadRecord<'_>) -> CgroupIds {
        let key_in = |hierarchy: usize| record.number(self.ids[hierarchy]).map(|id| key(hierarchy, id));
        let levels = self.levels.map(|field| record.number(field));
        let below_root = std::array::from_fn(|hierarchy| {
            levels[hierarchy].filter(|level| *level > 0).and_then(|_| key_in(hierarchy))
        });
        let with_id = (0..levels.len()).rev().filter(|hierarchy| key_in(*hierarchy).is_some());
        let deepest = with_id.max_by_key(|hierarchy| levels[*hierarchy]);
        let below = deepest.and_then(|hierarchy| below_root[hierarchy]);
        let group = below.or_else(|| key_in(OF_SYSTEMD)).or_else(|| key_in(deepest?));
        CgroupIds { group, below_root }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::record_builder::RecordBuilder;
    use super::*;

    /// A record of a thread in cgroups with the ids 10, 11, ... at these depths.
    fn record(levels: [u64; CGROUP_LEVELS.len()]) -> RecordBuilder {
        let ids = CGROUPS.into_iter().zip(10..);
        let fields = ids.chain(CGROUP_LEVELS.into_iter().zip(levels));
        fields.fold(RecordBuilder::new(), |record, (path, number)| record.with([(path, number)]))
    }

    fn keys(record: &RecordBuilder) -> CgroupIds {
        CgroupFields::find(&record.layout).keys(record.record())
    }

    #[test]
    fn a_thread_is_grouped_by_its_deepest_cgroup_as_by_procfs() {
        let group = |levels| keys(&record(levels)).group;
        assert_eq!(group([2, 0, 0, 0, 0, 1]), Some(key(0, 10)));
        assert_eq!(group([0, 1, 0, 0, 0, 2]), Some(key(5, 15)));
        assert_eq!(group([1, 2, 2, 0, 0, 2]), Some(key(1, 11)), "of equal ones, the first");
        assert_eq!(group([0; 6]), Some(key(OF_SYSTEMD, 16)));
        assert_eq!(
            keys(&record([1, 0, 0, 0, 0, 2])).below_root,
            [Some(key(0, 10)), None, None, None, None, Some(key(5, 15))]
        );
    }

    #[test]
    fn a_thread_without_cgroups_has_none() {
        assert_eq!(keys(&record([1; 6]).null("cgroups")).below_root, [None; 6]);
    }
}
