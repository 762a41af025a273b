//! The module of a process with jemalloc, and the offset of its data from the thread pointer.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use super::attachment::Attachment;
use super::files::Files;
use super::layout::TsdLayout;
use super::mappings::file_mappings;
use super::modules::{Module, modules};
use super::target::{Target, unread};
use crate::model::ProbeFailure;
use crate::sys::memory::AddressSpace;

/// The time for all files of one process, which can map any number of them.
const LONGEST_SEARCH: Duration = Duration::from_secs(10);

/// Finds jemalloc in a process.
pub(super) fn attach(pid: u32, files: &Files) -> Result<Attachment, ProbeFailure> {
    // First: the process can execute another program at any time, whose memory is none of what is found here.
    let space = AddressSpace::open(pid).map_err(|error| match error.kind() {
        ErrorKind::NotFound => ProbeFailure::PidMissing,
        ErrorKind::PermissionDenied => ProbeFailure::PtraceSeize,
        _ => ProbeFailure::ProcessVmReadv,
    })?;
    let program = fs::read_link(format!("/proc/{pid}/exe")).map_err(|error| match error.kind() {
        // Reading the link and attaching need the same privileges.
        ErrorKind::PermissionDenied => ProbeFailure::PtraceSeize,
        _ => ProbeFailure::ReadlinkFailure,
    })?;
    let mappings = file_mappings(pid).map_err(|error| match error.kind() {
        ErrorKind::NotFound => ProbeFailure::PidMissing,
        ErrorKind::PermissionDenied => ProbeFailure::PtraceSeize,
        _ => ProbeFailure::MapsReadFailure,
    })?;
    let begin = Instant::now();
    let mut failure = ProbeFailure::JemallocNotFound;
    for module in modules(mappings, program.as_os_str().as_bytes()) {
        if begin.elapsed() > LONGEST_SEARCH {
            return Err(ProbeFailure::DwarfParseFailure);
        }
        match files.layout(pid, &module) {
            Ok(layout) => return Ok(Attachment::new(target(&space, &module, &layout)?, space)),
            Err(ProbeFailure::JemallocNotFound) => {}
            // A library for another machine is mapped as data.
            Err(ProbeFailure::ArchMismatch) if !module.is_program => {}
            Err(tag) => failure = tag,
        }
    }
    Err(failure)
}

fn target(space: &AddressSpace, module: &Module, layout: &TsdLayout) -> Result<Target, ProbeFailure> {
    let distance = match layout.slot {
        // The dynamic linker places the block of a library, and stores its offset in the slot.
        Some(slot) if !module.is_program => {
            let address = module.mapping.start.checked_add(slot).and_then(|address| address.checked_sub(layout.base));
            let mut word = [0; 8];
            space.read(address.ok_or(ProbeFailure::TlsArithmetic)?, &mut word).map_err(unread)?;
            i64::from_ne_bytes(word)
        }
        _ if module.is_program => layout.static_distance().ok_or(ProbeFailure::TlsArithmetic)?,
        _ => return Err(ProbeFailure::TlsArithmetic),
    };
    // The dynamic linker has not filled the slot yet.
    if distance == 0 { Err(ProbeFailure::TlsArithmetic) } else { Target::new(distance, layout.offsets) }
}
