//! Stored files, comparisons, statistics and reports: nothing here looks at the threads of this host.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod bounds_files;
mod browser;
mod changes_over_time;
mod command_line;
mod comparison;
mod completions;
mod containers;
mod early_ends;
#[cfg(feature = "parquet")]
mod export;
mod first_screen;
#[cfg(feature = "parquet")]
#[path = "../../examples/fleet.rs"]
mod fleet;
mod format;
#[path = "../support/format_reader.rs"]
mod format_reader;
mod gates;
mod html;
mod malformed_values;
mod metric_table;
mod names;
mod program;
mod properties;
mod reasons;
mod recorded_trees;
mod report_formats;
mod same_answers;
#[path = "../support/screen.rs"]
mod screen;
mod sides_of_runs;
#[path = "../support/states.rs"]
mod states;
mod statistics;
mod stored_files;
#[path = "../support/mod.rs"]
mod support;
mod top;
mod unusual_values;
mod window_boundaries;
mod window_exits;
mod window_threads;
mod windows;
