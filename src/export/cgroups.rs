//! The columns of cgroups: every value of the record tables. Values of devices are combined, and maps of
//! `memory.stat` and `memory.events` stay maps, because the kernel names their keys.

use std::collections::{BTreeMap, HashMap};

use super::column::columns;
use super::{Column, ColumnType, Entries, column_name, entries};
use crate::model::{
    Cell, CgroupStats, Container, PSI_HALF, Psi, PsiHalf, PsiResource, RecordRow, RecordValue, Section, Value,
    ValueType, record_rows,
};
use crate::names::{cgroup_pattern, workload};

pub(super) struct CgroupRow {
    path: String,
    container: Container,
    values: RecordValues,
    memory_stat: Vec<(String, u64)>,
    memory_events: Vec<(String, u64)>,
}

pub(super) type RecordValues = HashMap<String, Value<'static>>;

impl CgroupRow {
    /// `container` is the one that the cgroup is in, if it is in one.
    pub(super) fn new(path: String, stats: &CgroupStats, container: Option<Container>) -> Self {
        let plain = [Section::CgroupStats, Section::CgroupLimits, Section::Pressure];
        let mut values: RecordValues = plain.into_iter().flat_map(|section| plain_values(stats, section)).collect();
        values.extend(values_of_devices(&stats.values(Section::IoStat)));
        let counted = |value: RecordValue<'_>| match value.value {
            Value::Unsigned(number) => Some((value.name.into_owned(), number)),
            _ => None,
        };
        let map = |section| stats.values(section).into_iter().filter_map(counted).collect();
        Self {
            path,
            container: container.unwrap_or_default(),
            values,
            memory_stat: map(Section::MemoryStat),
            memory_events: map(Section::MemoryEvents),
        }
    }
}

fn plain_values(stats: &CgroupStats, section: Section) -> Vec<(String, Value<'static>)> {
    let name = if section == Section::Pressure { pressure_name } else { column_name };
    stats.values(section).into_iter().map(|value| (name(&value.name), value.value.into_owned())).collect()
}

/// The combination of each value over all devices: the names are `MAJOR:MINOR FIELD`.
fn values_of_devices(values: &[RecordValue<'_>]) -> Vec<(String, Value<'static>)> {
    let mut fields: BTreeMap<&str, (&ValueType, Vec<Value<'_>>)> = BTreeMap::new();
    for value in values {
        let field = value.name.rsplit(' ').next().unwrap_or_default();
        fields.entry(field).or_insert((value.value_type, Vec::new())).1.push(value.value.clone());
    }
    let combined = fields.into_iter().filter_map(|(field, (value_type, values))| match value_type.reduce(values)? {
        Cell::Number(number) => Some((device_name(field), Value::Unsigned(number))),
        _ => None,
    });
    combined.collect()
}

fn device_name(field: &str) -> String {
    format!("io_{field}")
}

fn pressure_name(value: &str) -> String {
    format!("pressure_{}", column_name(value))
}

/// The keys of `memory.stat` and `memory.events` that queries ask for: engines read a map as a whole.
const MEMORY: [(&str, &str, &str); 5] = [
    ("memory_stat_anon", "bytes", "Anonymous memory: `anon` of `memory.stat`."),
    ("memory_stat_file", "bytes", "Page cache: `file` of `memory.stat`."),
    (
        "memory_stat_workingset_refault_file",
        "count",
        "Pages read again after they were evicted: `workingset_refault_file` of `memory.stat`.",
    ),
    ("memory_events_high", "count", "How often the cgroup was above `memory.high`: `high` of `memory.events`."),
    ("memory_events_oom_kill", "count", "Processes that were killed for memory: `oom_kill` of `memory.events`."),
];

pub(super) fn columns() -> Vec<Column<CgroupRow>> {
    let mut all = columns! { CgroupRow;
        cgroup: Text in "" = |row| Some((&*row.path).into()), "Path of the cgroup.";
        cgroup_pattern: Text by cgroup_pattern in "" = |row| Some((&*row.path).into()), "Path of the cgroup, with ids of instances replaced.";
        runtime: Text in "" = |row| text(&row.container.runtime), "What runs the container that the cgroup is in: `docker`, `containerd` …. NULL outside of containers.";
        container: Text in "" = |row| text(&row.container.name), "Name of the container; in a pod that of the pod's specification. NULL if no file of the host names it.";
        pod: Text in "" = |row| text(&row.container.pod), "Name of the pod.";
        namespace: Text in "" = |row| text(&row.container.namespace), "Namespace of the pod, or of containerd.";
        workload: Text in "" = |row| row.container.pod_key(workload).map(Value::from), "Namespace and workload of the pod: one value for all pods of a Deployment, StatefulSet or DaemonSet.";
        image: Text in "" = |row| text(&row.container.image), "Image of the container.";
    };
    let column = |name: String, row: &RecordRow| record_column(name, row, |row: &CgroupRow| &row.values);
    for row in record_rows() {
        match row.section {
            Section::CgroupStats | Section::CgroupLimits => all.push(column(column_name(&row.name), &row)),
            Section::IoStat => all.push(column(device_name(row.name.rsplit(' ').next().unwrap_or_default()), &row)),
            _ => {}
        }
    }
    all.extend(pressure(Section::Pressure, |row: &CgroupRow| &row.values));
    for (name, unit, meaning) in MEMORY {
        all.push(Column::new(name, ColumnType::Integer, unit, meaning, |row: &CgroupRow| {
            let (map, key) = match name.strip_prefix("memory_events_") {
                Some(key) => (&row.memory_events, key),
                None => (&row.memory_stat, name.strip_prefix("memory_stat_")?),
            };
            map.iter().find(|(found, _)| found == key).map(|(_, number)| (*number).into())
        }));
    }
    all.extend(columns! { CgroupRow;
        memory_stat: Counts in "" = |row| counts(&row.memory_stat), "`memory.stat`: bytes, or events where the key counts events.";
        memory_events: Counts in "count" = |row| counts(&row.memory_events), "`memory.events`.";
    });
    all
}

pub(super) fn text(name: &Option<String>) -> Option<Value<'_>> {
    name.as_deref().map(Into::into)
}

fn counts(map: &[(String, u64)]) -> Option<Entries<'_>> {
    // Every cgroup with these files has keys in them.
    (!map.is_empty()).then(|| entries(map.iter().map(|(key, number)| (key, number))))
}

/// The column of a record's value, among the values by column that `values` finds.
pub(super) fn record_column<R: 'static>(name: String, row: &RecordRow, values: fn(&R) -> &RecordValues) -> Column<R> {
    let column_type = ColumnType::from(row.value_type.shape);
    let key = name.clone();
    Column::new(name, column_type, row.value_type.unit.name(), row.meaning, move |record: &R| {
        values(record).get(&key).cloned()
    })
}

/// Columns of pressure: each value of the table, for every resource and half.
pub(super) fn pressure<R: 'static>(section: Section, values: fn(&R) -> &RecordValues) -> Vec<Column<R>> {
    let rows: Vec<RecordRow> = record_rows().filter(|row| row.section == section).collect();
    let psi = full_psi();
    let columns = psi.values().into_iter().filter_map(|value| {
        // `RESOURCE.HALF.FIELD`
        let (object, field) = value.name.rsplit_once('.')?;
        let row = rows.iter().find(|row| row.name.rsplit('.').next() == Some(field))?;
        let mut column = record_column(pressure_name(&value.name), row, values);
        column.doc.meaning = format!("{} ({object})", row.meaning.trim_end_matches('.'));
        Some(column)
    });
    columns.collect()
}

pub(super) fn pressure_values(psi: &Psi) -> RecordValues {
    psi.values().into_iter().map(|value| (pressure_name(&value.name), value.value.into_owned())).collect()
}

/// A pressure with every resource and half.
fn full_psi() -> Psi {
    let mut half = PsiHalf::default();
    PSI_HALF.iter().for_each(|field| field.set(&mut half, Value::Unsigned(0)).expect("0 is a number"));
    let resource = || Some(PsiResource { some: Some(half), full: Some(half) });
    Psi { cpu: resource(), memory: resource(), io: resource(), irq: resource() }
}
