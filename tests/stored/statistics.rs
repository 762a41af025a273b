//! What the statistics of several runs promise: symmetry and invariance for any values, and coverage, false alarms
//! and power for values as measured on shared machines.

use ctprof::statistics::{
    Beyond, Bound, Design, Estimate, Interval, MIN_PAIRS, Margin, Samples, Scale, TAIL, Verdict, fewest_runs, holm,
    least_found, runs_needed,
};
use proptest::collection::vec;
use proptest::prelude::*;

const THRESHOLD: f64 = 0.05;

fn samples(design: Design, baseline: &[f64], candidate: &[f64], quantum: f64) -> Samples {
    Samples { design, sides: [baseline.into(), candidate.into()], quantum }
}

/// Both designs, as far as there are pairs.
fn designs(a: &[f64], b: &[f64]) -> Vec<(Design, Vec<f64>, Vec<f64>)> {
    let pairs = a.len().min(b.len());
    let paired = (Design::Paired, a[..pairs].to_vec(), b[..pairs].to_vec());
    let independent = (Design::Independent, a.to_vec(), b.to_vec());
    [independent].into_iter().chain(Some(paired).filter(|_| pairs >= MIN_PAIRS)).collect()
}

fn estimate(baseline: &[f64], candidate: &[f64], quantum: f64) -> Estimate {
    samples(Design::Independent, baseline, candidate, quantum).estimate(Scale::Ratio, TAIL).unwrap()
}

/// Counters of runs: zeros, equal values, small and large ones.
fn runs() -> impl Strategy<Value = Vec<f64>> {
    let counter = prop_oneof![Just(0_u32), 0_u32..20, 900_u32..1100, any::<u32>()];
    let constant = (any::<u32>(), 4_usize..12).prop_map(|(value, runs)| vec![value; runs]);
    let integers = prop_oneof![4 => vec(counter, 4..15), 1 => constant];
    integers.prop_map(|runs| runs.into_iter().map(f64::from).collect())
}

fn quantum() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), Just(10.0)]
}

fn is_close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn is_same(a: Estimate, b: Estimate) -> bool {
    is_close(a.change, b.change)
        && is_close(a.interval.low, b.interval.low)
        && is_close(a.interval.high, b.interval.high)
}

fn inverse(Estimate { change: ratio, interval: Interval { low, high } }: Estimate) -> Estimate {
    Estimate { change: 1.0 / ratio, interval: Interval { low: 1.0 / high, high: 1.0 / low } }
}

fn mirrored(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::More => Verdict::Less,
        Verdict::Less => Verdict::More,
        other => other,
    }
}

proptest! {
    #[test]
    fn swapping_the_sides_inverts_the_interval_and_mirrors_the_verdict(a in runs(), b in runs(), quantum in quantum()) {
        for (design, a, b) in designs(&a, &b) {
            let ratio = |a: &[f64], b: &[f64]| samples(design, a, b, quantum).estimate(Scale::Ratio, TAIL).unwrap();
            let (there, back) = (ratio(&a, &b), ratio(&b, &a));
            // A ratio need not be inverted to the last bit.
            prop_assert!(is_same(there, inverse(back)), "{design:?}: {there:?} {back:?}");
            // An end on the threshold itself, but for rounding, can be on either side of it.
            let ends = [there.interval.low, there.interval.high];
            let is_on_edge =
                ends.iter().any(|end| is_close(*end, 1.0 + THRESHOLD) || is_close(*end, 1.0 / (1.0 + THRESHOLD)));
            prop_assert!(is_on_edge || Verdict::new(there, THRESHOLD) == mirrored(Verdict::new(back, THRESHOLD)));
        }
    }

    #[test]
    fn scaling_both_sides_changes_nothing(a in runs(), b in runs(), quantum in quantum(), scale in 0_i32..30) {
        let scaled = |runs: &[f64]| runs.iter().map(|run| run * f64::from(scale).exp2()).collect::<Vec<_>>();
        let scaled = estimate(&scaled(&a), &scaled(&b), quantum * f64::from(scale).exp2());
        prop_assert_eq!(scaled, estimate(&a, &b, quantum));
    }

    #[test]
    fn scaling_one_side_scales_the_interval_and_1_changes_nothing(a in runs(), b in runs(), scale in 0_i32..9) {
        let factor = f64::from(scale).exp2();
        let scaled: Vec<_> = b.iter().map(|run| run * factor).collect();
        let (before, after) = (estimate(&a, &b, 0.0), estimate(&a, &scaled, 0.0));
        if factor == 1.0 {
            prop_assert_eq!(before, after);
        }
        // Of two zeros the ratio stays 1.
        if a.iter().chain(&b).all(|run| *run > 0.0) {
            let Interval { low, high } = before.interval;
            let interval = Interval { low: low * factor, high: high * factor };
            let expected = Estimate { change: before.change * factor, interval };
            prop_assert!(is_same(after, expected), "{after:?} {expected:?}");
        }
    }

    #[test]
    fn the_order_of_runs_does_not_matter(a in runs(), b in runs(), quantum in quantum()) {
        let reversed = |runs: &[f64]| runs.iter().rev().copied().collect::<Vec<_>>();
        prop_assert_eq!(estimate(&reversed(&a), &reversed(&b), quantum), estimate(&a, &b, quantum));
    }

    #[test]
    fn the_estimate_is_a_number_within_the_interval(a in runs(), b in runs(), quantum in quantum()) {
        let Estimate { change: ratio, interval } = estimate(&a, &b, quantum);
        prop_assert!(0.0 <= interval.low && interval.low <= ratio && ratio <= interval.high);
        let exact = estimate(&a, &b, 0.0).interval;
        prop_assert!(interval.low <= exact.low && exact.high <= interval.high, "a quantum only widens it");
        let change = samples(Design::Independent, &a, &b, quantum).estimate(Scale::Difference, TAIL).unwrap();
        prop_assert!(change.interval.low <= change.change && change.change <= change.interval.high);
    }

    #[test]
    fn a_gate_fails_if_and_only_if_the_interval_lies_beyond_its_bound(
        a in runs(), b in runs(), quantum in quantum(), factor in 0.5..2.0_f64, amount in -100.0..100.0_f64,
    ) {
        for (design, a, b) in designs(&a, &b) {
            let samples = samples(design, &a, &b, quantum);
            let [ratio, change] =
                [Scale::Ratio, Scale::Difference].map(|scale| samples.estimate(scale, TAIL).unwrap().interval);
            for (scale, beyond, limit, is_beyond) in [
                (Scale::Ratio, Beyond::Above, factor, ratio.low > factor),
                (Scale::Ratio, Beyond::Below, factor, ratio.high < factor),
                (Scale::Difference, Beyond::Above, amount, change.low > amount),
                (Scale::Difference, Beyond::Below, amount, change.high < amount),
            ] {
                let bound = Bound { scale, beyond, limit };
                let p = samples.probability(bound).unwrap();
                prop_assert_eq!(p <= 0.025, is_beyond, "{:?}, {:?} {}", design, bound, p);
            }
        }
    }
}

/// SplitMix64 of Steele, Lea and Flood: the same numbers on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Between 0 and 1, both excluded.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (f64::from(u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap()) + 0.5) / (f64::from(u32::MAX) + 1.0)
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// CPU time that varies by `noise`.
    pub(crate) fn log_normal(&mut self, noise: f64) -> f64 {
        1000.0 * (noise * self.normal()).exp()
    }

    /// Two percent of noise, and one run of five much slower: a Pareto tail without a variance.
    fn heavy_tailed(&mut self) -> f64 {
        let outlier = if self.uniform() < 0.2 { self.uniform().powf(-0.6) } else { 1.0 };
        self.log_normal(0.02) * outlier
    }
}

/// The share of 4,000 comparisons of `runs` runs a side for which `holds` holds.
fn share(
    runs: (usize, usize),
    factor: f64,
    quantum: f64,
    mut value: impl FnMut(&mut Random) -> f64,
    holds: impl Fn(Estimate) -> bool,
) -> f64 {
    let mut random = Random(1);
    let mut side = |runs: usize, factor: f64| -> Vec<f64> {
        let counted = |value: f64| if quantum > 0.0 { (value / quantum).floor() * quantum } else { value };
        (0..runs).map(|_| counted(value(&mut random) * factor)).collect()
    };
    let mut holding = 0_u32;
    for _ in 0..4000 {
        let (baseline, candidate) = (side(runs.0, 1.0), side(runs.1, factor));
        holding += u32::from(holds(estimate(&baseline, &candidate, quantum)));
    }
    f64::from(holding) / 4000.0
}

fn covers(truth: f64) -> impl Fn(Estimate) -> bool {
    move |estimate| estimate.interval.low <= truth && truth <= estimate.interval.high
}

/// Three standard errors of a share of 0.95 in 4,000.
const ERROR: f64 = 0.0104;

#[test]
fn intervals_cover_the_true_ratio_in_95_of_100_comparisons() {
    for runs in [(4, 4), (5, 10), (10, 10), (20, 20)] {
        for (name, covered) in [
            ("log-normal", share(runs, 1.1, 0.0, |random| random.log_normal(0.07), covers(1.1))),
            ("very skewed", share(runs, 2.0, 0.0, |random| random.log_normal(0.6), covers(2.0))),
            ("heavy-tailed", share(runs, 1.1, 0.0, Random::heavy_tailed, covers(1.1))),
            ("ticks", share(runs, 1.1, 10.0, |random| random.log_normal(0.02) / 10.0, covers(1.1))),
            ("few ticks", share(runs, 1.1, 10.0, |random| random.log_normal(0.3) / 50.0, covers(1.1))),
        ] {
            assert!(covered >= 0.95 - ERROR, "{name}, {runs:?}: {covered}");
        }
    }
}

#[test]
fn equal_sides_are_called_different_in_less_than_1_of_100_comparisons() {
    let is_alarm = |estimate| matches!(Verdict::new(estimate, THRESHOLD), Verdict::More | Verdict::Less);
    for (name, alarms) in [
        ("2 %", share((10, 10), 1.0, 0.0, |random| random.log_normal(0.02), is_alarm)),
        ("7 %", share((10, 10), 1.0, 0.0, |random| random.log_normal(0.07), is_alarm)),
        ("heavy-tailed", share((10, 10), 1.0, 0.0, Random::heavy_tailed, is_alarm)),
        ("ticks", share((10, 10), 1.0, 10.0, |random| random.log_normal(0.07) / 10.0, is_alarm)),
    ] {
        assert!(alarms <= 0.01, "{name}: {alarms}");
    }
}

#[test]
fn ten_percent_more_is_found_at_2_percent_of_noise_and_unclear_at_60() {
    let verdict = |wanted| move |estimate| Verdict::new(estimate, THRESHOLD) == wanted;
    let found = share((10, 10), 1.1, 0.0, |random| random.log_normal(0.02), verdict(Verdict::More));
    assert!(found >= 0.95, "{found}");
    let unclear = share((10, 10), 1.1, 0.0, |random| random.log_normal(0.6), verdict(Verdict::Unclear));
    let same = share((10, 10), 1.1, 0.0, |random| random.log_normal(0.6), verdict(Verdict::Same));
    assert!(unclear >= 0.9 && same == 0.0, "{unclear} {same}");
}

/// The share of 4,000 comparisons of ten pairs of runs for which `holds` holds. The machine slows both runs of a pair
/// down alike, and each by 2 % of noise of its own.
fn share_of_pairs(factor: f64, machine: f64, holds: impl Fn(Estimate) -> bool) -> f64 {
    let mut random = Random(1);
    let mut holding = 0_u32;
    for _ in 0..4000 {
        let pairs = (0..10).map(|_| {
            let slowed = random.log_normal(machine);
            (slowed * random.log_normal(0.02), slowed * random.log_normal(0.02) * factor)
        });
        let (a, b): (Vec<_>, Vec<_>) = pairs.unzip();
        holding += u32::from(holds(samples(Design::Paired, &a, &b, 0.0).estimate(Scale::Ratio, TAIL).unwrap()));
    }
    f64::from(holding) / 4000.0
}

#[test]
fn pairs_find_ten_percent_more_on_a_machine_that_varies_by_4_percent_without_more_false_alarms() {
    let verdict = |wanted| move |estimate| Verdict::new(estimate, THRESHOLD) == wanted;
    for machine in [0.0, 0.04, 0.2] {
        let covered = share_of_pairs(1.1, machine, covers(1.1));
        let alarms = share_of_pairs(1.0, machine, verdict(Verdict::More));
        assert!(covered >= 0.95 - ERROR && alarms <= 0.01, "{machine}: {covered} {alarms}");
    }
    let found = share_of_pairs(1.1, 0.04, verdict(Verdict::More));
    assert!(found >= 0.95, "{found}");
}

#[test]
fn more_runs_narrow_the_interval_on_average() {
    let width = |runs: usize| {
        let mut random = Random(1);
        let mut side = || (0..runs).map(|_| random.log_normal(0.07)).collect::<Vec<_>>();
        let widths = (0..500).map(|_| estimate(&side(), &side(), 0.0).interval.half_width().unwrap());
        widths.sum::<f64>() / 500.0
    };
    let widths = [5, 8, 12, 20, 40].map(width);
    assert!(widths.is_sorted_by(|fewer, more| fewer > more), "{widths:?}");
}

/// The share of 1,000 comparisons of runs in turn in which all of several gates `>5%` fail, as they are judged: in pairs, or
/// where those are too few for so many gates, without them.
fn gates_fail(runs: usize, gates: usize, factor: f64, noise: f64) -> f64 {
    let mut random = Random(7);
    let bound = Bound { scale: Scale::Ratio, beyond: Beyond::Above, limit: 1.05 };
    let is_paired = runs >= MIN_PAIRS && 0.5_f64.powi(i32::try_from(runs).unwrap()) * gates as f64 <= 0.025;
    let design = if is_paired { Design::Paired } else { Design::Independent };
    let mut failed = 0_u32;
    for _ in 0..1000 {
        let mut side = |factor: f64| (0..runs).map(|_| random.log_normal(noise) * factor).collect::<Vec<_>>();
        let (baseline, candidate) = (side(1.0), side(factor));
        let p = samples(design, &baseline, &candidate, 0.0).probability(bound).unwrap();
        // All gates are on the same change: the last one is not corrected, the first one is for all of them.
        failed += u32::from(p * holm(&vec![p; gates], TAIL)[0].factor <= TAIL);
    }
    f64::from(failed) / 10.0
}

/// The table of docs/noise.md.
fn power_table() -> String {
    let mut table = "| runs vary by | runs per side | no change | +5% | +10% | +20% | +50% |\n|---:|---:|---:|---:|---:|---:|---:|\n".to_owned();
    for noise in [0.03, 0.07] {
        for runs in [5, 6, 10, 20] {
            let cell = |factor: f64| {
                [1, 2, 5].map(|gates| format!("{:.0}", gates_fail(runs, gates, factor, noise))).join(" / ")
            };
            let cells = [1.0, 1.05, 1.1, 1.2, 1.5].map(cell).join(" | ");
            table += &format!("| {:.0}% | {runs} | {cells} |\n", noise * 100.0);
        }
    }
    table
}

#[test]
fn the_power_of_gates_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/noise.md");
    let page = std::fs::read_to_string(path).unwrap();
    let heading = "| runs vary by |";
    let start = page.find(heading).unwrap();
    let end = start + page[start..].find("\n\n").unwrap() + 1;
    let expected = [&page[..start], &power_table(), &page[end..]].concat();
    if std::env::var_os("UPDATE_NOISE").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    assert!(page == expected, "run: UPDATE_NOISE=1 cargo test --test suite power");
}

#[test]
fn a_clear_rise_fails_every_gate_from_the_fewest_runs_on() {
    for gates in [1, 2, 5, 20] {
        assert!(gates_fail(fewest_runs(gates, TAIL), gates, 2.86, 0.07) > 95.0, "{gates}");
    }
}

#[test]
fn so_many_runs_find_what_is_said_before_they_are_made() {
    for runs in [5, 6, 10, 20] {
        let found = gates_fail(runs, 1, 1.0 + least_found(runs, 1, TAIL, 0.05, 0.05), 0.05);
        assert!((60.0..90.0).contains(&found), "{runs}: {found}");
    }
}

#[test]
fn the_runs_that_are_said_to_decide_do_so_in_4_of_5_cases() {
    for (factor, margin, wanted) in
        [(1.1, Margin::One((1.1_f64 / 1.05).ln()), Verdict::More), (1.0, Margin::Two(0.04879, 0.04879), Verdict::Same)]
    {
        // The half width of ten runs that vary by 7 %.
        let runs = runs_needed(10, 1.96 * 0.07 * (2.0 / 10.0_f64).sqrt(), margin, TAIL).unwrap();
        let is_it = |estimate| Verdict::new(estimate, THRESHOLD) == wanted;
        let decided = share((runs, runs), factor, 0.0, |random| random.log_normal(0.07), is_it);
        assert!((0.72..0.88).contains(&decided), "{runs} runs: {decided}");
    }
}
