//! Texts of cells and paths of groups, which the sections of a page share: each stands once in the file.

use std::collections::HashMap;

use serde::Serialize;

use super::super::{cell_text, number};
use crate::compare::{Row, plain_number};
use crate::model::{Cell, Unit};

#[derive(Default)]
pub(super) struct Shared<'p> {
    pub(super) cells: Cells,
    pub(super) paths: Paths<'p>,
}

/// The texts of cells, with the numbers that they stand for. A number has the digits of its text, so that equal texts are one
/// cell; it is `None` where the text is no number.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(super) struct Cells {
    list: Vec<(String, Option<Cell>)>,
    #[serde(skip)]
    places: HashMap<(Unit, bool, String), usize>,
}

impl Cells {
    pub(super) fn place(&mut self, text: String, value: Option<f64>, unit: Unit) -> usize {
        *self.places.entry((unit, value.is_some(), text)).or_insert_with_key(|(_, _, text)| {
            self.list.push((text.clone(), value.map(|value| number(significant(value, DIGITS)))));
            self.list.len() - 1
        })
    }

    /// A value of a row, with a mark if some members lack it.
    pub(super) fn of_value(&mut self, cell: Option<&Cell>, row: &Row) -> usize {
        let mark = if row.partial && cell.is_some() { "*" } else { "" };
        let number = match cell {
            Some(Cell::AtLeast { at_least }) => Some(*at_least as f64),
            cell => cell.and_then(plain_number),
        };
        self.place(cell_text(cell, row.unit) + mark, number, row.unit)
    }
}

/// Paths of groups: the index of the path above, if there is one, and the name.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(super) struct Paths<'p> {
    list: Vec<(Option<usize>, &'p str)>,
    #[serde(skip)]
    places: HashMap<&'p [String], usize>,
}

impl<'p> Paths<'p> {
    pub(super) fn place(&mut self, path: &'p [String]) -> Option<usize> {
        let (name, parents) = path.split_last()?;
        if let Some(place) = self.places.get(path) {
            return Some(*place);
        }
        let parent = self.place(parents);
        let place = self.list.len();
        self.list.push((parent, name));
        self.places.insert(path, place);
        Some(place)
    }
}

/// Significant digits of the numbers of cells. Texts show up to four digits.
const DIGITS: i32 = 5;

pub(super) fn significant(number: f64, digits: i32) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the exponent of a number is small")]
    let decimals = digits - 1 - number.abs().log10().floor() as i32;
    let scale = 10_f64.powi(decimals.abs());
    let rounded = if decimals > 0 { (number * scale).round() / scale } else { (number / scale).round() * scale };
    if rounded.is_finite() { rounded } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_digits_whatever_their_size() {
        let numbers = [0.0, 123.456_789_1, -0.001_234_567_89, 98_765_432.1, f64::MIN_POSITIVE, f64::MAX];
        let expected = [0.0, 123.46, -0.001_234_6, 98_765_000.0, f64::MIN_POSITIVE, f64::MAX];
        for (number, expected) in numbers.into_iter().zip(expected) {
            let rounded = significant(number, DIGITS);
            assert!((rounded - expected).abs() <= expected.abs() * 1e-6, "{number}: {rounded}");
        }
        assert_eq!(serde_json::to_string(&significant(123.456_789_1, DIGITS)).unwrap(), "123.46");
    }

    #[test]
    fn equal_texts_are_one_cell_but_not_those_of_other_units_and_words() {
        let mut cells = Cells::default();
        let mut place = |number, unit| cells.place("1.50s".to_owned(), number, unit);
        let places = [
            place(Some(1_500_000_001.0), Unit::Ns),
            place(Some(1_500_000_002.0), Unit::Ns),
            place(Some(1_500_000.0), Unit::Us),
            place(None, Unit::Ns),
        ];
        assert_eq!(places, [0, 0, 1, 2]);
        let json = serde_json::to_string(&cells).unwrap();
        assert_eq!(json, r#"[["1.50s",1500000000],["1.50s",1500000],["1.50s",null]]"#);
    }

    #[test]
    fn paths_share_their_beginnings() {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (pool, other) = (path(&["/a", "app", "worker"]), path(&["/a", "app"]));
        let mut paths = Paths::default();
        assert_eq!((paths.place(&pool), paths.place(&other), paths.place(&pool)), (Some(2), Some(1), Some(2)));
        assert_eq!(paths.list, [(None, "/a"), (Some(0), "app"), (Some(1), "worker")]);
    }
}
