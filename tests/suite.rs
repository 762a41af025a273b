//! Everything but the documents and the soak test. It is one program, so that tests that wait leave CPUs to others: first those of
//! this host, most of which wait for programs, for windows or for each other.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[path = "support/alone.rs"]
mod alone;
#[path = "support/example.rs"]
mod example;
#[path = "support/format_reader.rs"]
mod format_reader;
#[path = "support/hanging.rs"]
mod hanging;
#[path = "support/host.rs"]
mod host;
mod live;
mod root;
#[path = "support/screen.rs"]
mod screen;
#[path = "support/states.rs"]
mod states;
mod stored;
mod support;

use self::alone::alone;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
