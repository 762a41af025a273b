//! The difference between two values of a group.

use serde::Serialize;

use super::Sides;
use crate::model::{Cell, Unit, named};
use crate::statistics::ROUNDING;

/// The difference between the values of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Delta {
    /// A number, candidate minus baseline.
    Number(i128),
    /// Candidate minus baseline, of ratios.
    Points(f64),
    /// Candidate minus baseline, of both ends of a range.
    Range {
        /// Difference of the smallest values.
        min: i64,
        /// Difference of the largest values.
        max: i64,
    },
    /// The most frequent value, or a limit, changed.
    Changed {
        /// Value of the baseline: a word, or a number in the unit of the row.
        from: Cell,
        /// Value of the candidate.
        to: Cell,
    },
    /// The most frequent value is the same.
    Same,
    /// Candidate minus baseline, of the sizes of CPU sets.
    Cpus {
        /// Difference of the smallest sets.
        fewest: i128,
        /// Difference of the largest sets.
        most: i128,
        /// Whether it is another set, though of the same size.
        changed: bool,
    },
}

named! {
    /// How the sides of a row differ.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Change {
        /// The sides have values that differ.
        Changed = "changed",
        /// The group exists in the baseline only.
        BaselineOnly = "baseline_only",
        /// The group exists in the candidate only.
        CandidateOnly = "candidate_only",
        /// The group exists on both sides, and one side has no value.
        Incomparable = "incomparable",
        /// The sides have the same value.
        Unchanged = "unchanged",
        /// No side has a value.
        Absent = "absent",
    }
}

impl Change {
    pub(super) fn new(values: &Sides<Option<Cell>>, delta: Option<&Delta>, exists: (bool, bool)) -> Self {
        match (delta, exists) {
            _ if values.iter().all(Option::is_none) => Self::Absent,
            (_, (false, _)) => Self::CandidateOnly,
            (_, (_, false)) => Self::BaselineOnly,
            (None, _) => Self::Incomparable,
            (Some(delta), _) if delta.is_zero() => Self::Unchanged,
            _ => Self::Changed,
        }
    }
}

/// The number of a value that is nothing but a number.
pub(crate) fn plain_number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number(number) => Some(*number as f64),
        Cell::Signed(number) => Some(*number as f64),
        Cell::Ratio(ratio) => Some(*ratio),
        _ => None,
    }
}

/// The number by which a value is sorted, if it has one.
pub(super) fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Range { max, .. } => Some(*max as f64),
        Cell::AtLeast { at_least } => Some(*at_least as f64),
        Cell::Cpus(sizes) => Some(sizes.most as f64),
        plain => plain_number(plain),
    }
}

/// A cell of the same kind with another number, rounded if the kind has only whole numbers.
pub(crate) fn of_kind(kind: &Cell, number: f64) -> Cell {
    match kind {
        Cell::Ratio(_) => Cell::Ratio(number),
        Cell::Signed(_) | Cell::Number(_) if number < 0.0 => {
            Cell::Signed(0_i64.saturating_sub_unsigned(whole(-number)))
        }
        Cell::Signed(_) => Cell::Signed(0_i64.saturating_add_unsigned(whole(number))),
        _ => Cell::Number(whole(number)),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and casts saturate")]
pub(super) fn whole(number: f64) -> u64 {
    number.round() as u64
}

impl Delta {
    /// The difference between two values of one kind; `None` if their kinds differ.
    pub(super) fn between(baseline: &Cell, candidate: &Cell) -> Option<Self> {
        Some(match (baseline, candidate) {
            (Cell::Number(a), Cell::Number(b)) => Self::Number(i128::from(*b) - i128::from(*a)),
            (Cell::Signed(a), Cell::Signed(b)) => Self::Number(i128::from(*b) - i128::from(*a)),
            (Cell::AtLeast { .. }, _) if baseline == candidate => Self::Number(0),
            (Cell::Ratio(a), Cell::Ratio(b)) if (b - a).abs() <= ROUNDING * a.abs().max(b.abs()) => Self::Points(0.0),
            (Cell::Ratio(a), Cell::Ratio(b)) => Self::Points(b - a),
            (Cell::Range { min: a, max: b }, Cell::Range { min: c, max: d }) => {
                Self::Range { min: c.saturating_sub(*a), max: d.saturating_sub(*b) }
            }
            (Cell::Mode(from), Cell::Mode(to)) if from.value == to.value => Self::Same,
            (Cell::Mode(from), Cell::Mode(to)) => {
                Self::Changed { from: Cell::Word((*from.value).into()), to: Cell::Word((*to.value).into()) }
            }
            (Cell::Cpus(from), Cell::Cpus(to)) => {
                let fewest = i128::from(to.fewest) - i128::from(from.fewest);
                let most = i128::from(to.most) - i128::from(from.most);
                Self::Cpus { fewest, most, changed: fewest == 0 && most == 0 && from.cpus != to.cpus }
            }
            // Settings: numbers, words such as `max`, and ranges of them.
            (Cell::Word(_) | Cell::Settings(_), _) if baseline == candidate => Self::Same,
            (Cell::Word(_) | Cell::Settings(_), Cell::Number(_))
            | (Cell::Number(_) | Cell::Word(_) | Cell::Settings(_), Cell::Word(_) | Cell::Settings(_)) => {
                Self::Changed { from: baseline.clone(), to: candidate.clone() }
            }
            _ => return None,
        })
    }

    /// Whether both values are equal.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Number(delta) => *delta == 0,
            Self::Points(delta) => *delta == 0.0,
            Self::Range { min, max } => (*min, *max) == (0, 0),
            Self::Changed { .. } => false,
            Self::Same => true,
            Self::Cpus { fewest, most, changed } => (*fewest, *most) == (0, 0) && !changed,
        }
    }

    /// The number to sort by, if there is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(delta) => Some(*delta as f64),
            Self::Points(delta) => Some(*delta),
            Self::Range { max, .. } => Some(*max as f64),
            Self::Cpus { most, .. } => Some(*most as f64),
            Self::Changed { .. } | Self::Same => None,
        }
    }
}

/// The difference in percent of the baseline; `None` if the baseline is 0 or not a number, or if the
/// value is a share (`Ratio`, `Hundredths`).
pub(super) fn percent(unit: Unit, baseline: &Cell, delta: &Delta) -> Option<f64> {
    match (baseline, delta) {
        _ if matches!(unit, Unit::Hundredths | Unit::Ratio) => None,
        (Cell::Ratio(base), Delta::Points(delta)) if *base > 0.0 => Some(delta / base * 100.0),
        (Cell::Number(base @ 1..), Delta::Number(delta)) => Some(*delta as f64 / *base as f64 * 100.0),
        (Cell::Signed(base), Delta::Number(delta)) if *base != 0 => {
            Some(*delta as f64 / base.unsigned_abs() as f64 * 100.0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CpuSetSizes, MostFrequent};

    fn cpus(fewest: u64, most: u64, cpus: Option<&[u32]>) -> Cell {
        Cell::Cpus(Box::new(CpuSetSizes { fewest, most, cpus: cpus.map(Into::into) }))
    }

    fn mode(value: &str, count: u64) -> Cell {
        Cell::Mode(Box::new(MostFrequent { value: value.to_owned(), count, total: 9 }))
    }

    #[test]
    fn quotients_that_differ_by_their_rounding_are_equal() {
        let of = |a, b| Delta::between(&Cell::Ratio(a), &Cell::Ratio(b)).unwrap();
        assert!(of(0.1 + 0.2, 0.3).is_zero() && of(0.0, 0.0).is_zero() && !of(0.0, 1e-14).is_zero());
        assert_eq!(of(0.25, 0.5), Delta::Points(0.25));
    }

    #[test]
    fn numbers_have_a_signed_difference_over_their_whole_range() {
        let of = |a, b| Delta::between(&Cell::Number(a), &Cell::Number(b)).unwrap();
        assert_eq!(of(3, 10), Delta::Number(7));
        assert_eq!(of(u64::MAX, 0), Delta::Number(-i128::from(u64::MAX)));
    }

    #[test]
    fn a_percentage_needs_a_baseline() {
        let of =
            |a, b| percent(Unit::Ns, &Cell::Number(a), &Delta::between(&Cell::Number(a), &Cell::Number(b)).unwrap());
        assert_eq!(of(4, 3), Some(-25.0));
        assert_eq!(of(0, 3), None);
    }

    #[test]
    fn a_category_changes_only_with_its_most_frequent_value() {
        assert_eq!(Delta::between(&mode("S", 3), &mode("S", 8)), Some(Delta::Same));
        assert!(Delta::Same.is_zero());
        let changed = Delta::between(&mode("S", 3), &mode("R", 8)).unwrap();
        assert_eq!(changed, Delta::Changed { from: Cell::Word("S".into()), to: Cell::Word("R".into()) });
        assert!(!changed.is_zero());
    }

    #[test]
    fn a_cpu_set_can_move_without_growing() {
        let of = |a, b| Delta::between(&a, &b).unwrap();
        let changed = of(cpus(2, 2, Some(&[0, 1])), cpus(2, 2, Some(&[2, 3])));
        assert_eq!(changed, Delta::Cpus { fewest: 0, most: 0, changed: true });
        assert!(!changed.is_zero());
        assert!(of(cpus(1, 2, None), cpus(1, 2, None)).is_zero());
        assert_eq!(of(cpus(2, 2, None), cpus(1, 4, None)), Delta::Cpus { fewest: -1, most: 2, changed: false });
    }

    #[test]
    fn ranges_differ_by_their_ends() {
        let range = |min, max| Cell::Range { min, max };
        assert_eq!(Delta::between(&range(-5, 0), &range(0, 19)), Some(Delta::Range { min: 5, max: 19 }));
        assert_eq!(Delta::between(&range(0, 1), &Cell::Number(1)), None);
        let bound = Cell::AtLeast { at_least: 1 };
        assert!(Delta::between(&bound, &bound).unwrap().is_zero(), "nothing is known to have changed");
        for other in [Cell::AtLeast { at_least: 2 }, Cell::Number(1)] {
            assert_eq!(Delta::between(&bound, &other), None, "it may be any larger number");
        }
        assert_eq!(number(&bound), Some(1.0));
    }

    /// Two values of each kind, the second one larger, with their difference as a number and in percent.
    fn pairs() -> [(Unit, Cell, Cell, f64, Option<f64>); 9] {
        let range = |min, max| Cell::Range { min, max };
        [
            (Unit::Ns, Cell::Number(4), Cell::Number(6), 2.0, Some(50.0)),
            (Unit::Hundredths, Cell::Number(4), Cell::Number(6), 2.0, None),
            (Unit::Bytes, Cell::Signed(-4), Cell::Signed(6), 10.0, Some(250.0)),
            (Unit::Bytes, Cell::Signed(0), Cell::Signed(6), 6.0, None),
            (Unit::Percent, Cell::Ratio(4.0), Cell::Ratio(7.0), 3.0, Some(75.0)),
            (Unit::Percent, Cell::Ratio(0.0), Cell::Ratio(7.0), 7.0, None),
            (Unit::Ratio, Cell::Ratio(0.5), Cell::Ratio(0.75), 0.25, None),
            (Unit::None, range(1, 3), range(1, 7), 4.0, None),
            (Unit::None, cpus(1, 2, None), cpus(1, 6, None), 4.0, None),
        ]
    }

    #[test]
    fn every_kind_of_number_has_a_difference_that_is_zero_between_equals_and_swaps_its_sign_with_the_sides() {
        for (unit, a, b, difference, in_percent) in pairs() {
            let delta = Delta::between(&a, &b).unwrap();
            assert_eq!((delta.number(), delta.is_zero()), (Some(difference), false), "{a:?}");
            assert_eq!(Delta::between(&b, &a).unwrap().number(), Some(-difference), "{a:?}");
            assert_eq!(percent(unit, &a, &delta), in_percent, "{a:?}");
            assert_eq!(number(&b).zip(number(&a)).map(|(b, a)| b - a), Some(difference), "{a:?}");
            assert!(Delta::between(&a, &a).unwrap().is_zero() && Delta::between(&b, &b).unwrap().is_zero(), "{a:?}");
        }
        let word = |word: &str| Cell::Word(word.into());
        assert_eq!((number(&word("max")), number(&mode("S", 1))), (None, None));
        assert_eq!(Delta::between(&word("max"), &word("max")), Some(Delta::Same));
        for (from, to) in [(word("max"), word("low")), (word("max"), Cell::Number(5)), (Cell::Number(5), word("max"))] {
            assert_eq!(Delta::between(&from, &to), Some(Delta::Changed { from: from.clone(), to: to.clone() }));
        }
    }

    #[test]
    fn a_range_or_cpu_set_that_changed_at_its_lower_end_changed() {
        let of = |a, b| Delta::between(&a, &b).unwrap();
        assert!(!of(Cell::Range { min: 0, max: 9 }, Cell::Range { min: 1, max: 9 }).is_zero());
        let smaller = of(cpus(2, 2, Some(&[0, 1])), cpus(1, 2, None));
        assert_eq!(smaller, Delta::Cpus { fewest: -1, most: 0, changed: false });
        assert!(!smaller.is_zero());
        let larger = of(cpus(2, 2, Some(&[0, 1])), cpus(2, 3, None));
        assert_eq!(larger, Delta::Cpus { fewest: 0, most: 1, changed: false });
    }

    #[test]
    fn a_change_says_which_side_has_the_group_before_it_says_how_the_values_differ() {
        let (none, one, two) = (None, Some(Cell::Number(1)), Some(Cell::Number(2)));
        let both = (true, true);
        for (baseline, candidate, exists, change, name) in [
            (&one, &two, both, Change::Changed, "changed"),
            (&one, &one, both, Change::Unchanged, "unchanged"),
            (&none, &one, both, Change::Incomparable, "incomparable"),
            (&none, &none, both, Change::Absent, "absent"),
            (&none, &none, (true, false), Change::Absent, "absent"),
            (&one, &none, (true, false), Change::BaselineOnly, "baseline_only"),
            (&none, &one, (false, true), Change::CandidateOnly, "candidate_only"),
        ] {
            let delta = baseline.as_ref().zip(candidate.as_ref()).and_then(|(a, b)| Delta::between(a, b));
            let values = Sides::two(baseline.clone(), candidate.clone());
            let found = Change::new(&values, delta.as_ref(), exists);
            assert_eq!((found, found.name()), (change, name));
        }
    }
}
