//! `capset(2)`: dropping capabilities, and setting them aside.

use nix::errno::Errno;
use nix::libc;

use super::{address, call};

/// `_LINUX_CAPABILITY_VERSION_3` of `include/uapi/linux/capability.h`: two words per set.
const VERSION: u32 = 0x2008_0522;

/// A word of each capability set: `struct __user_cap_data_struct` of the kernel.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Treatment of the inheritable set, which decides about capabilities after exec(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inheritable {
    /// It is limited too.
    Limit,
    /// It stays, and so does the ambient set, whose capabilities have to stay permitted.
    Keep,
}

/// Capability sets of a thread, as one bit per capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldCapabilities {
    permitted: u64,
    effective: u64,
}

/// Returns the capability sets of the calling thread.
pub(crate) fn of_this_thread() -> Result<HeldCapabilities, Errno> {
    let words = changed(0, |_, _| ())?;
    Ok(HeldCapabilities { permitted: both(words.map(|words| words.permitted)), effective: effective_of(words) })
}

/// Drops every capability whose bit is not in `kept`, in the calling thread and in threads that it starts later.
pub(crate) fn keep(kept: u64, inheritable: Inheritable) -> Result<(), Errno> {
    let change = |data: &mut CapabilityWords, kept: u32| {
        data.effective &= kept;
        match inheritable {
            Inheritable::Limit => {
                data.permitted &= kept;
                data.inheritable &= kept;
            }
            // Ambient capabilities are permitted and inheritable.
            Inheritable::Keep => data.permitted &= kept | data.inheritable,
        }
    };
    changed(kept, change).map(drop)
}

/// Makes the permitted capabilities of `wanted` effective, in the calling thread and in threads that it starts later. Returns the
/// capabilities that were effective before.
pub(crate) fn set_effective(wanted: u64) -> Result<u64, Errno> {
    changed(wanted, |data, wanted| data.effective = data.permitted & wanted).map(effective_of)
}

/// Like [`set_effective`], but only with capabilities that are effective already.
pub(crate) fn limit_effective(wanted: u64) -> Result<u64, Errno> {
    changed(wanted, |data, wanted| data.effective &= wanted).map(effective_of)
}

fn effective_of(words: [CapabilityWords; 2]) -> u64 {
    both(words.map(|words| words.effective))
}

fn both([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Changes both words of the sets, each with its word of `mask`. Returns the sets before.
///
/// If nothing changes, nothing is set: a sandbox without capset(2) is no obstacle then.
fn changed(mask: u64, change: impl Fn(&mut CapabilityWords, u32)) -> Result<[CapabilityWords; 2], Errno> {
    // `struct __user_cap_header_struct`; the calling thread is number 0.
    let mut header = [VERSION, 0];
    let mut data = [CapabilityWords::default(); 2];
    // SAFETY: the kernel writes two records, as version 3 says, into an array of two.
    unsafe { call(libc::SYS_capget, [address(header.as_mut_ptr()), address(data.as_mut_ptr())]) }?;
    let before = data;
    for (data, shift) in data.iter_mut().zip([0, 32]) {
        change(data, u32::try_from(mask >> shift & u64::from(u32::MAX)).expect("half of the bits"));
    }
    if data != before {
        // SAFETY: the kernel reads two records from an array of two.
        unsafe { call(libc::SYS_capset, [address(header.as_mut_ptr()), address(data.as_ptr())]) }?;
    }
    Ok(before)
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
            assert_eq!(limit_effective(1 << 40), Ok(before & (1 << 12 | 1 << 40)));
            assert_eq!(effective(), before & 1 << 40);
            assert_eq!(set_effective(u64::MAX), Ok(before & 1 << 40));
            assert_eq!(effective(), before & (1 << 12 | 1 << 40), "what was dropped does not come back");
            keep(0, Inheritable::Limit).unwrap();
            assert_eq!(effective(), 0);
        })
        .join()
        .unwrap();
        assert_eq!(effective(), before);
    }
}
