//! `ctprof compare`.

use super::args::{Compare, Messages};
use super::input::Input;
use super::output::{groups_exist, selection, write_page};
use crate::compare::{Sides, compare_digests};
use crate::report::{Column, Page};

pub(super) fn run(args: &Compare, messages: Messages) -> anyhow::Result<()> {
    let paths = Sides { baseline: args.baseline.as_path(), candidate: args.candidate.as_path() };
    let options = args.view.options(paths.map(|path| path.display().to_string()));
    let columns = args.view.columns(|column| column != Column::Value)?;
    let input = Input::new(&options, &args.view, messages);
    let sides = input.sides(paths)?.map(|digest| vec![digest]);
    drop(input);
    let comparison = compare_digests(sides, &options);
    groups_exist(&comparison.unmatched)?;
    write_page(&Page::of_comparison(&comparison, selection(&args.view)), &args.view, &columns)
}
