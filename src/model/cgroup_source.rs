//! Which file of a cgroup has a value: in version 2, and in the hierarchies of version 1.

/// A file of a cgroup, and the place of a value in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CgroupFile {
    /// The version 1 hierarchy it is in; `None` for version 2.
    pub controller: Option<&'static str>,
    /// Its name.
    pub file: &'static str,
    /// Where in the file the value is.
    pub place: Place,
    /// How it becomes the value of version 2.
    pub conversion: Conversion,
}

/// Where in a file a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// It is the whole file.
    Whole,
    /// After a key and a blank, on a line of their own.
    Key(&'static str),
    /// A word of the first line, counted from 1.
    Word(usize),
}

/// How a number of version 1 becomes the value that version 2 would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conversion {
    /// It is the same.
    Same,
    /// Nanoseconds become microseconds.
    Nanoseconds,
    /// CPU shares become a weight.
    Shares,
    /// A negative number is no limit.
    NegativeIsMax,
    /// A number that no counter of pages can reach is no limit.
    UnreachableIsMax,
    /// The same, of a limit for memory and swap together: less the limit for memory in the file
    /// given, what remains for swap.
    LimitAbove(&'static str),
}

/// A file of version 2.
pub(super) const fn v2(file: &'static str) -> CgroupFile {
    CgroupFile { controller: None, file, place: Place::Whole, conversion: Conversion::Same }
}

/// A file in the version 1 hierarchy of `controller`.
pub(super) const fn v1(controller: &'static str, file: &'static str) -> CgroupFile {
    CgroupFile { controller: Some(controller), ..v2(file) }
}

impl CgroupFile {
    pub(super) const fn key(self, key: &'static str) -> Self {
        Self { place: Place::Key(key), ..self }
    }

    pub(super) const fn word(self, number: usize) -> Self {
        Self { place: Place::Word(number), ..self }
    }

    pub(super) const fn converted(self, conversion: Conversion) -> Self {
        Self { conversion, ..self }
    }

    /// The file and the place in it, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let place = match self.place {
            Place::Whole => String::new(),
            Place::Key(key) => format!(" {key}"),
            Place::Word(number) => format!(" word {number}"),
        };
        let version = if self.controller.is_some() { "v1 " } else { "" };
        let less = match self.conversion {
            Conversion::LimitAbove(below) => format!(" − {below}"),
            _ => String::new(),
        };
        format!("{version}{}{place}{less}", self.file)
    }
}
