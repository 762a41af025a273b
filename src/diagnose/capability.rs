//! Capabilities that a capture can use.

use crate::model::stored_names;

stored_names! {
    /// A capability that a capture can use (`include/uapi/linux/capability.h`).
    pub enum Capability {
        /// Read and write any file, whatever its mode.
        DacOverride = "cap_dac_override",
        /// Read any file, whatever its mode: `io` has mode 0400.
        DacReadSearch = "cap_dac_read_search",
        /// Query taskstats.
        NetAdmin = "cap_net_admin",
        /// Read `io`, `smaps_rollup` and memory of other users' processes.
        SysPtrace = "cap_sys_ptrace",
        /// Load BPF programs and maps.
        Bpf = "cap_bpf",
        /// Let BPF programs read memory of the kernel.
        Perfmon = "cap_perfmon",
        /// Includes the two above, and most of what root may do.
        SysAdmin = "cap_sys_admin",
        /// Open the files that other users' processes have mapped.
        CheckpointRestore = "cap_checkpoint_restore",
    }
}
