//! Names of any length, made short enough for a line.

/// Longest part of a name, in characters. Paths can have thousands, and a report repeats them.
const LONGEST_PART: usize = 256;

/// The text without its middle if it is very long.
pub(crate) fn limited(text: &str) -> String {
    shortened(text, LONGEST_PART)
}

/// The text without its middle if it has more than so many characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let half = most / 2;
    text.chars().take(half).chain(['…']).chain(text.chars().skip(length - half)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_loses_its_middle() {
        assert_eq!(
            [shortened("abcdef", 6), shortened("abcdefg", 6), shortened("äbcdefgü", 4)],
            ["abcdef", "abc…efg", "äb…gü"]
        );
    }
}
