//! `ctprof metrics`, `ctprof completions`, `ctprof schema` and `ctprof doctor`.

use std::env;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::{Args, FAILED, Format, JsonOutput, Stream, to_stdout};
use crate::capture::{Engine, Options};
use crate::diagnose::{Finding, findings};
use crate::process::Privileges;
use crate::record::Recorder;
use crate::report;

pub(super) fn metrics(format: Format) -> anyhow::Result<()> {
    to_stdout(|out| match format {
        Format::Json => report::metrics_json(out),
        Format::Markdown => report::metrics_markdown(out),
        _ => report::metrics_table(out, Stream::Stdout.width()),
    })
}

pub(super) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "ctprof", &mut script);
    to_stdout(|out| out.write_all(&script))
}

/// Prints the schema of an output, or the definitions of all.
pub(super) fn schema(output: Option<JsonOutput>) -> anyhow::Result<()> {
    let name = output.and_then(|output| Some(output.to_possible_value()?.get_name().to_owned()));
    let of_one = |name| report::JSON_SCHEMA.replacen('{', &format!("{{\n  \"$ref\": \"#/$defs/{name}\","), 1);
    let text = name.map_or_else(|| report::JSON_SCHEMA.to_owned(), of_one);
    to_stdout(|out| out.write_all(text.as_bytes()))
}

/// Captures, and keeps only the findings. Fails if anything fixable is missing.
pub(super) fn doctor(engine: Engine, format: Format) -> anyhow::Result<ExitCode> {
    let options = Options { engine, ..Options::default() };
    // The first and the last sample say enough.
    let mut recorder = Recorder::of_one_capture(options.clone())?.with_reasons(&options, 1.0);
    Privileges::Capture.keep_after_loading()?;
    let mut findings = findings(&recorder.capture_with_samples()?);
    let executed = env::current_exe().ok().filter(|file| file.exists());
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(file) = executed.and_then(|file| not_found_by_name(&file, &path)) {
        findings.iter_mut().filter_map(|finding| finding.fix.as_mut()).for_each(|fix| fix.of_program(&file));
    }
    to_stdout(|out| match format {
        Format::Json => report::findings_json(out, &findings),
        _ => report::findings_table(out, &findings, Stream::Stdout.width()),
    })?;
    let fixable = findings.iter().any(Finding::is_fixable);
    Ok(if fixable { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// The file of this program as a word of a shell; `None` if a search for `ctprof` finds it. `setcap` follows no link.
fn not_found_by_name(executed: &Path, path: &OsStr) -> Option<String> {
    let found = env::split_paths(path).map(|directory| directory.join("ctprof")).find(|file| file.is_file());
    let is_found = |file: &Path| !file.is_symlink() && file.canonicalize().is_ok_and(|file| file == executed);
    let word = || format!("'{}'", executed.display().to_string().replace('\'', r"'\''"));
    (!found.is_some_and(|file| is_found(&file))).then(word)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn setcap_is_told_of_a_file_that_it_finds() {
        let directory = tempfile::tempdir().unwrap();
        let [installed, other, linked] = ["bin", "it's here", "links"].map(|name| directory.path().join(name));
        for directory in [&installed, &other, &linked] {
            fs::create_dir(directory).unwrap();
        }
        for directory in [&installed, &other] {
            fs::write(directory.join("ctprof"), "").unwrap();
        }
        symlink(installed.join("ctprof"), linked.join("ctprof")).unwrap();
        let file = |executed: &Path, path: &Path| not_found_by_name(&executed.join("ctprof"), path.as_os_str());
        let quoted = |directory: &Path| Some(format!("'{}/ctprof'", directory.display()));
        assert_eq!(file(&installed, &installed), None);
        assert_eq!(file(&installed, &linked), quoted(&installed));
        assert_eq!(file(&installed, &other), quoted(&installed));
        assert_eq!(file(&other, Path::new("")), quoted(&other).map(|word| word.replace("it's", r"it'\''s")));
    }
}
