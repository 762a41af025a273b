//! Opens the files of a process's modules in its mount namespace, and caches their layouts, so that each
//! program is analyzed once.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::super::super::elf::headers::Headers;
use super::super::super::elf::machine::Machine;
use super::super::super::elf::mapped_file::{self, FileVersion, debug_file, open, version};
use super::super::super::elf::modules::Module;
use super::super::super::elf::untrusted::{ExamineBudget, LimitedFile, SharedBudget};
use super::super::super::procfs::directory::ProcDirectory;
use super::elf;
use super::layout::{self, TsdLayout};
use crate::model::ProbeFailure;
use crate::process::lock;
use crate::sys::maps::Mapping;

type Examination = Result<TsdLayout, ProbeFailure>;

/// Root to which a path belongs: device and inode of the process's root directory, and its mount namespace.
type RootKey = (u64, u64, u64);

/// Device, inode and path of a file: some file systems use the same inode twice. With a root, together with the debug file
/// that is there.
type FileKey = ((u32, u32), u64, Vec<u8>, Option<RootKey>);

/// `None`: it has a separate debug file, and processes with another root may have another one.
type Examined = (FileVersion, Option<Examination>);

/// Files that are remembered. Others are examined in each process that has them.
const MAX_FILES: usize = 1 << 14;

/// Layouts by file. Each version of a file is examined once, however many captures use it one after the other.
#[derive(Default)]
pub(in crate::capture) struct ExaminedFiles {
    /// Files of the current capture: each is looked at once.
    current: Mutex<HashMap<FileKey, Arc<OnceLock<Examined>>>>,
    /// Files of the capture before.
    earlier: Mutex<HashMap<FileKey, Examined>>,
    /// How often the current capture had no room for a file.
    without_room: AtomicU64,
    budget: Mutex<SharedBudget>,
}

impl ExaminedFiles {
    /// Begins a capture: files may have changed since the one before. Those that it did not use are forgotten.
    pub(in crate::capture) fn begin_capture(&self) {
        let current = std::mem::take(&mut *lock(&self.current));
        let examined = current.into_iter().filter_map(|(key, examined)| Some((key, examined.get()?.clone())));
        *lock(&self.earlier) = examined.collect();
        let without_room = self.without_room.swap(0, Ordering::Relaxed);
        if without_room > 0 {
            tracing::info!("more than {MAX_FILES} programs: jemalloc was searched for {without_room} times in others");
        }
        *lock(&self.budget) = SharedBudget::default();
    }

    /// Examines a file when it has its part of the budget.
    fn within_budget(&self, examine: impl Fn(&ExamineBudget) -> Option<Examination>) -> Option<Examination> {
        let shared = lock(&self.budget).clone();
        loop {
            let budget = shared.of_file();
            let examined = examine(&budget);
            match examined {
                Some(Err(_)) | None if budget.is_exceeded.get() => return Some(Err(ProbeFailure::OutOfBudget)),
                Some(Err(_)) | None if budget.is_taken.get() => {
                    drop(budget);
                    shared.wait();
                }
                examined => return examined,
            }
        }
    }

    /// The number of files that are remembered.
    pub(in crate::capture) fn entries(&self) -> usize {
        lock(&self.current).len() + lock(&self.earlier).len()
    }

    /// The layout in a module's file. Failures that depend on the process, such as permissions, are not
    /// cached.
    pub(super) fn layout(&self, directory: &ProcDirectory, module: &Module) -> Examination {
        let Mapping { device, inode, path, .. } = &module.mapping;
        if let Some((_, Some(layout))) = self.entry((*device, *inode, path.clone(), None)).get() {
            return layout.clone();
        }
        let (file, metadata) = open(directory, module).ok_or(ProbeFailure::JemallocNotFound)?;
        // That of what was opened: a process can show any file with the number and the name of another one.
        let key = |root| (mapped_file::device(&metadata), metadata.ino(), path.clone(), root);
        let of_all = self.examined(key(None), &metadata, |budget| look(directory, &file, budget, Option::is_none));
        let of_root =
            || self.examined(key(Some(root(directory)?)), &metadata, |budget| look(directory, &file, budget, |_| true));
        of_all.or_else(of_root).unwrap_or(Err(ProbeFailure::JemallocNotFound))
    }

    /// Returns the result of this capture, or an earlier one, for the file, if the file has not changed.
    fn examined(
        &self,
        key: FileKey,
        metadata: &Metadata,
        examine: impl Fn(&ExamineBudget) -> Option<Examination>,
    ) -> Option<Examination> {
        let entry = self.entry(key.clone());
        let find =
            || self.unchanged(&key, metadata).unwrap_or_else(|| (version(metadata), self.within_budget(examine)));
        entry.get_or_init(find).1.clone()
    }

    fn entry(&self, key: FileKey) -> Arc<OnceLock<Examined>> {
        let mut current = lock(&self.current);
        if current.len() >= MAX_FILES && !current.contains_key(&key) {
            self.without_room.fetch_add(1, Ordering::Relaxed);
            return Arc::default();
        }
        Arc::clone(current.entry(key).or_default())
    }

    /// Returns the result of an earlier capture for the file, if the file has not changed.
    fn unchanged(&self, key: &FileKey, now: &Metadata) -> Option<Examined> {
        let earlier = lock(&self.earlier);
        earlier.get(key).filter(|(examined, _)| *examined == version(now)).cloned()
    }
}

fn root(directory: &ProcDirectory) -> Option<RootKey> {
    let [root, namespace] = ["root", "ns/mnt"].map(|name| directory.stat(name));
    let root = root.ok()?;
    Some((root.st_dev, root.st_ino, namespace.ok()?.st_ino))
}

/// Examines a file, if its separate debug file is as wanted.
fn look(
    directory: &ProcDirectory,
    file: &File,
    budget: &ExamineBudget,
    is_wanted: fn(&Option<File>) -> bool,
) -> Option<Examination> {
    let file = LimitedFile::new(file, budget);
    let (program, tls) = match elf::open(Machine::NATIVE, &file) {
        Ok(opened) => opened,
        Err(tag) => return Some(Err(tag)),
    };
    let debug = Some(debug_file(directory, &program)).filter(is_wanted)?;
    let debug = debug.as_ref().map(|file| LimitedFile::new(file, budget));
    let debug = debug.as_ref().and_then(|debug| Headers::parse(Machine::NATIVE, debug).ok());
    let debug = debug.filter(|debug| debug.build_id() == program.build_id());
    Some(layout::locate(Machine::NATIVE, &program, tls, debug.as_ref(), budget))
}

#[cfg(test)]
mod tests {

    use mapped_file::device;

    use super::*;

    fn this_process() -> ProcDirectory {
        ProcDirectory::open("/proc/self".as_ref()).unwrap()
    }

    #[test]
    fn a_file_that_was_written_anew_is_examined_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (files, module) = (ExaminedFiles::default(), Module::of_file(file.path(), (0, 7)));
        let now = || file.as_file().metadata().unwrap();
        let key = (device(&now()), module.mapping.inode, module.mapping.path.clone(), None);
        assert_eq!(files.layout(&this_process(), &module), Err(ProbeFailure::JemallocNotFound));
        files.begin_capture();
        assert!(files.unchanged(&key, &now()).is_some());
        std::fs::write(file.path(), "another program").unwrap();
        assert!(files.unchanged(&key, &now()).is_none());
    }

    #[test]
    fn a_file_that_a_capture_did_not_use_is_forgotten_by_the_next_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (files, module) = (ExaminedFiles::default(), Module::of_file(file.path(), (0, 7)));
        let is_known = || {
            files.begin_capture();
            lock(&files.earlier).len() == 1
        };
        for _ in 0..3 {
            let _ = files.layout(&this_process(), &module);
            assert!(is_known());
        }
        assert!(!is_known());
        assert_eq!(files.entries(), 0);
    }

    #[test]
    fn any_number_of_files_takes_the_memory_of_some() {
        let files = ExaminedFiles::default();
        let key = |inode| ((0, 7), inode, Vec::new(), None);
        for inode in 0..20_000 {
            files.entry(key(inode)).set(([0; 5], None)).unwrap();
        }
        assert_eq!(files.entries(), MAX_FILES);
        assert!(files.entry(key(0)).get().is_some() && files.entry(key(19_999)).get().is_none());
    }
}
