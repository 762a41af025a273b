//! Subjects that kept a reader waiting, so that they do not keep another one waiting.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock::lock;

/// How long something is left alone after it hung, at least.
const LEFT_ALONE: Duration = Duration::from_secs(180);
/// Maximum number of readers of one kind of files that may wait, each in a thread. Beyond it, no more files of that kind are
/// read.
const MOST_WAITING: usize = 32;

/// Subject that can keep its reader waiting without end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// Files of a process.
    Process {
        /// Content of the files, for messages.
        what: &'static str,
        id: u32,
        /// When the process started, in ticks; `None` if that is not known.
        start: Option<u64>,
    },
    /// Files in a directory.
    Directory {
        path: &'static str,
        /// The user whose directory of this kind it is; `None` for the host's.
        user: Option<u32>,
    },
}

/// A part of what is read, in threads that can be given up.
pub(crate) trait CanHang {
    fn subject(&self) -> Subject;
}

/// Subjects that kept a reader waiting. Each is left alone until that reader is done, and for some minutes.
#[derive(Default)]
pub(crate) struct Hung {
    waits: Mutex<HashMap<Key, Wait>>,
}

/// Kind of the files, and id of the process or user.
type Key = (&'static str, Option<u32>);

struct Wait {
    start: Option<u64>,
    since: Instant,
    is_over: bool,
}

impl Subject {
    fn key(self) -> Key {
        match self {
            Self::Process { what, id, .. } => (what, Some(id)),
            Self::Directory { path, user } => (path, user),
        }
    }

    fn start(self) -> Option<u64> {
        if let Self::Process { start, .. } = self { start } else { None }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { what, id, .. } => write!(f, "{what} of process {id}"),
            Self::Directory { path, user: None } => f.write_str(path),
            Self::Directory { path, user: Some(user) } => write!(f, "{path} of user {user}"),
        }
    }
}

impl Hung {
    /// Forgets what hung some minutes ago and does not hang any more.
    pub(crate) fn forget(&self) {
        lock(&self.waits).retain(|_, wait| !wait.is_over || wait.since.elapsed() < LEFT_ALONE);
    }

    /// The number of subjects that are left alone.
    pub(crate) fn entries(&self) -> usize {
        lock(&self.waits).len()
    }

    /// Whether the subject must not be read now.
    pub(super) fn leaves_alone(&self, subject: Subject) -> bool {
        let waits = lock(&self.waits);
        let is_same = |wait: &Wait| match wait.start.zip(subject.start()) {
            Some((before, now)) => before == now,
            // While its reader waits, its id is that of no other process.
            None => !wait.is_over || matches!(subject, Subject::Directory { .. }),
        };
        is_full(&waits, subject) || waits.get(&subject.key()).is_some_and(is_same)
    }

    /// Whether no more of the files may be read that the subject has.
    pub(super) fn is_full(&self, subject: Subject) -> bool {
        is_full(&lock(&self.waits), subject)
    }

    /// Whether a reader waits.
    pub(super) fn has_waiting(&self) -> bool {
        lock(&self.waits).values().any(|wait| !wait.is_over)
    }

    /// A reader waits for this from now on.
    pub(super) fn begin(&self, subject: Subject) {
        tracing::warn!(
            "reading {subject} blocked for too long: a process holds its memory lock, or is in execve(2), or a file system \
             does not answer; values are missing, and it is left alone for some minutes"
        );
        let wait = Wait { start: subject.start(), since: Instant::now(), is_over: false };
        lock(&self.waits).insert(subject.key(), wait);
        if self.is_full(subject) {
            let what = subject.key().0;
            tracing::warn!(
                "reading {what} blocks in {MOST_WAITING} threads: no more is read until one of them goes on"
            );
        }
    }

    /// The reader that waited for this is done.
    pub(super) fn end(&self, subject: Subject) {
        if let Some(wait) = lock(&self.waits).get_mut(&subject.key()) {
            wait.is_over = true;
        }
    }
}

fn is_full(waits: &HashMap<Key, Wait>, subject: Subject) -> bool {
    let (what, _) = subject.key();
    waits.iter().filter(|((other, _), wait)| *other == what && !wait.is_over).count() >= MOST_WAITING
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u32, start: Option<u64>) -> Subject {
        Subject::Process { what: "stat", id, start }
    }

    #[test]
    fn a_process_that_hung_is_left_alone_and_the_next_with_its_id_is_not() {
        let hung = Hung::default();
        hung.begin(process(7, Some(100)));
        let alone = || [Some(100), Some(101), None].map(|start| hung.leaves_alone(process(7, start)));
        assert_eq!(alone(), [true, false, true]);
        assert!(!hung.leaves_alone(Subject::Process { what: "maps", id: 7, start: Some(100) }), "another file");
        hung.end(process(7, Some(100)));
        assert_eq!(alone(), [true, false, false]);
    }

    #[test]
    fn what_hangs_is_not_forgotten_before_its_reader_is_done() {
        let hung = Hung::default();
        let long_ago = Instant::now().checked_sub(2 * LEFT_ALONE);
        for (id, is_over) in [(7, false), (8, true), (9, true)] {
            hung.begin(process(id, None));
            let mut waits = lock(&hung.waits);
            let wait = waits.get_mut(&("stat", Some(id))).unwrap();
            wait.is_over = is_over;
            // A host that has just booted has no such time.
            wait.since = long_ago.filter(|_| id < 9).unwrap_or(wait.since);
        }
        hung.forget();
        let kept = if long_ago.is_some() { 2 } else { 3 };
        assert_eq!((hung.entries(), hung.leaves_alone(process(7, None))), (kept, true));
    }

    #[test]
    fn so_many_readers_wait_for_one_kind_of_files_and_no_more() {
        let hung = Hung::default();
        for id in 0..u32::try_from(MOST_WAITING).unwrap() {
            assert!(!hung.leaves_alone(process(1000, None)));
            hung.begin(process(id, None));
        }
        assert!(hung.leaves_alone(process(1000, None)));
        assert!(!hung.leaves_alone(Subject::Directory { path: "/elsewhere", user: None }));
        hung.end(process(3, None));
        assert!(!hung.leaves_alone(process(1000, None)));
    }
}
