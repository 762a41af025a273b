//! The target of reading threads.

use super::thread::ThreadState;

/// A collection that receives the threads of a snapshot, sorted by process id, then thread id, and need
/// not keep them. Parts of it are filled concurrently and then appended to each other.
pub trait Threads: Default + Send {
    /// Adds the next thread.
    fn add(&mut self, thread: ThreadState);

    /// Appends `later`, which received the threads that follow those of `self`.
    fn append(&mut self, later: Self);
}

impl Threads for Vec<ThreadState> {
    fn add(&mut self, thread: ThreadState) {
        self.push(thread);
    }

    fn append(&mut self, mut later: Self) {
        Self::append(self, &mut later);
    }
}
