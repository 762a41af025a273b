//! A fact before the sections of a report, and its lines.

use serde::Serialize;
use serde_json::Value;

use crate::compare::{Difference, SideSummary};
use crate::diagnose::{Finding, Warning};

/// A fact before the sections: as data, and as lines of text.
pub(super) struct Fact<'r> {
    pub(super) key: &'static str,
    pub(super) data: FactData<'r>,
    /// The lines; empty for facts that only JSON has.
    pub(super) lines: Vec<FactLine>,
}

impl<'r> Fact<'r> {
    pub(super) fn new(key: &'static str, data: FactData<'r>, lines: Vec<FactLine>) -> Self {
        Self { key, data, lines }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum FactData<'r> {
    Side(Option<&'r SideSummary>),
    Gaps(&'r [Finding]),
    Differences(Option<&'r [Difference]>),
    Warnings(&'r [Warning]),
    Plain(Value),
}

/// A line of text; in HTML, it is data.
#[derive(Debug, Serialize)]
pub(super) struct FactLine {
    /// The label before the text; empty if it continues the line above.
    pub(super) label: &'static str,
    pub(super) text: String,
    #[serde(rename = "warning", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_warning: bool,
}

impl FactLine {
    pub(super) fn fact(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, text: text.into(), is_warning: false }
    }

    pub(super) fn warning(label: &'static str, text: impl Into<String>) -> Self {
        Self { is_warning: true, ..Self::fact(label, text) }
    }
}
