//! State of sched_ext, from `/sys/kernel/sched_ext`.

use super::super::procfs::text::unsigned;
use super::files::HostFiles;
use crate::model::{SCHED_EXT, SchedExtSysfs, Shape, Value};

/// Reads the state of `sched_ext`; `None` if the kernel lacks it.
pub(crate) fn read(files: &HostFiles<'_>) -> Option<SchedExtSysfs> {
    let mut state = SchedExtSysfs::default();
    for field in SCHED_EXT {
        let Some(text) = files.line_of_sysfs(&format!("kernel/sched_ext/{}", field.source)) else { continue };
        let value = match field.value_type.shape {
            Shape::Text => Some(Value::Text(text.into())),
            _ => unsigned(text.as_bytes()).map(Value::Unsigned),
        };
        // A malformed value is absent.
        let _ = value.map(|value| field.set(&mut state, value));
    }
    (state != SchedExtSysfs::default()).then_some(state)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::super::options::Roots;
    use super::*;
    use crate::model::CategoricalString;

    #[test]
    fn a_loaded_scheduler_has_a_name_and_none_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { sysfs: dir.path().to_owned(), ..Roots::default() };
        let files = HostFiles::new(&roots);
        assert_eq!(read(&files), None);
        let root = dir.path().join("kernel/sched_ext");
        fs::create_dir_all(root.join("root")).unwrap();
        for (file, text) in [("state", "enabled\n"), ("enable_seq", "3\n"), ("root/ops", "minimal\n")] {
            fs::write(root.join(file), text).unwrap();
        }
        let state = read(&files).unwrap();
        assert_eq!(
            (state.state, state.ops),
            (Some(CategoricalString("enabled".into())), Some(CategoricalString("minimal".into())))
        );
        assert_eq!((state.enable_seq, state.nr_rejected), (Some(3.into()), None));
    }
}
