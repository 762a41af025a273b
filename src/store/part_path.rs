//! Paths of parts of series: `FILE@FROM..TO`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::StoreError;
use super::series::StoredSeries;
use super::source::Stored;
use crate::process::Progress;
use crate::series::SeriesRange;

/// A path, and the part of the series there.
#[derive(Clone, Debug)]
pub struct PartPath {
    /// The path without the part; `-` is standard input.
    pub file: PathBuf,
    /// `None` for all of what is there.
    pub range: Option<SeriesRange>,
}

/// What a path names.
pub enum Input {
    /// A series.
    Series(Box<StoredSeries>),
    /// A snapshot or a window.
    File(Box<Stored>),
    /// A directory without a series.
    Directory,
}

impl PartPath {
    /// The file of a path, and the part of it, unless a file has that very name.
    ///
    /// # Errors
    /// What is wrong with the times of the part.
    pub fn of(path: &Path) -> Result<Self, String> {
        let text = path.to_str().filter(|_| !path.exists());
        let Some((file, range)) = text.and_then(|text| text.rsplit_once('@')) else {
            return Ok(Self { file: path.to_owned(), range: None });
        };
        let file = PathBuf::from(file);
        if !range.contains("..") && !file.exists() {
            return Ok(Self { file: path.to_owned(), range: None });
        }
        Ok(Self { file, range: Some(range.parse()?) })
    }

    /// Opens what the path names.
    ///
    /// # Errors
    /// As [`Stored::open`] and [`Stored::head`], and [`StoreError::NotASeries`] for a part of something else.
    pub fn open(&self, limit: u64, progress: &Arc<Progress>) -> Result<Input, StoreError> {
        let Self { file, range } = self;
        let whole = SeriesRange::default();
        let input = if file.is_dir() {
            let series = StoredSeries::in_directory(file, range.as_ref().unwrap_or(&whole), limit, progress)?;
            series.map_or(Input::Directory, |series| Input::Series(Box::new(series)))
        } else {
            let stored = Stored::open(file, limit, progress)?;
            let series = stored.series()?;
            series.map_or_else(|| Input::File(Box::new(stored)), |series| Input::Series(Box::new(series)))
        };
        match input {
            Input::File(_) | Input::Directory if range.is_some() => Err(StoreError::NotASeries(file.clone())),
            input => Ok(input),
        }
    }
}
