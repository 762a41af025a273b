//! The tokenizer of names. Patterns and redaction share it, so that they agree on numbers, ids and words.

/// Minimum number of hexadecimal digits of an unambiguous id; a shorter one may be a word and a number.
pub(super) const LONG_ID: usize = 16;
/// Minimum number of hexadecimal digits of an id.
const SHORTEST_ID: usize = 4;
/// The length of the text of a UUID.
const UUID: usize = 36;

/// A part of a name. The name is the concatenation of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'n> {
    pub(super) text: &'n str,
    pub(super) form: TokenForm,
}

/// The characters of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenForm {
    /// Punctuation or white space.
    Separator,
    /// 8-4-4-4-12 hexadecimal digits.
    Uuid,
    /// A run of decimal digits only.
    Digits,
    /// Letters, then from this offset digits.
    LettersDigits(usize),
    /// Digits, then from this offset letters.
    DigitsLetters(usize),
    /// Anything else: letters only, letters and digits in turn, other characters.
    Other,
}

/// How certain a token is to be a hexadecimal id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HexId {
    /// It may be a word with digits: `db01`.
    Short,
    /// At least [`LONG_ID`] digits.
    Long,
}

impl Token<'_> {
    /// Whether the token can be a hexadecimal id: digits of one case, at least one decimal and one letter. `cafe` and `face` are
    /// words.
    pub(super) fn hex_id(&self) -> Option<HexId> {
        let has_both = !matches!(self.form, TokenForm::Separator | TokenForm::Uuid | TokenForm::Digits)
            && self.text.bytes().any(|b| b.is_ascii_digit())
            && self.text.bytes().any(|b| b.is_ascii_alphabetic());
        if !has_both || self.text.len() < SHORTEST_ID || !is_hex_of_one_case(self.text) {
            return None;
        }
        Some(if self.text.len() < LONG_ID { HexId::Short } else { HexId::Long })
    }
}

/// The tokens of a name, in order.
pub(super) fn tokens(name: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (end, form) = if starts_with_uuid(rest) {
            (UUID, Some(TokenForm::Uuid))
        } else if is_separator(first) {
            (first.len_utf8(), Some(TokenForm::Separator))
        } else {
            (rest.find(is_separator).unwrap_or(rest.len()), None)
        };
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Token { text, form: form.unwrap_or_else(|| form_of_word(text)) })
    })
}

/// Splits a text into runs of letters and digits, and runs of ASCII's other characters. Marks that combine with letters are
/// parts of words.
pub(super) fn chunks(text: &str) -> impl Iterator<Item = (&str, TokenForm)> {
    let is_alphanumeric = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii();
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = is_alphanumeric(rest.chars().next()?);
        let end = rest.find(|c| is_alphanumeric(c) != first).unwrap_or(rest.len());
        let (chunk, after) = rest.split_at(end);
        rest = after;
        Some((chunk, if first { form_of_word(chunk) } else { TokenForm::Separator }))
    })
}

pub(super) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

pub(super) fn is_hex_of_one_case(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        || text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'))
}

/// Whether the whole text is a UUID with groups separated by `by`.
pub(super) fn is_uuid(text: &str, by: char) -> bool {
    text.len() == UUID
        && text.split(by).map(str::len).eq([8, 4, 4, 4, 12])
        && text.chars().all(|c| c == by || c.is_ascii_hexdigit())
}

fn starts_with_uuid(text: &str) -> bool {
    text.split_at_checked(UUID)
        .is_some_and(|(uuid, after)| is_uuid(uuid, '-') && after.chars().next().is_none_or(is_separator))
}

fn is_separator(c: char) -> bool {
    ".-_/:@+[]#(),=".contains(c) || c.is_whitespace()
}

fn form_of_word(text: &str) -> TokenForm {
    let is_letters = |text: &str| !text.is_empty() && text.chars().all(char::is_alphabetic);
    let is_digit = |c: char| c.is_ascii_digit();
    let letters = text.trim_end_matches(is_digit);
    let digits = text.len() - text.trim_start_matches(is_digit).len();
    if digits == text.len() {
        TokenForm::Digits
    } else if letters.len() < text.len() && is_letters(letters) {
        TokenForm::LettersDigits(letters.len())
    } else if digits > 0 && is_letters(&text[digits..]) {
        TokenForm::DigitsLetters(digits)
    } else {
        TokenForm::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_of_a_name_has_one_form() {
        let forms = |name| tokens(name).map(|token| token.form).collect::<Vec<_>>();
        assert_eq!(forms("GC#3"), [TokenForm::Other, TokenForm::Separator, TokenForm::Digits]);
        assert_eq!(forms("größe9"), [TokenForm::LettersDigits("größe".len())]);
        assert_eq!(forms("7zip"), [TokenForm::DigitsLetters(1)]);
        assert_eq!(forms("0f3c9e2a-5b1d-4c7e-9a8f-1234567890ab"), [TokenForm::Uuid]);
        assert_eq!(forms("0f3c9e2a-5b1d-4c7e-9a8f-1234567890abc").len(), 9);
        assert_eq!(forms("x²1"), [TokenForm::Other]);
        assert!(forms("").is_empty());
    }

    #[test]
    fn an_id_has_a_digit_and_a_letter_of_one_case() {
        let id = |text| tokens(text).next().unwrap().hex_id();
        for (text, expected) in [
            ("db01", Some(HexId::Short)),
            ("DB01", Some(HexId::Short)),
            ("0123456789abcdef", Some(HexId::Long)),
            ("0123456789abcde", Some(HexId::Short)),
            ("dB01", None),
            ("db1", None),
            ("cafe", None),
            ("1234", None),
            ("g123", None),
        ] {
            assert_eq!(id(text), expected, "{text}");
        }
    }
}
