//! What a capture did, in a few lines for whoever ran it.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::scale::scaled;
use crate::diagnose::gaps;
use crate::model::{Census, CtprofSnapshot, Unit};

/// Writes what was captured, how long it took and what is missing, with the remedy.
///
/// # Errors
/// Those of `out`.
pub fn capture_summary(out: &mut dyn Write, snapshot: &CtprofSnapshot, file: &str, bytes: u64) -> io::Result<()> {
    let cgroups: BTreeSet<_> = snapshot.threads.iter().filter_map(|thread| thread.cgroup.as_ref()).collect();
    let took = snapshot.capture.as_ref().map_or(0, |capture| capture.duration_ns);
    writeln!(
        out,
        "{} threads of {} processes in {} cgroups, {}; wrote {file} ({})",
        snapshot.threads.len(),
        snapshot.processes(),
        cgroups.len(),
        scaled(took.into(), Unit::Ns),
        scaled(bytes.into(), Unit::Bytes),
    )?;
    for gap in gaps(snapshot, &Census::of(&snapshot.threads)) {
        let remedy = if gap.remedy.is_empty() { String::new() } else { format!("; {}", gap.remedy) };
        writeln!(out, "missing: {}: {}{remedy}", gap.source, gap.reason)?;
    }
    Ok(())
}
