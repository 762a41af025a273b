//! A fact before the sections of a report, and its lines.

use serde_json::Value;

/// A fact before the sections: as data, and as lines of text.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) key: &'static str,
    pub(super) data: Value,
    /// The lines; empty for facts that only JSON has.
    pub(super) lines: Vec<FactLine>,
}

#[derive(Debug)]
pub(super) struct FactLine {
    /// The label before the text; empty if it continues the line above.
    pub(super) label: &'static str,
    pub(super) text: String,
    pub(super) tone: Tone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Fact,
    Warning,
}

impl FactLine {
    pub(super) fn fact(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, text: text.into(), tone: Tone::Fact }
    }

    pub(super) fn warning(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, text: text.into(), tone: Tone::Warning }
    }
}
