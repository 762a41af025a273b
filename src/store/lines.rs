//! The parallel reader: if each thread has its own line, as in files that ctprof writes, all CPUs parse
//! lines while more are decompressed.
//!
//! A newline in JSON is only white space, so splitting there is safe. After an error, and for any other
//! layout, the sequential reader reads the file again and reports errors.

use std::collections::BTreeMap;
use std::io::Read;
use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use memchr::{memchr, memchr_iter, memrchr};
use rayon::iter::{ParallelBridge, ParallelIterator};
use serde::de::Deserializer as _;

use super::format::{Defaults, SnapshotContent, SnapshotReader, ThreadReader};
use crate::model::{SnapshotHead, ThreadId, Threads};

/// Bytes of threads that are parsed at a time.
const BATCH: u64 = 256 * 1024;
/// Bytes read at a time before the threads.
const HEAD: u64 = 16 * 1024;
/// Maximum length of a line.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Reads a snapshot of at most `max` threads, and these into a `T`; `None` for an error or another
/// layout.
pub(super) fn read<T: Threads>(source: impl Read + Send, max: usize, empty: &T) -> Option<(SnapshotHead, T)> {
    let mut text = LineText { source, rest: Vec::new() };
    let FileStart { mut json, defaults, .. } = text.head(max)?;
    let (runs, threads) = Default::default();
    let parsed = ParsedBatches { defaults: &defaults, empty, runs, threads, max: defaults.max_threads(max) };
    let mut is_at_end = false;
    let batches = iter::from_fn(|| {
        let lines = text.until_newline(memrchr, BATCH)?;
        is_at_end = lines.is_empty();
        (!is_at_end).then_some(lines)
    });
    // Each worker takes the next batch when it has parsed one: no more of them are in memory than there are workers.
    batches.enumerate().par_bridge().try_for_each(|(number, lines)| parsed.parse_and_join(number, &lines))?;
    json.append(&mut text.rest);
    is_at_end.then_some((parse(&json, max)?.0, parsed.finish()?))
}

/// What precedes the threads; `None` for an error or another layout.
pub(super) fn head(source: impl Read, max: usize) -> Option<SnapshotHead> {
    LineText { source, rest: Vec::new() }.head(max).map(|start| start.head)
}

/// Parses a snapshot without threads, and what these leave out.
fn parse(json: &[u8], max: usize) -> Option<(SnapshotHead, Defaults)> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let SnapshotContent { snapshot, defaults } = json.deserialize_map(&SnapshotReader::new(max)).ok()?;
    json.end().ok()?;
    snapshot.threads.is_empty().then_some((snapshot.head, defaults))
}

/// What precedes the threads.
struct FileStart {
    json: Vec<u8>,
    head: SnapshotHead,
    defaults: Defaults,
}

/// A text that is read by whole lines.
struct LineText<R> {
    source: R,
    /// The bytes after the last newline.
    rest: Vec<u8>,
}

impl<R: Read> LineText<R> {
    /// The text up to the threads.
    fn head(&mut self, max: usize) -> Option<FileStart> {
        let json = self.until_newline(memchr, HEAD)?;
        // If only this is missing, the text ends inside the list of threads.
        let (head, defaults) = parse(&[&json, &b"]}"[..]].concat(), max)?;
        // In files of other tools, the whole file decides which zeros are values.
        head.format_version?;
        Some(FileStart { json, head, defaults })
    }

    /// The text up to the newline that `find` chooses, read in steps of so many bytes; empty after the last newline.
    fn until_newline(&mut self, find: fn(u8, &[u8]) -> Option<usize>, step: u64) -> Option<Vec<u8>> {
        let mut text = std::mem::take(&mut self.rest);
        let mut searched = 0;
        while text.len() < LONGEST_LINE {
            let read = self.source.by_ref().take(step).read_to_end(&mut text).ok()?;
            if let Some(newline) = find(b'\n', &text[searched..]) {
                self.rest = text.split_off(searched + newline + 1);
                return Some(text);
            }
            searched = text.len();
            if read == 0 {
                self.rest = text;
                return Some(Vec::new());
            }
        }
        None
    }
}

/// The batches of lines parsed so far.
struct ParsedBatches<'e, T> {
    /// What threads leave out.
    defaults: &'e Defaults,
    /// What batches start from.
    empty: &'e T,
    /// Runs of consecutive batches, by the number of the first batch.
    runs: Mutex<BTreeMap<usize, BatchRun<T>>>,
    /// Number of threads in all batches so far.
    threads: AtomicUsize,
    max: usize,
}

/// The threads of consecutive batches.
struct BatchRun<T> {
    /// Number of the batch after the last.
    end: usize,
    threads: T,
    /// Ids of the first and the last thread.
    ids: (ThreadId, ThreadId),
    /// Whether a comma follows the last thread.
    ends_in_comma: bool,
}

impl<T: Threads> BatchRun<T> {
    /// Joins two runs; `None` if the later one does not continue this one.
    fn join(mut self, later: Self) -> Option<Self> {
        self.threads.append(later.threads);
        let continues = self.ends_in_comma && self.ids.1 <= later.ids.0;
        continues.then_some(Self {
            end: later.end,
            ids: (self.ids.0, later.ids.1),
            ends_in_comma: later.ends_in_comma,
            ..self
        })
    }
}

impl<T: Threads> ParsedBatches<'_, T> {
    /// Parses a batch and joins it with its parsed neighbours, so that there are never more runs than
    /// batches being parsed.
    fn parse_and_join(&self, number: usize, lines: &[u8]) -> Option<()> {
        // Before they take memory.
        let threads = memchr_iter(b'\n', lines).count();
        if self.threads.fetch_add(threads, Ordering::Relaxed) + threads > self.max {
            return None;
        }
        let empty = if number == 0 { self.empty.first() } else { self.empty.another() };
        let mut run = batch(number, lines, self.defaults, empty)?;
        let mut start = number;
        loop {
            let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            let before = runs.range(..start).next_back().filter(|(_, before)| before.end == start);
            if let Some(first) = before.map(|(first, _)| *first) {
                let before = runs.remove(&first)?;
                drop(runs);
                (start, run) = (first, before.join(run)?);
            } else if let Some(after) = runs.remove(&run.end) {
                drop(runs);
                run = run.join(after)?;
            } else {
                runs.insert(start, run);
                return Some(());
            }
        }
    }

    /// The threads of all batches, if they form one list.
    fn finish(self) -> Option<T> {
        let mut runs = self.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let whole = match runs.pop_first() {
            Some((_, run)) => (!run.ends_in_comma).then_some(run.threads),
            None => Some(self.empty.first()),
        };
        whole.filter(|_| runs.is_empty())
    }
}

/// The threads in the lines, one per line; `None` for anything else, or out of order.
fn batch<T: Threads>(number: usize, lines: &[u8], defaults: &Defaults, mut threads: T) -> Option<BatchRun<T>> {
    let mut reader = ThreadReader::new(defaults);
    let (mut ids, mut ends_in_comma) = (None, true);
    let lines = str::from_utf8(lines).ok()?;
    for line in lines.strip_suffix('\n').unwrap_or(lines).split('\n') {
        let comma = line.strip_suffix(',');
        if !std::mem::replace(&mut ends_in_comma, comma.is_some()) {
            return None;
        }
        let line = comma.unwrap_or(line);
        let mut json = serde_json::Deserializer::from_str(line);
        let (thread, _) = json.deserialize_map(&mut reader).ok()?;
        json.end().ok()?;
        let (first, last) = ids.unwrap_or((thread.id(), thread.id()));
        ids = (last <= thread.id()).then(|| (first, thread.id()));
        ids?;
        threads.add(thread);
    }
    Some(BatchRun { end: number + 1, threads, ids: ids?, ends_in_comma })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadState;

    fn read_all(json: &str, max: usize) -> Option<(SnapshotHead, Vec<ThreadState>)> {
        read(json.as_bytes(), max, &Vec::new())
    }

    fn tids(json: &str) -> Option<Vec<u32>> {
        Some(read_all(json, 10_000)?.1.iter().map(|thread| thread.tid).collect())
    }

    fn lines(threads: &[u32]) -> String {
        let line = |tid: &u32| format!("{{\"tid\":{tid},\"tgid\":1,\"comm\":\"{tid:a>200}\"}}");
        threads.iter().map(line).collect::<Vec<_>>().join(",\n")
    }

    #[test]
    fn threads_on_lines_come_out_in_their_order() {
        let many: Vec<u32> = (1..=10_000).collect();
        let json = format!("{{\"format_version\":1,\"threads\":[\n{}\n],\"captured_at_unix_ns\":7}}", lines(&many));
        assert!(json.len() > 4 * usize::try_from(BATCH).unwrap());
        assert_eq!(read_all(&json, 10_000).unwrap().0.captured_at_unix_ns, 7);
        assert_eq!(tids(&json), Some(many));
        assert_eq!(tids("{\"format_version\":1,\"threads\":[\n]}"), Some(vec![]));
        assert!(read_all(&json, 9_999).is_none());
    }

    #[test]
    fn any_other_layout_is_left_to_the_careful_way() {
        let thread = lines(&[5]);
        for rest in [
            format!("\"threads\":[{thread}]}}"),
            format!("\"threads\":[\n{thread}]}}"),
            format!("\"threads\":[\n{thread},\n]}}"),
            format!("\"threads\":[\n,\n{thread}\n]}}"),
            format!("\"threads\":[\n{thread}\n]"),
            format!("\"threads\":[\n{thread}\n]}}}}"),
            format!("\"threads\":[\n{thread}],\"psi\":[\n]}}"),
            format!("\"threads\":[],\"psi\":{{\"threads\":[\n{thread}\n]}}}}"),
            format!("\"threads\":[\n{thread}\n],\"threads\":[]}}"),
            format!("\"threads\":[\n{}\n]}}", lines(&[6, 5])),
            "\n\"threads\":[]}".to_owned(),
        ] {
            assert_eq!(tids(&format!("{{\"format_version\":1,{rest}")), None, "{rest}");
        }
        assert_eq!(tids(&format!("{{\"format_version\":1,\"threads\":[\n{thread}\n]}}")), Some(vec![5]));
        assert_eq!(tids(&format!("{{\"threads\":[\n{thread}\n]}}")), None, "of another tool");
        assert_eq!(tids(""), None);
    }

    #[test]
    fn batches_out_of_order_are_left_to_the_careful_way() {
        let mut many: Vec<u32> = (1..=10_000).collect();
        many.rotate_left(5_000);
        assert_eq!(tids(&format!("{{\"format_version\":1,\"threads\":[\n{}\n]}}", lines(&many))), None);
    }

    /// Threads that cannot be added.
    struct Broken;

    impl Threads for Broken {
        fn another(&self) -> Self {
            Self
        }

        fn add(&mut self, _: ThreadState) {
            panic!("broken");
        }

        fn append(&mut self, _: Self) {}
    }

    #[test]
    fn a_panic_in_a_batch_ends_the_reader() {
        let many: Vec<u32> = (1..=20_000).collect();
        let json = format!("{{\"format_version\":1,\"threads\":[\n{}\n]}}", lines(&many));
        assert!(json.len() > 7 * usize::try_from(BATCH).unwrap());
        assert!(std::panic::catch_unwind(|| read(json.as_bytes(), 20_000, &Broken)).is_err());
    }

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let mut source = std::io::repeat(b' ').take(1 << 30);
        assert!(read::<Vec<ThreadState>>(&mut source, 1, &Vec::new()).is_none());
        assert!(source.limit() > (1 << 30) - 2 * LONGEST_LINE as u64);
    }
}
