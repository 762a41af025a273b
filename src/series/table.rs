//! Threads as columns of changes: a number is the difference to the same thread's number before.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::error::SeriesError;
use crate::model::{METRICS, Metric, Metrics, PROCESS, ProcessState, Shape, ThreadId, ThreadState, Value};

/// Differences in one metric, a row per thread; `None` where the thread has no value now.
type Differences = Vec<Option<i64>>;

/// Threads that changed, a row each.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ThreadTable {
    rows: Vec<TableRow>,
    read_at_ns: Vec<Option<u64>>,
    /// Changes by metric. A metric without rows is unchanged in all threads.
    metrics: BTreeMap<Cow<'static, str>, Differences>,
    /// Counters of the processes of leaders.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    process: BTreeMap<Cow<'static, str>, Differences>,
    /// Row, metric and value of what is not a number and has changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    words: Vec<(usize, Cow<'static, str>, Json)>,
}

/// Thread to which a row belongs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum TableRow {
    /// Process id and thread id of a thread that is known.
    Known(u32, u32),
    /// A thread without its values: it is new, or has another name.
    New(Box<ThreadState>),
}

static NOTHING: LazyLock<Metrics> = LazyLock::new(Metrics::default);

impl ThreadTable {
    /// The threads that differ from what they were before, where they were known.
    pub(super) fn from_changes<'t>(threads: impl Iterator<Item = (Option<&'t ThreadState>, &'t ThreadState)>) -> Self {
        let mut table = Self::default();
        let rows = threads.filter_map(|(before, now)| {
            let same = before.filter(|before| without_values(before) == without_values(now));
            let is_changed = same.is_none_or(|same| same.metrics != now.metrics || same.process != now.process);
            is_changed.then_some((same, now))
        });
        let rows: Vec<_> = rows.collect();
        for (before, now) in &rows {
            let new = || TableRow::New(Box::new(without_values(now)));
            table.rows.push(before.map_or_else(new, |_| TableRow::Known(now.tgid, now.tid)));
            table.read_at_ns.push(now.read_at_ns);
        }
        for metric in METRICS {
            let pair = |(before, now): &(Option<&'t ThreadState>, &'t ThreadState)| {
                (metric.get(before.map_or(&NOTHING, |before| &before.metrics)), metric.get(&now.metrics))
            };
            if is_number(metric) {
                table.metrics.extend(differences(rows.iter().map(pair)).map(|column| (metric.name.into(), column)));
            } else {
                let changed = rows.iter().map(pair).enumerate().filter(|(_, (before, now))| before != now);
                let word = |value| serde_json::to_value(value).expect("a value is JSON");
                table.words.extend(changed.map(|(row, (_, now))| (row, metric.name.into(), word(now))));
            }
        }
        for field in PROCESS {
            let value = |thread: Option<&'t ThreadState>| field.get(thread?.process.as_deref()?).map(Value::into_owned);
            let pairs = rows.iter().map(|(before, now)| (value(*before), value(Some(now))));
            table.process.extend(differences(pairs).map(|column| (field.name.into(), column)));
        }
        table
    }

    /// The threads as they are now. `before` knows threads by their ids.
    pub(super) fn threads<'t>(
        self,
        before: impl Fn(ThreadId) -> Option<&'t ThreadState>,
    ) -> Result<Vec<ThreadState>, SeriesError> {
        let Self { rows, read_at_ns, metrics, process, words } = self;
        let thread = |row| match row {
            TableRow::Known(tgid, tid) => before(ThreadId { tgid, tid }).cloned().ok_or(SeriesError::UnknownThread),
            TableRow::New(thread) => Ok(*thread),
        };
        let mut threads = rows.into_iter().map(thread).collect::<Result<Vec<_>, _>>()?;
        let is_whole = |rows: usize| if rows == threads.len() { Ok(()) } else { Err(SeriesError::Columns) };
        is_whole(read_at_ns.len())?;
        metrics.values().chain(process.values()).try_for_each(|column| is_whole(column.len()))?;
        threads.iter_mut().zip(read_at_ns).for_each(|(thread, at)| thread.read_at_ns = at);
        for (name, column) in &metrics {
            let Some(metric) = METRICS.iter().find(|metric| metric.name == name) else { continue };
            for (thread, difference) in threads.iter_mut().zip(column) {
                match changed(metric.shape, metric.get(&thread.metrics), *difference) {
                    Some(value) => metric.set(&mut thread.metrics, value)?,
                    None => metric.clear(&mut thread.metrics),
                }
            }
        }
        for (name, column) in &process {
            let Some(field) = PROCESS.iter().find(|field| field.name == name) else { continue };
            for (thread, difference) in threads.iter_mut().zip(column) {
                let Some(process) = &mut thread.process else { continue };
                match changed(field.value_type.shape, field.get(process), *difference) {
                    Some(value) => field.set(process, value)?,
                    None => field.clear(process),
                }
            }
        }
        for (row, name, word) in words {
            let metric = METRICS.iter().find(|metric| metric.name == name);
            let (Some(metric), Some(thread)) = (metric, threads.get_mut(row)) else { continue };
            match value_of(word)? {
                Some(value) => metric.set(&mut thread.metrics, value)?,
                None => metric.clear(&mut thread.metrics),
            }
        }
        Ok(threads)
    }

    /// The ids of all rows.
    pub(super) fn ids(&self) -> impl Iterator<Item = ThreadId> {
        self.rows.iter().map(|row| match row {
            TableRow::Known(tgid, tid) => ThreadId { tgid: *tgid, tid: *tid },
            TableRow::New(thread) => thread.id(),
        })
    }
}

/// A thread but for the values that columns have.
fn without_values(thread: &ThreadState) -> ThreadState {
    let ThreadState { process, .. } = thread;
    let process = process.as_deref().map(|process| ProcessState { ppid: process.ppid, ..ProcessState::default() });
    ThreadState { metrics: Box::default(), read_at_ns: None, process: process.map(Box::new), ..thread.clone() }
}

fn is_number(metric: &Metric) -> bool {
    matches!(metric.shape, Shape::Unsigned | Shape::Signed)
}

/// A column; `None` if nothing has changed.
fn differences<'v>(pairs: impl Iterator<Item = (Option<Value<'v>>, Option<Value<'v>>)>) -> Option<Differences> {
    let mut is_changed = false;
    let column = pairs.map(|(before, now)| {
        is_changed |= before != now;
        Some(bits(now)?.wrapping_sub(bits(before).unwrap_or(0)).cast_signed())
    });
    let column = column.collect();
    is_changed.then_some(column)
}

/// The number with this difference to the one before.
fn changed(shape: Shape, before: Option<Value<'_>>, difference: Option<i64>) -> Option<Value<'static>> {
    let now = bits(before).unwrap_or(0).wrapping_add(difference?.cast_unsigned());
    Some(if shape == Shape::Signed { Value::Signed(now.cast_signed()) } else { Value::Unsigned(now) })
}

fn bits(value: Option<Value<'_>>) -> Option<u64> {
    match value? {
        Value::Unsigned(number) => Some(number),
        Value::Signed(number) => Some(number.cast_unsigned()),
        _ => None,
    }
}

/// A value that is no number; `None` for null.
fn value_of(word: Json) -> Result<Option<Value<'static>>, SeriesError> {
    Ok(Some(match word {
        Json::Null => return Ok(None),
        Json::Bool(flag) => Value::Flag(flag),
        Json::String(text) => Value::Text(text.into()),
        list => Value::Cpus(serde_json::from_value::<Vec<u32>>(list)?.into()),
    }))
}
