//! The command `ctprof export`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use super::{ExportArgs, FAILED, Messages, progress, say};
use crate::diagnose::counted;
use crate::export::{self, ExportOptions, Exported, Output};
use crate::process::Progress;
use crate::report::escaped;

pub(super) fn run(args: &ExportArgs, messages: Messages) -> anyhow::Result<ExitCode> {
    let progress = Arc::new(Progress::default());
    let watch = progress::watch(&progress, messages);
    let output = Output::from(args.output.clone());
    let options = ExportOptions { limit: args.limits.max_snapshot_bytes, weight: args.weight, progress: &progress };
    let exported = export::export(&args.inputs, &output, options, &mut |error| {
        let error = format!("{:#}", anyhow::Error::new(error));
        say(format_args!("ctprof: {}; left out", escaped(&error)));
    });
    drop(watch);
    let exported = exported?;
    if messages == Messages::All {
        let _ = summarize(&exported, &output);
    }
    Ok(if exported.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn summarize(exported: &Exported, output: &Output) -> io::Result<()> {
    let Exported { captures, already_present, threads, files, bytes, .. } = exported;
    let (path, what) = match output {
        Output::Threads(path) => (path, "threads only; a directory (-o DIR/) gets cgroups, captures and reasons, too"),
        Output::Datasets(path) => (path, "threads, cgroups, reasons and captures"),
    };
    let path = path.to_string_lossy();
    let (files, captures) = (counted(files, "file"), counted(captures, "capture"));
    let err = &mut io::stderr().lock();
    writeln!(err, "Exported {captures}, {threads} rows of threads: {files}, {bytes} bytes in {}", escaped(&path))?;
    if *already_present > 0 {
        let were = if *already_present == 1 { "was" } else { "were" };
        writeln!(err, "  {} {were} there before", counted(already_present, "capture"))?;
    }
    writeln!(err, "  {what}")
}
