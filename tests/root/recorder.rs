//! When a recorder samples, and what its steps read.

use std::process::Command;
use std::thread;
use std::time::Duration;

use ctprof::capture::{DEFAULT_RING_BYTES, Options};
use ctprof::model::CtprofSnapshot;
use ctprof::process::Signals;
use ctprof::record::{Recorder, Until};

use crate::alone;
use crate::engine_captures::has_bpf;
use crate::host::Killed;

/// Only what must be sampled is, however busy the host.
const ONCE_IN_A_THOUSAND_SECONDS: f64 = 0.001;
const TIME: Duration = Duration::from_millis(200);

fn passes(window: &CtprofSnapshot) -> u64 {
    window.head.reasons.as_ref().expect("reasons").sampling.passes
}

#[test]
fn a_window_is_sampled_when_it_begins_and_when_it_ends() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let (options, signals) = (Options::default(), Signals::for_pause().unwrap());
    let recorder = Recorder::new(options.clone(), 2, DEFAULT_RING_BYTES).unwrap();
    let mut recorder = recorder.with_reasons(&options, ONCE_IN_A_THOUSAND_SECONDS);
    for _ in 0..2 {
        let window = recorder.open().unwrap();
        let end = window.wait(&Until::Elapsed(TIME), &signals).unwrap();
        assert_eq!(passes(&window.close(end).unwrap()), 2);
    }
}

#[test]
fn a_step_is_sampled_at_its_end_and_reads_what_changed_but_the_last_one_all_memory() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let sleeper = Killed(Command::new("sleep").arg("1000").spawn().unwrap());
    let (options, signals) = (Options::default(), Signals::for_pause().unwrap());
    let recorder = Recorder::of_series(options.clone(), DEFAULT_RING_BYTES).unwrap();
    let mut recorder = recorder.with_reasons(&options, ONCE_IN_A_THOUSAND_SECONDS);
    let until = Until::Elapsed(Duration::ZERO);
    let mut series = recorder.open_series(TIME, &until, None).unwrap();
    for number in 0..5 {
        thread::sleep(TIME);
        let end = (number == 4).then(|| until.wait(&signals).unwrap());
        let window = series.step(end).unwrap().window;
        assert_eq!(passes(&window), if number == 0 { 2 } else { 1 }, "step {number}");
        let memory = window.threads.iter().find(|thread| thread.tgid == sleeper.0.id());
        let memory = memory.map(|thread| thread.smaps_rollup_kib.is_some());
        assert_eq!(memory, (number == 4).then_some(true), "step {number}");
    }
}
