//! The value of a window, from the values of its two captures. The type of a value decides the rule.

use super::{Mismatch, Value};

/// Rule for the value in a window, from the values in its two captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowRule {
    /// A counter: its increase.
    Increase,
    /// A peak or a floor: the later value if it differs, so that it was reached in the window.
    IfChanged,
    /// A state or a setting: the later value.
    Later,
}

/// The value of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InWindow {
    /// The value at the end.
    Later,
    /// The increase of a counter.
    Increase(u64),
    /// There is none: a capture lacks the value, or a peak was not reached in the window.
    Absent,
    /// There is none, because the counter went backwards.
    Backwards,
}

impl InWindow {
    /// Stores it in what has the later value.
    pub(super) fn stored<T>(
        self,
        later: &mut T,
        set: fn(&mut T, Value<'_>) -> Result<(), Mismatch>,
        clear: impl FnOnce(&mut T),
    ) -> Self {
        match self {
            Self::Later => {}
            Self::Increase(by) => set(later, Value::Unsigned(by)).expect("a counter holds its increase"),
            Self::Absent | Self::Backwards => clear(later),
        }
        self
    }
}

impl WindowRule {
    /// The value of a window whose captures have these values.
    pub fn apply(self, earlier: Option<&Value<'_>>, later: Option<&Value<'_>>) -> InWindow {
        match (self, earlier, later) {
            (Self::Later, ..) => InWindow::Later,
            (_, None, _) | (_, _, None) => InWindow::Absent,
            (Self::IfChanged, Some(earlier), Some(later)) if earlier == later => InWindow::Absent,
            (Self::IfChanged, ..) => InWindow::Later,
            (Self::Increase, Some(Value::Unsigned(earlier)), Some(Value::Unsigned(later))) => {
                later.checked_sub(*earlier).map_or(InWindow::Backwards, InWindow::Increase)
            }
            (Self::Increase, ..) => InWindow::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_subtract_peaks_stay_if_new_and_states_are_the_later_ones() {
        let apply = |rule: WindowRule, earlier: Option<u64>, later: Option<u64>| {
            rule.apply(earlier.map(Value::Unsigned).as_ref(), later.map(Value::Unsigned).as_ref())
        };
        assert_eq!(apply(WindowRule::Increase, Some(3), Some(10)), InWindow::Increase(7));
        assert_eq!(apply(WindowRule::Increase, Some(10), Some(3)), InWindow::Backwards);
        assert_eq!(apply(WindowRule::Increase, None, Some(3)), InWindow::Absent);
        assert_eq!(apply(WindowRule::IfChanged, Some(9), Some(9)), InWindow::Absent);
        assert_eq!(apply(WindowRule::IfChanged, Some(9), Some(12)), InWindow::Later);
        assert_eq!(apply(WindowRule::Later, None, None), InWindow::Later);
    }
}
