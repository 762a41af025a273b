//! Stored files, comparisons, statistics and reports: nothing here looks at the threads of this host.

mod bounds_files;
mod browser;
mod changes_over_time;
mod command_line;
mod comparison;
mod completions;
mod completions_typed;
mod containers;
mod early_ends;
#[cfg(feature = "parquet")]
mod export;
mod first_screen;
#[cfg(feature = "parquet")]
#[path = "../../examples/fleet.rs"]
mod fleet;
mod format;
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
mod sides_of_runs;
mod statistics;
mod stored_files;
mod top;
mod unusual_values;
mod window_boundaries;
mod window_exits;
mod window_threads;
mod windows;
