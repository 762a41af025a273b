//! jemalloc in one process.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::super::super::elf::machine::Machine;
use super::super::super::elf::mappings::file_mappings;
use super::super::super::elf::modules::{Module, modules};
use super::super::super::procfs::directory::{ProcDirectory, is_gone};
use super::files::ExaminedFiles;
use super::layout::TsdLayout;
use super::pthread;
use super::target::{CounterLocation, unread};
use crate::model::ProbeFailure;
use crate::sys::memory::AddressSpace;

/// Timeout for stopping all threads of one process.
const TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum time to search all files of a process, which can map any number of files.
const LONGEST_SEARCH: Duration = Duration::from_secs(10);

/// The location of the counters in the threads of a process, and the remaining timeout.
pub(in crate::capture) struct Attachment {
    pub(super) target: CounterLocation,
    /// The memory of the program that was examined.
    pub(super) space: AddressSpace,
    /// Offset in [`pthread::pointer_behind_head`].
    pub(super) pointer_behind_head: Option<i64>,
    /// Time left for stopping threads.
    pub(super) timeout_left: Duration,
}

impl Attachment {
    fn new(target: CounterLocation, space: AddressSpace, pointer_behind_head: Option<i64>) -> Self {
        Self { target, space, pointer_behind_head, timeout_left: TIMEOUT }
    }

    /// Finds jemalloc in a process.
    pub(super) fn find(directory: &ProcDirectory, files: &ExaminedFiles) -> Result<Self, ProbeFailure> {
        // Most processes have none, and their memory is not opened.
        search(directory, files)?;
        let space = address_space(directory)?;
        let (modules, found, layout) = search(directory, files)?;
        let behind = pthread::pointer_behind_head(Machine::NATIVE, directory, &modules);
        Ok(Self::new(target(&space, &modules[found], &layout)?, space, behind))
    }
}

/// Searches the modules of a process, and returns them, the index of the one with jemalloc, and its layout.
fn search(directory: &ProcDirectory, files: &ExaminedFiles) -> Result<(Vec<Module>, usize, TsdLayout), ProbeFailure> {
    let mappings = directory.file("maps").and_then(file_mappings);
    let mappings = mappings.map_err(|errno| failure(errno, ProbeFailure::MapsReadFailure))?;
    let program = directory.link("exe").map_err(|errno| failure(errno, ProbeFailure::ReadlinkFailure))?;
    let modules = modules(mappings, &program);
    let begin = Instant::now();
    let mut failure = ProbeFailure::JemallocNotFound;
    for (number, module) in modules.iter().enumerate() {
        if begin.elapsed() > LONGEST_SEARCH {
            return Err(ProbeFailure::DwarfParseFailure);
        }
        match files.layout(directory, module) {
            Ok(layout) => return Ok((modules, number, layout)),
            Err(ProbeFailure::JemallocNotFound) => {}
            // A library for another machine is mapped as data.
            Err(ProbeFailure::ArchMismatch) if !module.is_program => {}
            Err(tag) => failure = tag,
        }
    }
    Err(failure)
}

/// The memory of a process. It is opened before the search whose result is used: the process can execute another program at
/// any time, whose memory is none of what is found out about this one.
fn address_space(directory: &ProcDirectory) -> Result<AddressSpace, ProbeFailure> {
    let open = |name| directory.file(name).map_err(|errno| failure(errno, ProbeFailure::MapsReadFailure));
    Ok(AddressSpace { memory: open("mem")?, pages: open("pagemap")? })
}

/// Returns why a file of a process could not be read. All files need the privileges of an attachment.
fn failure(errno: Errno, other: ProbeFailure) -> ProbeFailure {
    match errno {
        Errno::EACCES | Errno::EPERM => ProbeFailure::PtraceSeize,
        errno if is_gone(errno) && other != ProbeFailure::ReadlinkFailure => ProbeFailure::PidMissing,
        _ => other,
    }
}

fn target(space: &AddressSpace, module: &Module, layout: &TsdLayout) -> Result<CounterLocation, ProbeFailure> {
    let distance = match layout.slot {
        // The dynamic linker places the block of a library, and stores its offset in the slot.
        Some(slot) if !module.is_program => {
            // Where the library is says the mapping of its code. No address is wrong enough to be dangerous.
            let base = module.mapping.start.wrapping_sub(module.mapping.offset).wrapping_sub(layout.code_shift);
            let mut word = [0; 8];
            space.read(base.wrapping_add(slot), &mut word).map_err(unread)?;
            i64::from_ne_bytes(word)
        }
        _ if module.is_program => layout.static_distance().ok_or(ProbeFailure::TlsArithmetic)?,
        _ => return Err(ProbeFailure::TlsArithmetic),
    };
    // The dynamic linker has not filled the slot yet.
    if distance == 0 { Err(ProbeFailure::TlsArithmetic) } else { CounterLocation::new(distance, layout.offsets) }
}

#[cfg(test)]
impl Attachment {
    /// Returns an attachment to this process, with counters at the thread pointer.
    pub(super) fn of_this_process() -> Self {
        let target = CounterLocation::new(0, super::layouts::Offsets { allocated: 0, deallocated: 8 }).unwrap();
        Self::new(target, address_space(&ProcDirectory::open("/proc/self".as_ref()).unwrap()).unwrap(), None)
    }
}
