//! Parsers of kernel text, exposed to the fuzz targets.

use super::bpf;
use super::elf::mappings::fuzz_maps;
use super::enrich::taskstats;
use super::host::cpu_time;
use super::procfs::cgroup_paths::CgroupPaths;
use super::procfs::text::{self, Keyed};
use super::procfs::whole_process;
use super::stack;
use crate::model::METRICS;

/// Reads `bytes` as the text of every file of a thread, a process and the host's CPU time.
pub fn text(bytes: &[u8]) {
    if let Some((name, fields)) = text::stat(bytes) {
        assert!(name.len() <= bytes.len());
        for (_, field) in fields {
            METRICS.iter().for_each(|metric| drop(text::value(metric, field)));
        }
    }
    let _ = CgroupPaths::default().identify(bytes);
    fuzz_maps(bytes);
    whole_process::fuzz(bytes);
    let _ = cpu_time::parse(bytes, bytes);
    let mut keyed = Keyed::new(METRICS.iter().map(|metric| (metric.name, metric)));
    // The second pass uses what the first has learned.
    let mut values = [Vec::new(), Vec::new()];
    for values in &mut values {
        keyed.each(text::after_heading(bytes), |metric, text| {
            values.push((metric.name, text::value(metric, text)));
        });
    }
    assert_eq!(values[0], values[1]);
}

/// Reads `bytes` as an answer of taskstats, and as the struct in it.
pub fn taskstats(bytes: &[u8]) {
    crate::sys::taskstats::fuzz(bytes);
    taskstats::fuzz(bytes);
}

/// Reads `bytes` as a program, unwinds stacks by its rules, and names its functions.
pub fn code(bytes: &[u8]) {
    stack::fuzz::code(bytes);
}

/// Reads `bytes` as the types of a kernel, emits programs for it, and reads `bytes` as their records.
pub fn btf(bytes: &[u8]) {
    bpf::fuzz::types(bytes);
}
