//! Stacks of threads that sleep, each known by a number.

use std::collections::{HashMap, HashSet};

use super::unwinder::CodeAddress;
use crate::model::NumberedValues;

/// Distinct stacks, places at which threads slept, and addresses in functions that are remembered.
const MAX_STACKS: usize = 1 << 14;
const MAX_PLACES: usize = 1 << 15;
const MAX_ADDRESSES: usize = 1 << 16;

/// A thread's id, its instruction and its stack pointer while it sleeps: nearly always, it got there in the same way as before.
pub(super) type SleepPlace = (u32, u64, u64);

/// Stacks that were read, as lists of numbers of addresses, the innermost first.
#[derive(Default)]
pub(super) struct StackList {
    pub(super) addresses: NumberedValues<CodeAddress>,
    stacks: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, u32>,
    /// The stack that a thread had when it slept there last.
    places: HashMap<SleepPlace, u32>,
    /// Stacks with only their innermost function known so far.
    unread: HashSet<u32>,
}

impl StackList {
    /// The number of a stack that was read while the thread slept at a place; `None` if there are too many stacks.
    pub(super) fn add(&mut self, place: SleepPlace, addresses: &[CodeAddress]) -> Option<u32> {
        let stack = self.numbered(addresses)?;
        if let Some(unread) = self.places.get(&place).filter(|number| self.unread.contains(number)) {
            let (unread, complete) = (*unread, stack.clone());
            self.unread.remove(&unread);
            self.stacks.get_mut(index(unread)).into_iter().for_each(|stored| stored.clone_from(&complete));
        }
        let number = self.number_of(stack)?;
        if self.places.len() < MAX_PLACES || self.places.contains_key(&place) {
            self.places.insert(place, number);
        }
        Some(number)
    }

    /// The number of a stack of a thread that ran; `None` if there are too many stacks.
    pub(super) fn number(&mut self, addresses: &[CodeAddress]) -> Option<u32> {
        let stack = self.numbered(addresses)?;
        self.number_of(stack)
    }

    fn number_of(&mut self, stack: Vec<u32>) -> Option<u32> {
        if let Some(number) = self.numbers.get(&stack) {
            return Some(*number);
        }
        let number = self.next()?;
        self.stacks.push(stack.clone());
        self.numbers.insert(stack, number);
        Some(number)
    }

    /// The number of the stack of a thread that went on before it was read: the one that it has or will have at that place.
    pub(super) fn add_unread(&mut self, place: SleepPlace, innermost: CodeAddress) -> Option<u32> {
        if let Some(number) = self.places.get(&place) {
            return Some(*number);
        }
        let (stack, number) = (self.numbered(&[innermost])?, self.next()?);
        if self.places.len() >= MAX_PLACES {
            return None;
        }
        self.stacks.push(stack);
        self.unread.insert(number);
        self.places.insert(place, number);
        Some(number)
    }

    /// The numbers of the addresses of a stack; none if there is no stack with this number.
    pub(super) fn stack(&self, number: u32) -> &[u32] {
        self.stacks.get(index(number)).map_or(&[], Vec::as_slice)
    }

    /// The number of values in all maps.
    pub(super) fn entries(&self) -> usize {
        self.stacks.len() + self.addresses.values.len() + self.places.len()
    }

    fn numbered(&mut self, addresses: &[CodeAddress]) -> Option<Vec<u32>> {
        addresses.iter().map(|address| self.addresses.number_up_to(MAX_ADDRESSES, address)).collect()
    }

    fn next(&self) -> Option<u32> {
        u32::try_from(self.stacks.len()).ok().filter(|_| self.stacks.len() < MAX_STACKS)
    }
}

pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: u64) -> CodeAddress {
        CodeAddress::InFile(0, address)
    }

    fn addresses(list: &StackList, number: u32) -> Vec<CodeAddress> {
        list.stack(number).iter().map(|&number| list.addresses.values[index(number)]).collect()
    }

    #[test]
    fn a_thread_that_went_on_has_the_stack_that_it_has_at_that_place_earlier_or_later() {
        let mut list = StackList::default();
        let (here, there) = ((7, 0x10, 0x1000), (7, 0x10, 0x2000));
        let read = list.add(here, &[at(1), at(2)]).unwrap();
        assert_eq!(list.add_unread(here, at(1)), Some(read));
        let unread = list.add_unread(there, at(1)).unwrap();
        assert_eq!((list.add_unread(there, at(1)), addresses(&list, unread)), (Some(unread), vec![at(1)]));
        let later = list.add(there, &[at(1), at(3)]).unwrap();
        assert_eq!([unread, later].map(|number| addresses(&list, number)), [vec![at(1), at(3)], vec![at(1), at(3)]]);
        assert_eq!(addresses(&list, read), [at(1), at(2)]);
        assert_eq!(list.add(there, &[at(1), at(2)]), Some(read), "one number for equal stacks");
        assert_eq!(addresses(&list, unread), [at(1), at(3)], "its first stack");
    }

    #[test]
    fn stacks_without_end_take_no_memory_without_end() {
        let mut list = StackList::default();
        for number in 0..200_000 {
            list.add((1, number, number), &[at(number), at(number + 1)]);
            list.add_unread((2, number, number), at(number));
        }
        assert!(list.entries() <= MAX_STACKS + MAX_PLACES + MAX_ADDRESSES, "{}", list.entries());
    }
}
