//! The allocator of the program: jemalloc, which avoids contention between workers and reports ctprof's own heap use.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_char;
use std::sync::OnceLock;

use tikv_jemallocator::Jemalloc;

/// Options of jemalloc, as the C string that it reads when it starts.
#[repr(transparent)]
struct Configuration(*const c_char);

// SAFETY: it is a pointer to text that nothing changes.
unsafe impl Sync for Configuration {}

/// A single arena, made by the main thread: jemalloc 5.3 faults in a starting thread if no memory is left for another arena.
/// Workers hardly compete for the arena, because each has a cache.
// SAFETY: jemalloc declares a pointer to a C string by this name for programs to define.
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURATION: Configuration = Configuration(c"narenas:1".as_ptr());

/// Function that ends the process when memory runs out; its argument is the number of missing bytes.
static AT_LACK: OnceLock<fn(usize) -> !> = OnceLock::new();

/// Ends the process by `end` when memory is missing, whatever thread needs it. `end` takes none. Only the first call counts.
pub(crate) fn end_without_memory(end: fn(usize) -> !) {
    let _ = AT_LACK.set(end);
    keep_one_heap_of_libc();
}

/// Lets all threads share the heap of the C library that the main thread has. The library takes little, for destructors of thread
/// locals for instance, but aborts without it; a heap for each thread would reserve 64 MiB of addresses.
#[cfg(target_env = "gnu")]
fn keep_one_heap_of_libc() {
    use nix::libc;

    // SAFETY: both take numbers only, and the memory is given back.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        // The first piece makes a heap that has room for all others.
        libc::free(libc::malloc(1));
    }
}

#[cfg(not(target_env = "gnu"))]
fn keep_one_heap_of_libc() {}

/// jemalloc, with an end of the process where it has no memory.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

impl Allocator {
    fn checked(memory: *mut u8, size: usize) -> *mut u8 {
        match AT_LACK.get() {
            Some(end) if memory.is_null() => end(size),
            _ => memory,
        }
    }
}

// SAFETY: all is done by jemalloc, with the caller's arguments.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        Self::checked(unsafe { Jemalloc.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        Self::checked(unsafe { Jemalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { Jemalloc.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as promised by the caller.
        Self::checked(unsafe { Jemalloc.realloc(memory, layout, size) }, size)
    }
}
