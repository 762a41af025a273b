//! The keyed hash for redaction of words and ids.

/// The purpose of the key, so that no other use of the same key gives the same hashes.
const CONTEXT: &str = "ctprof 2026-11-21 names of snapshots";
/// Letters of the hash of a word. None is a hexadecimal digit, so that no word looks like an id.
const LETTERS: &[u8; 16] = b"ghijklmnopqrstuv";
/// The length of the hash of a word. It makes collisions improbable (64 bits), and makes every name with a
/// hashed word longer than the 15 bytes at which the kernel cuts names.
const WORD: usize = 16;
/// Longer runs of digits are not instance numbers.
const LONGEST_NUMBER: usize = 6;

/// A keyed hash. It is as hard to reverse as the key is to guess.
pub(super) struct Hash {
    key: [u8; blake3::KEY_LEN],
}

impl Hash {
    pub(super) fn new(key: &str) -> Self {
        Self { key: blake3::derive_key(CONTEXT, key.as_bytes()) }
    }

    /// The hash of a word.
    pub(super) fn word(&self, word: &str) -> String {
        let hash = blake3::keyed_hash(&self.key, word.as_bytes());
        hash.as_bytes().iter().take(WORD).map(|byte| char::from(LETTERS[usize::from(byte % 16)])).collect()
    }

    /// A long id with as many characters, of the same case, with at least one decimal digit and one letter, so
    /// that it is an id again.
    pub(super) fn long_id(&self, id: &str) -> String {
        let length = id.chars().count();
        let mut bytes = vec![0; length];
        blake3::Hasher::new_keyed(&self.key).update(id.as_bytes()).finalize_xof().fill(&mut bytes);
        let is_upper = id.bytes().any(|b| b.is_ascii_uppercase());
        let letters = if is_upper { b"ABCDEF" } else { b"abcdef" };
        let digits = [&b"0123456789"[..], letters].concat();
        let digit = |(at, (old, byte)): (usize, (char, u8))| {
            let choice = match at {
                0 => &digits[..10],
                at if at + 1 == length => letters,
                _ => &digits,
            };
            if old.is_ascii_punctuation() { old } else { char::from(choice[usize::from(byte) % choice.len()]) }
        };
        id.chars().zip(bytes).enumerate().map(digit).collect()
    }

    /// A number: unchanged if it is short enough for an instance number, else another one of the
    /// same length. Different numbers stay different.
    pub(super) fn number(&self, digits: &str) -> String {
        if digits.len() <= LONGEST_NUMBER { digits.to_owned() } else { self.shuffled(digits, b'0', 10, "number") }
    }

    /// A text of hexadecimal digits, with digits replaced by digits and letters by letters. Texts with equal
    /// letters have equal letters again, texts with different letters different ones, and different texts
    /// stay different, because patterns depend on it. A single letter stays.
    pub(super) fn short_id(&self, id: &str) -> String {
        let letters: String = id.chars().filter(char::is_ascii_alphabetic).collect();
        let digits: String = id.chars().filter(char::is_ascii_digit).collect();
        let shape: String = id.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        let first = if letters.starts_with(|c: char| c.is_ascii_uppercase()) { b'A' } else { b'a' };
        let letters = if letters.len() > 1 { self.shuffled(&letters, first, 6, "letters") } else { letters };
        let digits = self.shuffled(&digits, b'0', 10, &shape);
        let (mut letters, mut digits) = (letters.chars(), digits.chars());
        id.chars().filter_map(|c| if c.is_ascii_digit() { digits.next() } else { letters.next() }).collect()
    }

    /// A permutation of all texts of one length over the `radix` characters from `first` on; another one per
    /// `purpose`. Each character shifts all following characters and, in the second pass, all preceding ones,
    /// so that texts with a common prefix do not keep it.
    fn shuffled(&self, text: &str, first: u8, radix: u8, purpose: &str) -> String {
        let mut values: Vec<u8> = text.bytes().map(|byte| byte.wrapping_sub(first)).collect();
        for pass in 0..2 {
            for at in 0..values.len() {
                let mut hasher = blake3::Hasher::new_keyed(&self.key);
                hasher.update(purpose.as_bytes()).update(&[pass, radix]).update(&text.len().to_le_bytes());
                let shift = hasher.update(&values[..at]).finalize().as_bytes()[0];
                values[at] = (values[at] + shift % radix) % radix;
            }
            values.reverse();
        }
        values.into_iter().map(|value| char::from(first + value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn different_numbers_and_short_ids_stay_different() {
        let hash = Hash::new("k");
        let ids: HashSet<String> = (0..0x1_0000).map(|n| hash.short_id(&format!("{n:04x}"))).collect();
        assert_eq!(ids.len(), 0x1_0000);
        let numbers: HashSet<String> = (0..20_000).map(|n| hash.number(&format!("{n:07}"))).collect();
        assert_eq!(numbers.len(), 20_000, "two of twenty thousand hashes of seven digits would be equal");
    }

    #[test]
    fn long_ids_stay_ids() {
        let hash = Hash::new("k");
        for id in ["1234567890123456", "abcdefabcdefabcd"] {
            let hashed = hash.long_id(id);
            assert_eq!(hashed.len(), id.len());
            assert!(hashed.starts_with(|c: char| c.is_ascii_digit()) && hashed.ends_with(|c: char| c.is_alphabetic()));
        }
        assert!(
            hash.long_id("kunde-müller-日本").bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'),
            "of any letters"
        );
        assert!(hash.long_id("0F3C9E2A5B1D4C7E").bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()));
    }
}
