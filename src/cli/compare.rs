//! `ctprof compare`.

use std::path::Path;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::args::{Args, Compare, Messages};
use super::input::digests;
use super::output::{selection, write_page};
use crate::compare::{Sides, compare_digests};
use crate::report::{Column, Page};

pub(super) fn run(args: &Compare, messages: Messages) -> anyhow::Result<()> {
    let paths = Sides { baseline: args.baseline.as_path(), candidate: args.candidate.as_path() };
    if paths.baseline == Path::new("-") && paths.candidate == Path::new("-") {
        let message = "only one of the two snapshots can come from standard input";
        return Err(Args::command().error(ErrorKind::ArgumentConflict, message).into());
    }
    let options = args.view.options(paths.map(|path| path.display().to_string()));
    let columns = args.view.columns(|column| column != Column::Value)?;
    let [baseline, candidate] = digests([paths.baseline, paths.candidate], options.names, &args.view, messages)?;
    let comparison = compare_digests(Sides { baseline: vec![baseline], candidate: vec![candidate] }, &options);
    write_page(&Page::of_comparison(&comparison, selection(&args.view)), &args.view, &columns)
}
