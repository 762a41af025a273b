//! Promises to users about reports as HTML, in a real browser.

use crate::stored::program::{printed, run};
use crate::support::{Missing, skipped};
use std::fs;
use std::path::Path;

use ctprof::compare::{CompareOptions, Digest, GroupBy, Sides, report};
use ctprof::{CtprofSnapshot, ThreadState};
use serde_json::{Value, json};

use crate::stored::browser::Browser;
use crate::stored::reasons::{slow_database, two_pools};

const SECOND: u64 = 1_000_000_000;

/// Files of snapshots and reports.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A snapshot at this second since boot, with threads and cgroups.
    fn snapshot(&self, name: &str, second: u64, threads: &[Value], cgroups: &Value) -> String {
        let host = json!({"boot_id": "b", "hostname": "vm", "uptime_ns": second * SECOND,
                          "clock_ticks_per_second": 100, "online_cpus": 2});
        let snapshot = json!({"format_version": 1, "captured_at_unix_ns": second * SECOND, "host": host,
                              "threads": threads, "cgroup_stats": cgroups});
        self.write(name, &snapshot.to_string())
    }

    /// The address of a report.
    fn report(&self, name: &str, args: &[&str]) -> String {
        let path = self.write(name, &printed(&[args, &["--format", "html"]].concat()));
        format!("file://{path}")
    }
}

/// A thread with this run and wait time in tenths of a second.
fn thread(ids: (u32, u32), names: (&str, &str, &str), (run, wait): (u64, u64)) -> Value {
    let ((tid, tgid), (process, thread, cgroup)) = (ids, names);
    json!({"tid": tid, "tgid": tgid, "pcomm": process, "comm": thread, "cgroup": cgroup,
           "start_time_clock_ticks": 0, "run_time_ns": run * SECOND / 10, "wait_time_ns": wait * SECOND / 10,
           "voluntary_csw": run * 100, "nonvoluntary_csw": wait * 10, "minflt": run, "majflt": 0})
}

/// A database that waits for the CPU since a compressor runs, in two cgroups.
fn pair(files: &Files) -> [String; 2] {
    let database = |busy: u64, wait: u64| {
        let main = thread((10, 10), ("database", "database", "/db"), (busy, wait));
        let pool =
            (11..14).map(|tid| thread((tid, 10), ("database", &format!("io-{tid}"), "/db"), (busy / 4, wait / 4)));
        let idle = thread((20, 20), ("idle", "idle", "/db"), (1, 0));
        let logger = thread((30, 30), ("logger", "logger", "/batch"), (busy / 2, 1));
        [main, idle, logger].into_iter().chain(pool).collect::<Vec<_>>()
    };
    let cgroups = |current: u64, throttled: u64| {
        json!({"/db": {"cpu": {"usage_usec": current / 10, "nr_periods": 4 * throttled, "nr_throttled": throttled},
                       "memory": {"current": current, "max": 10_000_000}},
               "/batch": {"memory": {"current": 5, "max": "max"}}})
    };
    let mut compressor = thread((40, 40), ("compressor", "compressor", "/batch"), (90, 12));
    compressor["start_time_clock_ticks"] = json!(100_050);
    let after = [database(120, 80), vec![compressor]].concat();
    [
        files.snapshot("before.json", 1000, &database(40, 4), &cgroups(4_000_000, 0)),
        files.snapshot("after.json", 1010, &after, &cgroups(9_500_000, 25)),
    ]
}

/// Reports on a database that waits for its disk, and for longer than before.
fn reasons(files: &Files) -> [String; 2] {
    let [fast, slow] = [("fast.json", 1000), ("slow.json", 3000)]
        .map(|(name, fsync)| files.write(name, &slow_database(fsync).to_string()));
    [files.report("why.html", &["show", &fast]), files.report("slower.html", &["compare", &fast, &slow])]
}

#[test]
fn reasons_are_bars_of_each_group_and_a_matrix_of_who_ran_while_who_waited() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [one, two] = reasons(&files);
    browser.open(&format!("{one}#view=why"));
    let text = browser.text("main");
    for part in
        ["block: fdatasync → submit_bio_wait on /data/appendonly.aof 8.2%", "redis-benchmark ran", "3.5%", "50 Hz"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("idle 6"), "{text}");
    let rects = browser.value(
        "[...document.querySelectorAll('.why tbody tr')].map((row) => row.querySelectorAll('rect[data-says]').length)",
    );
    assert_eq!(
        rects,
        json!([7, 2, 0]),
        "redis-server waits most, and has seven reasons; what benchmarks sleep is longer than the scale"
    );
    browser.open(&format!("{two}#view=why"));
    let text = browser.text("main");
    assert!(text.contains("submit_bio_wait on /data/appendonly.aof +20pp"), "{text}");
}

/// Reports on two programs whose functions are known, and on what changed in one of them.
fn functions(files: &Files) -> [String; 2] {
    let [before, after] = [("before.json", 80), ("after.json", 320)]
        .map(|(name, flush)| files.write(name, &two_pools(flush).to_string()));
    [files.report("functions.html", &["show", &before]), files.report("changed.html", &["compare", &before, &after])]
}

#[test]
fn the_functions_behind_a_reason_are_below_it_from_the_outside_in_and_as_wide_as_their_time() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [one, two] = functions(&files);
    browser.open(&format!("{one}#view=why"));
    let frames = |group: usize| {
        format!(
            "(() => {{
                const all = document.querySelectorAll('.icicle')[{group}];
                all.closest('details').open = true;
                const left = all.getBoundingClientRect().left;
                return [...all.querySelectorAll('span')].map((one) => {{
                    const at = one.getBoundingClientRect();
                    const share = (length) => Math.round(100 * length / all.clientWidth);
                    return `${{one.textContent}} ${{share(at.left - left)}}+${{share(at.width)}}`;
                }});
            }})()"
        )
    };
    let api = ["sleep: futex 0+100", "main 0+100", "serve 0+100", "get 0+80", "take 0+80", "flush 80+20"];
    assert_eq!(browser.value(&frames(0)), json!(api), "run has no functions");
    let jobs = ["sleep: futex 0+100", "main 0+100", "[jobs+0x1a2b0: stripped] 0+100", "get 0+100", "take 0+100"];
    assert_eq!(browser.value(&frames(1)), json!(jobs), "the same reason, with functions of its own");
    assert_eq!(browser.value("document.querySelector('.icicle > ul > li').className"), "sleep", "the color of bars");
    browser.value("document.querySelector('.icicle').focus()");
    let focus = "document.activeElement.textContent";
    for (key, function) in [
        ("ArrowRight", "sleep: futex"),
        ("ArrowDown", "main"),
        ("ArrowDown", "serve"),
        ("ArrowRight", "get"),
        ("ArrowRight", "take"),
        ("ArrowRight", "flush"),
        ("ArrowUp", "serve"),
        ("ArrowLeft", "main"),
    ] {
        browser.press(key);
        assert_eq!(browser.value(focus), function, "{key}");
    }
    assert_eq!(browser.text(".tooltip"), "main90%, share of api: 90.0%");

    browser.open(&format!("{two}#view=why"));
    let sides =
        "[...document.querySelectorAll('.icicle')].slice(0, 2).map((one) => one.previousElementSibling.textContent)";
    assert_eq!(browser.value(sides), json!(["baseline", "candidate"]));
    let get = |browser: &mut Browser, side| {
        let all = frames(side);
        browser.value(&all).as_array().unwrap().iter().find(|text| text.as_str().unwrap().starts_with("get ")).cloned()
    };
    assert_eq!([0, 1].map(|side| get(&mut browser, side).unwrap()), [json!("get 20+80"), json!("get 50+50")]);
    assert_eq!(browser.console(), Vec::<Value>::new());
}

const VIEWS: [&str; 8] = ["", "time", "why", "distribution", "cgroups", "values", "host", "captures"];

/// The names of the groups in the overview, without marks.
fn groups(browser: &mut Browser) -> Vec<String> {
    browser.texts("tbody .label > a, tbody .label > span:not(.expander):not(.badge)")
}

#[test]
fn every_view_opens_without_a_message_and_without_a_request() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    let reports = [
        files.report("compare.html", &["compare", before, after]),
        files.report("tree.html", &["compare", before, after, "-g", "all"]),
        files.report("cgroup.html", &["compare", before, after, "-g", "cgroup", "-u"]),
        files.report("thread.html", &["compare", before, after, "-g", "comm-exact"]),
        files.report("window.html", &["show", before, after]),
        files.report("show.html", &["show", after]),
        files.report("metric.html", &["compare", before, after, "-m", "wait_time_ns"]),
        files.report("host.html", &["compare", before, after, "--sections", "host"]),
        files.report("same.html", &["compare", before, before]),
        reasons(&files)[1].clone(),
        functions(&files)[1].clone(),
        repeated(&files).1,
    ];
    for report in reports {
        for view in VIEWS {
            browser.open(&format!("{report}#view={view}"));
            assert_eq!(browser.console(), Vec::<Value>::new(), "{report} {view}");
            let requests = browser.requests();
            let is_of_page = |address: &&String| address.starts_with(&report) || *address == "data:,";
            assert!(requests.iter().all(|address| is_of_page(&address)), "{requests:?}");
            let texts = ["main", "h1"].map(|element| browser.text(element));
            assert!(texts.iter().all(|text| !text.is_empty()), "{report} {view}: {texts:?}");
            let wrong = "[...document.querySelectorAll('body :not(script)')].filter((one) => /undefined|NaN|Infinity/.test(one.cloneNode().outerHTML
                + [...one.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data))).map((one) => one.outerHTML)";
            assert_eq!(browser.value(wrong), json!([]), "{report} {view}");
        }
    }
}

#[test]
fn only_views_with_content_are_there_folded_below_the_overview() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [_, after] = &pair(&files);
    let views = "[...document.querySelectorAll('.folds > details')].map((view) => [view.querySelector('h2').innerText, view.open])";
    browser.open(&files.report("show.html", &["show", after]));
    let folded = json!([["cgroups", false], ["Values", false], ["Host", false], ["Captures", false]]);
    assert_eq!(browser.value(views), folded);
    browser.value("document.querySelector('#host summary').focus()");
    browser.press("Enter");
    browser.wait_until("location.hash === '#view=host'");
    assert!(browser.text("#host").contains("online_cpus"), "a keyboard opens a view");
    browser.press("Enter");
    browser.wait_until("location.hash === ''");
    browser.open(&files.report("host.html", &["show", after, "--sections", "host"]));
    assert_eq!(browser.value(views), json!([["Host", true], ["Captures", false]]), "the first view with content");
    assert_eq!(browser.console(), Vec::<Value>::new());
}

#[test]
fn groups_are_sorted_filtered_and_opened() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    browser.open(&files.report("compare.html", &["compare", before, after]));
    assert_eq!(groups(&mut browser), ["database", "compressor", "logger"], "as in the table");
    assert!(browser.text("main .note p").contains("1 idle group of 1 thread hidden "));

    browser.click("thead th:nth-child(1) button");
    assert_eq!(groups(&mut browser), ["compressor", "database", "logger"]);
    browser.click("thead th:nth-child(1) button");
    assert_eq!(groups(&mut browser), ["logger", "database", "compressor"]);
    assert_eq!(browser.value("document.querySelector('thead th').ariaSort"), "descending");
    browser.click("[data-sort=run] button");
    browser.choose("Sort columns by", "candidate");
    assert_eq!(browser.value("location.hash"), "#sort=run&by=candidate");

    browser.press("/");
    browser.insert("io-");
    assert_eq!(groups(&mut browser), ["database", "io-{N}"], "a match below opens its group");
    browser.insert("?");
    assert_eq!(groups(&mut browser), Vec::<String>::new());
    for _ in 0..4 {
        browser.press("Backspace");
    }
    browser.open(&files.report("compare.html", &["compare", before, after]));
    browser.click("tbody button.expander");
    assert_eq!(groups(&mut browser), ["database", "database", "io-{N}", "compressor", "logger"]);
    assert_eq!(browser.value("document.activeElement.getAttribute('aria-expanded')"), "true", "the focus stays");
    browser.press("ArrowLeft");
    assert_eq!(groups(&mut browser), ["database", "compressor", "logger"]);
    browser.press("ArrowDown");
    assert_eq!(browser.value("document.activeElement.textContent"), "compressor");
    browser.press("Enter");
    browser.wait_until("document.querySelector('#values').open");
    let names = "new Set([...document.querySelectorAll('#values tbody th')].map((one) => one.textContent)).size";
    assert_eq!(browser.value(names), 1);
    assert!(browser.texts("#values tbody tr").iter().any(|row| row.contains("run_time_ns")));
    browser.value("history.back()");
    browser.wait_until("!document.querySelector('#values').open");
    assert_eq!(groups(&mut browser).len(), 3, "the browser's history goes back to the overview");
    assert_eq!(browser.console(), Vec::<Value>::new());
}

#[test]
fn a_link_shows_what_the_sender_saw() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    let report = files.report("compare.html", &["compare", before, after]);
    browser.open(&format!(
        "{report}#filter=database&sort=-wait&by=candidate&theme=dark&open=%5B%22%5B%5C%22database%5C%22%5D%22%5D"
    ));
    assert_eq!(groups(&mut browser), ["database", "io-{N}", "database"]);
    assert_eq!(browser.value("document.querySelector('input[type=search]').value"), "database");
    assert_eq!(browser.value("getComputedStyle(document.documentElement).colorScheme"), "dark");
    assert_eq!(browser.value("document.querySelector('[aria-sort]').textContent"), "wait ▲");
    browser.open(&format!("{report}#view=values&group=%5B%22%2Fbatch%22%2C%22compressor%22%5D"));
    assert_eq!(browser.text("#values strong"), "/batch » compressor");
    assert!(browser.texts("#values tbody tr").iter().any(|row| row.contains("compressorrun")), "values of the tree");
    // Anyone can write a link.
    for link in [
        "view=none&sort=%00&metric=../..&group=x",
        "open=%7B%22a%22:1%7D&theme=%22",
        "view=values&group=%5B&section=x",
        "view=scatter,,&metric=primary%2Fwait_time_ns",
        "view=time&period=9..-1&metric=x",
    ] {
        browser.open(&format!("{report}#{link}"));
        assert_eq!(browser.console(), Vec::<Value>::new(), "{link}");
        assert!(!browser.text("main").is_empty());
    }
}

#[test]
fn numbers_are_those_of_other_formats() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    let recorded =
        ["a", "b"].map(|name| format!("{}/tests/fixtures/ktstr-{name}.ctprof.zst", env!("CARGO_MANIFEST_DIR")));
    let reports: [&[&str]; 4] = [
        &["compare", before, after],
        &["show", before, after],
        &["compare", &recorded[0], &recorded[1]],
        &["show", &recorded[0]],
    ];
    for args in reports {
        let markdown = printed(&[args, &["--format", "markdown", "--limit", "0", "--unchanged"]].concat());
        let mut lines =
            markdown.lines().skip_while(|line| !line.starts_with("| group")).take_while(|line| !line.is_empty());
        let columns = cells(lines.next().unwrap());
        let expected: Vec<Vec<String>> = lines.skip(1).map(cells).collect();
        browser.open(&files.report("numbers.html", &[args, &["--unchanged"]].concat()));
        let more = "[...document.querySelectorAll('main .rest button')].filter((one) => /^Show/.test(one.textContent)).at(-1)?.click()";
        browser.value(more);
        browser.value(more);
        let columns_of_page: Vec<String> = browser.texts("thead th");
        let rows = "[...document.querySelectorAll('tr[data-key]')].map((row) => [...row.children].map((cell) =>
            cell.matches('th') ? cell.querySelector('.label > :nth-child(2)').textContent
            : [...cell.querySelectorAll('span')].map((one) => one.textContent).join(' → ')))";
        let rows: Vec<Vec<String>> = serde_json::from_value(browser.value(rows)).unwrap();
        assert_eq!(rows.len(), expected.len(), "{args:?}");
        for (row, expected) in rows.iter().zip(&expected) {
            for (column, text) in columns.iter().zip(expected) {
                let Some(place) = columns_of_page.iter().position(|other| other == column) else { continue };
                assert_eq!(row[place].trim(), text.trim(), "{args:?} {column} of {}", expected[0]);
            }
        }
        assert!(columns.iter().filter(|column| columns_of_page.contains(column)).count() > 4, "{columns_of_page:?}");
    }
}

/// The cells of a line of a Markdown table.
fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\u{1}").replace('\u{2003}', "  ");
    let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().replace('\\', "").replace('\u{1}', "|"));
    cells.collect()
}

/// A report of two sides of six runs, and gates of which one fails, one passes and one has no group.
fn repeated(files: &Files) -> (Vec<String>, String) {
    let side = |name: &str, busy: u64| {
        let directory = files.0.path().join(name);
        fs::create_dir(&directory).unwrap();
        let run = |number: u64| {
            let app = thread((10, 10), ("app", "app", "/"), (busy + number, 50 + number));
            let other = thread((20, 20), ("other", "other", "/"), (100 + number, 7 * number * number));
            files.snapshot(&format!("{name}/{number}.json"), 1000, &[app, other], &json!({}));
        };
        (1..7).for_each(run);
        directory.display().to_string()
    };
    let sides = ["compare".to_owned(), side("before", 100), side("after", 150)];
    let gates = ["--fail-on", "app:run>5%", "--fail-on", "other:run>50%", "--fail-on", "none:run>5%"];
    let args: Vec<_> = sides.iter().map(String::as_str).chain(gates).chain(["--format", "html"]).collect();
    let out = run(&args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.code() == Some(3) && said.contains("gate error: none run"),
        "an error does not hide a failed gate"
    );
    let path = files.write("runs.html", &String::from_utf8(out.stdout).unwrap());
    (sides.to_vec(), format!("file://{path}"))
}

#[test]
fn a_page_begins_with_its_answer() {
    const DATABASE: &str = "database is the busiest: run 140%, wait 133% (CPU quota (throttled in 25 of 100 periods)).";
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    let [one, two] = reasons(&files);
    let mut answer = |page: &str| {
        browser.open(page);
        assert_eq!(browser.value("document.querySelector('header').children[1].className"), "answer", "before facts");
        browser.text(".answer")
    };
    assert_eq!(answer(&one), "cc1 is the busiest: run 90%.");
    assert_eq!(
        answer(&two),
        "redis-server changed most: block +20pp (fdatasync → submit_bio_wait on …/appendonly.aof +20pp)."
    );
    let sorted = files.report("sorted.html", &["show", before, after, "-s", "csw:asc"]);
    assert_eq!(answer(&sorted), DATABASE, "in whatever order");
    let compared = files.report("by.html", &["compare", before, after, "-s", "csw:asc"]);
    assert_eq!(answer(&compared), "", "the first group of another order is not the one that changed most");
    let same = files.report("same.html", &["compare", before, before]);
    assert_eq!(answer(&same), "No group changed.");
}

#[test]
fn sources_that_some_threads_have_are_partial_and_not_missing() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let capture = json!({"failures": []});
    let _ = capture;
    let path = format!("{}/tests/fixtures/ktstr-a.ctprof.zst", env!("CARGO_MANIFEST_DIR"));
    browser.open(&files.report("missing.html", &["show", &path]));
    assert_eq!(browser.texts("header dt").last().unwrap(), "missing");
}

#[test]
fn two_windows_say_what_changed_and_why_as_the_terminal_does() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [fast, slow] = [("fast.json", 1000), ("slow.json", 3000)]
        .map(|(name, fsync)| files.write(name, &slow_database(fsync).to_string()));
    let table = printed(&["compare", &fast, &slow]);
    let why_lines: Vec<_> =
        table.lines().filter_map(|line| line.trim_start().strip_prefix("why")).map(str::trim).collect();
    browser.open(&files.report("two.html", &["compare", &fast, &slow, "--unchanged"]));
    let lines = browser.texts("tr.reasons div");
    assert!(!why_lines.is_empty() && lines[..why_lines.len()] == why_lines, "{lines:?} {why_lines:?}");
    assert_eq!(browser.texts("thead th")[2], "change");
    let changes = browser.texts("td.verdict");
    assert!(changes.iter().filter(|text| !text.is_empty()).all(|text| table.contains(&**text)), "{changes:?} {table}");
    assert_eq!(browser.texts("main .rest button")[0], "Show 1 idle group");
    browser.click("main .rest button");
    browser.value("document.querySelector('tbody tr a').focus()");
    browser.press("ArrowDown");
    let focused = browser.value("document.activeElement.closest('tr').rowIndex");
    assert_eq!(
        (focused, browser.value("document.querySelectorAll('tbody tr')[1].className")),
        (json!(3), json!("reasons"))
    );
    let color = "document.querySelector('[data-value=block]').className";
    assert!(browser.value(color).as_str().unwrap().contains("more"), "block grew");
}

#[test]
fn runs_have_verdicts_intervals_and_gates() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let (sides, report) = repeated(&files);
    browser.open(&report);
    let gates = browser.texts(".gates tbody th");
    assert_eq!(gates, ["failed", "error: no group matches `none`", "passed"]);
    let answer = browser.text(".answer");
    assert!(answer.starts_with("1 gate failed, 1 could not be evaluated, 1 passed: app run +"), "{answer}");
    let bound = browser.texts(".gates rect.bound, .gates circle.candidate").len();
    assert_eq!((browser.texts(".gates .bar svg").len(), bound), (2, 14), "a gate has a dot per run, and its bound");
    let verdicts = browser.texts("td.verdict");
    assert!(verdicts[0].starts_with("run: ") && verdicts[0].contains(" worse") && verdicts.len() == 2, "{verdicts:?}");
    assert_eq!(browser.value("document.querySelectorAll('td.verdict circle.candidate').length"), 12, "a dot per run");
    let dots = browser.value("document.querySelector('td.verdict circle').getAttribute('aria-label')");
    assert_eq!(dots, "run: 10.1s, baseline, run 1");
    assert_eq!(browser.texts("td.verdict svg text")[..2], ["10.1s", "15.6s"], "the ends of the axis");
    assert_eq!(browser.value("document.querySelectorAll('main td[class~=more]').length > 0"), true);

    browser.open(&format!("{report}#view=values&section=primary"));
    let sides: Vec<&str> = sides.iter().map(String::as_str).collect();
    let columns = ["--sections", "primary", "--metrics", "group,metric,baseline,candidate,delta,%,interval,verdict"];
    let markdown = printed(&[&sides, &columns[..], &["--format", "markdown", "--limit", "0"]].concat());
    let mut expected: Vec<Vec<String>> =
        markdown.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect();
    // The page has the groups only.
    expected.retain(|row| row[0] != "all groups");
    let rows = "[...document.querySelectorAll('#values tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))";
    let mut rows: Vec<Vec<String>> = serde_json::from_value(browser.value(rows)).unwrap();
    rows.sort();
    expected.sort();
    assert!(rows.len() > 5);
    assert_eq!(rows, expected);
    assert_eq!(browser.console(), Vec::<Value>::new());
}

#[test]
fn dots_of_runs_have_the_texts_of_their_unit() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let side = |name: &str, tenths: u64| {
        let directory = files.0.path().join(name);
        fs::create_dir(&directory).unwrap();
        for number in 1..7 {
            let app = thread((10, 10), ("app", "app", "/"), (10 * tenths, 100 - 10 * tenths));
            let psi = json!({"cpu": {"some": {"avg10": 941 * tenths, "avg60": 0, "avg300": 0, "total_usec": 1}}});
            let host = json!({"boot_id": "b", "clock_ticks_per_second": 100, "online_cpus": 2});
            let snapshot = json!({"format_version": 1, "host": host, "psi": psi, "threads": [app]});
            files.write(&format!("{name}/{number}.json"), &snapshot.to_string());
        }
        directory.display().to_string()
    };
    let sides = ["compare".to_owned(), side("before", 5), side("after", 8)];
    let gates = ["app:cpu_efficiency<20pp", "app:run>1000%", "app:nonvoluntary_csw>1000%", "cpu.some.avg10>90pp"];
    let gated = gates.iter().flat_map(|gate| ["--fail-on".to_owned(), (*gate).to_owned()]);
    let args: Vec<_> = sides.iter().cloned().chain(gated).collect();
    browser.open(&files.report("dots.html", &args.iter().map(String::as_str).collect::<Vec<_>>()));
    let rows = "[...document.querySelectorAll('.gates tbody tr')].map((row) => [row.cells[3].innerText, row.cells[4].innerText, \
                ...[...row.querySelectorAll('circle')].map((dot) => dot.getAttribute('aria-label')).slice(5, 7), row.cells[2].innerText])";
    let rows: Vec<[String; 5]> = serde_json::from_value(browser.value(rows)).unwrap();
    assert_eq!(rows.len(), gates.len());
    for [baseline, candidate, first, second, metric] in rows {
        let expected =
            [format!("{metric}: {baseline}, baseline, run 6"), format!("{metric}: {candidate}, candidate, run 1")];
        assert_eq!([first, second], expected);
    }
}

#[test]
fn averages_of_a_selected_period_are_written_as_by_the_command_that_it_names() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let rates = [1_u64, 994, 9_949, 99_949, 999_400, 999_600, 9_995_000, 999_900_000];
    let series = crate::stored::changes_over_time::series_of(files.0.path(), 20, |second| {
        let mut snapshot = crate::stored::changes_over_time::capture(second);
        let thread = |(tid, rate): (u32, &u64)| {
            let mut thread = ThreadState::default();
            (thread.tid, thread.tgid, thread.pcomm) = (tid, tid, (*letters(tid)).into());
            thread.start_time_clock_ticks = Some(0);
            thread.metrics.run_time_ns = Some((rate % 1000 * second * SECOND / 1000).into());
            thread.metrics.read_bytes = Some((rate * second).into());
            thread
        };
        snapshot.threads = (1..).zip(&rates).map(thread).collect();
        snapshot
    });
    let command = ["show", &format!("{series}@5s..10s"), "--format", "markdown", "--unchanged", "--limit", "0"];
    let markdown = printed(&command);
    let table = markdown.lines().skip_while(|line| !line.starts_with("| group")).take_while(|line| !line.is_empty());
    let rows: Vec<_> = table.map(cells).collect();
    browser.open(&format!("{}#period=5..9", files.report("rates.html", &["show", &series, "--unchanged"])));
    assert_eq!(browser.text(".part code"), format!("ctprof show {series}@5s..10s"));
    for column in ["run", "read"] {
        let at = rows[0].iter().position(|heading| heading.trim_end_matches("/s") == column).unwrap();
        let texts = "[...document.querySelectorAll('.overview tbody tr')].map((row) => [row.querySelector('th').innerText.trim(),
            row.querySelector('[data-value=COLUMN]').innerText])";
        let mut texts: Vec<[String; 2]> =
            serde_json::from_value(browser.value(&texts.replace("COLUMN", column))).unwrap();
        texts.sort();
        let mut expected: Vec<_> = rows[2..].iter().map(|row| [row[0].clone(), row[at].clone()]).collect();
        expected.sort();
        assert_eq!(texts, expected, "{column}");
    }
}

#[test]
fn rounding_of_rates_carries_into_the_next_unit() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = [(1000, 0), (1001, 999_999)].map(|(second, switches)| {
        let mut one = thread((1, 1), ("one", "one", "/"), (second, 0));
        one["voluntary_csw"] = json!(switches);
        one["nonvoluntary_csw"] = json!(0);
        files.snapshot(&format!("{second}.json"), second, &[one], &json!({}))
    });
    browser.open(&files.report("rates.html", &["show", &before, &after]));
    let text = browser.text("main");
    assert!(text.contains("1.00M") && !text.contains("1000K"), "{text}");
}

#[test]
fn the_bar_of_the_host_claims_no_more_than_the_kernel_knows() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let mut header = |name, cpu: Value| {
        let window = json!({"duration_ns": 10 * SECOND, "cpu": cpu});
        let snapshot =
            json!({"format_version": 2, "window": window, "threads": [thread((1, 1), ("a", "a", "/"), (1, 0))]});
        let file = files.write(name, &snapshot.to_string());
        browser.open(&files.report(&format!("{name}.html"), &["show", &file]));
        browser.text("header")
    };
    let cpu = json!({"source": "idle", "cpus": 2, "busy_ns": 8 * SECOND, "explained_ns": 8 * SECOND});
    let with = |key: &str, value: Value| {
        let mut cpu = cpu.clone();
        cpu[key] = value;
        cpu
    };
    let partly_busy = header("known", cpu.clone());
    assert!(partly_busy.contains("CPUs 40% busy") && !partly_busy.contains("saturated"), "{partly_busy}");
    assert!(header("full", with("busy_ns", json!(20 * SECOND))).contains("CPUs 100% busy: saturated"));
    assert!(header("stolen", with("busy_most_ns", json!(9 * SECOND))).contains("CPUs 40 to 45% busy"));
    let container = header("container", with("partial", json!(true)));
    assert!(!container.contains("busy"), "{container}");
}

/// What a click on a button copies.
fn copied(browser: &mut Browser, selector: &str) -> String {
    browser.value("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }");
    browser.click(selector);
    browser.value("window.copied").as_str().unwrap_or_default().to_owned()
}

#[test]
fn tables_copy_as_markdown_and_as_csv_in_which_no_name_is_a_formula() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let names = ["=1+1", "@all|b", "a,\"b\"", "-5", "\u{202e}x"];
    let threads = |more: u64| {
        let each = |(tid, name): (u32, &&str)| thread((tid, tid), (name, name, "/"), (u64::from(9 - tid) * more, 1));
        (1..).zip(&names).map(each).collect::<Vec<_>>()
    };
    let [before, after] =
        [1, 2].map(|second| files.snapshot(&format!("{second}.json"), 1000 + second, &threads(second), &json!({})));
    browser.open(&files.report("copy.html", &["show", &before, &after, "-g", "pcomm", "--names", "exact"]));
    let csv = copied(&mut browser, ".rest .copy:last-child button");
    let lines: Vec<_> = csv.split("\r\n").map(|line| line.split(",1,").next().unwrap()).collect();
    assert!(csv.starts_with("group,threads,run,") && lines[0].ends_with(",why"), "{csv}");
    assert_eq!(lines[1..], ["'=1+1", "'@all|b", "\"a,\"\"b\"\"\"", "-5", "\\u{202e}x", ""]);
    let markdown = copied(&mut browser, ".rest .copy button");
    assert!(markdown.contains("| @<!-- -->all\\|b | 1 | 70% |"), "{markdown}");
    let copies = "[...document.querySelectorAll('.scroll')].every((one) => one.parentElement.querySelectorAll('.copy').length === 2)";
    for view in VIEWS {
        browser.open(&format!("{}#view={view}", reasons(&files)[1]));
        assert_eq!(browser.value(copies), true, "{view}");
    }
    assert_eq!(browser.console(), Vec::<Value>::new());
}

#[test]
fn marks_say_their_numbers_on_hover_and_on_focus() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    let shown =
        "(() => { const one = document.querySelector('.tooltip'); return one.hidden ? null : one.textContent; })()";
    let hover = |browser: &mut Browser, selector: &str| {
        let at = format!(
            "(() => {{ const at = document.querySelector({}).getBoundingClientRect(); return [at.x + at.width / 2, at.y + at.height / 2]; }})()",
            json!(selector)
        );
        let at = browser.value(&at);
        browser.call("Input.dispatchMouseEvent", &json!({"type": "mouseMoved", "x": at[0], "y": at[1]}));
        browser.value(shown)
    };
    browser.open(&files.report("compare.html", &["compare", before, after]));
    let of_segment = "database: run 7.00sbaselineTime on a CPU.";
    assert_eq!(hover(&mut browser, ".bars rect.run"), of_segment);
    assert_eq!(hover(&mut browser, "h1"), Value::Null);
    browser.value("document.querySelector('.label a').focus()");
    browser.press("ArrowRight");
    browser.press("ArrowRight");
    assert_eq!(browser.value(shown), of_segment, "arrows reach the first segment");
    browser.press("Escape");
    assert_eq!(browser.value(shown), Value::Null);
    browser.value("document.querySelector('[data-sort=csw] button').focus()");
    assert_eq!(browser.value(shown), "cswContext switches.", "a term says what it means");
    browser.open(&repeated(&files).1);
    browser.value("document.querySelector('.dots').focus()");
    browser.press("ArrowRight");
    assert_eq!(browser.value(shown), "run: 10.1sbaseline, run 1");
    browser.press("ArrowDown");
    assert_eq!(browser.value(shown), "run: 15.1scandidate, run 1");
    let series = crate::stored::changes_over_time::series(files.0.path(), 10);
    browser.open(&format!("{}#view=time", files.report("series.html", &["show", &series])));
    browser.value("document.querySelector('.plot svg').focus()");
    browser.press("ArrowRight");
    browser.press("ArrowRight");
    assert_eq!(browser.value(shown), "late: 0%1s..2stogether: 50%");
    let marks = "[...document.querySelectorAll('.marks rect:not(.shade, .capacity, .cut, .axis), .marks circle')].every((one) => one.dataset.says)";
    assert_eq!(browser.value(marks), true);
    assert_eq!(browser.console(), Vec::<Value>::new());
}

#[test]
fn no_column_moves_when_a_row_opens() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    browser.open(&files.report("open.html", &["compare", before, after, "--unchanged"]));
    let edges = "[...document.querySelectorAll('.overview thead th')].map((one) => one.getBoundingClientRect().left)";
    let closed = browser.value(edges);
    browser.value("document.querySelectorAll('button.expander').forEach((one) => one.click())");
    assert!(groups(&mut browser).contains(&"io-{N}".to_owned()));
    assert_eq!(browser.value(edges), closed);
}

#[test]
fn time_has_round_ticks_and_says_what_it_cuts() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let series = crate::stored::changes_over_time::series_of(files.0.path(), 47, |second| {
        let mut snapshot = crate::stored::changes_over_time::capture(second);
        let mut one = ThreadState::default();
        (one.tid, one.tgid, one.pcomm) = (1, 1, "one".into());
        one.start_time_clock_ticks = Some(0);
        one.metrics.run_time_ns = Some((second * SECOND / 2).into());
        // A wait of a minute is counted when it ends.
        let waited = second * SECOND / 2 + if second > 30 { 60 * SECOND } else { 0 };
        one.metrics.wait_time_ns = Some(waited.into());
        snapshot.threads = vec![one];
        snapshot
    });
    let page = files.report("ticks.html", &["show", &series, "--unchanged"]);
    browser.open(&format!("{page}#view=time&metric=overview/wait"));
    assert_eq!(browser.texts(".times .tick"), ["0s", "10s", "20s", "30s", "40s"]);
    let levels = browser.texts(".plot > .tick");
    assert_eq!(levels, ["0%", "20%", "40%", "60%"]);
    let said = browser.text(".areas .note");
    assert!(said.contains("1 of 47 parts are cut: they are up to 6050%"), "{said}");
    assert!(said.contains("in the part in which it ends"), "{said}");
}

#[test]
fn a_part_whose_value_is_unknown_is_neither_zero_nor_in_the_average() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let series = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v4-series-linux-6.12.ctprof.zst");
    let page = files.report("unknown.html", &["show", series, "--unchanged"]);
    browser.open(&format!("{page}#view=time&metric=overview/rss"));
    let average = "[...document.querySelectorAll('#time tbody tr')].find((row) => row.cells[0].textContent === 'neighbor').cells[2].textContent";
    assert_eq!(browser.value(average), "1.92MiB", "all that are known are the same");
    assert_eq!(browser.value("document.querySelector('.areas').innerHTML.includes('neighbor: 0B')"), false);
    // A key of the page, where the focus is in a view without a search field.
    browser.value("document.querySelector('#time summary').focus()");
    browser.press("/");
    browser.wait_until("document.activeElement.type === 'search'");
}

#[test]
fn hostile_names_stay_text() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let long = format!("/{}", "x".repeat(4000));
    let names = [
        "<img src=x onerror=alert(1)>",
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "a\u{2028}b\u{2029}c",
        "\u{202e}gnp.exe\u{2066}",
        "\u{61c}mark",
        "{{data}}",
        "\"'`${1}&amp;\\",
        "\u{0}\u{1f}\u{7f}\n",
        "javascript:alert(1)",
        "__proto__",
        "constructor",
        "",
        &long,
    ];
    let threads = |more: u64| {
        let each = |(place, name): (u32, &&str)| {
            thread((place, place), (name, name, name), (u64::from(place) * more, place.into()))
        };
        (1..).zip(&names).map(each).collect::<Vec<_>>()
    };
    let cgroups: serde_json::Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), json!({"memory": {"current": 5, "max": 7}}))).collect();
    let before = files.snapshot("before.json", 1000, &threads(1), &json!(cgroups));
    let after = files.snapshot("<img src=x>.json", 1010, &threads(3), &json!(cgroups));
    for axis in ["pcomm", "all", "cgroup"] {
        let report = files.report("hostile.html", &["compare", &before, &after, "-g", axis, "--names", "exact"]);
        for view in VIEWS {
            browser.open(&format!("{report}#view={view}"));
            browser.value("document.querySelectorAll('button.expander').forEach((one) => one.click())");
            assert_eq!(browser.console(), Vec::<Value>::new(), "{axis} {view}");
            assert_eq!(
                browser.value("document.querySelectorAll('img, iframe, object, script:not([id]) ~ script').length"),
                0
            );
            assert_eq!(browser.value("document.querySelectorAll('script').length"), 2, "{axis} {view}");
            assert!(browser.requests().iter().all(|address| address.starts_with(&report) || address == "data:,"));
            let text = browser.text("main");
            let steering =
                |c: char| c.is_control() || matches!(c, '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            assert!(!text.contains(steering), "{axis} {view}");
            assert_eq!(browser.value("document.documentElement.scrollWidth <= innerWidth"), true, "{axis} {view}");
        }
        browser.open(&report);
        let text = browser.text("main");
        assert!(text.contains("<img src=x onerror=alert(1)>") && text.contains("</script><script>alert(1)"), "{axis}");
        assert!(text.contains("\\u{202e}gnp.exe\\u{2066}"), "{axis}: {text}");
    }
}

#[test]
fn the_page_runs_no_script_but_its_own_and_loads_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, _] = &pair(&files);
    browser.open(&files.report("show.html", &["show", before]));
    let attempt = "new Promise((done) => {
        document.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
        setTimeout(() => done('allowed'), 2000);
        ATTEMPT })";
    let element = |code: &str| attempt.replace("ATTEMPT", code);
    let script = "const one = document.createElement('script'); one.textContent = 'window.ran = true'; document.body.append(one);";
    assert_eq!(browser.value(&element(script)), "script-src-elem");
    assert_eq!(browser.value("window.ran ?? null"), Value::Null);
    let style = "const one = document.createElement('style'); one.textContent = '*{}'; document.body.append(one);";
    assert_eq!(browser.value(&element(style)), "style-src-elem");
    assert_eq!(browser.value(&element("new Image().src = 'http://127.0.0.1:9/x.png';")), "img-src");
    assert_eq!(browser.value(&element("fetch('http://127.0.0.1:9/').catch(() => 0);")), "connect-src");
}

#[test]
fn a_phone_and_paper_have_room_for_every_view() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    let report = files.report("compare.html", &["compare", before, after]);
    browser.resize(390, 844);
    for view in VIEWS {
        browser.open(&format!("{report}#view={view}"));
        assert_eq!(browser.value("document.documentElement.scrollWidth <= 390"), true, "{view}");
    }
    browser.open(&report);
    let paper = browser.call("Page.printToPDF", &json!({"preferCSSPageSize": true}));
    let size = format!("Number(/MediaBox ?\\[0 0 ([0-9.]+)/.exec(atob({}))[1])", paper["data"]);
    // From points to CSS pixels, without margins of a centimeter.
    let width = browser.value(&size).as_f64().unwrap() * 96.0 / 72.0 - 2.0 * 37.8;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size of paper")]
    browser.resize(width as u32, 900);
    browser.call("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    let [a, b] =
        ["a", "b"].map(|name| format!("{}/tests/fixtures/ktstr-{name}.ctprof.zst", env!("CARGO_MANIFEST_DIR")));
    let reports = [
        report,
        repeated(&files).1,
        reasons(&files)[1].clone(),
        files.report("recorded.html", &["compare", &a, &b, "--unchanged"]),
    ];
    for report in reports {
        browser.open(&report);
        browser.value("dispatchEvent(new Event('beforeprint'))");
        let cut = "[...document.querySelectorAll('th, td, svg, span')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
            .map((one) => one.outerHTML)";
        assert_eq!(browser.value(cut), json!([]), "{report}");
    }
    browser.call("Emulation.setEmulatedMedia", &json!({"media": ""}));
    assert_eq!(browser.console(), Vec::<Value>::new());
}

#[test]
fn links_differ_from_text_by_more_than_their_color() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    browser.open(&files.report("compare.html", &["compare", before, after]));
    let lines = "[...document.querySelectorAll('a')].map((link) => getComputedStyle(link).textDecorationLine)";
    assert_eq!(browser.value(lines), json!(["underline", "underline", "underline"]), "a link per group");
}

/// Rules of WCAG that the page breaks, by axe-core.
const AXE: &str = "(rules) => axe.run(document, {resultTypes: ['violations'], ...rules}).then(({violations}) =>
    violations
        .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(({html, any}) => `${html} ${any.map((one) => one.message)}`).join('; ')}`))";

#[test]
fn axe_finds_no_obstacle_for_anyone() {
    let axe = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/node_modules/axe-core/axe.min.js");
    let Ok(axe) = fs::read_to_string(axe) else { return skipped(Missing::Tool("axe-core (npm --prefix web ci)")) };
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    let [one, two] = reasons(&files);
    let series = files.report("series.html", &["show", &crate::stored::changes_over_time::series(files.0.path(), 10)]);
    let reports = [
        files.report("compare.html", &["compare", before, after]),
        repeated(&files).1,
        one,
        two,
        series,
        functions(&files)[1].clone(),
    ];
    // Reasons are in the first views, and the others as without reasons.
    let views = [&VIEWS[..], &VIEWS, &VIEWS[..3], &VIEWS[..3], &VIEWS, &["why"]];
    let light = reports.iter().zip(views).map(|(report, views)| (report, views, "light", "{}"));
    // Themes differ in colors, which the views of a comparison and of a series have all of.
    let dark = [(&reports[0], &VIEWS[..]), (&reports[4], &VIEWS), (&reports[5], &["why"])];
    let dark = dark.map(|(report, views)| (report, views, "dark", "{runOnly: ['color-contrast']}"));
    for (report, views, theme, rules) in light.chain(dark) {
        for view in views {
            browser.open(&format!("{report}#view={view}&theme={theme}"));
            browser.value("document.querySelector('button.expander')?.click()");
            browser.value(&axe);
            assert_eq!(browser.value(&format!("({AXE})({rules})")), json!([]), "{report} {view} {theme}");
        }
    }
}

#[test]
fn twenty_thousand_threads_in_a_thousand_groups_are_less_than_a_mebibyte() {
    let files = Files::new();
    let threads = |more: u64| {
        let each = |place: u32| {
            let (group, number) = (place / 20, u64::from(place));
            let name = format!("{}-service", letters(group));
            let cgroup = format!("/system.slice/{name}.service");
            let ids = (place + 1, group * 20 + 1);
            thread(
                ids,
                (&name, &format!("worker-{}", place % 20), &cgroup),
                (number % 97 * more + 1, number % 89 * more),
            )
        };
        (0..20_000).map(each).collect::<Vec<_>>()
    };
    let before = files.snapshot("before.json", 1000, &threads(2), &json!({}));
    let after = files.snapshot("after.json", 1100, &threads(3), &json!({}));
    let report = printed(&["compare", &before, &after, "--format", "html"]);
    assert!(report.len() < 1 << 20, "{} bytes", report.len());
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&format!("file://{}", files.write("large.html", &report)));
    assert_eq!(browser.value("document.querySelectorAll('tbody tr').length"), 100);
    assert!(browser.text(".rest").contains("more of 900 groups"));
    let opened = browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd");
    eprintln!("opened in {opened} ms");
    assert!(opened.as_f64().unwrap() < 10_000.0, "{opened} ms, on a host that is busy with other tests");
}

#[test]
fn runs_of_four_hundred_groups_open_at_once() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let side = |name: &str, more: u64| {
        fs::create_dir(files.0.path().join(name)).unwrap();
        for run in 0..12 {
            let each = |place: u32| {
                let (name, number) = (letters(place), u64::from(place));
                thread((place + 1, place + 1), (&name, &name, "/"), (100 + number % 7 * more + run % 5, number % 11))
            };
            let threads: Vec<_> = (0..400).map(each).collect();
            files.snapshot(&format!("{name}/{run}.json"), 1000, &threads, &json!({}));
        }
        files.0.path().join(name).display().to_string()
    };
    let sides = [side("before", 1), side("after", 20)];
    let page = files.report("runs.html", &["compare", &sides[0], &sides[1], "--min-time", "0%"]);
    browser.open(&format!("{page}#view=distribution"));
    let opened = browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd");
    eprintln!("opened in {opened} ms");
    assert!(opened.as_f64().unwrap() < 10_000.0, "{opened} ms, on a host that is busy with other tests");
    assert!(browser.texts("#distribution tbody tr").len() > 100, "groups with verdicts");
}

/// A number as letters, so that names are not one pattern.
fn letters(number: u32) -> String {
    let digit = |place: u32| char::from(b'a' + u8::try_from(number / 10_u32.pow(place) % 10).unwrap());
    (0..4).map(digit).collect()
}

#[test]
fn the_groups_above_a_tree_are_those_of_a_report_without_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ktstr-b.ctprof.zst");
    let snapshot = CtprofSnapshot::load(&path).unwrap();
    let mut options = CompareOptions::default();
    options.grouping.axis = GroupBy::All;
    let whole = Digest::of_snapshot(&snapshot, &options);
    for axis in [GroupBy::Pcomm, GroupBy::Comm, GroupBy::CommExact, GroupBy::Cgroup] {
        options.grouping.axis = axis;
        let (own, narrowed) = (Digest::of_snapshot(&snapshot, &options), whole.narrowed(axis));
        let [own, narrowed] =
            [own, narrowed].map(|digest| format!("{:?}", report(Sides::one(digest.into()), &options, &[])));
        assert!(own == narrowed, "{axis:?}");
    }
}

#[test]
fn arrows_reach_each_value_with_its_meaning_and_commands_open_to_threads() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let [before, after] = &pair(&files);
    browser.open(&files.report("keys.html", &["compare", before, after]));
    assert_eq!(browser.text("h1"), "ctprof before.json → after.json, 1970-01-01 00:16 UTC");
    assert!(browser.text("thead th.time").contains(" 0 to "), "the scale of the bars");
    let press = "(key) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))";
    browser.value("document.querySelector('tbody .expander[aria-expanded]').focus()");
    browser.value(&format!("['ArrowRight', 'ArrowDown', 'ArrowRight'].forEach({press})"));
    assert!(groups(&mut browser).contains(&"io-{N}".to_owned()), "a group opened");
    assert!(browser.text(".tooltip").contains("run"), "the first value of the thread below");
}

#[test]
fn bars_longer_than_all_cpus_have_a_mark_and_interpreters_open_to_their_programs() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let program = |tid: u32, program: &str, run: u64| {
        let mut thread = thread((tid, tid), ("python3", "python3", "/"), (run, run));
        thread["program"] = json!(program);
        thread
    };
    let cpu = json!({"source": "idle", "cpus": 2, "busy_ns": 20 * SECOND, "explained_ns": 20 * SECOND});
    let threads =
        [program(1, "manage.py", 150), program(2, "worker.py", 50), thread((3, 3), ("sh", "sh", "/"), (1, 0))];
    let window = json!({"format_version": 2, "window": {"duration_ns": 10 * SECOND, "cpu": cpu}, "threads": threads});
    let file = files.write("window.json", &window.to_string());
    browser.open(&files.report("window.html", &["show", &file, "-g", "pcomm"]));
    assert!(browser.text("thead th.time").ends_with("0 to 400%; 2 CPUs: 200%"), "{}", browser.text("thead th.time"));
    let mark = browser.value("document.querySelector('rect.capacity').getAttribute('x')");
    assert_eq!(mark, "100", "of 200");
    browser.click("tbody button.expander");
    let names = groups(&mut browser);
    assert!(names.iter().any(|name| name.contains("python3 worker.py")), "{names:?}");
    assert_eq!(browser.console(), Vec::<Value>::new());
}

#[test]
fn a_period_is_selected_from_the_steps_of_a_series_with_its_command() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let series = crate::stored::changes_over_time::series(files.0.path(), 10);
    let page = files.report("series.html", &["show", &series, "-g", "all"]);
    browser.open(&format!("{page}#view=time"));
    assert_eq!(browser.value("document.querySelectorAll('.areas g').length"), 1, "what is below a group is in it");
    let page = files.report("series.html", &["show", &series]);
    browser.open(&format!("{page}#view=time"));
    let rows = "[...document.querySelectorAll('#time tbody tr')].map((row) => [row.cells[0].textContent, row.cells[2].textContent])";
    assert_eq!(browser.value(rows), json!([["late", "60%"], ["early", "20%"]]));
    assert_eq!(browser.value("document.querySelectorAll('.areas g').length"), 2);
    // The keys of a slider, as the browser passes them on.
    browser.value("document.querySelectorAll('[type=range]')[1].focus()");
    (0..7).for_each(|_| browser.press("ArrowLeft"));
    browser.wait_until("location.hash.includes('period')");
    assert_eq!(browser.text("#time .part code"), format!("ctprof show {series}@0s..3s"));
    assert_eq!(browser.value(rows), json!([["early", "50%"], ["late", "0%"]]));
    assert_eq!(browser.value("document.activeElement.getAttribute('aria-valuetext')"), "3s");
    let command = browser.text("#time .part code").replace("ctprof show ", "");
    assert!(printed(&["show", &command]).contains("3.00 s"));
    // From a little after the start of the fifth second to a little before the end of the seventh.
    let place = browser.value("(() => { const at = document.querySelector('.areas svg').getBoundingClientRect(); return [at.x, at.width, at.y]; })()");
    let place: [f64; 3] = serde_json::from_value(place).unwrap();
    for (kind, second) in [("mousePressed", 4.1), ("mouseMoved", 5.0), ("mouseMoved", 6.9), ("mouseReleased", 6.9)] {
        let event = json!({"type": kind, "x": place[0] + place[1] * second / 10.0, "y": place[2] + 20.0,
                           "button": "left", "buttons": 1, "clickCount": 1});
        browser.call("Input.dispatchMouseEvent", &event);
    }
    assert_eq!(browser.text("#time .part code"), format!("ctprof show {series}@4s..7s"));
    assert_eq!(browser.value(rows), json!([["late", "100%"], ["early", "0%"]]));
    browser.choose("Column", "wait");
    assert_eq!(browser.value(rows), json!([["late", "10%"], ["early", "0%"]]));
    browser.resize(390, 844);
    assert_eq!(browser.value("document.documentElement.scrollWidth <= 390"), true);
    browser
        .open(&format!("{}#view=time&period=1..1", files.report("part.html", &["show", &format!("{series}@4s..8s")])));
    let command = browser.text("#time .part code");
    assert!(command.ends_with("@2023-11-14T22:13:25.000Z..2023-11-14T22:13:26.000Z"), "{command}");
    assert_eq!(browser.console(), Vec::<Value>::new());
}

#[test]
fn a_sleep_through_whole_steps_is_in_a_selected_period_as_in_the_command_that_it_names() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let series = crate::stored::changes_over_time::sleeping_series(files.0.path(), 10);
    browser.open(&format!("{}#view=why&period=2..8", files.report("sleeps.html", &["show", &series])));
    let part = browser.text("#why .part code").replace("ctprof show ", "");
    let columns = ["--sections", "reasons", "--metrics", "group,metric,value", "--format", "csv"];
    let csv = printed(&[&["show", &part, "-g", "pcomm"], &columns[..]].concat());
    for (group, reason, percent) in [
        ("early", "sleep: other, held by late", "84"),
        ("early", "run: on a CPU", "14"),
        ("early", "wait: other", "1.4"),
        ("late", "run: on a CPU", "71"),
    ] {
        let is_same =
            |line: &str| line.contains(group) && line.contains(reason) && line.contains(&format!(",{percent}"));
        assert!(csv.lines().any(is_same), "{reason}: {csv}");
        let reasons = browser.texts(".why tbody li");
        assert!(reasons.contains(&format!("{reason} {percent}%")), "{reason}: {reasons:?}");
    }
}

#[test]
fn a_selected_period_is_what_all_views_show_with_all_columns_and_its_name_is_copied_with_a_click() {
    let Some(mut browser) = Browser::start() else { return };
    let files = Files::new();
    let series = crate::stored::changes_over_time::sampled_series(files.0.path(), 10);
    let page = files.report("series.html", &["show", &series]);
    let rows = "[...document.querySelectorAll('table.overview tr[data-key]')].map((row) => [row.querySelector('th').innerText.trim(), row.querySelector('[data-value=run]').innerText])";
    let command = format!("ctprof show {series}@0s..3s");
    browser.open(&format!("{page}#period=0..2"));
    assert_eq!(browser.value(rows), json!([["early", "50%"], ["late", "0%"]]));
    assert_eq!(browser.text(".part code"), command);
    let columns = "[...document.querySelectorAll('.overview thead th')].map((one) => one.textContent)";
    assert_eq!(browser.value(columns), json!(["group", "time 0 to 55%", "threads", "run", "wait", "sleep"]));
    assert_eq!(browser.texts(".overview td.threads"), ["1", "1"]);
    assert_eq!(copied(&mut browser, ".part button"), format!("{series}@0s..3s"));
    browser.open(&format!("{page}#period=0..2&view=why"));
    assert!(browser.text("#why .part").starts_with("From 0s to 3s."));
    let reasons = "[...document.querySelectorAll('.why tbody li')].map((reason) => reason.textContent)";
    assert_eq!(
        browser.value(reasons),
        json!(["run: on a CPU 50%", "sleep: other 45%", "wait: late ran 5.0%", "sleep: other 100%"])
    );
    browser.open(&format!("{page}#view=values&section=overview&period=0..2"));
    let values = "[...document.querySelectorAll('#values tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent).join(' '))";
    let found = browser.value(values);
    assert!(found.as_array().unwrap().contains(&json!("early run 50%")), "values are of the period: {found}");
    browser.open(&format!("{page}#period=0..2"));
    browser.click(".part a");
    browser.wait_until("!location.hash.includes('period')");
    assert_eq!(browser.value(rows), json!([["late", "60%"], ["early", "20%"]]));
    let unsampled = crate::stored::changes_over_time::series(files.0.path(), 10);
    browser.open(&format!("{}#period=0..2&view=cgroups", files.report("unsampled.html", &["show", &unsampled])));
    assert_eq!(browser.value("document.querySelector('#why')"), Value::Null, "no reasons, no view of them");
    assert_eq!(browser.console(), Vec::<Value>::new());
}
