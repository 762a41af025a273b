//! The lines about a window before the sections.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{FactLine, spaced, three_digits};
use crate::compare::{CommandTotals, Elapsed, RunCount, SideSummary, WindowSide};
use crate::diagnose::counted;
use crate::model::{Accounting, BusySource, RecordedCommand, Unit, WindowInfo, local_zone};

/// A window whose threads explain less than this share of the host's CPU time says what the rest may be.
const MOST_EXPLAINED: f64 = 0.95;

/// Several shorter windows begin in the same second.
pub(super) const SHORT_WINDOW_NS: u64 = 900_000_000;

/// The lines about a window: what it covers, the command, and what is not known.
pub(super) fn lines(label: &'static str, side: &SideSummary, window: &WindowSide) -> Vec<FactLine> {
    let mut lines = vec![FactLine::fact(label, covered(side, window))];
    lines.extend(window.info.command.iter().map(|command| FactLine::fact("command", ran(command, window))));
    lines.extend(window.info.cpu.as_ref().and_then(unexplained).map(|text| FactLine::fact("", text)));
    lines.extend(notes(&window.info).into_iter().map(|text| FactLine::warning("note", text)));
    lines
}

/// The lines about several runs: how many there are, how long they took, and the command.
pub(super) fn lines_of_runs(
    label: &'static str,
    side: &SideSummary,
    runs: &RunCount,
    window: Option<&WindowSide>,
) -> Vec<FactLine> {
    let gap = if side.file.is_empty() { "" } else { "  " };
    let mut text = format!("{}{gap}{}", side.file, counted(runs.runs, "run"));
    if let Some(host) = &side.hostname {
        let _ = write!(text, " on {host}");
    }
    if let Some(Elapsed { least, median, most, .. }) = runs.elapsed_ns {
        let [least, median, most] = [least, median, most].map(|ns| spaced(ns.into(), Unit::Ns));
        let _ = write!(text, ", median {median} ({least} to {most})");
    }
    if runs.excluded > 0 {
        let _ = write!(text, "; {} excluded because the command failed", counted(runs.excluded, "run"));
    }
    if runs.unpaired > 0 {
        let _ = write!(text, "; {} left out without a run of the other side next to it", counted(runs.unpaired, "run"));
    }
    let command = window.and_then(|window| window.info.command.as_ref());
    let command = command.filter(|command| !command.arguments.is_empty());
    let lost = (runs.lost_exit_records > 0).then(|| {
        format!("exit records were lost in {}: some exited threads are missing", counted(runs.lost_exit_records, "run"))
    });
    let lines = [FactLine::fact(label, text)]
        .into_iter()
        .chain(command.map(|command| FactLine::fact("command", command.arguments.join(" "))));
    lines.chain(lost.map(|text| FactLine::warning("note", text))).collect()
}

/// Twenty ticks: the precision is a few percent of that.
const LEAST_BUSY_NS_PER_CPU: u64 = 200_000_000;

/// Samples that are rarer are said to be: what takes a moment falls between them.
const USUAL_PASSES: f64 = 25.0;
/// Interrupts that take more of a CPU than this are said to.
const MUCH_OF_CPU: f64 = 0.05;

/// `5.06 s from 12:03:05 UTC on vm, 2 CPUs, 105 threads in 80 processes (31 started, 28 exited); 9.84 of 10.1 CPU-seconds
/// accounted for (97%)`.
fn covered(side: &SideSummary, window: &WindowSide) -> String {
    let WindowSide { info, started, exited, since_baseline, passes_per_second, .. } = window;
    let mut text = spaced(info.duration_ns.into(), Unit::Ns);
    if let Some(requested_ns) = info.requested_ns.filter(|requested| is_late(info.duration_ns, *requested)) {
        let _ = write!(text, " instead of {}", spaced(requested_ns.into(), Unit::Ns));
    }
    if *since_baseline {
        text += " since the baseline";
    }
    if let Some(time) = local_second(info).filter(|_| !since_baseline) {
        let _ = write!(text, " from {time}");
    }
    if let Some(host) = side.hostname.as_ref().filter(|_| !since_baseline) {
        let _ = write!(text, " on {host}");
    }
    if let Some(cpu) = &info.cpu {
        let _ = write!(text, ", {}", counted(cpu.cpus, "CPU"));
    }
    let (threads, processes) = (counted(side.threads, "thread"), counted(side.processes, "process"));
    let _ = write!(text, ", {threads} in {processes} ({started} started, {exited} exited)");
    if let Some(cpu) = &info.cpu {
        let _ = write!(text, "; {}", explained(cpu));
        let interrupts = cpu.interrupt_ns.map(|ns| ns as f64 / info.duration_ns.max(1) as f64);
        if let Some(interrupts) = interrupts.filter(|interrupts| *interrupts > MUCH_OF_CPU) {
            let _ = write!(text, "; interrupts took {:.0}% of a CPU", interrupts * 100.0);
        }
    }
    if let Some(rate) = passes_per_second.filter(|rate| *rate < USUAL_PASSES) {
        let _ = write!(text, "; sampled {rate:.1} times a second");
    }
    text
}

/// A time in the time zone of this host, which it names, as journalctl and the parts of series have it; `None` if it is unknown.
pub(super) fn local_clock(unix_ns: u64, form: &str) -> Option<String> {
    let time = Timestamp::from_nanosecond(unix_ns.into()).ok().filter(|_| unix_ns > 0)?;
    Some(time.to_zoned(local_zone()).strftime(&format!("{form} %Z")).to_string())
}

/// The second of a start. Of windows that take about a second or more, it is the nearest one: a part of a series that begins then
/// begins with the step that shows it.
pub(super) fn local_second(info: &WindowInfo) -> Option<String> {
    let is_short = info.started_at_unix_ns == 0 || info.duration_ns < SHORT_WINDOW_NS;
    local_clock(info.started_at_unix_ns.saturating_add(if is_short { 0 } else { 499_999_999 }), "%H:%M:%S")
}

/// Whether a window lasted much longer than was asked for.
fn is_late(duration_ns: u64, requested_ns: u64) -> bool {
    const LEAST_NS: u64 = 200_000_000;
    duration_ns > requested_ns.saturating_add(requested_ns / 10).saturating_add(LEAST_NS)
}

/// `2 CPUs busy 98%; 1.96 of 1.97 CPU-seconds accounted for`.
pub(super) fn busy(cpu: &Accounting, duration_ns: u64) -> String {
    let percent = cpu.busy_ns as f64 / cpu.cpus.saturating_mul(duration_ns).max(1) as f64 * 100.0;
    let busy = if cpu.partial { String::new() } else { format!(" busy {percent:.0}%") };
    format!("{}{busy}; {}", counted(cpu.cpus, "CPU"), explained(cpu))
}

/// How much of the host's CPU time is explained: between two bounds if the hypervisor took much.
fn explained(cpu: &Accounting) -> String {
    let Accounting { busy_ns, explained_ns, .. } = *cpu;
    if cpu.partial {
        return cpu_time(explained_ns);
    }
    let percent = |busy_ns: u64| format!("{:.0}", explained_ns as f64 / busy_ns as f64 * 100.0);
    let of = |busy: String| format!("{} of {busy} accounted for", seconds(explained_ns));
    let text = match cpu.busy_most_ns {
        _ if !is_precise(cpu) => of(cpu_time(busy_ns)),
        Some(most_ns) if percent(most_ns) != percent(busy_ns) => {
            let busy = format!("{} to {}", seconds(busy_ns), cpu_time(most_ns));
            format!("{} ({} to {}%)", of(busy), percent(most_ns), percent(busy_ns))
        }
        _ => format!("{} ({}%)", of(cpu_time(busy_ns)), percent(busy_ns)),
    };
    match cpu.steal_ns.filter(|steal_ns| *steal_ns >= LEAST_STEAL_NS.max(busy_ns / 50)) {
        Some(steal_ns) => format!("{text}, and {} stolen by the hypervisor, counted as sleep", seconds(steal_ns)),
        None => text,
    }
}

/// Less time of the hypervisor is not told.
const LEAST_STEAL_NS: u64 = 50_000_000;

/// Whether the host's CPU time says how much is explained. Idle time has ticks, of each CPU, at both ends.
fn is_precise(cpu: &Accounting) -> bool {
    cpu.busy_ns > 0
        && !cpu.partial
        && (cpu.source == BusySource::Schedstat || cpu.busy_ns >= cpu.cpus.saturating_mul(LEAST_BUSY_NS_PER_CPU))
}

/// How long threads were read, if the host had so much CPU time meanwhile.
fn read_for(cpu: &Accounting, cpu_ns: u64) -> Option<String> {
    let reading_ns = cpu.reading_ns.filter(|reading_ns| cpu.cpus.saturating_mul(*reading_ns) >= cpu_ns)?;
    Some(format!("{} s", seconds(reading_ns)))
}

/// Largest plausible share of the host's CPU time that threads explain: threads are read at different moments.
const MOST_POSSIBLE: f64 = 1.01;

fn ran(command: &RecordedCommand, window: &WindowSide) -> String {
    let RecordedCommand { arguments, elapsed_ns, status, signal } = command;
    let mut text = if arguments.is_empty() { "(redacted)".to_owned() } else { arguments.join(" ") };
    let _ = match (status, signal) {
        (Some(status), _) => write!(text, ": exit status {status}"),
        (None, Some(signal)) => write!(text, ": killed by signal {signal}"),
        (None, None) => write!(text, ": still running"),
    };
    let _ = write!(text, " after {}", spaced((*elapsed_ns).into(), Unit::Ns));
    if let Some(CommandTotals { threads, has_exited_children, run_time_ns: Some(run), .. }) = window.command_totals {
        let percent = run as f64 / (*elapsed_ns).max(1) as f64 * 100.0;
        let _ = write!(text, ", {} ({percent:.0}%) in {}", cpu_time(run), counted(threads, "thread"));
        if has_exited_children {
            text += " and in exited children";
        }
    }
    text
}

/// Less is shown as 0.
const LEAST_UNKNOWN_NS: u64 = 5_000_000;

/// Where the rest of the host's CPU time may have gone, if it is much.
fn unexplained(cpu: &Accounting) -> Option<String> {
    let rest = cpu.busy_ns.checked_sub(cpu.explained_ns)?;
    if !is_precise(cpu) || cpu.explained_ns as f64 >= cpu.busy_ns as f64 * MOST_EXPLAINED {
        return None;
    }
    let mut causes = Vec::new();
    let interrupts = cpu.interrupt_ns.map(|ns| ns.min(rest)).filter(|ns| *ns > 0);
    causes.extend(interrupts.map(|ns| format!("{} in interrupts", seconds(ns))));
    let unknown = rest - interrupts.unwrap_or(0);
    if unknown >= LEAST_UNKNOWN_NS {
        let while_reading = read_for(cpu, unknown).map(|time| format!("while threads were read, which took {time}"));
        causes.push(format!("{} {}", seconds(unknown), while_reading.as_deref().unwrap_or("unknown")));
    }
    let unseen = cpu.started.and_then(|started| started.checked_sub(cpu.started_seen)).filter(|unseen| *unseen > 0);
    causes.extend(unseen.map(|unseen| format!("{} exited without a record", counted(unseen, "thread"))));
    Some(format!("not accounted for: {} CPU-seconds ({})", seconds(rest), causes.join(", ")))
}

fn notes(info: &WindowInfo) -> Vec<String> {
    let mut notes = Vec::new();
    let is_too_much = |cpu: &&Accounting| cpu.explained_ns as f64 > cpu.busy_ns as f64 * MOST_POSSIBLE;
    if let Some(cpu) = info.cpu.as_ref().filter(|cpu| is_precise(cpu)).filter(is_too_much) {
        let cause = match read_for(cpu, cpu.explained_ns.saturating_sub(cpu.busy_ns)) {
            Some(time) => format!("threads were read for {time}, and what exited meanwhile counts up to its exit"),
            None => "some work is counted twice, or was done before the window".to_owned(),
        };
        notes.push(format!("more CPU time than the host had: {cause}"));
    }
    if !info.process_counters {
        notes.push("exited work is unknown: a snapshot lacks counters of processes; capture again".to_owned());
    }
    if let Some(records) = info.exit_records.as_ref().filter(|records| records.lost > 0) {
        let all = records.lost.saturating_add(records.received);
        let fix = match &*records.source {
            "bpf" if records.lost == records.not_run => "; the kernel records one exit at a time on each CPU",
            "bpf" => "; record with a larger --ring, or for a shorter time",
            _ => "",
        };
        notes.push(format!("{} of {all} exit records were lost: some exited threads are missing{fix}", records.lost));
    }
    if let Some(records) = info.exit_records.as_ref().filter(|records| records.execs_lost > 0) {
        let lost = counted(records.execs_lost, "record");
        notes.push(format!(
            "{lost} of execve(2) lost: what those processes did before counts as work of the programs that followed"
        ));
    }
    if let Some(suspended) = info.suspended_ns {
        notes.push(format!("the host was suspended for another {}", spaced(suspended.into(), Unit::Ns)));
    }
    if info.missed > 0 {
        let threads = counted(info.missed, "thread");
        notes.push(format!("{threads} left out: older than the window, but missing in the first capture"));
    }
    if info.unread > 0 {
        let threads = counted(info.unread, "thread");
        notes.push(format!("{threads} could not be read in the second capture: what they did is unknown"));
    }
    if !info.backwards.is_empty() {
        let threads = |(metric, threads): (&String, &u64)| format!("{metric} of {}", counted(*threads, "thread"));
        let all: Vec<_> = info.backwards.iter().map(threads).collect();
        notes.push(format!("counters that went backwards are left out: {}", all.join(", ")));
    }
    notes
}

/// Amounts below this are in milliseconds.
const SHORT_NS: u64 = 10_000_000;

fn seconds(ns: u64) -> String {
    match ns {
        1..SHORT_NS => format!("{} ms", three_digits(ns as f64 / 1e6)),
        _ => three_digits(ns as f64 / 1e9),
    }
}

fn cpu_time(ns: u64) -> String {
    let unit = if (1..SHORT_NS).contains(&ns) { "of CPU time" } else { "CPU-seconds" };
    format!("{} {unit}", seconds(ns))
}
