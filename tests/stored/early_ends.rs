//! Runs that end once they decide fail no more gates by chance than runs whose number is fixed, and find nearly as much.

use ctprof::statistics::{Beyond, Bound, Design, Looks, MIN_PAIRS, Samples, Scale, TAIL, Verdict, holm};

use crate::stored::statistics::Random;

/// Pairs of runs that `ab` makes at most, if it is not told otherwise.
const PAIRS: usize = 20;
/// Series of runs of a program with itself.
const SERIES: u32 = 10_000;

/// The values of pairs of runs, one column per gate.
struct Series(Vec<[Vec<f64>; 2]>);

impl Series {
    /// Values that vary by `noise`; those of the candidate are `factor` times as large.
    fn new(random: &mut Random, gates: usize, factor: f64, noise: f64) -> Self {
        let mut side = |factor: f64| (0..PAIRS).map(|_| random.log_normal(noise) * factor).collect();
        Self((0..gates).map(|_| [side(1.0), side(factor)]).collect())
    }

    /// The first pairs of runs, as gates judge them: in pairs, or where those are too few for so many gates, without them.
    fn samples(&self, pairs: usize, tail: f64) -> impl Iterator<Item = Samples> {
        let least_p = 0.5_f64.powi(i32::try_from(pairs).unwrap());
        let is_paired = pairs >= MIN_PAIRS && least_p * self.0.len() as f64 <= tail;
        let design = if is_paired { Design::Paired } else { Design::Independent };
        let first = move |side: &Vec<f64>| side[..pairs].to_vec();
        self.0.iter().map(move |sides| Samples { design, sides: sides.each_ref().map(first), quantum: 0.0 })
    }

    /// Which of the gates fail after so many pairs.
    fn fail(&self, pairs: usize, tail: f64, limit: f64) -> Vec<bool> {
        let bound = Bound { scale: Scale::Ratio, beyond: Beyond::Above, limit };
        let p: Vec<f64> = self.samples(pairs, tail).map(|samples| samples.probability(bound).unwrap()).collect();
        holm(&p, tail).iter().zip(&p).map(|(corrected, p)| p * corrected.factor <= TAIL).collect()
    }
}

/// The numbers of pairs at which runs are judged, with their levels.
fn looks(gates: usize) -> Vec<(usize, f64)> {
    let looks = Looks::early(PAIRS, gates);
    let places = (1..=PAIRS).filter(|pairs| looks.is_early(*pairs) || *pairs == PAIRS);
    places.map(|pairs| (pairs, looks.tail(pairs))).collect()
}

/// In how many of 10,000 series of equal programs any gate fails at any of the looks: if whoever looks ends the runs just then.
fn false_alarms(gates: usize, looks: &[(usize, f64)]) -> u32 {
    let mut random = Random(5);
    let mut alarms = 0_u32;
    for _ in 0..SERIES {
        let series = Series::new(&mut random, gates, 1.0, 0.07);
        let is_alarm = |(pairs, tail): &(usize, f64)| series.fail(*pairs, *tail, 1.0).contains(&true);
        alarms += u32::from(looks.iter().any(is_alarm));
    }
    alarms
}

/// What becomes of series of runs with a gate `>5%`.
struct Found {
    /// The share of the series in which the gate failed, in percent.
    failed: f64,
    /// Pairs of runs until the end, on average.
    pairs: f64,
}

/// Ends each series as `ab` does: when the gate is decided, and how long the commands take, which is the value of the gate here.
fn found(looks: &[(usize, f64)], factor: f64, noise: f64) -> Found {
    const SERIES: u32 = 500;
    let mut random = Random(6);
    let (mut failed, mut made) = (0_u32, 0);
    for _ in 0..SERIES {
        let series = Series::new(&mut random, 1, factor, noise);
        let is_end = |(pairs, tail): &&(usize, f64)| {
            let estimate = series.samples(*pairs, *tail).next().unwrap().estimate(Scale::Ratio, *tail);
            *pairs == PAIRS || Verdict::new(estimate.unwrap(), 0.05) != Verdict::Unclear
        };
        let (pairs, tail) = looks.iter().find(is_end).unwrap();
        failed += u32::from(series.fail(*pairs, *tail, 1.05)[0]);
        made += pairs;
    }
    let of_all = |sum: f64| sum / f64::from(SERIES);
    Found { failed: of_all(f64::from(failed)) * 100.0, pairs: of_all(made as f64) }
}

/// The tables of docs/noise.md.
fn tables() -> String {
    let mut text =
        "| of 10,000 series of equal programs, gates `>0%` | 1 gate | 5 gates |\n|---|---:|---:|\n".to_owned();
    let each_alone = |gates| looks(gates).into_iter().map(|(pairs, _)| (pairs, TAIL)).collect();
    let alarms = |looks: &dyn Fn(usize) -> Vec<(usize, f64)>| [1, 5].map(|gates| false_alarms(gates, &looks(gates)));
    let (corrected, alone) = rayon::join(|| alarms(&looks), || alarms(&each_alone));
    let are_few = |alarms: &u32| f64::from(*alarms) <= TAIL * f64::from(SERIES);
    assert!(corrected.iter().all(are_few) && !alone.iter().any(are_few), "{corrected:?} {alone:?}");
    text += &format!("| corrected: a gate fails at any look | {} | {} |\n", corrected[0], corrected[1]);
    text += &format!("| each look as if it were the only one | {} | {} |\n", alone[0], alone[1]);
    text += "\n| runs vary by | | no change | +5% | +10% | +20% | +50% |\n|---:|---|---:|---:|---:|---:|---:|\n";
    for noise in [0.03, 0.07] {
        for (what, looks) in [("up to 20 runs", looks(1)), ("20 runs", vec![(PAIRS, TAIL)])] {
            let cell = |factor| {
                let Found { failed, pairs } = found(&looks, factor, noise);
                format!("{failed:.0} ({pairs:.1})")
            };
            let cells = [1.0, 1.05, 1.1, 1.2, 1.5].map(cell).join(" | ");
            text += &format!("| {:.0}% | {what} | {cells} |\n", noise * 100.0);
        }
    }
    text
}

#[test]
fn looks_at_runs_that_go_on_fail_no_more_gates_by_chance_as_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/noise.md");
    let page = std::fs::read_to_string(path).unwrap();
    let start = page.find("| of 10,000 series").unwrap();
    let second = start + page[start..].find("\n\n").unwrap() + 2;
    let end = second + page[second..].find("\n\n").unwrap() + 1;
    let expected = [&page[..start], &tables(), &page[end..]].concat();
    if std::env::var_os("UPDATE_NOISE").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    assert!(page == expected, "run: UPDATE_NOISE=1 cargo test --test suite documented");
}
