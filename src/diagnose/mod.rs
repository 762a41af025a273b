//! What a snapshot lacks, why, and what fixes it.

mod findings;
mod note;

pub(crate) use self::findings::gaps;
pub use self::findings::{Coverage, Finding, findings};
pub use self::note::Note;
