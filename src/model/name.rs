//! Names of processes, threads and cgroups: bytes in the kernel, text in ctprof, converted without loss.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

/// A name, shared between the threads that have it.
pub type Name = Arc<str>;

/// The text of a kernel name. Bytes that are not UTF-8 become `\xNN`, and so does a backslash that
/// would look like such an escape, so that two different names never become equal.
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

/// The kernel's bytes of a name that [`printable`] converted.
pub fn kernel_bytes(name: &str) -> Cow<'_, [u8]> {
    if !name.contains("\\x") {
        return Cow::Borrowed(name.as_bytes());
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('\\') {
        let (before, escaped) = rest.split_at(at);
        let escape = escape_at(escaped);
        let byte = escape.and_then(|escape| u8::from_str_radix(&escape[2..], 16).ok());
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(byte.unwrap_or(b'\\'));
        rest = &escaped[escape.map_or(1, str::len)..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Cow::Owned(bytes)
}

/// Whether a name of what a process runs is its title, which begins with the name of the process, without its version.
pub(crate) fn is_title_of(process: &str, name: &str) -> bool {
    let program = process.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    [process, program].iter().any(|program| name.strip_prefix(program).is_some_and(|rest| rest.starts_with(": ")))
}

/// `TASK_COMM_LEN` of `include/linux/sched.h` without the NUL.
const LONGEST_COMM: usize = 15;

/// Whether the kernel may have cut this name of a thread: it has as many bytes as the kernel keeps.
pub fn may_be_cut(name: &str) -> bool {
    kernel_bytes(name).len() == LONGEST_COMM
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
    fn a_title_begins_with_the_name_of_its_program_whatever_the_version_of_the_process() {
        let is_title = |process, name| is_title_of(process, name);
        assert!(is_title("nginx", "nginx: worker process") && is_title("php-fpm8.2", "php-fpm: pool www"));
        assert!(!is_title("python3", "nginx: worker") && !is_title("nginx", "nginx worker"));
    }

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
    fn the_kernels_bytes_come_back() {
        for name in [&b"fifteen-bytes-x"[..], b"caf\xc3", br"\xff", br"a\b", b"\\\xff\\x4", br"dev\x2ddisk", b"\\", b""]
        {
            assert_eq!(*kernel_bytes(&printable(name)), *name, "{name:?}");
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
