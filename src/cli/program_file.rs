//! The file of this program, in fixes that are told on the host where it runs.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

use crate::diagnose::Finding;

/// Names the file of this program in fixes, where a search for `ctprof` does not find it.
pub(super) fn name_program(findings: &mut [Finding]) {
    let executed = env::current_exe().ok().filter(|file| file.exists());
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(file) = executed.and_then(|file| not_found_by_name(&file, &path)) {
        findings.iter_mut().filter_map(|finding| finding.fix.as_mut()).for_each(|fix| fix.of_program(&file));
    }
}

/// The file of this program as a word of a shell; `None` if a search for `ctprof` finds it. `setcap` follows no link.
fn not_found_by_name(executed: &Path, path: &OsStr) -> Option<String> {
    let found = env::split_paths(path).map(|directory| directory.join("ctprof")).find(|file| file.is_file());
    let is_found = |file: &Path| !file.is_symlink() && file.canonicalize().is_ok_and(|file| file == executed);
    let word = || format!("'{}'", executed.display().to_string().replace('\'', r"'\''"));
    (!found.is_some_and(|file| is_found(&file))).then(word)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn setcap_is_told_of_a_file_that_it_finds() {
        let directory = tempfile::tempdir().unwrap();
        let [installed, other, linked] = ["bin", "it's here", "links"].map(|name| directory.path().join(name));
        for directory in [&installed, &other, &linked] {
            fs::create_dir(directory).unwrap();
        }
        for directory in [&installed, &other] {
            fs::write(directory.join("ctprof"), "").unwrap();
        }
        symlink(installed.join("ctprof"), linked.join("ctprof")).unwrap();
        let file = |executed: &Path, path: &Path| not_found_by_name(&executed.join("ctprof"), path.as_os_str());
        let quoted = |directory: &Path| Some(format!("'{}/ctprof'", directory.display()));
        assert_eq!(file(&installed, &installed), None);
        assert_eq!(file(&installed, &linked), quoted(&installed));
        assert_eq!(file(&installed, &other), quoted(&installed));
        assert_eq!(file(&other, Path::new("")), quoted(&other).map(|word| word.replace("it's", r"it'\''s")));
    }
}
