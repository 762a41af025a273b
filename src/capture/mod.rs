//! Captures, from the kernel to the model: walks all threads and fills a snapshot. Values that cannot be read are absent, and
//! counted by reason. A capture fails only if nothing useful can be read.

mod bpf;
mod capture_info;
mod capturer;
mod cgroup_ids;
mod cgroup_names;
mod containers;
mod context;
mod elf;
mod engine;
mod enrich;
mod error;
mod executed;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod host;
mod lasting;
mod lock_owners;
mod mutex_owners;
mod options;
mod patient_reader;
mod process;
mod procfs;
mod read_threads;
mod recent;
mod running;
mod sampled_files;
mod sampled_stacks;
mod sampler;
mod scope;
mod stack;
mod start;
mod tally;
mod thread_flags;

pub use self::bpf::exits::{DEFAULT_RING_BYTES, ExitListener, ExitSink, NoExitRecords, RecordedExits};
pub use self::capturer::Capturer;
pub use self::enrich::jemalloc::{Offsets, Route, TsdLayout, inspect};
pub(crate) use self::enrich::program::program_of_command;
pub use self::enrich::smaps::Smaps;
pub use self::error::CaptureError;
pub(crate) use self::host::cpu_time::thread_cpu_time;
pub(crate) use self::lock_owners::add_lock_holders;
pub use self::options::{CodeSampling, Engine, Options, Roots, Use};
pub(crate) use self::sampled_files::add_files;
pub use self::sampler::{NoSamples, ThreadSampler};
pub use self::scope::{CaptureScope, Pass};
pub(crate) use self::start::nanoseconds;
use crate::model::{BpfObstacle, CtprofSnapshot, NoBpf};

/// Captures every thread of every process.
///
/// # Errors
/// [`CaptureError`] if nothing useful can be read.
pub fn capture() -> Result<CtprofSnapshot, CaptureError> {
    capture_with(&Options::default())
}

/// Captures every thread of one process.
///
/// # Errors
/// [`CaptureError`] if nothing useful can be read, for example for an unknown process.
pub fn capture_pid(pid: u32) -> Result<CtprofSnapshot, CaptureError> {
    capture_with(&Options { pids: vec![pid], ..Options::default() })
}

/// Captures according to `options`.
///
/// # Errors
/// [`CaptureError`] if nothing useful can be read.
pub fn capture_with(options: &Options) -> Result<CtprofSnapshot, CaptureError> {
    Capturer::new(options.clone(), 1)?.capture(options.smaps)
}

/// Runs the program of the BPF engine for all threads and ignores what it writes: the floor of a capture, for
/// benchmarks.
///
/// # Errors
/// [`CaptureError`] if BPF is not available.
pub fn bpf_pass() -> Result<(), CaptureError> {
    let engine =
        bpf::setup::BpfEngine::load(1, bpf::setup::Passes::OfAll).map_err(|no_bpf| CaptureError::no_bpf(&no_bpf))?;
    let failed = |errno| CaptureError::no_bpf(&NoBpf::with_detail(BpfObstacle::Failed, format!("{errno:?}")));
    engine.read(|words| drop(std::hint::black_box(words))).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_processes_is_not_a_procfs() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.roots.procfs = dir.path().to_owned();
        let error = capture_with(&options).unwrap_err().to_string();
        assert!(error.contains("lists no process"), "{error}");
        options.roots.procfs = dir.path().join("none");
        let error = capture_with(&options).unwrap_err().to_string();
        assert!(error.contains("is procfs mounted there? mount -t proc proc "), "{error}");
    }

    #[test]
    fn an_unknown_process_is_an_error_that_names_it() {
        let error = capture_pid(u32::MAX >> 1).unwrap_err().to_string();
        assert_eq!(
            error,
            "no such process: 2147483647 (/proc/2147483647 does not exist, or the mount option hidepid hides it)"
        );
    }
}
