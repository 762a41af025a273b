//! Numbers in tables: scaled to a suitable unit, with at least three significant digits.

use crate::compare::Delta;
use crate::diagnose::counted;
use crate::model::{Cell, CpuSetSizes, Unit, cpu_ranges};

/// The steps in which numbers of a unit are written: the size of each, and its name.
pub(super) fn ladder(unit: Unit) -> &'static [(f64, &'static str)] {
    const KIB: f64 = 1024.0;
    match unit {
        Unit::Ns => &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")],
        Unit::Us => &[(1.0, "µs"), (1e3, "ms"), (1e6, "s")],
        Unit::Bytes => {
            &[(1.0, "B"), (KIB, "KiB"), (KIB * KIB, "MiB"), (KIB * KIB * KIB, "GiB"), (KIB * KIB * KIB * KIB, "TiB")]
        }
        Unit::BytesPerSecond | Unit::BytesPerUnit => ladder(Unit::Bytes),
        Unit::Ticks => &[(1.0, " ticks")],
        Unit::Percent => &[(1.0, "%")],
        _ => &[(1.0, ""), (1e3, "K"), (1e6, "M"), (1e9, "G")],
    }
}

/// An unsigned number with its unit: `1.23ms`, `999ms`, then `1.00s`.
pub(super) fn scaled(number: u128, unit: Unit) -> String {
    let (digits, name) = parts(number, unit);
    format!("{digits}{name}")
}

/// An unsigned number for a sentence, with a space before the unit.
pub(super) fn spaced(number: u128, unit: Unit) -> String {
    let (digits, name) = parts(number, unit);
    format!("{digits} {}", name.trim_start()).trim_end().to_owned()
}

/// The digits of a number, and the name of their unit.
fn parts(number: u128, unit: Unit) -> (String, &'static str) {
    if unit == Unit::Hundredths {
        return (format!("{}.{:02}", number / 100, number % 100), "%");
    }
    stepped(number as f64, unit, number.to_string())
}

/// The digits of a number in the step that suits it, and its name. `lowest` has the digits in the lowest step.
fn stepped(number: f64, unit: Unit, lowest: String) -> (String, &'static str) {
    let steps = ladder(unit);
    let mut step = steps.iter().rposition(|(size, _)| number >= *size).unwrap_or(0);
    let mut digits = if step == 0 { lowest } else { three_digits(number / steps[step].0) };
    // Rounding can carry into the next unit: 999.9 µs is 1.00ms.
    while let Some((next, _)) = steps.get(step + 1)
        && digits.parse::<f64>().is_ok_and(|value| value * steps[step].0 >= *next)
    {
        step += 1;
        digits = three_digits(number / steps[step].0);
    }
    (digits, steps[step].1)
}

/// A number of at least 1, rounded to three digits.
pub(super) fn three_digits(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A number with sign and unit; 0 has no sign.
pub(super) fn signed(number: i128, unit: Unit) -> String {
    let sign = match number {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", scaled(number.unsigned_abs(), unit))
}

/// A difference in percent, with one decimal.
pub(super) fn percent_text(percent: Option<f64>) -> String {
    percent.map_or_else(String::new, |percent| {
        let sign = if percent < 0.0 { "−" } else { "+" };
        format!("{sign}{:.1}%", percent.abs())
    })
}

/// The value of a group; `-` if there is none.
pub(super) fn cell_text(cell: Option<&Cell>, unit: Unit) -> String {
    match cell {
        None => "-".to_owned(),
        Some(Cell::Number(number)) => scaled((*number).into(), unit),
        Some(Cell::AtLeast { at_least }) => format!("≥ {}", scaled((*at_least).into(), unit)),
        Some(Cell::Word(word)) => word.to_string(),
        Some(Cell::Ratio(ratio)) => ratio_text(*ratio, unit),
        Some(Cell::Signed(number @ ..0)) => signed((*number).into(), unit),
        Some(Cell::Signed(number)) => scaled(number.unsigned_abs().into(), unit),
        Some(Cell::Range { min, max }) if min == max => min.to_string(),
        Some(Cell::Range { min, max }) => format!("{min}..{max}"),
        Some(Cell::Settings(range)) => {
            format!("{}..{}", cell_text(Some(&range.min), unit), cell_text(Some(&range.max), unit))
        }
        Some(Cell::Mode(most)) if most.count == most.total => most.value.clone(),
        Some(Cell::Mode(most)) => format!("{} ({}/{})", most.value, most.count, most.total),
        Some(Cell::Cpus(sizes)) => match &**sizes {
            CpuSetSizes { fewest, cpus: Some(cpus), .. } => {
                format!("{} ({})", counted(*fewest, "cpu"), cpu_ranges(cpus))
            }
            CpuSetSizes { fewest, most, .. } if fewest == most => format!("{} (mixed)", counted(*fewest, "cpu")),
            CpuSetSizes { fewest, most, .. } => format!("{fewest}-{most} cpus (mixed)"),
        },
    }
}

/// A quotient: a rate, a time per unit of work, or a number without a unit.
fn ratio_text(ratio: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => {
            let (digits, name) = stepped(ratio, unit, three_digits(ratio));
            format!("{digits}{name}")
        }
        unit if unit.is_rate() => rate_text(ratio, unit),
        _ => format!("{ratio:.3}"),
    }
}

/// A rate, without what it is divided by. Below 10, with one decimal; a rate that would be shown as 0 is `0.0`, and
/// none at all is `0`.
fn rate_text(rate: f64, unit: Unit) -> String {
    let digits = match rate {
        0.0 => "0".to_owned(),
        ..9.95 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    };
    let (digits, name) = stepped(rate, unit, digits);
    format!("{digits}{name}")
}

/// A difference with its sign; between percentages in percentage points: `+3.0pp`.
pub(super) fn delta_text(delta: Option<&Delta>, unit: Unit) -> String {
    let text = plain_delta_text(delta, unit);
    let points = text.strip_suffix('%').filter(|_| !matches!(delta, Some(Delta::Changed { .. })));
    points.map(|number| format!("{number}pp")).unwrap_or(text)
}

fn plain_delta_text(delta: Option<&Delta>, unit: Unit) -> String {
    let count = |number: i128| signed(number, Unit::Count);
    match delta {
        None => "-".to_owned(),
        Some(Delta::Number(number)) => signed(*number, unit),
        Some(Delta::Points(points)) => {
            let sign = if *points < 0.0 { "−" } else { "+" };
            format!("{sign}{}", ratio_text(points.abs(), unit))
        }
        Some(Delta::Range { min, max }) if min == max => count((*min).into()),
        Some(Delta::Range { min, max }) => format!("{} / {}", count((*min).into()), count((*max).into())),
        Some(Delta::Changed { from, to }) => format!("{} → {}", cell_text(Some(from), unit), cell_text(Some(to), unit)),
        Some(Delta::Same) => "same".to_owned(),
        Some(Delta::Cpus { changed: true, .. }) => "changed".to_owned(),
        Some(Delta::Cpus { fewest, most, .. }) if fewest == most => count(*fewest),
        Some(Delta::Cpus { fewest, most, .. }) => format!("{} / {}", count(*fewest), count(*most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MostFrequent, SettingRange};

    #[test]
    fn three_digits_and_rounding_that_carries_into_the_next_unit() {
        for (number, unit, text) in [
            (0, Unit::Ns, "0ns"),
            (999, Unit::Ns, "999ns"),
            (1_000, Unit::Ns, "1.00µs"),
            (1_234_567, Unit::Ns, "1.23ms"),
            (99_950_000, Unit::Ns, "100ms"),
            (999_499_999, Unit::Ns, "999ms"),
            (999_999_999, Unit::Ns, "1.00s"),
            (1_234_567_890_123, Unit::Ns, "1235s"),
            (92_000, Unit::Us, "92.0ms"),
            (509, Unit::Hundredths, "5.09%"),
            (1023, Unit::Bytes, "1023B"),
            (1024, Unit::Bytes, "1.00KiB"),
            (1_048_575, Unit::Bytes, "1.00MiB"),
            (1_047_000, Unit::Bytes, "1022KiB"),
            (5 << 40, Unit::Bytes, "5.00TiB"),
            (999_999, Unit::Count, "1.00M"),
            (12_345, Unit::Count, "12.3K"),
            (12_345, Unit::Ticks, "12345 ticks"),
        ] {
            assert_eq!(scaled(number, unit), text);
        }
    }

    #[test]
    fn differences_carry_their_sign() {
        assert_eq!(signed(0, Unit::Ns), "0ns");
        assert_eq!(signed(1500, Unit::Ns), "+1.50µs");
        assert_eq!(signed(-1500, Unit::Ns), "−1.50µs");
        assert_eq!(percent_text(Some(-4.04)), "−4.0%");
        assert_eq!(percent_text(None), "");
    }

    #[test]
    fn values_are_written_by_their_kind() {
        let mode = Cell::Mode(Box::new(MostFrequent { value: "S".into(), count: 2, total: 3 }));
        assert_eq!(cell_text(Some(&mode), Unit::None), "S (2/3)");
        assert_eq!(cell_text(Some(&Cell::Range { min: -20, max: 19 }), Unit::None), "-20..19");
        let limits = SettingRange { min: Cell::Number(2 << 30), max: Cell::Word("max".into()) };
        assert_eq!(cell_text(Some(&Cell::Settings(Box::new(limits))), Unit::Bytes), "2.00GiB..max");
        let one = Cell::Cpus(Box::new(CpuSetSizes { fewest: 5, most: 5, cpus: Some([0, 1, 2, 3, 8].into()) }));
        assert_eq!(cell_text(Some(&one), Unit::None), "5 cpus (0-3,8)");
        assert_eq!(
            cell_text(Some(&Cell::Cpus(Box::new(CpuSetSizes { fewest: 1, most: 4, cpus: None }))), Unit::None),
            "1-4 cpus (mixed)"
        );
        assert_eq!(cell_text(None, Unit::Ns), "-");
        assert_eq!(delta_text(Some(&Delta::Range { min: 0, max: 5 }), Unit::None), "0 / +5");
        assert_eq!(delta_text(Some(&Delta::Cpus { fewest: 0, most: 0, changed: true }), Unit::None), "changed");
    }

    #[test]
    fn rates_have_one_decimal_below_ten_and_zero_is_not_a_small_rate() {
        for (rate, unit, text) in [
            (0.0, Unit::Percent, "0%"),
            (0.01, Unit::Percent, "0.0%"),
            (9.94, Unit::Percent, "9.9%"),
            (9.95, Unit::Percent, "10%"),
            (1234.4, Unit::Percent, "1234%"),
            (0.0, Unit::CountPerSecond, "0"),
            (0.04, Unit::CountPerSecond, "0.0"),
            (999.0, Unit::CountPerSecond, "999"),
            (1000.0, Unit::CountPerSecond, "1.00K"),
            (25e6, Unit::CountPerSecond, "25.0M"),
            (0.0, Unit::BytesPerSecond, "0B"),
            (1023.0, Unit::BytesPerSecond, "1023B"),
            (1536.0, Unit::BytesPerSecond, "1.50KiB"),
        ] {
            assert_eq!(cell_text(Some(&Cell::Ratio(rate)), unit), text, "{rate}");
            let text = text.replace('%', "pp");
            assert_eq!(delta_text(Some(&Delta::Points(rate)), unit), format!("+{text}"), "{rate}");
            let negative = if rate == 0.0 { format!("+{text}") } else { format!("−{text}") };
            assert_eq!(delta_text(Some(&Delta::Points(-rate)), unit), negative, "{rate}");
        }
        assert_eq!(cell_text(Some(&Cell::Ratio(0.5)), Unit::Ratio), "0.500");
        assert_eq!(delta_text(Some(&Delta::Points(-0.25)), Unit::Ratio), "−0.250");
        assert_eq!(delta_text(Some(&Delta::Points(0.0)), Unit::Ratio), "+0.000");
    }

    #[test]
    fn times_per_unit_of_work_have_three_digits_in_all_units() {
        for (ns, text) in [(0.0, "0.00ns"), (1.47, "1.47ns"), (147.4, "147ns"), (999.6, "1.00µs"), (2e5, "200µs")] {
            assert_eq!(cell_text(Some(&Cell::Ratio(ns)), Unit::Ns), text);
            assert_eq!(delta_text(Some(&Delta::Points(-ns)), Unit::Ns).trim_start_matches(['−', '+']), text);
        }
    }

    #[test]
    fn rounding_of_rates_carries_into_the_next_unit() {
        for (rate, unit, text) in [
            (999.4, Unit::CountPerSecond, "999"),
            (999.6, Unit::CountPerSecond, "1.00K"),
            (999_999.0, Unit::CountPerSecond, "1.00M"),
            (1023.7, Unit::BytesPerSecond, "1.00KiB"),
            (999.6, Unit::Percent, "1000%"),
        ] {
            assert_eq!(cell_text(Some(&Cell::Ratio(rate)), unit), text);
        }
    }

    #[test]
    fn a_number_in_a_sentence_has_a_space_before_its_unit() {
        let texts = [(1_500, Unit::Ns), (3, Unit::Count), (7, Unit::Ticks), (2048, Unit::Bytes)];
        assert_eq!(texts.map(|(number, unit)| spaced(number, unit)), ["1.50 µs", "3", "7 ticks", "2.00 KiB"]);
    }

    #[test]
    fn equal_ends_are_written_once() {
        let cpus = |fewest, most| Cell::Cpus(Box::new(CpuSetSizes { fewest, most, cpus: None }));
        for (cell, text) in [
            (Cell::Range { min: 3, max: 3 }, "3"),
            (Cell::Range { min: -1, max: 3 }, "-1..3"),
            (Cell::Mode(Box::new(MostFrequent { value: "S".into(), count: 3, total: 3 })), "S"),
            (cpus(2, 2), "2 cpus (mixed)"),
            (cpus(2, 3), "2-3 cpus (mixed)"),
            (Cell::Signed(-2), "−2"),
            (Cell::Signed(0), "0"),
            (Cell::Signed(2), "2"),
            (Cell::Word("max".into()), "max"),
            (Cell::AtLeast { at_least: 1500 }, "≥ 1.50K"),
        ] {
            assert_eq!(cell_text(Some(&cell), Unit::None), text);
        }
        for (delta, text) in [
            (Delta::Range { min: 2, max: 2 }, "+2"),
            (Delta::Range { min: -2, max: 2 }, "−2 / +2"),
            (Delta::Cpus { fewest: 1, most: 1, changed: false }, "+1"),
            (Delta::Cpus { fewest: -1, most: 0, changed: false }, "−1 / 0"),
            (Delta::Same, "same"),
            (Delta::Changed { from: Cell::Word("max".into()), to: Cell::Number(5) }, "max → 5"),
            (Delta::Number(-1500), "−1.50K"),
        ] {
            assert_eq!(delta_text(Some(&delta), Unit::None), text);
        }
        assert_eq!(delta_text(None, Unit::Ns), "-");
        assert_eq!(percent_text(Some(0.0)), "+0.0%");
        let settings = Delta::Changed { from: Cell::Ratio(10.0), to: Cell::Ratio(20.0) };
        assert_eq!(delta_text(Some(&settings), Unit::Percent), "10% → 20%", "these are values");
        assert_eq!(delta_text(Some(&Delta::Number(-509)), Unit::Hundredths), "−5.09pp");
    }
}
