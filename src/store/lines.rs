//! The fast way in: where each thread has a line of its own, as in the files that this tool writes,
//! all CPUs parse lines while more are decompressed.
//!
//! A newline in JSON is nothing but white space, so cutting there is safe. Anything unexpected, and
//! any error, sends the file to the careful way, which reports errors.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use memchr::{memchr, memrchr};
use rayon::{Scope, Yield};
use serde::de::DeserializeSeed;

use crate::model::{Bounds, CtprofSnapshot, Learned, ThreadId, Threads};

/// Bytes of threads that are parsed at a time.
const BATCH: u64 = 256 * 1024;
/// Batches that may wait to be parsed.
const WAITING: usize = 4;
/// A line that does not end here is none of a thread, nor what stands before or after them.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Reads a snapshot of at most `most` threads, and these into a `T`; `None` if anything about it is
/// wrong or unexpected.
pub(super) fn read<T: Threads>(source: impl Read + Send, most: usize) -> Option<(CtprofSnapshot, T)> {
    let mut text = Text { source, rest: Vec::new() };
    let mut json = text.until_newline(memchr)?;
    // What parses with no more than this behind it ends in the list of threads, and in no other.
    let start = parse(&[&json, &b"]}"[..]].concat(), most)?;
    // Files of other tools have to be seen whole before any of their zeros can be trusted.
    start.format_version?;
    let parsed = Parsed::<T>::at_most(most);
    rayon::scope(|scope| parsed.spawn_batches(scope, &mut text));
    json.append(&mut text.rest);
    Some((parse(&json, most)?, parsed.whole()?))
}

/// Parses a snapshot without threads.
fn parse(json: &[u8], most: usize) -> Option<CtprofSnapshot> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let snapshot = Bounds::new(most).deserialize(&mut json).ok()?;
    json.end().ok()?;
    snapshot.threads.is_empty().then_some(snapshot)
}

/// A text that is read on to newlines.
struct Text<R> {
    source: R,
    /// What was read beyond the last newline.
    rest: Vec<u8>,
}

impl<R: Read> Text<R> {
    /// What comes up to a newline, the one that `find` chooses; empty if no newline comes any more.
    fn until_newline(&mut self, find: fn(u8, &[u8]) -> Option<usize>) -> Option<Vec<u8>> {
        let mut text = std::mem::take(&mut self.rest);
        let mut searched = 0;
        while text.len() < LONGEST_LINE {
            let read = self.source.by_ref().take(BATCH).read_to_end(&mut text).ok()?;
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

/// What became of the batches of lines.
struct Parsed<T> {
    /// Consecutive batches in one, by the number of the first.
    runs: Mutex<BTreeMap<usize, Run<T>>>,
    waiting: AtomicUsize,
    threads: AtomicUsize,
    most: usize,
    failed: AtomicBool,
}

/// The threads of consecutive batches.
struct Run<T> {
    /// Number of the batch after the last.
    end: usize,
    threads: T,
    /// Ids of the first and the last thread.
    ids: (ThreadId, ThreadId),
    /// Whether a comma announces another thread.
    goes_on: bool,
}

impl<T: Threads> Run<T> {
    /// Both runs in one; `None` if the later does not continue this one.
    fn join(mut self, later: Self) -> Option<Self> {
        self.threads.append(later.threads);
        let continues = self.goes_on && self.ids.1 <= later.ids.0;
        continues.then_some(Self { end: later.end, ids: (self.ids.0, later.ids.1), goes_on: later.goes_on, ..self })
    }
}

impl<T: Threads> Parsed<T> {
    fn at_most(most: usize) -> Self {
        let (waiting, threads, failed) = Default::default();
        Self { runs: Mutex::default(), waiting, threads, most, failed }
    }

    /// Reads batches of lines to the end and has them parsed.
    fn spawn_batches<'s>(&'s self, scope: &Scope<'s>, text: &mut Text<impl Read>) {
        for number in 0.. {
            match text.until_newline(memrchr) {
                Some(lines) if lines.is_empty() => return,
                Some(lines) => {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    scope.spawn(move |_| {
                        if self.take(number, &lines).is_none() {
                            self.failed.store(true, Ordering::Relaxed);
                        }
                        self.waiting.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                None => self.failed.store(true, Ordering::Relaxed),
            }
            while self.waiting.load(Ordering::Relaxed) > WAITING {
                if rayon::yield_local() != Some(Yield::Executed) {
                    std::thread::yield_now();
                }
            }
            if self.failed.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Parses a batch and joins it with its neighbours, as far as these are parsed: no more runs are
    /// kept than batches are under way.
    fn take(&self, number: usize, lines: &[u8]) -> Option<()> {
        let (threads, mut run) = batch(number, lines)?;
        if self.threads.fetch_add(threads, Ordering::Relaxed) + threads > self.most {
            return None;
        }
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

    /// The threads of all batches.
    fn whole(self) -> Option<T> {
        let mut runs = self.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let whole =
            runs.pop_first().map_or_else(|| Some(T::default()), |(_, run)| (!run.goes_on).then_some(run.threads));
        whole.filter(|_| runs.is_empty() && !self.failed.into_inner())
    }
}

/// How many threads the lines have, and these threads; `None` if they are anything else, or out of order.
fn batch<T: Threads>(number: usize, lines: &[u8]) -> Option<(usize, Run<T>)> {
    let mut learned = Learned::default();
    let (mut count, mut threads, mut ids, mut goes_on) = (0, T::default(), None, true);
    for line in lines.strip_suffix(b"\n").unwrap_or(lines).split(|&b| b == b'\n') {
        let comma = line.strip_suffix(b",");
        if !std::mem::replace(&mut goes_on, comma.is_some()) {
            return None;
        }
        let mut json = serde_json::Deserializer::from_slice(comma.unwrap_or(line));
        let thread = learned.deserialize(&mut json).ok()?;
        json.end().ok()?;
        let (first, last) = ids.unwrap_or((thread.id(), thread.id()));
        ids = (last <= thread.id()).then(|| (first, thread.id()));
        ids?;
        threads.add(thread);
        count += 1;
    }
    Some((count, Run { end: number + 1, threads, ids: ids?, goes_on }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadState;

    fn read_all(json: &str, most: usize) -> Option<(CtprofSnapshot, Vec<ThreadState>)> {
        read(json.as_bytes(), most)
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
    fn whatever_is_not_as_expected_is_left_to_the_careful_way() {
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

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let mut source = std::io::repeat(b' ').take(1 << 30);
        assert!(read::<Vec<ThreadState>>(&mut source, 1).is_none());
        assert!(source.limit() > (1 << 30) - 2 * LONGEST_LINE as u64);
    }
}
