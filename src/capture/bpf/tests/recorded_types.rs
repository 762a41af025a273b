//! Paths on the recorded types of kernels, `tests/kernels/btf/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::super::btf::{Btf, kind};
use super::super::columns;
use super::super::path::{FieldLocation, resolve};

const DEBIAN: &str = "5.10 6.1 6.12 6.12-arm64 6.16 7.3";

/// Fields that these kernels lack, by a part of the paths; after `^`, by their start.
const ABSENT: [(&str, &str); 12] = [
    // Built without CONFIG_SCHEDSTATS.
    ("stats.", "6.18"),
    // Built without CONFIG_SCHED_CORE.
    ("core_forceidle_sum", DEBIAN),
    ("sum_block_runtime", "5.10"),
    ("se.slice", "5.10 6.1"),
    ("_run_delay", "5.10 6.1 6.12 6.12-arm64"),
    ("_delay_m", "5.10 6.1 6.12 6.12-arm64"),
    // Of x86.
    ("^thread_info.status", "6.12-arm64"),
    ("^blocker", "5.10 6.1 6.12 6.12-arm64"),
    ("compact_", "5.10"),
    ("wpcopy_", "5.10"),
    ("irq_", "5.10 6.1"),
    ("^mm->rss_stat.count", "6.12 6.12-arm64 6.16 6.18 7.3"),
];

/// Fields that must be copied on these kernels, by a part of the paths.
const COPIED: [(&str, &str); 1] = [("rss_stat", "5.10 6.1")];

/// Paths that are not in the recorded types of a kernel yet, after its version.
const NOT_RECORDED: &str = include_str!("../../../../tests/kernels/btf/not-recorded");

fn is_listed(table: &[(&str, &str)], path: &str, kernel: &str) -> bool {
    let is_in_path = |part: &str| part.strip_prefix('^').map_or(path.contains(part), |start| path.starts_with(start));
    let lists = |(part, kernels): &(&str, &str)| is_in_path(part) && kernels.split(' ').any(|one| one == kernel);
    table.iter().any(lists)
}

/// Calls `check` with each kernel's version and types.
pub(crate) fn each_kernel(mut check: impl FnMut(&str, &Btf<'_>)) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/btf");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let types: Vec<_> = files.filter(|file| file.extension().is_some_and(|extension| extension == "btf")).collect();
    assert_eq!(types.len(), DEBIAN.split(' ').count() + 1);
    for file in types {
        let bytes = fs::read(&file).unwrap();
        check(file.file_stem().unwrap().to_str().unwrap(), &Btf::parse(&bytes).unwrap());
    }
}

fn in_task(btf: &Btf<'_>, path: &str) -> Option<FieldLocation> {
    resolve(btf, btf.find(kind::STRUCT, "task_struct").unwrap(), path)
}

/// Every path that programs can read.
fn paths() -> BTreeSet<&'static str> {
    columns::all(1).into_iter().chain(columns::exits()).chain(columns::samples()).map(|wanted| wanted.path).collect()
}

#[test]
fn recorded_paths_are_those_of_the_tables() {
    let paths: String = paths().into_iter().flat_map(|path| [path, "\n"]).collect();
    let recorded = include_str!("../../../../tests/kernels/btf/paths");
    assert!(recorded == paths, "write these paths to the file, and continue as README.md there says:\n{paths}");
}

#[test]
fn paths_resolve_on_every_kernel_that_has_the_field() {
    each_kernel(|kernel, btf| {
        for path in paths() {
            let place = in_task(btf, path);
            let is_recorded = !NOT_RECORDED.lines().any(|line| line.split_once(' ') == Some((kernel, path)));
            let is_expected = is_recorded && !is_listed(&ABSENT, path, kernel);
            let line = format!("{kernel} {path}");
            assert_eq!(place.is_some(), is_expected, "if its types are not at hand, add to `not-recorded`: {line}");
            let is_copied = place.is_some_and(|place| place.copied);
            assert_eq!(is_copied, is_recorded && is_listed(&COPIED, path, kernel), "{line} is copied");
        }
    });
}

#[test]
fn a_new_path_needs_the_types_of_one_kernel() {
    let mut recorded = BTreeSet::new();
    each_kernel(|_, btf| recorded.extend(paths().into_iter().filter(|path| in_task(btf, path).is_some())));
    let lines = NOT_RECORDED.lines().map(|line| line.split_once(' ').unwrap());
    let nowhere: Vec<_> = lines.filter(|(_, path)| !recorded.contains(path)).collect();
    assert!(nowhere.is_empty(), "cut the types of a kernel that has the field: {nowhere:?}");
}

#[test]
fn every_kernel_has_what_programs_attach_to() {
    each_kernel(|kernel, btf| {
        assert!(btf.find(kind::FUNC, "bpf_iter_task").is_some(), "{kernel}");
        assert!(btf.find(kind::STRUCT, "bpf_iter_meta").is_some(), "{kernel}");
        for tracepoint in ["btf_trace_sched_process_exit", "btf_trace_sched_process_free"] {
            assert!(btf.find(kind::TYPEDEF, tracepoint).is_some(), "{kernel}: {tracepoint}");
        }
        let has_cast = btf.find(kind::FUNC, "bpf_rdonly_cast").is_some();
        assert_eq!(has_cast, !["5.10", "6.1"].contains(&kernel), "{kernel}: added in Linux 6.2");
    });
}

/// Kernel, path, hops, offset and size, by the C compiler from `bpftool btf dump file BTF format c`.
const PLACES: [(&str, &str, &[u32], u32, u32); 8] = [
    ("5.10", "comm", &[], 2736, 16),
    ("5.10", "se.sum_exec_runtime", &[], 200, 8),
    ("5.10", "mm->rss_stat.count[1].counter", &[2056], 720, 8),
    ("6.12", "comm", &[], 2976, 16),
    ("6.12", "mm->rss_stat[1].count", &[2304], 864, 8),
    ("6.12", "thread.fsbase", &[], 5416, 8),
    ("6.12-arm64", "mm->rss_stat[1].count", &[1248], 832, 8),
    ("6.12-arm64", "thread.uw.tp_value", &[], 3136, 8),
];

#[test]
fn places_are_those_of_the_compiler() {
    each_kernel(|kernel, btf| {
        for (_, path, hops, offset, size) in PLACES.iter().filter(|row| row.0 == kernel) {
            let place = in_task(btf, path).unwrap();
            assert_eq!((&*place.hops, place.offset, place.size), (*hops, *offset, *size), "{kernel}: {path}");
        }
    });
}

#[test]
fn no_program_is_emitted_for_a_place_that_no_instruction_can_address() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/btf");
    let types = fs::read(directory.join("6.16.btf")).unwrap();
    // Names follow the types, where the header says.
    let [header, names] = [4, 16].map(|at| u32::from_le_bytes(types[at..at + 4].try_into().unwrap()));
    for at in (0..(header + names) as usize).step_by(4) {
        // Places of fields are in bits.
        let mut types = types.clone();
        types[at..at + 4].copy_from_slice(&(1_u32 << 19).to_le_bytes());
        super::super::fuzz::types(&types);
    }
}
