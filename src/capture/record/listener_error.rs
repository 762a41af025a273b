//! Errors of a listener.

use nix::errno::Errno;

/// Why exit records are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExitListenerError {
    /// The kernel denied taskstats: `CAP_NET_ADMIN` is missing.
    #[error("no exit records: {0}; run as root or with cap_net_admin")]
    Denied(Errno),
    /// ctprof runs outside the initial PID, user or network namespace.
    #[error("no exit records: only available in the initial PID, user and network namespaces; run on the host")]
    Namespace,
    /// The kernel lacks `CONFIG_TASKSTATS`, or hides it in this network namespace.
    #[error("no exit records: kernel lacks CONFIG_TASKSTATS, or hides it in this network namespace; run on the host")]
    Unsupported,
    /// The option `--no-taskstats`, and BPF is not available.
    #[error("no exit records: taskstats is disabled by --no-taskstats")]
    Disabled,
    /// The kernel sends the records of each CPU to sockets that ask for that CPU.
    #[error(
        "no exit records: cannot read the CPUs of this host in /sys/devices/system/cpu; is sysfs mounted there? \
         mount -t sysfs sysfs /sys"
    )]
    UnknownCpus,
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
