//! The limit of locked memory, which programs and maps count against before Linux 5.11.

use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};

/// The limit is raised until this is dropped, so that commands that are started later do not inherit it.
/// What exists by then stays.
#[derive(Debug)]
pub(crate) struct RaisedMemlock {
    soft: rlim_t,
    hard: rlim_t,
}

impl RaisedMemlock {
    /// Removes the limit; without `CAP_SYS_RESOURCE`, raises it as far as possible.
    pub(crate) fn new() -> Result<Self, Errno> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
        match setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY) {
            Err(Errno::EPERM) => setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard),
            result => result,
        }?;
        Ok(Self { soft, hard })
    }
}

impl Drop for RaisedMemlock {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::RLIMIT_MEMLOCK, self.soft, self.hard);
    }
}

#[cfg(test)]
mod tests {
    use super::super::map::SharedWords;
    use super::super::ring::Ring;
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn the_limit_is_restored() {
        let limit = || getrlimit(Resource::RLIMIT_MEMLOCK).unwrap();
        let before = limit();
        let raised = RaisedMemlock::new().unwrap();
        assert!(limit().0 >= before.1);
        match SharedWords::new(1) {
            Err(errno) => skipped(Missing::Privilege(format!("BPF maps: {errno}"))),
            // Far above the limit of 64 KiB that most hosts have.
            Ok(_) => assert!(Ring::new(1 << 20).is_ok()),
        }
        drop(raised);
        assert_eq!(limit(), before);
    }
}
