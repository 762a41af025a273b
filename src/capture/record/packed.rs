//! Exit records in memory, without the words that are zero or that no metric needs, and compressed.

/// Bytes of records that are compressed together.
const CHUNK: usize = 512 << 10;
/// Memory of a listener: 256 MiB, which is room for five million records of usual size.
pub(in crate::capture) const MAX_BYTES: usize = 256 << 20;
/// A record that is longer loses its end, where no metric has a field.
pub(in crate::capture) const MAX_WORDS: usize = 128;
/// Words before those of a record: the time, and a bit for each word of the record that follows.
const HEAD_WORDS: usize = 3;
const WORD: usize = size_of::<u64>();
/// The fastest level: a storm of short processes takes a few milliseconds per second.
const LEVEL: i32 = 1;

/// Records of equal length, each with a time.
#[derive(Debug)]
pub(in crate::capture) struct Packed {
    max_bytes: usize,
    /// Length of a record in bytes; 0 without records.
    length: usize,
    compressed: Vec<Box<[u8]>>,
    compressed_bytes: usize,
    /// The last records, not compressed yet.
    last: Vec<u8>,
    is_full: bool,
}

/// Memory is full, or the record has another length than those before.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::capture) struct NotStored;

impl Packed {
    /// Room for records of so many bytes and for those that are not compressed yet.
    pub(in crate::capture) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, length: 0, compressed: Vec::new(), compressed_bytes: 0, last: Vec::new(), is_full: false }
    }

    /// Stores the words of a record that have a bit in `needed`.
    pub(in crate::capture) fn push(&mut self, time: u64, record: &[u8], needed: u128) -> Result<(), NotStored> {
        if self.last.capacity() == 0 {
            (self.length, self.last) = (record.len(), Vec::with_capacity(CHUNK));
        }
        if CHUNK - self.last.len() < (HEAD_WORDS + MAX_WORDS) * WORD {
            self.compress()?;
        }
        (record.len() == self.length).then_some(()).ok_or(NotStored)?;
        let is_stored = |(at, word): &(usize, u64)| needed >> at & 1 == 1 && *word != 0;
        let stored = || words(record).enumerate().filter(is_stored);
        let bits = stored().fold(0, |bits: u128, (at, _)| bits | 1 << at);
        self.last.extend(time.to_ne_bytes());
        self.last.extend(bits.to_le_bytes());
        self.last.extend(stored().flat_map(|(_, word)| word.to_ne_bytes()));
        Ok(())
    }

    /// Compresses the last records, if that leaves them in the limit.
    fn compress(&mut self) -> Result<(), NotStored> {
        let compressed = if self.is_full { None } else { zstd::bulk::compress(&self.last, LEVEL).ok() };
        let fits = |bytes: &Vec<u8>| self.compressed_bytes + bytes.len() <= self.max_bytes;
        let Some(compressed) = compressed.filter(fits) else {
            self.is_full = true;
            return Err(NotStored);
        };
        self.compressed_bytes += compressed.len();
        self.compressed.push(compressed.into());
        self.last.clear();
        Ok(())
    }

    /// The records in the order in which they were stored: the time, and the record with zeros for the words that
    /// are not stored.
    pub(in crate::capture) fn iter(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let records = |bytes| Records { bytes, at: 0, length: self.length };
        let last = std::iter::once_with(|| self.last.clone());
        self.compressed.iter().map(|bytes| decompressed(bytes)).chain(last).flat_map(records)
    }
}

fn decompressed(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::decompress(bytes, CHUNK).expect("this process compressed it")
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

/// The records of a chunk.
struct Records {
    bytes: Vec<u8>,
    at: usize,
    length: usize,
}

impl Records {
    fn next_bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes[self.at..].first_chunk();
        self.at += N;
        bytes.copied()
    }
}

impl Iterator for Records {
    type Item = (u64, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            return None;
        }
        let (time, bits) = (u64::from_ne_bytes(self.next_bytes()?), u128::from_le_bytes(self.next_bytes()?));
        let mut record = vec![0; self.length];
        for (at, bytes) in record.chunks_mut(WORD).take(MAX_WORDS).enumerate() {
            if bits >> at & 1 == 1 {
                bytes.copy_from_slice(&self.next_bytes::<WORD>()?[..bytes.len()]);
            }
        }
        Some((time, record))
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
        assert_eq!(packed.last.len(), 8 * ((3 + 86) + (3 + 1) + (3 + 2)));
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

    /// A record whose words cannot be compressed.
    fn noise(seed: u64) -> Vec<u8> {
        let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move || {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word
        };
        (0..MAX_WORDS).flat_map(|_| next().to_ne_bytes()).collect()
    }

    #[test]
    fn records_continue_in_the_next_chunk_until_memory_is_full() {
        let mut packed = Packed::new(2 * CHUNK);
        let stored = (0..).take_while(|&time| packed.push(time, &noise(time), !0).is_ok()).count();
        let per_chunk = CHUNK / WORD / (HEAD_WORDS + MAX_WORDS);
        assert!((2 * per_chunk..=3 * per_chunk).contains(&stored), "{stored}");
        assert!(packed.compressed_bytes <= 2 * CHUNK && packed.last.capacity() == CHUNK);
        assert_eq!(packed.push(0, &noise(0), !0), Err(NotStored), "no smaller record later");
        let times = 0..u64::try_from(stored).unwrap();
        assert!(packed.iter().eq(times.map(|time| (time, noise(time)))));
    }

    #[test]
    fn a_storm_of_equal_processes_filled_memory_in_minutes() {
        let mut packed = Packed::new(MAX_BYTES);
        // Ids, times and run times differ, as in records of 200 bytes of a process that does nothing.
        let record = |number: u64| {
            let mut words = [7u64; 22];
            words[..3].copy_from_slice(&[number, number * 200_000, 90_000 + number * number % 9973]);
            words.map(u64::to_ne_bytes).concat()
        };
        (0..50_000).for_each(|number| packed.push(number, &record(number), !0).unwrap());
        let per_record = (packed.compressed_bytes + packed.last.len()) / 50_000;
        assert!(per_record < 50, "{per_record} bytes per record");
        assert!(packed.iter().map(|(time, _)| time).eq(0..50_000));
    }
}
