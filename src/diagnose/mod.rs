//! Findings (what is missing in a snapshot, why, and how to fix it), warnings of a comparison, and notes on
//! sections of a report. Causes, fixes, warnings and notes are enums with one place for their texts.

#[macro_use]
mod coded;
mod affected;
mod cause;
mod empty;
mod evidence;
mod facilities;
mod files;
mod finding;
mod fix;
mod host;
mod note;
mod source;
#[cfg(test)]
mod tests;
mod warning;

pub use self::affected::{Affected, counted, plural};
pub use self::cause::Cause;
pub(crate) use self::cause::fix_of_descriptors;
pub(crate) use self::empty::why_empty;
use self::evidence::Evidence;
pub(crate) use self::facilities::why_no_bpf;
pub use self::finding::{Coverage, Finding, findings, findings_of, fixes, gaps};
pub use self::fix::{Capability, Fix};
pub use self::note::Note;
pub(crate) use self::note::rounded;
pub use self::source::{DataSource, Side};
pub use self::warning::Warning;
