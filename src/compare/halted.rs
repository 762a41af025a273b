//! How long the threads of groups were stopped, traced or frozen.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::measure::rest_of;
use super::{BLOCK, GroupReason, GroupTotals, GroupedReasons, Groups, HALTED, HaltedNs, SLEEP, whole};
use crate::model::sorted::Arrange;
use crate::model::{SampledTime, SnapshotHead};

/// Tells groups how long their threads were halted. Groups of groups have the sums, so that the rows of a report add up.
pub(super) fn tell(groups: &mut Groups, reasons: &GroupedReasons, head: &SnapshotHead) {
    let mut paths: Vec<_> = groups.keys().cloned().collect();
    paths.arrange_by_key(|path| Reverse(path.len()));
    let mut sums: BTreeMap<Vec<String>, HaltedNs> = BTreeMap::new();
    for path in paths {
        let Some(group) = groups.get_mut(&path) else { continue };
        let of_samples = || reasons.get(&path).map_or_else(HaltedNs::default, |times| halted_ns(group, times, head));
        let halted_ns = sums.remove(&path).unwrap_or_else(of_samples);
        if let Some((_, above)) = path.split_last() {
            let sum = sums.entry(above.to_vec()).or_default();
            sum.iter_mut().zip(halted_ns).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
        }
        group.halted_ns = halted_ns;
    }
}

/// How long the threads of a group were halted: the rest of their time, divided as samples are. Without a counter of blocked
/// time, the rest includes it.
fn halted_ns(group: &GroupTotals, times: &BTreeMap<GroupReason, SampledTime>, head: &SnapshotHead) -> HaltedNs {
    let sampled = |is: &dyn Fn(&str) -> bool| {
        let times = times.iter().filter(|(reason, _)| reason.column().is_some_and(is));
        times.map(|(_, time)| time.ns as f64).sum::<f64>()
    };
    let is_rest = |column: &str| match column {
        BLOCK => group.blocked_ns.is_none(),
        column => column == SLEEP || HALTED.contains(&column),
    };
    let (all, rest) = (sampled(&is_rest), rest_of(head, group).unwrap_or(0));
    let part = |state: &str| match sampled(&|column| column == state) {
        halted if halted > 0.0 => whole(rest as f64 * (halted / all)),
        _ => 0,
    };
    HALTED.map(part)
}
