//! `ctprof metrics`.

use super::args::{ListingFormat, Metrics};
use super::output::{Stream, to_stdout};
use crate::report;

pub(super) fn run(args: &Metrics) -> anyhow::Result<()> {
    to_stdout(|out| match args.format {
        ListingFormat::Table => report::metrics_table(out, Stream::Stdout.width()),
        ListingFormat::Json => report::metrics_json(out),
        ListingFormat::Markdown => report::metrics_markdown(out),
    })
}
