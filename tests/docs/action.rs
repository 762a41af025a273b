//! Plays the runner of GitHub for `action.yml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ctprof::CtprofSnapshot;
use ctprof::store::OutputTarget;

use crate::guides::Runner;

const ACTION: &str = include_str!("../../action.yml");

/// What the action says and leaves.
struct Done {
    runner: Runner,
    /// The exit status of the last step.
    status: Option<i32>,
    outputs: BTreeMap<String, String>,
}

impl Done {
    fn output(&self, name: &str) -> &str {
        self.outputs.get(name).map_or("", String::as_str)
    }

    fn kept(&self, name: &str) -> PathBuf {
        self.runner.0.path().join("temp/ctprof-results/ctprof").join(name)
    }
}

/// The text below a line, as far as it is indented more.
fn below<'a>(text: &'a str, line: &str) -> Vec<&'a str> {
    let indent = line.len() - line.trim_start().len();
    let lines = text.lines().skip_while(|other| *other != line).skip(1);
    lines.take_while(|line| line.trim().is_empty() || line.len() - line.trim_start().len() > indent).collect()
}

/// The value of `${{ … }}`.
fn expression(text: &str, inputs: &BTreeMap<&str, String>, outputs: &BTreeMap<String, String>) -> String {
    let own = text.split(" || ").next().unwrap().trim();
    match own.split_once('.') {
        Some(("inputs", name)) => inputs.get(name).cloned().unwrap_or_else(|| {
            let default = below(ACTION, &format!("  {name}:")).into_iter();
            let default = default.filter_map(|line| line.trim().strip_prefix("default: ")).next().unwrap();
            default.trim_matches('"').to_owned()
        }),
        Some(("steps", name)) => {
            outputs.get(name.strip_prefix("compare.outputs.").unwrap()).cloned().unwrap_or_default()
        }
        Some(("runner", "temp")) => "temp".to_owned(),
        Some(("github", name)) => name.to_owned(),
        _ => panic!("{text}"),
    }
}

/// The commands of a step with its environment.
fn script(step: &str, inputs: &BTreeMap<&str, String>, outputs: &BTreeMap<String, String>) -> String {
    let step = below(ACTION, &format!("    - name: {step}")).join("\n");
    let environment = below(&step, "      env:").into_iter().map(|line| {
        let (name, value) = line.trim().split_once(": ").unwrap();
        let (before, rest) = value.split_once("${{ ").unwrap();
        let parts = rest.split("${{ ").map(|part| part.split_once(" }}").unwrap());
        let parts = parts.map(|(inner, after)| expression(inner, inputs, outputs) + after);
        let value = before.to_owned() + &parts.collect::<String>();
        format!("export {name}='{}'\n", value.replace('\'', "'\\''"))
    });
    let short = step.lines().find_map(|line| line.strip_prefix("      run: ")).filter(|line| *line != "|");
    let run = short.map_or_else(|| below(&step, "      run: |").join("\n"), ToOwned::to_owned);
    format!("{}export GITHUB_OUTPUT=outputs\nset -o pipefail\n{run}", environment.collect::<String>())
}

/// Runs the action's steps.
fn act(runner: Runner, inputs: &[(&'static str, &str)]) -> Done {
    let path = Path::new(env!("CARGO_BIN_EXE_ctprof")).display().to_string();
    let mut inputs: BTreeMap<_, _> = inputs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    inputs.entry("path").or_insert(path);
    let mut outputs = BTreeMap::new();
    let first = if inputs.contains_key("command") { &["Get the baseline", "Compare"][..] } else { &["Compare"] };
    for step in first {
        let done = runner.run(&script(step, &inputs, &outputs));
        assert!(done.status.success(), "{step}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let written = fs::read_to_string(runner.0.path().join("outputs")).unwrap();
    outputs = written
        .lines()
        .map(|line| line.split_once('=').unwrap())
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let status = runner.run(&script("Judge", &inputs, &outputs)).status.code();
    Done { runner, status, outputs }
}

#[test]
fn the_action_compares_two_commands_and_fails_if_a_gate_does() {
    let runner = Runner::new();
    runner.checkout("baseline", 30_000);
    runner.checkout("candidate", 120_000);
    let commands = [("baseline", "make -s -C baseline bench"), ("candidate", "make -s -C candidate bench")];
    let done = act(runner, &[&commands[..], &[("runs", "5"), ("gates", "run>5%\nfaults>900%\n")]].concat());
    assert_eq!((done.output("verdict"), done.output("status"), done.status), ("failed", "3", Some(3)));
    assert!(done.runner.summary().contains("| failed | all groups | run |"), "{}", done.runner.summary());
    assert!(fs::read_to_string(done.kept("report.html")).unwrap().starts_with("<!DOCTYPE html>"));
    assert!(done.kept("runs/candidate").is_dir() && done.kept("summary.md").exists());
}

#[test]
fn the_action_compares_a_command_with_its_last_run_if_there_is_one() {
    let of_command = [("command", "make bench"), ("gates", "run>5000%"), ("format", "json")];
    for reason in ["none", "expired", "no-token"] {
        let runner = Runner::new();
        fs::write(runner.0.path().join(reason), "").unwrap();
        let first = act(runner, &of_command);
        assert_eq!((first.output("verdict"), first.status), ("new", Some(0)), "{reason}");
        assert!(first.runner.summary().contains("- **command** bash -e -c"), "{}", first.runner.summary());
        if reason == "none" {
            let artifact = first.runner.0.path().join("artifact");
            fs::rename(first.kept(""), artifact).unwrap();
            let next = act(first.runner, &of_command);
            assert_eq!((next.output("verdict"), next.status), ("passed", Some(0)));
            assert!(next.runner.summary().contains("- **baseline** ") && !next.kept("before").exists());
            let before = next.runner.0.path().join("artifact/window.ctprof.zst");
            let mut elsewhere = CtprofSnapshot::load(&before).unwrap();
            elsewhere.head.host.as_mut().unwrap().cpu_model = Some("another".to_owned());
            OutputTarget::create(&before).unwrap().write(&elsewhere, u64::MAX).unwrap();
            let refused = act(next.runner, &of_command);
            assert_eq!((refused.output("verdict"), refused.status), ("error", Some(1)));
            let allowed = act(refused.runner, &[&of_command[..], &[("allow-different-hosts", "true")]].concat());
            assert_eq!((allowed.output("verdict"), allowed.status), ("passed", Some(0)));
        }
    }
    let ungated = act(Runner::new(), &[("command", "true"), ("allow-different-hosts", "true")]);
    assert_eq!((ungated.output("verdict"), ungated.status), ("new", Some(0)));
    let failed = act(Runner::new(), &[("command", "exit 3")]);
    assert_eq!((failed.output("verdict"), failed.status), ("error", Some(3)), "it is no gate that failed");
    assert!(failed.kept("window.ctprof.zst").exists());
}

#[test]
fn the_action_runs_twice_in_a_job_and_refuses_to_compare_nothing() {
    let inputs = [("baseline", "true"), ("candidate", "true"), ("runs", "1")];
    let first = act(Runner::new(), &inputs);
    let kept = fs::read(first.kept("report.html")).unwrap();
    let second = act(first.runner, &[&inputs[..], &[("artifact", "other")]].concat());
    assert_eq!((second.output("verdict"), fs::read(second.kept("report.html")).unwrap() == kept), ("passed", true));
    assert!(second.kept("../other/report.html").exists());
    for inputs in [&[][..], &[("baseline", "true")]] {
        let inputs: BTreeMap<_, _> = inputs.iter().map(|&(name, value): &(_, &str)| (name, value.to_owned())).collect();
        let refused = second.runner.run(&script("Compare", &inputs, &BTreeMap::new()));
        assert_eq!(refused.status.code(), Some(2));
    }
}

#[test]
fn the_action_cuts_a_summary_that_github_would_refuse() {
    let runner = Runner::new();
    runner.file("long", "#!/bin/sh\nyes line | head -c 3000000\n");
    let path = runner.0.path().join("long").display().to_string();
    let summary = act(runner, &[("path", &path), ("baseline", "true"), ("candidate", "true")]).runner.summary();
    assert!(summary.len() < 1 << 20 && summary.ends_with("\n\nCut here: the artifact has the whole summary.\n"));
}

#[test]
fn the_action_keeps_what_was_recorded_until_the_job_was_cancelled() {
    let runner = Runner::new();
    let of_command = "trap 'touch interrupted' INT; kill -INT $$; trap - INT; touch started; exec sleep 60";
    let inputs = [("command", of_command), ("path", env!("CARGO_BIN_EXE_ctprof"))];
    let inputs: BTreeMap<_, _> = inputs.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
    let compare = script("Compare", &inputs, &BTreeMap::new());
    // The runner signals the shell of the step, and nothing else.
    let cancelled = format!(
        "cat > step.sh <<'END_OF_STEP'\n{compare}\nEND_OF_STEP\nenv --default-signal bash -e step.sh & shell=$!
        while ! test -e started; do sleep 0.05; done; kill -INT $shell; kill -TERM $shell; wait $shell || true"
    );
    let done = runner.run(&cancelled);
    let results = runner.0.path().join("temp/ctprof-results/ctprof");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(results.join("window.ctprof.zst").exists() && results.join("report.html").exists(), "{said}");
    assert!(fs::read_to_string(runner.0.path().join("outputs")).unwrap().starts_with("verdict=error\n"), "{said}");
    assert!(runner.0.path().join("interrupted").exists(), "commands can be interrupted as in any other step: {said}");
}
