//! `ctprof compare`.

use std::path::Path;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::args::{Args, Compare};
use super::input::digest;
use super::output::{selection, write_page};
use crate::compare::{Sides, compare_digests};
use crate::report::{Column, Page};

pub(super) fn run(args: &Compare) -> anyhow::Result<()> {
    let paths = Sides { baseline: &args.baseline, candidate: &args.candidate };
    if paths.baseline == Path::new("-") && paths.candidate == Path::new("-") {
        let message = "only one of the two snapshots can come from standard input";
        return Err(Args::command().error(ErrorKind::ArgumentConflict, message).into());
    }
    let options = args.view.options(paths.map(|path| path.display().to_string()));
    let columns = args.view.columns(|column| column != Column::Value)?;
    let (baseline, candidate) = rayon::join(
        || digest(&args.baseline, options.names, &args.view.limits),
        || digest(&args.candidate, options.names, &args.view.limits),
    );
    let sides = Sides { baseline: vec![baseline?], candidate: vec![candidate?] };
    let comparison = compare_digests(sides, &options);
    write_page(&Page::of_comparison(&comparison, selection(&args.view)), &args.view, &columns)
}
