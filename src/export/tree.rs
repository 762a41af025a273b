//! The directories of the datasets of a day. Symbolic links in them are not followed, so that nothing is written outside.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use parquet::basic::{ConvertedType, LogicalType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

use super::identity::{StepTime, id_of_file};
use super::{DATASETS, ExportError};
use crate::store::{create_directory, names_in};

/// An open directory: it stays the same if its name is replaced by a link.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) fd: OwnedFd,
    /// Path for messages about the file.
    pub(super) path: PathBuf,
}

const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_RDONLY).union(OFlag::O_CLOEXEC);

impl Directory {
    /// Opens the directory that the user named, and creates it if necessary.
    pub(super) fn create(path: &Path) -> Result<Self, ExportError> {
        let failed = |source| ExportError::output(path, source);
        let directory = create_directory(path).map_err(failed)?;
        let fd = openat(directory, ".", DIRECTORY, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a directory in this one, and creates it if necessary.
    fn child(&self, name: &str) -> Result<Self, ExportError> {
        let path = self.path.join(name);
        match mkdirat(&self.fd, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(ExportError::output(&path, errno.into())),
        }
        match openat(self.fd.as_fd(), name, DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(Errno::ELOOP | Errno::ENOTDIR) => Err(ExportError::NotADirectory(path)),
            Err(errno) => Err(ExportError::output(&path, errno.into())),
        }
    }

    /// Refuses what ctprof 0.3 wrote, of any day: engines read all days together.
    pub(super) fn refuse_old_layout(&self) -> Result<(), ExportError> {
        let in_directory = |path: &Path, start: &str| -> Vec<PathBuf> {
            let paths = fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
            paths
                .filter(|path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(start.as_bytes())))
                .collect()
        };
        let mut days = in_directory(&self.path.join("captures"), "date=").into_iter();
        let old = days.find(|day| !in_directory(day, "host=").is_empty());
        old.map_or(Ok(()), |day| Err(ExportError::OldLayout(day)))
    }

    /// Makes the names of its files last.
    pub(super) fn sync(&self) -> Result<(), ExportError> {
        fsync(&self.fd).map_err(|errno| ExportError::output(&self.path, errno.into()))
    }

    fn names(&self) -> Result<Vec<String>, ExportError> {
        names_in(&self.fd).map_err(|source| ExportError::output(&self.path, source))
    }

    /// Passes on these columns of the rows of a file, whatever program wrote the file.
    fn rows_in(&self, name: &str, columns: &[&str], found: &mut dyn FnMut(&Row)) -> Result<(), ExportError> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let path = || self.path.join(name);
        let file = openat(self.fd.as_fd(), name, flags, Mode::empty());
        let file = file.map_err(|errno| ExportError::output(&path(), errno.into()))?;
        rows(file.into(), columns, found).map_err(|source| ExportError::Unlisted { path: path(), source })
    }

    /// Adds the ids of the captures in a file, of series without steps, and their weights.
    fn captures_in(&self, name: &str, weights: &mut BTreeMap<String, f64>) -> Result<(), ExportError> {
        self.rows_in(name, &[CAPTURE_ID, "weight"], &mut |row| {
            let (mut id, mut weight) = (String::new(), 1.0);
            for (_, field) in row.get_column_iter() {
                match field {
                    Field::Str(text) => id_of_file(text).clone_into(&mut id),
                    Field::Double(number) => weight = *number,
                    _ => {}
                }
            }
            weights.insert(id, weight);
        })
    }

    /// Adds the steps in a file that end after a capture of their host begins.
    fn steps_in(&self, name: &str, begins: &Begins, steps: &mut BTreeSet<StepTime>) -> Result<(), ExportError> {
        self.rows_in(name, &[CAPTURE_ID, "host", "time", "window_ns", "step"], &mut |row| {
            let (mut step, mut is_step) = (StepTime::default(), false);
            for (name, field) in row.get_column_iter() {
                match (&**name, field) {
                    ("host", Field::Str(host)) => step.host = Some(host.clone()),
                    ("time", Field::TimestampMicros(time)) => step.time = (*time).cast_unsigned(),
                    ("window_ns", Field::Long(length)) => step.window_ns = (*length).cast_unsigned(),
                    ("step", Field::Long(_)) => is_step = true,
                    _ => {}
                }
            }
            if is_step && begins.get(&step.host).is_some_and(|begin| step.time > *begin) {
                steps.insert(step);
            }
        })
    }

    fn remove(&self, name: &str) -> Result<(), ExportError> {
        let removed = unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir);
        removed.map_err(|errno| ExportError::output(&self.path.join(name), errno.into()))
    }

    fn is_link(&self, name: &str) -> bool {
        nix::fcntl::readlinkat(&self.fd, name).is_ok()
    }
}

/// The directories of a day, in the order of [`DATASETS`].
pub(super) struct Day(pub(super) [Directory; 4]);

impl Day {
    /// Opens the directories of a day, `date=2026-11-22`, and creates them if necessary.
    pub(super) fn open(root: &Directory, date: &str) -> Result<Self, ExportError> {
        let [threads, cgroups, reasons, captures] = DATASETS.map(|dataset| root.child(dataset)?.child(date));
        Ok(Self([threads?, cgroups?, reasons?, captures?]))
    }

    /// Removes what calls left that did not end, and returns the ids of the captures that are there, with their weights. The caller
    /// has the lock of the root, so that no other call is at work.
    pub(super) fn recover(&self) -> Result<BTreeMap<String, f64>, ExportError> {
        let [data @ .., captures] = &self.0;
        let mut there = BTreeMap::new();
        self.captured()?.iter().try_for_each(|name| captures.captures_in(name, &mut there))?;
        let names = captures.names()?;
        for directory in data {
            let found = directory.names()?;
            for name in found.iter().filter(|name| is_part_name(name) && !names.contains(name)) {
                // Engines may have compacted some datasets before the others: a file with a capture that is there counts.
                let mut left = BTreeMap::new();
                let mut is_left =
                    || directory.captures_in(name, &mut left).map(|()| !left.keys().any(|id| there.contains_key(id)));
                if directory.is_link(name) || is_left()? {
                    directory.remove(name)?;
                }
            }
        }
        for directory in &self.0 {
            let found = directory.names()?;
            found.iter().filter(|name| name.starts_with(".ctprof-")).try_for_each(|name| directory.remove(name))?;
        }
        Ok(there)
    }

    /// The steps that are there, and that later parts of their series can have too: of these hosts, after these times.
    pub(super) fn steps(&self, begins: &Begins) -> Result<BTreeSet<StepTime>, ExportError> {
        let mut steps = BTreeSet::new();
        let [.., captures] = &self.0;
        self.captured()?.iter().try_for_each(|name| captures.steps_in(name, begins, &mut steps))?;
        Ok(steps)
    }

    /// The names of the files with captures.
    fn captured(&self) -> Result<Vec<String>, ExportError> {
        let [.., captures] = &self.0;
        let mut names = captures.names()?;
        names.retain(|name| name.ends_with(".parquet") && !name.starts_with('.'));
        Ok(names)
    }
}

/// When the first capture of each host begins, in microseconds since 1970.
pub(super) type Begins = HashMap<Option<String>, u64>;

const CAPTURE_ID: &str = "capture_id";

fn rows(file: File, columns: &[&str], found: &mut dyn FnMut(&Row)) -> ParquetResult<()> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema();
    let all = schema.get_fields().iter();
    let fields: Vec<_> = all.filter(|field| columns.contains(&field.name())).cloned().collect();
    let id = fields.iter().find(|field| field.name() == CAPTURE_ID);
    let id = id.ok_or_else(|| ParquetError::General("it has no column capture_id".to_owned()))?;
    let info = id.get_basic_info();
    if info.converted_type() != ConvertedType::UTF8 && info.logical_type_ref() != Some(&LogicalType::String) {
        return Err(ParquetError::General("its column capture_id is not text".to_owned()));
    }
    let columns = Type::group_type_builder(schema.name()).with_fields(fields).build()?;
    reader.get_row_iter(Some(columns))?.try_for_each(|row| row.map(|row| found(&row)))
}

/// The name of a file with these captures: the same for the same ones.
pub(super) fn part_name(captures: &[&str]) -> String {
    let mut captures = captures.to_vec();
    captures.sort_unstable();
    let hash = blake3::hash(captures.join("\n").as_bytes()).to_hex();
    format!("ctprof-{}.parquet", &hash[..32])
}

fn is_part_name(name: &str) -> bool {
    let id = name.strip_prefix("ctprof-").and_then(|rest| rest.strip_suffix(".parquet"));
    id.is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
