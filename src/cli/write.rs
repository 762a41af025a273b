//! Writes reports to standard output or standard error.

use std::io::{self, BufWriter, Write};

use anyhow::Context;

use super::args::View;
use super::output::{Stream, to_stdout};
use crate::compare::Report;
use crate::report::{Selection, Terminal, Unchanged};

/// Writes a report in the selected format.
pub(super) fn write_report(stream: Stream, report: &Report, view: &View) -> anyhow::Result<()> {
    let selection = selection(view, stream);
    let terminal = Terminal { width: stream.width(), colour: view.color.on(stream) };
    let write = |out: &mut dyn Write| view.format.write(out, report, &selection, terminal);
    match stream {
        Stream::Stdout => to_stdout(|out| write(out)),
        Stream::Stderr => {
            let mut out = BufWriter::new(io::stderr().lock());
            write(&mut out).and_then(|()| out.flush()).context("cannot write to standard error")
        }
    }
}

/// What is shown: the limits of the format, unless `--limit` has another. 0 is none.
fn selection(view: &View, stream: Stream) -> Selection {
    let usual = view.format.limits(stream);
    let given = |usual: Option<usize>| match view.limit {
        None => usual,
        limit => limit.filter(|limit| *limit > 0),
    };
    Selection {
        limit: given(usual.rows),
        groups: given(usual.groups),
        all_rows: usual.all_rows.filter(|_| view.limit.is_none()),
        unchanged: if view.unchanged || view.format.is_for_programs() { Unchanged::Shown } else { Unchanged::Hidden },
        columns: view.columns.clone(),
    }
}
