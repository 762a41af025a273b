//! `ctprof metrics`.

use super::args::{ListingFormat, Metrics};
use super::output::{to_stdout, width};
use crate::report;

pub(super) fn run(args: &Metrics) -> anyhow::Result<()> {
    to_stdout(|out| match args.format {
        ListingFormat::Table => report::metrics_table(out, width()),
        ListingFormat::Json => report::metrics_json(out),
        ListingFormat::Markdown => report::metrics_markdown(out),
    })
}
