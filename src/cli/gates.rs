//! Gates: what they say on standard error, and the exit status.

use std::io;
use std::process::ExitCode;

use super::args::{Gates, Messages, usage_error};
use super::errors::{FAILED, GATE_FAILED};
use crate::compare::{GateOutcome, GateResult, Options};
use crate::report::write_gate_lines;

/// Checks that gates fit the grouping, before any file is read.
pub(super) fn check(gates: &Gates, options: &Options) -> anyhow::Result<()> {
    let misfit = gates.fail_on.iter().find_map(|gate| Some((gate, gate.check(options.group_by).err()?)));
    misfit.map_or(Ok(()), |(gate, error)| Err(usage_error(format!("--fail-on '{}': {error}", gate.text))))
}

/// Says which gates failed, and returns the exit status, whether standard error is open or not.
pub(super) fn finish(results: &[GateResult], gates: &Gates, messages: Messages) -> ExitCode {
    let has = |is: fn(&GateOutcome) -> bool| results.iter().any(|result| is(&result.outcome));
    let status = match () {
        () if has(GateOutcome::is_error) => ExitCode::from(FAILED),
        () if has(GateOutcome::is_failed) => ExitCode::from(GATE_FAILED),
        () if has(GateOutcome::is_unclear) && gates.fail_on_unclear => ExitCode::from(GATE_FAILED),
        () => ExitCode::SUCCESS,
    };
    if status != ExitCode::SUCCESS || messages == Messages::All {
        let _ = write_gate_lines(&mut io::stderr().lock(), results);
    }
    status
}
