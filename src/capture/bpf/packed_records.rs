//! Exit records in memory, without the words that are zero, and compressed.

use std::io::{self, BufReader, Read, Write};

use zstd::{Decoder, Encoder};

use super::layout::LENGTH;
use crate::process::fail_now;

/// Memory of a listener: 256 MiB, which is room for five million records of usual size.
pub(super) const MAX_BYTES: usize = 256 << 20;
/// A record that is longer loses its end, where no metric has a field. A bit for each word says whether it follows.
pub(super) const MAX_WORDS: usize = u128::BITS as usize;
/// The fastest level: a storm of short processes takes a few milliseconds per second.
const LEVEL: i32 = 1;

/// Compressed records; the first word of each is its length.
pub(super) struct PackedRecords {
    max_bytes: usize,
    stream: Encoder<'static, Vec<u8>>,
}

impl PackedRecords {
    /// Returns room for records of this many bytes, and for records that are not compressed yet.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, stream: with_memory(Encoder::new(Vec::new(), LEVEL)) }
    }

    /// Adds a record; `None` if memory is full.
    pub(super) fn push(&mut self, record: &[u64]) -> Option<()> {
        (self.stream.get_ref().len() < self.max_bytes).then_some(())?;
        let stored = || (0..).zip(record.iter().take(MAX_WORDS)).filter(|(_, word)| **word != 0);
        let bits = stored().fold(0, |bits: u128, (at, _)| bits | 1 << at);
        let words = stored().flat_map(|(_, word)| word.to_ne_bytes());
        let bytes: Vec<u8> = bits.to_ne_bytes().into_iter().chain(words).collect();
        with_memory(self.stream.write_all(&bytes));
        Some(())
    }

    /// The compressed records, as [`unpacked`] takes them.
    pub(super) fn finish(self) -> Vec<u8> {
        with_memory(self.stream.finish())
    }
}

/// The result of a stream in memory, which fails only if that is missing.
fn with_memory<T>(result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| fail_now(format_args!("cannot keep records of exits: {error}")))
}

/// The records in the order in which they were stored.
pub(super) fn unpacked(packed: &[u8]) -> impl Iterator<Item = Vec<u64>> {
    let mut stream = BufReader::new(with_memory(Decoder::new(packed)));
    std::iter::from_fn(move || {
        let bits = u128::from_ne_bytes(next_bytes(&mut stream)?);
        let mut record = vec![0; MAX_WORDS];
        for (_, word) in (0..).zip(&mut record).filter(|(at, _)| bits >> at & 1 == 1) {
            *word = u64::from_ne_bytes(next_bytes(&mut stream)?);
        }
        record.truncate(usize::try_from(record[LENGTH]).unwrap_or(MAX_WORDS));
        Some(record)
    })
}

fn next_bytes<const N: usize>(stream: &mut impl Read) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).is_ok().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores the records, with their length as their first word.
    fn pushed(packed: &mut PackedRecords, mut record: Vec<u64>) -> Option<Vec<u64>> {
        record[LENGTH] = u64::try_from(record.len()).unwrap();
        packed.push(&record).map(|()| record)
    }

    #[test]
    fn records_come_back_as_they_were() {
        let mut packed = PackedRecords::new(1);
        let sparse = [[0; 80], [7; 80]].concat()[..86].to_vec();
        let records = [(0..MAX_WORDS as u64).collect(), vec![0; 5], sparse];
        let records = records.map(|record| pushed(&mut packed, record).unwrap());
        assert!(unpacked(&packed.finish()).eq(records));
        assert_eq!(unpacked(&PackedRecords::new(1).finish()).count(), 0);
    }

    /// A record whose words cannot be compressed.
    fn noise(seed: u64) -> Vec<u64> {
        let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move || {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word
        };
        (0..MAX_WORDS).map(|_| next()).collect()
    }

    #[test]
    fn records_are_stored_until_memory_is_full() {
        const MEMORY_BYTES: usize = 1 << 20;
        let mut packed = PackedRecords::new(MEMORY_BYTES);
        let stored: Vec<_> = (0..).map_while(|seed| pushed(&mut packed, noise(seed))).collect();
        let bytes = 8 * MAX_WORDS * stored.len();
        assert!((MEMORY_BYTES..MEMORY_BYTES + (512 << 10)).contains(&bytes), "{bytes}");
        assert_eq!(packed.push(&[1]), None, "no smaller record later");
        assert!(unpacked(&packed.finish()).eq(stored));
    }

    #[test]
    fn records_of_similar_processes_take_less_than_50_bytes_each() {
        let mut packed = PackedRecords::new(MAX_BYTES);
        // Ids, times and run times differ, as in records of 200 bytes of a process that does nothing.
        let record = |number: u64| {
            let mut words = [7u64; 23];
            words[1..4].copy_from_slice(&[number, number * 200_000, 90_000 + number * number % 9973]);
            words.to_vec()
        };
        let records: Vec<_> = (0..50_000).map(|number| pushed(&mut packed, record(number)).unwrap()).collect();
        let packed = packed.finish();
        assert!(packed.len() / records.len() < 50, "{} bytes per record", packed.len() / records.len());
        assert!(unpacked(&packed).eq(records));
    }
}
