//! ExaminedFiles that the observed process chooses: only regular ones are opened, and a limited number of bytes is
//! read from each.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use object::{ReadCache, ReadRef};

use super::super::super::procfs::folder::Folder;

/// How many bytes are read from one file at most, by one read and by all together. Debug information of large
/// programs has hundreds of MiB; a sparse file can state any size.
pub(super) const MAX_READ: u64 = 512 << 20;

/// Opens a regular file for reading, and nothing else.
pub(super) fn open_regular(folder: &Folder, path: &Path) -> Option<File> {
    // `O_PATH` opens nothing: opening a FIFO waits for a writer, and opening a device can have an effect.
    let place = File::from(folder.open_at(path, OFlag::O_PATH).ok()?);
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

/// A file whose reads fail once they are more than [`MAX_READ`] bytes together. It is not mapped into memory, because
/// its owner can truncate it meanwhile.
pub(super) struct LimitedFile<'f> {
    cache: ReadCache<&'f File>,
    left: Cell<u64>,
}

impl<'f> LimitedFile<'f> {
    pub(super) fn new(file: &'f File) -> Self {
        Self { cache: ReadCache::new(file), left: Cell::new(MAX_READ) }
    }

    fn charge(&self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::elf;
    use super::super::machine::Machine;
    use super::*;
    use crate::model::ProbeFailure;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [fifo, link, file] = ["fifo", "link", "file"].map(|name| dir.path().join(name));
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        std::fs::write(&file, "content").unwrap();
        let folder = Folder::open("/".as_ref()).unwrap();
        for refused in [&*fifo, &*link, dir.path(), Path::new("/dev/zero"), &dir.path().join("none")] {
            assert!(open_regular(&folder, refused).is_none(), "{}", refused.display());
        }
        assert_eq!(std::io::read_to_string(open_regular(&folder, &file).unwrap()).unwrap(), "content");
    }

    /// A program with a block of thread-local storage and a symbol table of `symbols` bytes.
    fn program(symbols: u64) -> Vec<u8> {
        let machine = Machine::NATIVE.in_header().0;
        let halves = |numbers: &[u16]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let words = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let longs = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let header = [
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
            [halves(&[2, machine]), words(&[1]), longs(&[0, 64, 120]), words(&[0])].concat(),
            halves(&[64, 56, 1, 64, 3, 2]),
        ];
        let tls = [words(&[7, 4]), longs(&[0, 0, 0, 0, 64, 8])].concat();
        let section = |kind: u32, size: u64, link: u32, entry: u64| {
            [words(&[0, kind]), longs(&[0, 0, 312, size]), words(&[link, 0]), longs(&[8, entry])].concat()
        };
        let sections = [section(0, 0, 0, 0), section(2, symbols, 2, 24), section(3, 1, 0, 0)];
        [header.concat(), tls, sections.concat(), vec![0]].concat()
    }

    /// What is found in a sparse file that starts with that program.
    fn opened(symbols: u64) -> Result<(), ProbeFailure> {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&program(symbols), 0).unwrap();
        file.set_len(4 << 30).unwrap();
        elf::open(Machine::NATIVE, &LimitedFile::new(&file)).map(drop)
    }

    #[test]
    fn a_symbol_table_above_the_limit_is_not_read() {
        assert_eq!(opened(24 << 10), Ok(()));
        assert_eq!(opened(24 << 26), Err(ProbeFailure::JemallocNotFound));
    }

    #[test]
    fn many_reads_together_are_limited_too() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let limited = LimitedFile { left: Cell::new(100), ..LimitedFile::new(&file) };
        assert_eq!((&limited).read_bytes_at(0, 60).map(<[u8]>::len), Ok(60));
        assert_eq!((&limited).read_bytes_at(60, 60), Err(()));
        assert_eq!((&limited).read_bytes_at(60, 40).map(<[u8]>::len), Ok(40));
    }

    #[test]
    fn texts_without_an_end_and_empty_ones_count_as_read() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[b'x'; 1 << 13], 0).unwrap();
        let limited = LimitedFile { left: Cell::new(3 * LONGEST_TEXT as u64), ..LimitedFile::new(&file) };
        let endless = || (&limited).read_bytes_at_until(0..1 << 13, 0).is_err() && limited.left.get() > 0;
        let before = limited.left.get();
        assert!((0..2).all(|_| endless()) && limited.left.get() < before - 2 * LONGEST_TEXT as u64);
        let rest = limited.left.get();
        assert_eq!((&limited).read_bytes_at_until(0..10, b'x'), Ok(&b""[..]));
        assert!(limited.left.get() < rest);
    }
}
