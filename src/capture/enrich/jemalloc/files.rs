//! Opens the files of a process's modules in its mount namespace, and caches their layouts, so that each
//! program is analyzed once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object::Object;

use super::elf;
use super::layout::{self, TsdLayout};
use super::machine::Machine;
use super::modules::Module;
use super::untrusted::{LimitedFile, open_regular};
use crate::model::ProbeFailure;
use crate::sys::maps::Mapping;

type Known = Arc<OnceLock<Result<TsdLayout, ProbeFailure>>>;

/// Device, inode and path: some file systems use the same inode twice.
type Key = ((u32, u32), u64, Vec<u8>);

/// Layouts by file.
#[derive(Default)]
pub(in crate::capture) struct Files(Mutex<HashMap<Key, Known>>);

impl Files {
    /// The layout in a module's file. Failures that depend on the process, such as permissions, are not
    /// cached.
    pub(super) fn layout(&self, pid: u32, module: &Module) -> Result<TsdLayout, ProbeFailure> {
        let key = (module.mapping.device, module.mapping.inode, module.mapping.path.clone());
        let known = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(key).or_default())
        };
        if let Some(layout) = known.get() {
            return layout.clone();
        }
        let file = open(pid, module).ok_or(ProbeFailure::JemallocNotFound)?;
        known.get_or_init(|| look(pid, &file)).clone()
    }
}

/// Opens the mapped file, even if it was replaced: through the mapping if privileges allow, otherwise by
/// its name in the process's own root, verified by inode.
fn open(pid: u32, module: &Module) -> Option<File> {
    let Mapping { start, end, .. } = module.mapping;
    let mapping = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    let program = || PathBuf::from(format!("/proc/{pid}/exe"));
    let named = || rooted(pid, Path::new(OsStr::from_bytes(&module.mapping.path)));
    let same = |file: &File| file.metadata().is_ok_and(|metadata| metadata.ino() == module.mapping.inode);
    [mapping, if module.is_program { program() } else { named() }].iter().filter_map(open_regular).find(same)
}

/// A path in the process's own root.
fn rooted(pid: u32, path: &Path) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix("/").unwrap_or(path))
}

fn look(pid: u32, file: &File) -> Result<TsdLayout, ProbeFailure> {
    let file = LimitedFile::new(file);
    let (program, tls) = elf::open(Machine::NATIVE, &file)?;
    let separate = program.build_id().ok().flatten().and_then(|id| separate(pid, id));
    let separate = separate.as_ref().map(LimitedFile::new);
    let separate = separate.as_ref().and_then(|file| elf::File::parse(file).ok());
    layout::locate(Machine::NATIVE, &program, tls, separate.as_ref())
}

/// The separate debug file of the program with that build id.
fn separate(pid: u32, id: &[u8]) -> Option<File> {
    let path = Path::new("/usr/lib/debug/.build-id").join(id_path(id)?);
    let file = open_regular(rooted(pid, &path))?;
    let belongs = {
        let limited = LimitedFile::new(&file);
        let debug = elf::File::parse(&limited).ok()?;
        debug.build_id().ok().flatten() == Some(id)
    };
    belongs.then_some(file)
}

/// `ab/cdef….debug`.
fn id_path(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let hex = rest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (!rest.is_empty()).then(|| PathBuf::from(format!("{first:02x}/{hex}.debug")))
}
