//! Stacks of sleeps whose stack was not read: each pass reads the stacks of some sleeps, chosen at random.

use super::window_reasons::WindowReasons;
use crate::model::SampledTime;

/// Divides the time of each reason without a stack between the same reasons with one, of the same threads, as these have it. Returns
/// the reasons in their order.
pub(super) fn share(mut times: Vec<(u32, SampledTime)>, reasons: &WindowReasons) -> Vec<(u32, SampledTime)> {
    times.sort_unstable_by_key(|(reason, _)| (reasons.without_stacks(*reason), *reason));
    for alike in
        times.chunk_by_mut(|(one, _), (other, _)| reasons.without_stacks(*one) == reasons.without_stacks(*other))
    {
        share_alike(alike, reasons);
    }
    times.retain(|(_, time)| *time != SampledTime::default());
    times.sort_unstable_by_key(|(reason, _)| *reason);
    times
}

/// Reasons that differ by their stacks only. What has no stack has no time afterwards, if another one has.
fn share_alike(alike: &mut [(u32, SampledTime)], reasons: &WindowReasons) {
    let is_known = |reason: u32| reasons.has_stack(reason);
    let all =
        alike.iter().filter(|(reason, _)| is_known(*reason)).fold(0, |all: u64, (_, time)| all.saturating_add(time.ns));
    if all == 0 {
        return;
    }
    let mut left = SampledTime::default();
    for (_, time) in alike.iter_mut().filter(|(reason, _)| !is_known(*reason)) {
        left.add(std::mem::take(time));
    }
    let mut rest = left;
    let mut known = alike.iter_mut().filter(|(reason, _)| is_known(*reason)).peekable();
    while let Some((_, time)) = known.next() {
        let more = if known.peek().is_none() { rest } else { part(left, time.ns, all) };
        rest = SampledTime { ns: rest.ns - more.ns, samples: rest.samples - more.samples };
        time.add(more);
    }
}

/// The part `ns` / `all` of an amount.
fn part(amount: SampledTime, ns: u64, all: u64) -> SampledTime {
    let of = |number: u64| u64::try_from(u128::from(number) * u128::from(ns) / u128::from(all)).unwrap_or(number);
    SampledTime { ns: of(amount.ns), samples: of(amount.samples) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Name, Reason, ReasonClass};
    use crate::reasons::collector::index;

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
        let reasons = WindowReasons::new(times.iter().map(|(reason, _)| reason.clone()).collect());
        let times = (0..).zip(times).map(|(number, (_, time))| (reasons.places(number).active, time)).collect();
        let shared = share(times, &reasons);
        let named: Vec<_> = shared.into_iter().map(|(place, time)| (reasons.all[index(place)].clone(), time)).collect();
        let expected = [
            (reason("futex", Some("a:get")), amount(600, 9)),
            (reason("futex", Some("a:set")), amount(201, 4)),
            (reason("poll", None), amount(50, 5)),
        ];
        assert_eq!(named, expected, "the sum stays the same");
    }
}
