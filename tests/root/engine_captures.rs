//! A capture by BPF between two by procfs, compared field by field.

use crate::support::{Missing, skipped};
use std::collections::{BTreeMap, BTreeSet};

use ctprof::capture::{CaptureError, Engine, Options, capture_with};
use ctprof::model::{CtprofSnapshot, METRICS};
use serde_json::{Map, Value};

/// Process, thread and start time.
pub(crate) type Key = (u32, u32, Option<u64>);

/// All fields of a thread, as in a file.
pub(crate) type Fields = Map<String, Value>;

pub(crate) type Threads = BTreeMap<Key, Fields>;

/// Fields that a thread does not change by running. To read its heap counters, procfs stops it, so that it runs.
const CONSTANT: [&str; 7] =
    ["comm", "pcomm", "name_complete", "kernel_thread", "cgroup", "allocated_bytes", "deallocated_bytes"];

/// The threads of a capture by an engine.
pub(crate) fn threads(snapshot: &CtprofSnapshot, engine: &str) -> Threads {
    let capture = snapshot.head.capture.as_ref().unwrap();
    assert_eq!(capture.engine, engine);
    let in_walk = snapshot.threads.iter().all(|thread| thread.read_at_ns <= capture.walk_ns);
    assert!(in_walk, "{engine}: {capture:?}");
    let threads = snapshot.threads.iter().map(|thread| {
        let Ok(Value::Object(fields)) = serde_json::to_value(thread) else { panic!("{thread:?}") };
        ((thread.tgid, thread.tid, thread.start_time_clock_ticks), fields)
    });
    threads.collect()
}

pub(crate) fn captured(engine: Engine) -> Result<CtprofSnapshot, CaptureError> {
    let mut options = Options::default();
    options.engine = engine;
    capture_with(&options)
}

/// Whether BPF is available; prints the reason if not.
pub(crate) fn has_bpf() -> bool {
    match captured(Engine::Bpf) {
        Ok(_) => true,
        Err(CaptureError::NoBpf(why)) => {
            skipped(Missing::Privilege(format!("BPF: {why:?}")));
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Captures by procfs, BPF and procfs of the same threads.
pub(crate) struct Captures {
    before: Threads,
    pub(crate) bpf: Threads,
    after: Threads,
}

impl Captures {
    /// The threads of these processes.
    pub(crate) fn of_processes(processes: &[u32]) -> Self {
        let own = |(engine, name)| {
            let mut threads = threads(&captured(engine).unwrap(), name);
            threads.retain(|(tgid, ..), _| processes.contains(tgid));
            threads
        };
        let [before, bpf, after] =
            [(Engine::Procfs, "procfs"), (Engine::Bpf, "bpf"), (Engine::Procfs, "procfs")].map(own);
        Self { before, bpf, after }
    }

    /// The threads of all three captures.
    fn bracketed(&self) -> impl Iterator<Item = Bracketed<'_>> {
        let bracketed =
            |(key, bpf)| Some(Bracketed { before: self.before.get(key)?, bpf, after: self.after.get(key)? });
        self.bpf.iter().filter_map(bracketed)
    }

    /// Processes with a thread that ran, started or exited between the captures.
    fn busy(&self) -> BTreeSet<u64> {
        let all = [&self.before, &self.bpf, &self.after];
        let keys: BTreeSet<_> = all.iter().flat_map(|threads| threads.keys()).collect();
        let changed = keys.into_iter().filter(|key| all.iter().any(|threads| !threads.contains_key(key)));
        let ran = self.bracketed().filter(|thread| !thread.is_quiescent());
        changed.map(|(tgid, ..)| u64::from(*tgid)).chain(ran.map(|thread| thread.process())).collect()
    }

    /// Compares every field that both captures by procfs agree on, of at least this many threads that did nothing
    /// meanwhile. Prints the metrics that have values.
    pub(crate) fn compare(&self, least: usize) {
        let lost = |key: &&Key| self.after.contains_key(key) && !self.bpf.contains_key(key);
        let lost: Vec<_> = self.before.keys().filter(lost).collect();
        assert!(lost.is_empty(), "BPF did not read {lost:?}");
        let busy = self.busy();
        let (working, quiescent): (Vec<_>, Vec<_>) =
            self.bracketed().partition(|thread| busy.contains(&thread.process()));
        assert!(quiescent.len() >= least, "compared {} threads, not {least}", quiescent.len());

        let named = working.iter().flat_map(|thread| thread.differences(|field| CONSTANT.contains(&field)));
        let equal = quiescent.iter().flat_map(|thread| thread.differences(|_| true));
        let wrong: Vec<_> = named.chain(equal).collect();
        let first = wrong.iter().take(50).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(wrong.is_empty(), "{} differences:\n{first}", wrong.len());

        let mut compared = Vec::new();
        for metric in METRICS {
            let has = |thread: &&Bracketed| thread.is_expected(metric.name);
            let agrees = |thread: &&Bracketed| thread.bpf.contains_key(metric.name) && thread.agree(metric.name);
            let comparable = || {
                let constant = working.iter().filter(|_| CONSTANT.contains(&metric.name));
                quiescent.iter().chain(constant)
            };
            let count = comparable().filter(has).filter(agrees).count();
            assert!(count > 0 || !comparable().any(|thread| has(&thread)), "{} was not compared", metric.name);
            compared.extend((count > 0).then(|| format!("{} {count}", metric.name)));
        }
        eprintln!("{} threads, {} metrics: {}", quiescent.len(), compared.len(), compared.join(", "));
        assert!(compared.len() >= 20, "most metrics have no value");
    }
}

/// The three captures of a thread.
struct Bracketed<'t> {
    before: &'t Fields,
    bpf: &'t Fields,
    after: &'t Fields,
}

impl Bracketed<'_> {
    fn process(&self) -> u64 {
        self.bpf["tgid"].as_u64().unwrap()
    }

    /// Whether the thread did not run meanwhile.
    fn is_quiescent(&self) -> bool {
        ["run_time_ns", "timeslices"].iter().all(|field| self.agree(field))
    }

    /// Whether both captures by procfs have the same value, or none.
    fn agree(&self, field: &str) -> bool {
        self.before.get(field) == self.after.get(field)
    }

    /// Whether procfs has a value that BPF must have.
    fn is_expected(&self, field: &str) -> bool {
        // Delays of a thread that started before delay accounting was enabled: taskstats has 0, the kernel no counter.
        let is_delay = field.contains("_delay_") && !field.starts_with("cpu_");
        let is_uncounted = is_delay && !self.bpf.contains_key("blkio_delay_count");
        let is_zero = self.before.get(field).is_some_and(|value| *value == 0);
        self.before.contains_key(field) && !(is_uncounted && is_zero)
    }

    /// The selected fields that both captures by procfs agree on, and BPF does not.
    fn differences(&self, is_selected: impl Fn(&str) -> bool) -> Vec<String> {
        let fields: BTreeSet<_> = self.before.keys().chain(self.bpf.keys()).collect();
        let differs = |field: &str| {
            is_selected(field)
                && self.agree(field)
                && self.before.get(field) != self.bpf.get(field)
                && !self.may_differ(field)
        };
        let text = |field: &String| {
            let id = format!("{} {} {}", self.bpf["tgid"], self.bpf["tid"], self.bpf["comm"]);
            format!("{field} of {id}: {:?}, by BPF {:?}", self.before.get(field), self.bpf.get(field))
        };
        fields.into_iter().filter(|field| differs(field)).map(text).collect()
    }

    fn may_differ(&self, field: &str) -> bool {
        match field {
            // smaps_rollup is read for 20 ms, from procfs by both, and depends on who else maps a page.
            "read_at_ns" | "smaps_rollup_kib" => true,
            // procfs reads them only if the thread stops in time.
            "allocated_bytes" | "deallocated_bytes" => !self.before.contains_key(field),
            _ => self.before.contains_key(field) && !self.is_expected(field),
        }
    }
}
