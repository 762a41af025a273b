//! The words for a change: what it is called where one way is worse.

use super::overview::OVERVIEW;
use super::quantity::Quantity;
use super::rows::Row;
use crate::model::{Direction, Section};
use crate::statistics::Verdict;

impl Row {
    /// Whether a larger value is worse.
    #[must_use]
    pub fn direction(&self) -> Direction {
        direction(self.section, &self.name, self.quantity)
    }
}

fn direction(section: Section, name: &str, quantity: Option<Quantity>) -> Direction {
    let column = || OVERVIEW.iter().find(|column| section == Section::Overview && column.name == name);
    quantity.map(Quantity::direction).or_else(|| column().map(|column| column.direction)).unwrap_or_default()
}

/// The word for a verdict: `worse` or `better` where the value has a direction, else the verdict's name.
#[must_use]
pub fn word(verdict: Verdict, direction: Direction) -> &'static str {
    match (verdict, direction) {
        (Verdict::More, Direction::MoreIsWorse) | (Verdict::Less, Direction::LessIsWorse) => "worse",
        (Verdict::More, Direction::LessIsWorse) | (Verdict::Less, Direction::MoreIsWorse) => "better",
        _ => verdict.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_time_is_worse_and_more_sleep_is_more() {
        let words = |section, name: &str| {
            let direction = direction(section, name, Quantity::named(name));
            [Verdict::More, Verdict::Less, Verdict::Same, Verdict::Unclear].map(|verdict| word(verdict, direction))
        };
        assert_eq!(words(Section::Overview, "run"), ["worse", "better", "same", "unclear"]);
        assert_eq!(words(Section::Overview, "sleep"), ["more", "less", "same", "unclear"]);
        assert_eq!(words(Section::Derived, "cpu_efficiency"), ["better", "worse", "same", "unclear"]);
        assert_eq!(words(Section::Primary, "voluntary_csw")[0], "more");
        assert_eq!(words(Section::MemoryStat, "read")[0], "more", "another value of the same name");
    }
}
