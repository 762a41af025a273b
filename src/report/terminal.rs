//! Properties of the terminal on which a report is printed.

use super::Outcome;

/// The properties of the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terminal {
    /// Width in columns; `None` if the output is not a terminal.
    pub width: Option<u16>,
    /// Whether headings are highlighted, with terminal escapes.
    pub has_color: bool,
}

impl Terminal {
    pub(super) fn strong(self, text: &str) -> String {
        self.rendered("1", text)
    }

    /// The color of what became worse or better.
    pub(super) fn tone(self, outcome: Outcome) -> Option<&'static str> {
        match outcome {
            _ if !self.has_color => None,
            Outcome::Worse => Some("31"),
            Outcome::Better => Some("32"),
            Outcome::Neither => None,
        }
    }

    /// Select Graphic Rendition of ECMA-48.
    pub(super) fn rendered(self, code: &str, text: &str) -> String {
        if self.has_color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
