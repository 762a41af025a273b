//! `ctprof export` of a build without Parquet.

use std::process::ExitCode;

use super::args::{Export, Messages};

pub(super) fn run(_: &Export, _: Messages) -> anyhow::Result<ExitCode> {
    anyhow::bail!("this ctprof was built without Parquet; build it with the cargo feature `parquet`")
}
