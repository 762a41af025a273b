//! Counters of whole processes, from `stat` and `io` in the directory of the process.

use super::super::thread_flags::PF_KTHREAD;
use super::directory::ProcDirectory;
use super::text::{self, StatFields, unsigned};
use crate::model::{PROCESS, ProcessState, Source, Value};

/// Reads the counters in `stat` of the process with this directory. Absent for kernel threads: each is a process with
/// one thread and, but for usermode helpers, without children, so its thread has the same values.
///
/// Failures are not counted, because they have the same reasons as failures on the first thread's files, which are counted.
pub(in crate::capture) fn read(directory: &ProcDirectory, buffer: &mut Vec<u8>) -> Option<ProcessState> {
    stat(directory.read("stat", buffer).ok()?).map(|(process, _)| process)
}

/// Reads the counters in `stat` and `io` of the process with this id that started then, in ticks.
pub(in crate::capture) fn read_again(procfs: &ProcDirectory, id: u32, start: Option<u64>) -> Option<ProcessState> {
    let (directory, mut buffer) = (procfs.directory(&id.to_string()).ok()?, Vec::new());
    let (mut process, now) = stat(directory.read("stat", &mut buffer).ok()?)?;
    if now != start {
        return None;
    }
    if let Ok(text) = directory.read("io", &mut buffer) {
        add_io(&mut process, text);
    }
    Some(process)
}

/// The counters of a process in `stat`, and its start in ticks; `None` for a kernel thread.
fn stat(text: &[u8]) -> Option<(ProcessState, Option<u64>)> {
    let mut process = ProcessState::default();
    let add = |(number, field): (u8, &[u8])| {
        unsigned(field).into_iter().for_each(|value| counters(Source::Stat(number), value, &mut process));
    };
    let (_, StatFields { ppid, flags, start, .. }) = StatFields::parse(text, add)?;
    process.ppid = ppid;
    (flags.unwrap_or(0) & PF_KTHREAD == 0).then_some((process, start))
}

/// Stores a value of `source`.
fn counters(source: Source, value: u64, process: &mut ProcessState) {
    for counter in PROCESS.iter().filter(|counter| counter.source.source == source) {
        // A value that the counter cannot hold is absent.
        let _ = counter.set(process, Value::Unsigned(value));
    }
}

/// Adds the keys of `io`: all keys, or none if a key is missing.
pub(in crate::capture) fn add_io(process: &mut ProcessState, text: &[u8]) {
    let mut with_io = process.clone();
    let is_whole = PROCESS.iter().all(|counter| {
        let Source::Io(key) = counter.source.source else { return true };
        let value = |line: &[u8]| unsigned(line.strip_prefix(key.as_bytes())?.strip_prefix(b": ")?);
        let value = text::lines(text).find_map(value);
        value.is_some_and(|value| counter.set(&mut with_io, Value::Unsigned(value)).is_ok())
    });
    if is_whole {
        *process = with_io;
    }
}

/// Reads `bytes` as both files.
#[cfg(feature = "fuzzing")]
pub(in crate::capture) fn fuzz(bytes: &[u8]) {
    add_io(&mut stat(bytes).unwrap_or_default().0, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    // Linux 6.18: a shell that started 200 processes and waited for them.
    const STAT: &[u8] = b"14675 (sh) S 14670 14670 12992 0 -1 4194304 92 10009 1 2 3 4 5 6 20 0 1 0 1190779";
    const IO: &[u8] = b"rchar: 807265\nwchar: 309\nsyscr: 1620\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n";

    fn read_from(files: &[(&str, &[u8])]) -> Option<ProcessState> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let directory = ProcDirectory::open(dir.path()).unwrap();
        let mut process = read(&directory, &mut Vec::new())?;
        if let Ok(text) = directory.read("io", &mut Vec::new()) {
            add_io(&mut process, text);
        }
        Some(process)
    }

    fn values(process: &ProcessState) -> Vec<Option<String>> {
        PROCESS.iter().map(|counter| counter.get(process).map(|value| value.to_string())).collect()
    }

    #[test]
    fn every_counter_comes_from_its_field_or_key() {
        let process = read_from(&[("stat", STAT), ("io", IO)]).unwrap();
        let expected = [3, 4, 92, 1, 5, 6, 10_009, 2, 807_265, 309, 1620, 1, 4096, 0, 0];
        assert_eq!(values(&process), expected.map(|number: u64| Some(number.to_string())));
        assert_eq!(process.ppid, Some(14_670));
    }

    #[test]
    fn io_that_is_denied_or_cut_is_absent_and_stat_remains() {
        let without = read_from(&[("stat", STAT)]).unwrap();
        assert_eq!((without.rchar, without.cminflt), (None, Some(10_009.into())));
        assert_eq!(read_from(&[("stat", STAT), ("io", &IO[..40])]).as_ref(), Some(&without));
        assert_eq!(read_from(&[("io", IO)]), None);
    }

    #[test]
    fn a_counter_that_does_not_parse_is_absent() {
        let process = stat(b"7 (a) b) S 1 1 1 0 -1 0 1 x 3").unwrap().0;
        assert_eq!((process.minflt, process.cminflt, process.majflt), (Some(1.into()), None, Some(3.into())));
        assert_eq!((process.cmajflt, process.ppid), (None, Some(1)));
    }

    #[test]
    fn a_kernel_thread_has_the_counters_of_its_thread_only() {
        // Linux 6.18.
        let kthreadd = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 8 0 0";
        assert_eq!(read_from(&[("stat", kthreadd), ("io", IO)]), None);
    }
}
