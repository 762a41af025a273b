//! The file of this program, in fixes that are told on the host where it runs.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

use crate::diagnose::{Finding, Fix};

/// Names the file of this program in fixes, where a search for `ctprof` does not find it, or where its capabilities have no effect.
pub(super) fn name_program(findings: &mut [Finding]) {
    let Some(executed) = env::current_exe().ok().filter(|file| file.exists()) else { return };
    let path = env::var_os("PATH").unwrap_or_default();
    let is_nosuid = statvfs(&executed).is_ok_and(|mount| mount.flags().contains(FsFlags::ST_NOSUID));
    let grant: fn(_, _) -> _ = if is_nosuid { Fix::SetcapCopy } else { Fix::SetcapFile };
    let file = not_found_by_name(&executed, &path).or_else(|| is_nosuid.then(|| word(&executed)));
    if let Some(file) = file {
        findings.iter_mut().filter_map(|finding| finding.fix.as_mut()).for_each(|fix| fix.of_program(&file, grant));
    }
}

/// The file of this program as a word of a shell; `None` if a search for `ctprof` finds it. `setcap` follows no link.
fn not_found_by_name(executed: &Path, path: &OsStr) -> Option<String> {
    let found = env::split_paths(path).map(|directory| directory.join("ctprof")).find(|file| file.is_file());
    let is_found = |file: &Path| !file.is_symlink() && file.canonicalize().is_ok_and(|file| file == executed);
    (!found.is_some_and(|file| is_found(&file))).then(|| word(executed))
}

fn word(file: &Path) -> String {
    format!("'{}'", file.display().to_string().replace('\'', r"'\''"))
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
