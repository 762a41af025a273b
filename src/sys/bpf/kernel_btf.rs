//! The types of the running kernel.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::os::fd::AsFd;

use nix::sys::statfs::{SYSFS_MAGIC, fstatfs};

use super::mapping::{Access, SharedMemory};

/// Type information of the kernel.
pub(crate) const PATH: &str = "/sys/kernel/btf/vmlinux";

/// Several times what any kernel has: distribution kernels have 4 to 8 MiB.
const MAX_SIZE: usize = 256 << 20;

/// The kernel's type information in the BPF Type Format, as bytes.
#[derive(Debug)]
pub(crate) enum KernelBtf {
    Mapped(SharedMemory),
    Read(Vec<u8>),
}

impl KernelBtf {
    /// Maps the file (Linux 6.16), or reads it. `ENOENT` for a kernel without `CONFIG_DEBUG_INFO_BTF`. Errors without a
    /// number if the file is not the kernel's.
    pub(crate) fn open() -> io::Result<Self> {
        let file = File::open(PATH)?;
        if fstatfs(&file)?.filesystem_type() != SYSFS_MAGIC {
            return Err(io::Error::other("another file system is mounted there"));
        }
        let size = usize::try_from(file.metadata()?.len()).ok().filter(|&size| size <= MAX_SIZE);
        let size = size.ok_or_else(|| io::Error::other(format!("larger than {} MiB", MAX_SIZE >> 20)))?;
        match SharedMemory::new(file.as_fd(), 0, size, Access::Constant) {
            Ok(mapping) => Ok(Self::Mapped(mapping)),
            Err(_) => read(file, size).map(Self::Read),
        }
    }
}

/// Reads no more than the size that was checked.
fn read(file: File, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size + 1);
    file.take(u64::try_from(size).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Deref for KernelBtf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: the range is mapped while `self` exists. The file is in sysfs, where it is a constant part of
            // the kernel: it neither changes nor gets shorter.
            Self::Mapped(mapping) => unsafe { std::slice::from_raw_parts(mapping.start(), mapping.length) },
            Self::Read(bytes) => bytes,
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
