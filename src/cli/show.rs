//! `ctprof show`.

use super::args::{Messages, Show};
use super::input::Input;
use super::output::{Stream, groups_exist, selection_page, views, write_page};
use crate::compare::Sides;
use crate::report::Column;

pub(super) fn run(args: &Show, messages: Messages) -> anyhow::Result<()> {
    let label = |path: &std::path::PathBuf| path.display().to_string();
    let labels =
        Sides { baseline: label(&args.snapshot), candidate: args.later.as_ref().map(label).unwrap_or_default() };
    let options = args.view.options(labels);
    let columns = args.view.columns(Column::is_of_views)?;
    let tree = args.view.tree(&options);
    let input = Input::new(tree.as_ref().unwrap_or(&options), &args.view, messages);
    let digest = match &args.later {
        None => input.one(&args.snapshot)?,
        Some(later) => input.window(Sides { baseline: &args.snapshot, candidate: later })?,
    };
    drop(input);
    let (groups, tree) = views(digest, &options, &args.view);
    groups_exist(&groups.unmatched)?;
    let page = selection_page(&groups, tree.as_ref(), &args.view, Stream::Stdout);
    write_page(Stream::Stdout, &page, &args.view, &columns)
}
