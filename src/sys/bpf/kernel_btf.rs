//! The types of the running kernel.

use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::statfs::{SYSFS_MAGIC, fstatfs};

use super::super::errno;
use super::mapping::{Access, Mapping};

/// The file with the types.
pub(crate) const PATH: &str = "/sys/kernel/btf/vmlinux";

/// Several times what any kernel has: distribution kernels have 4 to 8 MiB.
const MAX_SIZE: usize = 256 << 20;

/// Why there are no types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KernelBtfError {
    /// `ENOENT`: a kernel without `CONFIG_DEBUG_INFO_BTF`.
    #[error("{PATH}: {0}")]
    Os(#[from] Errno),
    #[error("{PATH} is not from the kernel: another file system is mounted there")]
    NotSysfs,
    #[error("{PATH} is larger than {} MiB", MAX_SIZE >> 20)]
    TooLarge,
}

/// The kernel's type information in the BPF Type Format, as bytes.
#[derive(Debug)]
pub(crate) struct KernelBtf(Bytes);

#[derive(Debug)]
enum Bytes {
    Mapped(Mapping),
    Read(Vec<u8>),
}

impl KernelBtf {
    /// Maps the file (Linux 6.16), or reads it.
    ///
    /// # Errors
    /// [`KernelBtfError`].
    pub(crate) fn open() -> Result<Self, KernelBtfError> {
        let file = File::open(PATH).map_err(|error| errno(&error))?;
        if fstatfs(&file)?.filesystem_type() != SYSFS_MAGIC {
            return Err(KernelBtfError::NotSysfs);
        }
        let size = file.metadata().map_err(|error| errno(&error))?.len();
        let size = usize::try_from(size).ok().filter(|&size| size <= MAX_SIZE).ok_or(KernelBtfError::TooLarge)?;
        match Mapping::new(file.as_fd(), 0, size, Access::Constant) {
            Ok(mapping) => Ok(Self(Bytes::Mapped(mapping))),
            Err(_) => read(file, size).map(|bytes| Self(Bytes::Read(bytes))),
        }
    }
}

fn read(file: File, size: usize) -> Result<Vec<u8>, KernelBtfError> {
    let mut bytes = Vec::with_capacity(size + 1);
    let limit = u64::try_from(MAX_SIZE).map_or(u64::MAX, |limit| limit + 1);
    file.take(limit).read_to_end(&mut bytes).map_err(|error| errno(&error))?;
    if bytes.len() > MAX_SIZE { Err(KernelBtfError::TooLarge) } else { Ok(bytes) }
}

impl Deref for KernelBtf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: the range is mapped while `self` exists. The file is in sysfs, where it is a constant part of
            // the kernel: it neither changes nor gets shorter.
            Bytes::Mapped(mapping) => unsafe { std::slice::from_raw_parts(mapping.address(), mapping.length()) },
            Bytes::Read(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn the_types_are_the_same_mapped_or_read() {
        let btf = match KernelBtf::open() {
            Ok(btf) => btf,
            Err(error) => return skipped(Missing::Kernel(format!("BTF: {error}"))),
        };
        assert_eq!(btf[..2], 0xeb9f_u16.to_ne_bytes());
        let bytes = read(File::open(PATH).unwrap(), btf.len()).unwrap();
        assert!(bytes == *btf, "{} and {} bytes", bytes.len(), btf.len());
    }
}
