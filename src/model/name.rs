//! Names of processes, threads and cgroups: bytes in the kernel, text in ctprof, converted without loss.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

/// A name, shared between the threads that have it.
pub type Name = Arc<str>;

/// The text of a kernel name. Bytes that are not UTF-8 become `\xNN`, and so does a backslash that
/// would look like such an escape, so that two different names never become equal.
#[must_use]
pub fn printable(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains("\\x") => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 8);
    let escape = |out: &mut String, byte: u8| write!(out, "\\x{byte:02x}").expect("writing to a String");
    for chunk in bytes.utf8_chunks() {
        let text = chunk.valid();
        for (at, c) in text.char_indices() {
            match c {
                '\\' if escape_at(&text[at..]).is_some() => escape(&mut out, b'\\'),
                _ => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape(&mut out, byte));
    }
    out
}

/// The length in bytes of the kernel name that [`printable`] converted to `name`.
#[must_use]
pub fn decoded_len(name: &str) -> usize {
    let mut rest = name;
    let mut len = 0;
    while let Some(at) = rest.find('\\') {
        let escape = escape_at(&rest[at..]).map_or(1, str::len);
        len += at + 1;
        rest = &rest[at + escape..];
    }
    len + rest.len()
}

/// `TASK_COMM_LEN` of `include/linux/sched.h` without the NUL.
const LONGEST_COMM: usize = 15;

/// Whether the kernel may have cut this name of a thread: it has as many bytes as the kernel keeps.
#[must_use]
pub fn may_be_cut(name: &str) -> bool {
    decoded_len(name) == LONGEST_COMM
}

/// The `\xNN` that `text` starts with.
fn escape_at(text: &str) -> Option<&str> {
    let escape = text.get(..4)?;
    let digits = escape.strip_prefix("\\x")?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then_some(escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_as_they_are() {
        for name in ["bash", "GC Thread#3", "größe", "a\\b", "tab\there", ""] {
            assert_eq!(printable(name.as_bytes()), name);
        }
    }

    #[test]
    fn a_name_that_is_not_utf8_keeps_every_byte() {
        assert_eq!(printable(b"caf\xc3"), "caf\\xc3");
        assert_eq!(printable(b"\xff\xfeok\x80"), "\\xff\\xfeok\\x80");
    }

    #[test]
    fn a_name_that_spells_an_escape_differs_from_the_byte() {
        let spelt = printable(br"\xff");
        assert_eq!(spelt, r"\x5cxff");
        assert_eq!(printable(br"a\b\xff\xg"), r"a\b\x5cxff\xg", "only what looks like an escape is escaped");
        assert_ne!(spelt, printable(b"\xff"));
        assert_ne!(printable(br"\x5cxff"), printable(br"\xff"));
    }

    #[test]
    fn length_is_that_of_the_kernels_bytes() {
        for name in [&b"fifteen-bytes-x"[..], b"caf\xc3", br"\xff", br"a\b", b"\\\xff\\x4", b""] {
            assert_eq!(decoded_len(&printable(name)), name.len(), "{name:?}");
        }
    }

    #[test]
    fn a_name_of_fifteen_bytes_may_be_cut() {
        for (name, cut) in [(&b"fourteen-bytes"[..], false), (b"fifteen-bytes-x", true), (b"caf\xc3-and-more-x", true)]
        {
            assert_eq!(may_be_cut(&printable(name)), cut, "{name:?}");
        }
    }
}
