//! The states of a group's threads take all of its time.

use serde_json::{Value, json};

/// Asserts that run, wait, block, sleep and the named other states of each group in a report of a window are the time of its threads: 100 %
/// for each, if none started or exited. Returns how many such groups had all times. Values are rounded, and single threads are read a
/// moment earlier or later than others: a sum may be off by this share.
pub(crate) fn assert_states_add_up(report: &Value, tolerance: f64) -> usize {
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["section"] == "overview");
    let rows: Vec<_> = rows.collect();
    let mut checked = 0;
    for run in rows.iter().filter(|row| row["metric"] == "run" && row["turnover"] == json!({"started": 0, "exited": 0}))
    {
        let value = |name: &str| {
            let row = rows.iter().find(|row| row["path"] == run["path"] && row["metric"] == name);
            row.and_then(|row| row["value"].as_f64())
        };
        let exited =
            rows.iter().any(|row| row["path"][0] == run["path"][0] && row["group"].to_string().contains("(exited"));
        if exited || ["run", "wait", "sleep"].map(value).contains(&None) {
            continue;
        }
        let states = ["run", "wait", "block", "sleep", "stopped", "traced", "frozen", "zombie"];
        let sum: f64 = states.iter().filter_map(|name| value(name)).sum();
        let time = run["members"].as_f64().unwrap() * 100.0;
        let text = format!("{}: {sum} of {time}: {:?}", run["path"], states.map(value));
        assert!((sum - time).abs() <= tolerance * time, "{text}");
        checked += 1;
    }
    checked
}
