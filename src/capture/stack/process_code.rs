//! The code that a process has mapped, and its memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::elf::mappings::file_mappings;
use super::super::elf::modules::Module;
use super::super::procfs::directory::ProcDirectory;
use super::code_file::{CodeFile, CodePlace};
use super::code_files::CodeFiles;
use crate::sys::memory::AddressSpace;

/// Mappings of code of one process, at most.
const MAX_MAPPINGS: usize = 1 << 12;
/// How long the list of mappings is believed to have all.
const LASTS: Duration = Duration::from_secs(1);

/// A program of a process: its memory, and its code.
pub(super) struct ProcessCode {
    /// Opened before the list of mappings was read: the process can execute another program at any time, whose memory is none of
    /// what the list says.
    space: AddressSpace,
    mappings: CodeMappings,
}

/// Code that a process has mapped.
pub(super) struct CodeMappings {
    /// Id of the process.
    id: u32,
    by_address: Vec<MappedCode>,
    read_at: Instant,
}

/// A mapping of code.
struct MappedCode {
    module: Module,
    /// The file, and its own address for the start of the mapping; `None` until they are needed.
    file: Option<Option<(Arc<CodeFile>, u64)>>,
}

impl ProcessCode {
    /// Opens the memory of a process and reads what it has mapped; `None` if the caller may not.
    pub(super) fn open(id: u32) -> Option<Self> {
        let directory = directory(id)?;
        let open = |name| directory.file(name).ok();
        let space = AddressSpace { memory: open("mem")?, pages: open("pagemap")? };
        let mappings = CodeMappings { id, by_address: mappings(&directory)?, read_at: Instant::now() };
        Some(Self { space, mappings })
    }

    /// Whether the process may have mapped code since its list was read.
    pub(super) fn is_old(&self) -> bool {
        self.mappings.read_at.elapsed() > LASTS
    }

    /// Whether an address is in code of a file.
    pub(super) fn has(&self, at: u64) -> bool {
        self.mappings.place(at).is_some()
    }

    /// The memory, and the code.
    pub(super) fn parts(&mut self) -> (&AddressSpace, &mut CodeMappings) {
        (&self.space, &mut self.mappings)
    }
}

impl CodeMappings {
    /// The code at an address, if it is of a file that the caller may open.
    pub(super) fn find(&mut self, at: u64, files: &mut CodeFiles) -> Option<CodePlace> {
        let (id, place) = (self.id, self.place(at)?);
        let MappedCode { module, file } = &mut self.by_address[place];
        let open = || {
            let file = files.open(&directory(id)?, module)?;
            let address = file.address_of(module.mapping.offset)?;
            Some((file, address))
        };
        let (file, address) = file.get_or_insert_with(open).as_ref()?;
        let address = address.wrapping_add(at - module.mapping.start);
        Some(CodePlace { file: Arc::clone(file), address })
    }

    fn place(&self, at: u64) -> Option<usize> {
        let place = self.by_address.partition_point(|mapped| mapped.module.mapping.start <= at).checked_sub(1)?;
        (at < self.by_address[place].module.mapping.end).then_some(place)
    }
}

fn directory(id: u32) -> Option<ProcDirectory> {
    ProcDirectory::open(&PathBuf::from(format!("/proc/{id}"))).ok()
}

fn mappings(directory: &ProcDirectory) -> Option<Vec<MappedCode>> {
    let all = directory.file("maps").and_then(file_mappings).ok()?;
    let program = directory.link("exe").ok()?;
    let code = all.into_iter().filter(|mapping| mapping.is_executable && mapping.path.starts_with(b"/"));
    let mapped = code.take(MAX_MAPPINGS).map(|mapping| {
        let module = Module { is_program: mapping.path == program, mapping };
        MappedCode { module, file: None }
    });
    Some(mapped.collect())
}
