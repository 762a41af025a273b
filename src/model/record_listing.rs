//! The listing of the values of records, from their tables.

use super::sorted::Arrange;
use super::{
    CGROUP_CPU, CGROUP_DEVICE, CGROUP_MEMORY, CGROUP_PIDS, CgroupFile, DeviceFile, KeyPattern, MEMORY_EVENTS,
    MEMORY_EVENTS_V1, MEMORY_STAT, PSI_HALF, RecordField, SCHED_EXT, Section, ValueType,
};

/// A value of a record, as documentation lists it.
#[derive(Clone, Debug)]
pub(crate) struct RecordRow {
    pub(crate) section: Section,
    /// The name in reports; variable parts are in capitals, or a `*`.
    pub(crate) name: String,
    pub(crate) value_type: ValueType,
    /// The file, and the position in it.
    pub(crate) source: String,
    pub(crate) meaning: &'static str,
}

/// Every value that records can have, in the order of sections and tables.
pub(crate) fn record_rows() -> impl Iterator<Item = RecordRow> {
    let cgroups = cgroup_fields(CGROUP_CPU).chain(cgroup_fields(CGROUP_MEMORY)).chain(cgroup_fields(CGROUP_PIDS));
    let mut values: Vec<_> = cgroups.collect();
    values.extend(keys(Section::MemoryStat, MEMORY_STAT, "memory.stat", &[]));
    values.extend(keys(Section::MemoryEvents, MEMORY_EVENTS, "memory.events", MEMORY_EVENTS_V1));
    values.extend(fields(Section::IoStat, "MAJOR:MINOR ", CGROUP_DEVICE, |name, &(file, operation): &DeviceFile| {
        format!("io.stat {name}, else v1 {file} {operation}")
    }));
    let pressure = "RESOURCE.HALF.";
    values.extend(fields(Section::Pressure, pressure, PSI_HALF, |_, key| format!("RESOURCE.pressure HALF {key}")));
    let host = |_: &str, key: &&str| format!("/proc/pressure/RESOURCE HALF {key}");
    values.extend(fields(Section::HostPressure, pressure, PSI_HALF, host));
    let sysfs = |_: &str, file: &&str| format!("/sys/kernel/sched_ext/{file}");
    values.extend(fields(Section::SchedExt, "", SCHED_EXT, sysfs));
    values.arrange_by_key(|value| value.section);
    values.into_iter()
}

fn fields<R, S>(
    section: Section,
    prefix: &str,
    fields: &'static [RecordField<R, S>],
    source: impl Fn(&str, &S) -> String,
) -> impl Iterator<Item = RecordRow> {
    fields.iter().map(move |field| RecordRow {
        section,
        name: format!("{prefix}{}", field.name),
        value_type: field.value_type,
        source: source(field.name, &field.source),
        meaning: field.doc,
    })
}

fn cgroup_fields<R>(table: &'static [RecordField<R, &[CgroupFile]>]) -> impl Iterator<Item = RecordRow> {
    let described =
        |_: &str, files: &&[CgroupFile]| files.iter().map(CgroupFile::describe).collect::<Vec<_>>().join(", else ");
    let values = fields(Section::CgroupStats, "", table, described);
    values.map(|value| RecordRow { section: value.value_type.cgroup_section(), ..value })
}

fn keys(
    section: Section,
    patterns: &'static [KeyPattern],
    file: &str,
    v1: &[(&str, CgroupFile)],
) -> impl Iterator<Item = RecordRow> {
    let older = v1.iter().map(|(key, file)| format!(", {key} else {}", file.describe()));
    let source = format!("{file}{}", older.collect::<String>());
    patterns.iter().map(move |pattern| RecordRow {
        section,
        name: pattern.pattern.to_owned(),
        value_type: pattern.value_type,
        source: source.clone(),
        meaning: pattern.doc,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_of_records_lists_its_values() {
        let sections: std::collections::BTreeSet<_> = record_rows().map(|value| value.section).collect();
        let expected = [
            Section::CgroupStats,
            Section::CgroupLimits,
            Section::MemoryStat,
            Section::MemoryEvents,
            Section::IoStat,
            Section::Pressure,
            Section::HostPressure,
            Section::SchedExt,
        ];
        assert!(sections.into_iter().eq(expected));
        let quota = record_rows().find(|value| value.name == "cpu.max_quota_us").unwrap();
        assert_eq!(
            (quota.section, &*quota.source),
            (Section::CgroupLimits, "cpu.max word 1, else v1 cpu.cfs_quota_us")
        );
    }
}
