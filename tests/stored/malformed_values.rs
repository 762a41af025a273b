//! Files that are not what they should be: what is absent, and what errors say.

use ctprof::CtprofSnapshot;
use ctprof::model::{METRICS, Metrics};
use serde_json::{Value, json};

fn read(snapshot: &Value) -> Result<CtprofSnapshot, String> {
    serde_json::from_str(&snapshot.to_string()).map_err(|error| error.to_string())
}

fn thread(field: &str, value: &Value) -> Value {
    json!({"format_version": 1, "threads": [{"tid": 1, "tgid": 1, field: value}]})
}

#[test]
fn a_value_that_is_null_is_absent() {
    for name in METRICS.iter().map(|metric| metric.name).chain(["cgroup"]) {
        let snapshot = read(&thread(name, &Value::Null)).unwrap();
        assert_eq!(
            (&*snapshot.threads[0].metrics, &snapshot.threads[0].cgroup),
            (&Metrics::default(), &None),
            "{name}"
        );
    }
}

#[test]
fn an_error_says_what_is_expected_in_place_of_what_is_there() {
    for (file, expected) in [
        (json!(5), "expected a snapshot"),
        (json!({"threads": 5}), "expected a list of threads"),
        (json!({"threads": [5]}), "expected a thread"),
        (json!({"threads": [], "cgroup_stats": 5}), "expected a map of cgroups"),
        (thread("cgroup", &json!(5)), "expected a string"),
        (thread("minflt", &json!({})), "expected a number, a string, true or false, or a list of CPU numbers"),
    ] {
        let error = read(&file).unwrap_err();
        assert!(error.contains(expected), "{file}: {error}");
    }
}
