//! What has to be known to read a section, or why it has nothing.

use std::fmt;

use super::Finding;

/// Something to know about a section.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// Every value is the same on both sides.
    Unchanged,
    /// There is nothing.
    NoData,
    /// What is missing, and on which side.
    Gap(Option<&'static str>, Finding),
    /// Shown with groups of cgroups only.
    OnlyByCgroup,
    /// `enable_seq` changed.
    SchedulerReloaded,
    /// `hotplug_seq` changed.
    CpusHotplugged,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
