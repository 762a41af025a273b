//! Exit records in memory, without the words that are zero, and compressed.

/// Bytes of records that are compressed together.
const CHUNK: usize = 512 << 10;
/// Memory of a listener: 256 MiB, which is room for five million records of usual size.
pub(super) const MAX_BYTES: usize = 256 << 20;
/// A record that is longer loses its end, where no metric has a field.
pub(super) const MAX_WORDS: usize = 128;
/// Words before those of a record: a bit for each word of the record that follows.
const HEAD_WORDS: usize = 2;
const WORD: usize = size_of::<u64>();
/// The fastest level: a storm of short processes takes a few milliseconds per second.
const LEVEL: i32 = 1;

/// Records of equal length.
#[derive(Debug)]
pub(super) struct PackedRecords {
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
pub(super) struct NotStored;

impl PackedRecords {
    /// Room for records of so many bytes and for those that are not compressed yet.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, length: 0, compressed: Vec::new(), compressed_bytes: 0, last: Vec::new(), is_full: false }
    }

    /// Stores a record.
    pub(super) fn push(&mut self, record: &[u8]) -> Result<(), NotStored> {
        if self.last.capacity() == 0 {
            (self.length, self.last) = (record.len(), Vec::with_capacity(CHUNK));
        }
        if CHUNK - self.last.len() < (HEAD_WORDS + MAX_WORDS) * WORD {
            self.compress()?;
        }
        (record.len() == self.length).then_some(()).ok_or(NotStored)?;
        let stored = || words(record).enumerate().filter(|(_, word)| *word != 0);
        let bits = stored().fold(0, |bits: u128, (at, _)| bits | 1 << at);
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

    /// The records in the order in which they were stored.
    pub(super) fn iter(&self) -> impl Iterator<Item = Vec<u8>> {
        let records = |bytes| Unpacked { bytes, at: 0, length: self.length };
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
struct Unpacked {
    bytes: Vec<u8>,
    at: usize,
    length: usize,
}

impl Unpacked {
    fn next_bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes[self.at..].first_chunk();
        self.at += N;
        bytes.copied()
    }
}

impl Iterator for Unpacked {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            return None;
        }
        let bits = u128::from_le_bytes(self.next_bytes()?);
        let mut record = vec![0; self.length];
        for (at, bytes) in record.chunks_mut(WORD).take(MAX_WORDS).enumerate() {
            if bits >> at & 1 == 1 {
                bytes.copy_from_slice(&self.next_bytes::<WORD>()?[..bytes.len()]);
            }
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_and_zeros_take_no_room() {
        let record: Vec<u8> = (0..=255).cycle().take(688).collect();
        let mut sparse = vec![0; 688];
        sparse[600..608].copy_from_slice(&[7; 8]);
        let mut packed = PackedRecords::new(2);
        packed.push(&record).unwrap();
        packed.push(&sparse).unwrap();
        assert_eq!(packed.last.len(), 8 * ((2 + 86) + (2 + 1)));
        assert_eq!(packed.iter().collect::<Vec<_>>(), [record, sparse]);
    }

    #[test]
    fn a_struct_of_another_length_is_refused() {
        let mut packed = PackedRecords::new(2);
        packed.push(&[1; 560]).unwrap();
        assert_eq!(packed.push(&[1; 568]), Err(NotStored));
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
        let mut packed = PackedRecords::new(2 * CHUNK);
        let stored = (0..).take_while(|&seed| packed.push(&noise(seed)).is_ok()).count();
        let per_chunk = CHUNK / WORD / (HEAD_WORDS + MAX_WORDS);
        assert!((2 * per_chunk..=3 * per_chunk).contains(&stored), "{stored}");
        assert!(packed.compressed_bytes <= 2 * CHUNK && packed.last.capacity() == CHUNK);
        assert_eq!(packed.push(&noise(0)), Err(NotStored), "no smaller record later");
        assert!(packed.iter().eq((0..u64::try_from(stored).unwrap()).map(noise)));
    }

    #[test]
    fn records_of_similar_processes_take_less_than_50_bytes_each() {
        let mut packed = PackedRecords::new(MAX_BYTES);
        // Ids, times and run times differ, as in records of 200 bytes of a process that does nothing.
        let record = |number: u64| {
            let mut words = [7u64; 22];
            words[..3].copy_from_slice(&[number, number * 200_000, 90_000 + number * number % 9973]);
            words.map(u64::to_ne_bytes).concat()
        };
        (0..50_000).for_each(|number| packed.push(&record(number)).unwrap());
        let per_record = (packed.compressed_bytes + packed.last.len()) / 50_000;
        assert!(per_record < 50, "{per_record} bytes per record");
        assert!(packed.iter().eq((0..50_000).map(record)));
    }
}
