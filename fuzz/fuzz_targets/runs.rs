//! Runs of two sides that have nothing to do with each other, judged and gated. The first line of the input is a gate;
//! records that the separator ends are the runs, of both sides in turn.
#![no_main]

use std::str;

use ctprof::CtprofSnapshot;
use ctprof::compare::{CompareOptions, Digest, Gate, GroupBy, Runs, Sides, ThreadTotals, report};
use ctprof::model::Threads;
use ctprof::report::write_gate_lines;

mod formats;
mod memory;
mod stored;

/// ASCII's record separator, which cannot be in JSON.
const SEPARATOR: u8 = 0x1e;
/// More would take long, and find nothing else.
const MOST_RUNS: usize = 16;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return };
    let gate: Option<Gate> = str::from_utf8(&input[..end]).ok().and_then(|text| text.parse().ok());
    for group_by in [GroupBy::Pcomm, GroupBy::CommExact] {
        memory::within(stored::LIMIT, || judge(&input[end + 1..], gate.as_ref(), group_by));
    }
});

fn judge(runs: &[u8], gate: Option<&Gate>, group_by: GroupBy) {
    let mut options = CompareOptions::default();
    options.grouping.axis = group_by;
    options.max_bytes = usize::try_from(stored::LIMIT).ok();
    let (mut baseline, mut candidate) = (Runs::default(), Runs::default());
    for (number, run) in runs.split(|&byte| byte == SEPARATOR).take(MOST_RUNS).enumerate() {
        let Some(run) = stored::load(run) else { return };
        let side = if number % 2 == 0 { &mut baseline } else { &mut candidate };
        side.add(digest(run, &options));
    }
    let (Ok(baseline), Ok(candidate)) = (baseline.checked(), candidate.checked()) else { return };
    let gates: Vec<_> = gate.into_iter().filter(|gate| gate.check(group_by).is_ok()).cloned().collect();
    let comparison = report(Sides::two(baseline, candidate), &options, &gates);
    // A gate of all groups has an outcome for each.
    assert!(comparison.gates.len() >= gates.len());
    write_gate_lines(&mut std::io::sink(), &comparison.gates).expect("lines");
    formats::write_all(&comparison);
}

fn digest(run: CtprofSnapshot, options: &CompareOptions) -> Digest {
    let mut totals = ThreadTotals::new(options, &[]);
    run.threads.into_iter().for_each(|thread| totals.add(thread));
    Digest::new(run.head, totals)
}
