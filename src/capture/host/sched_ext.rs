//! `/sys/kernel/sched_ext`.

use std::path::Path;

use super::context::line;
use crate::model::SchedExtSysfs;

/// Reads the state of `sched_ext`; `None` where the kernel has none.
pub(in crate::capture) fn read(sysfs: &Path) -> Option<SchedExtSysfs> {
    let root = sysfs.join("kernel/sched_ext");
    let number = |name: &str| line(&root.join(name))?.parse().ok();
    let state = SchedExtSysfs {
        state: line(&root.join("state")),
        switch_all: number("switch_all"),
        nr_rejected: number("nr_rejected"),
        hotplug_seq: number("hotplug_seq"),
        enable_seq: number("enable_seq"),
        ops: line(&root.join("root/ops")),
    };
    (state != SchedExtSysfs::default()).then_some(state)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_loaded_scheduler_has_a_name_and_none_has_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        let root = dir.path().join("kernel/sched_ext");
        fs::create_dir_all(root.join("root")).unwrap();
        for (file, text) in [("state", "enabled\n"), ("enable_seq", "3\n"), ("root/ops", "minimal\n")] {
            fs::write(root.join(file), text).unwrap();
        }
        let state = read(dir.path()).unwrap();
        assert_eq!((state.state.as_deref(), state.ops.as_deref()), (Some("enabled"), Some("minimal")));
        assert_eq!((state.enable_seq, state.nr_rejected), (Some(3), None));
    }
}
