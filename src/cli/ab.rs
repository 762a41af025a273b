//! `ctprof ab`: two commands that run in turn.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::capture::{check_roots, options, redact_key};
use super::compare::Prepared;
use super::{
    AbArgs, BASELINE, CANDIDATE, Comparing, Messages, RunDirectory, RunProgress, RunTally, RunWriter, TimeLimit,
    complain, interruption, say, usage_error,
};
use crate::capture::{Options, Smaps};
use crate::compare::{EndOfRuns, EndedEarly, Sides, Threshold, tests_of};
use crate::diagnose::{counted, rounded};
use crate::model::cpu_ranges;
use crate::process::{Invocation, Privileges, Signals, Streams, allowed_cpus, killed, run_on, worker_per_cpu};
use crate::record::Until;
use crate::report::ended_early_text;
use crate::statistics::{Looks, MIN_RUNS, fewest_runs, least_found};
use crate::store::Lifetime;

pub(super) fn run(args: &AbArgs, messages: Messages) -> anyhow::Result<ExitCode> {
    check_roots(&args.sources)?;
    let allowed = allowed_cpus().context("cannot read the CPUs of this process")?;
    check_cpus(args.cpus(), &allowed)?;
    let mut comparison = Prepared::new(&args.comparing, labels(args.output.as_deref()))?;
    check_runs(args)?;
    if messages == Messages::All {
        say(format_args!("{}", what_is_found(args)));
    }
    for gate in args.comparing.fail_on.iter().filter(|gate| gate.allows_no_change()) {
        tracing::warn!(
            "the gate {} stays unclear with any number of runs if nothing has changed: give it a bound, such as 2%",
            gate.text
        );
    }
    // Removed at the end.
    let temporary;
    let parent = match args.output.as_deref() {
        Some(path) => path,
        None => {
            let directory = tempfile::Builder::new().prefix("ctprof-ab-").tempdir();
            temporary = directory.context("cannot create a temporary directory: name one with -o")?;
            temporary.path()
        }
    };
    let mut sides = sides(args, parent)?;
    // Blocked until the end: a temporary directory is removed whatever happens.
    let signals = Signals::for_command().context("cannot block signals")?.adopting_orphans();
    leave(args.cpus(), &allowed);
    let recorded = record(args, &signals, (&mut sides, &mut comparison), messages);
    let by = recorded.as_ref().map_or(None, Option::as_ref).copied();
    let ended_early = by.map(|by| EndedEarly { planned: args.most_runs(), by });
    let interrupted = interruption(recorded.map(drop))?.map(killed);
    let pairs = sides.each_ref().map(|side| side.tally.recorded).into_iter().min().unwrap_or_default();
    comparison.judge_at(args.looks().tail(usize::try_from(pairs)?), ended_early);
    if let Some(ended) = ended_early.filter(|_| messages == Messages::All) {
        say(format_args!("ctprof: ended {}", ended_early_text(ended, pairs)));
    }
    if interrupted.is_some() {
        say(format_args!("ctprof: interrupted after {}", sides.each_ref().map(AbSide::counted).join(" and ")));
    }
    if let Some(status) = interrupted.filter(|_| sides.iter().any(|side| side.tally.successes() == 0)) {
        return Ok(ExitCode::from(status));
    }
    // Reports may use all CPUs, and need no privileges. If the first fails, they take longer.
    let _ = run_on(&allowed);
    Privileges::Files.keep()?;
    let [baseline, candidate] = sides.each_ref().map(|side| side.directory.path.as_path());
    let compared = worker_per_cpu().install(|| comparison.compare(baseline, candidate, messages));
    let Some(status) = interrupted else { return compared };
    // So few runs need not be comparable.
    if let Err(error) = compared {
        complain(&error);
    }
    Ok(ExitCode::from(status))
}

/// Refuses gates that so few runs can never decide, before they are made. Fewer than four are compared by their medians.
fn check_runs(args: &AbArgs) -> anyhow::Result<()> {
    let tests = tests_of(&args.comparing.fail_on);
    let runs = usize::try_from(args.most_runs())?;
    let needed = fewest_runs(tests, args.looks().tail(runs));
    if tests > 0 && (MIN_RUNS..needed).contains(&runs) {
        return Err(usage_error(format!(
            "{runs} runs cannot decide gates on {tests} values: use at least --runs {needed}"
        )));
    }
    Ok(())
}

/// The variation of runs for which it is said what they find.
const VARIATION: f64 = 0.05;

/// Returns the line on which rise this number of runs finds.
fn what_is_found(args: &AbArgs) -> String {
    let Comparing { threshold: Threshold(threshold), fail_on, .. } = &args.comparing;
    let most = usize::try_from(args.most_runs()).unwrap_or(usize::MAX);
    let (looks, runs) = (args.looks(), counted(most, "run"));
    if most < MIN_RUNS {
        return format!(
            "ctprof: {runs} of each command: no intervals and no verdicts (use at least --runs {MIN_RUNS})"
        );
    }
    let least = least_found(most, tests_of(fail_on), looks.tail(most), *threshold, VARIATION);
    let (least, threshold, variation) = (least * 100.0, rounded(threshold * 100.0), VARIATION * 100.0);
    let up_to = if looks == Looks::once() { "" } else { "up to " };
    format!(
        "ctprof: {up_to}{runs} of each command. If runs vary by {variation}%, 4 of 5 comparisons find that a rise of {least:.0}% is above {threshold}%"
    )
}

/// The directories of both sides. Those of a temporary directory do not exist when the report is read.
fn labels(output: Option<&Path>) -> Sides<String> {
    let label = |side| output.map_or_else(String::new, |parent| parent.join(side).display().to_string());
    Sides::two(label(BASELINE), label(CANDIDATE))
}

/// Runs both commands in turn. Returns the event that ended the runs, if they ended early. A signal is the error of
/// [`interruption`].
fn record(
    args: &AbArgs,
    signals: &Signals,
    (sides, comparison): (&mut [AbSide; 2], &mut Prepared<'_>),
    messages: Messages,
) -> anyhow::Result<Option<EndOfRuns>> {
    let (runs, no_warmup, looks) = (args.most_runs(), args.no_warmup, args.looks());
    let mut writer = RunWriter {
        recorder: args.recorder.recorder(
            &run_options(args),
            Some(runs.saturating_mul(2)),
            Privileges::RecordCommand,
        )?,
        signals,
        redact_key: redact_key(&args.sources)?,
        max_snapshot_bytes: args.comparing.view.limits.max_snapshot_bytes,
    };
    let mut time = TimeLimit::new(args.max_time);
    let warm_ups = if no_warmup { &[] } else { &sides[..] };
    let steps = runs.saturating_mul(2).saturating_add(if no_warmup { 0 } else { 2 });
    let mut progress = RunProgress::new(steps, args.streams(), messages);
    for side in warm_ups {
        progress.start(&format!("warm-up of the {}", side.name));
        prepare(args, &writer)?;
        writer.unrecorded(&side.until)?;
    }
    for (number, order) in turns(runs) {
        if !time.allows_another() {
            return Ok(Some(EndOfRuns::Time));
        }
        for side in order {
            let side = &mut sides[side];
            progress.start(&format!("run {number} of {runs} of the {}", side.name));
            prepare(args, &writer)?;
            side.tally.add(number, writer.record(&side.until, side.directory.target(number)?)?);
            check(args, side)?;
        }
        let pairs = usize::try_from(number)?;
        if looks.is_early(pairs) {
            comparison.judge_at(looks.tail(pairs), None);
            if are_decided(sides, comparison) {
                return Ok(Some(EndOfRuns::Decided));
            }
        }
    }
    Ok(None)
}

/// Whether the runs so far decide all gates, and which command takes longer. Runs that cannot be compared yet, since one of a few
/// failed, decide nothing.
fn are_decided(sides: &[AbSide; 2], comparison: &Prepared<'_>) -> bool {
    let [baseline, candidate] = sides.each_ref().map(|side| side.directory.path.as_path());
    let decided = worker_per_cpu().install(|| comparison.is_decided(baseline, candidate));
    decided.inspect_err(|error| tracing::debug!("the runs go on: {error:#}")).unwrap_or(false)
}

/// Returns the options of captures. Memory of the host's processes takes longer to read than all other values, and the memory of
/// the commands has ended with them.
fn run_options(args: &AbArgs) -> Options {
    let options = options(&args.sources);
    let smaps = if let Smaps::Auto { .. } = options.smaps { Smaps::Never } else { options.smaps };
    Options { smaps, ..options }
}

fn prepare(args: &AbArgs, writer: &RunWriter<'_>) -> anyhow::Result<()> {
    let Some(script) = &args.prepare else { return Ok(()) };
    match writer.unrecorded(&shell(args, script))? {
        Some(end) if !end.is_success() => bail!("`{script}` (--prepare) failed: {end}{}", how_to_see(args)),
        _ => Ok(()),
    }
}

/// Ends the runs when more than a tenth of a side have failed.
fn check(args: &AbArgs, AbSide { name, script, tally, .. }: &AbSide) -> anyhow::Result<()> {
    let (failed, runs) = (tally.failures(), tally.recorded);
    match tally.first_failure() {
        Some(end) if failed > args.most_runs() / 10 => {
            bail!("{failed} of {runs} runs of the {name} failed: `{script}`: {end}{}", how_to_see(args))
        }
        _ => Ok(()),
    }
}

fn how_to_see(args: &AbArgs) -> &'static str {
    match args.streams() {
        Streams::Discarded => "; show its output with --show-output",
        Streams::Inherited | Streams::ToStderr => "",
    }
}

fn check_cpus(cpus: &[u32], allowed: &[u32]) -> anyhow::Result<()> {
    let denied: Vec<u32> = cpus.iter().copied().filter(|cpu| !allowed.contains(cpu)).collect();
    if denied.is_empty() {
        return Ok(());
    }
    let (denied, allowed) = (cpu_ranges(&denied), cpu_ranges(allowed));
    Err(usage_error(format!("CPU {denied} is not available for --cpus: ctprof may run on {allowed}")))
}

/// Keeps ctprof off the CPUs of the commands, if there are others.
fn leave(cpus: &[u32], allowed: &[u32]) {
    let others: Vec<u32> = allowed.iter().copied().filter(|cpu| !cpus.contains(cpu)).collect();
    if others.is_empty() || others == allowed {
        return;
    }
    if let Err(error) = run_on(&others) {
        tracing::warn!("cannot keep ctprof off CPU {}: {error}", cpu_ranges(cpus));
    }
}

/// A command with its runs.
struct AbSide {
    name: &'static str,
    script: String,
    until: Until,
    directory: RunDirectory,
    tally: RunTally,
}

fn sides(args: &AbArgs, parent: &Path) -> anyhow::Result<[AbSide; 2]> {
    let lifetime = if args.output.is_some() { Lifetime::Lasting } else { Lifetime::Process };
    let side = |name, script: &str| {
        let directory = RunDirectory::create(&parent.join(name), args.most_runs(), lifetime)?;
        let until = if args.no_shell { without_shell(args, script)? } else { shell(args, script) };
        anyhow::Ok(AbSide { name, script: script.to_owned(), until, directory, tally: RunTally::default() })
    };
    Ok([side(BASELINE, &args.baseline)?, side(CANDIDATE, &args.candidate)?])
}

fn shell(args: &AbArgs, script: &str) -> Until {
    Until::Exited(Invocation { cpus: args.cpus().to_vec(), ..Invocation::shell(script, args.streams()) })
}

fn without_shell(args: &AbArgs, script: &str) -> anyhow::Result<Until> {
    let invocation = Invocation::words(script, args.streams());
    let wrong = || usage_error(format!("`{script}` is no command of words: a quote is not closed, or it is empty"));
    Ok(Until::Exited(Invocation { cpus: args.cpus().to_vec(), ..invocation.ok_or_else(wrong)? }))
}

impl AbSide {
    /// Returns the number of runs without failed ones, as text: `3 runs of the baseline`.
    fn counted(&self) -> String {
        format!("{} of the {}", counted(self.tally.successes(), "run"), self.name)
    }
}

/// The number, from 1, and the order of the sides of each pair of runs. A B B A A B B A …: a host that becomes slower or faster
/// meanwhile does so for both sides.
fn turns(runs: u32) -> impl Iterator<Item = (u32, [usize; 2])> {
    (1..=runs).map(|number| (number, if number % 2 == 1 { [0, 1] } else { [1, 0] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_of_the_host_is_the_same_for_both_sides() {
        let order: Vec<_> = turns(4).flat_map(|(_, order)| order).collect();
        assert_eq!(order, [0, 1, 1, 0, 0, 1, 1, 0]);
        let time =
            |side| order.iter().enumerate().filter(|(_, which)| **which == side).map(|(at, _)| at).sum::<usize>();
        assert_eq!(time(0), time(1));
    }
}
