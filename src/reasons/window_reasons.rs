//! The reasons of a window, each once: what takes time per thread compares numbers, not names.

use std::collections::BTreeSet;

use super::collector::index;
use crate::model::{Reason, ReasonClass};

/// The reasons of a window in their order, and their places in it.
pub(super) struct WindowReasons {
    pub(super) all: Vec<Reason>,
    places: Vec<ReasonPlaces>,
    /// The place of each reason without its stacks.
    without_stacks: Vec<u32>,
    /// The place of the reason of threads that could not be read.
    pub(super) unread: u32,
}

/// Where a sampled reason is in the list.
#[derive(Clone, Copy)]
pub(super) struct ReasonPlaces {
    /// The place for threads that did something in the window.
    pub(super) active: u32,
    /// The place for threads that slept throughout the window.
    pub(super) idle: u32,
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
        let all = sampled.iter().flatten().chain([&unread]);
        let all: BTreeSet<_> = all.flat_map(|reason| [without_stacks(reason), reason.clone()]).collect();
        let all = Vec::from_iter(all);
        let place = |reason: &Reason| {
            let place = all.binary_search(reason).expect("the list has each of them");
            u32::try_from(place).expect("reasons fit in memory")
        };
        Self {
            places: sampled
                .iter()
                .map(|[idle, active]| ReasonPlaces { active: place(active), idle: place(idle) })
                .collect(),
            without_stacks: all.iter().map(|reason| place(&without_stacks(reason))).collect(),
            unread: place(&unread),
            all,
        }
    }

    /// The places of a reason by the number that samples give it.
    pub(super) fn places(&self, number: u32) -> ReasonPlaces {
        self.places[index(number)]
    }

    /// Whether the reason at a place has a stack of its program.
    pub(super) fn has_stack(&self, place: u32) -> bool {
        self.all[index(place)].stack.is_some()
    }

    /// The place of the same reason without its stacks.
    pub(super) fn without_stacks(&self, place: u32) -> u32 {
        self.without_stacks[index(place)]
    }
}
