//! Patterns of thread and process names: `tokio-worker-3` and `tokio-worker-17` are one pool.

use super::token::{HexId, TokenForm, tokens};

/// The pattern of a name: its tokens that are instance numbers or ids replaced by placeholders.
///
/// ```
/// use ctprof::names::pattern_key;
/// assert_eq!(pattern_key("kworker/u8:7-events"), "kworker/u{N}:{N}-events");
/// assert_eq!(pattern_key("GC Thread#3"), "GC Thread#{N}");
/// assert_eq!(pattern_key("session-a1234"), "session-{H}");
/// assert_eq!(pattern_key("1a cafe c2"), "{N}a cafe c{N}");
/// ```
#[must_use]
pub fn pattern_key(name: &str) -> String {
    pattern(name, |_| true)
}

/// The pattern in which these are ids. Without short ones, `db01` is `db{N}` and not `{H}`.
fn pattern(name: &str, is_id: fn(HexId) -> bool) -> String {
    let mut pattern = String::with_capacity(name.len() + 2);
    for token in tokens(name) {
        let text = token.text;
        let pieces = match token.form {
            _ if token.hex_id().is_some_and(is_id) => ["{H}", ""],
            TokenForm::Uuid => ["{U}", ""],
            TokenForm::Digits => ["{N}", ""],
            TokenForm::LettersDigits(at) => [&text[..at], "{N}"],
            TokenForm::DigitsLetters(at) => ["{N}", &text[at..]],
            TokenForm::Separator | TokenForm::Other => [text, ""],
        };
        pattern.extend(pieces);
    }
    pattern
}

/// The patterns that a name can have, before the other names are known.
pub(super) struct Readings {
    /// The pattern without short ids.
    pub(super) spelled: String,
    /// The pattern with ids, if the name has any.
    pub(super) ids: Option<Ids>,
}

/// A name read as one with hexadecimal ids.
pub(super) struct Ids {
    pub(super) pattern: String,
    /// The ids' letters in their places. Ids vary in it; words with a number do not.
    pub(super) shape: String,
    /// Whether each id is also letters followed by digits, as in `db01`.
    pub(super) can_be_words: bool,
}

impl Readings {
    pub(super) fn from_name(name: &str) -> Self {
        let mut ids = tokens(name).filter_map(|token| Some((token, token.hex_id()?))).peekable();
        let spelled = pattern(name, |id| id == HexId::Long);
        if ids.peek().is_none() {
            return Self { spelled, ids: None };
        }
        let (mut shape, mut can_be_words) = (String::new(), true);
        for (token, id) in ids {
            can_be_words &= id == HexId::Short && matches!(token.form, TokenForm::LettersDigits(_));
            match id {
                HexId::Short => shape.extend(token.text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c })),
                HexId::Long => shape.push('*'),
            }
            shape.push('/');
        }
        let pattern = pattern_key(name);
        Self { spelled, ids: Some(Ids { pattern, shape, can_be_words }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_become_placeholders_by_the_first_rule_that_fits() {
        for (name, pattern) in [
            ("ksoftirqd/0", "ksoftirqd/{N}"),
            ("irq/128-nvme0q1", "irq/{N}-nvme0q1"),
            ("tokio-rt-worker", "tokio-rt-worker"),
            ("worker7", "worker{N}"),
            ("2nd", "{N}nd"),
            ("dead", "dead"),
            ("DEAD1", "{H}"),
            ("dEaD1", "dEaD{N}"),
            ("abc1", "{H}"),
            ("ab1", "ab{N}"),
            ("a1b2", "{H}"),
            ("x1y2", "x1y2"),
            ("größe9", "größe{N}"),
            ("pod-0f3c9e2a-5b1d-4c7e-9a8f-1234567890ab-x", "pod-{U}-x"),
            ("0f3c9e2a-5b1d-4c7e-9a8f-1234567890abc", "{H}-{H}-{H}-{H}-{H}"),
            ("", ""),
            ("--", "--"),
        ] {
            assert_eq!(pattern_key(name), pattern, "{name}");
        }
    }
}
