//! Stacks of sleeps whose stack was not read: each pass reads the stacks of some sleeps, chosen at random.

use std::collections::HashMap;

use super::{NumberedValues, Reason, ReasonClass, ReasonTime, Reasons, SampledThreads, SampledTime};

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
        let weights: Vec<u64> = known.map(|(_, time)| time.ns).collect();
        if weights.iter().all(|ns| *ns == 0) {
            return;
        }
        let mut left = SampledTime::default();
        for (_, time) in alike.iter_mut().filter(|(place, _)| !is_known(*place)) {
            left.add(std::mem::take(time));
        }
        let known = alike.iter_mut().filter(|(place, _)| is_known(*place));
        known.zip(left.divided(&weights)).for_each(|((_, time), more)| time.add(more));
    }
}

/// The sleeps of a time, by the threads and by what their reasons have in common: some reasons, and how long each lasted.
pub(crate) struct WholeSleeps<'w>(HashMap<(&'w SampledThreads, Reason), Vec<(&'w Reason, u64)>>);

impl<'w> WholeSleeps<'w> {
    pub(crate) fn new(whole: &'w Reasons) -> Self {
        let mut sleeps = HashMap::<_, Vec<_>>::new();
        for time in whole.times.iter().filter(|time| time.ns > 0) {
            if let Some((threads, reason)) = whole.of(time)
                && matches!(reason.class, ReasonClass::Sleep | ReasonClass::Idle)
            {
                sleeps.entry((threads, as_idle(reason))).or_default().push((reason, time.ns));
            }
        }
        Self(sleeps)
    }

    /// Divides the sleeps that lasted through a part of the time as it has them: they are idle only if they lasted through all
    /// of it, and else have the stacks with which they began or ended.
    pub(crate) fn tell(&self, part: &mut Reasons) {
        let (mut reasons, mut times) = (NumberedValues::default(), Vec::new());
        for time in &part.times {
            let Some((threads, reason)) = part.of(time) else { continue };
            let idle = Some(reason).filter(|reason| reason.class == ReasonClass::Idle);
            let sleeps = idle.and_then(|idle| self.0.get(&(threads, idle.clone())));
            let (sleeps, weights): (Vec<_>, Vec<_>) = sleeps.map_or(vec![(reason, 1)], Vec::clone).into_iter().unzip();
            let shares = SampledTime { ns: time.ns, samples: time.samples }.divided(&weights);
            times.extend(sleeps.into_iter().zip(shares).map(|(reason, SampledTime { ns, samples })| ReasonTime {
                reason: reasons.number(reason).into(),
                ns,
                samples,
                ..*time
            }));
        }
        (part.reasons, part.times) = (reasons.values, times);
    }
}

/// What a sleep is called while it lasts through a whole window.
fn as_idle(reason: &Reason) -> Reason {
    Reason { class: ReasonClass::Idle, ..reason.without_stacks() }
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

    #[test]
    fn a_sleep_through_a_part_is_what_it_is_in_all_of_the_time() {
        use ReasonClass::{Idle, Sleep};
        /// Reasons of one thread: the class, the stack, and how long it lasted.
        fn sleeps(rows: &[(ReasonClass, Option<&str>, u64)]) -> Reasons {
            let reason = |(class, stack, _): &(ReasonClass, Option<&str>, u64)| Reason {
                class: *class,
                entry: Some("futex".into()),
                stack: stack.map(Name::from),
                ..Reason::default()
            };
            let time =
                |(reason, (.., ns)): (u64, &(_, _, u64))| ReasonTime { threads: 0, reason, ns: *ns, samples: *ns };
            let (reasons, times) = (rows.iter().map(reason).collect(), (0..).zip(rows).map(time).collect());
            Reasons { threads: vec![SampledThreads::default()], reasons, times, ..Reasons::default() }
        }
        let told = |whole: &[_], part: &[_]| {
            let mut part = sleeps(part);
            WholeSleeps::new(&sleeps(whole)).tell(&mut part);
            let rows = part.times.iter().map(|time| (part.of(time).unwrap().1.clone(), time.ns));
            rows.map(|(reason, ns)| (reason.class, reason.stack, ns)).collect::<Vec<_>>()
        };
        let [get, set] = [Some("a:get"), Some("a:set")];
        let through = [(Idle, None, 10)];
        assert_eq!(told(&[(Idle, None, 90)], &through), [(Idle, None, 10)], "it never did anything");
        assert_eq!(told(&[(Sleep, get, 90)], &through), [(Sleep, get.map(Name::from), 10)]);
        let some = told(&[(Sleep, get, 60), (Sleep, set, 30), (Idle, None, 30)], &[(Idle, None, 12), (Sleep, get, 5)]);
        let [get, set] = [get, set].map(|stack| stack.map(Name::from));
        let expected = [(Sleep, get.clone(), 6), (Sleep, set, 3), (Idle, None, 3), (Sleep, get, 5)];
        assert_eq!(some, expected, "the sum stays the same");
    }
}
