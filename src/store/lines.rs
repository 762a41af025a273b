//! The fast way in: where each thread has a line of its own, as in the files that this tool writes,
//! all CPUs parse lines while more are decompressed.
//!
//! A newline in JSON is nothing but white space, so cutting there is safe. Whatever is not as
//! expected, or wrong, sends the file to the careful way, which tells.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use memchr::{memchr, memrchr};
use rayon::{Scope, Yield};
use serde::de::DeserializeSeed;

use crate::model::{CtprofSnapshot, Learned, ThreadState, with_most_threads};

/// Bytes of threads that are parsed at a time.
const BATCH: u64 = 256 * 1024;
/// Batches that may wait to be parsed.
const WAITING: usize = 4;
/// A line that does not end here is none of a thread, nor what stands before or after them.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Reads a whole snapshot of at most `most` threads; `None` if anything about it is wrong or
/// unexpected.
pub(super) fn read(source: impl Read + Send, most: usize) -> Option<CtprofSnapshot> {
    let mut text = Text { source, rest: Vec::new() };
    let mut json = text.until_newline(memchr)?;
    // What parses with no more than this behind it ends in the list of threads, and in no other.
    parse(&[&json, &b"]}"[..]].concat(), most)?;
    let parsed = Parsed { most, ..Parsed::default() };
    rayon::scope(|scope| parsed.spawn_batches(scope, &mut text));
    json.append(&mut text.rest);
    let mut snapshot = parse(&json, most)?;
    snapshot.threads = parsed.whole()?;
    Some(snapshot)
}

/// Parses a snapshot without threads.
fn parse(json: &[u8], most: usize) -> Option<CtprofSnapshot> {
    let snapshot: CtprofSnapshot = with_most_threads(most, || serde_json::from_slice(json)).ok()?;
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
#[derive(Default)]
struct Parsed {
    batches: Mutex<Vec<Batch>>,
    waiting: AtomicUsize,
    threads: AtomicUsize,
    most: usize,
    failed: AtomicBool,
}

struct Batch {
    number: usize,
    threads: Vec<ThreadState>,
    /// Whether a comma announces another thread.
    goes_on: bool,
}

impl Parsed {
    /// Reads batches of lines to the end and has them parsed.
    fn spawn_batches<'s>(&'s self, scope: &Scope<'s>, text: &mut Text<impl Read>) {
        for number in 0.. {
            match text.until_newline(memrchr) {
                Some(lines) if lines.is_empty() => return,
                Some(lines) => {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    scope.spawn(move |_| self.take(batch(number, &lines)));
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

    fn take(&self, batch: Option<Batch>) {
        let new = batch.as_ref().map_or(0, |batch| batch.threads.len());
        if batch.is_none() || self.threads.fetch_add(new, Ordering::Relaxed) + new > self.most {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// The threads of all batches.
    fn whole(self) -> Option<Vec<ThreadState>> {
        let mut batches = self.batches.into_inner().unwrap_or_else(PoisonError::into_inner);
        batches.sort_unstable_by_key(|batch| batch.number);
        let last = batches.len().saturating_sub(1);
        let chained = batches.iter().all(|batch| batch.goes_on == (batch.number < last));
        let whole = chained && !self.failed.into_inner();
        whole.then(|| batches.into_iter().flat_map(|batch| batch.threads).collect())
    }
}

/// Parses lines of threads; `None` if they are anything else.
fn batch(number: usize, lines: &[u8]) -> Option<Batch> {
    let mut learned = Learned::default();
    let mut batch = Batch { number, threads: Vec::new(), goes_on: true };
    for line in lines.strip_suffix(b"\n").unwrap_or(lines).split(|&b| b == b'\n') {
        let comma = line.strip_suffix(b",");
        if !std::mem::replace(&mut batch.goes_on, comma.is_some()) {
            return None;
        }
        let mut json = serde_json::Deserializer::from_slice(comma.unwrap_or(line));
        batch.threads.push(learned.deserialize(&mut json).ok()?);
        json.end().ok()?;
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tids(json: &str) -> Option<Vec<u32>> {
        Some(read(json.as_bytes(), 10_000)?.threads.iter().map(|thread| thread.tid).collect())
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
        assert_eq!(read(json.as_bytes(), 10_000).unwrap().captured_at_unix_ns, 7);
        assert_eq!(tids(&json), Some(many));
        assert_eq!(tids("{\"threads\":[\n]}"), Some(vec![]));
        assert!(read(json.as_bytes(), 9_999).is_none());
    }

    #[test]
    fn whatever_is_not_as_expected_is_left_to_the_careful_way() {
        let thread = lines(&[5]);
        for json in [
            format!("{{\"threads\":[{thread}]}}"),
            format!("{{\"threads\":[\n{thread}]}}"),
            format!("{{\"threads\":[\n{thread},\n]}}"),
            format!("{{\"threads\":[\n,\n{thread}\n]}}"),
            format!("{{\"threads\":[\n{thread}\n]"),
            format!("{{\"threads\":[\n{thread}\n]}}}}"),
            format!("{{\"threads\":[\n{thread}],\"psi\":[\n]}}"),
            format!("{{\"threads\":[],\"psi\":{{\"threads\":[\n{thread}\n]}}}}"),
            format!("{{\"threads\":[\n{thread}\n],\"threads\":[]}}"),
            "{\n\"threads\":[]}".to_owned(),
            String::new(),
        ] {
            assert_eq!(tids(&json), None, "{json}");
        }
    }

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let mut source = std::io::repeat(b' ').take(1 << 30);
        assert!(read(&mut source, 1).is_none());
        assert!(source.limit() > (1 << 30) - 2 * LONGEST_LINE as u64);
    }
}
