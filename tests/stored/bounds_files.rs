//! Files that are small on disk and large in memory: each kind of record that a snapshot has, repeated up to
//! `--max-snapshot-bytes`, in every command and format.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Missing, skipped};

/// `--max-snapshot-bytes`: memory in proportion to it stands out from what ctprof takes anyway.
const LIMIT: usize = 4 << 20;
/// How much more memory than this many times the limit is too much.
const TIMES: u64 = 4;

/// A kind of record, and which snapshot has it: the first or the second of a comparison.
type Kind = (&'static str, fn(usize, u8) -> Snapshot);

/// The JSON of a snapshot in three parts, each without the commas around it.
#[derive(Default)]
struct Snapshot {
    /// Fields of `capture`.
    capture: String,
    /// Fields before the threads.
    head: String,
    /// Lines.
    threads: Vec<String>,
    /// Fields after the threads.
    tail: String,
}

impl Snapshot {
    fn head(head: String) -> Self {
        Self { head, ..Self::default() }
    }

    fn tail(tail: String) -> Self {
        Self { tail, ..Self::default() }
    }

    fn threads(threads: Vec<String>) -> Self {
        Self { threads, ..Self::default() }
    }

    fn json(&self, side: u8) -> String {
        let Self { capture, head, threads, tail } = self;
        let comma = |fields: &str| if fields.is_empty() { "" } else { "," };
        let host = "\"host\":{\"boot_id\":\"b\",\"clock_ticks_per_second\":100}";
        let head = &if head.contains("\"host\"") { head.clone() } else { format!("{host}{}{head}", comma(head)) };
        let second = u64::from(side) * 1_000_000_000;
        format!(
            "{{\"format_version\":2,\"captured_at_unix_ns\":{second},\"capture\":{{\"tool\":\"ctprof\",\
             \"monotonic_ns\":{second},\"boottime_ns\":{second}{}{capture}}}{}{head},\"threads\":[\n{}\n]{}{tail}}}",
            comma(capture),
            comma(head),
            threads.join(",\n"),
            comma(tail),
        )
    }
}

/// As many parts as fit, separated by commas.
fn filled(bytes: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(bytes);
    for number in 0.. {
        let next = part(number);
        if text.len() + next.len() + 1 > bytes {
            break;
        }
        if number > 0 {
            text.push(',');
        }
        text.push_str(&next);
    }
    text
}

/// As many copies as fit, separated by commas.
fn repeated(bytes: usize, part: &str) -> String {
    let mut text = format!("{part},").repeat(bytes / (part.len() + 1));
    text.pop();
    text
}

/// Short names that differ in more than digits.
fn name(mut number: usize) -> String {
    let mut name = String::new();
    for _ in 0..5 {
        name.push(char::from(b'a' + u8::try_from(number % 26).unwrap()));
        number /= 26;
    }
    name
}

fn numbers(bytes: usize) -> String {
    filled(bytes, |number| format!("\"{}\":{number}", name(number)))
}

fn window(fields: &str) -> Snapshot {
    Snapshot::head(format!(
        "\"window\":{{\"started_at_unix_ns\":1,\"duration_ns\":1000000000,\"process_counters\":true,{fields}}}"
    ))
}

fn in_capture(fields: String) -> Snapshot {
    Snapshot { capture: fields, ..Snapshot::default() }
}

fn host(fields: &str) -> Snapshot {
    Snapshot::head(format!("\"host\":{{\"boot_id\":\"b\",\"clock_ticks_per_second\":100,{fields}}}"))
}

fn failures(fields: &str) -> Snapshot {
    Snapshot::tail(format!("\"parse_summary\":{{\"read_failures\":1,{fields}}}"))
}

fn one_thread(fields: &str, side: u8) -> Snapshot {
    let ticks = u32::from(side) + 1;
    Snapshot::threads(vec![format!("{{\"tid\":1,\"tgid\":1,{fields},\"run_time_ns\":{ticks}000000}}")])
}

/// So many threads, with these fields.
fn threads(count: usize, fields: impl Fn(usize) -> String) -> Snapshot {
    let each = |number| format!("{{\"tid\":{number},\"tgid\":{number},{}}}", fields(number));
    Snapshot::threads((1..=count).map(each).collect())
}

/// Counters of a thread, as they are in real captures.
fn counters(number: usize, side: u8) -> String {
    let factor = number % 7 + usize::from(side);
    let names = ["run_time_ns", "wait_time_ns", "timeslices", "minflt", "majflt", "rchar", "wchar", "voluntary_csw"];
    let mut text = String::new();
    for (place, name) in names.iter().enumerate() {
        let _ = write!(text, "\"{name}\":{},", 1000 * (place + 1) * (factor + 1));
    }
    text + "\"utime_clock_ticks\":5,\"start_time_clock_ticks\":7"
}

/// One long text.
const TEXTS: &[Kind] = &[
    ("one argument", |n, _| window(&format!("\"command\":{{\"arguments\":[\"{}\"],\"elapsed_ns\":5}}", "x".repeat(n)))),
    ("host name", |n, _| host(&format!("\"hostname\":\"{}\"", "x".repeat(n)))),
    ("host name that steers", |n, _| host(&format!("\"hostname\":\"{}\"", "\\u001b".repeat(n / 6)))),
    ("kernel command line", |n, _| host(&format!("\"kernel_cmdline\":\"{}\"", "x ".repeat(n / 2)))),
    ("tunable", |n, side| host(&format!("\"sched_tunables\":{{\"a\":\"{}{side}\"}}", "x".repeat(n)))),
    ("thread name", |n, side| one_thread(&format!("\"pcomm\":\"a\",\"comm\":\"{}\"", "x".repeat(n)), side)),
    ("thread name of numbers", |n, side| one_thread(&format!("\"comm\":\"{}\"", "1-".repeat(n / 2)), side)),
    ("process name", |n, side| one_thread(&format!("\"comm\":\"a\",\"pcomm\":\"{}\"", "x".repeat(n)), side)),
    ("cgroup of a thread", |n, side| {
        one_thread(&format!("\"comm\":\"a\",\"cgroup\":\"{}\"", "/c".repeat(n / 2)), side)
    }),
    ("policy", |n, side| one_thread(&format!("\"comm\":\"a\",\"policy\":\"{}{side}\"", "x".repeat(n)), side)),
    ("cgroup with values", |n, side| {
        Snapshot::tail(format!("\"cgroup_stats\":{{\"/{}\":{{\"cpu\":{{\"usage_usec\":{side}}}}}}}", "c".repeat(n)))
    }),
    ("state of sched_ext", |n, side| {
        Snapshot::tail(format!("\"sched_ext\":{{\"state\":\"{}{side}\"}}", "x".repeat(n)))
    }),
    ("usual name", |n, _| Snapshot {
        head: format!("\"usual\":{{\"pcomm\":\"{}\"}}", "x".repeat(n - 4000)),
        threads: (1..100).map(|tid| format!("{{\"tid\":{tid},\"tgid\":{tid}}}")).collect(),
        ..Snapshot::default()
    }),
];

/// One list or map of many short values.
const LISTS: &[Kind] = &[
    ("arguments", |n, _| window(&format!("\"command\":{{\"arguments\":[{}],\"elapsed_ns\":5}}", repeated(n, "\"\"")))),
    ("metrics that went backwards", |n, _| window(&format!("\"backwards\":{{{}}}", numbers(n)))),
    ("tunables", |n, side| {
        host(&format!("\"sched_tunables\":{{{}}}", filled(n, |number| format!("\"{}\":\"{side}\"", name(number)))))
    }),
    ("governors", |n, side| {
        host(&format!("\"cpufreq_governor\":{{{}}}", filled(n, |number| format!("\"{number}\":\"{side}\""))))
    }),
    ("capabilities", |n, _| in_capture(format!("\"capabilities\":[{}]", repeated(n, "\"\"")))),
    ("metrics that BPF lacks", |n, _| {
        let dropped = repeated(n, "\"\"");
        in_capture(format!("\"bpf\":{{\"setup_ns\":1,\"missed_processes\":0,\"dropped\":[{dropped}]}}"))
    }),
    ("CPUs of a thread", |n, side| {
        one_thread(&format!("\"comm\":\"a\",\"cpu_affinity\":[{}]", filled(n, |number| (2 * number).to_string())), side)
    }),
    ("memory of a process", |n, side| {
        one_thread(&format!("\"comm\":\"a\",\"smaps_rollup_kib\":{{{}}}", numbers(n)), side)
    }),
    ("memory of a cgroup", |n, side| {
        let numbers = filled(n, |number| format!("\"{}\":{}", name(number), number + usize::from(side)));
        Snapshot::tail(format!("\"cgroup_stats\":{{\"/a\":{{\"memory\":{{\"stat\":{{{numbers}}}}}}}}}"))
    }),
    ("events of a cgroup", |n, side| {
        let numbers = filled(n, |number| format!("\"{}\":{}", name(number), number + usize::from(side)));
        Snapshot::tail(format!("\"cgroup_stats\":{{\"/a\":{{\"memory\":{{\"events\":{{{numbers}}}}}}}}}"))
    }),
    ("files that cannot be read", |n, _| failures(&format!("\"read_failures_by_file\":{{{}}}", numbers(n)))),
    ("errors of a file", |n, _| {
        failures(&format!(
            "\"read_failures_by_file\":{{\"io\":1}},\"read_failures_by_errno\":{{\"io\":{{{}}}}}",
            numbers(n)
        ))
    }),
    ("names of processes that cannot be read", |n, _| {
        let names = repeated(n, "\"\"");
        failures(&format!("\"read_failures_by_file\":{{\"io\":1}},\"unread_names\":{{\"io\":[{names}]}}"))
    }),
    ("failures of the probe", |n, _| {
        Snapshot::tail(format!("\"probe_summary\":{{\"tgids_walked\":1,\"failures\":{{{}}}}}", numbers(n)))
    }),
    ("columns", |n, _| Snapshot {
        head: format!("\"usual\":{{\"columns\":[{}]}}", repeated(n, "[]")),
        threads: vec!["{\"tid\":1,\"tgid\":1}".into()],
        ..Snapshot::default()
    }),
    ("names of a column", |n, _| Snapshot {
        head: format!("\"usual\":{{\"columns\":[[{}]]}}", repeated(n, "\"\"")),
        threads: vec!["{\"tid\":1,\"tgid\":1}".into()],
        ..Snapshot::default()
    }),
    ("containers", |n, _| {
        Snapshot::head(format!("\"containers\":{{{}}}", filled(n, |number| format!("\"/{}\":{{}}", name(number)))))
    }),
    ("reasons", |n, _| Snapshot::head(format!("\"reasons\":{{\"reasons\":[{}]}}", repeated(n, "{}")))),
    ("threads with reasons", |n, _| Snapshot::head(format!("\"reasons\":{{\"threads\":[{}]}}", repeated(n, "{}")))),
    ("times of reasons", |n, _| {
        let times = repeated(n, "[0,0,1,9]");
        Snapshot::head(format!("\"reasons\":{{\"threads\":[{{}}],\"reasons\":[{{}}],\"times\":[{times}]}}"))
    }),
    ("functions of a reason", |n, _| {
        let functions = repeated(n, "\"\"");
        Snapshot::head(format!("\"reasons\":{{\"reasons\":[{{\"functions\":[{functions}]}}]}}"))
    }),
    ("what no version knows", |n, _| Snapshot::tail(format!("\"new\":[{}]", repeated(n, "[]")))),
];

fn named_threads(count: usize, side: u8) -> Snapshot {
    threads(count, |number| format!("\"pcomm\":\"p\",\"comm\":\"{}\",{}", name(number), counters(number, side)))
}

fn named_processes(count: usize, side: u8) -> Snapshot {
    threads(count, |number| format!("\"pcomm\":\"{0}\",\"comm\":\"{0}\",{1}", name(number), counters(number, side)))
}

fn threads_in_cgroups(count: usize, side: u8) -> Snapshot {
    let cgroup = |number| format!("\"cgroup\":\"/a/{0}\",\"comm\":\"{0}\",{1}", name(number), counters(number, side));
    threads(count, cgroup)
}

fn processes_with_memory(count: usize, side: u8) -> Snapshot {
    let memory = |number| format!("\"{0}\":1,\"Pss\":{1}", name(number), number + usize::from(side));
    threads(count, |number| {
        let values = counters(number, side);
        format!("\"comm\":\"{}\",{values},\"smaps_rollup_kib\":{{{}}}", name(number), memory(number))
    })
}

fn cgroups_with_values(count: usize, side: u8) -> Snapshot {
    let value = |number| {
        format!("\"cpu\":{{\"usage_usec\":{}}},\"memory\":{{\"current\":{number}}}", number * 7 + usize::from(side))
    };
    let cgroup = |number| format!("\"/{}\":{{{}}}", name(number), value(number));
    let cgroups: Vec<_> = (1..=count).map(cgroup).collect();
    Snapshot { tail: format!("\"cgroup_stats\":{{{}}}", cgroups.join(",")), ..threads_in_cgroups(1, side) }
}

/// Many threads or cgroups.
const ROWS: &[Kind] = &[
    ("threads without a name", |n, _| threads(n / 1024, |_| "\"comm\":\"\"".into())),
    ("named threads", |n, side| named_threads(n / 1024, side)),
    ("named processes", |n, side| named_processes(n / 1024, side)),
    ("threads in cgroups", |n, side| threads_in_cgroups(n / 1024, side)),
    ("processes with memory", |n, side| processes_with_memory(n / 1024, side)),
    ("cgroups without values", |n, _| {
        let cgroups: Vec<_> = (1..n / 1024).map(|number| format!("\"/{}\":{{}}", name(number))).collect();
        Snapshot::tail(format!("\"cgroup_stats\":{{{}}}", cgroups.join(",")))
    }),
    ("cgroups with values", |n, side| cgroups_with_values(n / 1024, side)),
];

/// As many as have to be read: in every command and format; with the default limit 16,384 names and 131,072 cgroups.
const REAL: &[Kind] = &[
    ("real threads", |n, side| named_threads(n >> 16, side)),
    ("real processes", |n, side| named_processes(n >> 16, side)),
    ("real threads in cgroups", |n, side| threads_in_cgroups(n >> 16, side)),
    ("real processes with memory", |n, side| processes_with_memory(n >> 16, side)),
    ("real cgroups", |n, side| cgroups_with_values(n >> 13, side)),
];

/// The JSON of a kind, in at most that many bytes.
fn json((_, snapshot): Kind, bytes: usize, side: u8) -> String {
    snapshot(bytes - (16 << 10), side).json(side)
}

/// What measures ctprof, and where.
struct Bench {
    directory: tempfile::TempDir,
    measure: PathBuf,
}

/// What a run of ctprof cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    status: i32,
    peak_bytes: u64,
    cpu_us: u64,
    printed_bytes: u64,
}

/// Files of one kind.
struct Files {
    directory: PathBuf,
}

/// The program that measures what another one costs, built in this directory; `None` without a C compiler.
pub(crate) fn measure(directory: &Path) -> Option<PathBuf> {
    let measure = directory.join("measure");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/measure.c");
    match Command::new("cc").arg("-o").arg(&measure).arg(source).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            skipped(Missing::Tool(format!("cc: {error}")));
            return None;
        }
    }
    Some(measure)
}

impl Bench {
    /// `None` without a C compiler.
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let measure = measure(directory.path())?;
        Some(Self { directory, measure })
    }

    /// Two snapshots of a kind, and a directory with both.
    fn files(&self, kind: Kind, bytes: usize) -> Files {
        let directory = self.directory.path().join(format!("{} {bytes}", kind.0));
        fs::create_dir_all(directory.join("runs")).unwrap();
        for side in [1, 2] {
            let json = json(kind, bytes, side);
            assert!(json.len() <= bytes, "{}: {}", kind.0, json.len());
            let compressed = zstd::encode_all(json.as_bytes(), 1).unwrap();
            fs::write(directory.join(format!("{side}.zst")), &compressed).unwrap();
            fs::write(directory.join(format!("runs/{side}.ctprof.zst")), compressed).unwrap();
        }
        Files { directory }
    }

    /// A series.
    fn series(&self, name: &str, json: &str) -> Files {
        assert!(json.len() <= LIMIT, "{name}: {}", json.len());
        let directory = self.directory.path().join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("1.zst"), zstd::encode_all(json.as_bytes(), 1).unwrap()).unwrap();
        Files { directory }
    }

    fn run(&self, files: &Files, command: &str) -> Cost {
        let place = |word: &str| match word {
            "A" => files.directory.join("1.zst"),
            "B" => files.directory.join("2.zst"),
            "RUNS" => files.directory.join("runs"),
            "OUT" => files.directory.join("out"),
            _ => word.into(),
        };
        let _ = fs::remove_dir_all(files.directory.join("out"));
        let ctprof = std::env::var_os("CTPROF_ATTACKED").unwrap_or(env!("CARGO_BIN_EXE_ctprof").into());
        let mut measured = Command::new(&self.measure);
        measured.arg("20").arg(ctprof).args(command.split(' ').map(place));
        let output = measured.args(["--max-snapshot-bytes", &LIMIT.to_string()]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<i64> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [status, peak_kib, cpu_us, printed] = numbers[..] else { panic!("{said}") };
        assert!(status != 127, "ctprof is not there");
        Cost {
            status: status.try_into().unwrap(),
            peak_bytes: u64::try_from(peak_kib).unwrap() << 10,
            cpu_us: cpu_us.try_into().unwrap(),
            printed_bytes: printed.try_into().unwrap(),
        }
    }
}

/// Every command that reads snapshots, in every format. `A` and `B` are snapshots, `RUNS` is a directory of both.
const COMMANDS: &[&str] = &[
    "show A --long -f csv -g thread",
    "show A B -f markdown",
    "compare A B",
    "compare A B -f json -g thread",
    "compare A B -f html -g all --fail-on *:run>10%",
    "compare RUNS RUNS -f csv -g process",
    #[cfg(feature = "parquet")]
    "export A -o OUT",
];

/// Whether files may be refused.
#[derive(Clone, Copy, PartialEq)]
enum Refusal {
    Allowed,
    Fault,
}

fn memory_is_bounded(kinds: &[Kind], refusal: Refusal) {
    let Some(bench) = Bench::new() else { return };
    let empty = bench.files(("empty", |_, _| Snapshot::default()), LIMIT);
    let least: Vec<_> = COMMANDS.iter().map(|command| bench.run(&empty, command).peak_bytes).collect();
    let mut broken = Vec::new();
    for &kind in kinds {
        let files = bench.files(kind, LIMIT);
        for (command, least) in COMMANDS.iter().zip(&least) {
            let Cost { status, peak_bytes, .. } = bench.run(&files, command);
            let times = peak_bytes.saturating_sub(*least) as f64 / LIMIT as f64;
            let ended = matches!(status, 0 | 3) || status == 1 && refusal == Refusal::Allowed;
            if times > TIMES as f64 || !ended {
                broken.push(format!("{}: {command}: {times:.1} times the limit, status {status}", kind.0));
            }
        }
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn a_long_text_takes_memory_in_proportion_to_the_limit_of_files() {
    memory_is_bounded(TEXTS, Refusal::Allowed);
}

#[test]
fn many_short_values_take_memory_in_proportion_to_the_limit_of_files() {
    memory_is_bounded(LISTS, Refusal::Allowed);
}

#[test]
fn many_threads_and_cgroups_take_memory_in_proportion_to_the_limit_of_files() {
    memory_is_bounded(ROWS, Refusal::Allowed);
}

#[test]
fn what_real_captures_have_is_read_in_memory_in_proportion_to_the_limit_of_files() {
    memory_is_bounded(REAL, Refusal::Fault);
}

#[test]
fn the_time_for_a_file_is_in_proportion_to_its_size() {
    let Some(bench) = Bench::new() else { return };
    let mut broken = Vec::new();
    for &kind in LISTS.iter().chain(REAL) {
        let [small, large] = [LIMIT / 4, LIMIT].map(|bytes| bench.files(kind, bytes));
        for command in ["show A B -f markdown", "compare A B -f json -g cgroup", "compare A B -f html -g all --why"] {
            let [small, large] = [&small, &large].map(|files| bench.run(files, command).cpu_us);
            // With room for a busy machine: squared, it would be 16 times.
            if large > 8 * small + 300_000 {
                broken.push(format!("{}: {command}: {small} us for a quarter, {large} us", kind.0));
            }
        }
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

fn clocks(ns: usize) -> String {
    format!("\"capture\":{{\"monotonic_ns\":{ns},\"boottime_ns\":{ns}}}")
}

/// The first capture of a series, with so many processes that have one of so many names.
fn first_capture(threads: usize, names: usize) -> String {
    let thread = |id| {
        let name = name(id % names);
        format!(
            "{{\"tid\":{id},\"tgid\":{id},\"pcomm\":\"{name}\",\"comm\":\"{name}\",\"start_time_clock_ticks\":0,\"run_time_ns\":1}}"
        )
    };
    format!(
        "{{\"series\":{{}},\"format_version\":4,\"captured_at_unix_ns\":1000000000,{},\
         \"host\":{{\"boot_id\":\"b\",\"clock_ticks_per_second\":100}},\"threads\":[{}]}}\n",
        clocks(1_000_000_000),
        list(threads, &thread),
    )
}

/// What the function gives for 1 up to `last`, separated by commas.
fn list(last: usize, item: &dyn Fn(usize) -> String) -> String {
    (1..=last).map(item).collect::<Vec<_>>().join(",")
}

/// A step of a second, with these members of its head and of itself.
fn step(head: &str, members: &str) -> String {
    let comma = if head.is_empty() { "" } else { "," };
    format!("{{\"head\":{{\"captured_at_unix_ns\":1000000000,{}{comma}{head}}},{members}}}\n", clocks(1_000_000_000))
}

/// A step in which the threads of [`first_capture`] ran.
fn step_of_threads(threads: usize) -> String {
    let (rows, zeros, runs) = (
        list(threads, &|tid| format!("[{tid},{tid}]")),
        list(threads, &|_| "0".to_owned()),
        list(threads, &|tid| format!("{}", 1000 * tid)),
    );
    let columns = format!("\"rows\":[{rows}],\"read_at_ns\":[{zeros}],\"metrics\":{{\"run_time_ns\":[{runs}]}}");
    step("", &format!("\"threads\":{{{columns}}}"))
}

/// A series with so many steps, in each of which so many threads of 100 names ran.
fn series(steps: usize, threads: usize) -> String {
    first_capture(threads, 100) + &step_of_threads(threads).repeat(steps)
}

/// A series of steps that a function makes of their number, up to so many bytes.
fn filled_series(bytes: usize, mut series: String, next: impl Fn(usize) -> String) -> String {
    for number in 0.. {
        let step = next(number);
        if series.len() + step.len() > bytes {
            break;
        }
        series.push_str(&step);
    }
    series
}

/// Makes a series of about so many bytes.
type SeriesOf = fn(usize) -> String;

/// Kinds of what a series repeats.
const SERIES: &[(&str, SeriesOf)] = &[
    ("a column of a step", |bytes| {
        let zeros = repeated(bytes - 1024, "0");
        first_capture(1, 1) + &step("", &format!("\"threads\":{{\"rows\":[],\"read_at_ns\":[{zeros}]}}"))
    }),
    ("a column without a metric", |bytes| {
        let zeros = repeated(bytes - 1024, "0");
        first_capture(1, 1) + &step("", &format!("\"threads\":{{\"metrics\":{{\"run_time_ns\":[{zeros}]}}}}"))
    }),
    ("reasons of all steps", |bytes| {
        filled_series(bytes, first_capture(1, 1), |number| {
            let reasons = list(200, &|n| format!("{{\"class\":\"sleep\",\"entry\":\"{}\"}}", name(200 * number + n)));
            let times = list(200, &|n| format!("[0,{},1,1]", n - 1));
            let reasons = format!("{{\"threads\":[{{\"pcomm\":\"a\"}}],\"reasons\":[{reasons}],\"times\":[{times}]}}");
            step("", &format!("\"threads\":{{}},\"reasons\":{reasons}"))
        })
    }),
    ("processes with reasons of all steps", |bytes| {
        filled_series(bytes, first_capture(1, 1), |number| {
            let threads = list(200, &|n| format!("{{\"tgid\":{n},\"pcomm\":\"{}\"}}", name(200 * number + n)));
            let times = list(200, &|n| format!("[{},0,1,1]", n - 1));
            let reasons =
                format!("{{\"threads\":[{threads}],\"reasons\":[{{\"class\":\"sleep\"}}],\"times\":[{times}]}}");
            step("", &format!("\"threads\":{{}},\"reasons\":{reasons}"))
        })
    }),
    ("names in all parts", |bytes| {
        let threads = bytes / 16_384;
        filled_series(bytes, first_capture(threads, threads), |_| step_of_threads(threads))
    }),
    ("threads in all parts", |bytes| {
        let threads = bytes / 4096;
        filled_series(bytes, first_capture(threads, 1), |_| step_of_threads(threads))
    }),
    ("threads that exited in all steps", |bytes| {
        filled_series(bytes, first_capture(1, 1), |number| {
            let thread = |n| {
                let (tid, name) = (200 * number + n, name(200 * number + n));
                format!("{{\"tid\":{tid},\"tgid\":{tid},\"pcomm\":\"{name}\",\"comm\":\"{name}\"}}")
            };
            let [zeros, rows] = ["0", "{\"ppid\":1,\"started_monotonic_ns\":1,\"elapsed_ns\":1}"]
                .map(|item| repeated(200 * (item.len() + 1), item));
            let threads = format!("{{\"rows\":[{}],\"read_at_ns\":[{zeros}]}}", list(200, &thread));
            step("", &format!("\"threads\":{{}},\"exits\":{{\"threads\":{threads},\"rows\":[{rows}]}}"))
        })
    }),
    ("threads that come and go", |bytes| {
        filled_series(bytes, first_capture(1, 1), |number| {
            let id = |n| 200 * number + n + 2;
            let thread = |n| format!("{{\"tid\":{},\"tgid\":{},\"pcomm\":\"{}\"}}", id(n), id(n), name(id(n)));
            let exited = if number == 0 { String::new() } else { list(200, &|n| format!("[{0},{0}]", id(n) - 200)) };
            let zeros = repeated(400, "0");
            let rows = list(200, &thread);
            step("", &format!("\"threads\":{{\"rows\":[{rows}],\"read_at_ns\":[{zeros}]}},\"gone\":[{exited}]"))
        })
    }),
    ("cgroups that come and go", |bytes| {
        filled_series(bytes, first_capture(1, 1), |number| {
            let cgroup = |n| format!("\"/{}\":{{\"cpu\":{{\"usage_usec\":1}}}}", name(200 * number + n));
            let new = |n| format!("\"/{}\":[{{\"cpu\":{{\"usage_usec\":1}}}}]", name(200 * number + n));
            let old = |n| format!("\"/{}\":null", name(200 * (number - 1) + n));
            let cgroups = match number {
                0 => format!("\"cgroup_stats\":[{{{}}}]", list(200, &cgroup)),
                _ => format!("\"cgroup_stats\":{{{},{}}}", list(200, &new), list(200, &old)),
            };
            step(&cgroups, "\"threads\":{}")
        })
    }),
];

#[test]
fn what_a_series_repeats_takes_memory_in_proportion_to_the_limit_of_files() {
    let Some(bench) = Bench::new() else { return };
    let commands = ["show A", "show A -f html -g all", "compare A A -g thread"];
    let empty = bench.series("empty", &series(2, 1));
    let least = commands.map(|command| bench.run(&empty, command).peak_bytes);
    let mut broken = Vec::new();
    for (kind, series) in SERIES {
        let json = series(LIMIT);
        assert!((LIMIT / 2..=LIMIT).contains(&json.len()), "{kind}: {}", json.len());
        let files = bench.series(kind, &json);
        for (command, least) in commands.iter().zip(least) {
            let Cost { status, peak_bytes, .. } = bench.run(&files, command);
            let times = peak_bytes.saturating_sub(least) as f64 / LIMIT as f64;
            if times > TIMES as f64 || !matches!(status, 0 | 1) {
                broken.push(format!("{kind}: {command}: {times:.1} times the limit, status {status}"));
            }
        }
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn the_time_for_a_series_is_in_proportion_to_its_steps_and_to_its_threads() {
    let Some(bench) = Bench::new() else { return };
    let files = |steps, threads| bench.series(&format!("{steps} {threads}"), &series(steps, threads));
    let mut broken = Vec::new();
    for (what, small, large) in [("steps", files(100, 20), files(400, 20)), ("threads", files(5, 1000), files(5, 4000))]
    {
        for command in ["show A", "show A --steps -f csv", "show A -f html -g all", "compare A A -g thread"] {
            let [small, large] = [&small, &large].map(|files| bench.run(files, command));
            assert_eq!([small.status, large.status], [0; 2], "{command}");
            if large.cpu_us > 8 * small.cpu_us + 300_000 {
                broken.push(format!("{what}: {command}: {} us for a quarter, {} us", small.cpu_us, large.cpu_us));
            }
        }
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn a_long_text_is_not_printed_in_every_row() {
    let Some(bench) = Bench::new() else { return };
    let mut broken = Vec::new();
    for &kind in TEXTS.iter().chain(LISTS) {
        let files = bench.files(kind, LIMIT);
        for command in ["show A --long -f csv -g thread", "compare A B -f json -g all", "compare A B -f html -g thread"]
        {
            let times = bench.run(&files, command).printed_bytes as f64 / LIMIT as f64;
            if times > TIMES as f64 {
                broken.push(format!("{}: {command}: prints {times:.1} times the limit", kind.0));
            }
        }
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}
