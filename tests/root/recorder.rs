//! When a recorder samples, and what its steps read.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ctprof::capture::{DEFAULT_RING_BYTES, Engine, Options, Smaps};
use ctprof::model::CtprofSnapshot;
use ctprof::process::Signals;
use ctprof::record::{Preparation, Recorder, Until};

use crate::alone;
use crate::host::Killed;
use crate::root::engine_captures::has_bpf;

/// Only what must be sampled is, however busy the host.
const ONCE_IN_A_THOUSAND_SECONDS: f64 = 0.001;
const TIME: Duration = Duration::from_millis(200);

fn passes(window: &CtprofSnapshot) -> u64 {
    window.head.reasons.as_ref().expect("reasons").sampling.passes
}

/// Windows that follow each other.
fn windows<const N: usize>(rate: f64, time: Duration) -> [CtprofSnapshot; N] {
    let (options, signals) = (Options::default(), Signals::for_pause().unwrap());
    let recorder = Recorder::new(options.clone(), N, DEFAULT_RING_BYTES).unwrap();
    let mut recorder = recorder.with_reasons(&options, rate);
    [(); N].map(|()| {
        let window = recorder.open().unwrap();
        let end = window.wait(&Until::Elapsed(time), &signals).unwrap();
        window.close(end).unwrap()
    })
}

#[test]
fn a_window_is_sampled_when_it_begins_and_when_it_ends() {
    let _alone = alone();
    if has_bpf() {
        assert_eq!(windows(ONCE_IN_A_THOUSAND_SECONDS, TIME).map(|window| passes(&window)), [2, 2]);
    }
}

#[test]
fn passes_are_no_more_frequent_than_asked_for() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let [window] = windows(20.0, Duration::from_secs(1));
    // Two are made when it begins and ends, and one may be early.
    let most = window.head.window.as_ref().unwrap().duration_ns / 50_000_000 + 3;
    assert!(passes(&window) <= most, "{} passes, at most {most} were asked for", passes(&window));
    assert!(window.head.reasons.unwrap().sampling.cost_ns > 0, "their CPU time is known");
}

/// Policy and nice value of the thread of this process that samples, while it does.
fn scheduling_of_the_sampler() -> Option<(u32, i32)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let stat = stats.into_iter().find(|stat| stat.contains("(ctprof-samples)"))?;
    let fields: Vec<_> = stat.rsplit(") ").next()?.split(' ').collect();
    // Fields 41 and 19 of proc_pid_stat(5); the third one is the first after the name.
    Some((fields[41 - 3].parse().ok()?, fields[19 - 3].parse().ok()?))
}

#[test]
fn the_sampler_runs_before_threads_with_a_usual_priority() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let (options, signals) = (Options::default(), Signals::for_pause().unwrap());
    let recorder = Recorder::new(options.clone(), 1, DEFAULT_RING_BYTES).unwrap();
    let mut recorder = recorder.with_reasons(&options, 100.0);
    let has_ended = AtomicBool::new(false);
    let (window, seen) = thread::scope(|scope| {
        let observer = scope.spawn(|| {
            let mut seen = Vec::new();
            while !has_ended.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
                seen.extend(scheduling_of_the_sampler());
            }
            seen
        });
        let window = recorder.open().unwrap();
        let end = window.wait(&Until::Elapsed(Duration::from_millis(500)), &signals).unwrap();
        // When the window is concluded, the sampler makes no more passes.
        has_ended.store(true, Ordering::Relaxed);
        let seen = observer.join().unwrap();
        (window.close(end).unwrap(), seen)
    });
    // 0 is `SCHED_OTHER`.
    let is_raised = |(policy, nice): &&(u32, i32)| *policy != 0 || *nice < 0;
    let raised = seen.iter().filter(is_raised).count();
    assert!(passes(&window) > 2 && seen.len() > 10 && raised * 2 > seen.len(), "{raised} of {}: {seen:?}", seen.len());
}

#[test]
fn a_step_is_sampled_at_its_end_and_reads_what_changed_but_the_last_one_all_memory() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let sleeper = Killed(Command::new("sleep").arg("1000").spawn().unwrap());
    let (mut options, signals) = (Options::default(), Signals::for_pause().unwrap());
    // A busy host leaves no time for it otherwise, which is counted.
    options.smaps = Smaps::Always;
    let as_it_is = || -> Preparation { Box::new(|_| ()) };
    for (engine, prepare) in [
        (Engine::Bpf, None),
        (Engine::Procfs, None),
        (Engine::Bpf, Some(as_it_is())),
        (Engine::Procfs, Some(as_it_is())),
    ] {
        options.engine = engine;
        let recorder = Recorder::of_series(options.clone(), DEFAULT_RING_BYTES).unwrap();
        let mut recorder = recorder.with_reasons(&options, ONCE_IN_A_THOUSAND_SECONDS);
        let until = Until::Elapsed(Duration::ZERO);
        let mut series = recorder.open_series(TIME, &until, prepare).unwrap();
        for number in 0..5 {
            thread::sleep(TIME);
            let end = (number == 4).then(|| until.wait(&signals).unwrap());
            let window = series.step(end, &signals).unwrap().window;
            // The last pass of a step is the first one of the next, if exits are known.
            let begins = u64::from(number == 0 || engine == Engine::Procfs);
            assert_eq!(passes(&window), begins + 1, "{engine:?}, step {number}");
            let memory = window.threads.iter().find(|thread| thread.tgid == sleeper.0.id());
            let memory = memory.map(|thread| thread.smaps_rollup_kib.is_some());
            assert_eq!(memory, (number == 4).then_some(true), "{engine:?}, step {number}");
            let requested = window.head.window.unwrap().requested_ns;
            assert_eq!(requested, (number < 4).then_some(200_000_000), "the last step ends when the series does");
        }
    }
}
