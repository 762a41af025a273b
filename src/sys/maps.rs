//! The executable mappings of files in a process, without the text of the others.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::libc;

/// `PROCMAP_QUERY` of `include/uapi/linux/fs.h`, from Linux 6.11.
const PROCMAP_QUERY: libc::Ioctl = libc::_IOWR::<ProcmapQuery>(0x66, 17);
/// `PROCMAP_QUERY_VMA_EXECUTABLE`, `PROCMAP_QUERY_COVERING_OR_NEXT_VMA` and `PROCMAP_QUERY_FILE_BACKED_VMA`.
const EXECUTABLE: u64 = 0x04;
const NEXT_FILE: u64 = 0x10 | 0x20;
/// Maximum number of mappings to ask for. With more, the text is as fast.
const MAX_QUERIES: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) is_executable: bool,
    /// Major and minor number of the file system's device.
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    /// Path in the file's mount namespace; for a removed file with ` (deleted)`.
    pub(crate) path: Vec<u8>,
}

/// Argument of the ioctl PROCMAP_QUERY: `struct procmap_query` of the kernel.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// Returns the first mapping of a file in the process whose `/proc/PID/maps` is open, and all later executable mappings of
/// files, in the order of addresses.
///
/// # Errors
/// `ENOTTY` before Linux 6.11, `E2BIG` for a process with many mappings of files, `ENAMETOOLONG` for a path longer
/// than `PATH_MAX`: the text of `maps` has the mappings all the same. Other errors of the system call.
pub(crate) fn file_mappings(maps: impl AsFd) -> Result<Vec<Mapping>, Errno> {
    let descriptor = maps.as_fd().as_raw_fd();
    let mut mappings = Vec::new();
    let mut name = vec![0; usize::try_from(libc::PATH_MAX).expect("a small constant")];
    let mut address = 0;
    for _ in 0..MAX_QUERIES {
        let flags = if mappings.is_empty() { NEXT_FILE } else { NEXT_FILE | EXECUTABLE };
        match next(descriptor, flags, address, &mut name) {
            // The kernel returns no mapping that ends before the address.
            Ok(mapping) if mapping.end > address => {
                address = mapping.end;
                mappings.push(mapping);
            }
            Ok(_) => return Err(Errno::EINVAL),
            Err(Errno::ENOENT) => return Ok(mappings),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::E2BIG)
}

/// The first mapping with these flags that ends after `address`; `ENOENT` if there is none. `name` is scratch space.
fn next(descriptor: i32, query_flags: u64, address: u64, name: &mut [u8]) -> Result<Mapping, Errno> {
    let mut query = ProcmapQuery {
        size: u64::try_from(size_of::<ProcmapQuery>()).expect("a small constant"),
        query_flags,
        query_addr: address,
        vma_name_size: u32::try_from(name.len()).map_err(|_| Errno::EINVAL)?,
        vma_name_addr: u64::try_from(name.as_mut_ptr().expose_provenance()).map_err(|_| Errno::EFAULT)?,
        ..ProcmapQuery::default()
    };
    // SAFETY: the kernel reads and writes at most `size` bytes of the structure, which consists of integers, and
    // writes at most `vma_name_size` bytes to the name.
    Errno::result(unsafe { libc::ioctl(descriptor, PROCMAP_QUERY, &raw mut query) })?;
    // The size includes the NUL.
    let length = usize::try_from(query.vma_name_size).unwrap_or(0).saturating_sub(1);
    Ok(Mapping {
        start: query.vma_start,
        end: query.vma_end,
        offset: query.vma_offset,
        is_executable: query.vma_flags & EXECUTABLE != 0,
        device: (query.dev_major, query.dev_minor),
        inode: query.inode,
        path: name.get(..length).unwrap_or_default().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_of_proc_has_no_mappings() {
        assert_eq!(size_of::<ProcmapQuery>(), 104);
        assert_eq!(file_mappings(tempfile::tempfile().unwrap()), Err(Errno::ENOTTY));
    }
}
