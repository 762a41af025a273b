//! Keys and buttons of the mouse, as a terminal sends them.

/// A key, or what the mouse did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PressedKey {
    Char(char),
    /// Ctrl and this letter.
    Control(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// The first button was pressed in this line of the screen, from 0.
    Click(usize),
}

/// Takes all keys from the bytes that a terminal has sent. What begins a key stays until the rest of it comes.
pub(super) fn take_keys(bytes: &mut Vec<u8>) -> Vec<PressedKey> {
    let mut keys = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let Some((length, key)) = first(rest) else { break };
        keys.extend(key);
        at += length;
    }
    bytes.drain(..at);
    keys
}

/// The length of the first key, and the key unless it has no meaning; `None` if it is not whole.
fn first(bytes: &[u8]) -> Option<(usize, Option<PressedKey>)> {
    match *bytes {
        [0x1b, b'[' | b'O', ..] => {
            let last = bytes.iter().skip(2).position(|byte| (0x40..0x7f).contains(byte))? + 2;
            Some((last + 1, sequence(&bytes[2..last], bytes[last])))
        }
        [0x1b, ..] => Some((1, Some(PressedKey::Escape))),
        [b'\r' | b'\n', ..] => Some((1, Some(PressedKey::Enter))),
        [0x7f | 0x08, ..] => Some((1, Some(PressedKey::Backspace))),
        [control @ 1..=26, ..] => Some((1, Some(PressedKey::Control(char::from(control + b'a' - 1))))),
        [first, ..] => {
            let length = match first.leading_ones() {
                2 => 2,
                3 => 3,
                4 => 4,
                _ => 1,
            };
            let char = std::str::from_utf8(bytes.get(..length)?).ok().and_then(|text| text.chars().next());
            Some((char.map_or(1, char::len_utf8), char.map(PressedKey::Char)))
        }
        [] => None,
    }
}

/// A control sequence of ECMA-48, or a report of the mouse.
fn sequence(parameters: &[u8], last: u8) -> Option<PressedKey> {
    let text = std::str::from_utf8(parameters).ok()?;
    Some(match (text, last) {
        (_, b'A') => PressedKey::Up,
        (_, b'B') => PressedKey::Down,
        (_, b'C') => PressedKey::Right,
        (_, b'D') => PressedKey::Left,
        (_, b'H') | ("1" | "7", b'~') => PressedKey::Home,
        (_, b'F') | ("4" | "8", b'~') => PressedKey::End,
        ("5", b'~') => PressedKey::PageUp,
        ("6", b'~') => PressedKey::PageDown,
        (_, b'M') => {
            let mut numbers = text.strip_prefix('<')?.split(';').map(str::parse::<usize>);
            match (numbers.next()?.ok()?, numbers.nth(1)?.ok()?) {
                (0, line) => PressedKey::Click(line.checked_sub(1)?),
                (64, _) => PressedKey::Up,
                (65, _) => PressedKey::Down,
                _ => return None,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_what_terminals_send_also_in_pieces() {
        let mut bytes =
            b"j\x1b[A\x1bOB\x1b[5~\r\x7f\x03\xc3\xa9 \x1b[<0;7;3M\x1b[<0;7;3m\x1b[<65;1;1M\x1b[15~\x1b[<0".to_vec();
        use PressedKey::*;
        let keys = [Char('j'), Up, Down, PageUp, Enter, Backspace, Control('c'), Char('é'), Char(' '), Click(2), Down];
        assert_eq!(take_keys(&mut bytes), keys);
        bytes.extend(b";1;9M\x1b");
        assert_eq!(take_keys(&mut bytes), [Click(8), Escape]);
        assert!(bytes.is_empty());
    }

    #[test]
    fn bytes_that_are_no_text_are_passed_over() {
        let mut bytes = b"\xff\xfea\xc3".to_vec();
        assert_eq!(take_keys(&mut bytes), [PressedKey::Char('a')]);
        assert_eq!(bytes, b"\xc3", "the first byte of a letter");
    }
}
