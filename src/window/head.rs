//! Windows of the values that are not about threads: cgroups, pressure, sched_ext.

use std::collections::BTreeMap;

use crate::model::{
    CGROUP_CPU, CGROUP_DEVICE, CGROUP_MEMORY, CGROUP_PIDS, CgroupDeviceStats, CgroupStats, InWindow, MEMORY_EVENTS,
    PSI_HALF, Psi, PsiHalf, PsiResource, RecordField, SCHED_EXT, SchedExtSysfs, SnapshotHead, Value, ValueType,
    memory_stat_type,
};

/// Turns the values of `later` into the values of the window that started with `earlier`. Counters of a cgroup that only the
/// later capture has are absent: it may be older. One that was made again counts from 0.
pub(super) fn subtract(earlier: &SnapshotHead, later: &mut SnapshotHead) {
    let unknown = CgroupStats::default();
    for (path, stats) in &mut later.cgroup_stats {
        let before = earlier.cgroup_stats.get(path).unwrap_or(&unknown);
        if !stats.is_other_than(before) {
            cgroup(before, stats);
        }
    }
    // A container that has exited keeps its name.
    for (path, container) in &earlier.containers {
        later.containers.entry(path.clone()).or_insert_with(|| container.clone());
    }
    if let Some(psi) = &mut later.psi {
        pressure(earlier.psi.as_ref().unwrap_or(&Psi::default()), psi);
    }
    if let Some(state) = &mut later.sched_ext {
        fields(SCHED_EXT, earlier.sched_ext.as_ref().unwrap_or(&SchedExtSysfs::default()), state);
    }
}

fn cgroup(earlier: &CgroupStats, later: &mut CgroupStats) {
    fields(CGROUP_CPU, &earlier.cpu, &mut later.cpu);
    fields(CGROUP_MEMORY, &earlier.memory, &mut later.memory);
    fields(CGROUP_PIDS, &earlier.pids, &mut later.pids);
    map(earlier.memory.stat.as_ref(), later.memory.stat.as_mut(), memory_stat_type);
    map(earlier.memory.events.as_ref(), later.memory.events.as_mut(), |_| Some(&MEMORY_EVENTS[0].value_type));
    for (device, stats) in later.io.stat.iter_mut().flatten() {
        // The kernel lists a device of a cgroup, or its values, after the first request.
        let has_values = |stats: &&CgroupDeviceStats| **stats != CgroupDeviceStats::default();
        if let Some(earlier) = earlier.io.stat.as_ref().and_then(|devices| devices.get(device)).filter(has_values) {
            fields(CGROUP_DEVICE, earlier, stats);
        }
    }
    if earlier.io.stat.is_none() {
        later.io.stat = None;
    }
    pressure(&earlier.psi, &mut later.psi);
}

fn fields<R, S>(table: &[RecordField<R, S>], earlier: &R, later: &mut R) {
    for field in table {
        field.subtract(earlier, later);
    }
}

fn map(
    earlier: Option<&BTreeMap<String, u64>>,
    later: Option<&mut BTreeMap<String, u64>>,
    type_of: impl Fn(&str) -> Option<&'static ValueType>,
) {
    let Some(later) = later else { return };
    later.retain(|key, value| {
        let before = earlier.and_then(|map| map.get(key)).map(|before| Value::Unsigned(*before));
        let rule = type_of(key).map(|value_type| value_type.window);
        match rule.map(|rule| rule.apply(before.as_ref(), Some(&Value::Unsigned(*value)))) {
            Some(InWindow::Later) => true,
            Some(InWindow::Increase(by)) => {
                *value = by;
                true
            }
            _ => false,
        }
    });
}

fn pressure(earlier: &Psi, later: &mut Psi) {
    let resources = [
        (&earlier.cpu, &mut later.cpu),
        (&earlier.memory, &mut later.memory),
        (&earlier.io, &mut later.io),
        (&earlier.irq, &mut later.irq),
    ];
    for (earlier, later) in resources {
        let unknown = PsiResource::default();
        let earlier = earlier.as_ref().unwrap_or(&unknown);
        if let Some(later) = later {
            later.some = half(earlier.some, later.some);
            later.full = half(earlier.full, later.full);
        }
    }
}

/// The pressure of the window; `None` if its time is unknown or went backwards.
fn half(earlier: Option<PsiHalf>, later: Option<PsiHalf>) -> Option<PsiHalf> {
    let (earlier, mut later) = (earlier?, later?);
    let subtracted = |field: &RecordField<PsiHalf, &str>, later: &mut PsiHalf| {
        !matches!(field.subtract(&earlier, later), InWindow::Absent | InWindow::Backwards)
    };
    PSI_HALF.iter().all(|field| subtracted(field, &mut later)).then_some(later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CounterUs;

    fn snapshot(json: &str) -> SnapshotHead {
        serde_json::from_str(&format!(r#"{{"threads":[],{json}}}"#)).unwrap()
    }

    #[test]
    fn counters_of_cgroups_subtract_and_limits_and_gauges_are_the_later_ones() {
        let earlier = snapshot(
            r#""cgroup_stats":{"/a":{"cpu":{"usage_usec":5,"weight":100},"memory":{"current":7,"peak":9,"max":"max",
               "stat":{"anon":1,"pgfault":10}},"io":{"stat":{"8:0":{"rbytes":4},"8:2":{}}}}}"#,
        );
        let mut later = snapshot(
            r#""cgroup_stats":{"/a":{"cpu":{"usage_usec":8,"weight":50},"memory":{"current":3,"peak":9,"max":5,
               "stat":{"anon":2,"pgfault":25,"pgmajfault":1}},"io":{"stat":{"8:0":{"rbytes":6},"8:1":{"rbytes":1},"8:2":{"rbytes":5}}}},
               "/new":{"cpu":{"usage_usec":3,"weight":10}}}"#,
        );
        subtract(&earlier, &mut later);
        let expected = snapshot(
            r#""cgroup_stats":{"/a":{"cpu":{"usage_usec":3,"weight":50},"memory":{"current":3,"max":5,
               "stat":{"anon":2,"pgfault":15}},"io":{"stat":{"8:0":{"rbytes":2},"8:1":{"rbytes":1},"8:2":{"rbytes":5}}}},
               "/new":{"cpu":{"weight":10}}}"#,
        );
        assert_eq!(later, expected);
    }

    #[test]
    fn a_cgroup_that_was_made_again_counts_from_0_and_not_from_its_predecessor() {
        let of = |inode: u64, of: &str, usage: u64| {
            let stats = format!(r#"{{"cpu":{{"usage_usec":{usage},"weight":100}},"inode":{inode},"inode_in":"{of}"}}"#);
            snapshot(&format!(r#""cgroup_stats":{{"/a":{stats}}}"#))
        };
        let window = |mut later: SnapshotHead| {
            subtract(&of(1, "cpu", 5), &mut later);
            later
        };
        assert_eq!((window(of(1, "cpu", 8)), window(of(2, "cpu", 8))), (of(1, "cpu", 3), of(2, "cpu", 8)));
        assert_eq!(window(of(2, "blkio", 8)), of(2, "blkio", 3), "only the hierarchy is another");
    }

    #[test]
    fn pressure_that_went_backwards_is_absent() {
        let psi = |total: u64| {
            snapshot(&format!(r#""psi":{{"cpu":{{"some":{{"avg10":1,"avg60":2,"avg300":3,"total_usec":{total}}}}}}}"#))
        };
        let window = |a: u64, b: u64| {
            let mut later = psi(b);
            subtract(&psi(a), &mut later);
            later.psi.unwrap().cpu.unwrap().some.and_then(|half| half.total_usec).map(CounterUs::number)
        };
        assert_eq!((window(10, 25), window(25, 10)), (Some(15), None));
    }
}
