//! The target of reading threads.

use super::thread::ThreadState;

/// A collection that takes the threads of a snapshot in order, ascending by process id, then thread
/// id, and need not keep them. Parts of it are filled at the same time and appended to each other.
pub trait Threads: Send + Sync {
    /// An empty collection of the same kind.
    fn another(&self) -> Self;

    /// An empty collection for the first threads of the snapshot. The others are appended to it, so that it can
    /// pass threads on as soon as they are in their order.
    fn first(&self) -> Self
    where
        Self: Sized,
    {
        self.another()
    }

    /// Adds the next thread.
    fn add(&mut self, thread: ThreadState);

    /// Appends `later`, which received the threads that follow those of `self`.
    fn append(&mut self, later: Self);
}

impl Threads for Vec<ThreadState> {
    fn another(&self) -> Self {
        Self::new()
    }

    fn add(&mut self, thread: ThreadState) {
        self.push(thread);
    }

    fn append(&mut self, mut later: Self) {
        Self::append(self, &mut later);
    }
}
