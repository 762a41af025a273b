//! Stacks of sleeps whose stack was not read: each pass reads the stacks of some sleeps, chosen at random.

use std::collections::BTreeMap;

use crate::model::{Reason, SampledTime};

/// Divides the time of each reason without a stack between the same reasons with one, of the same threads, as these have it.
pub(super) fn share(times: BTreeMap<Reason, SampledTime>) -> BTreeMap<Reason, SampledTime> {
    let mut alike: BTreeMap<Reason, Vec<(Reason, SampledTime)>> = BTreeMap::new();
    for (reason, time) in times {
        let without = Reason { stack: None, held_in: None, ..reason.clone() };
        alike.entry(without).or_default().push((reason, time));
    }
    let mut shared = BTreeMap::<Reason, SampledTime>::new();
    for times in alike.into_values() {
        let (known_stacks, unknown): (Vec<_>, Vec<_>) =
            times.into_iter().partition(|(reason, _)| reason.stack.is_some());
        let mut left = SampledTime::default();
        unknown.iter().for_each(|(_, time)| left.add(*time));
        let all = known_stacks.iter().fold(0, |all: u64, (_, time)| all.saturating_add(time.ns));
        if all == 0 {
            let rest = known_stacks.into_iter().chain(unknown);
            rest.for_each(|(reason, time)| shared.entry(reason).or_default().add(time));
            continue;
        }
        let mut rest = left;
        for (number, (reason, time)) in known_stacks.iter().enumerate() {
            let is_last = number + 1 == known_stacks.len();
            let more = if is_last { rest } else { part(left, time.ns, all) };
            rest = SampledTime { ns: rest.ns - more.ns, samples: rest.samples - more.samples };
            let sum = shared.entry(reason.clone()).or_default();
            sum.add(*time);
            sum.add(more);
        }
    }
    shared
}

/// The part `ns` / `all` of an amount.
fn part(amount: SampledTime, ns: u64, all: u64) -> SampledTime {
    let of = |number: u64| u64::try_from(u128::from(number) * u128::from(ns) / u128::from(all)).unwrap_or(number);
    SampledTime { ns: of(amount.ns), samples: of(amount.samples) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Name, ReasonClass};

    #[test]
    fn sleeps_without_a_stack_have_those_of_the_same_reason() {
        let reason = |entry: &str, stack: Option<&str>| Reason {
            class: ReasonClass::Sleep,
            entry: Some(entry.into()),
            stack: stack.map(Name::from),
            ..Reason::default()
        };
        let amount = |ns, samples| SampledTime { ns, samples };
        let times = [
            (reason("futex", Some("a:get")), amount(300, 3)),
            (reason("futex", Some("a:set")), amount(100, 1)),
            (reason("futex", None), amount(401, 9)),
            (reason("poll", None), amount(50, 5)),
        ];
        let shared = share(times.into());
        let expected = [
            (reason("futex", Some("a:get")), amount(600, 9)),
            (reason("futex", Some("a:set")), amount(201, 4)),
            (reason("poll", None), amount(50, 5)),
        ];
        assert_eq!(shared, expected.into(), "the sum stays the same");
    }
}
