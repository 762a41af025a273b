//! Escapes names, which are untrusted and must not inject terminal sequences.

use std::borrow::Cow;

/// The text with control and bidirectional characters escaped.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(controls_terminal) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| if controls_terminal(c) { c.escape_default().collect() } else { c.to_string() };
    Cow::Owned(text.chars().map(escaped).collect())
}

/// Whether a terminal does something else with it than printing it.
pub(super) fn controls_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        assert_eq!(escaped("größe #3"), "größe #3");
        assert_eq!(escaped("\x1b[31mred\0\n\u{9b}x"), "\\u{1b}[31mred\\u{0}\\n\\u{9b}x");
        assert_eq!(escaped("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn an_arabic_letter_mark_is_escaped() {
        assert_eq!(escaped("a\u{61c}b"), "a\\u{61c}b");
    }
}
