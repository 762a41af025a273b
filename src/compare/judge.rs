//! What the values of a row in several runs say.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;

use super::{Measurement, Sides, Threshold, plain_number};
use crate::model::Cell;
use crate::statistics::{
    Design, Estimate, MIN_PAIRS, Margin, POWER, Sample, Scale, TAIL, Verdict, estimate, median, runs_needed,
};

/// The values of a row in several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RowRuns {
    /// The value in each run, in the order of the runs; NaN where it is unknown.
    pub values: Sides<Box<[f64]>>,
    /// The unit in which the kernel counts them, in the unit of the row; 0 if they are exact.
    pub quantum: f64,
    /// The ratio of the sides, with its 95 % interval; `None` with fewer than [`MIN_RUNS`](crate::statistics::MIN_RUNS)
    /// known values on a side, if more than half of the runs of a side lack the value, or with negative values.
    pub estimate: Option<Estimate>,
    /// What the interval says about the threshold.
    pub verdict: Option<Verdict>,
    /// What would make an unclear verdict clear, if that can be estimated.
    pub(crate) needed: Option<RunsNeeded>,
}

/// About how many runs per side would decide.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct RunsNeeded {
    pub(crate) runs: usize,
    /// In which share of cases, if the change is as measured.
    power: f64,
}

impl RunsNeeded {
    /// For a change beyond the threshold or, if it is within, for both ends of the interval to be within it.
    fn new(runs: usize, estimate: Estimate, Threshold(threshold): Threshold) -> Option<Self> {
        let (change, threshold) = (estimate.change.ln().abs(), threshold.ln_1p());
        let margin = match change - threshold {
            beyond @ 0.0.. => Margin::One(beyond),
            _ => Margin::Two(threshold - change, threshold + change),
        };
        let half_width = estimate.interval.half_width()?.ln_1p();
        let needed = runs_needed(runs, half_width, margin, TAIL).filter(|needed| *needed > runs)?;
        Some(Self { runs: needed, power: POWER })
    }
}

impl RowRuns {
    fn new(values: Sides<Box<[f64]>>, quantum: f64, design: Design, threshold: Threshold) -> Self {
        let mut runs = Self { values, quantum, estimate: None, verdict: None, needed: None };
        let (design, known) = known(design, runs.values.as_ref().map(|side| &**side));
        let are_usual = known.iter().zip(runs.values.iter()).all(|(known, values)| are_half(known.len(), values.len()));
        let Some((baseline, candidate)) = known.both().filter(|_| are_usual) else { return runs };
        let fewest = baseline.len().min(candidate.len());
        let sample = |values| Sample { values, quantum };
        runs.estimate = estimate(design, Scale::Ratio, sample(&baseline), sample(&candidate), TAIL);
        runs.verdict = runs.estimate.map(|estimate| Verdict::new(estimate, threshold.0));
        let unclear = runs.estimate.filter(|_| runs.verdict == Some(Verdict::Unclear));
        runs.needed = unclear.and_then(|estimate| RunsNeeded::new(fewest, estimate, threshold));
        runs
    }
}

/// The known values of runs, in pairs if enough pairs are whole.
pub(super) fn known(design: Design, values: Sides<&[f64]>) -> (Design, Sides<Vec<f64>>) {
    let is_known = |value: &f64| !value.is_nan();
    if let (Design::Paired, Some((baseline, candidate))) = (design, values.both()) {
        let pairs = baseline.iter().copied().zip(candidate.iter().copied());
        let (baseline, candidate): (Vec<_>, Vec<_>) = pairs.filter(|(a, b)| is_known(a) && is_known(b)).unzip();
        if baseline.len() >= MIN_PAIRS {
            return (design, Sides::two(baseline, candidate));
        }
    }
    (Design::Independent, values.map(|side| side.iter().copied().filter(is_known).collect()))
}

/// The median of the values that are known; `None` if more than half of the runs lack the value.
pub(super) fn usual(runs: &[f64]) -> Option<f64> {
    let known: Vec<f64> = runs.iter().copied().filter(|value| !value.is_nan()).collect();
    median(&known).filter(|_| are_half(known.len(), runs.len()))
}

pub(super) fn are_half(some: usize, all: usize) -> bool {
    some > 0 && some * 2 >= all
}

/// In which runs of a side any group has a value, by the name of the value.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownValues {
    runs: usize,
    by_name: HashMap<Cow<'static, str>, Box<[bool]>>,
}

impl KnownValues {
    pub(super) fn of_runs(runs: usize) -> Self {
        Self { runs, by_name: HashMap::new() }
    }

    pub(super) fn add(&mut self, run: usize, measured: &Measurement) {
        let none = || vec![false; self.runs].into_boxed_slice();
        self.by_name.entry(measured.name.clone()).or_insert_with(none)[run] = true;
    }

    /// Notes that these runs have values of these names, whether a group has them or not.
    pub(super) fn add_all(&mut self, runs: &[bool], names: impl IntoIterator<Item = String>) {
        self.by_name.extend(names.into_iter().map(|name| (Cow::Owned(name), runs.into())));
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|known| are_half(known.iter().filter(|known| **known).count(), self.runs))
    }

    /// The value of a run without the group: the total of no members is 0.
    pub(super) fn without_group(&self, run: usize, name: &str, is_total: bool) -> f64 {
        let is_known = self.by_name.get(name).is_some_and(|known| known[run]);
        if is_total && is_known { 0.0 } else { f64::NAN }
    }
}

pub(super) struct Judge {
    pub(super) known: Sides<KnownValues>,
    pub(super) design: Design,
    pub(super) threshold: Threshold,
}

impl Judge {
    /// The values of a row in all runs; `None` if they are not numbers, or if no side has several runs.
    pub(super) fn row(
        &self,
        measurements: &mut Sides<Option<Measurement>>,
        exists: Sides<bool>,
    ) -> Option<Box<RowRuns>> {
        if self.known.iter().all(|known| known.runs < 2) {
            return None;
        }
        let quantum = measurements.iter().flatten().map(|measured| measured.quantum).fold(0.0, f64::max);
        let like = measurements.iter().flatten().next()?;
        let (name, is_total) = (like.name.clone(), like.is_total);
        let sides = measurements.as_mut().zip(self.known.as_ref()).zip(exists);
        let values = sides.map(|((measured, known), exists)| match measured {
            Some(measured) if known.runs == 1 => one_run(measured.cell.as_ref()),
            Some(measured) => measured.runs.take(),
            None => Some((0..known.runs).map(|run| known.without_group(run, &name, is_total && !exists)).collect()),
        });
        Some(Box::new(RowRuns::new(values.of_all()?, quantum, self.design, self.threshold)))
    }
}

/// The number of the only run, NaN where there is none; `None` if the value is no number.
pub(super) fn one_run(cell: Option<&Cell>) -> Option<Box<[f64]>> {
    cell.map_or(Some(f64::NAN), plain_number).map(|number| [number].into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Unit;
    use crate::statistics::Interval;

    const UNKNOWN: f64 = f64::NAN;

    #[test]
    fn an_unclear_verdict_never_recommends_fewer_runs_than_there_are() {
        let unclear = |change, low, high| {
            let estimate = Estimate { change, interval: Interval { low, high } };
            assert_eq!(Verdict::new(estimate, 0.05), Verdict::Unclear);
            RunsNeeded::new(10, estimate, Threshold(0.05)).map(|needed| needed.runs)
        };
        assert_eq!(unclear(1.0, 0.95, 0.97), None);
        assert_eq!(unclear(1.1, 1.04, 1.16), Some(29));
        assert_eq!(unclear(1.05, 1.04, 1.16), None, "on the threshold, no number of runs decides");
    }

    #[test]
    fn a_row_has_the_larger_quantum_of_both_sides() {
        let judge = Judge {
            known: Sides::two(KnownValues::of_runs(4), KnownValues::of_runs(4)),
            design: Design::Independent,
            threshold: Threshold(0.05),
        };
        let entry = |quantum| Measurement {
            quantum,
            runs: Some([100.0; 4].into()),
            ..Measurement::new("run", Unit::Ns, Cell::Number(100), 1)
        };
        let both = Sides::two(true, true);
        let quantum = |a, b| judge.row(&mut Sides::two(Some(entry(a)), Some(entry(b))), both).unwrap().quantum;
        assert_eq!([quantum(0.0, 10.0), quantum(10.0, 0.0)], [10.0, 10.0]);
    }

    #[test]
    fn pairs_are_whole_or_their_runs_are_compared_without_them() {
        let all = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let [no_first, no_last] = [0, 6].map(|place| {
            let mut values = all;
            values[place] = UNKNOWN;
            values
        });
        let of = |design, baseline: &[f64], candidate: &[f64]| {
            let (design, known) = known(design, Sides::two(baseline, candidate));
            let (baseline, candidate) = known.both().unwrap();
            (design, baseline.len(), candidate.len())
        };
        assert_eq!(of(Design::Paired, &all, &all), (Design::Paired, 7, 7));
        assert_eq!(of(Design::Paired, &no_first, &all), (Design::Paired, 6, 6));
        assert_eq!(of(Design::Paired, &all, &no_last), (Design::Paired, 6, 6));
        assert_eq!(of(Design::Paired, &no_first, &no_last), (Design::Independent, 6, 6), "five pairs are too few");
        assert_eq!(of(Design::Independent, &no_first, &all), (Design::Independent, 6, 7));
    }

    #[test]
    fn half_of_the_runs_are_enough_and_none_are_not() {
        assert!(are_half(2, 4) && are_half(3, 5) && are_half(1, 1));
        assert!(!are_half(1, 3) && !are_half(2, 5) && !are_half(0, 1) && !are_half(0, 0));
    }
}
