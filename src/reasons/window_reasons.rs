//! The reasons of a window, each once: what takes time per thread compares numbers, not names.

use std::collections::BTreeSet;

use super::collector::index;
use crate::model::{Reason, ReasonClass, StackGroups};

/// The reasons of a window in their order, and their places in it.
pub(super) struct WindowReasons {
    pub(super) all: Vec<Reason>,
    places: Vec<ReasonPlaces>,
    pub(super) stacks: StackGroups,
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
        let idle = |reason: &Reason| match reason.class {
            ReasonClass::Sleep => Reason { class: ReasonClass::Idle, ..reason.without_stacks() },
            _ => reason.clone(),
        };
        let sampled: Vec<_> = sampled.into_iter().map(|reason| [idle(&reason), reason]).collect();
        let unread = Reason { class: ReasonClass::Unread, ..Reason::default() };
        let all: BTreeSet<_> = sampled.iter().flatten().chain([&unread]).cloned().collect();
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
            stacks: StackGroups::new(&all),
            unread: place(&unread),
            all,
        }
    }

    /// The places of a reason by the number that samples give it.
    pub(super) fn places(&self, number: u32) -> ReasonPlaces {
        self.places[index(number)]
    }
}
