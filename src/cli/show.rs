//! `ctprof show`.

use super::args::{Messages, Show};
use super::input::Input;
use super::output::{groups_exist, selection, write_page};
use crate::compare::{Sides, show_digest};
use crate::report::{Column, Page};

pub(super) fn run(args: &Show, messages: Messages) -> anyhow::Result<()> {
    let label = |path: &std::path::PathBuf| path.display().to_string();
    let labels =
        Sides { baseline: label(&args.snapshot), candidate: args.later.as_ref().map(label).unwrap_or_default() };
    let options = args.view.options(labels);
    let columns = args.view.columns(Column::is_of_views)?;
    let input = Input::new(&options, &args.view, messages);
    let digest = match &args.later {
        None => input.one(&args.snapshot)?,
        Some(later) => input.window(Sides { baseline: &args.snapshot, candidate: later })?,
    };
    drop(input);
    let view = show_digest(digest, &options);
    groups_exist(&view.unmatched)?;
    write_page(&Page::of_view(&view, selection(&args.view)), &args.view, &columns)
}
