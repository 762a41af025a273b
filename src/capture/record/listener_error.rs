//! Errors of a listener.

use nix::errno::Errno;

/// Why exit records are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExitListenerError {
    /// No privileges.
    #[error("no exit records: {0}; run as root or with cap_net_admin")]
    Denied(Errno),
    /// A container.
    #[error("no exit records: only available in the initial PID, user and network namespaces; run on the host")]
    Namespace,
    /// No taskstats.
    #[error("no exit records: kernel lacks CONFIG_TASKSTATS, or hides it in this network namespace; run on the host")]
    Unsupported,
    /// Option.
    #[error("no exit records: taskstats is disabled by --no-taskstats")]
    Disabled,
    /// Any other error.
    #[error("no exit records: cannot listen to taskstats: {0}")]
    Os(Errno),
}

impl From<Errno> for ExitListenerError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EPERM | Errno::EACCES => Self::Denied(errno),
            Errno::EINVAL => Self::Namespace,
            Errno::ENOENT => Self::Unsupported,
            errno => Self::Os(errno),
        }
    }
}
