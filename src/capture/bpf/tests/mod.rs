//! Shared parts of the tests of this directory: recorded and built types, records, and a machine that runs programs.

mod emitted_programs;
pub(super) mod listing;
mod machine;
pub(super) mod record_builder;
pub(super) mod recorded_types;
pub(super) mod type_builder;
