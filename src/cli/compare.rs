//! `ctprof compare`.

use std::path::Path;
use std::process::ExitCode;

use super::args::{Compare, Comparing, Messages};
use super::errors::reported;
use super::exit::free_at_exit;
use super::gates;
use super::input::Input;
use super::output::{Stream, groups_exist, selection, write_page};
use crate::compare::{Comparison, Options, Runs, Sides, compare_digests, compare_with_gates};
use crate::report::{Column, Page};

pub(super) fn run(args: &Compare, messages: Messages) -> anyhow::Result<ExitCode> {
    let paths = Sides { baseline: args.baseline.as_path(), candidate: args.candidate.as_path() };
    Prepared::new(&args.comparing, paths.map(|path| path.display().to_string()))?.compare(paths, messages)
}

/// A comparison whose options have been checked, before any file is read.
pub(super) struct Prepared<'a> {
    args: &'a Comparing,
    options: Options,
    columns: Vec<Column>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(args: &'a Comparing, labels: Sides<String>) -> anyhow::Result<Self> {
        let options = Options { threshold: args.verdicts.threshold, ..args.view.options(labels) };
        gates::check(&args.gates, &options)?;
        let columns = args.view.columns(|column| column != Column::Value)?;
        Ok(Self { args, options, columns })
    }

    /// Compares two files or directories.
    pub(super) fn compare(&self, paths: Sides<&Path>, messages: Messages) -> anyhow::Result<ExitCode> {
        let Comparing { view, gates, .. } = self.args;
        let tree = view.tree(&self.options);
        let input = Input::new(tree.as_ref().unwrap_or(&self.options), view, messages);
        let sides = input.sides(paths)?;
        drop(input);
        let (comparison, tree) = self.compared(sides, tree.as_ref());
        groups_exist(&comparison.unmatched)?;
        let page = |comparison| Page::of_comparison(comparison, selection(view, Stream::Stdout));
        let page = page(&comparison).with_tree(tree.as_ref().map(page));
        let written = write_page(Stream::Stdout, &page, view, &self.columns);
        let status = gates::finish(&comparison.gates, gates, messages);
        drop(page);
        free_at_exit((comparison, tree));
        reported(written, status)
    }

    /// The comparison, and that of the tree below its groups. The sides were made with the options of the tree if there
    /// is one.
    fn compared(&self, sides: Sides<Runs>, tree: Option<&Options>) -> (Comparison, Option<Comparison>) {
        let compare = |sides| compare_with_gates(sides, &self.options, &self.args.gates.fail_on);
        let Some(tree) = tree else { return (compare(sides), None) };
        let narrow = |side: &Runs| side.narrowed(self.options.group_by);
        let narrowed = rayon::join(|| narrow(&sides.baseline), || narrow(&sides.candidate));
        rayon::join(|| compare(narrowed.into()), || Some(compare_digests(sides, tree)))
    }
}
