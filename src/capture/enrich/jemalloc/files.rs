//! Opens the files of a process's modules in its mount namespace, and caches their layouts, so that each
//! program is analyzed once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flate2::Crc;
use object::ReadCache;

use super::dwarf::Split;
use super::elf::{self, Links};
use super::layout::{self, TsdLayout};
use super::modules::Module;
use super::tag::Tag;

/// Split debug information larger than this is not read.
const MAX_SPLIT: u64 = 256 << 20;

type Known = Arc<OnceLock<Result<TsdLayout, Tag>>>;

/// Device, inode and path: some file systems use the same inode twice.
type Key = (String, u64, Vec<u8>);

/// Layouts by file.
#[derive(Default)]
pub(in crate::capture) struct Files(Mutex<HashMap<Key, Known>>);

impl Files {
    /// The layout in a module's file. Failures that depend on the process, such as permissions, are not
    /// cached.
    pub(super) fn layout(&self, pid: u32, module: &Module) -> Result<TsdLayout, Tag> {
        let key = (module.device.clone(), module.inode, module.path.clone());
        let known = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(key).or_default())
        };
        if let Some(layout) = known.get() {
            return layout.clone();
        }
        let file = open(pid, module).ok_or(Tag::JemallocNotFound)?;
        known.get_or_init(|| look(pid, module, &file)).clone()
    }
}

/// Opens the mapped file, even if it was replaced: through the mapping if privileges allow, otherwise by
/// its name in the process's own root, verified by inode.
fn open(pid: u32, module: &Module) -> Option<File> {
    let mapping = PathBuf::from(format!("/proc/{pid}/map_files/{}", module.range));
    let program = || File::open(format!("/proc/{pid}/exe"));
    let named = || File::open(rooted(pid, Path::new(OsStr::from_bytes(&module.path))));
    let same = |file: &File| file.metadata().is_ok_and(|metadata| metadata.ino() == module.inode && metadata.is_file());
    [File::open(mapping), if module.is_program { program() } else { named() }].into_iter().flatten().find(same)
}

/// A path in the process's own root.
fn rooted(pid: u32, path: &Path) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix("/").unwrap_or(path))
}

fn look(pid: u32, module: &Module, file: &File) -> Result<TsdLayout, Tag> {
    let cache = ReadCache::new(file);
    let (program, tls) = elf::open(&cache)?;
    let separate = separate(pid, module, &elf::links(&program));
    let separate = separate.as_ref().map(ReadCache::new);
    let separate = separate.as_ref().and_then(|cache| elf::File::parse(cache).ok());
    layout::locate(&program, tls, separate.as_ref(), &SplitFiles { pid, module })
}

/// The separate debug file, by build id or else by the name in the program. Its build id or checksum must
/// match.
fn separate(pid: u32, module: &Module, links: &Links) -> Option<File> {
    let debug = Path::new("/usr/lib/debug");
    let program = Path::new(OsStr::from_bytes(&module.path));
    let directory = program.parent().unwrap_or(Path::new("/"));
    let by_id = links.build_id.as_deref().and_then(id_path).map(|path| debug.join(".build-id").join(path));
    let named = links.debuglink.as_ref().map(|(name, _)| Path::new(OsStr::from_bytes(name)));
    let by_name = named.into_iter().flat_map(|name| {
        let below = directory.strip_prefix("/").unwrap_or(directory);
        [directory.join(name), directory.join(".debug").join(name), debug.join(below).join(name)]
    });
    let open =
        |path: PathBuf| File::open(rooted(pid, &path)).ok().filter(|file| file.metadata().is_ok_and(|m| m.is_file()));
    by_id.into_iter().chain(by_name).filter_map(open).find(|file| belongs(file, links))
}

/// `ab/cdef….debug`.
fn id_path(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let hex = rest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (!rest.is_empty()).then(|| PathBuf::from(format!("{first:02x}/{hex}.debug")))
}

fn belongs(file: &File, links: &Links) -> bool {
    let cache = ReadCache::new(file);
    let own = elf::File::parse(&cache).map(|debug| elf::links(&debug).build_id);
    match (&own, &links.build_id, &links.debuglink) {
        (Ok(Some(own)), Some(wanted), _) => own == wanted,
        (Ok(_), _, Some((_, crc))) => checksum(file) == Some(*crc),
        _ => false,
    }
}

/// The checksum of `.gnu_debuglink`: CRC-32 of the whole file.
fn checksum(mut file: &File) -> Option<u32> {
    use std::io::Seek;
    file.rewind().ok()?;
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
}

impl SplitFiles<'_> {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let path = rooted(self.pid, path);
        let metadata = fs::metadata(&path).ok()?;
        (metadata.is_file() && metadata.len() <= MAX_SPLIT).then(|| fs::read(path).ok()).flatten()
    }
}

impl Split for SplitFiles<'_> {
    fn package(&self) -> Option<Vec<u8>> {
        let name = [&self.module.path[..], b".dwp"].concat();
        self.read(Path::new(OsStr::from_bytes(&name)))
    }

    fn unit(&self, directory: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        self.read(&Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(name)))
    }
}
