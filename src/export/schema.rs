//! The datasets and their columns.

use super::captures::{self, CaptureRow};
use super::cgroups::{self, CgroupRow};
use super::identity::{self, Identity};
use super::reasons::{self, ReasonRow};
use super::{Column, ColumnDoc, threads};
use crate::model::ThreadState;

/// Columns of a dataset: columns of all datasets, then the dataset's own.
pub(super) struct Schema<R> {
    pub(super) identity: Vec<Column<Identity>>,
    pub(super) columns: Vec<Column<R>>,
    /// The columns by which rows are sorted, the first one first.
    pub(super) sorted_by: &'static [&'static str],
    /// Number of rows that are encoded at a time. Until then they are in memory.
    pub(super) rows_per_batch: usize,
}

impl<R> Schema<R> {
    fn new(columns: Vec<Column<R>>, sorted_by: &'static [&'static str], rows_per_batch: usize) -> Self {
        Self { identity: identity::columns(), columns, sorted_by, rows_per_batch }
    }

    pub(super) fn docs(&self) -> Vec<&ColumnDoc> {
        let own = self.columns.iter().map(|column| &column.doc);
        self.identity.iter().map(|column| &column.doc).chain(own).collect()
    }
}

/// The datasets, in the order in which their files get names: a capture is there when `captures` has it.
pub(super) const DATASETS: [&str; 4] = ["threads", "cgroups", "reasons", "captures"];

pub(super) struct Schemas {
    pub(super) threads: Schema<ThreadState>,
    pub(super) cgroups: Schema<CgroupRow>,
    pub(super) reasons: Schema<ReasonRow>,
    pub(super) captures: Schema<CaptureRow>,
}

impl Schemas {
    pub(super) fn new() -> Self {
        Self {
            threads: Schema::new(threads::columns(), &["host", "time", "pcomm", "comm_pattern"], 8192),
            cgroups: Schema::new(cgroups::columns(), &["host", "time", "cgroup"], 256),
            reasons: Schema::new(reasons::columns(), &["host", "time", "pcomm", "comm_pattern"], 1024),
            captures: Schema::new(captures::columns(), &["host", "time"], 256),
        }
    }
}

/// The columns of each dataset, by its name.
pub fn datasets() -> [(&'static str, Vec<ColumnDoc>); 4] {
    let Schemas { threads, cgroups, reasons, captures } = &Schemas::new();
    let docs = [threads.docs(), cgroups.docs(), reasons.docs(), captures.docs()];
    std::array::from_fn(|place| (DATASETS[place], docs[place].iter().copied().cloned().collect()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::{METRICS, record_rows};

    #[test]
    fn columns_have_names_that_need_no_quotes_and_are_unique() {
        for (dataset, columns) in datasets() {
            let names: BTreeSet<&str> = columns.iter().map(|column| &*column.name).collect();
            assert_eq!(names.len(), columns.len(), "{dataset}");
            for name in names {
                let is_plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
                assert!(is_plain && !name.is_empty(), "{dataset}.{name}");
            }
        }
    }

    #[test]
    fn every_metric_and_every_value_of_records_has_a_column() {
        let datasets = datasets().map(|(_, columns)| columns);
        let has = |columns: &[ColumnDoc], end: &str| columns.iter().any(|column| column.name.ends_with(end));
        for metric in METRICS {
            assert!(has(&datasets[0], metric.name), "{}", metric.name);
        }
        for row in record_rows().filter(|row| !row.name.contains('*')) {
            let name = row.name.rsplit([' ', '.']).next().unwrap().to_owned();
            assert!(datasets.iter().any(|columns| has(columns, &name)), "{}", row.name);
        }
    }
}
