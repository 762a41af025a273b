//! Stacks of sleeps whose stack was not read: each pass reads the stacks of some sleeps, chosen at random.

use super::{NumberedValues, Reason, SampledTime};

/// For each reason of a list, in its order: a number that it shares with the reasons that differ only by their stacks, and whether
/// it has a stack of its program.
pub(crate) struct StackGroups(Vec<(u32, bool)>);

impl StackGroups {
    pub(crate) fn new(reasons: &[Reason]) -> Self {
        let mut alike = NumberedValues::default();
        let of = |reason: &Reason| (alike.number(&reason.without_stacks()), reason.stack.is_some());
        Self(reasons.iter().map(of).collect())
    }

    fn of(&self, place: u32) -> Option<&(u32, bool)> {
        self.0.get(usize::try_from(place).ok()?)
    }

    /// Divides the time of each reason without a stack between the same reasons with one, of the same threads, as these have it.
    /// Returns the reasons in their order.
    pub(crate) fn share(&self, mut times: Vec<(u32, SampledTime)>) -> Vec<(u32, SampledTime)> {
        let number = |place: u32| self.of(place).map(|(number, _)| *number);
        times.sort_unstable_by_key(|(place, _)| (number(*place), *place));
        for alike in times.chunk_by_mut(|(one, _), (other, _)| number(*one) == number(*other)) {
            self.share_alike(alike);
        }
        times.retain(|(_, time)| *time != SampledTime::default());
        times.sort_unstable_by_key(|(place, _)| *place);
        times
    }

    /// Reasons that differ by their stacks only. What has no stack has no time afterwards, if another one has.
    fn share_alike(&self, alike: &mut [(u32, SampledTime)]) {
        let is_known = |place: u32| self.of(place).is_some_and(|(_, has_stack)| *has_stack);
        let known = alike.iter().filter(|(place, _)| is_known(*place));
        let all = known.fold(0, |all: u64, (_, time)| all.saturating_add(time.ns));
        if all == 0 {
            return;
        }
        let mut left = SampledTime::default();
        for (_, time) in alike.iter_mut().filter(|(place, _)| !is_known(*place)) {
            left.add(std::mem::take(time));
        }
        let mut rest = left;
        let mut known = alike.iter_mut().filter(|(place, _)| is_known(*place)).peekable();
        while let Some((_, time)) = known.next() {
            let more = if known.peek().is_none() { rest } else { left.part(time.ns, all) };
            rest = rest.less(more);
            time.add(more);
        }
    }
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
        let (reasons, times): (Vec<_>, Vec<_>) = times.into_iter().unzip();
        let shared = StackGroups::new(&reasons).share((0..).zip(times).collect());
        let named: Vec<_> =
            shared.into_iter().map(|(place, time)| (reasons[usize::try_from(place).unwrap()].clone(), time)).collect();
        let expected = [
            (reason("futex", Some("a:get")), amount(600, 9)),
            (reason("futex", Some("a:set")), amount(201, 4)),
            (reason("poll", None), amount(50, 5)),
        ];
        assert_eq!(named, expected, "the sum stays the same");
    }
}
