//! Thread pointers that glibc tells: no thread is stopped for them.
//!
//! Each thread of glibc tells the kernel where its list of robust locks is, because the kernel unlocks them when the thread
//! exits. The head of the list is a part of the thread's `struct pthread` (nptl/descr.h of glibc).

use std::fs::File;

use object::{Object, ObjectSegment, ObjectSymbol};

use super::super::super::elf::headers;
use super::super::super::elf::machine::Machine;
use super::super::super::elf::mapped_file;
use super::super::super::elf::modules::Module;
use super::super::super::elf::untrusted::{LimitedFile, SharedBudget};
use super::super::super::procfs::directory::{Numbered, ProcDirectory};
use super::super::super::procfs::text;
use crate::sys::memory::AddressSpace;
use crate::sys::robust;

/// How far the head of the list is behind the thread's id: `pid_t tid`, an unused one, and a pointer.
const HEAD_BEHIND_ID: u64 = 16;

/// How far the thread pointer is behind the head of the list, in threads of this program; `None` if it has no glibc.
pub(super) fn pointer_behind_head(machine: Machine, directory: &ProcDirectory, modules: &[Module]) -> Option<i64> {
    match machine {
        // It is at the start of the structure, which all versions have the same before the list.
        Machine::X86_64 => Some(-0x2e0),
        // It is at the end of the structure, which grows.
        Machine::Aarch64 => {
            let Described { size, id } = modules.iter().find_map(|module| {
                let names = [&b"/libc.so"[..], b"/libc-", b"/libpthread"];
                let is_library = names.iter().any(|name| memchr::memmem::find(&module.mapping.path, name).is_some());
                let (file, _) = mapped_file::open(directory, module).filter(|_| is_library || module.is_program)?;
                described(&file)
            })?;
            Some(i64::from(size) - i64::from(id) - i64::try_from(HEAD_BEHIND_ID).ok()?)
        }
    }
}

/// Facts that glibc describes for debuggers: the size of `struct pthread`, and the offset of `tid`.
#[derive(Debug)]
struct Described {
    size: u32,
    id: u32,
}

fn described(library: &File) -> Option<Described> {
    let budget = SharedBudget::default().of_file();
    let library = LimitedFile::new(library, &budget);
    let file = headers::File::parse(&library).ok()?;
    let word = |name: &[u8], at: u64| {
        let mut symbols = file.dynamic_symbols().chain(file.symbols());
        let address = symbols.find(|symbol| symbol.name_bytes() == Ok(name))?.address().checked_add(at)?;
        let bytes = file.segments().find_map(|segment| segment.data_range(address, 4).ok().flatten())?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    };
    // A description has the number of bits, the number of elements and the offset.
    Some(Described { size: word(b"_thread_db_sizeof_pthread", 0)?, id: word(b"_thread_db_pthread_tid", 8)? })
}

/// The thread pointer of thread `tid`, so far `behind` the head of its list; `None` if glibc has not started it.
pub(super) fn thread_pointer(space: &AddressSpace, behind: i64, directory: &ProcDirectory, tid: u32) -> Option<u64> {
    let head = robust::list(tid).ok()?;
    let mut id = [0; 4];
    space.read(head.checked_sub(HEAD_BEHIND_ID)?, &mut id).ok()?;
    let id = u32::from_ne_bytes(id);
    let is_its_id = id == tid || innermost_id(directory, tid) == Some(id);
    head.checked_add_signed(behind).filter(|_| is_its_id)
}

/// The id of a thread in the PID namespace that its process is in.
fn innermost_id(directory: &ProcDirectory, tid: u32) -> Option<u32> {
    let (tasks, mut status) = (directory.directory("task").ok()?, Vec::new());
    let status = Numbered::new(&tasks, tid).read("status", &mut status).ok()?;
    text::innermost_id(status)
}

#[cfg(test)]
mod tests {
    use super::super::attachment::Attachment;
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn glibc_describes_where_it_has_the_id_of_a_thread() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let library =
            maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libc"));
        let Some(described) = library.and_then(|path| described(&File::open(path).unwrap())) else {
            return skipped(Missing::Kernel("glibc"));
        };
        let attachment = Attachment::of_this_process();
        let tid = nix::unistd::gettid().as_raw().unsigned_abs();
        let mut id = [0; 4];
        let start = robust::list(tid).unwrap() - HEAD_BEHIND_ID - u64::from(described.id);
        attachment.space.read(start + u64::from(described.id), &mut id).unwrap();
        assert_eq!(u32::from_ne_bytes(id), tid, "{described:?}");
        // The structure starts with the pointer to itself.
        let mut own = [0; 8];
        attachment.space.read(start, &mut own).unwrap();
        assert_eq!(u64::from_ne_bytes(own) == start, cfg!(target_arch = "x86_64"), "{described:?}");
    }
}
