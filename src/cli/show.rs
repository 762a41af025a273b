//! `ctprof show`.

use super::args::{Messages, Show};
use super::input::digests;
use super::output::{selection, write_page};
use crate::compare::{Sides, show_digest};
use crate::report::{Column, Page};

pub(super) fn run(args: &Show, messages: Messages) -> anyhow::Result<()> {
    let label = args.snapshot.display().to_string();
    let options = args.view.options(Sides { baseline: label, candidate: String::new() });
    let columns = args.view.columns(Column::is_of_views)?;
    let [digest] = digests([args.snapshot.as_path()], options.names, &args.view, messages)?;
    let view = show_digest(digest, &options);
    write_page(&Page::of_view(&view, selection(&args.view)), &args.view, &columns)
}
