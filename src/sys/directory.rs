//! `getdents64(2)` into one reused buffer: lists procfs ids without an allocation per entry.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::libc;

use super::{address, call, length};

/// Offsets in `struct linux_dirent64`: length of the record, start of the name.
const RECLEN: usize = 16;
const NAME: usize = 19;

/// Appends the entries of `directory` that are numbers to `ids`, in the kernel's order. `buffer`
/// is scratch space.
pub(crate) fn numeric_entries(directory: impl AsFd, buffer: &mut [u8], ids: &mut Vec<u32>) -> Result<(), Errno> {
    loop {
        let filled = getdents(directory.as_fd().as_raw_fd(), buffer)?;
        if filled == 0 {
            return Ok(());
        }
        let mut records = &buffer[..filled];
        while let Some((record, rest)) = split_record(records) {
            ids.extend(number(&record[NAME..]));
            records = rest;
        }
    }
}

fn getdents(fd: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
    let arguments = [fd.into(), address(buffer.as_mut_ptr()), length(buffer.len())];
    // SAFETY: the kernel writes at most `buffer.len()` bytes, and any byte is a valid u8.
    let filled = unsafe { call(libc::SYS_getdents64, arguments) }?;
    Ok(usize::try_from(filled).expect("a size, once errors are out"))
}

fn split_record(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = records.get(RECLEN..RECLEN + 2)?;
    let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
    (length > NAME).then(|| records.split_at_checked(length)).flatten()
}

/// The number in a NUL-terminated name.
fn number(name: &[u8]) -> Option<u32> {
    let end = name.iter().position(|&b| b == 0)?;
    std::str::from_utf8(&name[..end]).ok().filter(|n| n.starts_with(|c: char| c.is_ascii_digit()))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_are_listed_through_a_small_buffer() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["7", "31337", "self", "12a", "+5", "4294967296"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let handle = std::fs::File::open(dir.path()).unwrap();
        let mut ids = Vec::new();
        numeric_entries(&handle, &mut [0; 64], &mut ids).unwrap();
        ids.sort_unstable();
        assert_eq!(ids, [7, 31337]);
    }

    #[test]
    fn a_file_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(numeric_entries(&file, &mut [0; 64], &mut Vec::new()), Err(Errno::ENOTDIR));
    }
}
