//! `capset(2)`: dropping capabilities.

use nix::errno::Errno;
use nix::libc;

use super::{address, call};

/// `_LINUX_CAPABILITY_VERSION_3` of `include/uapi/linux/capability.h`: two words per set.
const VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`; the calling thread is number 0.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// What happens to the inheritable set, which decides about capabilities after exec(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inheritable {
    /// It is limited too.
    Limit,
    /// It stays, and so does the ambient set, whose capabilities have to stay permitted.
    Keep,
}

/// Drops every capability whose bit is not in `kept`, in the calling thread and those that it starts.
///
/// If there is nothing to drop, nothing is set: a sandbox without capset(2) is no obstacle then.
///
/// # Errors
/// Errors of the system calls.
pub(crate) fn keep(kept: u64, inheritable: Inheritable) -> Result<(), Errno> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: the kernel writes two records, as version 3 says, into an array of two.
    unsafe { call(libc::SYS_capget, [address(&raw mut header), address(data.as_mut_ptr())]) }?;
    let before = data;
    for (data, shift) in data.iter_mut().zip([0, 32]) {
        let kept = u32::try_from(kept >> shift & u64::from(u32::MAX)).expect("half of the bits");
        data.effective &= kept;
        match inheritable {
            Inheritable::Limit => {
                data.permitted &= kept;
                data.inheritable &= kept;
            }
            // Ambient capabilities are permitted and inheritable.
            Inheritable::Keep => data.permitted &= kept | data.inheritable,
        }
    }
    if data == before {
        return Ok(());
    }
    // SAFETY: the kernel reads two records from an array of two.
    unsafe { call(libc::SYS_capset, [address(&raw mut header), address(data.as_ptr())]) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap()
    }

    #[test]
    fn capabilities_are_dropped_in_this_thread_only() {
        let before = effective();
        std::thread::spawn(move || {
            keep(1 << 12 | 1 << 40, Inheritable::Limit).unwrap();
            assert_eq!(effective(), before & (1 << 12 | 1 << 40));
            keep(0, Inheritable::Limit).unwrap();
            assert_eq!(effective(), 0);
        })
        .join()
        .unwrap();
        assert_eq!(effective(), before);
    }
}
