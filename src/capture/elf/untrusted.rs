//! Files that the observed process chooses: only regular ones are opened, and a limited number of bytes is
//! read from each.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use object::pod::{self, Pod};
use object::{ReadCache, ReadRef};

use super::super::procfs::directory::ProcDirectory;

/// How much memory the contents of all files that are examined at a time may take, in bytes.
const MAX_READ: u64 = 64 << 20;
/// How long examining all files of a capture may take.
const MAX_TIME: Duration = Duration::from_secs(2);
/// How long to wait for the memory of other files. A thread that sleeps longer would be given up.
const WAIT: Duration = Duration::from_millis(5);
/// A sparse file can state any size. Few file systems compress better.
const MAX_RATIO: u64 = 16;

/// The memory and time that examining all files of a capture may take.
#[derive(Clone, Debug)]
pub(in crate::capture) struct SharedBudget {
    /// Bytes of memory left.
    left: Arc<AtomicU64>,
    /// Time used so far, in nanoseconds.
    used: Arc<AtomicU64>,
}

impl Default for SharedBudget {
    fn default() -> Self {
        Self { left: Arc::new(MAX_READ.into()), used: Arc::default() }
    }
}

/// The part of it that examining one file takes, until this is dropped.
pub(in crate::capture) struct ExamineBudget {
    shared: SharedBudget,
    taken: Cell<u64>,
    begin: Instant,
    pub(in crate::capture) until: Instant,
    /// Whether the file takes too much.
    pub(in crate::capture) is_exceeded: Cell<bool>,
    /// Whether other files left too little.
    pub(in crate::capture) is_taken: Cell<bool>,
}

impl SharedBudget {
    /// The memory of all files, and so much time.
    pub(in crate::capture) fn lasting(time: Duration) -> Self {
        let budget = Self::default();
        budget.add_time(MAX_TIME.saturating_sub(time));
        budget
    }

    pub(in crate::capture) fn of_file(&self) -> ExamineBudget {
        let used = Duration::from_nanos(self.used.load(Ordering::Relaxed));
        let begin = Instant::now();
        let until = begin + MAX_TIME.saturating_sub(used);
        let is_exceeded = Cell::new(until == begin);
        ExamineBudget {
            shared: self.clone(),
            taken: Cell::default(),
            begin,
            until,
            is_exceeded,
            is_taken: Cell::default(),
        }
    }

    /// Waits for what other files take.
    pub(in crate::capture) fn wait(&self) {
        thread::sleep(WAIT);
        self.add_time(WAIT);
    }

    fn add_time(&self, time: Duration) {
        self.used.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl ExamineBudget {
    /// Takes memory before it is allocated.
    pub(in crate::capture) fn charge(&self, bytes: u64) -> Result<(), ()> {
        let taken = self.taken.get().checked_add(bytes).filter(|taken| *taken <= MAX_READ && !self.is_exceeded.get());
        let Some(taken) = taken else {
            self.is_exceeded.set(true);
            return Err(());
        };
        let take = |left: u64| left.checked_sub(bytes);
        if self.shared.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            self.is_taken.set(true);
            return Err(());
        }
        self.taken.set(taken);
        Ok(())
    }

    /// Whether there is time left.
    pub(in crate::capture) fn has_time(&self) -> bool {
        let has_time = Instant::now() < self.until;
        self.is_exceeded.set(self.is_exceeded.get() || !has_time);
        has_time
    }
}

impl Drop for ExamineBudget {
    fn drop(&mut self) {
        self.shared.left.fetch_add(self.taken.get(), Ordering::Relaxed);
        self.shared.add_time(self.begin.elapsed());
    }
}

/// Opens a regular file for reading, and nothing else.
pub(in crate::capture) fn open_regular(directory: &ProcDirectory, path: &Path) -> Option<File> {
    // `O_PATH` opens nothing: opening a FIFO waits for a writer, and opening a device can have an effect.
    let place = File::from(directory.open_at(path, OFlag::O_PATH).ok()?);
    if !place.metadata().ok()?.is_file() {
        return None;
    }
    // Without `O_NONBLOCK`, a lease of the file (fcntl(2), `F_SETLEASE`) would delay the open.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let place = format!("/proc/self/fd/{}", place.as_raw_fd());
    open(place.as_str(), flags, Mode::empty()).ok().map(File::from)
}

/// [`ReadCache`] gives up a text without an end after as many bytes.
const LONGEST_TEXT: usize = 4096;
/// The memory of [`ReadCache`] for a text, even for an empty one.
const TEXT_ENTRY: usize = 64;

/// A file whose reads fail once they are more than its budget. It is not mapped into memory, because
/// its owner can truncate it meanwhile.
pub(in crate::capture) struct LimitedFile<'f> {
    file: &'f File,
    cache: ReadCache<&'f File>,
    budget: &'f ExamineBudget,
    /// The largest size of a part of it that is believed.
    largest: u64,
}

impl<'f> LimitedFile<'f> {
    pub(in crate::capture) fn new(file: &'f File, budget: &'f ExamineBudget) -> Self {
        // Some file systems do not say it.
        let on_disk = file.metadata().ok().map(|file| file.blocks().saturating_mul(512)).filter(|bytes| *bytes > 0);
        let largest = on_disk.map_or(u64::MAX, |bytes| bytes.saturating_mul(MAX_RATIO));
        Self { file, cache: ReadCache::new(file), budget, largest }
    }

    fn charge(&self, bytes: u64) -> Result<(), ()> {
        self.budget.charge(if bytes > self.largest { u64::MAX } else { bytes })
    }
}

impl<'a> ReadRef<'a> for &'a LimitedFile<'_> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.charge(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let bytes = self.cache.read_bytes_at_until(range, delimiter);
        let read = bytes.map_or(LONGEST_TEXT, <[u8]>::len);
        self.charge(u64::try_from(read + TEXT_ENTRY).map_err(drop)?)?;
        bytes
    }
}

/// Bytes that can also be looked at in pieces, without memory for all bytes at once.
pub(in crate::capture) trait Pieces<'d>: ReadRef<'d> {
    /// Returns the first result of `find` on the elements in these bytes from `start` on; `None` if it has none for any element.
    fn find_in_pieces<E: Pod, T>(self, start: u64, bytes: u64, find: impl FnMut(&E) -> Option<T>) -> Option<T>;
}

impl<'d> Pieces<'d> for &'d [u8] {
    fn find_in_pieces<E: Pod, T>(self, start: u64, bytes: u64, find: impl FnMut(&E) -> Option<T>) -> Option<T> {
        elements(self.read_bytes_at(start, bytes).ok()?).iter().find_map(find)
    }
}

impl<'a> Pieces<'a> for &'a LimitedFile<'_> {
    fn find_in_pieces<E: Pod, T>(self, start: u64, bytes: u64, mut find: impl FnMut(&E) -> Option<T>) -> Option<T> {
        const ELEMENTS: usize = 4096;
        if bytes > self.largest.min(MAX_READ) {
            self.budget.is_exceeded.set(true);
            return None;
        }
        // Words, so that elements are aligned.
        let mut words = vec![0_u64; ELEMENTS * size_of::<E>() / size_of::<u64>()];
        let buffer = pod::bytes_of_slice_mut(&mut words);
        let mut at = 0;
        while at < bytes && self.budget.has_time() {
            let piece = usize::try_from(bytes - at).map_or(buffer.len(), |left| left.min(buffer.len()));
            self.file.read_exact_at(&mut buffer[..piece], start.checked_add(at)?).ok()?;
            if let Some(found) = elements(&buffer[..piece]).iter().find_map(&mut find) {
                return Some(found);
            }
            at += u64::try_from(piece).ok()?;
        }
        None
    }
}

/// The elements in some bytes, if these are aligned.
fn elements<E: Pod>(bytes: &[u8]) -> &[E] {
    pod::slice_from_bytes(bytes, bytes.len() / size_of::<E>()).map_or(&[], |(elements, _)| elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [fifo, link, file] = ["fifo", "link", "file"].map(|name| dir.path().join(name));
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        std::fs::write(&file, "content").unwrap();
        let directory = ProcDirectory::open("/".as_ref()).unwrap();
        for refused in [&*fifo, &*link, dir.path(), Path::new("/dev/zero"), &dir.path().join("none")] {
            assert!(open_regular(&directory, refused).is_none(), "{}", refused.display());
        }
        assert_eq!(std::io::read_to_string(open_regular(&directory, &file).unwrap()).unwrap(), "content");
    }

    #[test]
    fn many_reads_together_are_limited_too() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![b'x'; 1 << 20], 0).unwrap();
        let shared = SharedBudget::default();
        let others = shared.of_file();
        others.charge(MAX_READ - 100).unwrap();
        let budget = shared.of_file();
        let limited = LimitedFile::new(&file, &budget);
        assert_eq!((&limited).read_bytes_at(0, 60).map(<[u8]>::len), Ok(60));
        assert_eq!((&limited).read_bytes_at(60, 60), Err(()));
        assert!(budget.is_taken.get() && !budget.is_exceeded.get());
        assert_eq!((&limited).read_bytes_at(60, 40).map(<[u8]>::len), Ok(40));
        drop(others);
        assert_eq!((&limited).read_bytes_at(60, 60).map(<[u8]>::len), Ok(60));
        assert!(budget.charge(MAX_READ).is_err() && budget.is_exceeded.get());
        drop(limited);
        drop(budget);
        assert_eq!(shared.left.load(Ordering::Relaxed), MAX_READ);
    }

    #[test]
    fn an_element_is_found_in_any_piece_and_in_no_part_of_one() {
        let file = tempfile::tempfile().unwrap();
        let words: Vec<u8> = (0..10_000_u64).flat_map(u64::to_le_bytes).collect();
        file.write_all_at(&words, 8).unwrap();
        let budget = SharedBudget::default().of_file();
        let limited = LimitedFile::new(&file, &budget);
        let find =
            |wanted: u64, bytes| (&limited).find_in_pieces(8, bytes, |word: &u64| (*word == wanted).then_some(()));
        assert_eq!([0, 4_096, 9_999].map(|wanted| find(wanted, 80_000)), [Some(()); 3]);
        assert_eq!([find(9_999, 79_999), find(10_000, 80_000), find(0, 80_001)], [None, None, Some(())]);
        assert!(!budget.is_exceeded.get());
    }

    #[test]
    fn all_files_of_a_capture_share_its_time() {
        let shared = SharedBudget::default();
        assert!(shared.of_file().has_time());
        shared.used.store(2_000_000_000, Ordering::Relaxed);
        let late = shared.of_file();
        assert!(late.is_exceeded.get() && late.charge(1).is_err());
    }

    #[test]
    fn texts_without_an_end_and_empty_ones_count_as_read() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[b'x'; 1 << 13], 0).unwrap();
        let budget = SharedBudget::default().of_file();
        let limited = LimitedFile::new(&file, &budget);
        assert!((0..2).all(|_| (&limited).read_bytes_at_until(0..1 << 13, 0).is_err()));
        let taken = budget.taken.get();
        assert!(taken >= 2 * LONGEST_TEXT as u64);
        assert_eq!((&limited).read_bytes_at_until(0..10, b'x'), Ok(&b""[..]));
        assert!(budget.taken.get() > taken);
    }
}
