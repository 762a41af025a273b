//! Tests that measure this host run one at a time.

use std::env;
use std::fs::{File, OpenOptions};

use nix::fcntl::{Flock, FlockArg};

/// Ends what [`alone`] began.
pub(crate) type Alone = Flock<File>;

/// Tests that disturb each other, or that others disturb, hold this: those of all test programs of this host.
pub(crate) fn alone() -> Alone {
    let path = env::temp_dir().join("ctprof-tests-alone");
    // It may belong to another user.
    let file = File::open(&path).or_else(|_| OpenOptions::new().create(true).append(true).open(&path));
    Flock::lock(file.expect("a file in the temporary directory"), FlockArg::LockExclusive).expect("the lock of a file")
}
