//! Reads memory of other processes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};

/// Bits of a page in `pagemap` (`fs/proc/task_mmu.c`): in memory, swapped out, of a file or shared memory, and
/// write-protected by userfaultfd(2), which pages that are nowhere can be too.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
const WRITE_PROTECTED: u64 = 1 << 57;

/// Nothing that is read is on more pages.
const MAX_PAGES: usize = 2;

static PAGE: LazyLock<u64> = LazyLock::new(|| {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).expect("every machine has pages")
});

/// The memory of the program that a process had when these files were opened. If the process executes another program,
/// nothing of that is read.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    /// The open file `/proc/PID/mem`.
    pub(crate) memory: File,
    /// The open file `/proc/PID/pagemap`.
    pub(crate) pages: File,
}

impl AddressSpace {
    /// Fills `buffer` from `address`, if these pages are the program's alone and it has written to them. For others, the
    /// kernel would have to ask a file system or the program itself, which may never answer.
    ///
    /// # Errors
    /// `EFAULT` if it has no such pages, `ESRCH` if the program is gone.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let length = u64::try_from(buffer.len()).map_err(|_| Errno::EFAULT)?;
        let first = address / *PAGE;
        let end = address.checked_add(length).ok_or(Errno::EFAULT)?.div_ceil(*PAGE);
        let pages = usize::try_from(end - first).map_err(|_| Errno::EFAULT)?;
        let mut entries = [[0; 8]; MAX_PAGES];
        let entries = entries.get_mut(..pages).ok_or(Errno::EFAULT)?;
        // Beyond the last address, there are no entries either. Nothing is at the first one.
        let read = read_at(&self.pages, first * 8, entries.as_flattened_mut());
        read.or_else(|_| read_at(&self.pages, 0, entries.as_flattened_mut()))?;
        if !entries.iter().all(|entry| is_own(u64::from_ne_bytes(*entry))) {
            return Err(Errno::EFAULT);
        }
        read_at(&self.memory, address, buffer)
    }
}

fn is_own(page: u64) -> bool {
    let is_there = page & PRESENT != 0 || (page & SWAPPED != 0 && page & WRITE_PROTECTED == 0);
    is_there && page & OF_FILE == 0
}

fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    match file.read_at(buffer, offset) {
        Ok(read) if read == buffer.len() => Ok(()),
        // `mem_rw` and `pagemap_read` of `fs/proc`: the memory has no user any more.
        Ok(0) => Err(Errno::ESRCH),
        Ok(_) | Err(_) => Err(Errno::EFAULT),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_page_that_is_nowhere_but_write_protected_is_not_read() {
        assert!(is_own(PRESENT) && is_own(SWAPPED) && is_own(PRESENT | WRITE_PROTECTED));
        // `pte_to_pagemap_entry` of Linux 6.18: a marker of userfaultfd is like a page in swap.
        assert!(![0, SWAPPED | WRITE_PROTECTED, PRESENT | OF_FILE].into_iter().any(is_own));
    }

    fn space_of(pid: u32) -> AddressSpace {
        let [memory, pages] = ["mem", "pagemap"].map(|name| File::open(format!("/proc/{pid}/{name}")).unwrap());
        AddressSpace { memory, pages }
    }

    /// Two private pages, of a file or of none.
    fn two_pages(file: Option<&File>) -> *mut u8 {
        let length = usize::try_from(*PAGE * 2).unwrap();
        let descriptor = file.map_or(-1, std::os::fd::AsRawFd::as_raw_fd);
        let flags = nix::libc::MAP_PRIVATE | if file.is_some() { 0 } else { nix::libc::MAP_ANONYMOUS };
        let access = nix::libc::PROT_READ | nix::libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        unsafe { nix::libc::mmap(std::ptr::null_mut(), length, access, flags, descriptor, 0) }.cast()
    }

    #[test]
    fn memory_is_read_whole_or_not_at_all() {
        let original = *b"0123456789abcdef";
        let address = original.as_ptr() as u64;
        let space = space_of(std::process::id());
        let mut copy = [0; 16];
        space.read(address, &mut copy).unwrap();
        assert_eq!(copy, original);
        for unmapped in [8, 1 << 63, u64::MAX] {
            assert_eq!(space.read(unmapped, &mut copy), Err(Errno::EFAULT), "{unmapped:#x}");
        }
    }

    #[test]
    fn only_pages_that_the_program_has_written_to_are_read() {
        let space = space_of(std::process::id());
        let file = tempfile::tempfile().unwrap();
        file.set_len(*PAGE * 2).unwrap();
        let of_file = two_pages(Some(&file));
        // SAFETY: the first of the two pages.
        assert_eq!(unsafe { of_file.read_volatile() }, 0);
        for pages in [two_pages(None), of_file] {
            let address = pages as u64;
            assert_eq!(space.read(address, &mut [0; 8]), Err(Errno::EFAULT), "it is no page of its own");
            // SAFETY: the first of the two pages.
            unsafe { pages.write_volatile(7) };
            let mut copy = [0; 8];
            assert_eq!((space.read(address, &mut copy), copy[0]), (Ok(()), 7));
            assert_eq!(
                space.read(address + *PAGE - 4, &mut copy),
                Err(Errno::EFAULT),
                "half of it is in the other page"
            );
        }
    }

    #[test]
    fn the_next_program_of_a_process_is_not_read() {
        let script = "read line; exec cat";
        let mut shell = Command::new("sh");
        let mut process = shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let space = space_of(process.id());
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.id())).unwrap();
        let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
        let end = stack.split([' ', '-']).nth(1).unwrap();
        let start = u64::from_str_radix(end, 16).unwrap() - 64;
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
