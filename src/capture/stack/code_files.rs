//! The files with code that processes have mapped: each is opened once.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::super::elf::mapped_file::{FileVersion, device, open, version};
use super::super::elf::modules::Module;
use super::super::elf::untrusted::SharedBudget;
use super::super::procfs::directory::ProcDirectory;
use super::super::recent::Recent;
use super::code_file::CodeFile;
use crate::model::{Name, printable};

/// Files that stay open, at most. In others, stacks end.
const MAX_FILES: usize = 96;

/// Device and inode of a file, and what changes when it is written.
type CodeFileKey = ((u32, u32), u64, FileVersion);

/// Files with code. Those that are not used between two calls of [`forget`](Self::forget) are closed.
pub(super) struct CodeFiles {
    /// `None` for what is no program or library of this machine.
    by_key: Recent<CodeFileKey, Option<Arc<CodeFile>>>,
    /// The files of this session.
    by_number: HashMap<u32, Arc<CodeFile>>,
    next_number: u32,
}

impl CodeFiles {
    pub(super) fn new() -> Self {
        let by_key = Recent::new("programs and libraries", MAX_FILES);
        Self { by_key, by_number: HashMap::new(), next_number: 0 }
    }

    /// The file of a mapping, if the caller may open it.
    pub(super) fn open(&mut self, directory: &ProcDirectory, module: &Module) -> Option<Arc<CodeFile>> {
        let (file, metadata) = open(directory, module)?;
        let key = (device(&metadata), metadata.ino(), version(&metadata));
        if self.by_number.len() >= MAX_FILES {
            return self.by_key.get(key).flatten().filter(|file| self.by_number.contains_key(&file.number));
        }
        let number = self.next_number;
        let learn = || CodeFile::open(file, (number, name(&module.mapping.path)), &SharedBudget::default().of_file());
        let file = self.by_key.get_or_insert_with(key, || learn().map(Arc::new))?;
        self.next_number = self.next_number.max(file.number + 1);
        self.by_number.insert(file.number, Arc::clone(&file));
        Some(file)
    }

    /// The file with a number, if it was opened since [`forget`](Self::forget).
    pub(super) fn file(&self, number: u32) -> Option<&Arc<CodeFile>> {
        self.by_number.get(&number)
    }

    /// Begins a session: files are known by other numbers only if they were not used in the one before.
    pub(super) fn forget(&mut self) {
        self.by_number.clear();
        self.by_key.turn();
    }

    /// The number of files that are open, at most.
    pub(super) fn entries(&self) -> usize {
        self.by_key.len()
    }
}

/// The name of a file without its directory, and without what the kernel adds if it was removed.
fn name(path: &[u8]) -> Name {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    printable(name).into()
}
