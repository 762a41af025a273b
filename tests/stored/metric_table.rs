//! Rules of the table of metrics that the compiler does not check.

use std::collections::BTreeSet;

use ctprof::compare::{compare, show};
use ctprof::model::{DERIVED, Direction, Formula, METRICS, MetricId, Reduction, Source, Totals, Unit, procfs_sources};
use ctprof::{CtprofSnapshot, ThreadState};

#[test]
fn there_are_90_metrics_with_different_names() {
    let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!((METRICS.len(), names.len()), (90, 90));
    for name in names {
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
    }
}

#[test]
fn a_metric_is_found_by_its_identifier() {
    for metric in METRICS {
        assert_eq!((metric.id.metric().name, format!("{:?}", metric.id).as_str()), (metric.name, metric.name));
    }
}

#[test]
fn formulas_read_values_of_one_unit_and_reduction() {
    for derived in DERIVED {
        let mut units: Vec<_> = derived.formula.inputs().map(|id| id.metric().unit).collect();
        if let Formula::Average(..) = derived.formula {
            assert_eq!(units.pop(), Some(Unit::Count), "{}", derived.name);
        }
        assert!(units.windows(2).all(|pair| pair[0] == pair[1]), "{}: {units:?}", derived.name);
        let is_peak = matches!(derived.formula, Formula::LongestWait(_));
        let reduction = if is_peak { Reduction::Max } else { Reduction::Sum };
        let is_reduced_so = |id: MetricId| id.metric().reduction == reduction;
        assert!(derived.formula.inputs().all(is_reduced_so), "{}", derived.name);
    }
}

#[test]
fn every_meaning_is_a_sentence_of_one_line() {
    let metrics = METRICS.iter().map(|metric| (metric.name, metric.doc));
    for (name, meaning) in metrics.chain(DERIVED.iter().map(|derived| (derived.name, derived.doc))) {
        assert!(meaning.len() <= 85 && meaning.ends_with('.'), "{name}: {meaning}");
        assert!(meaning.starts_with(char::is_uppercase), "{name}: {meaning}");
    }
}

#[test]
fn no_two_metrics_have_a_source_in_common() {
    let places: BTreeSet<_> = procfs_sources().map(|(source, _)| (source.file(), source.place())).collect();
    assert_eq!(places.len(), procfs_sources().count());
}

#[test]
fn tags_have_no_config_prefix_and_files_need_their_options() {
    for (source, metric) in procfs_sources() {
        assert!(metric.gates.iter().all(|gate| !gate.starts_with("CONFIG_")), "{}", metric.name);
        let gate = match source {
            Source::Schedstat(_) => "SCHED_INFO",
            Source::Io(_) => "TASK_IO_ACCOUNTING",
            Source::Taskstats { .. } => "TASKSTATS",
            _ => continue,
        };
        assert_eq!(metric.gates.first(), Some(&gate), "{}", metric.name);
    }
}

#[test]
fn every_taskstats_field_is_inside_the_struct_of_its_version() {
    // Sizes of `struct taskstats` from version 8 on.
    let size = |version: u16| match version {
        ..=8 => 328,
        9 => 344,
        10 | 11 => 368,
        12 | 13 => 416,
        14 => 432,
        _ => 560,
    };
    for metric in METRICS {
        let Some(field) = metric.taskstats() else { continue };
        let (at, width) = (usize::from(field.at), 8);
        assert!(at % width == 0 && at + width <= size(field.since), "{}", metric.name);
    }
}

fn threads() -> Vec<ThreadState> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/ktstr-a.ctprof.zst");
    CtprofSnapshot::load(path.as_ref()).unwrap().threads
}

fn totals<'t>(threads: impl Iterator<Item = &'t ThreadState>) -> Totals {
    let mut totals = Totals::default();
    threads.for_each(|thread| totals.add(&thread.metrics));
    totals
}

#[test]
fn totals_do_not_depend_on_the_order_or_the_grouping_of_threads() {
    let threads = threads();
    let forward = totals(threads.iter());
    assert_eq!(forward, totals(threads.iter().rev()));
    let (left, right) = threads.split_at(threads.len() / 3);
    let mut merged = totals(left.iter());
    merged.merge(&totals(right.iter()));
    assert_eq!(forward, merged);
}

#[test]
fn the_total_of_one_thread_is_that_thread() {
    for thread in threads() {
        let alone = totals([&thread].into_iter());
        for metric in METRICS {
            let read = metric.get(&thread.metrics).is_some();
            assert_eq!((metric.total(&alone).is_some(), metric.covered(&alone)), (read, u64::from(read)));
        }
    }
}

#[test]
fn every_metric_is_a_row_of_every_group() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/ktstr-a.ctprof.zst");
    let snapshot = CtprofSnapshot::load(path.as_ref()).unwrap();
    let mut options = ctprof::compare::CompareOptions::default();
    options.selection.form = ctprof::compare::Form::Long;
    let comparison = compare(&snapshot, &snapshot, &options);
    let compared: usize = comparison.sections[..3].iter().map(|table| table.rows.len() / table.groups.len()).sum();
    let view = show(&snapshot, &options);
    let shown: usize = view.sections[..3].iter().map(|table| table.rows.len() / table.groups.len()).sum();
    assert_eq!([compared, shown], [METRICS.len() + DERIVED.len(); 2]);
}

#[test]
fn only_sums_and_maxima_have_a_direction() {
    for metric in METRICS.iter().filter(|metric| metric.direction != Direction::Neither) {
        assert!(matches!(metric.reduction, Reduction::Sum | Reduction::Max), "{}", metric.name);
    }
    let efficiency = DERIVED.iter().find(|derived| derived.name == "cpu_efficiency").unwrap();
    let waits = [MetricId::wait_time_ns.metric().direction, MetricId::voluntary_csw.metric().direction];
    assert_eq!(efficiency.direction, Direction::LessIsWorse, "more of it is useful work");
    assert_eq!(waits, [Direction::MoreIsWorse, Direction::Neither]);
}
