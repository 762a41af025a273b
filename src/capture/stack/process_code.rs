//! The code that a process has mapped, and its memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::elf::mappings::file_mappings;
use super::super::elf::modules::Module;
use super::super::procfs::directory::ProcDirectory;
use super::code_file::{CodeFile, CodePlace};
use super::code_files::CodeFiles;
use super::unwinder::FoundCode;
use crate::sys::memory::AddressSpace;

/// Mappings of code of one process, at most.
const MAX_MAPPINGS: usize = 1 << 12;
/// The kernel's code for processes takes less.
const VDSO_BYTES: u64 = 1 << 16;

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
    /// Where the kernel's code for processes begins; 0 if that is unknown.
    vdso: u64,
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
        let (by_address, vdso) = (mappings(&directory)?, vdso(&directory).unwrap_or(0));
        let mappings = CodeMappings { id, by_address, vdso, read_at: Instant::now() };
        Some(Self { space, mappings })
    }

    /// How long ago the list of mappings was read: the process may have mapped code since.
    pub(super) fn age(&self) -> Duration {
        self.mappings.read_at.elapsed()
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
    /// The code at an address.
    pub(super) fn find(&mut self, at: u64, files: &mut CodeFiles) -> FoundCode {
        let is_vdso = at.checked_sub(self.vdso).is_some_and(|distance| distance < VDSO_BYTES);
        match self.place(at) {
            Some(place) if is_made_at_run_time(&self.by_address[place].module.mapping.path) => FoundCode::Mapped,
            Some(place) => self.in_file(at, place, files).map_or(FoundCode::Unknown, FoundCode::InFile),
            None if is_vdso => FoundCode::Unknown,
            None => FoundCode::OfNoFile,
        }
    }

    fn in_file(&mut self, at: u64, place: usize, files: &mut CodeFiles) -> Option<CodePlace> {
        let id = self.id;
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

/// The kernel tells a process where it put code for it (`AT_SYSINFO_EHDR` of `auxv`).
fn vdso(directory: &ProcDirectory) -> Option<u64> {
    const AT_SYSINFO_EHDR: u64 = 33;
    let mut bytes = Vec::new();
    let values = directory.read("auxv", &mut bytes).ok()?;
    let (values, _) = values.as_chunks::<8>();
    let (pairs, _) = values.as_chunks::<2>();
    let mut pairs = pairs.iter().map(|pair| pair.map(u64::from_ne_bytes));
    pairs.find_map(|[kind, value]| (kind == AT_SYSINFO_EHDR).then_some(value))
}

/// Whether a mapping with such a path has code that a runtime made: .NET maps it twice, and PHP shares it.
fn is_made_at_run_time(path: &[u8]) -> bool {
    [&b"/memfd:doublemapper"[..], b"/dev/zero", b"/anon_hugepage"].iter().any(|made| path.starts_with(made))
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
