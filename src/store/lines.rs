//! The parallel reader: if each thread has its own line, as in files that ctprof writes, all CPUs parse
//! lines while more are decompressed.
//!
//! A newline in JSON is only white space, so splitting there is safe. After an error, and for any other
//! layout, the sequential reader reads the file again and reports errors.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::{memchr, memchr_iter, memrchr};
use rayon::prelude::*;
use serde::de::Deserializer as _;

use super::error::SnapshotRefusal;
use super::format::{Defaults, SnapshotContent, SnapshotReader, ThreadReader};
use super::limit::{ContentLimit, LimitedContent, ReadLimits};
use crate::model::{SnapshotHead, ThreadId, Threads};

/// Bytes of threads that one CPU parses at a time.
const BATCH: u64 = 256 * 1024;
/// Batches per CPU that are decompressed while those before them are parsed, and those before these added.
const BATCHES: usize = 2;
/// Maximum number of batches in work: the single CPU that decompresses keeps no more than a few others busy.
const MOST_BATCHES: usize = 16;
/// Bytes read at a time before the threads.
const HEAD: u64 = 16 * 1024;
/// Maximum length of a line.
const LONGEST_LINE: usize = 64 * 1024 * 1024;
/// Maximum length of the line of a thread. A list of 8,192 CPUs takes 48 KiB.
const LONGEST_THREAD: usize = 256 * 1024;

/// Why lines are not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NotRead {
    /// They have another layout or an error, which the sequential reader knows.
    Otherwise,
    Refused(SnapshotRefusal),
}

impl From<SnapshotRefusal> for NotRead {
    fn from(refusal: SnapshotRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A snapshot that has been read up to its threads.
pub(super) struct BegunLines<R> {
    text: LineText<R>,
    json: Vec<u8>,
    pub(super) head: SnapshotHead,
    defaults: Defaults,
    limits: ReadLimits,
}

impl<R: Read + Send> BegunLines<R> {
    /// Reads what precedes the threads.
    pub(super) fn begin(source: R, limits: ReadLimits) -> Result<Self, NotRead> {
        let source = LimitedContent { inner: source, content: Some(ContentLimit::new(limits.bytes)) };
        let mut text = LineText { source, rest: Vec::new() };
        let mut json = text.until_newline(memchr, HEAD)?;
        text.source.content = None;
        // If only this is missing, the text ends inside the list of threads.
        let length = json.len();
        json.extend(b"]}");
        let (head, defaults) = parse(&json, limits)?;
        json.truncate(length);
        // In files of other tools, the whole file decides which zeros are values.
        head.format_version.ok_or(NotRead::Otherwise)?;
        Ok(Self { text, json, head, defaults, limits })
    }

    /// Reads the threads into a `T` of at most so many bytes.
    pub(super) fn read<T: Threads>(self, empty: &T, max_bytes: usize) -> Result<(SnapshotHead, T), NotRead> {
        let Self { mut text, mut json, head, defaults, limits } = self;
        let max = defaults.max_threads(limits.threads);
        let (threads, bytes) = Default::default();
        let parser = BatchParser { defaults: &defaults, empty, threads, max, bytes, max_bytes };
        let workers = rayon::current_num_threads();
        let mut all = ThreadsSoFar { threads: empty.first(), last: None };
        // Workers wait for the first ones.
        let (mut lines, mut parsed) = (text.batches(MOST_BATCHES.min(workers))?, Vec::new());
        while !(lines.is_empty() && parsed.is_empty()) {
            let waiting: usize = parsed.iter().map(|batch: &Batch<T>| batch.threads.bytes()).sum();
            parser.bytes.store(all.threads.bytes() + waiting, Ordering::Relaxed);
            let parse = || lines.par_iter().map(|lines| parser.batch(lines)).collect::<Result<_, _>>();
            let add = || parsed.into_iter().try_for_each(|batch| all.append(batch));
            let ((added, now), next) =
                rayon::join(|| rayon::join(add, parse), || text.batches(MOST_BATCHES.min(BATCHES * workers)));
            added?;
            (parsed, lines) = (now?, next?);
        }
        if all.last.is_some_and(|last| last.ends_in_comma) {
            return Err(NotRead::Otherwise);
        }
        if text.rest.trim_ascii_end() == b"]}" {
            return Ok((head, all.threads));
        }
        // ctprof 0.2.0 wrote more behind the threads.
        drop(head);
        json.append(&mut text.rest);
        ContentLimit::new(limits.bytes).count(&json)?;
        Ok((parse(&json, limits)?.0, all.threads))
    }
}

/// Parses a snapshot without threads, and what these leave out.
fn parse(json: &[u8], limits: ReadLimits) -> Result<(SnapshotHead, Defaults), NotRead> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let reader = SnapshotReader::new(limits.threads, limits.cgroups);
    let read = json.deserialize_map(&reader).and_then(|content| json.end().map(|()| content));
    let Ok(SnapshotContent { snapshot, defaults }) = read else {
        return Err(reader.refusal().map_or(NotRead::Otherwise, NotRead::Refused));
    };
    if snapshot.threads.is_empty() { Ok((snapshot.head, defaults)) } else { Err(NotRead::Otherwise) }
}

/// A text that is read by whole lines.
struct LineText<R> {
    source: LimitedContent<R>,
    /// The bytes after the last newline.
    rest: Vec<u8>,
}

impl<R: Read> LineText<R> {
    /// Returns the text up to the newline that `find` chooses, read in steps of `step` bytes; empty after the last newline.
    fn until_newline(&mut self, find: fn(u8, &[u8]) -> Option<usize>, step: u64) -> Result<Vec<u8>, NotRead> {
        let mut text = std::mem::take(&mut self.rest);
        let mut searched = 0;
        loop {
            if text.len() > LONGEST_LINE || text.len() > LONGEST_THREAD && self.is_in_thread(&text) {
                return Err(NotRead::Otherwise);
            }
            text.reserve(usize::try_from(step).unwrap_or_default());
            let read = self.source.by_ref().take(step).read_to_end(&mut text);
            let read = read
                .map_err(|error| SnapshotRefusal::from_io_error(&error).map_or(NotRead::Otherwise, NotRead::Refused))?;
            if let Some(newline) = find(b'\n', &text[searched..]) {
                self.rest = text.split_off(searched + newline + 1);
                return Ok(text);
            }
            searched = text.len();
            if read == 0 {
                self.rest = text;
                return Ok(Vec::new());
            }
        }
    }

    /// Returns the next `number` batches of lines; fewer at the end.
    fn batches(&mut self, number: usize) -> Result<Vec<Vec<u8>>, NotRead> {
        let mut batches = Vec::new();
        while batches.len() < number {
            match self.until_newline(memrchr, BATCH)? {
                lines if lines.is_empty() => break,
                lines => batches.push(lines),
            }
        }
        Ok(batches)
    }

    /// Whether a text without a newline is the line of a thread: what precedes threads has limited content, and what
    /// follows them begins with the end of their list.
    fn is_in_thread(&self, text: &[u8]) -> bool {
        self.source.content.is_none() && text.first() != Some(&b']')
    }
}

/// The threads of a batch of lines.
struct Batch<T> {
    threads: T,
    /// The id of the first thread.
    first: ThreadId,
    last: LastThread,
}

#[derive(Clone, Copy)]
struct LastThread {
    id: ThreadId,
    /// Whether a comma follows it.
    ends_in_comma: bool,
}

/// The threads of all batches before the next.
struct ThreadsSoFar<T> {
    threads: T,
    last: Option<LastThread>,
}

impl<T: Threads> ThreadsSoFar<T> {
    /// Adds a batch; an error if it does not continue the list.
    fn append(&mut self, batch: Batch<T>) -> Result<(), NotRead> {
        if self.last.is_some_and(|last| !last.ends_in_comma || last.id > batch.first) {
            return Err(NotRead::Otherwise);
        }
        self.threads.append(batch.threads);
        self.last = Some(batch.last);
        Ok(())
    }
}

struct BatchParser<'e, T> {
    /// Values that threads leave out.
    defaults: &'e Defaults,
    /// State from which each batch starts.
    empty: &'e T,
    /// Number of threads in all batches so far.
    threads: AtomicUsize,
    max: usize,
    /// Size of all batches in memory, in bytes.
    bytes: AtomicUsize,
    max_bytes: usize,
}

impl<T: Threads> BatchParser<'_, T> {
    /// The threads in the lines, one per line; an error for anything else, or out of order.
    fn batch(&self, lines: &[u8]) -> Result<Batch<T>, NotRead> {
        // Before they take memory.
        let number = memchr_iter(b'\n', lines).count();
        if self.threads.fetch_add(number, Ordering::Relaxed) + number > self.max {
            return Err(NotRead::Refused(SnapshotRefusal::too_large(self.max, "threads")));
        }
        let mut threads = self.empty.another();
        let mut reader = ThreadReader::new(self.defaults);
        let (mut ids, mut ends_in_comma) = (None, true);
        let lines = str::from_utf8(lines).map_err(|_| NotRead::Otherwise)?;
        for line in lines.strip_suffix('\n').unwrap_or(lines).split('\n') {
            let comma = line.strip_suffix(',');
            if !std::mem::replace(&mut ends_in_comma, comma.is_some()) {
                return Err(NotRead::Otherwise);
            }
            let line = comma.unwrap_or(line);
            if line.len() > LONGEST_THREAD {
                return Err(NotRead::Otherwise);
            }
            let mut json = serde_json::Deserializer::from_str(line);
            let thread = json.deserialize_map(&mut reader).and_then(|(thread, _)| json.end().map(|()| thread));
            let thread = thread.map_err(|_| reader.refusal().map_or(NotRead::Otherwise, NotRead::Refused))?;
            let (first, last) = ids.unwrap_or((thread.id(), thread.id()));
            ids = (last <= thread.id()).then(|| (first, thread.id()));
            ids.ok_or(NotRead::Otherwise)?;
            threads.add(thread);
            self.check(threads.bytes())?;
        }
        let bytes = threads.bytes();
        self.check(self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes)?;
        let (first, id) = ids.ok_or(NotRead::Otherwise)?;
        Ok(Batch { threads, first, last: LastThread { id, ends_in_comma } })
    }

    fn check(&self, bytes: usize) -> Result<(), NotRead> {
        let max = self.max_bytes;
        if bytes > max { Err(NotRead::Refused(SnapshotRefusal::in_memory(max))) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadState;

    fn read<T: Threads>(source: impl Read + Send, threads: usize, empty: &T) -> Result<(SnapshotHead, T), NotRead> {
        let limits = ReadLimits { threads, ..ReadLimits::new(1 << 30) };
        BegunLines::begin(source, limits)?.read(empty, usize::MAX)
    }

    fn read_all(json: &str, max: usize) -> Result<(SnapshotHead, Vec<ThreadState>), NotRead> {
        read(json.as_bytes(), max, &Vec::new())
    }

    fn tids(json: &str) -> Option<Vec<u32>> {
        Some(read_all(json, 10_000).ok()?.1.iter().map(|thread| thread.tid).collect())
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
        let refused = NotRead::Refused(SnapshotRefusal::TooLarge(9_999, "threads"));
        assert_eq!(read_all(&json, 9_999), Err(refused));
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

    /// Ids of threads, which take 100 bytes each, and whether these are the first of all.
    struct Counted(Vec<u32>, bool);

    impl Threads for Counted {
        fn another(&self) -> Self {
            Self(Vec::new(), false)
        }

        fn first(&self) -> Self {
            Self(Vec::new(), true)
        }

        fn add(&mut self, thread: ThreadState) {
            self.0.push(thread.tid);
        }

        fn append(&mut self, later: Self) {
            self.0.extend(later.0);
        }

        fn bytes(&self) -> usize {
            100 * self.0.len()
        }
    }

    #[test]
    fn threads_of_all_batches_may_take_the_limit_and_no_byte_more() {
        let many: Vec<u32> = (1..=10_000).collect();
        let json = format!("{{\"format_version\":1,\"threads\":[\n{}\n]}}", lines(&many));
        let read = |max_bytes| {
            let begun = BegunLines::begin(json.as_bytes(), ReadLimits::new(1 << 30)).unwrap();
            begun.read(&Counted(Vec::new(), false), max_bytes).map(|(_, threads)| (threads.0, threads.1))
        };
        assert_eq!(read(1_000_000), Ok((many, true)));
        assert_eq!(read(999_999), Err(NotRead::Refused(SnapshotRefusal::in_memory(999_999))));
    }

    #[test]
    fn batches_are_one_list_if_a_comma_is_between_them_and_their_threads_are_in_order() {
        let batch = |first, last, ends_in_comma| {
            let [first, id] = [first, last].map(|tid| ThreadId { tgid: 1, tid });
            Batch { threads: Vec::<ThreadState>::new(), first, last: LastThread { id, ends_in_comma } }
        };
        let append = |later| {
            let mut all = ThreadsSoFar { threads: Vec::new(), last: None };
            all.append(batch(1, 5, true)).and_then(|()| all.append(later)).map(|()| all.last.unwrap())
        };
        let last = append(batch(5, 9, false)).unwrap();
        assert_eq!((last.id.tid, last.ends_in_comma), (9, false));
        assert!(append(batch(4, 9, false)).is_err(), "out of order");
        let mut all = ThreadsSoFar { threads: Vec::new(), last: None };
        all.append(batch(1, 5, false)).unwrap();
        assert!(all.append(batch(6, 9, false)).is_err(), "a comma is missing");
    }

    #[test]
    fn only_lines_of_threads_are_short() {
        let padded = |before, thread, after| {
            let space = |length| " ".repeat(length);
            let thread = format!("{{\"tid\":5,\"tgid\":1{}}}", space(thread - 18));
            let (before, after) = (space(before), space(after));
            tids(&format!("{{\"format_version\":1,{before}\"threads\":[\n{thread}\n],{after}\"psi\":null}}"))
        };
        let five = Some(vec![5]);
        assert_eq!(padded(0, LONGEST_THREAD, 0), five);
        assert_eq!(padded(0, LONGEST_THREAD + 1, 0), None);
        assert_eq!(padded(2 * LONGEST_THREAD, 100, 2 * LONGEST_THREAD), five, "what is around the threads");
    }

    #[test]
    fn the_line_of_a_thread_without_end_is_not_read_to_its_end() {
        let head = b"{\"format_version\":1,\"threads\":[\n{";
        let mut source = head.chain(std::io::repeat(b' ').take(1 << 30));
        assert_eq!(read::<Vec<ThreadState>>(&mut source, 1, &Vec::new()), Err(NotRead::Otherwise));
        assert!(source.get_ref().1.limit() > (1 << 30) - 4 * LONGEST_THREAD as u64);
    }

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let mut source = std::io::repeat(b' ').take(1 << 30);
        assert_eq!(read::<Vec<ThreadState>>(&mut source, 1, &Vec::new()), Err(NotRead::Otherwise));
        assert!(source.limit() > (1 << 30) - 2 * LONGEST_LINE as u64);
    }
}
