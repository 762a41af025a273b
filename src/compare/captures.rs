//! The captures themselves: what they read and could not read, and their cost.

use std::borrow::Cow;

use super::{Measurement, SideGroup, SideSection, Sides};
use crate::diagnose::{Finding, Note, Side};
use crate::model::sorted::Arrange;
use crate::model::{
    BpfUse, CaptureInfo, Cell, CtprofParseSummary, CtprofProbeSummary, HostHeapState, SelfCost, SnapshotHead,
    TaskstatsSummary, Unit,
};

pub(super) fn section(snapshot: &SnapshotHead) -> SideSection {
    let mut measurements = Vec::new();
    measurements.extend(snapshot.capture.iter().flat_map(cost));
    measurements.extend(snapshot.capture.iter().filter_map(|capture| capture.bpf.as_ref()).flat_map(bpf));
    measurements.extend(snapshot.parse_summary.iter().flat_map(procfs));
    measurements.extend(snapshot.taskstats_summary.iter().flat_map(taskstats));
    measurements.extend(snapshot.probe_summary.iter().flat_map(jemalloc));
    let heap = snapshot.host.iter().filter_map(|host| host.heap_state.as_ref()).flat_map(HostHeapState::fields);
    measurements.extend(heap.map(|(field, unit, value)| fact(format!("heap.{field}"), unit, value)));
    let engine = snapshot.capture.as_ref().map(|capture| &capture.engine).filter(|engine| !engine.is_empty());
    measurements
        .extend(engine.map(|engine| Measurement::new("engine", Unit::None, Cell::Word(engine.as_str().into()), 1)));
    measurements.retain(|fact| fact.cell.is_some());
    measurements.arrange_by(|a, b| a.name.cmp(&b.name));
    SideSection::from([(vec!["capture".to_owned()], SideGroup::new(1, measurements))])
}

fn fact(name: impl Into<Cow<'static, str>>, unit: Unit, value: Option<u64>) -> Measurement {
    Measurement::new(name, unit, value.map(Cell::Number), 1)
}

fn count(name: impl Into<Cow<'static, str>>, value: u64) -> Measurement {
    fact(name, Unit::Count, Some(value))
}

fn cost(capture: &CaptureInfo) -> Vec<Measurement> {
    let SelfCost { user_ns, system_ns, peak_rss_bytes, smaps_ns, probe_ns } =
        capture.self_cost.clone().unwrap_or_default();
    vec![
        fact("duration", Unit::Ns, Some(capture.duration_ns)),
        count("jobs", capture.jobs),
        fact("cost.user", Unit::Ns, user_ns),
        fact("cost.system", Unit::Ns, system_ns),
        fact("cost.peak_rss", Unit::Bytes, peak_rss_bytes),
        fact("cost.smaps", Unit::Ns, smaps_ns),
        fact("cost.jemalloc", Unit::Ns, probe_ns),
    ]
}

fn bpf(BpfUse { setup_ns, dropped, missed_processes }: &BpfUse) -> Vec<Measurement> {
    vec![
        fact("bpf.setup", Unit::Ns, Some(*setup_ns)),
        count("bpf.metrics_dropped", u64::try_from(dropped.len()).unwrap_or(u64::MAX)),
        count("bpf.processes_missed", *missed_processes),
    ]
}

fn procfs(summary: &CtprofParseSummary) -> Vec<Measurement> {
    let by_file = summary.read_failures_by_errno.iter();
    let failures = by_file.flat_map(|(file, errnos)| {
        errnos.iter().map(move |(errno, failed)| count(format!("not_read.{file}.{errno}"), *failed))
    });
    let walked = [
        count("threads.walked", summary.tids_walked),
        count("threads.exited", summary.ghosts),
        count("negative_times", summary.negative_dotted_values),
        count("smaps_rollup.skipped", summary.smaps_skipped.saturating_add(summary.smaps_out_of_time)),
        count("panics", summary.worker_panics),
    ];
    let delays = Some(summary.impossible_delays).filter(|threads| *threads > 0);
    walked.into_iter().chain(delays.map(|threads| count("impossible_delays", threads))).chain(failures).collect()
}

fn taskstats(summary: &TaskstatsSummary) -> Vec<Measurement> {
    vec![
        count("taskstats.answered", summary.ok_count),
        count("taskstats.denied", summary.eperm_count),
        count("taskstats.exited", summary.esrch_count),
        count("taskstats.failed", summary.other_err_count),
        fact("taskstats.version", Unit::None, summary.struct_version.map(u64::from)),
    ]
}

fn jemalloc(summary: &CtprofProbeSummary) -> Vec<Measurement> {
    let failures =
        summary.failures.iter().map(|(failure, failed)| count(format!("jemalloc.not_read.{failure}"), *failed));
    let mut measurements = vec![
        count("jemalloc.processes", summary.tgids_walked),
        count("jemalloc.processes_found", summary.jemalloc_detected),
        count("jemalloc.threads_read", summary.probed_ok),
        count("jemalloc.failed", summary.failed),
    ];
    measurements.extend(failures);
    measurements
}

/// Returns notes on what is missing and why the engine was not BPF, with the side unless it is so in every snapshot shown.
pub(super) fn missing(findings: Sides<&Vec<Finding>>) -> Vec<Note> {
    let gaps = findings.map(|findings| findings.iter().filter(|finding| finding.is_listed()).collect::<Vec<_>>());
    let baseline = gaps.baseline.iter().map(|gap| {
        let everywhere = gaps.candidate.as_ref().is_none_or(|others| others.contains(gap));
        ((!everywhere).then_some(Side::Baseline), *gap)
    });
    let others = gaps.candidate.iter().flatten().filter(|gap| !gaps.baseline.contains(gap));
    let candidate = others.map(|gap| (Some(Side::Candidate), *gap));
    baseline.chain(candidate).map(|(side, gap)| Note::Missing { side, finding: gap.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::diagnose::findings;
    use crate::model::{CtprofSnapshot, Errno, HostContext, ProbeFailure, SourceFile};

    fn captured() -> CtprofSnapshot {
        let failures = [(ProbeFailure::JemallocNotFound, 5), (ProbeFailure::PtraceSeize, 2)].into();
        let probe =
            CtprofProbeSummary { tgids_walked: 9, jemalloc_detected: 2, probed_ok: 4, failures, ..Default::default() };
        let errnos = [(Errno::EACCES, 3)].into();
        let parse =
            CtprofParseSummary { read_failures_by_errno: [(SourceFile::Io, errnos)].into(), ..Default::default() };
        CtprofSnapshot {
            head: SnapshotHead {
                probe_summary: Some(probe.concluded()),
                parse_summary: Some(parse.concluded()),
                ..SnapshotHead::default()
            },
            ..CtprofSnapshot::default()
        }
    }

    #[test]
    fn the_tally_of_the_jemalloc_probe_is_among_the_facts() {
        let groups = section(&captured().head);
        let measurements = groups.values().flat_map(|group| &group.measurements);
        let by_name: BTreeMap<_, _> =
            measurements.map(|entry| (&*entry.name, (entry.unit, entry.cell.clone()))).collect();
        let expected = [
            ("jemalloc.processes", 9),
            ("jemalloc.processes_found", 2),
            ("jemalloc.threads_read", 4),
            ("jemalloc.failed", 2),
            ("jemalloc.not_read.jemalloc-not-found", 5),
            ("jemalloc.not_read.ptrace-seize", 2),
            ("not_read.io.EACCES", 3),
        ];
        for (name, count) in expected {
            assert_eq!(by_name.get(name), Some(&(Unit::Count, Some(Cell::Number(count)))), "{name}");
        }
    }

    #[test]
    fn the_heap_of_the_capturing_process_is_among_the_facts_by_field_names() {
        let heap = HostHeapState { allocated_bytes: Some(1), narenas: Some(4), ..HostHeapState::default() };
        let host = HostContext { heap_state: Some(heap), ..HostContext::default() };
        let snapshot = CtprofSnapshot {
            head: SnapshotHead { host: Some(host), ..SnapshotHead::default() },
            ..CtprofSnapshot::default()
        };
        let groups = section(&snapshot.head);
        let named_units: Vec<_> =
            groups.values().flat_map(|group| &group.measurements).map(|entry| (&*entry.name, entry.unit)).collect();
        assert!(
            named_units.contains(&("heap.allocated_bytes", Unit::Bytes))
                && named_units.contains(&("heap.narenas", Unit::Count))
        );
    }

    #[test]
    fn what_is_missing_names_its_side_unless_it_is_missing_on_both() {
        let (with, without) = (captured(), CtprofSnapshot::default());
        let io = |baseline: &CtprofSnapshot, candidate: Option<&CtprofSnapshot>| {
            let findings = Sides { baseline, candidate }.map(findings);
            let notes = missing(findings.as_ref());
            let lines: Vec<_> = notes.iter().map(ToString::to_string).filter(|line| line.contains("io: ")).collect();
            lines.join("; ")
        };
        assert!(io(&with, None).starts_with("io: not read"));
        assert!(io(&with, Some(&with)).starts_with("io: not read"));
        assert!(io(&with, Some(&without)).starts_with("baseline: io: not read"));
        assert!(io(&without, Some(&with)).starts_with("candidate: io: not read"));
    }
}
