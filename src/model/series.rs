//! A window in steps.

use serde::{Deserialize, Serialize};

/// How a series was recorded. Its file has a capture with this, and then what changed in each step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct SeriesInfo {
    /// Length of a step that was asked for, in nanoseconds.
    pub every_ns: u64,
    /// Process id of the recorder.
    pub recorder: u32,
    /// The command that ran; empty if there was none, or names are redacted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}
