//! A reader of the JSON that ctprof writes for threads: no white space, no escapes in strings, whole numbers. It refuses
//! everything else, which is left to `serde_json`, and errors are, too: this reader has no messages.
//!
//! What it accepts, it reads as `serde_json` does, but faster.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// Deeper JSON is left to `serde_json`. Values of threads are nested twice.
const DEEPEST: usize = 8;

/// Maximum number of digits that always fit 64 bits.
const MAX_DIGITS: usize = 19;

/// Reads a value from a whole text; `None` if it is not so simple, or not of that type.
pub(super) fn read<'de, S: DeserializeSeed<'de>>(seed: S, text: &'de str) -> Option<S::Value> {
    let mut flat = Flat { text, at: 0, depth: 0 };
    let value = seed.deserialize(&mut flat).ok()?;
    (flat.at == text.len()).then_some(value)
}

struct Flat<'de> {
    text: &'de str,
    at: usize,
    depth: usize,
}

/// The text is not simple, or the value has another type.
#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl<'de> Flat<'de> {
    #[inline]
    fn next_byte(&self) -> u8 {
        // A zero is in no simple text.
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Skips a byte, if it is the next one.
    #[inline]
    fn skips(&mut self, byte: u8) -> bool {
        let is_next = self.next_byte() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Refused> {
        if self.skips(byte) { Ok(()) } else { Err(Refused) }
    }

    fn word<T>(&mut self, word: &str, value: T) -> Result<T, Refused> {
        let is_next = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        if is_next { Ok(value) } else { Err(Refused) }
    }

    #[inline]
    fn number(&mut self) -> Result<u64, Refused> {
        let start = self.at;
        let mut number = 0_u64;
        while let digit @ b'0'..=b'9' = self.next_byte() {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let digits = self.at - start;
        let starts_with_zero = self.text.as_bytes().get(start) == Some(&b'0');
        let is_whole = digits == 1 || (2..=MAX_DIGITS).contains(&digits) && !starts_with_zero;
        if is_whole { Ok(number) } else { Err(Refused) }
    }

    /// The rest of a string, after its opening quote.
    #[inline]
    fn string(&mut self) -> Result<&'de str, Refused> {
        let start = self.at;
        let end = start + plain_length(&self.text.as_bytes()[start..]);
        self.at = end;
        self.expect(b'"')?;
        self.text.get(start..end).ok_or(Refused)
    }

    /// The parts of an object or of a list, up to the byte that ends it.
    fn parts<T>(&mut self, end: u8, visit: impl FnOnce(Parts<'_, 'de>) -> Result<T, Refused>) -> Result<T, Refused> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Refused);
        }
        let value = visit(Parts { flat: self, end, is_first: true })?;
        self.depth -= 1;
        self.expect(end)?;
        Ok(value)
    }
}

/// The number of bytes before the first quote, backslash or control character.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let mut length = 0;
    // The lowest high bit that is set belongs to the first byte found; higher ones may be wrong because of carries.
    for word in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of 8 bytes"));
        let zero_in = |word: u64| word.wrapping_sub(ONES) & !word;
        let quote = zero_in(word ^ (ONES * u64::from(b'"')));
        let backslash = zero_in(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (quote | backslash | control) & HIGH;
        if found != 0 {
            return length + usize::try_from(found.trailing_zeros() / 8).expect("a number below 8");
        }
        length += 8;
    }
    let rest = &bytes[length..];
    length + rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20)).unwrap_or(rest.len())
}

impl<'de> Deserializer<'de> for &mut Flat<'de> {
    type Error = Refused;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.next_byte() {
            b'0'..=b'9' => visitor.visit_u64(self.number()?),
            b'"' => {
                self.at += 1;
                visitor.visit_borrowed_str(self.string()?)
            }
            b'-' => {
                self.at += 1;
                match i64::try_from(self.number()?) {
                    // `serde_json` reads a negative zero as a fraction.
                    Ok(0) | Err(_) => Err(Refused),
                    Ok(number) => visitor.visit_i64(-number),
                }
            }
            b'n' => self.word("null", ()).and_then(|()| visitor.visit_unit()),
            b't' => self.word("true", true).and_then(|flag| visitor.visit_bool(flag)),
            b'f' => self.word("false", false).and_then(|flag| visitor.visit_bool(flag)),
            b'{' => {
                self.at += 1;
                self.parts(b'}', |parts| visitor.visit_map(parts))
            }
            b'[' => {
                self.at += 1;
                self.parts(b']', |parts| visitor.visit_seq(parts))
            }
            _ => Err(Refused),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.next_byte() == b'n' {
            self.word("null", ())?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.expect(b'"')?;
        visitor.visit_enum(BorrowedStrDeserializer::new(self.string()?))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Parts<'f, 'de> {
    flat: &'f mut Flat<'de>,
    end: u8,
    is_first: bool,
}

impl Parts<'_, '_> {
    /// Whether another part follows.
    #[inline]
    fn has_next(&mut self) -> Result<bool, Refused> {
        if self.flat.next_byte() == self.end {
            return Ok(false);
        }
        if !std::mem::take(&mut self.is_first) {
            self.flat.expect(b',')?;
        }
        Ok(true)
    }
}

impl<'de> MapAccess<'de> for Parts<'_, 'de> {
    type Error = Refused;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        if !self.has_next()? {
            return Ok(None);
        }
        self.flat.expect(b'"')?;
        seed.deserialize(BorrowedStrDeserializer::new(self.flat.string()?)).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        self.flat.expect(b':')?;
        seed.deserialize(&mut *self.flat)
    }
}

impl<'de> SeqAccess<'de> for Parts<'_, 'de> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        if self.has_next()? { seed.deserialize(&mut *self.flat).map(Some) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use serde_json::Value;

    use super::*;

    const TEXT: &str = r#"{"tid":10,"comm":"größe and more","set":[-7,0,{"a":null}],"is":true,"not":false,"":""}"#;

    fn flat(text: &str) -> Option<Value> {
        read(PhantomData, text)
    }

    #[test]
    fn what_ctprof_writes_is_read() {
        for text in [TEXT, "{}", "[]", "0", "9999999999999999999", "-9223372036854775807", "\"control\u{7f}\"", "null"]
        {
            assert_eq!(flat(text).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
        assert_eq!(read(PhantomData::<Option<u8>>, "null"), Some(None));
        assert_eq!(read(PhantomData::<Option<u8>>, "7"), Some(Some(7)));
        assert_eq!(read(PhantomData::<Result<u8, ()>>, "\"Ok\""), None, "an enum with content");
    }

    #[test]
    fn everything_else_is_left_to_serde_json() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for text in [
            "",
            " 1",
            "1 ",
            "{\"a\": 1}",
            "1.5",
            "1e3",
            "-0",
            "01",
            "10000000000000000000",
            "\"\\n\"",
            "\"a\nb\"",
            "\"open",
            "[1,]",
            "[1",
            "nul",
            "{\"a\"}",
            "{1:2}",
            &deep,
        ] {
            assert_eq!(flat(text), None, "{text:.20}");
        }
    }

    #[test]
    fn a_changed_byte_is_never_read_differently() {
        let mut read = 0;
        for at in (0..TEXT.len()).filter(|at| TEXT.is_char_boundary(*at) && TEXT.is_char_boundary(at + 1)) {
            for other in
                ["", "\"", "\\", ",", ":", "{", "}", "[", "]", "0", "1", "-", ".", "e", " ", "\n", "\u{1}", "ß"]
            {
                let text = format!("{}{other}{}", &TEXT[..at], &TEXT[at + 1..]);
                if let Some(value) = flat(&text) {
                    assert_eq!(value, serde_json::from_str::<Value>(&text).unwrap(), "{text}");
                    read += 1;
                }
            }
        }
        assert!(read > 100, "{read}");
    }
}
