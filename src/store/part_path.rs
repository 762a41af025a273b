//! Paths of parts of series: `FILE@FROM..TO`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::StoreError;
use super::segments::{of_part, segments_in};
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

/// Input that a path names.
pub enum Input {
    /// A stored series of steps.
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
    pub fn parse(path: &Path) -> Result<Self, String> {
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

    /// The part by dates, so that a recorder that removes the first segments of a directory does not change it.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn dated(self) -> io::Result<Self> {
        let Some(range) = self.range.as_ref().filter(|_| self.file.is_dir()) else { return Ok(self) };
        let ends = of_part(&self.file, &segments_in(&self.file)?, range).map(|(ends, _)| ends);
        Ok(Self { range: Some(ends.map_or_else(|| range.clone(), |ends| range.dated(ends))), file: self.file })
    }

    /// The file, or the segments of the directory in which the part is.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn files(&self) -> io::Result<Vec<PathBuf>> {
        let Some(range) = self.range.as_ref().filter(|_| self.file.is_dir()) else {
            return Ok(vec![self.file.clone()]);
        };
        let segments = segments_in(&self.file)?;
        let of_part = of_part(&self.file, &segments, range).and_then(|(_, of_part)| segments.get(of_part));
        Ok(of_part.into_iter().flatten().map(|segment| self.file.join(&segment.name)).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_an_at_sign_is_a_part_if_it_looks_like_one_or_the_file_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        ["s", "a@b"].iter().for_each(|name| std::fs::write(path(name), "").unwrap());
        let file = |name: &str| PartPath::parse(&path(name)).map(|part| (part.file, part.range.is_some()));
        assert_eq!(file("a@b"), Ok((path("a@b"), false)), "there is such a file");
        assert_eq!(file("s@1s..2s"), Ok((path("s"), true)));
        assert_eq!(file("none@1s..2s"), Ok((path("none"), true)));
        assert_eq!(file("none@1s"), Ok((path("none@1s"), false)));
        assert!(file("s@1s").is_err(), "the dots are missing");
    }
}
