//! Opens the files of a process's modules in its mount namespace, and caches their layouts, so that each
//! program is analyzed once.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::dwarf::Split;
use super::elf::{self, Links};
use super::layout::{self, TsdLayout};
use super::machine::Machine;
use super::modules::Module;
use super::untrusted::{LimitedFile, MAX_READ, open_regular, read_whole};
use crate::model::ProbeFailure;
use crate::sys::maps::Mapping;
use flate2::Crc;

/// Files of split debug information, and files with a checksum, are not read if they are larger.
const MAX_WHOLE: u64 = 256 << 20;
/// What the attempt to open a file counts as read, at least: there can be any number of names.
const LEAST_CHARGE: u64 = 4096;

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
        known.get_or_init(|| look(pid, module, &file)).clone()
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

fn look(pid: u32, module: &Module, file: &File) -> Result<TsdLayout, ProbeFailure> {
    let file = LimitedFile::new(file);
    let (program, tls) = elf::open(Machine::NATIVE, &file)?;
    let separate = separate(pid, module, &elf::links(&program));
    let separate = separate.as_ref().map(LimitedFile::new);
    let separate = separate.as_ref().and_then(|file| elf::File::parse(file).ok());
    layout::locate(
        Machine::NATIVE,
        &program,
        tls,
        separate.as_ref(),
        &SplitFiles { pid, module, left: Cell::new(MAX_READ) },
    )
}

/// The separate debug file, by build id or else by the name in the program. Its build id or checksum must
/// match.
fn separate(pid: u32, module: &Module, links: &Links) -> Option<File> {
    let debug = Path::new("/usr/lib/debug");
    let program = Path::new(OsStr::from_bytes(&module.mapping.path));
    let directory = program.parent().unwrap_or(Path::new("/"));
    let by_id = links.build_id.as_deref().and_then(id_path).map(|path| debug.join(".build-id").join(path));
    let named = links.debuglink.as_ref().map(|(name, _)| Path::new(OsStr::from_bytes(name)));
    let by_name = named.into_iter().flat_map(|name| {
        let below = directory.strip_prefix("/").unwrap_or(directory);
        [directory.join(name), directory.join(".debug").join(name), debug.join(below).join(name)]
    });
    let open = |path: PathBuf| open_regular(rooted(pid, &path));
    by_id.into_iter().chain(by_name).filter_map(open).find(|file| belongs(file, links))
}

/// `ab/cdef….debug`.
fn id_path(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let hex = rest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (!rest.is_empty()).then(|| PathBuf::from(format!("{first:02x}/{hex}.debug")))
}

fn belongs(file: &File, links: &Links) -> bool {
    let limited = LimitedFile::new(file);
    let own = elf::File::parse(&limited).map(|debug| elf::links(&debug).build_id);
    match (&own, &links.build_id, &links.debuglink) {
        (Ok(Some(own)), Some(wanted), _) => own == wanted,
        (Ok(_), _, Some((_, crc))) => checksum(file) == Some(*crc),
        _ => false,
    }
}

/// The checksum of `.gnu_debuglink`: CRC-32 of the whole file; `None` for a file that is too large.
fn checksum(mut file: &File) -> Option<u32> {
    use std::io::Seek;
    if file.metadata().ok()?.len() > MAX_WHOLE {
        return None;
    }
    file.rewind().ok()?;
    // The file can grow meanwhile.
    let mut file = file.take(MAX_WHOLE);
    let mut crc = Crc::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(crc.sum()),
            read => crc.update(&buffer[..read]),
        }
    }
}

/// Split debug information, beside the program or where it was compiled.
struct SplitFiles<'m> {
    pid: u32,
    module: &'m Module,
    /// How many bytes of all files together may still be read.
    left: Cell<u64>,
}

impl SplitFiles<'_> {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let left = self.left.get().checked_sub(LEAST_CHARGE)?;
        self.left.set(left);
        let bytes = read_whole(&open_regular(rooted(self.pid, path))?, left.min(MAX_WHOLE))?;
        self.left.set(left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX)));
        Some(bytes)
    }
}

impl Split for SplitFiles<'_> {
    fn package(&self) -> Option<Vec<u8>> {
        let name = [&self.module.mapping.path[..], b".dwp"].concat();
        self.read(Path::new(OsStr::from_bytes(&name)))
    }

    fn unit(&self, directory: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        self.read(&Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_sparse_debug_file_is_read_to_its_end_for_its_checksum() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(checksum(&file).is_some());
        file.set_len(1 << 40).unwrap();
        assert_eq!(checksum(&file), None);
    }

    #[test]
    fn the_same_split_file_is_read_for_each_of_any_number_of_units() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(40_000).unwrap();
        let path = b"/program".to_vec();
        let mapping = Mapping { start: 0, end: 4096, offset: 0, device: (0, 0), inode: 7, path };
        let module = Module { mapping, is_program: true };
        let split = SplitFiles { pid: std::process::id(), module: &module, left: Cell::new(100_000) };
        let read = [0, 1, 2].map(|_| split.read(file.path()).map(|bytes| bytes.len()));
        assert_eq!(read, [Some(40_000), Some(40_000), None]);
    }
}
