//! Findings on the engine that read the threads.

use super::evidence::Evidence;
use super::{Affected, Capability, Cause, Coverage, Finding, Kind, Source};
use crate::model::{BpfObstacle, BpfUse, CaptureInfo, Census, NoBpf, SnapshotHead};

/// Whether BPF read the threads, and what it could not read. Nothing for captures that do not say.
pub(super) fn all(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(capture) = &evidence.head.capture else { return Vec::new() };
    match (&capture.bpf, &capture.no_bpf) {
        (Some(bpf), _) => with_bpf(bpf),
        (None, Some(no_bpf)) => vec![without_bpf(evidence, no_bpf)],
        (None, None) if capture.options.engine.as_deref() == Some("procfs") => {
            vec![Finding::new(Source::Bpf, Coverage::NotUsed, Cause::DisabledByOption { option: "--engine procfs" })]
        }
        (None, None) => Vec::new(),
    }
}

fn with_bpf(bpf: &BpfUse) -> Vec<Finding> {
    let BpfUse { setup_ns: _, dropped, missed_processes } = bpf;
    let affected = |count, kind| Affected { count, total: None, kind };
    let rejected = || Finding {
        names: dropped.clone(),
        ..Finding::new(Source::Bpf, Coverage::Partial, Cause::FieldsRejected)
            .affecting(affected(u64::try_from(dropped.len()).unwrap_or(u64::MAX), Kind::Metrics))
    };
    let missed = || {
        Finding::new(Source::Bpf, Coverage::Complete, Cause::MissedByIterator)
            .affecting(affected(*missed_processes, Kind::Processes))
    };
    let some = [(!dropped.is_empty()).then(rejected), (*missed_processes > 0).then(missed)];
    let findings: Vec<_> = some.into_iter().flatten().collect();
    if findings.is_empty() { vec![Finding::complete(Source::Bpf)] } else { findings }
}

fn without_bpf(evidence: &Evidence<'_>, no_bpf: &NoBpf) -> Finding {
    let finding = Finding::new(Source::Bpf, Coverage::NotUsed, Cause::NoBpf { no_bpf: no_bpf.clone() });
    if no_bpf.cause == BpfObstacle::NoCapability {
        return Finding { fix: Some(evidence.grant(&[Capability::Bpf, Capability::Perfmon])), ..finding };
    }
    finding
}

/// Why a capture by this process cannot use BPF, and the fix.
pub(crate) fn why_no_bpf(no_bpf: &NoBpf, capture: CaptureInfo) -> Finding {
    let snapshot = SnapshotHead { capture: Some(capture), ..SnapshotHead::default() };
    without_bpf(&Evidence::new(&snapshot, &Census::default()), no_bpf)
}
