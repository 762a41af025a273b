//! `ctprof completions`.

use clap::CommandFactory;

use super::args::{Args, Completions};
use super::output::to_stdout;

pub(super) fn run(args: &Completions) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "ctprof", &mut script);
    to_stdout(|out| std::io::Write::write_all(out, &script))
}
