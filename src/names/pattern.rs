//! Name normalisation: `tokio-worker-3` and `tokio-worker-17` are one pool.

use std::collections::{BTreeMap, BTreeSet};

/// The pattern of a name: its tokens that are instance numbers replaced by placeholders.
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
    let mut pattern = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = after_uuid(rest) {
            pattern.push_str("{U}");
            rest = after;
        } else if is_separator(first) {
            pattern.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            let (token, after) = rest.split_at(rest.find(is_separator).unwrap_or(rest.len()));
            push_token(&mut pattern, token);
            rest = after;
        }
    }
    pattern
}

fn is_separator(c: char) -> bool {
    ".-_/:@+[]#(),=".contains(c) || c.is_whitespace()
}

/// What follows a whole UUID at the start of `text`: 8-4-4-4-12 hexadecimal digits that end there.
fn after_uuid(text: &str) -> Option<&str> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let (uuid, after) = text.split_at_checked(36)?;
    let whole = uuid.split('-').map(str::len).eq(GROUPS) && uuid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    (whole && after.chars().next().is_none_or(is_separator)).then_some(after)
}

fn push_token(pattern: &mut String, token: &str) {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let letters = |text: &str| !text.is_empty() && text.chars().all(char::is_alphabetic);
    let tail = token.trim_end_matches(|c: char| c.is_ascii_digit());
    let head = token.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits(token) {
        pattern.push_str("{N}");
    } else if is_hex_id(token) {
        pattern.push_str("{H}");
    } else if tail.len() < token.len() && letters(tail) {
        pattern.push_str(tail);
        pattern.push_str("{N}");
    } else if head.len() < token.len() && letters(head) {
        pattern.push_str("{N}");
        pattern.push_str(head);
    } else {
        pattern.push_str(token);
    }
}

/// Four or more hexadecimal digits of one case, at least one of them a decimal digit: `cafe` and
/// `face` are words.
fn is_hex_id(token: &str) -> bool {
    let lower = token.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let upper = token.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
    token.len() >= 4 && (lower || upper) && token.bytes().any(|b| b.is_ascii_digit())
}

/// The part of a name that stays with its thread. The kernel writes after a worker's number what it
/// happens to work on (`wq_worker_comm` in `kernel/workqueue.c`), so that from one capture to the
/// next the same thread would leave one group for another.
fn lasting(name: &str) -> &str {
    let end = name.strip_prefix("kworker/").and_then(|_| name.find(['-', '+']));
    match end.map(|end| &name[..end]) {
        // A rescuer, `kworker/R-…`, has its queue's name for good.
        Some(pool) if pool.contains(':') => pool,
        _ => name,
    }
}

/// The keys of a set of names: a pattern where at least two different names share it, else the
/// name itself.
pub(crate) struct Keys {
    /// `None` to take every name as it is.
    pattern: Option<fn(&str) -> String>,
    shared: BTreeSet<String>,
}

impl Keys {
    /// Learns the patterns of all `names`, of both sides together, so that both decide alike.
    pub(crate) fn learn<'n>(pattern: fn(&str) -> String, names: impl IntoIterator<Item = &'n str>) -> Self {
        let distinct: BTreeSet<&str> = names.into_iter().map(lasting).collect();
        let mut sharing: BTreeMap<String, u32> = BTreeMap::new();
        for name in distinct {
            *sharing.entry(pattern(name)).or_default() += 1;
        }
        let shared = sharing.into_iter().filter(|(_, names)| *names > 1).map(|(pattern, _)| pattern);
        Self { pattern: Some(pattern), shared: shared.collect() }
    }

    /// Takes every name as it is.
    pub(crate) fn literal() -> Self {
        Self { pattern: None, shared: BTreeSet::new() }
    }

    pub(crate) fn key(&self, name: &str) -> String {
        let Some(pattern) = self.pattern else { return name.to_owned() };
        let name = lasting(name);
        let pattern = pattern(name);
        if self.shared.contains(&pattern) { pattern } else { name.to_owned() }
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

    #[test]
    fn a_pattern_needs_two_names() {
        let keys = Keys::learn(pattern_key, ["python3", "worker-7", "worker-9", "python3", "solo-1"]);
        assert_eq!(keys.key("python3"), "python3");
        assert_eq!(keys.key("worker-7"), "worker-{N}");
        assert_eq!(keys.key("solo-1"), "solo-1");
        assert_eq!(Keys::literal().key("worker-7"), "worker-7");
    }

    #[test]
    fn a_kernel_worker_keeps_its_group_when_it_takes_other_work() {
        let keys = Keys::learn(
            pattern_key,
            ["kworker/u8:7-events", "kworker/u8:7+flush-254:0", "kworker/u8:1", "kworker/0:1H-kblockd"],
        );
        assert_eq!(keys.key("kworker/u8:7-events"), "kworker/u{N}:{N}");
        assert_eq!(keys.key("kworker/u8:7-writeback"), "kworker/u{N}:{N}");
        assert_eq!(keys.key("kworker/0:1H-kblockd"), "kworker/0:1H");
        assert_eq!(keys.key("kworker/R-inet_frag_wq"), "kworker/R-inet_frag_wq");
        assert_eq!(Keys::literal().key("kworker/u8:7-events"), "kworker/u8:7-events");
    }
}
