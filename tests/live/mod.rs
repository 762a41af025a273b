//! Captures, windows and runs of real programs on this host.

mod captures;
mod commands;
mod example_scripts;
mod format;
mod hostile_hosts;
#[cfg(target_arch = "x86_64")]
mod jemalloc;
mod rare_states;
mod reasons;
mod series;
mod series_of_runs;
mod top;
mod windows_and_the_kernel;
