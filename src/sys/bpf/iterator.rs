//! Iterators: files whose content a program writes, thread by thread or element by element of a map, while they are read.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd;

use super::command::{self, ITER_CREATE, LINK_CREATE, address, number};
use super::program::Attach;

/// Bytes that [`read_words`] reads at most.
pub(crate) const CHUNK: usize = 128 << 10;

/// `bpf_seq_read` returns `EAGAIN` after a million threads without output (`MAX_ITER_OBJECTS`), and Linux has
/// at most four million.
const TRIES: u32 = 16;

/// Fields for `BPF_LINK_CREATE`, up to the last one that is not 0.
#[derive(Default)]
#[repr(C)]
struct LinkAttributes {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    visited: u64,
    visited_length: u32,
    reserved: u32,
}

/// Links an iterator program to all threads, to the one with this id (Linux 6.1), or to the map with this descriptor.
pub(crate) fn link(program: BorrowedFd<'_>, only: Option<u32>) -> Result<OwnedFd, Errno> {
    let mut attributes = LinkAttributes {
        program: number(program),
        attach_type: Attach::Iterator.number(),
        ..LinkAttributes::default()
    };
    // `tid` or `map_fd`, `pid` and `pid_fd` of `union bpf_iter_link_info`.
    let visited = [only.unwrap_or(0), 0, 0];
    if only.is_some() {
        attributes.visited = address(visited.as_ptr());
        attributes.visited_length = u32::try_from(size_of_val(&visited)).map_err(|_| Errno::E2BIG)?;
    }
    // SAFETY: the kernel reads as many bytes as `visited` has, which outlives the call.
    unsafe { command::open(LINK_CREATE, &mut attributes) }
}

/// A new pass over the threads of a link.
pub(crate) fn open(link: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = 0;
    // SAFETY: the attributes have no addresses.
    unsafe { command::open(ITER_CREATE, &mut [number(link), flags]) }
}

/// Fills the front of `buffer` with the next records of an iterator, and returns their bytes: less than the
/// buffer has only at the end of the pass, and 0 after it. A buffer whose length is a multiple of a record's
/// gets whole records.
///
/// One read(2) returns at most 32 KiB, the kernel's own buffer (`bpf_seq_read`), so a short one means nothing. Records that
/// were read before an error are returned first; the next call meets the error again, or continues.
pub(crate) fn read(iterator: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (mut filled, mut tries) = (0, 0);
    while filled < buffer.len() {
        match unistd::read(iterator.as_fd(), &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => (filled, tries) = (filled + bytes, 0),
            Err(Errno::EAGAIN | Errno::EINTR) if tries < TRIES => tries += 1,
            Err(_) if filled > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

/// Appends the next records of an iterator to `words`, and returns how many words it has appended. Otherwise as [`read`], and
/// `EIO` for a part of a word.
pub(crate) fn read_words(iterator: impl AsFd, words: &mut Vec<u64>) -> Result<usize, Errno> {
    let filled = words.len();
    words.resize(filled + CHUNK / size_of::<u64>(), 0);
    // SAFETY: any bytes are words, and any word is bytes, which are less aligned.
    let (_, buffer, _) = unsafe { words[filled..].align_to_mut::<u8>() };
    let length = read(iterator, buffer);
    words.truncate(filled + length.unwrap_or(0) / size_of::<u64>());
    match length? % size_of::<u64>() {
        0 => Ok(words.len() - filled),
        _ => Err(Errno::EIO),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_buffer_is_filled_by_many_short_reads() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let writing = std::thread::spawn(move || (0..30u8).for_each(|byte| writer.write_all(&[byte]).unwrap()));
        let mut buffer = [0; 20];
        assert_eq!(read(&reader, &mut buffer), Ok(20));
        assert!(buffer.into_iter().eq(0..20));
        assert_eq!(read(&reader, &mut buffer), Ok(10));
        assert_eq!(read(&reader, &mut buffer), Ok(0));
        writing.join().unwrap();
    }

    #[test]
    fn words_are_appended_and_a_part_of_one_is_an_error() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all([7_u64, 8].map(u64::to_ne_bytes).as_flattened()).unwrap();
        writer.write_all(&[9; 3]).unwrap();
        drop(writer);
        let mut words = vec![6];
        assert_eq!(read_words(&reader, &mut words), Err(Errno::EIO));
        assert_eq!(words, [6, 7, 8]);
        assert_eq!(read_words(&reader, &mut words), Ok(0));
        assert_eq!(words, [6, 7, 8]);
    }

    #[test]
    fn records_before_an_error_are_kept() {
        // A non-blocking socket whose data ends returns EAGAIN, as often as it is read.
        let (reader, mut writer) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        writer.write_all(&[7; 8]).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(read(&reader, &mut buffer), Ok(8));
        assert_eq!(read(&reader, &mut buffer), Err(Errno::EAGAIN));
        assert_eq!(read(File::open("/").unwrap(), &mut buffer), Err(Errno::EISDIR));
    }
}
