//! Faults of a step that was read.

use crate::model::Mismatch;

/// A step that does not follow the capture before it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// It has a change of a thread that was not there.
    #[error("a thread that is not known")]
    UnknownThread,
    /// Columns of the step have different lengths.
    #[error("columns of different lengths")]
    Columns,
    /// It changes something else than a capture has.
    #[error("a change that does not fit")]
    Change,
    /// It has a value that its metric cannot hold.
    #[error(transparent)]
    Value(#[from] Mismatch),
    /// It is not the JSON of a step.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}
