//! Runs programs as processes, and reads their cost from the kernel.

use std::env;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// The cost of a run: seconds, seconds, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
    pub(crate) peak: f64,
}

/// A program with its arguments.
pub(crate) type Line = Vec<String>;

/// This program in another of its roles.
pub(crate) fn role(words: &[&str]) -> anyhow::Result<Line> {
    let own = env::current_exe()?.to_str().context("a path that is text")?.to_owned();
    Ok([own].into_iter().chain(words.iter().map(|&word| word.to_owned())).collect())
}

/// The ctprof program.
pub(crate) fn ctprof(words: &[&str]) -> Line {
    [env!("CARGO_BIN_EXE_ctprof")].iter().chain(words).map(|&word| word.to_owned()).collect()
}

/// The medians of `runs` runs of each program. Programs alternate, after a first run that is ignored.
pub(crate) fn medians(runs: usize, programs: &[Line]) -> anyhow::Result<Vec<Cost>> {
    let mut costs = vec![Vec::new(); programs.len()];
    for run in 0..=runs {
        for (program, costs) in programs.iter().zip(&mut costs) {
            let cost = measure(program)?;
            if run > 0 {
                costs.push(cost);
            }
        }
    }
    let median_of = |costs: &[Cost], field: fn(&Cost) -> f64| median(costs.iter().map(field).collect());
    let cost = |costs: Vec<Cost>| Cost {
        cpu: median_of(&costs, |cost| cost.cpu),
        wall: median_of(&costs, |cost| cost.wall),
        peak: median_of(&costs, |cost| cost.peak),
    };
    Ok(costs.into_iter().map(cost).collect())
}

/// The median.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Runs a program as the only child of this program in the role [`report`], because the kernel accounts
/// only sums and peaks of children.
pub(crate) fn measure(program: &Line) -> anyhow::Result<Cost> {
    let measured = role(&["measured"])?;
    let output = Command::new(&measured[0]).args(&measured[1..]).args(program).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{} failed", program.join(" "));
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [cpu, wall, peak] = numbers[..] else { anyhow::bail!("three numbers, not {text:?}") };
    Ok(Cost { cpu, wall, peak })
}

/// Runs a program and prints its cost.
pub(crate) fn report(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let begin = Instant::now();
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    let wall = begin.elapsed().as_secs_f64();
    ensure!(status.success(), "{program} exited with {status}");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    println!("{} {wall} {}", seconds(usage.user_time()) + seconds(usage.system_time()), usage.max_rss() * 1024);
    Ok(())
}
