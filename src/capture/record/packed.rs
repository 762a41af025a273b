//! Exit records in memory, without the words that are zero or that no metric needs.

use std::slice::Iter;

/// Words per chunk. A chunk does not move as it grows.
const CHUNK_WORDS: usize = 1 << 16;
/// Chunks of a listener: 256 MiB, which is room for a million records of usual size.
pub(in crate::capture) const MAX_CHUNKS: usize = 512;
/// A record that is longer loses its end, where no metric has a field.
pub(in crate::capture) const MAX_WORDS: usize = 128;
/// Words before those of a record: the time, and a bit for each word of the record that follows.
const HEAD_WORDS: usize = 3;

/// Records of equal length, each with a time.
#[derive(Debug)]
pub(in crate::capture) struct Packed {
    max_chunks: usize,
    /// Length of a record in bytes; 0 without records.
    length: usize,
    chunks: Vec<Vec<u64>>,
}

/// Memory is full, or the record has another length than those before.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::capture) struct NotStored;

impl Packed {
    pub(in crate::capture) fn new(max_chunks: usize) -> Self {
        Self { max_chunks, length: 0, chunks: Vec::new() }
    }

    /// Stores the words of a record that have a bit in `needed`.
    pub(in crate::capture) fn push(&mut self, time: u64, record: &[u8], needed: u128) -> Result<(), NotStored> {
        if self.chunks.is_empty() {
            self.length = record.len();
        }
        let is_full = |chunk: &Vec<u64>| chunk.capacity() - chunk.len() < HEAD_WORDS + MAX_WORDS;
        if self.chunks.last().is_none_or(is_full) {
            (self.chunks.len() < self.max_chunks).then_some(()).ok_or(NotStored)?;
            self.chunks.push(Vec::with_capacity(CHUNK_WORDS));
        }
        let chunk = self.chunks.last_mut().filter(|_| record.len() == self.length).ok_or(NotStored)?;
        let start = chunk.len();
        chunk.extend([time, 0, 0]);
        for (at, word) in words(record).enumerate().filter(|(at, word)| needed >> at & 1 == 1 && *word != 0) {
            chunk[start + 1 + at / 64] |= 1 << (at % 64);
            chunk.push(word);
        }
        Ok(())
    }

    /// The records in the order in which they were stored: the time, and the record with zeros for the words that
    /// are not stored.
    pub(in crate::capture) fn iter(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        self.chunks.iter().flat_map(|chunk| Records { words: chunk.iter(), length: self.length })
    }
}

/// The words of a record. If its end is in a word, the rest of that is zero.
fn words(record: &[u8]) -> impl Iterator<Item = u64> {
    let word = |bytes: &[u8]| {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(whole)
    };
    record.chunks(8).take(MAX_WORDS).map(word)
}

struct Records<'a> {
    words: Iter<'a, u64>,
    length: usize,
}

impl Iterator for Records<'_> {
    type Item = (u64, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        let [time, low, high] = [self.words.next()?, self.words.next()?, self.words.next()?];
        let mut record = vec![0; self.length];
        for (at, bytes) in record.chunks_mut(8).take(MAX_WORDS).enumerate() {
            if [low, high][at / 64] >> (at % 64) & 1 == 1 {
                bytes.copy_from_slice(&self.words.next()?.to_ne_bytes()[..bytes.len()]);
            }
        }
        Some((*time, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_words_come_back_and_others_are_zero() {
        let stats: Vec<u8> = (0..=255).cycle().take(688).collect();
        let mut sparse = vec![0; 688];
        sparse[600..608].copy_from_slice(&[7; 8]);
        let mut packed = Packed::new(2);
        packed.push(1, &stats, !0).unwrap();
        packed.push(2, &sparse, !0).unwrap();
        packed.push(3, &stats, 1 << 2 | 1 << 75).unwrap();
        assert_eq!(packed.chunks[0].len(), (3 + 86) + (3 + 1) + (3 + 2));
        let mut some = vec![0; 688];
        for word in [16..24, 600..608] {
            some[word.clone()].copy_from_slice(&stats[word]);
        }
        assert_eq!(packed.iter().collect::<Vec<_>>(), [(1, stats), (2, sparse), (3, some)]);
    }

    #[test]
    fn a_struct_of_another_length_is_refused() {
        let mut packed = Packed::new(2);
        packed.push(1, &[1; 560], !0).unwrap();
        assert_eq!(packed.push(2, &[1; 568], !0), Err(NotStored));
        assert_eq!(packed.iter().count(), 1);
    }

    #[test]
    fn records_continue_in_the_next_chunk_until_memory_is_full() {
        let mut packed = Packed::new(2);
        let stored = (0..).take_while(|&time| packed.push(time, &[1; 1024], !0).is_ok()).count();
        assert_eq!(stored, 2 * (CHUNK_WORDS / (HEAD_WORDS + MAX_WORDS)));
        assert!(packed.chunks.iter().all(|chunk| chunk.capacity() == CHUNK_WORDS));
        assert!(packed.iter().map(|(time, _)| time).eq(0..u64::try_from(stored).unwrap()));
    }
}
