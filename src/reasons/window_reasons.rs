//! The reasons of a window, each once: what takes time per thread compares numbers, not names.

use std::collections::BTreeSet;

use super::collector::index;
use crate::model::{Reason, ReasonClass};

/// The reasons of a window in their order, and their places in it.
pub(super) struct WindowReasons {
    pub(super) all: Vec<Reason>,
    /// The places of each sampled reason: of threads that did something in the window, and of threads that slept throughout.
    places: Vec<[u32; 2]>,
    /// The place of each reason without its stacks.
    without_stacks: Vec<u32>,
    /// The place of the reason of threads that could not be read.
    pub(super) unread: u32,
}

impl WindowReasons {
    /// `sampled` has the reasons by the numbers that samples give them.
    pub(super) fn new(sampled: Vec<Reason>) -> Self {
        let without_stacks = |reason: &Reason| Reason { stack: None, held_in: None, ..reason.clone() };
        let idle = |reason: &Reason| match reason.class {
            ReasonClass::Sleep => Reason { class: ReasonClass::Idle, ..without_stacks(reason) },
            _ => reason.clone(),
        };
        let sampled: Vec<_> = sampled.into_iter().map(|reason| [idle(&reason), reason]).collect();
        let unread = Reason { class: ReasonClass::Unread, ..Reason::default() };
        let all: BTreeSet<_> = sampled.iter().flatten().chain([&unread]).cloned().collect();
        let all: BTreeSet<_> = all.iter().map(without_stacks).chain(all.iter().cloned()).collect();
        let all = Vec::from_iter(all);
        let place = |reason: &Reason| {
            let place = all.binary_search(reason).expect("the list has each of them");
            u32::try_from(place).expect("reasons fit in memory")
        };
        Self {
            places: sampled.iter().map(|[idle, reason]| [place(reason), place(idle)]).collect(),
            without_stacks: all.iter().map(|reason| place(&without_stacks(reason))).collect(),
            unread: place(&unread),
            all,
        }
    }

    /// The place of a sampled reason.
    pub(super) fn place(&self, number: u32, is_idle: bool) -> u32 {
        self.places[index(number)][usize::from(is_idle)]
    }

    pub(super) fn has_stack(&self, place: u32) -> bool {
        self.all[index(place)].stack.is_some()
    }

    /// The place of the same reason without its stacks.
    pub(super) fn without_stacks(&self, place: u32) -> u32 {
        self.without_stacks[index(place)]
    }
}
