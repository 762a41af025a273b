//! A recorder that runs for long: `soak bpf|procfs SECONDS` makes the steps of a series as fast as they go, beside a load that
//! starts and ends processes, threads, programs, scripts, names and containers, and prints what the recorder keeps: in the first, a
//! middle and the last tenth of the time, after one more tenth at the beginning. It has as many passes over all threads as an hour.
//!
//! `soak load` is the load: it makes a round for each byte of its standard input, and answers with one.

mod load;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::time::{Duration, Instant};

use ctprof::capture::{DEFAULT_RING_BYTES, Engine, Options};
use ctprof::process::{Privileges, Signals};
use ctprof::record::{OpenSeries, Recorder, Until};
use nix::time::{ClockId, clock_gettime};
use tikv_jemalloc_ctl::{epoch, stats};

use self::load::{Load, RunningLoad};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Failure = Box<dyn std::error::Error>;

/// Parts of the time. The first one fills caches.
const PARTS: u32 = 11;
/// Passes over all threads in the whole time.
const WHOLE_PASSES: u32 = 60;
/// Steps for each round of the load.
const STEPS_PER_ROUND: u64 = 5;
/// Steps of each part, at least: on a busy host, one can take seconds.
const LEAST_STEPS: u64 = 50;
/// Samples per second of why threads wait.
const WHY_RATE: f64 = 50.0;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = env::args().skip(1).collect();
    match &*words.iter().map(String::as_str).collect::<Vec<_>>() {
        ["load"] => Ok(Load::new()?.serve()?),
        [engine @ ("bpf" | "procfs"), seconds] => soak(engine, Duration::try_from_secs_f64(seconds.parse()?)?),
        _ => Err("usage: soak bpf|procfs SECONDS, or soak load".into()),
    }
}

fn soak(engine: &str, time: Duration) -> Result<(), Failure> {
    let signals = Signals::for_pause()?;
    Privileges::Record.keep()?;
    let mut options = Options::default();
    options.engine = if engine == "bpf" { Engine::Bpf } else { Engine::Procfs };
    let recorder = Recorder::of_series(options.clone(), DEFAULT_RING_BYTES)?;
    let mut recorder = recorder.with_reasons(&options, WHY_RATE);
    Privileges::Record.keep_after_loading()?;
    recorder.read_all_every(time / WHOLE_PASSES);
    let mut load = RunningLoad::start()?;
    let until = Until::Elapsed(Duration::ZERO);
    let mut series = recorder.open_series(Duration::from_millis(1), &until, None)?;
    let mut parts = Vec::new();
    let mut steps = 0;
    for _ in 0..PARTS {
        parts.push(Part::measure(&mut series, &mut load, &signals, (time / PARTS, &mut steps))?);
    }
    series.step(Some(until.wait(&signals)?), &signals)?;
    drop(series);
    load.end()?;
    let shown = [1, PARTS / 2, PARTS - 1].map(|number| &parts[number as usize]);
    print!("{}", table(shown));
    Ok(())
}

/// What was measured in a part of the time, by its name: the least of all steps, but the median of times and entries.
struct Part(BTreeMap<String, Measured>);

enum Measured {
    Least(u64),
    Median(Vec<u64>),
    /// Each of these was seen.
    Seen(BTreeSet<String>),
}

impl Part {
    fn measure(
        series: &mut OpenSeries<'_>,
        load: &mut RunningLoad,
        signals: &Signals,
        (time, steps): (Duration, &mut u64),
    ) -> Result<Self, Failure> {
        let mut part = Self(BTreeMap::new());
        let (begin, last) = (Instant::now(), *steps + LEAST_STEPS);
        while begin.elapsed() < time || *steps < last {
            if steps.is_multiple_of(STEPS_PER_ROUND) {
                load.round()?;
            }
            let reference = cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID, reference_work)?;
            let step = cpu_time(ClockId::CLOCK_PROCESS_CPUTIME_ID, || {
                series.step(None, signals).map(drop).map_err(Failure::from)
            })?;
            *steps += 1;
            part.median("CPU time of a step, µs", step / 1000);
            part.median(
                "CPU time of a step, in % of reading 1,000 small files",
                step * 100 / 1000 / (reference / REFERENCE_FILES).max(1),
            );
            part.least("steps", *steps);
            if steps.is_multiple_of(STEPS_PER_ROUND) {
                part.look_at_this_process(series)?;
            }
        }
        // What this program keeps must not grow either.
        for measured in part.0.values_mut() {
            if let Measured::Median(values) = measured {
                values.sort_unstable();
                *measured = Measured::Least(values[values.len() / 2]);
            }
        }
        Ok(part)
    }

    fn look_at_this_process(&mut self, series: &OpenSeries<'_>) -> Result<(), Failure> {
        let count = |directory: &str| fs::read_dir(directory).map(|entries| to_u64(entries.count()));
        self.least("open descriptors", count("/proc/self/fd")?);
        // Workers of the step before still exit.
        for _ in 0..5 {
            self.least("threads", count("/proc/self/task")?);
            std::thread::sleep(Duration::from_millis(5));
        }
        epoch::advance().map_err(|error| error.to_string())?;
        self.least("allocated, KiB", to_u64(stats::allocated::read().map_err(|error| error.to_string())? / 1024));
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
        self.least("resident, KiB", resident.ok_or("no VmRSS")?.trim().parse()?);
        for thread in fs::read_dir("/proc/self/task")? {
            // Workers exit meanwhile.
            let Ok(status) = fs::read_to_string(thread?.path().join("status")) else { continue };
            let sets = status.lines().filter_map(|line| line.strip_prefix("CapPrm:"));
            sets.for_each(|set| self.seen("permitted capabilities", set.trim()));
        }
        for (name, entries) in series.entries() {
            // They fall when a pass over all threads forgets.
            self.median(&format!("entries: {name}"), to_u64(entries));
        }
        Ok(())
    }

    fn least(&mut self, name: &str, value: u64) {
        match self.0.entry(name.to_owned()).or_insert(Measured::Least(value)) {
            Measured::Least(least) => *least = value.min(*least),
            _ => unreachable!("each name has values of one kind"),
        }
    }

    fn median(&mut self, name: &str, value: u64) {
        if let Measured::Median(values) = self.0.entry(name.to_owned()).or_insert(Measured::Median(Vec::new())) {
            values.push(value);
        }
    }

    fn seen(&mut self, name: &str, value: &str) {
        if let Measured::Seen(values) = self.0.entry(name.to_owned()).or_insert(Measured::Seen(BTreeSet::new())) {
            values.insert(value.to_owned());
        }
    }

    fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            None | Some(Measured::Median(_)) => "-".to_owned(),
            Some(Measured::Least(number)) => number.to_string(),
            Some(Measured::Seen(values)) => values.iter().map(String::as_str).collect::<Vec<_>>().join(" "),
        }
    }
}

fn table(parts: [&Part; 3]) -> String {
    let names: BTreeSet<&String> = parts.iter().flat_map(|part| part.0.keys()).collect();
    let row = |name: &&String| {
        let [first, middle, last] = parts.map(|part| part.text(name));
        format!("| {name} | {first} | {middle} | {last} |\n")
    };
    let head = "| | first tenth | middle | last tenth |\n|---|---:|---:|---:|\n";
    std::iter::once(head.to_owned()).chain(names.iter().map(row)).collect()
}

/// The CPU time that work takes, in nanoseconds.
fn cpu_time(clock: ClockId, work: impl FnOnce() -> Result<(), Failure>) -> Result<u64, Failure> {
    let before = Duration::from(clock_gettime(clock)?);
    work()?;
    Ok(u64::try_from((Duration::from(clock_gettime(clock)?) - before).as_nanos())?)
}

/// Files that [`reference_work`] reads.
const REFERENCE_FILES: u64 = 20;

/// What takes as long as this machine takes for work of that kind at the time.
fn reference_work() -> Result<(), Failure> {
    for _ in 0..REFERENCE_FILES {
        fs::read("/proc/self/stat")?;
    }
    Ok(())
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).expect("a size has 64 bits")
}
