//! `ctprof show`.

use std::mem::ManuallyDrop;

use super::args::{Format, Show};
use super::output::{style, to_stdout};
use crate::compare::{Sides, show};
use crate::report::{self, Column};
use crate::store::load;

pub(super) fn run(args: &Show) -> anyhow::Result<()> {
    let label = args.snapshot.display().to_string();
    let options = args.view.options(Sides { baseline: label, candidate: String::new() });
    let columns = args.view.columns(Column::is_of_views)?;
    // The process ends soon: let its end free the snapshot, and not one thread after the other.
    let snapshot = ManuallyDrop::new(load(&args.snapshot, args.view.limits.max_snapshot_bytes)?);
    let view = show(&snapshot, &options);
    to_stdout(|out| match args.view.format {
        Format::Table | Format::Markdown => report::view(out, &view, &style(&args.view, columns)),
        Format::Csv => report::view_csv(out, &view),
        Format::Json => report::view_json(out, &view),
    })
}
