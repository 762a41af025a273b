//! Reads memory of other processes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;

/// The memory of the program that a process had when this was opened. If the process executes another program, nothing
/// of that is read.
#[derive(Debug)]
pub(crate) struct AddressSpace(File);

impl AddressSpace {
    /// Opens the memory of process `pid`. What decides which of it is read has to be found out after that.
    ///
    /// # Errors
    /// Errors of opening `/proc/PID/mem`.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Fills `buffer` from `address`.
    ///
    /// # Errors
    /// `EFAULT` if the range is not fully mapped, `ESRCH` if the program is gone.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        match self.0.read_at(buffer, address) {
            Ok(read) if read == buffer.len() => Ok(()),
            // `mem_rw` of `fs/proc/base.c`: the memory has no user any more.
            Ok(0) => Err(Errno::ESRCH),
            Ok(_) | Err(_) => Err(Errno::EFAULT),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn memory_is_read_whole_or_not_at_all() {
        let known = *b"0123456789abcdef";
        let address = known.as_ptr() as u64;
        let space = AddressSpace::open(std::process::id()).unwrap();
        let mut copy = [0; 16];
        space.read(address, &mut copy).unwrap();
        assert_eq!(copy, known);
        for unmapped in [8, 1 << 63, u64::MAX] {
            assert_eq!(space.read(unmapped, &mut copy), Err(Errno::EFAULT), "{unmapped:#x}");
        }
        assert!(AddressSpace::open(u32::MAX).is_err());
    }

    #[test]
    fn a_range_that_ends_in_an_unmapped_page_is_not_half_read() {
        // SAFETY: a new mapping of two pages at an address that the kernel chooses, and the removal of its second.
        let page = unsafe {
            let (length, flags) = (1 << 17, nix::libc::MAP_PRIVATE | nix::libc::MAP_ANONYMOUS);
            let pages = nix::libc::mmap(std::ptr::null_mut(), length, nix::libc::PROT_READ, flags, -1, 0);
            assert_eq!(nix::libc::munmap(pages.byte_add(1 << 16), 1 << 16), 0);
            pages as u64
        };
        let space = AddressSpace::open(std::process::id()).unwrap();
        assert_eq!(space.read(page, &mut [0; 8]), Ok(()));
        assert_eq!(space.read(page + (1 << 16) - 4, &mut [0; 8]), Err(Errno::EFAULT));
    }

    #[test]
    fn the_next_program_of_a_process_is_not_read() {
        let script = "read line; exec cat";
        let mut shell = Command::new("sh");
        let mut process = shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let space = AddressSpace::open(process.id()).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.id())).unwrap();
        let start = u64::from_str_radix(maps.split_once('-').unwrap().0, 16).unwrap();
        assert_eq!(space.read(start, &mut [0; 8]), Ok(()));
        let mut input = process.stdin.take().unwrap();
        io::Write::write_all(&mut input, b"go\nx").unwrap();
        // What `cat` prints is printed after the exec.
        let mut output = process.stdout.take().unwrap();
        io::Read::read_exact(&mut output, &mut [0]).unwrap();
        assert_eq!(space.read(start, &mut [0; 8]), Err(Errno::ESRCH));
        drop(input);
        process.wait().unwrap();
    }
}
