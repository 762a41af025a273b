//! Findings on the engine that read the threads.

use super::{Cause, Coverage, DataSource, Evidence, Finding};
use crate::model::{BpfUse, CaptureInfo, Census, NoBpf, SnapshotHead};

/// Whether BPF read the threads, and what it could not read. Nothing for captures that do not say.
pub(super) fn all(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(capture) = &evidence.head.capture else { return Vec::new() };
    let not_used = |cause| vec![Finding::new(DataSource::Bpf, Coverage::NotUsed, cause)];
    match (&capture.bpf, &capture.no_bpf) {
        (Some(bpf), _) => with_bpf(bpf),
        (None, Some(no_bpf)) => not_used(Cause::NoBpf { no_bpf: no_bpf.clone() }),
        (None, None) if capture.options.engine.as_deref() == Some("procfs") => {
            not_used(Cause::DisabledByOption { option: "--engine procfs" })
        }
        (None, None) => Vec::new(),
    }
}

fn with_bpf(BpfUse { setup_ns: _, dropped, missed_processes }: &BpfUse) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !dropped.is_empty() {
        let rejected = Finding::new(DataSource::Bpf, Coverage::Partial, Cause::FieldsRejected);
        let count = u64::try_from(dropped.len()).unwrap_or(u64::MAX);
        findings.push(Finding { names: dropped.clone(), ..rejected.affecting(count, None, "metric") });
    }
    if *missed_processes > 0 {
        let missed = Finding::new(DataSource::Bpf, Coverage::Complete, Cause::MissedByIterator);
        findings.push(missed.affecting(*missed_processes, None, "process"));
    }
    if findings.is_empty() { vec![Finding::complete(DataSource::Bpf)] } else { findings }
}

/// Why a capture by this process cannot use BPF, and the fix.
pub(crate) fn why_no_bpf(no_bpf: &NoBpf, capture: CaptureInfo) -> Finding {
    let head = SnapshotHead { capture: Some(capture), ..SnapshotHead::default() };
    let mut finding = Finding::new(DataSource::Bpf, Coverage::NotUsed, Cause::NoBpf { no_bpf: no_bpf.clone() });
    Evidence::new(&head, &Census::default()).grant(finding.fix.iter_mut());
    finding
}
