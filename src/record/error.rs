//! Errors of a recording.

use std::io;

use crate::capture::CaptureError;
use crate::process::SpawnError;
use crate::window::NoWindow;

/// Why there is no window.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Nothing could be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A signal arrived while the last step waited for what was missing for a capture.
    #[error("the last step is missing: {0}")]
    Interrupted(#[source] CaptureError),
    /// The command did not start.
    #[error(transparent)]
    NotStarted(SpawnError),
    /// The end of the window cannot be waited for.
    #[error("cannot wait for the end of the window")]
    CannotWait(#[source] io::Error),
    /// The end of the command cannot be waited for.
    #[error("cannot wait for the command")]
    CannotWaitForCommand(#[source] io::Error),
    /// The captures are not of one boot.
    #[error(transparent)]
    Window(#[from] NoWindow),
}
