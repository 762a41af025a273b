//! The files that a process has mapped: opened in its mount namespace.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use object::ReadRef;

use super::super::procfs::directory::ProcDirectory;
use super::headers::Headers;
use super::modules::Module;
use super::untrusted::open_regular;
use crate::sys::maps::Mapping;

/// Size, and the times of the last changes of content and inode, in seconds and nanoseconds. A file with equal ones is
/// still the one that was examined: inodes are used again, and files are written anew.
pub(in crate::capture) type FileVersion = [i64; 5];

/// Major and minor number of the device that a file is on.
pub(in crate::capture) fn device(file: &Metadata) -> (u32, u32) {
    [major(file.dev()), minor(file.dev())].map(|number| u32::try_from(number).unwrap_or(u32::MAX)).into()
}

/// The numbers of a file that change when it is written.
pub(in crate::capture) fn version(file: &Metadata) -> FileVersion {
    [file.size().cast_signed(), file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()]
}

/// Opens the mapped file, even if it was replaced: through the mapping if privileges allow, otherwise by
/// its name in the process's own root.
pub(in crate::capture) fn open(directory: &ProcDirectory, module: &Module) -> Option<(File, Metadata)> {
    let open = |path: &PathBuf| {
        let file = open_regular(directory, path)?;
        let metadata = file.metadata().ok().filter(|file| is_mapped(file, module))?;
        Some((file, metadata))
    };
    let Mapping { start, end, path, .. } = &module.mapping;
    let named = || rooted(Path::new(OsStr::from_bytes(path)));
    let names = [format!("map_files/{start:x}-{end:x}").into(), if module.is_program { "exe".into() } else { named() }];
    names.iter().find_map(open)
}

/// Whether a file is the mapped one. Some file systems without a disk of their own, such as btrfs and overlayfs, have
/// another device in the list of mappings: only devices of disks are compared.
fn is_mapped(file: &Metadata, module: &Module) -> bool {
    let (device, mapped) = (device(file), module.mapping.device);
    let is_comparable = device.0 != 0 && mapped.0 != 0;
    file.ino() == module.mapping.inode && (device == mapped || !is_comparable)
}

/// A path in the process's own root, from its directory in procfs.
fn rooted(path: &Path) -> PathBuf {
    Path::new("root").join(path.strip_prefix("/").unwrap_or(path))
}

/// The separate debug file of a program, by its build id, in the process's own root.
pub(in crate::capture) fn debug_file<'d>(
    directory: &ProcDirectory,
    program: &Headers<'d, impl ReadRef<'d>>,
) -> Option<File> {
    let path = Path::new("/usr/lib/debug/.build-id").join(id_path(program.build_id()?)?);
    open_regular(directory, &rooted(&path))
}

/// The name of a debug file below `.build-id`: `ab/cdef….debug`.
fn id_path(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let hex = rest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (!rest.is_empty()).then(|| PathBuf::from(format!("{first:02x}/{hex}.debug")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_process() -> ProcDirectory {
        ProcDirectory::open("/proc/self".as_ref()).unwrap()
    }

    #[test]
    fn a_file_with_the_inode_of_the_mapped_one_on_another_disk_is_not_opened() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let device = file.as_file().metadata().unwrap().dev();
        let own = [major(device), minor(device)].map(|number| u32::try_from(number).unwrap());
        let is_opened = |device| open(&this_process(), &Module::of_file(file.path(), device)).is_some();
        assert!(is_opened((own[0], own[1])), "the mapped file itself");
        assert!(is_opened((0, 77)), "a file system without a disk");
        assert_eq!(is_opened((own[0] + 1, own[1])), own[0] == 0, "another disk");
    }
}
