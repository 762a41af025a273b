//! `ctprof compare`.

use std::mem::ManuallyDrop;
use std::path::Path;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::args::{Args, Compare, Format};
use super::output::{style, to_stdout};
use crate::compare::{Sides, compare};
use crate::report::{self, Column};
use crate::store::load;

pub(super) fn run(args: &Compare) -> anyhow::Result<()> {
    let paths = Sides { baseline: &args.baseline, candidate: &args.candidate };
    if paths.baseline == Path::new("-") && paths.candidate == Path::new("-") {
        let message = "only one of the two snapshots can come from standard input";
        return Err(Args::command().error(ErrorKind::ArgumentConflict, message).into());
    }
    let options = args.view.options(paths.map(|path| path.display().to_string()));
    let columns = args.view.columns(|column| column != Column::Value)?;
    let limit = args.view.limits.max_snapshot_bytes;
    let (baseline, candidate) = rayon::join(|| load(&args.baseline, limit), || load(&args.candidate, limit));
    // The process ends soon: let its end free the snapshots, and not one thread after the other.
    let (baseline, candidate) = (ManuallyDrop::new(baseline?), ManuallyDrop::new(candidate?));
    let comparison = compare(&baseline, &candidate, &options);
    to_stdout(|out| match args.view.format {
        Format::Table | Format::Markdown => report::comparison(out, &comparison, &style(&args.view, columns)),
        Format::Csv => report::comparison_csv(out, &comparison),
        Format::Json => report::comparison_json(out, &comparison),
    })
}
