//! Runs the commands of the guides.

use crate::skip::{Missing, skipped};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

/// Scenarios run one at a time, because they compete for CPUs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn guide(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join("docs").join(name)).unwrap()
}

/// The shell commands below a heading, up to the next one.
fn commands(guide: &str, heading: &str) -> String {
    let part = guide.split_once(heading).unwrap().1;
    let part = part.split("\n## ").next().unwrap();
    part.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

/// The directory of ctprof.
fn built() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_ctprof")).parent().unwrap().to_owned()
}

/// Runs commands with ctprof in their path, and stops the processes they start.
fn run(dir: &Path, commands: &str) -> Output {
    let path = format!("{}:{}", built().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-ec", &format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{commands}")]);
    bash.current_dir(dir).env("PATH", path).stdin(Stdio::null()).output().unwrap()
}

fn succeeded(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The report of a command as JSON.
fn report(dir: &Path, command: &str) -> serde_json::Value {
    serde_json::from_str(&succeeded(&run(dir, &format!("{command} --format json")))).unwrap()
}

/// The values of an overview's column: one, or those of both sides of a comparison. Absent values are 0.
fn values(report: &serde_json::Value, group: &str, column: &str) -> Vec<f64> {
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["section"] == "overview");
    let mut same = rows.filter(|row| row["group"] == group && row["metric"] == column);
    let row = same.next().unwrap_or_else(|| panic!("no {column} of {group}"));
    let sides = ["value", "baseline", "candidate"].into_iter().filter_map(|side| row.get(side));
    sides.map(|value| value.as_f64().unwrap_or(0.0)).collect()
}

/// The value of an overview's column, that of the candidate in a comparison.
fn value(report: &serde_json::Value, group: &str, column: &str) -> f64 {
    *values(report, group, column).last().unwrap()
}

/// Whether groups are among the first three of the overview's default order. Groups of other programs that keep the host busy
/// meanwhile don't count.
fn stand_out(report: &serde_json::Value, wanted: &[&str], scenario: &[&str]) -> bool {
    let rows = report["rows"].as_array().unwrap().iter();
    let mut groups: Vec<&str> = Vec::new();
    for row in rows.filter(|row| row["section"] == "overview" && row["path"].as_array().unwrap().len() == 1) {
        let name = row["group"].as_str().unwrap();
        if groups.last() != Some(&name) {
            groups.push(name);
        }
    }
    let is_busy = |name: &str| {
        let mut sides = values(report, name, "run").into_iter().zip(values(report, name, "wait"));
        sides.any(|(run, wait)| run + wait >= BUSY_PERCENT)
    };
    groups.retain(|name| wanted.contains(name) || scenario.contains(name) || !is_busy(name));
    wanted.iter().all(|group| groups.iter().take(3).any(|name| name == group))
}

/// Runs a scenario of the guide and a command on its windows, in which these groups have to stand out. Beside it, other programs
/// can start that change more.
fn played_out(heading: &str, command: &str, wanted: &[&str]) -> serde_json::Value {
    let mut reports = (0..4).map(|_| report(played(heading).path(), command));
    let found = reports.find(|report| stand_out(report, wanted, wanted));
    found.unwrap_or_else(|| panic!("{heading}: {wanted:?} are not among the first groups"))
}

/// Asserts that the largest known reason of a group in a column is one with these words. On a host that is so busy that there are
/// fewer than five samples, none is known.
fn because(report: &serde_json::Value, group: &str, column: &str, words: &[&str]) {
    let rows = report["rows"].as_array().unwrap().iter();
    let of_column = |row: &&serde_json::Value| {
        let name = row["metric"].as_str().unwrap();
        row["section"] == "reasons"
            && row["group"] == group
            && name.starts_with(column)
            && !name.ends_with("other")
            && !name.ends_with("idle")
    };
    let time = |row: &&serde_json::Value| row.get("value").or(row.get("candidate")).unwrap().as_f64().unwrap_or(0.0);
    let of_group: Vec<_> = rows.filter(of_column).collect();
    match of_group.iter().copied().max_by(|a, b| time(a).total_cmp(&time(b))) {
        Some(row) => {
            let name = row["metric"].as_str().unwrap();
            assert!(words.iter().any(|word| name.contains(word)), "{group}: {name} instead of {words:?}");
        }
        None => skipped(Missing::Kernel(format!("five samples of {group} in {column}"))),
    }
}

/// Groups that run or wait for a smaller share of one CPU don't keep a host busy.
const BUSY_PERCENT: f64 = 3.0;

/// Runs a scenario of the guide, and returns the directory with its windows.
fn played(heading: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let _alone = ONE_AT_A_TIME.lock();
    let shown = succeeded(&run(dir.path(), &commands(&guide("why-slower.md"), heading)));
    assert!(shown.contains("\ngroup "), "{shown}");
    dir
}

/// Whether a cgroup of version 2 can be limited here.
fn can_limit(controller: &str) -> bool {
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control").unwrap_or_default();
    let can =
        nix::unistd::geteuid().is_root() && controllers.split_whitespace().any(|available| available == controller);
    if !can {
        skipped(Missing::Kernel(format!("the controller {controller} in a cgroup of version 2")));
    }
    can
}

fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok_and(|out| out.status.success());
    if !has {
        skipped(Missing::Tool("python3"));
    }
    has
}

#[test]
fn a_convoy_neither_runs_nor_waits_and_switches_often() {
    if !has_python() {
        return;
    }
    let report = played_out("a lock convoy", "ctprof show window.ctprof.zst", &["python3 convoy.py"]);
    let column = |column| value(&report, "python3 convoy.py", column);
    let [sleep, run, csw] = ["sleep", "run", "csw"].map(column);
    assert!(sleep > run && csw > 5.0 * run, "{sleep} {csw}, more than 500 switches in each second on a CPU ({run})");
    because(&report, "python3 convoy.py", "sleep", &["futex"]);
}

#[test]
fn a_worker_beside_a_noisy_neighbor_waits_for_longer_than_it_runs() {
    let command = "ctprof compare before.ctprof.zst after.ctprof.zst";
    let report = played_out("a noisy neighbor", command, &["md5sum", "sha256sum"]);
    let column = |column| value(&report, "sha256sum", column);
    assert!(column("wait") > column("run"), "{} {}", column("wait"), column("run"));
    // Other programs can keep the CPU busy, too.
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["section"] == "reasons");
    let mut culprits = rows.filter(|row| row["group"] == "sha256sum").filter_map(|row| row["reason"]["by"].as_str());
    if report["notes"]["reasons"].is_array() && !culprits.any(|culprit| culprit == "md5sum") {
        skipped(Missing::Kernel("five samples of sha256sum that waits for md5sum".to_owned()));
    }
}

#[test]
fn a_storm_of_fsync_writes_and_hardly_runs() {
    let report = played_out("an fsync storm", "ctprof show window.ctprof.zst", &["dd"]);
    let column = |column| value(&report, "dd", column);
    assert!(column("run") < 95.0 && column("csw") > 10.0, "{} {}", column("run"), column("csw"));
    because(&report, "dd", "block", &["write"]);
}

#[test]
fn a_throttled_process_waits_although_the_host_is_idle() {
    if can_limit("cpu") {
        let report = played_out("CPU throttling", "ctprof show window.ctprof.zst", &["sha256sum"]);
        let column = |column| value(&report, "sha256sum", column);
        assert!(column("run") < 30.0 && column("wait") > 50.0, "{} {}", column("run"), column("wait"));
        because(&report, "sha256sum", "wait", &["CPU quota"]);
    }
}

#[test]
fn a_process_with_too_little_memory_reads_the_same_again() {
    if can_limit("memory") && has_python() {
        let report = played_out("too little memory", "ctprof show window.ctprof.zst", &["python3 thrash.py"]);
        assert!(value(&report, "python3 thrash.py", "read") > 64.0 * 1024.0 * 1024.0 / 3.0);
        because(&report, "python3 thrash.py", "block", &["read", "page fault"]);
    }
}

#[test]
fn the_work_of_a_build_is_that_of_its_exited_children() {
    let dir = played("a build");
    let report = report(dir.path(), "ctprof show window.ctprof.zst --scope command --per run");
    let window = &report["snapshot"]["window"];
    assert_eq!(window["command"]["status"], 0);
    // With exit records under its own name, else under that of the shell.
    let groups = report["rows"].as_array().unwrap().iter().map(|row| row["group"].as_str().unwrap());
    let group = if groups.clone().any(|group| group == "sha256sum") { "sha256sum" } else { "sh" };
    assert!(stand_out(&report, &[group], &["sha256sum", "sh"]), "{group}");
    let whole = window["command_totals"]["run_time_ns"].as_f64().unwrap();
    assert!(value(&report, group, "run") > 0.8 * whole, "{} of {whole}", value(&report, group, "run"));
}

/// The part of a guide below a heading, up to the next one.
fn part(guide: &str, heading: &str) -> String {
    guide.split_once(heading).unwrap().1.split("\n## ").next().unwrap().to_owned()
}

/// The scripts of a workflow's steps, by their names.
fn steps(workflow: &str) -> Vec<(String, String)> {
    let mut steps = Vec::new();
    for step in workflow.split("      - name: ").skip(1) {
        let (name, rest) = step.split_once('\n').unwrap();
        let Some((_, script)) = rest.split_once("        run: ") else { continue };
        let lines = script.strip_prefix("|\n").unwrap_or(script).lines();
        let own = lines.take_while(|line| !line.starts_with("      - ") && !line.starts_with("```"));
        steps.push((name.to_owned(), own.collect::<Vec<_>>().join("\n")));
    }
    steps
}

/// A runner of a CI service: `make` and `gh` are stubs, and there is a page for the summary.
pub(super) struct Runner(pub(super) tempfile::TempDir);

impl Runner {
    /// `make -C DIR bench` takes the CPU time that the file `loops` of the directory says.
    const MAKE: &str = "dir=.; while [ $# -gt 0 ]; do [ \"$1\" = -C ] && dir=$2; shift; done
        i=0; loops=$(cat \"$dir/loops\") || exit 1; while [ $i -lt \"$loops\" ]; do i=$((i + 1)); done";
    /// The last run on the main branch has the artifact in `artifact`, if there is one. If there is the file `expired`, it had one.
    /// With `no-token`, nobody may ask.
    const GH: &str = "test ! -e no-token || exit 4
        case \"$2 $*\" in
        list*pull_request*|list*--event*) test ! -d artifact && test ! -e expired || echo 1 ;;
        list*) echo other people can have a branch of that name >&2; exit 1 ;;
        esac
        while [ $# -gt 1 ]; do [ \"$1\" = --dir ] && { cp -r artifact \"$2\" || exit 1; }; shift; done";

    pub(super) fn new() -> Self {
        let runner = Self(tempfile::tempdir().unwrap());
        fs::create_dir(runner.0.path().join("tools")).unwrap();
        runner.program("tools/make", Self::MAKE);
        runner.program("tools/gh", Self::GH);
        runner.checkout(".", 50_000);
        runner
    }

    /// A file that can be executed.
    pub(super) fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn program(&self, path: &str, script: &str) {
        self.file(path, &format!("#!/bin/sh\n{script}\n"));
    }

    pub(super) fn checkout(&self, dir: &str, loops: u32) {
        fs::create_dir_all(self.0.path().join(dir)).unwrap();
        fs::write(self.0.path().join(dir).join("loops"), loops.to_string()).unwrap();
    }

    pub(super) fn run(&self, script: &str) -> Output {
        let tools = self.0.path().join("tools");
        let environment = format!("PATH={}:$PATH; export GITHUB_STEP_SUMMARY=summary.md MAIN=main", tools.display());
        run(self.0.path(), &format!("{environment}\n{script}"))
    }

    pub(super) fn summary(&self) -> String {
        fs::read_to_string(self.0.path().join("summary.md")).unwrap()
    }
}

#[test]
fn the_steps_of_the_workflow_work_one_after_the_other() {
    let runner = Runner::new();
    if !runner.run("jq --version").status.success() {
        return skipped(Missing::Tool("jq"));
    }
    let guide = guide("ci.md");
    let steps = steps(&part(&guide, "## Compare with the last run"));
    assert_eq!(steps.len(), 7, "{steps:?}");
    // The second run has the first one's window as its baseline.
    for _ in 0..2 {
        for (name, script) in steps.iter().filter(|(name, _)| name != "Install ctprof") {
            let done = runner.run(script);
            // CPU times of single runs on a shared host can differ by any bound.
            let is_gate = name == "Compare with the baseline" && done.status.code() == Some(3);
            assert!(done.status.success() || is_gate, "{name}: {}", String::from_utf8_lossy(&done.stderr));
        }
        succeeded(&runner.run("mkdir -p artifact; rm -rf baseline; cp tests.ctprof.zst report.html artifact/"));
    }
    succeeded(&runner.run(&commands(&guide, "## Gates")));
    let summary = runner.summary();
    for part in
        ["- **window** ", "- **command** make test: exit status 0", "- **baseline** ", "\n| group | threads | run "]
    {
        assert!(summary.contains(part), "{part}: {summary}");
    }
}

/// Fewer runs than the guide has, to save time: enough for its gates.
fn with_few_runs(script: &str) -> String {
    assert!(script.contains("--runs 20"), "{script}");
    script.replace("--runs 20", "--runs 5")
}

#[test]
fn the_first_command_of_the_guide_is_a_gate() {
    let runner = Runner::new();
    for (version, loops) in [("old", 30_000), ("new", 120_000)] {
        runner.checkout(version, loops);
        runner.program(&format!("{version}/program"), &format!("exec make -C {version}"));
    }
    let gate = commands(&guide("ci.md"), "# In CI").replace("ctprof ab", "ctprof ab --runs 5");
    let done = runner.run(&gate);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert!(said.lines().last().unwrap().starts_with("ctprof: gate failed: all groups run: "), "{said}");
}

#[test]
fn the_step_for_a_comment_writes_what_a_comment_can_hold() {
    let runner = Runner::new();
    runner.program("tools/gh", "while [ $# -gt 1 ]; do [ \"$1\" = --body-file ] && cp \"$2\" posted; shift; done");
    let part = part(&guide("ci.md"), "## Compare both checkouts");
    assert!(part.contains("GH_REPO: ${{ github.repository }}"), "gh finds no checkout where it runs");
    let all = steps(&part);
    let comment = &all.iter().find(|(name, _)| name == "Comment").unwrap().1;
    succeeded(&runner.run(&format!("yes line | head -c 100000 > long.md; export NUMBER=7 SUMMARY=long.md\n{comment}")));
    assert_eq!(fs::metadata(runner.0.path().join("posted")).unwrap().len(), 60_000);
}

/// A service that needs so many milliseconds of CPU time for a request, and a client that prints how many it has had answered.
const SERVER: &str = "import socket, time
server = socket.create_server(('127.0.0.1', 0))
open('port', 'w').write(str(server.getsockname()[1]))
while True:
    connection = server.accept()[0]
    while connection.recv(1):
        end = time.thread_time() + COST / 1000
        while time.thread_time() < end: pass
        connection.send(b'x')
";
const CLIENT: &str = "import socket, sys, time
rate, seconds = float(sys.argv[2]), float(sys.argv[4])
connection = socket.create_connection(('127.0.0.1', int(open('port').read())))
start = time.monotonic()
for number in range(int(rate * seconds)):
    time.sleep(max(0, start + number / rate - time.monotonic()))
    connection.send(b'x')
    connection.recv(1)
print(int(rate * seconds))
";

/// Two versions of a service, and a client.
struct Services {
    runner: Runner,
    /// The first line of a script: by way of env(1), the kernel would know only the interpreter.
    shebang: String,
    /// A name of the service that no other process of the host has: letters, as names that differ in digits are one group.
    name: String,
}

impl Services {
    /// `None` without Python.
    fn new() -> Option<Self> {
        let runner = Runner::new();
        let python = runner.run("python3 -c 'import sys; print(sys.executable)'");
        if !python.status.success() {
            skipped(Missing::Tool("python3"));
            return None;
        }
        let letter = |digit: char| digit.to_digit(10).and_then(|digit| char::from_digit(digit + 20, 36));
        let name = std::process::id().to_string().chars().filter_map(letter).collect();
        let services = Self { runner, shebang: format!("#!{}", String::from_utf8_lossy(&python.stdout)), name };
        services.script("client", CLIENT);
        Some(services)
    }

    fn script(&self, path: &str, text: &str) {
        self.runner.file(path, &(self.shebang.clone() + text));
    }

    /// The recipe of the guide.
    fn recipe(&self) -> String {
        let recipe = commands(&guide("ci.md"), "## Compare a service");
        recipe.replace("/server", &format!("/{}", self.name)).replace("server:run", &format!("{}:run", self.name))
    }

    /// Makes a version, whose requests need so many milliseconds.
    fn make(&self, version: &str, cost: &str) {
        fs::create_dir_all(self.runner.0.path().join(version)).unwrap();
        self.script(&format!("{version}/{}", self.name), &SERVER.replace("COST", cost));
    }
}

#[test]
#[ignore = "takes five minutes on an idle host, more on a busy one"]
fn a_service_of_known_cost_is_unchanged_within_3_percent_and_30_percent_more_are_found_6_times_of_6() {
    let Some(services) = Services::new() else { return };
    let recipe = services.recipe().replace("--scope host", "--scope host --format json");
    services.make("old", "4");
    for cost in ["4", "5.2"].into_iter().flat_map(|cost| [cost; 6]) {
        services.make("new", cost);
        let done = services.runner.run(&recipe);
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let change = report["gates"][0]["change"].as_f64().unwrap();
        println!("{cost} ms instead of 4 ms: {change:.3}");
        match cost {
            "4" => assert!((0.97..1.03).contains(&change), "{change}"),
            _ => assert_eq!(done.status.code(), Some(3), "{change}"),
        }
    }
}

#[test]
fn a_service_is_slower_if_a_request_costs_more_and_not_if_it_answers_more_of_them() {
    let Some(services) = Services::new() else { return };
    // The newer one is asked twice as often.
    let recipe = services.recipe().replace("--seconds 10", "--seconds 1");
    let rate = "--rate $(test $version = new && echo 100 || echo 50)";
    let recipe = recipe.replace("--rate 200", rate).replace("run>10%", "run>30%");
    services.make("old", "4");
    for (cost, status) in [("4", 0), ("8", 3)] {
        services.make("new", cost);
        let done = services.runner.run(&recipe);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(status), "{cost} ms: {said}{}", String::from_utf8_lossy(&done.stdout));
    }
}

#[test]
fn the_script_for_other_services_tells_slower_from_not_slower_and_from_no_result() {
    let runner = Runner::new();
    runner.checkout("old", 30_000);
    runner.checkout("slow", 120_000);
    let script = with_few_runs(&commands(&guide("ci.md"), "## Other services"));
    fs::write(runner.0.path().join("compare.sh"), script).unwrap();
    let status = |candidate: &str| {
        let done = runner.run(&format!("sh compare.sh old {candidate}"));
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    let text = |text: &str| format!("{text}\n");
    assert_eq!(status("slow"), (Some(3), text("slower; report.md starts with the failed gates")));
    // A host that becomes busy meanwhile makes the same program slower.
    let not_slower = (Some(0), text("not slower; report.md has the comparison"));
    assert!((0..3).any(|_| status("old") == not_slower));
    assert_eq!(status("none"), (Some(1), text("cannot compare")));
}

#[test]
fn the_readme_records_a_command_and_compares_it_with_another() {
    let dir = tempfile::tempdir().unwrap();
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let lines = commands(&readme, "keep the window in a file");
    let lines = lines.lines().take_while(|line| line.starts_with("ctprof")).collect::<Vec<_>>().join("\n");
    assert_eq!(lines.lines().count(), 3, "{lines}");
    let last_week = "ctprof record -q -o last-week.ctprof.zst -- true\n";
    let shown = succeeded(&run(dir.path(), &[last_week, &lines.replace("-- make -j8", "-- sleep 0.01")].concat()));
    assert!(shown.contains("command    sleep 0.01: exit status 0") && shown.contains("baseline "), "{shown}");
}

#[test]
fn every_command_of_the_privacy_guide_works() {
    let dir = tempfile::tempdir().unwrap();
    succeeded(&run(dir.path(), &commands(&guide("privacy.md"), "## Redacted snapshots")));
    let shown = succeeded(&run(dir.path(), "ctprof show before.ctprof.zst --group-by comm --format csv"));
    assert!(!shown.contains("bash"), "{shown}");
}

#[test]
fn redacted_captures_under_one_key_compare_and_tell_no_names() {
    let dir = tempfile::tempdir().unwrap();
    let commands = "export CTPROF_REDACT_KEY=k
        cp $(command -v sleep) secretive
        ./secretive 9.5 & pid=$!
        sleep 0.2
        ctprof capture -q --redact --pid $pid -o before.ctprof.zst
        ctprof capture -q --redact --pid $pid -o after.ctprof.zst
        ctprof compare before.ctprof.zst after.ctprof.zst --unchanged --limit 0 --format csv";
    let compared = succeeded(&run(dir.path(), commands));
    assert!(!compared.contains("secretive"), "{compared}");
    assert!(compared.lines().count() > 20 && !compared.contains("only in"), "{compared}");
}
