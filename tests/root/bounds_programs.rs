//! Programs that are small on disk and large in memory, or slow to search: all of them together have one budget.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::alone;
use crate::support::{Missing, skipped};

/// The memory that examining programs may take.
const BUDGET: u64 = 64 << 20;

/// A process that has files mapped, until this is dropped.
struct Mapped(Child);

impl Mapped {
    fn new(program: &Path, files: &[PathBuf]) -> Self {
        let mut command = Command::new(program);
        let mut child = command.args(files).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compile(name: &str, to: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
    let program = to.join(name);
    match Command::new("cc").arg("-o").args([&program, &source]).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            skipped(Missing::Tool(format!("cc: {error}")));
            return None;
        }
    }
    Some(program)
}

fn halves(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A section: its name's place, kind, flags, start, size, link and size of an entry.
struct Section(u32, u32, u64, u64, u64, u32, u64);

/// A library with a block of thread-local storage and these sections. The last one has the names of all.
fn write_library(path: &Path, sections: &[Section], parts: &[(u64, &[u8])], size: u64) {
    let machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let count = u16::try_from(sections.len()).unwrap();
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend(halves(&[3, machine]));
    bytes.extend(words(&[1]));
    bytes.extend(longs(&[0, 64, 120]));
    bytes.extend(words(&[0]));
    bytes.extend(halves(&[64, 56, 1, 64, count, count - 1]));
    bytes.extend([words(&[7, 4]), longs(&[0, 0, 0, 4096, 4096, 8])].concat());
    for Section(name, kind, flags, start, size, link, entry) in sections {
        let header =
            [words(&[*name, *kind]), longs(&[*flags, 0, *start, *size]), words(&[*link, 0]), longs(&[1, *entry])];
        bytes.extend(header.concat());
    }
    let file = File::create(path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    parts.iter().for_each(|(start, part)| file.write_all_at(part, *start).unwrap());
    file.set_len(size).unwrap();
}

/// A library with a symbol table of that many bytes, all zeros that take no place on disk.
fn with_sparse_symbols(path: &Path, bytes: u64) {
    let sections =
        [Section(0, 0, 0, 0, 0, 0, 0), Section(0, 2, 0, 4096, bytes, 2, 24), Section(0, 3, 0, 4095, 1, 0, 0)];
    write_library(path, &sections, &[], 4096 + bytes);
}

/// A library of a few KiB with the symbol of jemalloc's data, and debug information that expands to that many bytes.
fn with_compressed_debug_information(path: &Path, bytes: u64) {
    let mut compressed = words(&[2, 0]);
    compressed.extend(longs(&[bytes, 1]));
    let mut encoder = zstd::Encoder::new(compressed, 1).unwrap();
    let zeros = vec![0; 1 << 20];
    (0..bytes >> 20).for_each(|_| encoder.write_all(&zeros).unwrap());
    let compressed = encoder.finish().unwrap();
    let names = b"\0tsd_tls\0.debug_info\0.debug_abbrev\0.debug_str\0";
    // `st_info` is a global object in thread-local storage, of a size that no build of jemalloc has.
    let symbol = [words(&[1]), vec![0x16, 0], halves(&[1]), longs(&[0, 3001])].concat();
    let symbols = [vec![0; 24], symbol].concat();
    let size = u64::try_from(compressed.len()).unwrap();
    let debug = |name| Section(name, 1, 0x800, 4096, size, 0, 0);
    let sections = [
        Section(0, 0, 0, 0, 0, 0, 0),
        Section(0, 2, 0, 1024, 48, 5, 24),
        debug(9),
        debug(21),
        debug(35),
        Section(0, 3, 0, 2048, u64::try_from(names.len()).unwrap(), 0, 0),
    ];
    write_library(path, &sections, &[(1024, &symbols), (2048, names), (4096, &compressed)], 4096 + size);
}

/// What a capture of these processes costs: its peak of memory in bytes, and CPU time in microseconds.
fn cost(measure: &Path, options: &[&str], processes: &[Mapped], file: &Path) -> (u64, u64) {
    let ctprof = env::var_os("CTPROF_ATTACKED").unwrap_or(env!("CARGO_BIN_EXE_ctprof").into());
    let mut capture = Command::new(measure);
    capture
        .arg("60")
        .arg(ctprof)
        .args(["-q", "capture", "--engine", "procfs", "--smaps", "never", "--jobs", "4", "-o"]);
    capture.arg(file).args(options);
    for Mapped(process) in processes {
        capture.args(["--pid", &process.id().to_string()]);
    }
    let said = String::from_utf8(capture.output().unwrap().stdout).unwrap();
    let numbers: Vec<i64> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [0, peak_kib, cpu_us, _] = numbers[..] else { panic!("{said}") };
    (u64::try_from(peak_kib).unwrap() << 10, cpu_us.try_into().unwrap())
}

/// What examining these files costs, in processes that have one each.
fn examined(write: fn(&Path, u64), bytes: u64, count: usize) -> Option<(u64, u64)> {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (measure, maps) = (compile("measure", directory.path())?, compile("maps", directory.path())?);
    let files: Vec<_> = (0..count).map(|number| directory.path().join(format!("{number}.so"))).collect();
    files.iter().for_each(|file| write(file, bytes));
    let processes: Vec<_> = files.chunks(1).map(|file| Mapped::new(&maps, file)).collect();
    let snapshot = directory.path().join("snapshot");
    let (least, least_us) = cost(&measure, &["--no-jemalloc"], &processes, &snapshot);
    let (peak, cpu_us) = cost(&measure, &[], &processes, &snapshot);
    Some((peak.saturating_sub(least), cpu_us.saturating_sub(least_us)))
}

#[test]
fn all_programs_of_a_host_together_are_examined_in_little_memory() {
    let Some((bytes, _)) = examined(with_sparse_symbols, 500 << 20, 4) else { return };
    assert!(bytes < BUDGET + (16 << 20), "{} MiB for four programs of 36 KiB on disk", bytes >> 20);
}

#[test]
fn compressed_debug_information_is_examined_in_little_memory() {
    let Some((bytes, _)) = examined(with_compressed_debug_information, 160 << 20, 1) else { return };
    assert!(bytes < BUDGET + (16 << 20), "{} MiB for a library of a few KiB", bytes >> 20);
}

#[test]
fn the_time_for_all_programs_of_a_host_is_limited() {
    // Each takes a third of a second alone.
    let Some((_, cpu_us)) = examined(with_sparse_symbols, 400 << 20, 8) else { return };
    assert!(cpu_us < 1_500_000, "{cpu_us} us");
}
