//! A map of what passes have learned, which forgets what they no longer use.

use std::collections::HashMap;
use std::hash::Hash;

/// Values that were used since the last but one call of [`turn`](Self::turn), up to a maximum number.
pub(super) struct Recent<K, V> {
    /// The values, in a message.
    what: &'static str,
    most: usize,
    /// Values that were used since the last turn; the field below has values used only before it.
    current: HashMap<K, V>,
    earlier: HashMap<K, V>,
    /// Values since the last turn that were not remembered.
    without_room: u64,
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    pub(super) fn new(what: &'static str, most: usize) -> Self {
        Self { what, most, current: HashMap::new(), earlier: HashMap::new(), without_room: 0 }
    }

    /// The value of a key, which is learned if it is not known.
    pub(super) fn get_or_insert_with(&mut self, key: K, learn: impl FnOnce() -> V) -> V {
        if let Some(value) = self.current.get(&key) {
            return value.clone();
        }
        let value = self.earlier.remove(&key).unwrap_or_else(learn);
        self.insert(key, value.clone());
        value
    }

    /// The value of a key, if it is known.
    pub(super) fn get(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.current.get(&key) {
            return Some(value.clone());
        }
        let value = self.earlier.get(&key)?.clone();
        if self.has_room() {
            self.insert(key, value.clone());
        }
        Some(value)
    }

    /// Remembers a value, if there is room.
    pub(super) fn insert(&mut self, key: K, value: V) {
        self.earlier.remove(&key);
        if self.current.len() < self.most || self.current.contains_key(&key) {
            self.current.insert(key, value);
        } else {
            self.without_room += 1;
        }
    }

    /// Forgets the value of a key.
    pub(super) fn remove(&mut self, key: &K) {
        self.current.remove(key);
        self.earlier.remove(key);
    }

    /// A value that was used only before the last turn.
    pub(super) fn earlier(&self, key: &K) -> Option<&V> {
        self.earlier.get(key)
    }

    /// Whether another value is remembered.
    pub(super) fn has_room(&self) -> bool {
        self.current.len() < self.most
    }

    /// Forgets what was not used since the turn before.
    pub(super) fn turn(&mut self) {
        self.turn_with(|_, _| false);
    }

    /// Forgets what was not used since the turn before, and is not in use.
    pub(super) fn turn_with(&mut self, is_in_use: impl Fn(&K, &V) -> bool) {
        for (key, value) in std::mem::take(&mut self.earlier) {
            if self.has_room() && is_in_use(&key, &value) {
                self.insert(key, value);
            }
        }
        let Self { what, most, .. } = self;
        if std::mem::take(&mut self.without_room) > 0 {
            tracing::info!("more than {most} {what}: what has no room is learned again each time");
        }
        self.earlier = std::mem::take(&mut self.current);
    }

    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.current.len() + self.earlier.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_forgotten_after_a_turn_without_use() {
        let mut numbers = Recent::new("numbers", 10);
        numbers.insert(1, "one");
        numbers.insert(2, "two");
        for _ in 0..3 {
            numbers.turn();
            assert_eq!(numbers.get_or_insert_with(1, || "learned again"), "one");
        }
        assert_eq!((numbers.get(2), numbers.len()), (None, 1));
        numbers.turn();
        numbers.turn();
        assert_eq!((numbers.get(1), numbers.len()), (None, 0));
    }

    #[test]
    fn beyond_the_room_values_are_learned_each_time() {
        let mut numbers = Recent::new("numbers", 10);
        for round in 0..3 {
            for number in 0..100 {
                let learned = numbers.get_or_insert_with(number, || round);
                assert_eq!(learned, if number < 10 { 0 } else { round });
            }
            assert_eq!(numbers.len(), 10);
        }
    }
}
