//! Directions in which values get worse: a fact about each metric, used in words and gates, never in statistics.

/// Direction in which a value gets worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// A resource that was used up, or time that was lost: CPU time, waits, page faults, memory.
    MoreIsWorse,
    /// A share of what was useful.
    LessIsWorse,
    /// More can be good or bad: how a thread works (sleeps, wake-ups, calls), how it is configured.
    #[default]
    Neither,
}

impl Direction {
    /// The word for the way that is worse, in listings: `more`, `less`, or nothing.
    pub fn worse_if(self) -> Option<&'static str> {
        match self {
            Self::MoreIsWorse => Some("more"),
            Self::LessIsWorse => Some("less"),
            Self::Neither => None,
        }
    }
}
